"""Prefill and generate, on the thread that owns MLX; refuses to know messages and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import mlx.core as mx
from mlx_lm.generate import generation_stream, stream_generate

from chatcli.chat_format.markers import closing_tokens
from chatcli.engine import embeddings
from chatcli.engine import sampling as choosing
from chatcli.engine.embeddings import Given
from chatcli.engine.think_budget import ThinkBudget
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.settings.values import Sampling

# Windows' rows that are kept of one reply (bytes); a longer one is settled by running it again.
MOST_LOGGED = 256 << 20


class StopSignal(Protocol):
    """Says, between two steps of a long run, whether to stop. A `threading.Event` is one."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True)
class Token:
    """One generated token. `finish_reason` is set on the last: "stop" or "length".

    `logprob` is still being computed: `floats` reads it once nothing waits for that. `from_draft`:
    a draft model proposed it.
    """

    id: int
    text: str
    logprob: Any
    tps: float
    finish_reason: str | None
    from_draft: bool = False


@dataclass(frozen=True)
class Request:
    """What a reply is to begin with: `tail`, the prompt's last tokens, which are run first.

    It ends when the model stops, or when `room` or max_tokens is full.
    `said`, the last of `tail`, is the beginning of a reply that goes on: its text is not told again.
    `opening` is the text of the generation prompt, from which on thinking is counted.
    `before` are the prompt's tokens ahead of `tail`, which the cache has; penalties look back at them.
    """

    tail: Sequence[int]
    sampling: Sampling
    room: int
    said: Sequence[int] = ()
    opening: str = ""
    before: Sequence[int] = ()


def prefill(
    loaded: LoadedModel, cache: PromptCache, tokens: Sequence[int], log: RowLog, done: int = 0
) -> Iterator[int]:
    """Run `tokens` through the model in chunks of `loaded.prefill_step`, counted from the first.

    The first `done` of them were run before. They begin and end between images; a chunk may not.
    Yields the number of tokens of each finished chunk: the place to stop. Raises `MemoryFull`.
    """
    given = Given(loaded, tokens)
    for start in range(done, len(tokens), loaded.prefill_step):
        end = min(start + loaded.prefill_step, len(tokens))
        with device.explained(), mx.stream(generation_stream):
            loaded.model(given.ids(start, end), cache=cache, **given.more(start, end))
            prompt_cache.evaluate(cache)
            log.record(cache, end - start)
        if end - start == loaded.prefill_step:
            mx.clear_cache()
        yield end - start


def generate(
    loaded: LoadedModel,
    cache: PromptCache,
    request: Request,
    cancelled: StopSignal,
    log: RowLog,
) -> Iterator[Token]:
    """Run the request's `tail` and generate.

    Afterwards the cache holds `tail` and every token that was yielded, and `log` the windows' rows
    of them (if it is whole). Raises `MemoryFull`.
    """
    tail, sampling, said = request.tail, request.sampling, request.said
    if sampling.seed is not None:
        mx.random.seed(sampling.seed)
    with device.explained():
        embedded = embeddings.whole(loaded, tail)
    responses = stream_generate(
        loaded.model,
        loaded.tokenizer,
        embeddings.real(loaded, tail),
        max_tokens=longest(sampling, request.room),
        sampler=choosing.sampler(loaded.tokenizer, sampling),
        logits_processors=processors(loaded, sampling, request.opening, said, request.before),
        prompt_cache=cache,
        prefill_step_size=loaded.prefill_step,
        **embedded,
    )
    every = (prompt_cache.shortest_window(cache) or request.room) // 2
    unlogged = len(tail)
    added_by = going_on(loaded, said) if said else None
    with device.explained():
        for response in responses:
            text = response.text
            if added_by is not None:
                text = added_by(response.token, response.finish_reason)
            yield _token(response, str(text))
            unlogged += 1
            if unlogged >= every:
                log_rows(cache, unlogged, log)
                unlogged = 0
            if cancelled.is_set():
                responses.close()
                break
        log_rows(cache, unlogged, log)


def longest(sampling: Sampling, room: int) -> int:
    """The most tokens that a reply may have."""
    return min(room, sampling.max_tokens or room)


def processors(
    loaded: LoadedModel,
    sampling: Sampling,
    opening: str,
    said: Sequence[int] = (),
    before: Sequence[int] = (),
) -> list[Any]:
    """What changes the logits of one reply; some of it remembers the reply's tokens."""
    past = embeddings.real(loaded, before)
    return [*choosing.processors(sampling, past), *budget(loaded, sampling, opening, said)]


def budget(loaded: LoadedModel, sampling: Sampling, opening: str, said: Sequence[int]) -> list[ThinkBudget]:
    """What closes the thinking; none where it may go on, or where the model has none."""
    closing = closing_tokens(loaded.tokenizer) if sampling.think_budget is not None else []
    if sampling.think_budget is None or not closing:
        return []
    return [ThinkBudget(loaded.tokenizer, sampling.think_budget, closing, opening, said)]


def log_rows(cache: PromptCache, count: int, log: RowLog) -> None:
    """Keep the windows' rows of the last `count` tokens, unless a long reply makes them too many."""
    if count and log.complete:
        log.record(cache, count, reorder=False)
    if log.nbytes > MOST_LOGGED:
        log.discard()


def text_of(loaded: LoadedModel, said: Sequence[int]) -> str:
    """What was streamed of these tokens: without the end that more tokens may change."""
    return str(_heard(loaded, said).text)


def _heard(loaded: LoadedModel, said: Sequence[int]) -> Any:
    """A detokenizer that has had these tokens."""
    detokenizer = loaded.tokenizer.detokenizer
    for token in said:
        detokenizer.add_token(token)
    return detokenizer


def going_on(loaded: LoadedModel, said: Sequence[int]) -> Callable[[int, str | None], str]:
    """`added` for tokens that follow others: mlx-lm's own would drop the space before the first."""
    detokenizer = _heard(loaded, said)
    _ = detokenizer.last_segment  # told before
    return partial(added, detokenizer)


def added(detokenizer: Any, token: int, finish_reason: str | None) -> str:
    """The text that a token adds. Of one that ends the reply nothing is told."""
    if finish_reason != "stop":
        detokenizer.add_token(token)
    if finish_reason:
        detokenizer.finalize()
    return str(detokenizer.last_segment)


def _token(response: Any, text: str) -> Token:
    logprob = scalar(response.logprobs, response.token)
    return Token(response.token, text, logprob, response.generation_tps, response.finish_reason)


def scalar(logprobs: Any, token: int) -> Any:
    """One token's logprob, on its way."""
    with mx.stream(generation_stream):
        logprob = logprobs[token]
        mx.async_eval(logprob)  # type: ignore[no-untyped-call]
    return logprob


def floats(scalars: Sequence[Any]) -> list[float]:
    """The numbers that arrays of one element hold."""
    return [scalar.item() for scalar in scalars]
