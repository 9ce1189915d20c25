"""Prefill and generate, on the thread that owns MLX; refuses to know messages and sessions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generation_stream, stream_generate
from mlx_lm.sample_utils import make_sampler

from chatcli import prompt_cache
from chatcli.model import LoadedModel
from chatcli.prompt_cache import PromptCache, RowLog
from chatcli.settings import Sampling


@dataclass(frozen=True)
class Token:
    """One generated token. `finish_reason` is set on the last: "stop" or "length"."""

    id: int
    text: str
    logprob: float
    tps: float
    finish_reason: str | None


def prefill(
    loaded: LoadedModel, cache: PromptCache, tokens: Sequence[int], log: RowLog
) -> Iterator[int]:
    """Run `tokens` through the model in chunks of `loaded.prefill_step`, counted from the first.

    Yields the number of tokens of each finished chunk: the place to stop.
    """
    for start in range(0, len(tokens), loaded.prefill_step):
        chunk = list(tokens[start : start + loaded.prefill_step])
        with mx.stream(generation_stream):
            loaded.model(mx.array(chunk)[None], cache=cache)
            prompt_cache.evaluate(cache)
            log.record(cache, len(chunk))
        mx.clear_cache()
        yield len(chunk)


def generate(
    loaded: LoadedModel,
    cache: PromptCache,
    tail: Sequence[int],
    sampling: Sampling,
    room: int,
    cancelled: threading.Event,
) -> Iterator[Token]:
    """Run the prompt's last tokens and generate until the model stops, `room` or max_tokens is full.

    The cache is left wherever generation ended: rewind it to a snapshot before it is used again.
    """
    if sampling.seed is not None:
        mx.random.seed(sampling.seed)
    responses = stream_generate(
        loaded.model,
        loaded.tokenizer,
        list(tail),
        max_tokens=min(room, sampling.max_tokens or loaded.longest_reply or room),
        sampler=make_sampler(
            sampling.temp, top_p=sampling.top_p, min_p=sampling.min_p, top_k=sampling.top_k
        ),
        prompt_cache=cache,
        prefill_step_size=loaded.prefill_step,
    )
    for response in responses:
        yield _token(response)
        if cancelled.is_set():
            responses.close()
            return


def _token(response: Any) -> Token:
    return Token(
        response.token,
        response.text,
        response.logprobs[response.token].item(),
        response.generation_tps,
        response.finish_reason,
    )
