"""Prefill, and generation of one reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generation_stream, stream_generate

from chatcli.chat_format.markers import closing_tokens
from chatcli.engine import embeddings
from chatcli.engine.sampling import LogitsProcessor, logits_processors_for, sampler_for, seeded
from chatcli.engine.think_budget import ThinkBudget
from chatcli.kv import prompt_cache
from chatcli.kv.leaf import leaves
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.replies.answer_form import AnswerForm
from chatcli.settings.values import Sampling
from chatcli.threads.mlx_thread import StopSignal

# A state cannot be cut, so a reply keeps those at the last multiples of this many tokens.
STATE_TOKENS = 16
# The most rows of windows that are logged for one reply; a longer reply is run again to settle it.
MAX_LOG_BYTES = 256 << 20


@dataclass(frozen=True)
class Token:
    """One generated token. `finish_reason` is set on the last: "stop" or "length".

    `logprob` is an array of one element that is still being computed; `floats` reads many of them at
    once. `tps` is tokens per second so far. `from_draft`: a draft model proposed the token. `likeliest` are
    the ids and logprobs of as many tokens as the request asks for, the likeliest first. `guessed`, set on the
    first token of a pass, is how many tokens were guessed in it. `accepted`: this token was guessed right.
    """

    id: int
    text: str
    logprob: Any
    tps: float
    finish_reason: str | None
    from_draft: bool = False
    likeliest: tuple[tuple[int, float], ...] = ()
    guessed: int = 0
    accepted: bool = False


@dataclass(frozen=True)
class GenerationRequest:
    """Everything that generation needs: `tail` holds the prompt's last tokens, which are run first.

    The reply ends when the model stops, or when `room` or max_tokens is reached. `reply_start` is the
    beginning of a continued reply: the last tokens of `tail`, whose text was already streamed.
    `generation_prompt` is a text; thinking is counted from it on. `prefix` holds the prompt's tokens before
    `tail`, which the cache has; penalties look back at them. `likeliest` is how many alternatives to report
    with each token. The texts of `elsewhere` belong to the conversation, but not to the prompt: tokens may be
    guessed from them. `answer` constrains what follows the thinking; None leaves it free.
    """

    tail: Sequence[int]
    sampling: Sampling
    room: int
    reply_start: Sequence[int] = ()
    generation_prompt: str = ""
    prefix: Sequence[int] = ()
    likeliest: int = 0
    elsewhere: Sequence[str] = ()
    answer: AnswerForm | None = None


def prefill(
    loaded: LoadedModel,
    cache: PromptCache,
    tokens: Sequence[int],
    log: RowLog,
    done: int = 0,
    others: StopSignal | None = None,
) -> Iterator[int]:
    """Run `tokens` through the model in chunks of `loaded.prefill_step`, counted from the first.

    The first `done` of them were run before. `tokens` must begin and end between images; a chunk may not.
    Yields the number of tokens of each finished chunk: the place to stop. While `others` is set it also
    yields 0 between layers, so that other caches can run. Interrupting a chunk keeps its result the same to
    the bit; running smaller chunks would not. Raises `MemoryFull`.
    """
    stretch = embeddings.Stretch(loaded, tokens)
    for start in range(done, len(tokens), loaded.prefill_step):
        end = min(start + loaded.prefill_step, len(tokens))
        with device.explained(), mx.stream(generation_stream):
            loaded.model(stretch.ids(start, end), cache=cache, **stretch.arguments(start, end))
        for leaf in leaves(cache)[:-1] if others is not None else ():
            with device.explained():
                prompt_cache.evaluate([leaf.cache])
            if others is not None and others.is_set():
                yield 0
        with device.explained(), mx.stream(generation_stream):
            prompt_cache.evaluate(cache)
            log.record(cache, end - start)
        if end - start == loaded.prefill_step:
            mx.clear_cache()
        yield end - start


def generate(
    loaded: LoadedModel,
    cache: PromptCache,
    request: GenerationRequest,
    cancelled: StopSignal,
    log: RowLog,
) -> Iterator[Token]:
    """Run the request's `tail` and generate.

    Afterwards the cache holds `tail` and every yielded token. `log` holds their windows' rows (if it is
    complete) and the last states. Raises `MemoryFull`.
    """
    tail, sampling, reply_start = request.tail, request.sampling, request.reply_start
    with device.explained():
        more_arguments = embeddings.generation_arguments(loaded, tail)
    responses = stream_generate(
        loaded.model,
        loaded.tokenizer,
        embeddings.vocabulary_tokens(loaded, tail),
        max_tokens=max_tokens(sampling, request.room),
        sampler=seeded(sampler_for(loaded.tokenizer, sampling), sampling),
        logits_processors=logits_processors(loaded, request),
        prompt_cache=cache,
        prefill_step_size=loaded.prefill_step,
        **more_arguments,
    )
    # Often enough that no window drops a row before it is logged.
    log_interval = (prompt_cache.shortest_window(cache) or request.room) // 2
    unlogged = len(tail)
    position = len(request.prefix) + len(tail)
    stateful = prompt_cache.is_stateful(cache)
    text_of_token = continued_text(loaded, reply_start) if reply_start else None
    with device.explained():
        reserve(loaded, cache, planned=False)
        for number, response in enumerate(responses):
            if number == 0:
                # Plan attention only after the first token, so that nobody waits for it.
                reserve(loaded, cache, planned=position >= prompt_cache.PLANNED_ROWS)
            position += 1
            if stateful and position % STATE_TOKENS == 0:
                log.keep_state(cache, position)
            token, reason = response.token, response.finish_reason
            text = text_of_token(token, reason) if text_of_token else str(response.text)
            yield Token(
                token,
                text,
                token_logprob(response.logprobs, token),
                response.generation_tps,
                reason,
                likeliest=likeliest_tokens(response.logprobs, request.likeliest),
            )
            unlogged += 1
            if unlogged >= log_interval:
                log_rows(cache, unlogged, log)
                unlogged = 0
            if cancelled.is_set():
                responses.close()
                break
        log_rows(cache, unlogged, log)


def reserve(loaded: LoadedModel, cache: PromptCache, *, planned: bool) -> None:
    """Enlarge the buffers for a reply, if MLX plans attention by their length."""
    if loaded.plans_attention:
        with mx.stream(generation_stream):
            prompt_cache.reserve(cache, planned=planned)


def max_tokens(sampling: Sampling, room: int) -> int:
    """The limit of a reply's tokens."""
    return min(room, sampling.max_tokens or room)


