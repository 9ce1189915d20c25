"""A conversation line by line: from a pipe, or in a terminal that cannot draw."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from chatcli.commands import handlers, mentions, registry
from chatcli.commands.results import Quit, Result, Stream
from chatcli.conversation import images
from chatcli.events import Event
from chatcli.session.live_chat import LiveChat


class Display(Protocol):
    """Shows events and results."""

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


def run(lines: Iterable[str], chat: LiveChat, display: Display) -> None:
    """Run each line as a message or a command, until /quit, an error or the last line."""
    for line in lines:
        if line.strip() and run_line(line, chat, display):
            return


def run_line(line: str, chat: LiveChat, display: Display, *, in_terminal: bool = False) -> bool:
    """One message or command; True to leave. Raises `KeyboardInterrupt` if its reply is stopped.

    The images that a message mentions go with it. Its text files do only if a person typed it `in_terminal`:
    what a program writes may have an `@` before anything. Raises as `mentions.expand` and `as_command` do.
    """
    line = handlers.as_command(chat, line, in_terminal=in_terminal)
    if registry.is_command(line):
        chat.session.cancel_edit()
        result = registry.run(chat, line)
    else:
        text = line.rstrip("\n")
        if in_terminal:
            message = mentions.expand(text, Path.cwd())
        else:
            paths = (mention.path for mention in mentions.find(text, Path.cwd()))
            shown = tuple(images.read(path) for path in paths if images.is_image(path))
            message = mentions.ExpandedMessage(text, shown)
        result = Stream(
            lambda cancelled: chat.take(message.text, cancelled, title=text, images=message.images)
        )
    if isinstance(result, Quit):
        return True
    if isinstance(result, Stream):
        with stop_on_interrupt() as cancelled:
            show(_settled(result, chat, cancelled), display)
        if cancelled.is_set():
            raise KeyboardInterrupt
    else:
        display.result(result)
    return False


def _settled(stream: Stream, chat: LiveChat, cancelled: threading.Event) -> Iterator[Event]:
    yield from stream.events(cancelled)
    if not cancelled.is_set():
        yield from chat.settle(cancelled)


def show(events: Iterable[Event], display: Display) -> None:
    """Show a turn's events as they come."""
    try:
        for event in events:
            display.event(event)
    except BaseException:
        display.abandon()
        raise
    display.end_turn()
