"""A conversation without a terminal, from lines; refuses to know where its events are shown."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import chatcli.commands.handlers
import chatcli.commands.image_handlers
import chatcli.commands.reply_handlers  # noqa: F401  (all register what a line may run)
from chatcli.commands import mentions, registry
from chatcli.commands.results import Quit, Result, Streamed
from chatcli.events import Event
from chatcli.session import alternatives, editing
from chatcli.session.state import State


class Shown(Protocol):
    """Something that shows what happens."""

    def event(self, event: Event) -> None: ...

    def abandon(self) -> None: ...

    def end_turn(self) -> None: ...

    def result(self, result: Result) -> None: ...


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """While this lasts, Ctrl-C sets the event instead of raising."""
    cancelled = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: cancelled.set())
    try:
        yield cancelled
    finally:
        signal.signal(signal.SIGINT, before)


def run(lines: Iterable[str], state: State, shown: Shown) -> None:
    """Each line a message or a command, until the lines or a /quit end it. An error ends it too."""
    for line in lines:
        if line.strip() and run_line(line, state, shown):
            return


def run_line(line: str, state: State, shown: Shown) -> bool:
    """One message or command; True to leave. Raises `KeyboardInterrupt` if its reply is stopped."""
    result = _result(line, state)
    if isinstance(result, Streamed):
        if _run(result, state, shown):
            raise KeyboardInterrupt
    elif not isinstance(result, Quit):
        shown.result(result)
    return isinstance(result, Quit)


def _result(line: str, state: State) -> Result:
    """What a command returns; a message is something that streams."""
    line = alternatives.as_command(state, line)
    if registry.is_command(line):
        editing.call_off(state)
        result: Result = registry.run(state, line)
        return result
    return _message(line.rstrip("\n"), state)


def _message(text: str, state: State) -> Streamed:
    """Raises `NotAnImage` or `ImagesRefused` for an image that it names."""
    images = mentions.shown(text, Path.cwd()) if "@" in text else ()
    return Streamed(lambda cancelled: state.take(text, cancelled, images=images))


def _run(streamed: Streamed, state: State, shown: Shown) -> bool:
    with stop_on_interrupt() as cancelled:
        show(_settled(streamed, state, cancelled), shown)
    return cancelled.is_set()


def _settled(streamed: Streamed, state: State, cancelled: threading.Event) -> Iterator[Event]:
    yield from streamed.events(cancelled)
    if not cancelled.is_set():
        yield from state.settle(cancelled)


def show(events: Iterable[Event], shown: Shown) -> None:
    """A turn's events as they come."""
    try:
        for event in events:
            shown.event(event)
    except BaseException:
        shown.abandon()
        raise
    shown.end_turn()
