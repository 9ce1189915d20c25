"""Several sequences that generate together: mlx-lm's `BatchGenerator`, each with a cache of its own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, generate_step, generation_stream

from chatcli.engine import embeddings, generate
from chatcli.engine.generate import GenerationRequest, Token
from chatcli.engine.sampling import Sampler, sampler_for, seeded
from chatcli.errors import MemoryFull
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.settings.values import Sampling

# More sequences in a batch gain little: each step reads the weights once, but every cache.
MAX_SEQUENCES = 16
# How many copies of a sequence's cache there may be at a time while it is merged into the batch.
MERGE_COPIES = 3
# A trial's steps, how many tokens its second prompt is longer, and how long the third prompt is: longer
# than any n-gram that a model keeps, or mlx-lm cannot merge the caches.
TRIAL_STEPS, TRIAL_LONGER, TRIAL_SHORT = 8, 5, 8
# The mean difference that rounding may make: a part of the standard deviation, at least so many epsilons.
TOLERANCE, TOLERANCE_EPSILONS = 1e-3, 8
# What MLX and mlx-lm raise where a model's code cannot run batches.
NOT_BATCHABLE = (
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    RuntimeError,
    NotImplementedError,
    MemoryFull,
)


def max_sequences(cache: PromptCache, allowed_bytes: int | None = None) -> int:
    """How many sequences that begin with this cache fit in memory, 1 to `MAX_SEQUENCES`.

    `allowed_bytes` may be taken in all; None: what the device has.
    """
    limits = [limit for limit in (device.room(), allowed_bytes) if limit is not None]
    if not limits:
        return MAX_SEQUENCES
    free = min(limits) - mx.get_active_memory()
    return max(1, min(MAX_SEQUENCES, free // max(MERGE_COPIES * prompt_cache.nbytes(cache), 1)))


@dataclass
class _Sequence:
    """One reply so far: its text, its tokens, and when the first of them came."""

    detokenizer: Any
    likeliest: int = 0
    first_time: float | None = None
    tokens: int = 0

    def count(self) -> float:
        """Count a token. Returns tokens per second since the first."""
        now = time.perf_counter()
        self.tokens += 1
        self.first_time = self.first_time or now
        return self.tokens / max(now - self.first_time, 1e-9)


@dataclass
class Batch:
    """Up to `size` sequences that generate together. One may join at any time; one that ends leaves."""

    loaded: LoadedModel
    size: int
    _sequences: dict[int, _Sequence] = field(default_factory=dict)
    _samplers: dict[Sampling, Sampler] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._generator = BatchGenerator(
            self.loaded.model,
            stop_tokens=[[token] for token in self.loaded.tokenizer.eos_token_ids],
            completion_batch_size=self.size,
            prefill_batch_size=self.size,
            prefill_step_size=self.loaded.prefill_step,
            stream=generation_stream,
        )

    def add(self, cache: PromptCache, request: GenerationRequest) -> int:
        """Go on from `cache` with a request that continues no reply. Returns the sequence's number."""
        tail, sampling = request.tail, request.sampling
        _prefill_all_but_last(self.loaded, cache, tail)
        (number,) = self._generator.insert(
            [list(tail[-1:])],
            [generate.max_tokens(sampling, request.room)],
            caches=[cache],
            samplers=[self._sampler(sampling)],
            logits_processors=[
                generate.logits_processors(
                    self.loaded, sampling, request.generation_prompt, prefix=request.prefix
                )
            ],
            all_tokens=[embeddings.vocabulary_tokens(self.loaded, tail[:-1])],
        )
        self._sequences[number] = _Sequence(self.loaded.tokenizer.detokenizer, request.likeliest)
        return int(number)

    def step(self) -> list[tuple[int, Token]]:
        """One more token of each sequence, with its number; none if there are no sequences."""
        tokens = [self._token(response) for response in self._generator.next_generated()]
        mx.async_eval([token.logprob for _, token in tokens])  # type: ignore[no-untyped-call]
        return tokens

    def _token(self, response: Any) -> tuple[int, Token]:
        number, reason = int(response.uid), response.finish_reason
        sequence = self._sequences[number]
        with mx.stream(generation_stream):
            logprob = response.logprobs[response.token]
        likeliest = generate.likeliest_tokens(response.logprobs, sequence.likeliest)
        if reason is not None:
            del self._sequences[number]
        text = generate.added_text(sequence.detokenizer, response.token, reason)
        token = Token(response.token, text, logprob, sequence.count(), reason, likeliest=likeliest)
        return number, token

    def drop(self, number: int) -> None:
        """Give up a sequence, unless it has ended."""
        if self._sequences.pop(number, None) is not None:
            self._generator.remove([number])

    def close(self) -> None:
        """Give up the sequences that have not ended."""
        self._generator.remove(list(self._sequences))
        self._generator.close()

    def _sampler(self, sampling: Sampling) -> Sampler:
        """The same one for all that sample alike, which mlx-lm then samples at once."""
        if sampling not in self._samplers:
            self._samplers[sampling] = sampler_for(self.loaded.tokenizer, sampling)
        sampler = self._samplers[sampling]
        return seeded(sampler, sampling)


