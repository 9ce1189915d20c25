"""Several sequences generated together, on the thread that owns MLX; refuses to know messages and sessions.

Each comes with a cache of its own, of any length; mlx-lm's `BatchGenerator` makes one batch of them.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, generate_step, generation_stream

from chatcli.engine import embeddings, generate
from chatcli.engine import sampling as sampler
from chatcli.engine.generate import Token
from chatcli.engine.sampling import Sampler
from chatcli.errors import MemoryFull
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.settings.values import Sampling

# Sequences in a batch. More gain little: each step reads the weights once, but every cache.
MOST = 16
# A sequence's cache is there up to so many times while it is merged into the batch.
COPIES = 3
# A trial's steps, how much longer the prompt of its second sequence is, and how long the third
# (tokens): longer than any n-gram that a model keeps, or mlx-lm cannot merge the caches.
TRIED, LONGER, SHORT = 8, 5, 8
# What rounding may do: a part of the standard deviation, or so many times a number's precision.
ROUNDED, ROUNDINGS = 1e-3, 8
# What MLX and mlx-lm raise where a model's code does not know batches.
UNFIT = (ValueError, TypeError, AttributeError, IndexError, RuntimeError, NotImplementedError, MemoryFull)


def room_for(cache: PromptCache, allowed: int | None = None) -> int:
    """How many sequences that begin with this cache fit the memory, 1 to `MOST`.

    `allowed` bytes may be taken in all; None: what the device has.
    """
    limits = [limit for limit in (device.room(), allowed) if limit is not None]
    if not limits:
        return MOST
    left = min(limits) - mx.get_active_memory()
    return max(1, min(MOST, left // max(COPIES * prompt_cache.nbytes(cache), 1)))


@dataclass
class _Sequence:
    """One reply's text so far, and when its first token came."""

    detokenizer: Any
    began: float | None = None
    tokens: int = 0

    def speed(self) -> float:
        """Tokens a second since the first."""
        now = time.perf_counter()
        self.tokens += 1
        self.began = self.began or now
        return self.tokens / max(now - self.began, 1e-9)


@dataclass
class Batch:
    """Sequences that generate together. One may join at any time; one that ends leaves."""

    loaded: LoadedModel
    most: int
    _going: dict[int, _Sequence] = field(default_factory=dict)
    _samplers: dict[Sampling, Sampler] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._generator = BatchGenerator(
            self.loaded.model,
            stop_tokens=[[token] for token in self.loaded.tokenizer.eos_token_ids],
            completion_batch_size=self.most,
            prefill_batch_size=self.most,
            prefill_step_size=self.loaded.prefill_step,
            stream=generation_stream,
        )

    def add(
        self,
        cache: PromptCache,
        tail: Sequence[int],
        sampling: Sampling,
        room: int,
        opening: str = "",
        before: Sequence[int] = (),
    ) -> int:
        """Go on from `cache` with a prompt's last tokens. Returns the sequence's number.

        It ends as in `engine.generate`: by a stop token, or when `room` or max_tokens is full.
        """
        _run_all_but_last(self.loaded, cache, tail)
        (number,) = self._generator.insert(
            [list(tail[-1:])],
            [generate.longest(sampling, room)],
            caches=[cache],
            samplers=[self._sampler(sampling)],
            logits_processors=[generate.processors(self.loaded, sampling, opening, before=before)],
            all_tokens=[embeddings.real(self.loaded, tail[:-1])],
        )
        self._going[number] = _Sequence(self.loaded.tokenizer.detokenizer)
        return int(number)

    def step(self) -> list[tuple[int, Token]]:
        """One more token of each sequence; none if there are no sequences."""
        found = [self._token(one) for one in self._generator.next_generated()]
        mx.async_eval([token.logprob for _, token in found])  # type: ignore[no-untyped-call]
        return found

    def drop(self, number: int) -> None:
        """Give up a sequence, unless it has ended."""
        if self._going.pop(number, None) is not None:
            self._generator.remove([number])

    def close(self) -> None:
        """End it; what did not end is given up."""
        self._generator.remove(list(self._going))
        self._generator.close()

    def _token(self, response: Any) -> tuple[int, Token]:
        number, reason = int(response.uid), response.finish_reason
        going = self._going[number]
        with mx.stream(generation_stream):
            logprob = response.logprobs[response.token]
        if reason is not None:
            del self._going[number]
        text = generate.added(going.detokenizer, response.token, reason)
        return number, Token(response.token, text, logprob, going.speed(), reason)

    def _sampler(self, sampling: Sampling) -> Sampler:
        """One for all that sample alike, so that they are sampled in one go."""
        if sampling not in self._samplers:
            self._samplers[sampling] = sampler.sampler(self.loaded.tokenizer, sampling)
        shared = self._samplers[sampling]
        alone = sampling.seed is not None and bool(sampling.temp)
        return _seeded(shared, sampling.seed or 0) if alone else shared


