"""Speculative decoding: a draft model guesses tokens, and the model checks several at once.

Afterwards both caches hold exactly the reply, and the reply is the same as without a draft model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generation_stream

from chatcli.engine import embeddings
from chatcli.engine.decode import decode
from chatcli.engine.generate import GenerationRequest, Token, generate, log_rows
from chatcli.engine.known_costs import Measure
from chatcli.errors import DraftModelRefused
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog, Snapshot
from chatcli.model.load import UNLIMITED, LoadedModel
from chatcli.store.segments.token_path import common_prefix
from chatcli.threads.mlx_thread import StopSignal

# Tokenizers of equal size that encode this text identically are assumed to have the same vocabulary.
PROBE = "The quick brown fox, 0123456789: naïve 你好\n\n\tif x_1 != [y]: return 'Lisbon'"


@dataclass(frozen=True)
class SpeculationLimits:
    """What a model and its draft model have in common.

    `logits` is the number of the model's logits. `max_cached_tokens` is the most tokens that its cache may
    hold while it can still run several at once; None means any number.
    """

    logits: int
    max_cached_tokens: int | None

    def room(self, used: int, num_draft_tokens: int) -> int:
        """How many tokens may be generated after `used`, with this many proposed at a time; below 1: none."""
        if self.max_cached_tokens is None:
            return UNLIMITED
        return self.max_cached_tokens - used - num_draft_tokens - 1


@dataclass(frozen=True)
class Speculator:
    """A draft model with its live cache, which holds the same tokens as the model's.

    It proposes `num_draft_tokens` at a time. `log` is discarded if its cache falls behind.
    """

    loaded: LoadedModel
    cache: PromptCache
    log: RowLog
    num_draft_tokens: int
    limits: SpeculationLimits


def speculation_limits(loaded: LoadedModel, draft: LoadedModel) -> SpeculationLimits:
    """Check `draft` as the draft model of `loaded`. Raises `DraftModelRefused` if it cannot be one."""
    models = (loaded, draft)
    caches = [prompt_cache.new(each.model, each.model_options) for each in models]
    # By shapes alone: nothing is computed.
    logits, draft_logits = (
        each.model(mx.zeros((1, 1), mx.int32), cache=cache).shape[-1]
        for each, cache in zip(models, caches, strict=True)
    )
    vocabulary, draft_vocabulary = (
        (each.tokenizer.vocab_size, each.tokenizer.encode(PROBE, add_special_tokens=False)) for each in models
    )
    too_few = draft_logits < min(logits, len(loaded.tokenizer.get_vocab()))
    if vocabulary != draft_vocabulary or too_few:
        raise DraftModelRefused(
            f"The draft model '{draft.name}' has a different vocabulary from the model '{loaded.name}': "
            "choose a smaller one of the same family, or use no draft model."
        )
    most = prompt_cache.most_in_one_pass(loaded.model, caches[0])
    return SpeculationLimits(logits, None if most is None else most - 1)


def generate_with_draft(
    speculator: Speculator,
    loaded: LoadedModel,
    cache: PromptCache,
    request: GenerationRequest,
    cancelled: StopSignal,
    log: RowLog,
) -> Iterator[Token]:
    """As `generate`, with a draft model, whose cache then also holds every yielded token.

    If the model cannot run several tokens at once any more, or the tail has an image, the reply continues
    without the draft model, and its log is discarded.
    """
    if embeddings.has_images(loaded, request.tail):
        speculator.log.discard()
        yield from generate(loaded, cache, request, cancelled, log)
    else:
        tail = embeddings.vocabulary_tokens(loaded, request.tail)
        yield from decode(_Draft(speculator, tail), loaded, cache, request, cancelled, log)


class _Draft:
    """A `Guesser` that proposes the draft model's likeliest tokens, computed on a cache of its own."""

    is_draft = True

    def __init__(self, speculator: Speculator, tail: Sequence[int]) -> None:
        self._speculator, self._cache, self._log = speculator, speculator.cache, speculator.log
        # Known tokens that the cache lacks.
        self._waiting = list(tail)
        # More waiting tokens than this at the end mean that guessing stopped and the cache fell behind.
        self._most_left = len(tail) + speculator.num_draft_tokens + 1
        # The guesses that were run on its cache, and the cache's snapshot before them.
        self._run: list[int] = []
        self._before: Snapshot | None = None
        self._unlogged = 0
        self._log_interval = (prompt_cache.shortest_window(self._cache) or UNLIMITED) // 2

    def begin(self, prompt: Sequence[int], elsewhere: Sequence[str], measure: Measure) -> None:
        """Nothing to do: it already has the prompt's tail."""

    def waits(self) -> bool:
        return True

    def guess(self, most: int, waiting: int, *, is_rerun: bool) -> list[int]:
        count = min(most, self._speculator.num_draft_tokens)
        if count <= 0:
            return []
        newest = self._run_waiting()
        self._before = prompt_cache.snapshot(self._cache, 0)
        guessed = [newest]
        with mx.stream(generation_stream):
            for _ in range(count - 1):
                guessed.append(self._likeliest(guessed[-1]))
                mx.async_eval(guessed[-1])  # type: ignore[no-untyped-call]
            tokens: Any = mx.concatenate(guessed).tolist()
        self._run = tokens[:-1]
        return list(tokens)

    def took(self, tokens: Sequence[int]) -> None:
        held = 0
        if self._before is not None:
            right = common_prefix(self._run, tokens)
            held = prompt_cache.take_back(self._cache, self._before, len(self._run), right, in_one_pass=False)
        self._unlogged += held
        self._waiting += tokens[held:]
        self._run, self._before = [], None

    def finish(self) -> None:
        if len(self._waiting) > self._most_left:
            self._log.discard()
            return
        self._run_waiting()
        with mx.stream(generation_stream):
            prompt_cache.evaluate(self._cache)
        log_rows(self._cache, self._unlogged, self._log)

    def _run_waiting(self) -> Any:
        """Run the tokens that the cache lacks. Returns the likeliest next token, an array of one."""
        step = self._speculator.loaded.prefill_step
        newest: Any = None
        with mx.stream(generation_stream):
            for start in range(0, len(self._waiting), step):
                newest = self._likeliest(mx.array(self._waiting[start : start + step]))
                mx.async_eval(newest)  # type: ignore[no-untyped-call]
        self._unlogged += len(self._waiting)
        self._waiting, self._most_left = [], self._speculator.num_draft_tokens + 1
        if self._unlogged >= self._log_interval:
            log_rows(self._cache, self._unlogged, self._log)
            self._unlogged = 0
        return newest

    def _likeliest(self, tokens: Any) -> Any:
        """The likeliest next token that the model also has: a padded vocabulary may be longer."""
        logits = self._speculator.loaded.model(tokens[None], cache=self._cache)[0, -1:]
        return mx.argmax(logits[:, : self._speculator.limits.logits], axis=-1)
