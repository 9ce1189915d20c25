"""The door for Python: a session, its turns and their numbers; refuses to know the terminal.

It reads neither the environment nor the file of settings: what is not said here is the default.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from chatcli.conversation.images import Image, read
from chatcli.conversation.tree import Turn
from chatcli.errors import ChatcliError, EmptyPrompt, UsageError
from chatcli.events import Event, Settled, TurnDone, TurnRecord
from chatcli.model.ranks import Ranks
from chatcli.session import opening
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import KEPT, ModelOptions, Sampling, Settings, adapter_folder
from chatcli.store.sessions.folder import SessionFile


class Reply:
    """A turn under way. Iterating takes it further and gives its events; `text()` takes it to its end.

    Letting go of it half-way stops the turn after its current token and keeps what came.
    """

    def __init__(self, events: Iterator[Event], record: Callable[[], TurnRecord | None]) -> None:
        self._events = events
        self._record = record

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def text(self) -> str:
        """The whole reply, without its thinking."""
        for _ in self._events:
            pass
        record = self._record()
        return record.text if record is not None else ""


class Chat:
    """A conversation that is on disk, and the model that answers.

    For one thread, one reply at a time: sending a message ends the reply before it. What can go
    wrong is a `chatcli.errors.ChatcliError`, after which the chat can be used as before.
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
        settle: bool = True,
        settings: Settings | None = None,
        ranks: Ranks | None = None,
        **options: Any,
    ) -> None:
        """Open session `name`, or begin it with the first message; the model loads meanwhile.

        Without a name it is the most recent one (`latest`) or a new one, named after its first
        message. `model` (default: the session's own, else pocket), `at`, the turn to go on from, and
        `template_args` are as on the command line; a `SessionRequest` in place of the name says all of that
        but the model. With `settle` a reply is run as history will show it before its
        iteration ends; without, that goes on behind and gives way to the next message.

        `ranks` are processes that have a shard of the model each, of which this is rank 0.

        `options` are fields of `Settings`, `Sampling` and `ModelOptions`: sessions, think, cache,
        memory_limit (bytes), temp, max_tokens, seed, kv_bits and so on, in place of those in
        `settings`. Raises `SessionError`, `FolderError` or `UsageError`, and `TypeError` for an option
        that there is not.
        """
        settings = changed(settings or Settings(sessions=opening.default_sessions()), options)
        if not isinstance(name, SessionRequest):
            model_options = {key: getattr(settings.model_options, key) for key in options if key in KEPT}
            name = SessionRequest(
                name, latest, at, system, template_args=template_args or {}, model_options=model_options
            )
        self._chat = LiveChat(settings, name, model, ranks)
        self._settle = settle
        self._current: weakref.ref[Any] | None = None
        self._record: TurnRecord | None = None
        self._problem: str | None = None
        self._open = True
        _left_open.add(self)

    def send(
        self,
        text: str,
        cancelled: threading.Event | None = None,
        *,
        images: Sequence[str | Path | Image] = (),
    ) -> Reply:
        """Say `text` and show the `images` (paths); nothing happens before the reply is iterated.

        Raises `EmptyPrompt`, `NotAnImage`, and `UsageError` once the chat is closed.

        Setting `cancelled`, from any thread, stops it and keeps what came. Iterating raises
        `ModelError` (`ContextFull`, `MemoryFull` and `ImagesRefused` among them: nothing is lost then),
        `UsageError` or `FolderError`, and `KeyboardInterrupt` if it is cancelled while the model loads.
        """
        if not text.strip():
            raise EmptyPrompt("The message is empty: write something.")
        stop = cancelled or threading.Event()
        shown = [one if isinstance(one, Image) else read(one) for one in images]
        return self._reply(self._chat.take(text, stop, images=shown), stop)

    def regenerate(self, cancelled: threading.Event | None = None) -> Reply:
        """Another reply to the last message, beside the one there is. Raises as `send` does."""
        stop = cancelled or threading.Event()
        return self._reply(self._chat.regenerate(stop), stop)

    def _reply(self, turn: Iterator[Event], stop: threading.Event) -> Reply:
        if not self._open:
            raise UsageError("This chat is closed: open the session again to go on.")
        self._end_reply()
        events = self._events(turn, stop)
        self._current = weakref.ref(events)
        return Reply(events, lambda: self._record)

    def _events(self, turn: Iterator[Event], stop: threading.Event) -> Iterator[Event]:
        self._record = None
        try:
            for event in turn:
                self._note(event)
                yield event
        except GeneratorExit:
            stop.set()
            self._finish(turn)
            raise
        if stop.is_set():
            return
        if not self._settle:
            self._chat.settle_behind()
            return
        try:
            for event in self._chat.settle(stop):
                self._note(event)
                yield event
        except GeneratorExit:
            stop.set()
            raise

    def _finish(self, turn: Iterator[Event]) -> None:
        """Let a turn that was stopped put on disk what there is of it."""
        try:
            for event in turn:
                self._note(event)
        except (ChatcliError, KeyboardInterrupt):
            pass  # there was nothing to keep, and no one waits for the reason

    def _note(self, event: Event) -> None:
        if isinstance(event, TurnDone):
            self._record = replace(event.record)
        elif isinstance(event, Settled) and self._record is not None:
            self._record.add(event)

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
        """The open file; None until the first message."""
        return self._chat.session.file

    @property
    def turns(self) -> list[Turn]:
        """The turns of the current path: each has its number, the user's entry and the reply's."""
        return self.session.conversation.turns() if self.session is not None else []

    @property
    def text(self) -> str:
        """The last reply, without its thinking; empty before the first."""
        last = self.turns[-1].reply if self.turns else None
        return last.message.content if last is not None else ""

    @property
    def stats(self) -> dict[str, Any]:
        """The last turn's numbers as `ask --json` prints them; empty before the first of this run."""
        return self._record.as_json() if self._record is not None else {}

    @property
    def context(self) -> int | None:
        """The most tokens that the model takes, of prompt and reply; None while it loads."""
        return self._chat.model.context_size()

    def branch(self, at: int | None = None, name: str | None = None) -> str:
        """Go on after turn `at` (default: the last) in a new session, which begins with the same turns.

        The one before stays as it is. Returns the new one's name. Raises `TurnOutOfRange`,
        `SessionExists`, `BadName`, `FolderError`, or `UsageError` if nothing was said yet.
        """
        self._end_reply()
        session = self._chat.session
        self._problem = next(iter(session.branch(at, name)), self._problem)
        return str(session.name)

    def close(self) -> str | None:
        """End the reply, finish what is being written, let the session and the model go.

        Returns what went wrong with the writing and was not told yet. Closing twice does nothing.
        """
        if not self._open:
            return None
        self._open = False
        _left_open.discard(self)
        self._end_reply()
        return self._chat.close() or self._problem

    @property
    def abandoned(self) -> bool:
        """Whether it was closed while its model was still loading, which nothing can end."""
        return self._chat.abandoned

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_left_open: weakref.WeakSet[Chat] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A program ends that did not close them: what came of a reply is kept."""
    with ExitStack() as each:  # whatever becomes of another
        for chat in list(_left_open):
            each.callback(chat.close)


os.register_at_fork(after_in_child=_left_open.clear)


def changed(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """`settings` with other fields of its own, its sampling or its model options. Raises `TypeError`."""
    sampling, model_options, others = (
        {key: value for key, value in options.items() if kind is _kind(key)}
        for kind in (Sampling, ModelOptions, Settings)
    )
    if "sessions" in others:
        others["sessions"] = Path(others["sessions"]).expanduser()
    if "adapter_path" in model_options:
        model_options["adapter_path"] = adapter_folder(model_options["adapter_path"])
    return replace(
        settings,
        sampling=replace(settings.sampling, **sampling),
        model_options=replace(settings.model_options, **model_options),
        **others,
    )


def _kind(option: str) -> type:
    """Whose field an option is; the settings' own if it is nobody's."""
    kinds = (kind for kind in (Sampling, ModelOptions) if option in {f.name for f in fields(kind)})
    return next(kinds, Settings)
