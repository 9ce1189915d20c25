"""Many replies at once: prefills stable prefixes one by one, then generates all replies in one batch.

Each question takes the same steps as in `turn`, so it gets the same checkpoints as alone. The part after its
stable prefix is never kept, so the batch prefills that too if the model can. If the cache cannot be batched,
replies are generated one by one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from chatcli.checkpoints.checkpoints import BatchTrial, Checkpoints
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Entry
from chatcli.engine.batch import Batch, is_exact, max_sequences
from chatcli.engine.generate import GenerationRequest, Token
from chatcli.errors import ContextFull, MemoryFull, TemplateRefused, UsageError
from chatcli.events import (
    Alternatives,
    Answered,
    Batched,
    Event,
    Notice,
    PrefillProgress,
    PrefixMatched,
    Refused,
    TurnRecord,
)
from chatcli.kv import prompt_cache
from chatcli.kv.memory_limit import MemoryLimit
from chatcli.records import ReplyRecord
from chatcli.settings.values import Sampling
from chatcli.threads.mlx_thread import StopSignal
from chatcli.turn import turn
from chatcli.turn.journal import ReplyJournal
from chatcli.turn.prompt import Prompt, TurnContext, render, room_left
from chatcli.turn.record import keep, provenance
from chatcli.turn.regenerate import last_question
from chatcli.turn.reply import ReplyCollector

CANNOT_MERGE = "This model's cache cannot be batched: the replies are generated one by one."
DIFFERS = "This model replies differently in a batch: the replies are generated one by one."
NO_ROOM = "There is not enough memory for a second sequence: the replies are generated one by one."


@dataclass(eq=False)
class BatchReply:
    """Reply `number`, from 1, to a prompt whose stable prefix has been run; `facts` are for its record.

    `entry_id` is the id of its parts.
    """

    number: int
    context: TurnContext
    prompt: Prompt
    sampling: Sampling
    record: TurnRecord
    facts: ReplyRecord
    collector: ReplyCollector
    started: float
    cancelled: threading.Event
    entry_id: str | None = None

    def request(self) -> GenerationRequest:
        """The request that runs everything after the stable prefix."""
        prompt, used = self.prompt, len(self.prompt.tokens)
        self.record.unrun_tokens = 0
        return GenerationRequest(
            prompt.tail,
            self.sampling,
            self.context.checkpoints.room(used, room_left(self.context, used)),
            reply_start=prompt.reply_start,
            generation_prompt=prompt.generation_prompt,
            prefix=prompt.stable,
            answer=self.context.answer,
        )

    def take(self, token: Token) -> bool:
        """Collect the next token. Returns whether it is the last."""
        if self.record.time_to_first_token is None:
            self.record.time_to_first_token = time.perf_counter() - self.started
        self.show(self.collector.take(token))
        return self.collector.stopped or token.finish_reason is not None

    def finish(self) -> None:
        """End the reply: there are no more tokens."""
        self.show(self.collector.finish())
        self.record.logprobs = self.context.checkpoints.floats(self.collector.logprobs)

    def show(self, events: Iterator[Event]) -> None:
        """Events before the end are not needed."""
        deque(events, maxlen=0)

    def keep(self) -> Entry:
        """Save the reply below its question."""
        return keep(self.context, self.prompt.leaf, self.record, self.facts, self.entry_id)


Step = Event | BatchReply
R = TypeVar("R", bound=BatchReply)


def answer_each(
    context: TurnContext,
    texts: Sequence[str],
    cancelled: threading.Event,
    max_at_once: int | None = None,
    images: Sequence[Image] = (),
) -> Iterator[Event]:
    """Answer each text in its own turn, as siblings, with the same images; the head stays.

    Yields `Answered` or `Refused` for each when it ends. Setting `cancelled` stops and keeps the tokens so
    far. `max_at_once` None: as many as fit. Raises as `turn.append` does, and `FolderError`.
    """
    head = context.conversation.head
    questions = _questions(context, texts, images, cancelled)
    for step in _run(context, questions, len(texts), cancelled, max_at_once):
        if not isinstance(step, BatchReply):
            yield step
        elif step.record.tokens:
            step.keep()
            context.session.move_head(head)
            yield Answered(step.number, step.record)
    yield from turn.store_problem(context)


def alternatives(context: TurnContext, count: int, cancelled: threading.Event) -> Iterator[Event]:
    """Generate `count` more replies to the last question, beside the existing ones.

    The first becomes the head. Raises `NothingToRepeat`, `UsageError` if all would be identical, and as
    `turn.take` does.
    """
    question = last_question(context)
    if not context.sampling.temp:
        raise UsageError("At temperature 0 every reply would be the same: /set temp 0.8 first.")
    kept: dict[int, tuple[TurnRecord, str]] = {}
    replies = _replies(context, question, count, cancelled)
    for step in _run(context, replies, count, cancelled):
        if not isinstance(step, BatchReply):
            yield step
        elif step.record.tokens:
            entry = step.keep()
            kept[step.number] = step.record, entry.id
    yield from turn.store_problem(context)
    shown = [kept[number] for number in sorted(kept)]
    if shown:
        context.session.move_head(shown[0][1])
    yield Alternatives(tuple(record for record, _ in shown), tuple(name for _, name in shown))


def _questions(
    context: TurnContext, texts: Sequence[str], images: Sequence[Image], cancelled: threading.Event
) -> Iterator[Step]:
    """Save each question without moving the head, and run it when its turn comes."""
    head = parent = context.conversation.head
    for number, text in enumerate(texts, start=1):
        if cancelled.is_set():
            return
        started = time.perf_counter()
        user = turn.append(context, text, images, parent)
        # If the last message has no reply, the questions follow an empty one.
        parent = user.parent
        context.session.move_head(head)
        try:
            yield from _prepared(context, user, number, context.sampling, started, cancelled)
        except (TemplateRefused, ContextFull, MemoryFull) as error:
            yield Refused(number, str(error))


def _replies(context: TurnContext, user: Entry, count: int, cancelled: threading.Event) -> Iterator[Step]:
    """The same question `count` times, each time with another seed."""
    siblings = len(context.conversation.children(user.id))
    for number in range(1, count + 1):
        sampling = context.sampling.shifted(siblings + number - 1)
        for step in _prepared(context, user, number, sampling, time.perf_counter(), cancelled):
            if number == 1 or not isinstance(step, PrefixMatched | PrefillProgress):
                yield step


def _prepared(
    context: TurnContext,
    user: Entry,
    number: int,
    sampling: Sampling,
    started: float,
    cancelled: threading.Event,
) -> Iterator[Step]:
    """Prefill a question to the end of its stable prefix; the last step is its reply, not yet generated.

    The live cache stays there until the next step is requested.
    """
    prompt = render(context, user)
    record = TurnRecord(context.session.name, context.conversation.turn_count(user.id))
    yield from turn.prefill(context, prompt, record, cancelled)
    record.checkpoint_bytes += turn.hand_over(context)
    facts = provenance(context, prompt)
    if not cancelled.is_set():
        collector = turn.reply_collector(context, prompt, sampling, record)
        yield BatchReply(number, context, prompt, sampling, record, facts, collector, started, cancelled)


def _run(
    context: TurnContext,
    steps: Iterator[Step],
    total: int,
    cancelled: threading.Event,
    max_at_once: int | None = None,
) -> Iterator[Step]:
    """Run `steps`, yielding each reply only when it has ended or was cut off.

    A question joins as soon as there is memory for its sequence. If there is memory for only one, each reply
    is generated on the live cache, as in any other turn.
    """
    limit, at_once = min(total, max_at_once or total), 0
    replies: Replies[BatchReply] = Replies(context.checkpoints)
    done = tokens = 0
    with contextlib.closing(replies), ReplyJournal(context.session) as journal:
        while True:
            while len(replies) < (at_once or 1) and not cancelled.is_set():
                if (reply := next(steps, None)) is None:
                    break
                if not isinstance(reply, BatchReply):
                    yield reply
                    continue
                if not at_once:
                    # How many fit depends on the length of the first.
                    most, why = fitting(context.checkpoints, reply.prompt) if limit > 1 else (1, "")
                    at_once = min(limit, most)
                    if at_once == 1 < limit:
                        yield Notice(why)
                reply.entry_id = journal.begin(reply.prompt.leaf, reply.record, reply.facts.copy)
                if at_once > 1:
                    replies.batch(reply, reply.request())
                else:
                    given = reply.prompt, reply.sampling, reply.collector, reply.started, cancelled
                    replies.take_turns(reply, turn.generate(context, *given))
            if not replies:
                return
            failed = list(replies.read())
            while replies.is_reading:
                failed += replies.read()
            for reply, error in [*failed, *replies.step()]:
                if error is not None:
                    raise error
                if at_once > 1:
                    reply.finish()
                done, tokens = done + 1, tokens + len(reply.record.tokens)
                journal.end(str(reply.entry_id))
                yield reply
            yield Batched(done, total, tokens + sum(len(reply.record.tokens) for reply in replies))


def fitting(checkpoints: Checkpoints, prompt: Prompt) -> tuple[int, str]:
    """How many sequences as long as the live cache fit in a batch, and the reason if only one."""
    if checkpoints.unbatched_reason is not None:
        return 1, checkpoints.unbatched_reason
    call, cache = checkpoints.worker.call, checkpoints.live.cache
    if not call(prompt_cache.can_merge, cache):
        return 1, CANNOT_MERGE
    limit = checkpoints.memory
    allowed = limit.max_bytes if isinstance(limit, MemoryLimit) else None
    max_at_once: int = call(max_sequences, cache, allowed)
    if max_at_once == 1:
        return 1, NO_ROOM
    return (max_at_once if tried(checkpoints, prompt.tail).generates else 1), DIFFERS


def tried(checkpoints: Checkpoints, tail: Sequence[int]) -> BatchTrial:
    """What a batch can do with this model. The first call tests it, with `tail` after the live cache."""
    trial = checkpoints.in_batch
    if trial.generates is None:
        call, given = checkpoints.worker.call, (checkpoints.loaded, checkpoints.live.cache, tail)
        trial.reads = call(is_exact, *given)
        trial.generates = trial.reads or call(is_exact, *given, reads_together=False)
    return trial


class Replies(Generic[R]):
    """The replies being generated, in one batch or in turns. Others may join at any time."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._worker, self._loaded, self._trial = checkpoints.worker, checkpoints.loaded, checkpoints.in_batch
        self._batch: Batch | None = None
        self._batched: dict[int, R] = {}
        self._in_turns: dict[R, Generator[object]] = {}
        self._reading: Generator[int] | None = None

    def __iter__(self) -> Iterator[R]:
        return iter([*self._in_turns, *self._batched.values()])

    def __len__(self) -> int:
        return len(self._in_turns) + len(self._batched)

    @property
    def in_turns(self) -> int:
        """The number of replies that take turns, each with its own cache."""
        return len(self._in_turns)

    @property
    def generating(self) -> int:
        """The number of replies that get a token from each step: prefilled in the batch, or taking turns."""
        return len(self._in_turns) + (0 if self._batch is None else self._batch.generating)

    @property
    def joining(self) -> int:
        """The number of replies that joined the batch since its last `read` began."""
        return 0 if self._batch is None else self._batch.joining

    @property
    def is_reading(self) -> bool:
        """Whether a `read` has begun and not ended."""
        return self._reading is not None

    def batch(self, reply: R, request: GenerationRequest) -> None:
        """Generate it in the batch, on a fork of the live cache, which holds all but the request's tail.

        It gets its first token after the batch has prefilled the tail.
        """
        self._batch = self._batch or self._worker.call(Batch, self._loaded, bool(self._trial.reads))
        number = self._worker.call(self._batch.add, reply.context.checkpoints.fork(), request)
        self._batched[number] = reply

    def take_turns(self, reply: R, steps: Generator[object]) -> None:
        """Generate it separately: each of `steps` collects a token."""
        self._in_turns[reply] = steps

    def read(self, others: StopSignal | None = None) -> Iterator[tuple[R, Exception | None]]:
        """Prefill the tails of all replies that have joined, in one pass, up to the next place to stop.

        It can stop after a chunk, and between layers while `others` is set. Yields the replies that an error
        ends.
        """
        if self._batch is None:
            return
        if self._reading is None:
            self._reading = self._worker.stream(self._batch.read, others)
        try:
            if next(self._reading, None) is None:
                self._reading = None
        except Exception as error:
            self._reading = None
            ended = [number for number in self._batched if number not in self._batch]
            if not ended:
                yield from self._failed(error)
            for number in ended:
                yield self._batched.pop(number), error

    def step(self) -> Iterator[tuple[R, Exception | None]]:
        """Generate the next token of each reply. Yields those that have ended, possibly with an error."""
        for reply in list(self._in_turns):
            yield from self.step_of(reply)
        if self._batch is None or not self._batched:
            return
        call, ended = self._worker.call, []
        try:
            for number in [number for number, reply in self._batched.items() if reply.cancelled.is_set()]:
                call(self._batch.drop, number)
                ended.append(reply := self._batched.pop(number))
                if not reply.record.tokens:
                    reply.record.unrun_tokens = len(reply.prompt.tail)
            for number, token in call(self._batch.step):
                if self._batched[number].take(token):
                    call(self._batch.drop, number)
                    ended.append(self._batched.pop(number))
        except Exception as error:
            yield from self._failed(error)
        yield from ((reply, None) for reply in ended)

    def _failed(self, error: Exception) -> Iterator[tuple[R, Exception | None]]:
        """Drop the batch, which the error may have damaged; the next reply gets a new one.

        Yields its replies with the error.
        """
        failed, batch = list(self._batched.values()), self._batch
        self._batch, self._batched, self._reading = None, {}, None
        with contextlib.suppress(Exception):
            if batch is not None:
                self._worker.call(batch.close)
        yield from ((reply, error) for reply in failed)

    def step_of(self, reply: R) -> Iterator[tuple[R, Exception | None]]:
        """`step`, for a reply that takes turns."""
        try:
            next(self._in_turns[reply])
            return
        except StopIteration:
            ended = None
        except Exception as error:
            ended = error
        del self._in_turns[reply]
        yield reply, ended

    def close(self) -> None:
        """Drop the replies that have not ended."""
        for steps in self._in_turns.values():
            steps.close()
        if self._reading is not None:
            self._reading.close()
        if self._batch is not None:
            self._worker.call(self._batch.close)
        self._batch, self._batched, self._in_turns, self._reading = None, {}, {}, None
