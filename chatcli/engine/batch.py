"""Prefill and generation of several sequences at once, in mlx-lm's batches, each from its own cache."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import mlx.core as mx
from mlx_lm.generate import (
    GenerationBatch,
    PromptProcessingBatch,
    StopSequences,
    generate_step,
    generation_stream,
)
from mlx_lm.models.cache import BatchKVCache

from chatcli.engine import embeddings, generate
from chatcli.engine.generate import GenerationRequest, Token
from chatcli.engine.sampling import LogitsProcessor, Sampler, sampler_for, seeded
from chatcli.errors import MemoryFull
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.settings.values import Sampling
from chatcli.threads.mlx_thread import StopSignal

# As many as mlx-lm's server generates at once. Each step loads the weights once, but every sequence's cache.
MAX_SEQUENCES = 32
# The most copies of a sequence's cache that exist at once while it is merged into the batch.
MERGE_COPIES = 3
# If MLX plans attention for each pair of lengths, prompts that are prefilled together, and the cached rows
# before them, are padded to multiples of these, so that few plans are needed.
PADDED_TOKENS, PADDED_ROWS = 32, 256
# MLX's cache of freed buffers is cleared after this many steps, as in mlx-lm.
CLEAR_STEPS = 512
# A trial's steps, how many tokens longer its second prompt is, and its third prompt's length: longer than any
# n-gram that a model keeps, or mlx-lm cannot merge the caches.
TRIAL_STEPS, TRIAL_LONGER, TRIAL_SHORT = 8, 5, 8
# The largest mean difference attributed to rounding: this fraction of the standard deviation, or this many
# epsilons if that is more.
TOLERANCE, TOLERANCE_EPSILONS = 1e-3, 8
# What MLX and mlx-lm raise if a model's code cannot run batches.
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

    `allowed_bytes` limits the process's total; None: only the device's memory does.
    """
    limits = [limit for limit in (device.room(), allowed_bytes) if limit is not None]
    if not limits:
        return MAX_SEQUENCES
    free = min(limits) - mx.get_active_memory()
    return max(1, min(MAX_SEQUENCES, free // max(MERGE_COPIES * prompt_cache.nbytes(cache), 1)))


@dataclass
class _Sequence:
    """A reply so far: its text, its number of tokens, and the time of the first."""

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


@dataclass(frozen=True)
class _Joining:
    """A sequence whose last `tokens` must still be prefilled; its cache has the tokens `before` them."""

    number: int
    cache: PromptCache
    tokens: Sequence[int]
    before: Sequence[int]
    max_tokens: int
    sampler: Sampler
    processors: list[LogitsProcessor]


@dataclass
class Batch:
    """Sequences that generate together. A sequence may join at any time, and leaves when it ends.

    `reads_together`: this model's code can prefill prompts of different lengths in one pass. If not, each is
    prefilled alone, and joins with its last token.
    """

    loaded: LoadedModel
    reads_together: bool = True
    _sequences: dict[int, _Sequence] = field(default_factory=dict)
    _samplers: dict[Sampling, Sampler] = field(default_factory=dict)
    _joining: list[_Joining] = field(default_factory=list)
    _numbers: int = 0
    _steps: int = 0

    def __post_init__(self) -> None:
        self._generating = GenerationBatch.empty(self.loaded.model, None)
        self._stop = StopSequences([[token] for token in self.loaded.tokenizer.eos_token_ids])

    def add(self, cache: PromptCache, request: GenerationRequest) -> int:
        """Continue from `cache` with a request, after the next `read`.

        Returns the sequence's number.
        """
        tail, sampling = list(request.tail), request.sampling
        # Images are tokens below zero; only a prompt that is prefilled alone can embed them.
        own = len(tail) if self.reads_together and min(tail) >= 0 else 1
        if own < len(tail):
            _prefill_all_but_last(self.loaded, cache, tail)
        self._numbers += 1
        joining = _Joining(
            self._numbers,
            cache,
            embeddings.vocabulary_tokens(self.loaded, tail[-own:]),
            embeddings.vocabulary_tokens(self.loaded, tail[:-own]),
            generate.max_tokens(sampling, request.room),
            self._sampler(sampling),
            generate.logits_processors(self.loaded, request),
        )
        self._joining.append(joining)
        detokenizer = generate.detokenizer_after(self.loaded, request.reply_start)
        self._sequences[self._numbers] = _Sequence(detokenizer, request.likeliest)
        return self._numbers

    def read(self, others: StopSignal | None = None) -> Iterator[int]:
        """Prefill the sequences that were added since the last call, all in one pass.

        While `others` is set it yields 0 between layers, so that the running sequences can step. An error
        ends only the sequences that are being prefilled.
        """
        joining, self._joining = self._joining, []
        if not joining:
            return
        try:
            prompts = _prompts(self.loaded, joining, self._stop)
            yield from _read_together(self.loaded, prompts, [each.tokens[:-1] for each in joining], others)
        except Exception:
            for each in joining:
                self._sequences.pop(each.number, None)
            raise
        with device.explained(), mx.stream(generation_stream):
            kept = [index for index, each in enumerate(joining) if each.number in self._sequences]
            if len(kept) < len(joining):
                prompts.filter(kept)
            if kept:
                last = [list(joining[index].tokens[-1:]) for index in kept]
                self._generating.extend(prompts.generate(last))

    def step(self) -> list[tuple[int, Token]]:
        """Generate a token of each prefilled sequence; returns them with the sequences' numbers."""
        with device.explained(), mx.stream(generation_stream):
            responses = self._generating.next()
        tokens = [self._token(response) for response in responses]
        mx.async_eval([token.logprob for _, token in tokens])  # type: ignore[no-untyped-call]
        self._steps += 1
        if self._steps % CLEAR_STEPS == 0:
            mx.clear_cache()
        return tokens

    @property
    def joining(self) -> int:
        """The number of sequences that wait for the next `read`."""
        return len(self._joining)

    @property
    def generating(self) -> int:
        """The number of sequences that get a token from each step."""
        return len(self._generating)

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

    def __contains__(self, number: int) -> bool:
        """Whether a sequence has not ended."""
        return number in self._sequences

    def drop(self, number: int) -> None:
        """Drop a sequence, unless it has ended. One that is being prefilled leaves after the prefill."""
        if self._sequences.pop(number, None) is None:
            return
        self._joining = [each for each in self._joining if each.number != number]
        kept = [index for index, each in enumerate(self._generating.uids) if each != number]
        if len(kept) < len(self._generating):
            with mx.stream(generation_stream):
                self._generating.filter(kept)

    def close(self) -> None:
        """Drop the sequences that have not ended."""
        for number in list(self._sequences):
            self.drop(number)

    def _sampler(self, sampling: Sampling) -> Sampler:
        """A sampler shared by sequences with equal settings, which mlx-lm then samples in one call."""
        if sampling not in self._samplers:
            self._samplers[sampling] = sampler_for(self.loaded.tokenizer, sampling)
        sampler = self._samplers[sampling]
        return seeded(sampler, sampling)


def _prefill_all_but_last(loaded: LoadedModel, cache: PromptCache, tail: Sequence[int]) -> None:
    deque(generate.prefill(loaded, cache, tail[:-1], RowLog()), maxlen=0)


def _prompts(loaded: LoadedModel, joining: Sequence[_Joining], stop: StopSequences) -> PromptProcessingBatch:
    with device.explained(), mx.stream(generation_stream):
        prompts = PromptProcessingBatch(
            loaded.model,
            [each.number for each in joining],
            [each.cache for each in joining],
            tokens=[list(each.before) for each in joining],
            prefill_step_size=loaded.prefill_step,
            samplers=[each.sampler for each in joining],
            logits_processors=[each.processors for each in joining],
            stop_sequences=[stop] * len(joining),
            max_tokens=[each.max_tokens for each in joining],
        )
        for part in prompts.prompt_cache if loaded.plans_attention else ():
            if type(part) is BatchKVCache and part.keys is not None:
                _pad_rows(part, -part.size() % PADDED_ROWS)
    return prompts


def _pad_rows(part: BatchKVCache, count: int) -> None:
    """Shift the rows of a merged cache to the right. The mask hides the padding before them."""
    widths = [(0, 0), (0, 0), (count, 0), (0, 0)]
    keys, values, offset, left_padding, end = part.state
    part.state = mx.pad(keys, widths), mx.pad(values, widths), offset, left_padding + count, end + count


def _read_together(
    loaded: LoadedModel,
    prompts: PromptProcessingBatch,
    tokens: Sequence[Sequence[int]],
    others: StopSignal | None = None,
) -> Iterator[int]:
    """`PromptProcessingBatch.prompt` with places to stop, and with padded lengths that need few plans.

    Pads shorter prompts on the right, then shifts the caches to the right, as mlx-lm does.
    """
    lengths = [len(each) for each in tokens]
    longest = max(lengths)
    if loaded.plans_attention:
        longest += -longest % PADDED_TOKENS
    padding = [longest - length for length in lengths]
    for own, read in zip(prompts.tokens, tokens, strict=True):
        own += read
    with mx.stream(generation_stream):
        ids = mx.array([[*each, *[0] * count] for each, count in zip(tokens, padding, strict=True)])
        for part in prompts.prompt_cache if any(padding) else ():
            part.prepare(lengths=lengths, right_padding=padding)
    for start in range(0, longest, loaded.prefill_step):
        with device.explained(), mx.stream(generation_stream):
            loaded.model(ids[:, start : start + loaded.prefill_step], cache=prompts.prompt_cache)
        for part in prompts.prompt_cache[:-1] if others is not None else ():
            with device.explained():
                mx.eval(part.state)
            if others is not None and others.is_set():
                yield 0
        with device.explained():
            mx.eval([part.state for part in prompts.prompt_cache])
        yield 0
    with device.explained(), mx.stream(generation_stream):
        for part in prompts.prompt_cache if any(padding) else ():
            part.finalize()
        mx.eval([part.state for part in prompts.prompt_cache])


# The likeliest token of each step, and the logprobs it was chosen from.
Steps = list[tuple[int, mx.array]]


def is_exact(
    loaded: LoadedModel, cache: PromptCache, tail: Sequence[int], *, reads_together: bool = True
) -> bool:
    """Whether this model generates the same in a batch as alone: not every architecture's code does.

    Generates a few tokens both ways after `cache` and `tail`, together with a sequence that has a single
    token to prefill and with a short one. `reads_together` is as in `Batch`.
    """
    if not prompt_cache.can_merge(cache):
        return False
    # This is only a trial, so any token may stand for an image.
    tail = embeddings.vocabulary_tokens(loaded, tail)
    longer = [*tail, *islice(cycle(tail), TRIAL_LONGER)]
    short = prompt_cache.new(loaded.model, loaded.model_options), [tail[0]] * TRIAL_SHORT
    prompts = [(cache, list(tail[:1])), (cache, longer), short]
    try:
        batched = _generate_batched(loaded, prompts, reads_together)
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


def _generate_batched(
    loaded: LoadedModel, prompts: Sequence[tuple[PromptCache, list[int]]], reads_together: bool
) -> list[Steps]:
    joining = []
    for number, (before, tokens) in enumerate(prompts):
        cache = prompt_cache.fork(before)
        if not reads_together:
            _prefill_all_but_last(loaded, cache, tokens)
            tokens = tokens[-1:]
        joining.append(_Joining(number, cache, tokens, (), TRIAL_STEPS, sampler_for(None, Sampling()), []))
    together = _prompts(loaded, joining, StopSequences())
    deque(_read_together(loaded, together, [each.tokens[:-1] for each in joining]), maxlen=0)
    steps: list[Steps] = [[] for _ in prompts]
    with mx.stream(generation_stream):
        generating = together.generate([list(each.tokens[-1:]) for each in joining])
        while responses := generating.next():
            for response in responses:
                steps[response.uid].append((response.token, response.logprobs))
    return steps


def _differ_by_rounding(batched: Steps, alone: Steps) -> bool:
    """Whether the logprobs differ only by rounding, up to the first step that chose another token."""
    for (token, logprobs), (expected_token, expected) in zip(batched, alone, strict=True):
        exact = expected.astype(mx.float32)
        difference = mx.mean(mx.abs(logprobs.astype(mx.float32) - exact))
        tolerance = max(TOLERANCE, TOLERANCE_EPSILONS * mx.finfo(expected.dtype).eps)
        if not (difference <= tolerance * mx.std(exact)).item():
            return False
        if token != expected_token:
            return True
    return True
