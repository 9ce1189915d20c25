"""Speculative decoding: a draft model proposes tokens, and the model checks several at once.

The loop is mlx-lm's. Here is what it leaves to its caller: both caches hold exactly the reply
afterwards, processors see each token once, and a reply is the one that comes without a draft model.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generation_stream, speculative_generate_step
from mlx_lm.models.cache import trim_prompt_cache

from chatcli.engine import embeddings
from chatcli.engine.generate import (
    GenerationRequest,
    Token,
    continued_text,
    generate,
    log_rows,
    max_tokens,
    think_budgets,
    token_logprob,
)
from chatcli.engine.sampling import LogitsProcessor, logits_processors_for, sampler_for
from chatcli.errors import DraftModelRefused
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import UNLIMITED, LoadedModel
from chatcli.threads.mlx_thread import StopSignal

# Tokenizers that encode this text alike, and have as many tokens, are taken to have one vocabulary.
PROBE = "The quick brown fox, 0123456789: naïve 你好\n\n\tif x_1 != [y]: return 'Lisbon'"


@dataclass(frozen=True)
class SpeculationLimits:
    """What a model and its draft model have in common.

    `logits` is how many logits the model has, `max_cached_tokens` how many tokens both caches may hold
    to be trimmed still; None: any number.
    """

    logits: int
    max_cached_tokens: int | None

    def room(self, used: int, num_draft_tokens: int) -> int:
        """How many tokens may be generated after `used`, so many proposed at a time; none: below 1."""
        if self.max_cached_tokens is None:
            return UNLIMITED
        return self.max_cached_tokens - used - num_draft_tokens - 1


@dataclass(frozen=True)
class Speculator:
    """A draft model with its live cache, at the same token as the model's own.

    It proposes `num_draft_tokens` at a time. `log` is discarded where its cache falls behind.
    """

    loaded: LoadedModel
    cache: PromptCache
    log: RowLog
    num_draft_tokens: int
    limits: SpeculationLimits


def speculation_limits(loaded: LoadedModel, draft: LoadedModel) -> SpeculationLimits:
    """What `draft` allows as the draft model of `loaded`. Raises `DraftModelRefused` if it cannot be that."""
    models = (loaded, draft)
    caches = [prompt_cache.new(each.model, each.model_options) for each in models]
    for each, cache in zip(models, caches, strict=True):
        if classes := prompt_cache.untrimmable(cache):
            raise DraftModelRefused(
                f"Speculative decoding takes tokens back, which the cache of the model '{each.name}' "
                f"cannot ({', '.join(classes)} keeps no row for each token): choose another "
                f"{'model' if each is loaded else 'draft model'}, or go without a draft model."
            )
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
            f"The draft model '{draft.name}' has another vocabulary than the model '{loaded.name}': "
            "choose a smaller one of the same family, or go without a draft model."
        )
    offsets = [most for cache in caches if (most := prompt_cache.max_trimmable_offset(cache)) is not None]
    return SpeculationLimits(logits, min(offsets, default=None))


def generate_with_draft(
    speculator: Speculator,
    loaded: LoadedModel,
    cache: PromptCache,
    request: GenerationRequest,
    cancelled: StopSignal,
    log: RowLog,
) -> Iterator[Token]:
    """As `generate`, with a draft model: afterwards its cache too holds all that was yielded.

    Where a window becomes full, or an image is in the tail, the reply goes on without it, and its log
    is discarded.
    """
    tail, most = request.tail, max_tokens(request.sampling, request.room)
    request = replace(request, room=most)
    start = prompt_cache.offset(cache)
    room = speculator.limits.room(start + len(tail), speculator.num_draft_tokens)
    count = 0 if embeddings.has_images(loaded, tail) else min(most, room)
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
            run = [*tail, *generated]
            _bring_to(loaded, cache, start, run if done else run[:-1], log)
            if done:
                _bring_to(speculator.loaded, speculator.cache, start, run, speculator.log)
    if done:
        return
    speculator.log.discard()
    if generated:
        # As a reply that was cut goes on: its last token has not been run.
        request = replace(
            request,
            tail=generated[-1:],
            sampling=replace(request.sampling, seed=None),
            room=request.room - len(generated),
            reply_start=[*request.reply_start, *generated],
            prefix=[*request.prefix, *tail, *generated[:-1]],
        )
    yield from generate(loaded, cache, request, cancelled, log)


def _bring_to(loaded: LoadedModel, cache: PromptCache, start: int, run: Sequence[int], log: RowLog) -> None:
    """Have a cache that was at `start` hold exactly `run` after it: mlx-lm leaves the last tokens not run."""
    missing = start + len(run) - prompt_cache.offset(cache)
    if missing < 0:
        trim_prompt_cache(cache, -missing)
    elif missing:
        with mx.stream(generation_stream):
            loaded.model(mx.array(list(run[-missing:]))[None], cache=cache)
            prompt_cache.evaluate(cache)
    log_rows(cache, len(run), log)


def _speculate(
    speculator: Speculator, loaded: LoadedModel, cache: PromptCache, request: GenerationRequest, count: int
) -> Generator[Token]:
    """The first `count` tokens of a reply, or fewer."""
    sampling = request.sampling
    if sampling.seed is not None:
        mx.random.seed(sampling.seed)
    target = _TargetModel(loaded.model)
    # mlx-lm's loop shows a processor nothing of the tail but its last token.
    prefix = embeddings.vocabulary_tokens(loaded, [*request.prefix, *request.tail[:-1]])
    processors = logits_processors_for(sampling, prefix)
    budgets = think_budgets(loaded, sampling, request.generation_prompt, request.reply_start)
    processors += [_AcceptedOnly(budget, target) for budget in budgets]
    sample = sampler_for(loaded.tokenizer, sampling)
    steps = speculative_generate_step(
        mx.array(list(request.tail)),
        target,
        _DraftModel(speculator.loaded.model, target, speculator.limits.logits),
        num_draft_tokens=speculator.num_draft_tokens,
        max_tokens=count,
        # Each row of logprobs on its own, as without a draft model.
        sampler=lambda logprobs: mx.concatenate([sample(row[None]) for row in logprobs]),
        logits_processors=processors,
        prompt_cache=_CachePair(cache, speculator.cache),
        prefill_step_size=loaded.prefill_step,
    )
    text_of_token, stop_tokens = continued_text(loaded, request.reply_start), loaded.tokenizer.eos_token_ids
    first_time = time.perf_counter()
    with contextlib.closing(steps):
        for number, (token, logprobs, from_draft) in enumerate(steps, start=1):
            if number == 1:
                first_time = time.perf_counter()
            reason = "stop" if token in stop_tokens else "length" if number == request.room else None
            text = text_of_token(token, reason)
            logprob, tps = token_logprob(logprobs, token), number / (time.perf_counter() - first_time)
            yield Token(token, text, logprob, tps, reason, bool(from_draft))
            if reason:
                return


class _CachePair:
    """Two caches as one list, which mlx-lm cuts by the number of layers: some models have fewer caches."""

    def __init__(self, own: PromptCache, draft: PromptCache) -> None:
        self._own, self._draft = own, draft

    def __getitem__(self, part: slice) -> PromptCache:
        return self._own if part.start is None else self._draft


class _TargetModel:
    """The model. `tokens` are what it was last run on; None while the draft model runs."""

    layers = ()

    def __init__(self, model: Any) -> None:
        self._model = model
        self.tokens: Any = None

    def __call__(self, tokens: Any, cache: PromptCache) -> Any:
        self.tokens = tokens[0]
        return self._model(tokens, cache=cache)


class _DraftModel:
    """The draft model, with as many logits as the model has: a padded vocabulary may be longer."""

    def __init__(self, model: Any, target: _TargetModel, logits: int) -> None:
        self._model, self._target, self._logits = model, target, logits

    def __call__(self, tokens: Any, cache: PromptCache) -> Any:
        self._target.tokens = None
        logits = self._model(tokens, cache=cache)[..., : self._logits]
        missing = self._logits - logits.shape[-1]
        padding = [(0, 0)] * (logits.ndim - 1) + [(0, missing)]
        return mx.pad(logits, padding, constant_values=float("-inf")) if missing else logits


class _AcceptedOnly:
    """A processor that remembers tokens, called once for each token of the reply and in order.

    mlx-lm calls it for what the draft model proposes too, and for what follows a token that the model
    did not choose.
    """

    def __init__(self, processor: LogitsProcessor, target: _TargetModel) -> None:
        self._processor, self._target = processor, target
        # The tokens of the model's newest run, the place in it, and whether all so far were chosen.
        self._run: Any = None
        self._place = 0
        self._accepted = True

    def __call__(self, tokens: Any, logits: Any) -> Any:
        run = self._target.tokens
        if run is None:
            return logits
        if run is not self._run:
            self._run, self._place, self._accepted = run, 0, True
        elif self._accepted:
            self._place += 1
            self._accepted = tokens[-1].item() == run[self._place].item()
        return self._processor(tokens, logits) if self._accepted else logits
