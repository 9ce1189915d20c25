"""Runs the requests of a server: prefills one after the other, generates together, settles while nobody asks.

One thread schedules. Between two layers of a prefill the replies that are being generated get a token each.
A reply that is alone is generated on the live cache, as the shell does it, so that the next request can go on
from there; others join a batch, where the model allows one, or take turns.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import string
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from chatcli.chat_format import token_bytes
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.conversation.tree import Entry, Message
from chatcli.engine.batch import MAX_SEQUENCES
from chatcli.engine.generate import Token
from chatcli.engine.sampling import check_logit_bias
from chatcli.errors import (
    ChatcliError,
    ContextFull,
    ImagesRefused,
    NotAnImage,
    TemplateRefused,
    TemplateStopped,
    UsageError,
)
from chatcli.events import Event, Notice, Settled, TextDelta, ThinkingDelta, ToolCall, ToolCalled, TurnRecord
from chatcli.model import vision
from chatcli.records import ReplyRecord
from chatcli.serve.conversations import Conversations
from chatcli.serve.kept import KeptConversations
from chatcli.serve.request import (
    CallsMade,
    Deliver,
    ReplyDone,
    ReplyEvent,
    ReplyRequest,
    TokenLogprob,
    not_shown,
)
from chatcli.serve.wire import shallow
from chatcli.session.runtime import Runtime
from chatcli.settings.values import Settings, names_folder
from chatcli.store.segments import inventory
from chatcli.store.segments.token_path import usable_boundaries
from chatcli.store.sessions import marker
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript
from chatcli.threads.mlx_thread import Worker
from chatcli.threads.scheduler import Scheduler
from chatcli.turn import turn
from chatcli.turn.batch import NO_ROOM, BatchReply, Replies, fitting
from chatcli.turn.prompt import Prompt, TurnContext, history, render, room_left
from chatcli.turn.record import provenance
from chatcli.turn.reply import ReplyCollector

# Replies that take turns, where the model's cache cannot be batched: each has a cache of its own.
MAX_TAKING_TURNS = 4
# Conversations that wait for a quiet moment to be settled; older ones are prefilled when they go on.
MAX_UNSETTLED = 32
# A reply waits at least so long for its next token while another prompt is prefilled, and no longer than
# for the layer after that: more often, and prompts would wait for ever smaller batches.
STEP_INTERVAL_SECONDS = 0.05
# A text with more letters than so many for each token of the context is counted before it is rendered, in
# pieces: it is hardly ever one that fits, and tokenizing it whole cannot be stopped.
LETTERS_PER_TOKEN, PIECE_LETTERS = 8, 1 << 16
# So much of what a template may leave out is always taken.
MIN_UNSHOWN_LETTERS = 1 << 20
# Of images that the model cannot be shown, how many are remembered.
MAX_REMEMBERED = 256
COUNTS = (
    "requests",
    "hits",
    "prompt_tokens",
    "reused_tokens",
    "prefilled_tokens",
    "settled_tokens",
    "generated_tokens",
)
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


@dataclass(eq=False, kw_only=True)
class ServedReply(BatchReply):
    """A reply whose events are delivered as they come."""

    deliver: Deliver
    asked: ReplyRequest
    calls: list[str] = field(default_factory=list)
    spell: Callable[[int, str], bytes] | None = None

    def take(self, token: Token) -> bool:
        if self.asked.top_logprobs is not None and token.finish_reason != "stop":
            checkpoints = self.context.checkpoints
            (logprob,) = checkpoints.floats([token.logprob])
            decode = checkpoints.loaded.tokenizer.decode
            top = tuple((each, self._spelled(each, decode([each])), value) for each, value in token.likeliest)
            self.deliver(TokenLogprob(token.id, self._spelled(token.id, token.text), logprob, top))
        return super().take(token)

    def _spelled(self, token: int, added: str) -> str:
        """A token's bytes as text; `added` is what it has added to the reply."""
        tokenizer = self.context.checkpoints.loaded.tokenizer
        if self.spell is None:
            self.spell = token_bytes.speller(tokenizer)
        data = self.spell(token, added)
        if not self.record.tokens:
            data = token_bytes.without_first_space(tokenizer, token, data)
        return token_bytes.as_text(data)

    def show(self, events: Iterator[Event]) -> None:
        for event in events:
            if isinstance(event, TextDelta | ThinkingDelta):
                self.deliver(event)
            elif isinstance(event, ToolCalled):
                called = [replace(call, id=self._free_id(call.id)) for call in event.calls]
                self.calls += [call.id for call in called]
                self.deliver(CallsMade(tuple(called)))

    def _free_id(self, written: str) -> str:
        """The id that the model wrote for a call, which its template may show; else a new one."""
        taken = {call.id for message in self.asked.messages for call in message.tool_calls}
        return written if written and written not in taken.union(self.calls) else new_call_id()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def new_call_id() -> str:
    """Nine letters and digits: Mistral's templates take no other id."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


@dataclass(frozen=True)
class Signal:
    """A stop signal that follows from something else."""

    is_set: Callable[[], bool]


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
        self._started = self._closing = False
        self._unsettled: deque[tuple[TurnContext, Entry]] = deque(maxlen=MAX_UNSETTLED)
        # Whether their next step is submitted.
        self._stepping = False
        self._on_live_cache: ServedReply | None = None
        # When the last step ended, and what it took.
        self._stepped_at = self._step_seconds = 0.0
        self._prefilling: Job | None = None
        # The messages that were refused for an image, by their length and a hash of their text, and the
        # images of which the log has said that they are not shown.
        self._refused: deque[tuple[int, str]] = deque(maxlen=MAX_REMEMBERED)
        self._said_unseen: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self._counts = dict.fromkeys(COUNTS, 0)
        self._memory_bytes = 0
        # What the log has said of the chat template.
        self._said: set[str] = set()
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
        self._replies: Replies[ServedReply] = Replies(self._checkpoints, MAX_SEQUENCES)
        with suppress(TemplateRefused):
            self.tools_notice = self._runtime.tools_notice()
        if self.tools_notice:
            logger.warning("%s", self.tools_notice)
        folder = SessionFolder(self._settings.sessions)
        self._conversations = Conversations(folder.location if self._settings.cache or self._keep else None)
        self._kept = KeptConversations(folder, self._conversations, self._model) if self._keep else None
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
            self._scheduler.submit(partial(self._guarded, self._admit))
        except RuntimeError:
            job.deliver(self._refusal())
        return cancelled

    def status(self) -> Mapping[str, Any]:
        """What was asked and reused since the start (tokens), and the bytes that it takes now."""
        counts, running, store = dict(self._counts), self._replies, self._checkpoints.store
        prompt, reused = counts["prompt_tokens"], counts["reused_tokens"]
        numbers = {
            **counts,
            "active": len(running) + (self._prefilling is not None),
            "queued": len(self._waiting),
            "unsettled": len(self._unsettled),
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
        if (job := self._prefilling) is not None:
            job.cancelled.set()
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
        is_prefilling = self._prefilling is not None
        return self._closing or bool(self._waiting) or is_prefilling or len(self._replies) > 1

    def _guarded(self, job: Callable[..., None], *given: Any) -> None:
        """Run a job, and see to what follows it. Where it fails, which is a bug, nobody is left waiting."""
        try:
            job(*given)
            if self._closing:
                return
            if self._replies and not self._stepping:
                self._stepping = True
                self._scheduler.submit(partial(self._guarded, self._go_on))
            elif self._unsettled and not self._replies and not self._waiting:
                self._scheduler.idle(partial(self._guarded, self._settle))
        except Exception as error:
            logger.exception("The server has failed: start it again")
            self.failed = self._closing = True
            self._end_all(partial(self._fail, error=error))

    def _refusal(self) -> ChatcliError:
        return ChatcliError(BROKEN if self.failed else ENDING)

    def _end_all(self, end: Callable[[ServedReply], None]) -> None:
        """End the replies that are being generated, and refuse the requests that wait."""
        replies = list(self._replies)
        with suppress(Exception):  # `end` says what there is to say
            self._replies.close()
        for reply in replies:
            end(reply)
        if self._prefilling is not None:
            self._prefilling.deliver(self._refusal())
        while self._waiting:
            self._waiting.popleft().deliver(self._refusal())

    def _go_on(self) -> None:
        self._stepping = False
        self._step()

    def _admit(self) -> None:
        """Prefill the oldest request and have its reply generated, while the others go on."""
        checkpoints = self._checkpoints
        most = MAX_TAKING_TURNS if checkpoints.exact_in_batch is False else MAX_SEQUENCES
        while len(self._replies) >= most and not self._closing:
            self._step()
        if self._closing:
            self._end_all(self._end)
            return
        job = self._prefilling = self._waiting.popleft()
        if self._closing:  # since just now: `close` may have seen no prefill
            job.cancelled.set()
        if self._on_live_cache is not None and not job.request.count_only:
            checkpoints.leave_live_cache()
            self._on_live_cache = None
        try:
            self._prefill(job)
        except TemplateStopped:
            job.deliver(ReplyDone(TurnRecord("", 0)) if job.cancelled.is_set() else ChatcliError(ENDING))
        except ChatcliError as error:
            job.deliver(error)
        except Exception:
            # One request's failure is not the others'.
            logger.exception("A request failed")
            job.deliver(ChatcliError(BROKEN))
        self._prefilling = None

    def _prefill(self, job: Job) -> None:
        checkpoints, cancelled = self._checkpoints, job.cancelled
        if cancelled.is_set():
            job.deliver(ReplyDone(TurnRecord("", 0)))
            return
        if job.request.prompt is None and not any(each.role == "user" for each in job.request.messages):
            raise UsageError("There is no user's message to reply to.")
        self._check_length(job)
        if cancelled.is_set():
            job.deliver(ReplyDone(TurnRecord("", 0)))
            return
        job = replace(job, request=self._with_notes(job.request))
        request = job.request
        think = self._settings.think if request.think is None else request.think
        conversation = self._conversations.conversation(request, self._model)
        question = conversation.entries[str(conversation.head)]
        session = SessionLog(Transcript("", conversation))
        session.is_private = request.private
        context = self._runtime.turn_context(session, think, Signal(lambda: self._ends_rendering(job)))
        loaded = checkpoints.loaded
        if request.count_only:
            # Also a prompt that does not fit.
            with vision.keeping(loaded.vision, request.images, loaded.name, private=request.private):
                tokens = len(context.template.prompt(history(context, question)))
            job.deliver(ReplyDone(TurnRecord("", 0, finish_reason="stop", prompt_tokens=tokens)))
            return
        self._unsettled = deque(
            (each for each in self._unsettled if each[1].id not in conversation.entries), MAX_UNSETTLED
        )
        check_logit_bias(loaded.tokenizer, request.sampling)
        context.sampling = request.sampling.over(self._runtime.sampling)
        record = TurnRecord("", len(conversation.turns()))
        checkpoints.others = Signal(self._step_is_due) if self._replies else None
        with vision.keeping(loaded.vision, request.images, loaded.name, private=request.private):
            prompt = self._prompt(context, question, request)
            for clause in self._runtime.adapted:
                if clause not in self._said:
                    self._said.add(clause)
                    logger.warning("For this model's chat template, %s.", clause)
            for event in turn.prefill(context, prompt, record, cancelled):
                job.deliver(event)  # type: ignore[arg-type]
                self._step()
            facts = provenance(context, prompt)
            for _ in () if cancelled.is_set() else checkpoints.prefill_tail(prompt.tail):
                self._step()
                if cancelled.is_set():
                    break
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
            cancelled,
            deliver=job.deliver,
            asked=request,
        )
        if cancelled.is_set():
            self._end(reply)
        elif context.sampling.max_tokens == 0:
            # The prompt is read for a request that comes later.
            record.checkpoint_bytes += checkpoints.hand_over()
            record.finish_reason = "length"
            job.deliver(ReplyDone(record))
        else:
            self._generate(reply)

    def _with_notes(self, request: ReplyRequest) -> ReplyRequest:
        """The request with a note in the place of each image that the model cannot be shown.

        The message that brings such an image is refused, once: clients keep it in their history, and some
        put what is said next into the same message. Raises `ImagesRefused` and `NotAnImage`.
        """
        unseen = set()
        for image in request.images:
            try:
                vision.prepare(self._checkpoints.loaded.vision, [image], self._checkpoints.loaded.name)
            except (ImagesRefused, NotAnImage) as error:
                sha256 = image.picture.sha256
                if sha256 in request.brought and not self._was_refused(request.messages[-1].content):
                    raise
                unseen.add(sha256)
                if sha256 not in self._said_unseen:
                    self._said_unseen.append(sha256)
                    logger.warning("An image of a conversation's history is not shown: %s", error)
        if not unseen:
            return request
        messages = []
        for message in request.messages:
            seen = tuple(each for each in message.images if each.sha256 not in unseen)
            notes = [not_shown("image")] * (len(message.images) - len(seen))
            content = "\n".join([*notes, *([message.content] if message.content else [])])
            messages.append(replace(message, content=content, images=seen))
        images = tuple(each for each in request.images if each.picture.sha256 not in unseen)
        return replace(request, messages=tuple(messages), images=images)

    def _was_refused(self, content: str) -> bool:
        """Whether a message goes on from one that was refused for its image; else it is one from now on."""
        for length, digest in self._refused:
            if length < len(content) and _digest(content[:length]) == digest:
                return True
        self._refused.append((len(content), _digest(content)))
        return False

    def _ends_rendering(self, job: Job) -> bool:
        """Whether a prompt need not be rendered any more. The running replies get their tokens meanwhile."""
        if self._step_is_due():
            self._step()
        return self._closing or job.cancelled.is_set()

    def _check_length(self, job: Job) -> None:
        """Raises `ContextFull` where that is clear before a template or the tokenizer is given the texts."""
        loaded, request = self._checkpoints.loaded, job.request
        texts = [request.prompt or "", *(json.dumps(tool, ensure_ascii=False) for tool in request.tools)]
        # What a template is given besides, of which it may show all or nothing.
        others = [request.effort or "", json.dumps(dict(request.arguments), ensure_ascii=False)]
        for message in request.messages:
            texts.append(message.content)
            others += [message.thinking, message.tool_call_id]
            for call in message.tool_calls:
                texts += [call.name, call.arguments]
                others.append(call.id)
        unshown = sum(map(len, others))
        if unshown > max(LETTERS_PER_TOKEN * loaded.context, MIN_UNSHOWN_LETTERS):
            raise ContextFull(
                f"The thinking, ids and template arguments of this request have {unshown:,} letters: more "
                f"than the model's context of {loaded.context:,} tokens holds.",
                "Leave out what was thought before.",
            )
        if sum(map(len, texts)) <= LETTERS_PER_TOKEN * loaded.context:
            return
        tokens = 0
        for text in texts:
            for start in range(0, len(text), PIECE_LETTERS):
                piece = text[start : start + PIECE_LETTERS]
                # Where a text is cut it may have a token more.
                tokens += len(loaded.tokenizer.encode(piece, add_special_tokens=False)) - 1
                if tokens >= loaded.context:
                    raise ContextFull(
                        f"The prompt has more tokens than the model's context, {loaded.context:,}.",
                        "Choose a model with a longer context with -m.",
                    )
                self._step()
                if job.cancelled.is_set():
                    return

    def _prompt(self, context: TurnContext, question: Entry, request: ReplyRequest) -> Prompt:
        """The request as tokens. Raises `TemplateRefused` or `ContextFull`."""
        if request.prompt is None:
            return render(context, question)
        loaded = self._checkpoints.loaded
        tokens = list(loaded.tokenizer.encode(request.prompt))
        if not tokens:
            raise UsageError("The prompt is empty: write something.")
        room_left(context, len(tokens), alone=True)
        end = usable_boundaries([len(tokens) - 1], len(tokens))
        return Prompt(question, self._checkpoints.cut(tokens, end), {0: 0, 1: len(tokens) - 1})

    def _generate(self, reply: ServedReply) -> None:
        """Have a reply generated: on the live cache if it is alone, else in the batch, else in turns."""
        checkpoints, prompt = self._checkpoints, reply.prompt
        request = replace(reply.request(), likeliest=reply.asked.top_logprobs or 0)
        while self._replies or self._waiting:
            at_once, why = fitting(checkpoints, prompt)
            if at_once > 1:
                last = replace(request, tail=prompt.tail[-1:], prefix=prompt.tokens[:-1])
                self._replies.batch(reply, last)
                return
            if why != NO_ROOM or not self._replies:
                break
            self._step()
        while self._replies.in_turns >= MAX_TAKING_TURNS:
            self._step()

        def alone() -> Generator[None]:
            tokens = checkpoints.generate(request, reply.cancelled, others=Signal(self._has_others))
            with closing(tokens):
                for token in tokens:
                    if not reply.take(token):
                        yield
                    elif reply.collector.stopped:
                        return

        # Its first token is taken at once: another request may take the live cache before the next.
        self._replies.take_turns(reply, alone())
        self._on_live_cache = reply
        self._end_those(self._replies.step_of(reply))

    def _step_is_due(self) -> bool:
        """Whether the running replies have waited long enough. Half of the time is the prefill's."""
        waited = time.perf_counter() - self._stepped_at
        return bool(self._replies) and waited >= max(STEP_INTERVAL_SECONDS, self._step_seconds)

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
            self._add(reply)
        except Exception as error:
            self._fail(reply, error)

    def _add(self, reply: ServedReply) -> None:
        record, context = reply.record, reply.context
        reply.finish()
        self._counts["generated_tokens"] += record.generated_tokens
        self._memory_bytes = self._checkpoints.memory_bytes()
        record.text, record.thinking = record.text.rstrip("\n"), record.thinking.rstrip("\n")
        calls = tuple(
            ToolCall(call["name"], shallow(call["arguments"]), each, call["start"], call["end"])
            for call, each in zip(record.tool_calls, reply.calls, strict=True)
        )
        # A client that has sent no thinking back so far is not expected to.
        shows_thinking = bool(calls) or any(each.thinking for each in reply.asked.messages)
        message = Message(
            "assistant", record.text, record.thinking if shows_thinking else "", tool_calls=calls
        )
        facts: ReplyRecord = {**reply.facts, "unrun_tokens": record.unrun_tokens}
        entry = self._conversations.add(
            context.conversation, message, record.finish_reason, facts, private=context.private
        )
        if self._kept is not None and record.tokens and reply.asked.prompt is None and not context.private:
            self._kept.add(context.conversation, entry, record.thinking, {**record.numbers(), **facts})
        if record.finish_reason != "cancelled" and reply.asked.prompt is None:
            self._unsettled.append((context, entry))
        reply.deliver(ReplyDone(record, calls, reply.collector.stop_text))

    def _settle(self, stop: threading.Event) -> None:
        """Run the newest reply as history will show it, until somebody asks: it is the likeliest to go on."""
        if stop.is_set() or self._replies or not self._unsettled:
            return
        context, entry = self._unsettled[-1]
        # The client's own has ended the request.
        context = replace(context, template=context.template.stopped_by(stop))
        try:
            for event in turn.settle(context, stop):
                if isinstance(event, Settled):
                    self._counts["settled_tokens"] += event.tokens
                elif isinstance(event, Notice):
                    logger.warning("%s", event.text)
            settled = context.conversation.entries[entry.id]
            before, after = entry.record, settled.record
            if numbers := {key: value for key, value in after.items() if before.get(key) != value}:
                self._conversations.note(settled, numbers, private=context.private)
                if self._kept is not None and not context.private:
                    self._kept.note(settled, cast(ReplyRecord, numbers))
            if stop.is_set():
                return
        except TemplateStopped:
            return
        except ChatcliError as error:
            logger.warning("A conversation could not be settled: %s", error)
        except Exception:
            # It costs time only, and the next request of this conversation will say so.
            logger.exception("A conversation could not be settled")
        self._unsettled.pop()
