"""Batches with mlx-lm's own architectures: the same tokens as alone, or a trial finds that they differ."""

from __future__ import annotations

import importlib.util
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from chatcli.engine import generate
from chatcli.engine.batch import Batch, is_exact
from chatcli.engine.generate import GenerationRequest
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model.load import LoadedModel
from chatcli.settings.values import Sampling
from tests.support.architectures import ARCHITECTURES, PROMPT, VOCABULARY, build

# Tokens before each sequence, and those of its prompt that are left to run.
SHAPES = [(90, 1), (60, 4), (101, 2), (33, 1), (120, 7), (75, 1), (20, 3)]
AT_ONCE, TOKENS = 3, 40
# One of each kind of cache and of each way in which a model's code does not know batches.
BY_DAY = ["mamba", "gemma2", "minimax_m3_vl"]
CASES = [
    name if name in BY_DAY else pytest.param(name, marks=pytest.mark.slow)
    for name in ARCHITECTURES
    if importlib.util.find_spec(f"mlx_lm.models.{name}")
]


@pytest.fixture(scope="module")
def tokenizer() -> TokenizerWrapper:
    word_level = models.WordLevel({f"w{number}": number for number in range(VOCABULARY)}, "w0")
    inner = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(word_level))
    return TokenizerWrapper(inner, eos_token_ids=[VOCABULARY])


def tokens(number: int, count: int, start: int = 0) -> list[int]:
    """So many of sequence `number`'s tokens."""
    return [(token + number * 7) % VOCABULARY for token in PROMPT[start : start + count]]


def prefilled(loaded: LoadedModel, number: int) -> PromptCache:
    cache = prompt_cache.new(loaded.model)
    for _ in generate.prefill(loaded, cache, tokens(number, SHAPES[number][0]), RowLog()):
        pass
    return cache


def tail(number: int) -> list[int]:
    return tokens(number, SHAPES[number][1], 140)


def longest(number: int) -> int:
    """Different, so that sequences leave and others join."""
    return TOKENS - 3 * number


def alone(loaded: LoadedModel, number: int) -> list[int]:
    sampling, never = Sampling(max_tokens=longest(number)), threading.Event()
    request = GenerationRequest(tail(number), sampling, 1000)
    reply = generate.generate(loaded, prefilled(loaded, number), request, never, RowLog())
    return [token.id for token in reply]


def together(loaded: LoadedModel, reads_together: bool) -> list[list[int]]:
    batch = Batch(loaded, reads_together)
    waiting: Iterator[int] = iter(range(len(SHAPES)))
    replies: list[list[int]] = [[] for _ in SHAPES]
    running: dict[int, int] = {}
    while True:
        while len(running) < AT_ONCE and (number := next(waiting, None)) is not None:
            sampling = Sampling(max_tokens=longest(number))
            running[batch.add(prefilled(loaded, number), GenerationRequest(tail(number), sampling, 1000))] = (
                number
            )
        if not running:
            batch.close()
            return replies
        deque(batch.read(), maxlen=0)
        for sequence, token in batch.step():
            replies[running[sequence]].append(token.id)
            if token.finish_reason:
                del running[sequence]


@pytest.mark.parametrize("architecture", CASES)
def test_a_batch_is_right_or_is_not_used(architecture: str, tokenizer: TokenizerWrapper) -> None:
    loaded = LoadedModel(architecture, build(architecture), tokenizer, "f" * 32, 1024, 16)
    exact = partial(is_exact, loaded, prefilled(loaded, 0), tail(0))
    if (reads_together := exact()) or exact(reads_together=False):
        expected = [alone(loaded, number) for number in range(len(SHAPES))]
        assert expected == together(loaded, reads_together)
    else:
        cache = prompt_cache.new(loaded.model)
        assert architecture in DIFFERENT or not prompt_cache.can_merge(cache)


@pytest.mark.slow
def test_lengths_that_are_padded_to_few_change_no_token(tokenizer: TokenizerWrapper) -> None:
    loaded = LoadedModel("qwen3", build("qwen3"), tokenizer, "f" * 32, 1024, 16, plans_attention=True)
    expected = [alone(loaded, number) for number in range(len(SHAPES))]
    assert expected == together(loaded, reads_together=True)


def test_a_prompt_that_cannot_be_read_leaves_the_others(tokenizer: TokenizerWrapper) -> None:
    loaded = LoadedModel("qwen3", build("qwen3"), tokenizer, "f" * 32, 1024, 16)
    batch, sampling = Batch(loaded), Sampling(max_tokens=longest(1))
    number = batch.add(prefilled(loaded, 1), GenerationRequest(tail(1), sampling, 1000))
    deque(batch.read(), maxlen=0)
    lost = batch.add([object()], GenerationRequest(tail(2), sampling, 1000))
    with pytest.raises(ValueError, match="batching"):
        deque(batch.read(), maxlen=0)
    assert number in batch and lost not in batch
    assert alone(loaded, 1) == [token.id for _ in range(longest(1)) for _, token in batch.step()]


# Their code in mlx-lm takes one position for a whole batch, or one shape of its mask.
DIFFERENT = {"afm7", "gemma2", "gpt_bigcode", "minimax_m3_vl"}
