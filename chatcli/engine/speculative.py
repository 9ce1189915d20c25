"""Generates with a draft model that proposes tokens, on the thread that owns MLX; refuses to know messages.

The loop of this speculative decoding is mlx-lm's; here is what it leaves to its caller.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generation_stream, speculative_generate_step
from mlx_lm.models.cache import trim_prompt_cache

from chatcli.engine import embeddings
from chatcli.engine import generate as engine
from chatcli.engine import sampling as choosing
from chatcli.engine.generate import Request, StopSignal, Token
from chatcli.errors import DraftModelRefused
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import UNLIMITED, LoadedModel

# Tokenizers that are no different here have one vocabulary.
PROBE = "The quick brown fox, 0123456789: naïve 你好\n\n\tif x_1 != [y]: return 'Lisbon'"


@dataclass(frozen=True)
class SpeculationLimits:
    """What a model and its draft model have in common.

    `width` is how many logits the model has, `most` how many tokens both caches may hold to be
    trimmed still; None: any number.
    """

    width: int
    most: int | None

    def room(self, used: int, num_draft_tokens: int) -> int:
        """How many tokens may be generated after `used`, so many proposed at a time; none: below 1."""
        return UNLIMITED if self.most is None else self.most - used - num_draft_tokens - 1


@dataclass(frozen=True)
class Speculator:
    """A draft model with its live cache, at the same token as the model's own.

    It proposes `num_draft_tokens` at a time. `log` is given up where its cache falls behind.
    """

    loaded: LoadedModel
    cache: PromptCache
    log: RowLog
    num_draft_tokens: int
    fit: SpeculationLimits


def fit(loaded: LoadedModel, draft: LoadedModel) -> SpeculationLimits:
    """Whether `draft` can be the draft model of `loaded`. Raises `DraftModelRefused`."""
    caches = [prompt_cache.new(one.model, one.model_options) for one in (loaded, draft)]
    for one, cache in zip((loaded, draft), caches, strict=True):
        if classes := prompt_cache.untrimmable(cache):
            raise DraftModelRefused(
                f"Speculative decoding takes tokens back, which the cache of the model '{one.name}' "
                f"cannot ({', '.join(classes)} keeps no row for each token): choose another "
                f"{'model' if one is loaded else 'draft model'}, or leave out --draft-model (in a chat: "
                "/draft-model none)."
            )
    # By shapes alone: nothing is computed.
    width, drafted = (
        one.model(mx.zeros((1, 1), mx.int32), cache=cache).shape[-1]
        for one, cache in zip((loaded, draft), caches, strict=True)
    )
    if _words(loaded) != _words(draft) or drafted < min(width, len(loaded.tokenizer.get_vocab())):
        raise DraftModelRefused(
            f"The draft model '{draft.name}' has another vocabulary than the model '{loaded.name}': "
            "choose a smaller one of the same family with --draft-model, or leave it out."
        )
    limits = [most for cache in caches if (most := prompt_cache.max_trimmable_offset(cache)) is not None]
    return SpeculationLimits(width, min(limits, default=None))


def _words(loaded: LoadedModel) -> tuple[int, list[int]]:
    """What tells vocabularies apart, as mlx-lm does by their size and further by a text."""
    tokenizer = loaded.tokenizer
    return tokenizer.vocab_size, tokenizer.encode(PROBE, add_special_tokens=False)


def _after(request: Request, generated: Sequence[int]) -> Request:
    """The rest of it, as a reply that was cut goes on: its last token has not been run."""
    if not generated:
        return request
    before = [*request.before, *request.tail, *generated[:-1]]
    return replace(
        request,
        tail=generated[-1:],
        sampling=replace(request.sampling, seed=None),
        room=request.room - len(generated),
        said=[*request.said, *generated],
        before=before,
    )


def generate(
    speculator: Speculator,
    loaded: LoadedModel,
    cache: PromptCache,
    request: Request,
    cancelled: StopSignal,
    log: RowLog,
) -> Iterator[Token]:
    """`engine.generate` with a draft model: afterwards its cache too holds all that was yielded.

    Where a window becomes full, or an image is in the tail, the reply goes on without it, and its log
    is given up.
    """
    tail, most = request.tail, engine.longest(request.sampling, request.room)
    request = replace(request, room=most)
    begun = prompt_cache.offset(cache)
    room = speculator.fit.room(begun + len(tail), speculator.num_draft_tokens)
    count = 0 if embeddings.shows(loaded, tail) else min(most, room)
    generated, done = list[int](), False
    if count > 0:
        speculated = _speculate(speculator, loaded, cache, request, count)
        with device.explained(), contextlib.closing(speculated) as tokens:
            for token in tokens:
                generated.append(token.id)
                yield token
                done = token.finish_reason is not None or cancelled.is_set()
                if done:
                    break
        with device.explained():
            ran = [*tail, *generated]
            _bring(loaded, cache, begun, ran if done else ran[:-1], log)
            if done:
                _bring(speculator.loaded, speculator.cache, begun, ran, speculator.log)
    if not done:
        speculator.log.discard()
        yield from engine.generate(loaded, cache, _after(request, generated), cancelled, log)


def _bring(loaded: LoadedModel, cache: PromptCache, begun: int, ran: Sequence[int], log: RowLog) -> None:
    """Have a cache that began at `begun` hold exactly `ran`: mlx-lm leaves the last tokens not run."""
    missing = begun + len(ran) - prompt_cache.offset(cache)
    if missing < 0:
        trim_prompt_cache(cache, -missing)
    elif missing:
        with mx.stream(generation_stream):
            loaded.model(mx.array(list(ran[-missing:]))[None], cache=cache)
            prompt_cache.evaluate(cache)
    engine.log_rows(cache, len(ran), log)


def _speculate(
    speculator: Speculator, loaded: LoadedModel, cache: PromptCache, request: Request, count: int
) -> Generator[Token]:
    """The first `count` tokens of a reply, or fewer."""
    sampling = request.sampling
    if sampling.seed is not None:
        mx.random.seed(sampling.seed)
    checking = _Checking(loaded.model)
    # mlx-lm's loop shows a processor nothing of the tail but its last token.
    processors = choosing.processors(sampling, embeddings.real(loaded, [*request.before, *request.tail[:-1]]))
    remembering = engine.budget(loaded, sampling, request.opening, request.said)
    processors += [_OfChecked(one, checking) for one in remembering]
    steps = speculative_generate_step(
        mx.array(list(request.tail)),
        checking,
        _Proposing(speculator.loaded.model, checking, speculator.fit.width),
        num_draft_tokens=speculator.num_draft_tokens,
        max_tokens=count,
        sampler=_by_rows(choosing.sampler(loaded.tokenizer, sampling)),
        logits_processors=processors,
        prompt_cache=_Both(cache, speculator.cache),
        prefill_step_size=loaded.prefill_step,
    )
    added_by, ends = engine.going_on(loaded, request.said), loaded.tokenizer.eos_token_ids
    began = time.perf_counter()
    with contextlib.closing(steps):
        for number, (token, logprobs, from_draft) in enumerate(steps, start=1):
            if number == 1:
                began = time.perf_counter()
            reason = "stop" if token in ends else "length" if number == request.room else None
            text = added_by(token, reason)
            logprob, tps = engine.scalar(logprobs, token), number / (time.perf_counter() - began)
            yield Token(token, text, logprob, tps, reason, bool(from_draft))
            if reason:
                return


class _Both:
    """Two caches as one list, which mlx-lm cuts by the number of layers: some have fewer caches."""

    def __init__(self, own: PromptCache, drafted: PromptCache) -> None:
        self._own, self._drafted = own, drafted

    def __getitem__(self, part: slice) -> PromptCache:
        return self._own if part.start is None else self._drafted


class _Checking:
    """The model. `tokens` are what it was last run on; None while the draft model runs."""

    layers = ()

    def __init__(self, model: Any) -> None:
        self._model = model
        self.tokens: Any = None

    def __call__(self, tokens: Any, cache: PromptCache) -> Any:
        self.tokens = tokens[0]
        return self._model(tokens, cache=cache)


class _Proposing:
    """The draft model, with as many logits as the model has: a padded vocabulary may be longer."""

    def __init__(self, model: Any, checking: _Checking, width: int) -> None:
        self._model, self._checking, self._width = model, checking, width

    def __call__(self, tokens: Any, cache: PromptCache) -> Any:
        self._checking.tokens = None
        logits = self._model(tokens, cache=cache)[..., : self._width]
        short = self._width - logits.shape[-1]
        padding = [(0, 0)] * (logits.ndim - 1) + [(0, short)]
        return mx.pad(logits, padding, constant_values=float("-inf")) if short else logits


class _OfChecked:
    """A processor that remembers what it has seen: it is shown each token of the reply once, in order.

    mlx-lm calls it for what the draft model proposes too, and for what follows a token that the model
    did not choose.
    """

    def __init__(self, processor: Callable[[Any, Any], Any], checking: _Checking) -> None:
        self._processor, self._checking = processor, checking
        self._of: Any = None
        self._place = 0
        self._chosen = True

    def __call__(self, tokens: Any, logits: Any) -> Any:
        run = self._checking.tokens
        if run is None:
            return logits
        if run is not self._of:
            self._of, self._place, self._chosen = run, 0, True
        elif self._chosen:
            self._place += 1
            self._chosen = tokens[-1].item() == run[self._place].item()
        return self._processor(tokens, logits) if self._chosen else logits


def _by_rows(sampler: choosing.Sampler) -> choosing.Sampler:
    """Choose for each row of logprobs on its own, as without a draft model."""

    def choose(logprobs: Any) -> Any:
        return mx.concatenate([sampler(row[None]) for row in logprobs])

    return choose
