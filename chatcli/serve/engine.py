"""Runs the requests of a server: reads prompts by turns, generates together, settles while nobody asks.

One thread schedules. It goes round: it renders a request that has come, reads a chunk of one prompt, or some
layers of it, and gives each reply that is generated a token. Each prompt that is being read has a live cache
of its own, so that a short one need not wait for a long one. What is new in a prompt and read in a moment is
read with that of others in one pass. Those rows are for the reply only: what is stored of them is read again
when the reply is settled. A reply that is alone is generated on the live cache, as the shell does it, so that
the next request can go on from there; others join a batch, where the model allows one, or take turns.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.engine import structured
from chatcli.engine.batch import MAX_SEQUENCES
from chatcli.engine.sampling import check_logit_bias
from chatcli.errors import ChatcliError, TemplateRefused, TemplateStopped
from chatcli.events import PrefillProgress, TurnRecord
from chatcli.kv.memory_limit import MemoryLimit
from chatcli.serve.conversations import Conversations
from chatcli.serve.ended import EndedReplies
from chatcli.serve.kept import KeptConversations
from chatcli.serve.prompts import PromptRenderer, Signal
from chatcli.serve.request import Deliver, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.serve.served_reply import ServedReply
from chatcli.session.runtime import Runtime
from chatcli.settings.values import Settings, names_folder
from chatcli.store.segments import inventory
from chatcli.store.sessions import marker
from chatcli.store.sessions.folder import SessionFolder
from chatcli.threads.mlx_thread import Worker
from chatcli.threads.scheduler import Scheduler
from chatcli.turn import turn
from chatcli.turn.batch import NO_ROOM, Replies, fitting, tried
from chatcli.turn.prompt import Prompt, TurnContext
from chatcli.turn.record import provenance
from chatcli.turn.reply import ReplyCollector

# Replies that take turns, where the model's cache cannot be batched: each has a cache of its own.
MAX_TAKING_TURNS = 4
# Prompts that are read by turns, each with a live cache, and those rendered, to choose the next from.
MAX_BEING_READ, MAX_RENDERED = 4, 64
# What is new in a prompt and takes no longer is read with that of others, as many as mlx-lm's server does.
# Nobody waits longer for others than `GATHER_SECONDS`.
MOMENT_SECONDS, MAX_READ_TOGETHER, GATHER_SECONDS = 0.1, 8, 0.05
# Each second that a prompt waits makes up for so many seconds that it takes longer than others.
AGEING = 0.25
# Who asks at once after a reply is not to wait for a chunk of what is settled.
QUIET_SECONDS = 0.02
COUNTS = (
    "requests",
    "hits",
    "prompt_tokens",
    "reused_tokens",
    "prefilled_tokens",
    "settled_tokens",
    "generated_tokens",
)
TRIAL_TEXT = "The quick brown fox jumps over the lazy dog."
ENDING = "The server is stopping: ask again when it runs."
BROKEN = "The server failed on this request; its log says where."

logger = logging.getLogger("chatcli.serve")


@dataclass(frozen=True)
class Job:
    """A request that waits. Setting `cancelled` ends it."""

    request: ReplyRequest
    deliver: Deliver
    cancelled: threading.Event
    received: float


@dataclass(eq=False)
class Reading:
    """A request whose prompt is rendered, and read by `steps`, on a live cache of its own once it has begun.

    It has so many `tokens`; what is left of it takes about `seconds`. Within a chunk, between two layers, no
    other prompt is read.
    """

    job: Job
    steps: Iterator[None] = field(default_factory=lambda: iter(()))
    tokens: int = 0
    seconds: float = 0.0
    checkpoints: Checkpoints | None = None
    is_within_chunk: bool = False

    def urgency(self, now: float) -> float:
        """The shortest comes first; who has waited counts as shorter, so that nobody waits for ever.

        Those that take a moment only come in their order.
        """
        return AGEING * (now - self.job.received) - max(self.seconds, MOMENT_SECONDS)


class Engine:
    """A loaded model that replies to requests, with the checkpoints of a sessions folder."""

    def __init__(self, settings: Settings, model: str, *, keep: bool = False) -> None:
        """`model` is a name as for -m. `keep`: each conversation becomes a session of the folder."""
        # Drafts are for one reply at a time.
        self._settings = replace(settings, draft_model=None)
        self._model, self._keep = model, keep
        self.model = Path(model).name if names_folder(model) else model
        self._scheduler = Scheduler("chatcli-serve")
        self._waiting: deque[Job] = deque()
        self._readings: list[Reading] = []
        self._started = self._closing = False
        # Whether the next round is submitted.
        self._goes_on = False
        # That no prompt is being read on; the reply that is generated on its live cache.
        self._free: Checkpoints | None = None
        self._on_live_cache: ServedReply | None = None
        # When the first of those that the batch is to read joined it.
        self._joined_at = 0.0
        # When the last step ended, and what it took.
        self._stepped_at = self._step_seconds = 0.0
        self._counts = dict.fromkeys(COUNTS, 0)
        self._memory_bytes = 0
        # What a client that brings tools is told; empty where its tools are shown and its calls are read.
        self.tools_notice = ""
        # Whether a bug has ended it, so that nothing is replied to any more.
        self.failed = False

    def start(self) -> None:
        """Load the model. Raises `ModelError` or `FolderError`."""
        marker.claim(self._settings.sessions)
        self._worker = Worker()
        try:
            self._runtime = self._worker.call(Runtime, self._worker, self._settings, self._model)
        except BaseException:
            self._worker.close()
            raise
        self._free = self._checkpoints
        self._replies: Replies[ServedReply] = Replies(self._checkpoints)
        if self._runtime.loaded.plans_attention:
            # Nobody is to wait for the trial, nor for what it compiles, where that takes about a second.
            tail = self._runtime.loaded.tokenizer.encode(TRIAL_TEXT, add_special_tokens=False)
            deque(self._checkpoints.prefill_tail(tail), maxlen=0)
            if not tried(self._checkpoints, tail).generates:
                # A real prompt may tell another story.
                self._checkpoints.in_batch.generates = None
        with suppress(TemplateRefused):
            self.tools_notice = self._runtime.tools_notice()
        if self.tools_notice:
            logger.warning("%s", self.tools_notice)
        folder = SessionFolder(self._settings.sessions)
        conversations = Conversations(folder.location if self._settings.cache or self._keep else None)
        kept = KeptConversations(folder, conversations, self._model) if self._keep else None
        self._prompts = PromptRenderer(self._settings, self._runtime, conversations, self._model)
        self._ended = EndedReplies(conversations, kept)
        self._started = True

    def submit(self, request: ReplyRequest, deliver: Deliver) -> threading.Event:
        """Have a request replied to, from any thread. Returns at once.

        `deliver` is called on the engine's thread with each event, last with `ReplyDone` or an error. Setting
        the event that is returned ends the request after its current chunk or token; what was prefilled is
        kept.
        """
        cancelled = threading.Event()

        def deliver_safely(event: ReplyEvent | ChatcliError) -> None:
            try:
                deliver(event)
            except Exception:
                # Whoever asked is gone, and no other request is to end by it.
                logger.exception("An event could not be delivered")
                cancelled.set()

        job = Job(request, deliver_safely, cancelled, time.perf_counter())
        try:
            if self._closing:
                raise RuntimeError
            self._waiting.append(job)
            self._scheduler.submit(partial(self._guarded, self._go_on))
        except RuntimeError:
            job.deliver(self._refusal())
        return cancelled

    def status(self) -> Mapping[str, Any]:
        """What was asked and reused since the start (tokens), and the bytes that it takes now."""
        counts, running, store = dict(self._counts), self._replies, self._checkpoints.store
        readings = list(self._readings)
        begun = sum(each.checkpoints is not None for each in readings)
        prompt, reused = counts["prompt_tokens"], counts["reused_tokens"]
        numbers = {
            **counts,
            "active": len(running) + begun,
            "queued": len(self._waiting) + len(readings) - begun,
            "unsettled": len(self._ended),
            "unwritten": 0 if store is None else store.unwritten,
            "hit_ratio": reused / prompt if prompt else 0.0,
            "memory_bytes": self._memory_bytes,
        }
        disk_bytes = 0
        with suppress(OSError):
            disk_bytes = inventory.total_bytes(self._settings.sessions)
        return {**numbers, "disk_bytes": disk_bytes, "models": {self.model: numbers}}

    def close(self) -> str | None:
        """End the replies and write what is to be written. Returns what went wrong there, in a sentence."""
        self._closing = True
        for reading in list(self._readings):
            if reading.checkpoints is not None:
                reading.job.cancelled.set()
        if self._started:
            self._scheduler.submit(partial(self._end_all, self._end))
        self._scheduler.close()
        if not self._started:
            return None
        problem = self._runtime.close()
        self._worker.close()
        return problem

    # The scheduler's thread

    @property
    def _checkpoints(self) -> Checkpoints:
        return self._runtime.checkpoints

    def _has_others(self) -> bool:
        """Whether more than one request is there. From any thread."""
        return self._closing or bool(self._waiting) or len(self._readings) + len(self._replies) > 1

    def _guarded(self, job: Callable[..., None], *given: Any) -> None:
        """Run a job, and see to what follows it. Where it fails, which is a bug, nobody is left waiting."""
        try:
            job(*given)
            if self._closing:
                return
            if self._replies or self._readings or self._waiting:
                if not self._goes_on:
                    self._goes_on = True
                    self._scheduler.submit(partial(self._guarded, self._go_on))
            elif self._ended:
                self._scheduler.idle(partial(self._guarded, self._settle))
        except Exception as error:
            logger.exception("The server has failed: start it again")
            self.failed = self._closing = True
            self._end_all(partial(self._fail, error=error))

    def _refusal(self) -> ChatcliError:
        return ChatcliError(BROKEN if self.failed else ENDING)

    def _end_all(self, end: Callable[[ServedReply], None]) -> None:
        """End the replies that are being generated, and refuse the requests that wait."""
        for reading in list(self._readings):
            if reading.checkpoints is None or self.failed:
                self._readings.remove(reading)
                reading.job.deliver(self._refusal())
            reading.job.cancelled.set()
            while reading in self._readings:
                self._read_on(reading)
        replies = list(self._replies)
        with suppress(Exception):  # `end` says what there is to say
            self._replies.close()
        for reply in replies:
            end(reply)
        while self._waiting:
            self._waiting.popleft().deliver(self._refusal())

    def _go_on(self) -> None:
        """A round: render a request, read a piece of one prompt or of several, generate tokens."""
        self._goes_on = False
        if self._closing:
            self._end_all(self._end)
            return
        if self._waiting and len(self._readings) < MAX_RENDERED:
            new = Reading(self._waiting.popleft())
            new.steps = self._read(new)
            self._readings.append(new)
            self._read_on(new)
        replies, reading = self._replies, self._next_reading()
        more_join = (
            replies.joining < MAX_READ_TOGETHER
            and reading is not None
            and reading.seconds <= MOMENT_SECONDS
            and time.perf_counter() < self._joined_at + GATHER_SECONDS
        )
        if replies.is_reading or (replies.joining and not more_join):
            self._end_those(replies.read(self._others_wait()))
        elif reading is not None:
            self._read_on(reading)
        elif replies.generating:
            self._step()
        if self._step_is_due():
            self._step()

    def _next_reading(self) -> Reading | None:
        """Whose prompt is read on: the most urgent one that has room, if one is not within a chunk."""
        begun = [each for each in self._readings if each.checkpoints is not None]
        most = MAX_TAKING_TURNS if self._checkpoints.in_batch.generates is False else MAX_SEQUENCES
        has_room = len(begun) < MAX_BEING_READ and len(self._replies) + len(begun) < most
        for each in self._readings:
            if each.is_within_chunk or (each.checkpoints is None and each.job.cancelled.is_set()):
                return each
        now = time.perf_counter()
        by_urgency = sorted(
            self._readings if has_room else begun, key=lambda each: each.urgency(now), reverse=True
        )
        for each in by_urgency:
            if each.checkpoints is not None or not begun or self._has_memory_for(each.tokens):
                return each
        return None

    def _has_memory_for(self, tokens: int) -> bool:
        """Whether another live cache of so many tokens fits beside what there is."""
        limit = self._checkpoints.memory
        if not isinstance(limit, MemoryLimit):
            return True
        more = limit.needed_bytes(tokens) - limit.weight_bytes
        return self._checkpoints.memory_bytes() + more <= limit.max_bytes

    def _read_on(self, reading: Reading) -> None:
        """One step of a reading, which may be its last."""
        job = reading.job
        if reading.checkpoints is not None:
            reading.checkpoints.others = self._others_wait()
        try:
            next(reading.steps)
            return
        except StopIteration:
            pass
        except TemplateStopped:
            job.deliver(ReplyDone(TurnRecord("", 0)) if job.cancelled.is_set() else self._refusal())
        except ChatcliError as error:
            job.deliver(error)
        except Exception:
            # One request's failure is not the others'.
            logger.exception("A request failed")
            job.deliver(ChatcliError(BROKEN))
        self._readings.remove(reading)
        free = [each for each in (self._free, reading.checkpoints) if each is not None]
        if len(free) > 1:
            # What took longer to compute stays.
            free.sort(key=lambda each: each.live.position.end)
            free.pop(0).retire()
        if free:
            self._free = self._runtime.checkpoints = free[0]

    def _read(self, reading: Reading) -> Iterator[None]:
        """A request's way to its reply: render, and then, when it is chosen, prefill and generate."""
        job = reading.job
        if job.cancelled.is_set():
            job.deliver(ReplyDone(TurnRecord("", 0)))
            return
        is_over = partial(self._is_over, job)
        request = self._prompts.checked(self._ended.with_history(job.request), is_over)
        if job.cancelled.is_set():
            job.deliver(ReplyDone(TurnRecord("", 0)))
            return
        context = self._prompts.context(request, is_over)
        if request.count_only:
            tokens = self._prompts.count(context, request)
            job.deliver(ReplyDone(TurnRecord("", 0, finish_reason="stop", prompt_tokens=tokens)))
            return
        self._ended.gone_on(context.conversation)
        check_logit_bias(context.checkpoints.loaded.tokenizer, request.sampling)
        if request.answer is not None:
            structured.check(context.checkpoints.loaded.tokenizer, request.answer)
            context.answer = request.answer
        context.sampling = request.sampling.over(self._runtime.sampling)
        record = TurnRecord("", len(context.conversation.turns()))
        with self._prompts.keeping(context, request):
            prompt = self._prompts.prompt(context, request)
            reading.tokens = len(prompt.tokens)
            reading.seconds = self._seconds(reading.tokens)
            if reading.seconds > MOMENT_SECONDS and self._has_others():
                plan = context.checkpoints.plan(prompt.path)
                reading.seconds = self._seconds(reading.tokens - plan.tokens)
            yield
            if job.cancelled.is_set():
                job.deliver(ReplyDone(TurnRecord("", 0)))
                return
            checkpoints = self._begin(reading)
            context = replace(context, checkpoints=checkpoints)
            if request.prompt is None and context.sampling.max_tokens != 0:
                prompt = self._for_reading_together(context, prompt)
            done = 0
            for event in turn.prefill(context, prompt, record, job.cancelled):
                job.deliver(event)  # type: ignore[arg-type]
                if isinstance(event, PrefillProgress):
                    reading.is_within_chunk, done = event.done == done, event.done
                    reading.seconds = self._seconds(event.total - done)
                yield
            reading.is_within_chunk = False
            facts = provenance(context, prompt)
        collector = turn.reply_collector(context, prompt, context.sampling, record)
        if request.prompt is not None:
            collector = ReplyCollector(record, None, context.sampling.stop or ())
        self._counts["requests"] += 1
        self._counts["hits"] += record.reused_tokens > 0
        for name in ("prompt_tokens", "reused_tokens", "prefilled_tokens"):
            self._counts[name] += getattr(record, name)
        reply = ServedReply(
            self._counts["requests"],
            context,
            prompt,
            context.sampling,
            record,
            facts,
            collector,
            job.received,
            job.cancelled,
            deliver=job.deliver,
            asked=request,
        )
        if job.cancelled.is_set():
            self._end(reply)
        elif context.sampling.max_tokens == 0:
            # The prompt is read for a request that comes later.
            record.checkpoint_bytes += checkpoints.hand_over()
            record.finish_reason = "length"
            job.deliver(ReplyDone(record))
        else:
            yield from self._generate(reply)

    def _begin(self, reading: Reading) -> Checkpoints:
        """Give a reading a live cache: the free one, or another beside one that is in use."""
        if (own := self._free) is None:
            own = next(each.checkpoints for each in reversed(self._readings) if each.checkpoints).beside()
        elif self._on_live_cache is not None and self._on_live_cache.context.checkpoints is own:
            own.leave_live_cache()
            self._on_live_cache = None
        self._free, reading.checkpoints = None, own
        own.others = self._others_wait()
        return own

    def _seconds(self, tokens: int) -> float:
        """About what it takes to read so many tokens alone."""
        return tokens * self._checkpoints.live.speed.seconds_per_token

    def _for_reading_together(self, context: TurnContext, prompt: Prompt) -> Prompt:
        """The prompt with what is new in it as a tail, if that is read in a moment beside others.

        What came before the last message is kept as always: other requests begin with it.
        """
        checkpoints, path = context.checkpoints, prompt.path
        if not (checkpoints.in_batch.reads and self._has_others()):
            return prompt
        depth = checkpoints.plan(path).depth
        shorter = replace(
            prompt, path=path.upto(max(depth, 0 if checkpoints.disk.is_off else path.last_start))
        )
        is_quick = self._seconds(len(shorter.tail)) <= MOMENT_SECONDS and min(shorter.tail) >= 0
        return shorter if is_quick and fitting(checkpoints, prompt)[0] > 1 else prompt

    def _generate(self, reply: ServedReply) -> Iterator[None]:
        """Have a reply generated: on the live cache if it is alone, else in the batch, else in turns."""
        checkpoints, prompt = reply.context.checkpoints, reply.prompt
        request = replace(reply.request(), likeliest=reply.asked.top_logprobs or 0)
        is_long = self._seconds(len(prompt.tail)) > MOMENT_SECONDS
        while self._has_others() and not reply.cancelled.is_set():
            at_once, why = fitting(checkpoints, prompt)
            if at_once > 1:
                if is_long or not checkpoints.in_batch.reads or min(prompt.tail) < 0:
                    for _ in checkpoints.prefill_tail(prompt.tail):
                        yield
                    request = replace(request, tail=prompt.tail[-1:], prefix=prompt.tokens[:-1])
                if not self._replies.joining:
                    self._joined_at = time.perf_counter()
                self._replies.batch(reply, request)
                return
            if why != NO_ROOM or not self._replies:
                break
            self._step()
            yield
        while self._replies.in_turns >= MAX_TAKING_TURNS and not reply.cancelled.is_set():
            self._step()
            yield
        if reply.cancelled.is_set():
            self._end(reply)
            return
        for _ in checkpoints.prefill_tail(prompt.tail) if is_long else ():
            yield

        def alone() -> Generator[None]:
            tokens = checkpoints.generate(request, reply.cancelled, others=Signal(self._has_others))
            with closing(tokens):
                for token in tokens:
                    if not reply.take(token):
                        yield
                    elif token.finish_reason is None:
                        return

        # Its first token is taken at once: another request may take the live cache before the next.
        self._replies.take_turns(reply, alone())
        self._on_live_cache = reply
        self._end_those(self._replies.step_of(reply))

    def _is_over(self, job: Job) -> bool:
        """Whether a prompt need not be rendered any more. The running replies get their tokens meanwhile."""
        if self._step_is_due():
            self._step()
        return self._closing or job.cancelled.is_set()

    def _step_is_due(self) -> bool:
        """Whether the running replies have waited as long as a step takes: half of the time is theirs."""
        return self._replies.generating > 0 and time.perf_counter() - self._stepped_at >= self._step_seconds

    def _others_wait(self) -> Signal | None:
        """What ends a piece of a prefill between layers, if there are running replies."""
        return Signal(self._step_is_due) if self._replies.generating else None

    def _step(self) -> None:
        """A token of each reply that is being generated."""
        began = time.perf_counter()
        self._end_those(self._replies.step())
        self._stepped_at = time.perf_counter()
        self._step_seconds = self._stepped_at - began

    def _end_those(self, ended: Iterator[tuple[ServedReply, Exception | None]]) -> None:
        for reply, error in ended:
            if self._on_live_cache is reply:
                self._on_live_cache = None
            if error is None:
                self._end(reply)
            else:
                self._fail(reply, error)

    def _fail(self, reply: ServedReply, error: Exception) -> None:
        if not isinstance(error, ChatcliError):
            logger.error("A reply failed", exc_info=error)
            error = ChatcliError(BROKEN)
        reply.deliver(error)

    def _end(self, reply: ServedReply) -> None:
        """Deliver the end of a reply, which is known from now on as the client will send it back."""
        try:
            reply.finish()
            self._counts["generated_tokens"] += reply.record.generated_tokens
            self._memory_bytes = self._checkpoints.memory_bytes()
            self._ended.add(reply)
        except Exception as error:
            self._fail(reply, error)

    def _settle(self, stop: threading.Event) -> None:
        """Settle the newest reply, until somebody asks: it is the likeliest to go on."""
        if not (stop.wait(QUIET_SECONDS) or self._replies or self._readings) and self._ended:
            self._counts["settled_tokens"] += self._ended.settle_newest(self._checkpoints, stop)
