"""The Python API: `from chatcli import Chat`.

It reads neither the environment nor the config file: parameters that are not passed have their defaults.
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

FORKED_MESSAGE = "This chat belongs to the parent process: open another one here."


@dataclass
class Outcome:
    """The record of a reply, None until it ends."""

    record: TurnRecord | None = None


class Reply:
    """A reply that is being generated: an iterator over its events.

    ```python
    for event in chat.send("Hello"):
        if isinstance(event, TextDelta):
            print(event.text, end="")
    ```

    The events are those of `chatcli.events`: `PrefixMatched`, `PrefillProgress`, `ThinkingDelta`,
    `TextDelta`, `TurnDone`, `Settled` and others. Nothing is computed before the first is requested. If
    iteration ends early, by `break` or because another message is sent, the reply is stopped after its
    current token, and the session keeps what was generated.
    """

    def __init__(self, events: Iterator[Event], outcome: Outcome) -> None:
        self._events = events
        self._outcome = outcome
        self._process = os.getpid()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if os.getpid() != self._process and self._outcome.record is None:
            # The thread that produces events is in the parent process.
            raise UsageError(FORKED_MESSAGE)
        return next(self._events)

    def text(self) -> str:
        """Generate the rest of the reply and return its whole text, without thinking.

        If another message or closing the chat stopped the reply, this is its text so far.
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

    * **name** - *(optional)* The session to open, or to create with the first message. Without a name, a new
      session is named after its first message. A `SessionRequest` replaces this and `at`, `latest` and
      `template_args`, and `system` has no effect.
    * **model** - *(optional)* A folder, a name on the Hugging Face hub, or `"pocket"`. By default the
      session's model, else `pocket`.
    * **system** - *(optional)* The system prompt; `""` removes a session's.
    * **at** - *(optional)* The number of the turn to continue from.
    * **latest** - *(optional)* Open the session that was used last, if there is no name.
    * **template_args** - *(optional)* Arguments for the model's chat template by name; None removes one.
    * **private** - *(optional)* Keep nothing on disk, neither words nor checkpoints. A session that is
      named is read, and continues in memory only.
    * **settle** - *(optional)* Whether iteration ends only after the reply was prefilled as history will show
      it. With `False` that happens in the background, until the next message.
    * **settings** - *(optional)* A `Settings` to start from.
    * **ranks** - *(optional)* The processes that each have a shard of the model; this one is rank 0.
    * **options** - *(optional)* Fields of `Settings`, `Sampling` and `ModelOptions` by name, which override
      `settings`: `sessions`, `think`, `cache`, `memory_limit` (bytes), `temp`, `max_tokens` and so on.

    Raises `SessionError`, `FolderError` or `UsageError`, and `TypeError` for an unknown option. All of
    chatcli's errors are `chatcli.errors.ChatcliError`; after one the chat can still be used.

    Use a chat from one thread, and for one reply at a time.
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
        * **cancelled** - *(optional)* An event that stops the reply when it is set, from any thread. The
          reply so far is kept.
        * **images** - *(optional)* Paths of images for the message.
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
        """Generate another reply to the last message. The existing one stays as a branch.

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
        """Raise `UsageError` if this chat can no longer be used."""
        if not self._open:
            raise UsageError("This chat is closed: open the session again to continue.")
        if self._is_forked:
            raise UsageError(FORKED_MESSAGE)

    @property
    def _is_forked(self) -> bool:
        """Whether this is a fork of the process that opened the chat, without its threads."""
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
        """Sentences about what opening the session repaired, and which of its settings options override."""
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
        """The size of the model's context in tokens, for prompt and reply together; None while the model
        loads.
        """
        return self._chat.model.context_size()

    def branch(self, at: int | None = None, name: str | None = None) -> str:
        """Continue in a new session that begins with the same turns. The old session does not change.

        **Parameters:**

        * **at** - *(optional)* The number of the last turn to copy. By default all.
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
        """Stop the reply, finish pending writes, and close the session and the model.

        Returns a write error that was not reported yet, if any. Leaving the `with` block and ending the
        program also close a chat. In a forked process this does nothing, because the chat belongs to the
        parent.
        """
        if not self._open or self._is_forked:
            return None
        self._open = False
        _left_open.discard(self)
        self._end_reply()
        return self._chat.close() or self._problem

    @property
    def abandoned(self) -> bool:
        """Whether the chat was closed while its model was still loading, which cannot be interrupted."""
        return self._chat.abandoned

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finish(turn: Iterator[Event], outcome: Outcome) -> None:
    """Let a stopped turn save the reply so far."""
    try:
        for event in turn:
            _note(outcome, event)
    except (ChatcliError, KeyboardInterrupt):
        pass  # there was nothing to save, and nobody needs the reason


def _note(outcome: Outcome, event: Event) -> None:
    if isinstance(event, TurnDone):
        outcome.record = replace(event.record)
    elif isinstance(event, Settled) and outcome.record is not None:
        outcome.record.add(event)


_left_open: weakref.WeakSet[Chat] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the chats that the program left open, so that unfinished replies are saved."""
    with ExitStack() as closing:  # every chat, whatever another raises
        for chat in list(_left_open):
            closing.callback(chat.close)


os.register_at_fork(after_in_child=_left_open.clear)


def _default_sessions() -> Path:
    """The command line's default folder, with a warning if there is a ./sessions that is not used."""
    folder, problem = marker.default_folder()
    if problem is not None:
        warnings.warn(problem, stacklevel=3)
    return folder


def _with_options(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """`settings` with `options` for its own fields, its sampling and its model options.

    Raises `TypeError` for an unknown field.
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