def _prefill_all_but_last(loaded: LoadedModel, cache: PromptCache, tail: Sequence[int]) -> None:
    """Alone, because a batch of prompts is padded, which not every recurrent layer takes into account."""
    deque(generate.prefill(loaded, cache, tail[:-1], RowLog()), maxlen=0)


# The likeliest token of each step, and the logprobs that it was chosen by.
Steps = list[tuple[int, mx.array]]


def is_exact(loaded: LoadedModel, cache: PromptCache, tail: Sequence[int]) -> bool:
    """Whether this model generates the same in a batch as alone, which not every architecture's code does.

    A few tokens after `cache` and `tail` are generated both ways, beside a longer and a short sequence.
    """
    if not prompt_cache.can_merge(cache):
        return False
    # A trial only: images may stand as tokens that no conversation has.
    tail = embeddings.vocabulary_tokens(loaded, tail)
    longer = [*tail, *islice(cycle(tail), TRIAL_LONGER)]
    short = prompt_cache.new(loaded.model, loaded.model_options), [tail[0]] * TRIAL_SHORT
    prompts = [(cache, list(tail)), (cache, longer), short]
    try:
        batched = _generate_batched(loaded, prompts)
    except NOT_BATCHABLE:
        return False
    return all(
        _differ_by_rounding(steps, _generate_alone(loaded, prompt_cache.fork(before), tokens))
        for steps, (before, tokens) in zip(batched, prompts, strict=True)
    )


def _generate_alone(loaded: LoadedModel, cache: PromptCache, tokens: Sequence[int]) -> Steps:
    steps = generate_step(
        mx.array(list(tokens)),
        loaded.model,
        max_tokens=TRIAL_STEPS,
        prompt_cache=cache,
        prefill_step_size=loaded.prefill_step,
    )
    return [(int(token), logprobs) for token, logprobs in steps]


def _generate_batched(loaded: LoadedModel, prompts: Sequence[tuple[PromptCache, list[int]]]) -> list[Steps]:
    generator = BatchGenerator(loaded.model, stream=generation_stream)
    caches = [prompt_cache.fork(cache) for cache, _ in prompts]
    for cache, (_, tokens) in zip(caches, prompts, strict=True):
        _prefill_all_but_last(loaded, cache, tokens)
    last_tokens = [tokens[-1:] for _, tokens in prompts]
    numbers = generator.insert(last_tokens, [TRIAL_STEPS] * len(prompts), caches=caches)
    steps: dict[int, Steps] = {number: [] for number in numbers}
    while responses := generator.next_generated():
        for response in responses:
            steps[response.uid].append((response.token, response.logprobs))
    generator.close()
    return [steps[number] for number in numbers]


def _differ_by_rounding(batched: Steps, alone: Steps) -> bool:
    """Whether the logprobs differ by rounding only, up to where another token was chosen."""
    for (token, logprobs), (expected_token, expected) in zip(batched, alone, strict=True):
        exact = expected.astype(mx.float32)
        difference = mx.mean(mx.abs(logprobs.astype(mx.float32) - exact))
        tolerance = max(TOLERANCE, TOLERANCE_EPSILONS * mx.finfo(expected.dtype).eps)
        if not (difference <= tolerance * mx.std(exact)).item():
            return False
        if token != expected_token:
            return True
    return True
