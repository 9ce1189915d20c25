"""Schedules a server's requests: interleaves prefills, generates replies together, settles when idle.

One thread runs rounds. A round renders a new request, prefills a chunk (or some layers of one) of one prompt,
and generates a token of each running reply. Each prompt has its own live cache while it is prefilled, so a
short one does not wait for a long one. Short new parts of several prompts are prefilled in one pass. The rows
of that pass serve only the replies: settling a reply prefills them again before they are stored. A single
reply is generated on the live cache, as in the shell, so the next request can continue from it; simultaneous
replies join a batch if the model allows batches, else they take turns.
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

# The most replies that take turns if the model's cache cannot be batched: each has its own cache.
MAX_TAKING_TURNS = 4
# The most prompts prefilled in turns, each on its own live cache, and the most rendered ones to choose from.
MAX_BEING_READ, MAX_RENDERED = 4, 64
# Prompts whose new part prefills within `MOMENT_SECONDS` are prefilled together, at most as many as in
# mlx-lm's server. A prompt waits at most `GATHER_SECONDS` for others to join.
MOMENT_SECONDS, MAX_READ_TOGETHER, GATHER_SECONDS = 0.1, 8, 0.05
# How many seconds of prefill each second of waiting offsets in a prompt's urgency.
AGEING = 0.25
# The pause before settling, so that a request that follows a reply at once need not wait for a chunk.
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
ENDING = "The server is stopping: try again after it restarts."
BROKEN = "The server failed on this request; its log says where."

logger = logging.getLogger("chatcli.serve")


@dataclass(frozen=True)
class Job:
    """A waiting request. Setting `cancelled` ends it."""

    request: ReplyRequest
    deliver: Deliver
    cancelled: threading.Event
    received: float


@dataclass(eq=False)
class Reading:
    """A request whose prompt `steps` renders and prefills, on its own live cache from the first chunk.

    `tokens` is the prompt's length, `seconds` the estimated time of its remaining prefill. While
    `is_within_chunk`, between two layers, no other prompt is prefilled.
    """

    job: Job
    steps: Iterator[None] = field(default_factory=lambda: iter(()))
    tokens: int = 0
    seconds: float = 0.0
    checkpoints: Checkpoints | None = None
    is_within_chunk: bool = False

    def urgency(self, now: float) -> float:
        """Highest for the shortest prefill. It grows with the time waited, so that no request starves.

        Prefills shorter than `MOMENT_SECONDS` count as equal and run in their order of arrival.
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
        self._is_round_due = False
        # The checkpoints on which no prompt is being prefilled, and the reply generated on a live cache.
        self._free: Checkpoints | None = None
        self._on_live_cache: ServedReply | None = None
        # When the first of the replies whose prompts the batch will prefill joined it.
        self._joined_at = 0.0
        # When the last step ended, and how long it took.
        self._stepped_at = self._step_seconds = 0.0
        self._counts = dict.fromkeys(COUNTS, 0)
        self._memory_bytes = 0
        # What to tell clients that send tools; empty if the template shows tools and calls can be parsed.
        self.tools_notice = ""
        # Whether a bug has stopped the engine; it then refuses every request.
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
            # Run the trial and compile its kernels now, so that no request waits the second that this takes.
            tail = self._runtime.loaded.tokenizer.encode(TRIAL_TEXT, add_special_tokens=False)
            deque(self._checkpoints.prefill_tail(tail), maxlen=0)
            if not tried(self._checkpoints, tail).generates:
                # Try again with a real prompt, which may have another result.
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
        """Queue a request, from any thread, and return at once.

        `deliver` is called on the engine's thread with each event, last with `ReplyDone` or an error. Setting
        the returned event ends the request after its current chunk or token; the prefilled tokens are kept.
        """
        cancelled = threading.Event()

        def deliver_safely(event: ReplyEvent | ChatcliError) -> None:
            try:
                deliver(event)
            except Exception:
                # The client is gone. Its error must not end other requests.
                logger.exception("An event could not be delivered")
                cancelled.set()

        job = Job(request, deliver_safely, cancelled, time.perf_counter())
        try:
            if self._closing:
                raise RuntimeError
            self._waiting.append(job)
            self._scheduler.submit(partial(self._guarded, self._round))
        except RuntimeError:
            job.deliver(self._refusal())
        return cancelled

    def status(self) -> Mapping[str, Any]:
        """Counts of requests and tokens since the start, and the bytes in memory and on disk now."""
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
        """End the replies and finish writing. Returns a sentence if something could not be written."""
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
        """Whether there is more than one request, or the engine is closing. From any thread."""
        return self._closing or bool(self._waiting) or len(self._readings) + len(self._replies) > 1

    def _guarded(self, job: Callable[..., None], *given: Any) -> None:
        """Run a job and schedule what follows it. If it fails, which is a bug, answer every request."""
        try:
            job(*given)
            if self._closing:
                return
            if self._replies or self._readings or self._waiting:
                if not self._is_round_due:
                    self._is_round_due = True
                    self._scheduler.submit(partial(self._guarded, self._round))
            elif self._ended:
                self._scheduler.idle(partial(self._guarded, self._settle))
        except Exception as error:
            logger.exception("The server has failed: start it again")
            self.failed = self._closing = True
            self._end_all(partial(self._fail, error=error))

    def _refusal(self) -> ChatcliError:
        return ChatcliError(BROKEN if self.failed else ENDING)

    def _end_all(self, end: Callable[[ServedReply], None]) -> None:
        """End the running replies and refuse the waiting requests."""
        for reading in list(self._readings):
            if reading.checkpoints is None or self.failed:
                self._readings.remove(reading)
                reading.job.deliver(self._refusal())
            reading.job.cancelled.set()
            while reading in self._readings:
                self._read_on(reading)
        replies = list(self._replies)
        with suppress(Exception):  # `end` reports each reply's outcome
            self._replies.close()
        for reply in replies:
            end(reply)
        while self._waiting:
            self._waiting.popleft().deliver(self._refusal())

    def _round(self) -> None:
        """Render a request, prefill a piece of one prompt or of several, generate tokens."""
        self._is_round_due = False
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
        """The reading to advance: one within a chunk, else the most urgent one that fits."""
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
        """Whether another live cache of `tokens` tokens fits in memory."""
        limit = self._checkpoints.memory
        if not isinstance(limit, MemoryLimit):
            return True
        more = limit.needed_bytes(tokens) - limit.weight_bytes
        return self._checkpoints.memory_bytes() + more <= limit.max_bytes

    def _read_on(self, reading: Reading) -> None:
        """Run one step of a reading, which may be its last."""
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
            # One request's failure must not end the others.
            logger.exception("A request failed")
            job.deliver(ChatcliError(BROKEN))
        self._readings.remove(reading)
        free = [each for each in (self._free, reading.checkpoints) if each is not None]
        if len(free) > 1:
            # Keep the longer cache, which took longer to compute.
            free.sort(key=lambda each: each.live.position.end)
            free.pop(0).retire()
        if free:
            self._free = self._runtime.checkpoints = free[0]

    def _read(self, reading: Reading) -> Iterator[None]:
        """The steps of a request: render its prompt; once it is chosen, prefill and generate."""
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
        self._ended.forget_continued(context.conversation)
        check_logit_bias(context.checkpoints.loaded.tokenizer, request.sampling)
        if request.answer is not None:
            from chatcli.engine import structured

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
            # The prompt is prefilled for a later request.
            record.checkpoint_bytes += checkpoints.hand_over()
            record.finish_reason = "length"
            job.deliver(ReplyDone(record))
        else:
            yield from self._generate(reply)

    def _begin(self, reading: Reading) -> Checkpoints:
        """Give a reading a live cache: the free one, or a new one beside those in use."""
        if (own := self._free) is None:
            own = next(each.checkpoints for each in reversed(self._readings) if each.checkpoints).beside()
        elif self._on_live_cache is not None and self._on_live_cache.context.checkpoints is own:
            own.leave_live_cache()
            self._on_live_cache = None
        self._free, reading.checkpoints = None, own
        own.others = self._others_wait()
        return own

    def _seconds(self, tokens: int) -> float:
        """An estimate of the time to prefill `tokens` tokens alone."""
        return tokens * self._checkpoints.live.speed.seconds_per_token

    def _for_reading_together(self, context: TurnContext, prompt: Prompt) -> Prompt:
        """The prompt with its new part as the tail, if that is short enough to prefill with other prompts.

        The part before the last message is still stored, because other requests begin with it.
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
        """Start generating a reply: on the live cache if it is alone, else in the batch, else in turns."""
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

        # Take its first token now: another request may take the live cache before the next step.
        self._replies.take_turns(reply, alone())
        self._on_live_cache = reply
        self._end_those(self._replies.step_of(reply))

    def _is_over(self, job: Job) -> bool:
        """Whether to stop rendering a prompt. Also steps the running replies while it renders."""
        if self._step_is_due():
            self._step()
        return self._closing or job.cancelled.is_set()

    def _step_is_due(self) -> bool:
        """Whether the running replies have waited as long as a step takes: they get half of the time."""
        return self._replies.generating > 0 and time.perf_counter() - self._stepped_at >= self._step_seconds

    def _others_wait(self) -> Signal | None:
        """The signal that interrupts a prefill between layers, if replies are running."""
        return Signal(self._step_is_due) if self._replies.generating else None

    def _step(self) -> None:
        """Generate a token of each running reply."""
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
        """Deliver the end of a reply, and remember the reply as the client will send it back."""
        try:
            reply.finish()
            self._counts["generated_tokens"] += reply.record.generated_tokens
            self._memory_bytes = self._checkpoints.memory_bytes()
            self._ended.add(reply)
        except Exception as error:
            self._fail(reply, error)

    def _settle(self, stop: threading.Event) -> None:
        """Settle the newest reply, the likeliest to be continued, until a request comes."""
        if not (stop.wait(QUIET_SECONDS) or self._replies or self._readings) and self._ended:
            self._counts["settled_tokens"] += self._ended.settle_newest(self._checkpoints, stop)
