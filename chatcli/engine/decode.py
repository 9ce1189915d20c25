"""Generation by guessing and checking: one pass of the model runs the next token and guesses of what follows.

Each position's token is chosen as without a guess, by the same processors and sampler and from the same
random state, and a guess is right as long as it equals what was chosen. So the model's distribution is kept
exactly, and a reply does not depend on what was guessed, but for what rounding does to a pass of several
tokens. (Speculative decoding is Leviathan et al.'s and Chen et al.'s; their guesses are drawn by chance, so
they have to reject by chance.)
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

# MLX's cache of freed buffers is emptied after so many tokens, as mlx-lm does.
CLEAR_AFTER = 256
# Passes are measured so often at most, until so many seconds are over; of one token, so many in a row.
ROUNDS, ENOUGH, CHAIN = 5, 0.25, 4
# Where a pass takes so many times as long as one of half its length, longer ones give no more a second.
LINEAR = 1.7


class Guesser(Protocol):
    """Guesses a reply's next tokens. `is_draft`: it is a draft model."""

    is_draft: bool

    def begin(self, prompt: Sequence[int], elsewhere: Sequence[str], measure: Measure) -> None:
        """A reply to this prompt begins: its first token is being computed.

        The texts of `elsewhere` were said in the conversation, but are not in the prompt. `measure` measures
        what passes cost, whenever it is called until the reply ends.
        """

    def waits(self) -> bool:
        """Whether the next token should be known before the model is run on it, to guess those after it."""

    def guess(self, most: int, waiting: int, *, is_rerun: bool) -> list[int]:
        """At most `most` next tokens, to be run with the `waiting` ones that are known; none: not worth it.

        `is_rerun`: if something is wrong, what was right is run again in the next pass.
        """

    def took(self, tokens: Sequence[int]) -> None:
        """The reply's next tokens, those that were guessed among them."""

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
    """As `generate`, with guesses. While nothing is guessed a token's pass is begun before it is known."""
    with device.explained(), wired_limit(loaded.model, [generation_stream]):
        passes, chooser = _Passes(loaded, cache, request, log), _Chooser(loaded, request)
        tail, most = passes.prefill(request.tail), max_tokens(request.sampling, request.room)
        reply = _Reply(loaded, request, most)
        # Known tokens that the cache lacks, and those that the processors have not seen.
        waiting, unseen = tail[-1:], mx.array(tail)
        # A token that is being computed, with its logprobs; the cache has all before it.
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
    """Runs the model on the live cache, and keeps what `generate` keeps: windows' rows and the last states.

    What was run counts once it is to stay: `hold` says so.
    """

    def __init__(
        self, loaded: LoadedModel, cache: PromptCache, request: GenerationRequest, log: RowLog
    ) -> None:
        self._loaded, self._cache, self._log = loaded, cache, log
        self.stateful = prompt_cache.is_stateful(cache)
        self._held, self._unlogged = len(request.prefix), 0
        self._room = request.room
        # On the CPU what other programs take is no cost of a pass.
        self._clock = time.process_time if mx.default_device().type == mx.cpu else time.perf_counter
        # Some tokens to measure passes with.
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
        """Run all of `tail` but its last token. Returns it in the model's vocabulary."""
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
        """How many tokens may be guessed after so many known ones.

        A pass ends where a state is kept: states are at the ends of passes only.
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
        """The cache as it is now, to take back what is run next."""
        return prompt_cache.snapshot(self._cache, self._held)

    def fly(self, tokens: Any, unseen: Any, chooser: _Chooser) -> tuple[Any, Any]:
        """Begin a pass of tokens that stay: the next token and its logprobs, still being computed."""
        logits = self.run(tokens)
        with mx.stream(generation_stream):
            chosen, logprobs = chooser.choose(unseen, logits[-1:])
            mx.async_eval(chosen, logprobs)  # type: ignore[no-untyped-call]
        self.hold(tokens.size)
        return chosen, logprobs

    def costs(self) -> PassCosts | None:
        """Measure what passes of several tokens cost here; None: there is no room for it.

        Each pass goes on from the one before, as in a reply: MLX may plan its attention for every length. The
        cache is afterwards what it was.
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
        """What a pass of so many tokens takes; of one, where each is begun before the last one is known."""
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
        """The cache has `count` tokens more that stay."""
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
    """Chooses the token of one position after the other, as mlx-lm's loop does."""

    def __init__(self, loaded: LoadedModel, request: GenerationRequest) -> None:
        sampling = request.sampling
        self._sample = seeded(sampler_for(loaded.tokenizer, sampling), sampling)
        self._processors = logits_processors(loaded, request)
        self._is_greedy = not sampling.temp and not self._processors
        # The tokens that the processors have seen.
        self._seen: Any = None

    def choose(self, unseen: Any, logits: Any) -> tuple[Any, Any]:
        """The next token, an array of one, and the logprobs of all, from logits of shape (1, vocabulary)."""
        if self._processors:
            self._seen = unseen if self._seen is None else mx.concatenate([self._seen, unseen])
            for processor in self._processors:
                logits = processor(self._seen, logits)
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        return self._sample(logprobs), logprobs[0]

    def check(self, unseen: Any, guess: Sequence[int], logits: Any) -> tuple[list[int], Sequence[Any]]:
        """The tokens that are chosen as long as the guess is right, one more, and the logprobs of each.

        Row i of `logits` is what follows the first i guesses.
        """
        with mx.stream(generation_stream):
            if self._is_greedy:
                logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
                chosen: list[int] = self._sample(logprobs).tolist()
                wrong = (place for place, token in enumerate(guess) if token != chosen[place])
                return chosen[: next(wrong, len(guess)) + 1], logprobs
            # A processor may remember, and chance is drawn, once for each token of the reply.
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
    """Makes a reply's tokens, and knows when it has ended."""

    def __init__(self, loaded: LoadedModel, request: GenerationRequest, most: int) -> None:
        self.count, self.has_ended = 0, False
        self._most, self._likeliest = most, request.likeliest
        self._text_of_token = continued_text(loaded, request.reply_start)
        self._stop_tokens = loaded.tokenizer.eos_token_ids
        self._began = 0.0

    def token(
        self, token: int, logprobs: Any, guessed: int = 0, right: bool = False, is_draft: bool = False
    ) -> Token:
        """The next one; `logprobs` has shape (vocabulary,). `guessed` were guessed in the pass it begins."""
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
