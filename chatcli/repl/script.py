"""A conversation without a terminal, from lines; refuses to know where its events are shown."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import chatcli.repl.commands  # noqa: F401  (registers what a line may run)
from chatcli.events import Event
from chatcli.repl import registry
from chatcli.repl.results import Quit, Result
from chatcli.repl.state import State


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
        if not line.strip():
            continue
        if not registry.is_command(line):
            if run_turn(line.rstrip("\n"), state, shown):
                raise KeyboardInterrupt
            continue
        result = registry.run(state, line)
        if isinstance(result, Quit):
            return
        shown.result(result)


def run_turn(text: str, state: State, shown: Shown) -> bool:
    """One turn, settled before it returns. True if it was interrupted."""
    with stop_on_interrupt() as cancelled:
        try:
            for event in state.take(text, cancelled):
                shown.event(event)
        except BaseException:
            shown.abandon()
            raise
        if not cancelled.is_set():
            for settled in state.settle(cancelled):
                shown.event(settled)
    shown.end_turn()
    return cancelled.is_set()