def _seeded(shared: Sampler, seed: int) -> Sampler:
    """A sampler that draws what it would draw without the others."""
    states = _random_states(seed)

    def sample(logprobs: Any) -> Any:
        mx.random.seed(next(states))
        return shared(logprobs)

    return sample


def _random_states(seed: int) -> Iterator[int]:
    """The states that MLX's generator goes through, one for each number that is drawn.

    Worked out on the CPU: a GPU would first finish what it is at.
    """
    with mx.stream(mx.cpu):
        key = mx.random.key(seed)
    while True:
        high, low = map(int, key.tolist())
        yield high << 32 | low
        with mx.stream(mx.cpu):
            key = mx.random.split(key)[0]


def _run_all_but_last(loaded: LoadedModel, cache: PromptCache, tail: Sequence[int]) -> None:
    """Alone, because a batch of prompts is padded, which not every recurrent layer knows of."""
    deque(generate.prefill(loaded, cache, tail[:-1], RowLog()), maxlen=0)


def agrees(loaded: LoadedModel, cache: PromptCache, tail: Sequence[int]) -> bool:
    """Whether this model says in a batch what it says alone: not every architecture's code does.

    A few tokens after `cache` and `tail` are generated both ways, beside a longer and a short
    sequence.
    """
    if not prompt_cache.can_merge(cache):
        return False
    # A trial of its own: images may be as they are in no conversation.
    tail = embeddings.real(loaded, tail)
    longer = [*tail, *itertools.islice(itertools.cycle(tail), LONGER)]
    short = prompt_cache.new(loaded.model, loaded.model_options), [tail[0]] * SHORT
    sequences = [(cache, list(tail)), (cache, longer), short]
    try:
        together = _likelihoods_together(loaded, sequences)
    except UNFIT:
        return False
    return all(
        _alike(found, _likelihoods(loaded, prompt_cache.fork(made), prompt))
        for found, (made, prompt) in zip(together, sequences, strict=True)
    )


Steps = list[tuple[int, mx.array]]


def _likelihoods(loaded: LoadedModel, cache: PromptCache, prompt: Sequence[int]) -> Steps:
    """The likeliest token of a few steps, and the log probabilities that it was chosen by."""
    steps = generate_step(
        mx.array(list(prompt)),
        loaded.model,
        max_tokens=TRIED,
        prompt_cache=cache,
        prefill_step_size=loaded.prefill_step,
    )
    return [(int(token), logprobs) for token, logprobs in steps]


def _likelihoods_together(
    loaded: LoadedModel, sequences: Sequence[tuple[PromptCache, list[int]]]
) -> list[Steps]:
    generator = BatchGenerator(loaded.model, stream=generation_stream)
    caches = [prompt_cache.fork(cache) for cache, _ in sequences]
    for cache, (_, prompt) in zip(caches, sequences, strict=True):
        _run_all_but_last(loaded, cache, prompt)
    last = [prompt[-1:] for _, prompt in sequences]
    numbers = generator.insert(last, [TRIED] * len(last), caches=caches)
    found: dict[int, Steps] = {number: [] for number in numbers}
    while responses := generator.next_generated():
        for one in responses:
            found[one.uid].append((one.token, one.logprobs))
    generator.close()
    return [found[number] for number in numbers]


def _alike(one: Steps, other: Steps) -> bool:
    """Whether the two differ by rounding only, up to where they chose another token."""
    for (token, mine), (choice, theirs) in zip(one, other, strict=True):
        exact = theirs.astype(mx.float32)
        apart = mx.mean(mx.abs(mine.astype(mx.float32) - exact))
        rounding = max(ROUNDED, ROUNDINGS * mx.finfo(theirs.dtype).eps)
        if not (apart <= rounding * mx.std(exact)).item():
            return False
        if token != choice:
            return True
    return True
