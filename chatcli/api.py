"""The Python API: `from chatcli import Chat`.

It reads neither the environment nor the config file: what is not passed has its default.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from chatcli.conversation.images import Image, read
from chatcli.conversation.tree import Turn
from chatcli.errors import ChatcliError, EmptyPrompt, UsageError
from chatcli.events import Event, Settled, TurnDone, TurnRecord
from chatcli.model.ranks import SINGLE_PROCESS, Ranks
from chatcli.replies.answer_form import form_of
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import KEPT, ModelOptions, Sampling, Settings, adapter_folder
from chatcli.store.sessions import marker
from chatcli.store.sessions.folder import SessionFile

FORKED_MESSAGE = "This chat belongs to the process that forked this one: open another one here."


@dataclass
class Outcome:
    """The record of a reply that has ended; None before."""

    record: TurnRecord | None = None


class Reply:
    """A reply that is being generated: an iterator over its events.

    ```python
    for event in chat.send("Hello"):
        if isinstance(event, TextDelta):
            print(event.text, end="")
    ```

    The events are those of `chatcli.events`: `PrefixMatched`, `PrefillProgress`, `ThinkingDelta`,
    `TextDelta`, `TurnDone`, `Settled` and others. Nothing is computed before the first is asked for. A reply
    that is left half-way, by `break` or by sending another message, is stopped after its current token;
    what was generated until then is kept in the session.
    """

    def __init__(self, events: Iterator[Event], outcome: Outcome) -> None:
        self._events = events
        self._outcome = outcome
        self._process = os.getpid()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if os.getpid() != self._process and self._outcome.record is None:
            # The thread that would give the next event stayed behind.
            raise UsageError(FORKED_MESSAGE)
        return next(self._events)

    def text(self) -> str:
        """Generate the rest of the reply, and return all of it without its thinking.

        Of a reply that was stopped by another message, or by closing the chat, it is what came of it.
        """
        for _ in self:
            pass
        record = self._outcome.record
        return record.text if record is not None else ""


class Chat:
    """A saved conversation with a local model. The model loads in the background.

    ```python
    with Chat("notes", model="pocket", max_tokens=200) as chat:
        print(chat.send("My dog is called Biscuit.").text())
        print(chat.stats["reused_tokens"], "tokens reused")
    ```

    **Parameters:**

    * **name** - *(optional)* The session to open, or to begin with the first message. Without one, a new
      session is named after its first message. A `SessionRequest` says this and whatever else is to be
      requested of a session, and makes `system`, `at`, `latest` and `template_args` of no effect.
    * **model** - *(optional)* A folder, a name on the Hugging Face hub, or `"pocket"`. By default the
      model that the session was held with, else `pocket`.
    * **system** - *(optional)* The system prompt; `""` removes a session's.
    * **at** - *(optional)* The number of the turn to go on from, where the session has one.
    * **latest** - *(optional)* Open the session that was used last, if there is no name.
    * **template_args** - *(optional)* Arguments for the model's chat template by name; None removes one.
    * **private** - *(optional)* Keep nothing on disk, neither words nor checkpoints. A session that is
      named is read, and goes on in memory only.
    * **settle** - *(optional)* Whether the reply is prefilled as history will show it before its iteration
      ends. With `False` that goes on in the background, and gives way to the next message.
    * **settings** - *(optional)* A `Settings` to begin with.
    * **ranks** - *(optional)* The processes that hold a shard of the model each; this one is rank 0.
    * **options** - *(optional)* Fields of `Settings`, `Sampling` and `ModelOptions` by name, in place of
      those in `settings`: `sessions`, `think`, `cache`, `memory_limit` (bytes), `temp`, `max_tokens`,
      `seed`, `kv_bits` and so on.

    Raises `SessionError`, `FolderError` or `UsageError`, and `TypeError` for an unknown option. All errors
    that are the program's are `chatcli.errors.ChatcliError`; after one the chat can still be used.

    A chat is for one thread, and generates one reply at a time.
    """

    def __init__(
        self,
        name: str | SessionRequest | None = None,
        *,
        model: str | None = None,
        system: str | None = None,
        at: int | None = None,
        latest: bool = False,
        template_args: Mapping[str, Any] | None = None,
        private: bool = False,
        settle: bool = True,
        settings: Settings | None = None,
        ranks: Ranks = SINGLE_PROCESS,
        **options: Any,
    ) -> None:
        if settings is None:
            sessions = options.get("sessions") or _default_sessions()
            settings = Settings(sessions=sessions, sampling=Sampling(lookup=True))
        settings = _with_options(settings, options)
        if not isinstance(name, SessionRequest):
            name = SessionRequest(
                name,
                latest,
                at,
                system,
                template_args=template_args or {},
                model_options={key: getattr(settings.model_options, key) for key in options if key in KEPT},
                flags=frozenset(options),
                private=private,
            )
        self._chat = LiveChat(settings, name, model, ranks)
        self._settle = settle
        self._current: weakref.ref[Any] | None = None
        self._last = Outcome()
        self._process = os.getpid()
        self._problem: str | None = None
        self._open = True
        _left_open.add(self)

    def send(
        self,
        text: str,
        cancelled: threading.Event | None = None,
        *,
        images: Sequence[str | Path | Image] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Send a message.

        ```python
        reply = chat.send("What is this?", images=["cat.png"])
        print(reply.text())
        ```

        **Parameters:**

        * **text** - The message.
        * **cancelled** - *(optional)* An event that stops the reply when it is set, from any thread. What
          was generated until then is kept.
        * **images** - *(optional)* Paths of images that the message shows.
        * **schema** - *(optional)* A JSON schema. The reply's text is JSON that fits it, unless it is cut
          (`max_tokens`, `stop`). Thinking is not bound.

        Raises `EmptyPrompt`, `NotAnImage`, `SchemaRefused`, or `UsageError` if the chat is closed, or was
        opened before this process was forked. Iterating the reply raises
        `ModelError` (among them `ContextFull`, `MemoryFull` and `ImagesRefused`, which leave the conversation
        as it was), `UsageError` or `FolderError`, and `KeyboardInterrupt` if it is cancelled while the model
        loads.
        """
        if not text.strip():
            raise EmptyPrompt("The message is empty: type something.")
        stop = cancelled or threading.Event()
        shown = [image if isinstance(image, Image) else read(image) for image in images]
        answer = form_of(schema) if schema is not None else None
        return self._reply(self._chat.take(text, stop, images=shown, answer=answer), stop)

    def regenerate(self, cancelled: threading.Event | None = None) -> Reply:
        """Generate another reply to the last message. The one that is there stays, as a branch.

        Raises as `send` does.
        """
        stop = cancelled or threading.Event()
        return self._reply(self._chat.regenerate(stop), stop)

    def _reply(self, turn: Iterator[Event], stop: threading.Event) -> Reply:
        self._check_open()
        self._end_reply()
        outcome = Outcome()
        events = self._events(turn, stop, outcome)
        self._current = weakref.ref(events)
        return Reply(events, outcome)

    def _check_open(self) -> None:
        """Raise `UsageError` if no more can be done with this chat."""
        if not self._open:
            raise UsageError("This chat is closed: open the session again to go on.")
        if self._is_forked:
            raise UsageError(FORKED_MESSAGE)

    @property
    def _is_forked(self) -> bool:
        """Whether this is a child of the process that opened the chat: its threads stayed behind."""
        return os.getpid() != self._process

    def _events(self, turn: Iterator[Event], stop: threading.Event, outcome: Outcome) -> Iterator[Event]:
        self._last = outcome
        try:
            for event in turn:
                _note(outcome, event)
                yield event
        except GeneratorExit:
            stop.set()
            if not self._is_forked:
                _finish(turn, outcome)
            raise
        if stop.is_set():
            return
        if not self._settle:
            self._chat.settle_behind()
            return
        try:
            for event in self._chat.settle(stop):
                _note(outcome, event)
                yield event
        except GeneratorExit:
            stop.set()
            raise

    def _end_reply(self) -> None:
        events = self._current() if self._current is not None else None
        if events is not None:
            events.close()
        self._current = None

    @property
    def name(self) -> str | None:
        """The session's name; None until its first message."""
        return self._chat.session.name

    @property
    def session(self) -> SessionFile | None:
        """The session's open file; None until the first message."""
        log = self._chat.session.log
        return log if isinstance(log, SessionFile) else None

    @property
    def notes(self) -> list[str]:
        """What opening the session mended, and which options override what it keeps: a sentence each."""
        return self._chat.notes()

    @property
    def turns(self) -> list[Turn]:
        """The turns of the current branch: each has its `number`, the `user` entry and the `reply` entry."""
        return self._chat.session.log.conversation.turns()

    @property
    def text(self) -> str:
        """The last reply without its thinking; empty before the first."""
        last = self.turns[-1].reply if self.turns else None
        return last.message.content if last is not None else ""

    @property
    def stats(self) -> dict[str, Any]:
        """The last turn's numbers, as `chatcli ask --json` prints them; empty before the first turn."""
        record = self._last.record
        return record.as_json() if record is not None else {}

    @property
    def context(self) -> int | None:
        """The size of the model's context in tokens, prompt and reply together; None while it loads."""
        return self._chat.model.context_size()

    def branch(self, at: int | None = None, name: str | None = None) -> str:
        """Go on in a new session that begins with the same turns. The session before stays as it is.

        **Parameters:**

        * **at** - *(optional)* The number of the last turn to take over. By default all of them.
        * **name** - *(optional)* The new session's name. By default the old one's with a number.

        Returns the new session's name. Raises `TurnOutOfRange`, `SessionExists`, `BadName`, `FolderError`, or
        `UsageError` before the first message and after `close`.
        """
        self._check_open()
        self._end_reply()
        session = self._chat.session
        self._problem = next(iter(session.branch(at, name)), self._problem)
        return str(session.name)

    def save(self, name: str | None = None) -> str:
        """Keep a private conversation after all, as a session `name`, or named after its first message.

        Returns the session's name. Raises `SessionExists`, `BadName`, `FolderError`, or `UsageError` where
        there is nothing to save or it is saved already, and after `close`.
        """
        self._check_open()
        self._end_reply()
        self._chat.save(name)
        return str(self._chat.session.name)

    def close(self) -> str | None:
        """Stop the reply, finish what is being written, and let go of the session and the model.

        Returns what went wrong with the writing and was not reported yet, if anything did. Leaving the
        `with` block and ending the program close a chat too. In a process that was forked since, nothing
        is done: the chat is its parent's.
        """
        if not self._open or self._is_forked:
            return None
        self._open = False
        _left_open.discard(self)
        self._end_reply()
        return self._chat.close() or self._problem

    @property
    def abandoned(self) -> bool:
        """Whether the chat was closed while its model was still loading, which nothing can end."""
        return self._chat.abandoned

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finish(turn: Iterator[Event], outcome: Outcome) -> None:
    """Let a turn that was stopped put on disk what there is of it."""
    try:
        for event in turn:
            _note(outcome, event)
    except (ChatcliError, KeyboardInterrupt):
        pass  # there was nothing to keep, and nobody waits for the reason


