"""Speculative generation: one pass of the model runs the next token and guesses of the tokens after it.

Each token is sampled as without guesses: by the same processors and sampler, from the same random state. A
guess is accepted if it equals the sampled token. So the model's distribution is exact, and guesses do not
change a reply, except through the rounding of a pass of several tokens. (Speculative decoding is Leviathan et
al.'s and Chen et al.'s; they sample their guesses, and therefore need rejection sampling.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, Protocol

import mlx.core as mx
from mlx_lm.generate import generation_stream, wired_limit

from chatcli.engine import embeddings
from chatcli.engine.generate import (
    STATE_TOKENS,
    GenerationRequest,
    Token,
    continued_text,
    likeliest_tokens,
    log_rows,
    logits_processors,
    max_tokens,
    reserve,
    token_logprob,
)
from chatcli.engine.known_costs import Measure
from chatcli.engine.pace import LENGTHS, PassCosts
from chatcli.engine.sampling import sampler_for, seeded
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog, Snapshot
from chatcli.kv.whole import whole_buffers
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.threads.mlx_thread import StopSignal

# MLX's cache of freed buffers is cleared after this many tokens, as in mlx-lm.
CLEAR_AFTER = 256
# The most rounds of measuring passes, the seconds after which no other round starts, and how many one-token
# passes are chained.
ROUNDS, ENOUGH, CHAIN = 5, 0.25, 4
# If a pass takes this many times as long as one of half its length, longer passes gain nothing.
LINEAR = 1.7


class Guesser(Protocol):
    """Guesses a reply's next tokens. `is_draft`: whether it is a draft model."""

    is_draft: bool

    def begin(self, prompt: Sequence[int], elsewhere: Sequence[str], measure: Measure) -> None:
        """A reply to this prompt begins: its first token is being computed.

        The texts of `elsewhere` belong to the conversation, but not to the prompt. `measure` measures the
        cost of passes; it may be called until the reply ends.
        """

    def waits(self) -> bool:
        """Whether the next token should be known before the model is run on it, to guess those after it."""

    def guess(self, most: int, waiting: int, *, is_rerun: bool) -> list[int]:
        """Guess at most `most` tokens, to run with the `waiting` known ones; none if guessing does not pay.

        `is_rerun`: after a wrong guess, the accepted ones are run again in the next pass.
        """

    def took(self, tokens: Sequence[int]) -> None:
        """The reply's next tokens, including accepted guesses."""

    def finish(self) -> None:
        """The reply has ended."""


def decode(
    guesser: Guesser,
    loaded: LoadedModel,
    cache: PromptCache,
    request: GenerationRequest,
    cancelled: StopSignal,
    log: RowLog,
) -> Iterator[Token]:
    """As `generate`, with guesses. Without a guess, a token's pass starts before the token is known."""
    with device.explained(), wired_limit(loaded.model, [generation_stream]):
        passes, chooser = _Passes(loaded, cache, request, log), _Chooser(loaded, request)
        tail, most = passes.prefill(request.tail), max_tokens(request.sampling, request.room)
        reply = _Reply(loaded, request, most)
        # Known tokens that the cache lacks, and those that the processors have not seen.
        waiting, unseen = tail[-1:], mx.array(tail)
        # A token being computed, with its logprobs; the cache has all tokens before it.
        flight: tuple[Any, Any] | None = None
        is_done = False
        while not is_done:
            room = min(most - reply.count - 1, passes.room(len(waiting)))
            guess: list[int] = []
            if flight is None:
                guess = guesser.guess(room, len(waiting), is_rerun=passes.stateful)
            if guess:
                run, before = passes.padded([*waiting, *guess], len(waiting)), passes.snapshot()
                logits = passes.run(mx.array(run))[len(waiting) - 1 : len(waiting) + len(guess)]
                chosen, logprobs = chooser.check(unseen, guess, logits)
                taken = list[int]()
                for place, token in enumerate(chosen):
                    right = place < len(guess) and token == guess[place]
                    taken.append(token)
                    yield reply.token(
                        token, logprobs[place], len(guess) * (place == 0), right, guesser.is_draft
                    )
                    if is_done := reply.has_ended or cancelled.is_set():
                        break
                kept = len(waiting) + min(len(taken), len(chosen) - 1)
                held = prompt_cache.take_back(cache, before, len(run), kept)
                passes.hold(held)
                waiting, unseen = [*waiting, *taken][held:], mx.array(chosen[-1:])
                guesser.took(taken)
                continue
            if flight is None:
                flight = passes.fly(mx.array(waiting), unseen, chooser)
                waiting = []
                if not reply.count:
                    guesser.begin([*request.prefix, *request.tail], request.elsewhere, passes.costs)
            newest, row = flight
            if waits := guesser.waits():
                flight, unseen = None, newest
            else:
                flight = passes.fly(newest, newest, chooser)
            token = newest.item()
            if waits:
                waiting = [token]
            if not reply.count:
                passes.reserve(planned=True)
            yield reply.token(token, row)
            guesser.took([token])
            is_done = reply.has_ended or cancelled.is_set()
        if waiting:
            passes.run(mx.array(waiting))
            passes.hold(len(waiting))
        passes.finish()
        guesser.finish()