def logits_processors(loaded: LoadedModel, request: GenerationRequest) -> list[LogitsProcessor]:
    """The logits processors of one reply. Do not share them: some remember its tokens.

    Raises `SchemaRefused`.
    """
    sampling, begun = request.sampling, (request.generation_prompt, request.reply_start)
    processors = logits_processors_for(sampling, embeddings.vocabulary_tokens(loaded, request.prefix))
    if request.answer is not None:
        from chatcli.engine.structured import StructuredAnswer

        processors.append(StructuredAnswer(loaded.tokenizer, request.answer, *begun))
    return [*processors, *think_budgets(loaded, sampling, *begun)]


def think_budgets(
    loaded: LoadedModel, sampling: Sampling, generation_prompt: str, reply_start: Sequence[int]
) -> list[LogitsProcessor]:
    """The processor that closes thinking; none without a budget or for a model that does not think."""
    closing = closing_tokens(loaded.tokenizer) if sampling.think_budget is not None else []
    if sampling.think_budget is None or not closing:
        return []
    return [ThinkBudget(loaded.tokenizer, sampling.think_budget, closing, generation_prompt, reply_start)]


def log_rows(cache: PromptCache, count: int, log: RowLog) -> None:
    """Log the windows' rows of the last `count` tokens, unless a long reply makes them too many."""
    if count and log.complete:
        log.record(cache, count, reorder=False)
    if log.nbytes > MAX_LOG_BYTES:
        log.discard()


def text_of(loaded: LoadedModel, reply_start: Sequence[int]) -> str:
    """The text of these tokens that was streamed: without the end, which further tokens may change."""
    return str(detokenizer_after(loaded, reply_start).text)


def continued_text(loaded: LoadedModel, reply_start: Sequence[int]) -> Callable[[int, str | None], str]:
    """`added_text` for tokens after `reply_start`: mlx-lm's own would drop the space before the first."""
    detokenizer = detokenizer_after(loaded, reply_start)
    return lambda token, finish_reason: added_text(detokenizer, token, finish_reason)


def detokenizer_after(loaded: LoadedModel, tokens: Sequence[int]) -> Any:
    """A detokenizer whose next segment follows the text already streamed for these tokens."""
    detokenizer = loaded.tokenizer.detokenizer
    for token in tokens:
        detokenizer.add_token(token)
    _ = detokenizer.last_segment
    return detokenizer


def added_text(detokenizer: Any, token: int, finish_reason: str | None) -> str:
    """The text that a token adds to a reply; a stop token adds none of its own."""
    if finish_reason != "stop":
        detokenizer.add_token(token)
    if finish_reason:
        detokenizer.finalize()
    return str(detokenizer.last_segment)


def token_logprob(logprobs: Any, token: int) -> Any:
    """One token's logprob as an array of one element, evaluated asynchronously."""
    with mx.stream(generation_stream):
        logprob = logprobs[token]
        mx.async_eval(logprob)  # type: ignore[no-untyped-call]
    return logprob


def likeliest_tokens(logprobs: Any, count: int) -> tuple[tuple[int, float], ...]:
    """The ids and logprobs of the `count` likeliest tokens, from logprobs of shape (vocabulary,)."""
    if not count:
        return ()
    with mx.stream(generation_stream):
        tokens = mx.argpartition(logprobs, kth=-count)[-count:]
        ids: Any = tokens.tolist()
        values: Any = logprobs[tokens].astype(mx.float32).tolist()
    return tuple(sorted(zip(ids, values, strict=True), key=lambda pair: -pair[1]))


def floats(arrays: Sequence[Any]) -> list[float]:
    """The numbers in arrays of one element."""
    return [array.item() for array in arrays]