def _note(outcome: Outcome, event: Event) -> None:
    if isinstance(event, TurnDone):
        outcome.record = replace(event.record)
    elif isinstance(event, Settled) and outcome.record is not None:
        outcome.record.add(event)


_left_open: weakref.WeakSet[Chat] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the chats that the program left open, so that what there is of a reply is kept."""
    with ExitStack() as closing:  # each one, whatever another raises
        for chat in list(_left_open):
            closing.callback(chat.close)


os.register_at_fork(after_in_child=_left_open.clear)


def _default_sessions() -> Path:
    """Where the command line keeps them too, with a warning if that is not ./sessions, which is there."""
    folder, problem = marker.default_folder()
    if problem is not None:
        warnings.warn(problem, stacklevel=3)
    return folder


def _with_options(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """`settings` with other values for fields of its own, its sampling or its model options.

    Raises `TypeError` for a field that there is not.
    """
    sampling_fields = {field.name for field in fields(Sampling)}
    model_fields = {field.name for field in fields(ModelOptions)}
    sampling = {key: value for key, value in options.items() if key in sampling_fields}
    model_options = {key: value for key, value in options.items() if key in model_fields}
    others = {key: value for key, value in options.items() if key not in sampling_fields | model_fields}
    if "sessions" in others:
        others["sessions_flag"] = str(others["sessions"])
        others["sessions"] = Path(others["sessions"]).expanduser()
    if "adapter_path" in model_options:
        model_options["adapter_path"] = adapter_folder(model_options["adapter_path"])
    return replace(
        settings,
        sampling=replace(settings.sampling, **sampling),
        model_options=replace(settings.model_options, **model_options),
        **others,
    )