class _Passes:
    """Runs the model on the live cache, and logs what `generate` logs: windows' rows and the last states.

    Tokens that were run count only after `hold`, when they can no longer be taken back.
    """

    def __init__(
        self, loaded: LoadedModel, cache: PromptCache, request: GenerationRequest, log: RowLog
    ) -> None:
        self._loaded, self._cache, self._log = loaded, cache, log
        self.stateful = prompt_cache.is_stateful(cache)
        self._held, self._unlogged = len(request.prefix), 0
        self._room = request.room
        # On the CPU, time that other programs take must not count.
        self._clock = time.process_time if mx.default_device().type == mx.cpu else time.perf_counter
        # The tokens that measure passes.
        known = [token for token in [*request.prefix[-LENGTHS[-1] :], *request.tail] if token >= 0]
        self._sample = list(islice(cycle(known), LENGTHS[-1]))
        window = prompt_cache.shortest_window(cache)
        # Often enough that no window drops a row before it is logged.
        self._log_interval = (window or request.room) // 2
        self._most_in_one_pass = request.room if window is None else self._log_interval
        self._planned = self._held + len(request.tail) >= prompt_cache.PLANNED_ROWS
        self.reserve(planned=False)

    def reserve(self, *, planned: bool) -> None:
        """As `generate` does before the first token, and after it."""
        reserve(self._loaded, self._cache, planned=planned and self._planned)

    def prefill(self, tail: Sequence[int]) -> list[int]:
        """Run all of `tail` but its last token. Returns `tail` in the model's vocabulary."""
        stretch, step = embeddings.Stretch(self._loaded, tail), self._loaded.prefill_step
        last = len(tail) - 1
        for start in range(0, last, step):
            end = min(start + step, last)
            with mx.stream(generation_stream):
                ids, arguments = stretch.ids(start, end), stretch.arguments(start, end)
                self._loaded.model(ids, cache=self._cache, **arguments)
                prompt_cache.evaluate(self._cache)
            mx.clear_cache()
        self._held += last
        self._unlogged += last
        return stretch.tokens

    def room(self, waiting: int) -> int:
        """The most tokens that may be guessed after `waiting` known ones.

        A pass must end wherever a state is kept, because states exist only at the ends of passes.
        """
        rooms = [self._most_in_one_pass]
        if self.stateful:
            rooms.append(STATE_TOKENS - self._held % STATE_TOKENS)
        if (most := prompt_cache.most_in_one_pass(self._loaded.model, self._cache)) is not None:
            rooms.append(most)
        return min(rooms) - waiting

    def padded(self, run: list[int], waiting: int) -> list[int]:
        """Tokens to run, of which `waiting` are known, up to one of few lengths where each needs a plan."""
        length = next((each for each in LENGTHS if each >= len(run)), len(run))
        if not self._loaded.plans_attention or self.stateful or length - waiting > self.room(waiting):
            return run
        return run + run[-1:] * (length - len(run))

    def run(self, tokens: Any) -> Any:
        """The logits after each of `tokens`, of shape (tokens, vocabulary)."""
        with mx.stream(generation_stream):
            cache = self._cache
            if self._loaded.plans_attention and tokens.size > 1:
                cache = whole_buffers(cache, tokens.size)
            return self._loaded.model(tokens[None], cache=cache)[0]

    def snapshot(self) -> Snapshot:
        """A snapshot from which the next pass can be taken back."""
        return prompt_cache.snapshot(self._cache, self._held)

    def fly(self, tokens: Any, unseen: Any, chooser: _Chooser) -> tuple[Any, Any]:
        """Start a pass of known tokens. Returns the next token and its logprobs, still being computed."""
        logits = self.run(tokens)
        with mx.stream(generation_stream):
            chosen, logprobs = chooser.choose(unseen, logits[-1:])
            mx.async_eval(chosen, logprobs)  # type: ignore[no-untyped-call]
        self.hold(tokens.size)
        return chosen, logprobs

    def costs(self) -> PassCosts | None:
        """Measure the cost of passes of several tokens; None if the cache has no room for them.

        Each pass continues from the one before, as in a reply, because MLX may plan attention for every
        length. The cache is then restored.
        """
        most = prompt_cache.most_in_one_pass(self._loaded.model, self._cache)
        rounds = ROUNDS + self._loaded.plans_attention
        if min(self._room, self._room if most is None else most) < rounds * (CHAIN + sum(LENGTHS)):
            return None
        prompt_cache.evaluate(self._cache)
        before, seconds, lengths = self.snapshot(), dict[int, float](), list(LENGTHS)
        if self._loaded.plans_attention:
            # Make the plans, which later passes use.
            for length in lengths[1:]:
                self._seconds(length)
        began = self._clock()
        for number in range(ROUNDS):
            if number and self._clock() - began > ENOUGH:
                break
            for length in lengths:
                seconds[length] = min(self._seconds(length), seconds.get(length, math.inf))
                if length > 2 and seconds[length] > LINEAR * seconds[length // 2]:
                    break
            lengths = list(seconds)
        prompt_cache.rewind(self._cache, before)
        return PassCosts.from_seconds(seconds)

    def _seconds(self, length: int) -> float:
        """The time of a pass of `length` tokens; with 1, each pass starts before the last token is known."""
        count = CHAIN if length == 1 else 1
        tokens, began = mx.array(self._sample[:length]), self._clock()
        for _ in range(count):
            logits = self.run(tokens)
            with mx.stream(generation_stream):
                tokens = mx.argmax(logits, axis=-1)
                mx.async_eval(tokens)  # type: ignore[no-untyped-call]
        mx.eval(tokens)
        return (self._clock() - began) / count

    def hold(self, count: int) -> None:
        """Count `count` more tokens that stay in the cache, and log what is due."""
        self._held += count
        self._unlogged += count
        if count and self.stateful and self._held % STATE_TOKENS == 0:
            self._log.keep_state(self._cache, self._held)
        if self._unlogged >= self._log_interval:
            self._log_rows()

    def finish(self) -> None:
        """The reply has ended."""
        with mx.stream(generation_stream):
            prompt_cache.evaluate(self._cache)
        self._log_rows()

    def _log_rows(self) -> None:
        log_rows(self._cache, self._unlogged, self._log)
        self._unlogged = 0


class _Chooser:
    """Samples one position after the other, as mlx-lm's loop does."""

    def __init__(self, loaded: LoadedModel, request: GenerationRequest) -> None:
        sampling = request.sampling
        self._sample = seeded(sampler_for(loaded.tokenizer, sampling), sampling)
        self._processors = logits_processors(loaded, request)
        self._is_greedy = not sampling.temp and not self._processors
        # The tokens that the processors have seen.
        self._seen: Any = None

    def choose(self, unseen: Any, logits: Any) -> tuple[Any, Any]:
        """The next token (an array of one) and all logprobs, from logits of shape (1, vocabulary)."""
        if self._processors:
            self._seen = unseen if self._seen is None else mx.concatenate([self._seen, unseen])
            for processor in self._processors:
                logits = processor(self._seen, logits)
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        return self._sample(logprobs), logprobs[0]

    def check(self, unseen: Any, guess: Sequence[int], logits: Any) -> tuple[list[int], Sequence[Any]]:
        """The tokens chosen up to the first wrong guess, that one included, and the logprobs of each.

        If all are right, one more token follows. Row i of `logits` comes after the first i guesses.
        """
        with mx.stream(generation_stream):
            if self._is_greedy:
                logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
                chosen: list[int] = self._sample(logprobs).tolist()
                wrong = (place for place, token in enumerate(guess) if token != chosen[place])
                return chosen[: next(wrong, len(guess)) + 1], logprobs
            # Processors may be stateful and sampling is random: call both once for each token of the reply.
            chosen, rows = [], []
            for place in range(len(guess) + 1):
                token, row = self.choose(unseen, logits[place : place + 1])
                chosen.append(token.item())
                rows.append(row)
                if place == len(guess) or chosen[-1] != guess[place]:
                    break
                unseen = token
            return chosen, rows


class _Reply:
    """Builds a reply's `Token`s and detects its end."""

    def __init__(self, loaded: LoadedModel, request: GenerationRequest, most: int) -> None:
        self.count, self.has_ended = 0, False
        self._most, self._likeliest = most, request.likeliest
        self._text_of_token = continued_text(loaded, request.reply_start)
        self._stop_tokens = loaded.tokenizer.eos_token_ids
        self._began = 0.0

    def token(
        self, token: int, logprobs: Any, guessed: int = 0, right: bool = False, is_draft: bool = False
    ) -> Token:
        """The next token. `logprobs` has shape (vocabulary,); `guessed` counts the guesses of its pass."""
        self.count += 1
        if self.count == 1:
            self._began = time.perf_counter()
        reason = "stop" if token in self._stop_tokens else "length" if self.count == self._most else None
        self.has_ended = reason is not None
        if self.count % CLEAR_AFTER == 1:
            mx.clear_cache()
        return Token(
            token,
            self._text_of_token(token, reason),
            token_logprob(logprobs, token),
            self.count / (time.perf_counter() - self._began),
            reason,
            from_draft=right and is_draft,
            likeliest=likeliest_tokens(logprobs, self._likeliest),
            guessed=guessed,
            accepted=right,
        )
