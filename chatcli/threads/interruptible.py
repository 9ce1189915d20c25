"""Runs Python code that may never end, so that a deadline or a stop signal ends it, on any thread.

A signal reaches the main thread only, and a template's loop asks nobody whether to go on. So another
thread raises an exception in the one that runs it, which Python does between two of its instructions.
What a single call into C takes cannot be interrupted.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

# How often the watching thread looks.
POLL_SECONDS = 0.05

T = TypeVar("T")


class Interrupted(Exception):
    """The code was stopped. `timed_out`: by the deadline."""

    def __init__(self, timed_out: bool) -> None:
        super().__init__(timed_out)
        self.timed_out = timed_out


class _Interruption(BaseException):
    """Raised within the code; it is no `Exception`, so that the code does not catch it by accident."""


@dataclass(eq=False)
class _Run:
    thread: int
    deadline: float
    stop: threading.Event | None
    timed_out: bool = False

    def is_over(self) -> bool:
        self.timed_out = time.monotonic() >= self.deadline
        return self.timed_out or (self.stop is not None and self.stop.is_set())


class _Watch:
    """The runs in progress, and the thread that watches them."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._runs: list[_Run] = []
        self._thread: threading.Thread | None = None

    def begin(self, run: _Run) -> None:
        with self._changed:
            self._runs.append(run)
            # A fork has no threads but its own.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="chatcli-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self, run: _Run) -> None:
        """No interruption comes after this, also none that was raised and has not arrived yet."""
        with self._changed:
            if run in self._runs:
                self._runs.remove(run)
            else:
                _raise_in(run.thread, None)

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._runs:
                    self._changed.wait()
                for run in [each for each in self._runs if each.is_over()]:
                    self._runs.remove(run)
                    _raise_in(run.thread, _Interruption)
            time.sleep(POLL_SECONDS)


_watch = _Watch()


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Have `exception` raised in a thread; None takes back one that has not been raised yet."""
    raised = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def run(function: Callable[[], T], seconds: float, stop: threading.Event | None = None) -> T:
    """What `function` returns. Raises what it raises, and `Interrupted` after `seconds` or at `stop`."""
    own = _Run(threading.get_ident(), time.monotonic() + seconds, stop)
    try:
        _watch.begin(own)
        try:
            return function()
        finally:
            _watch.end(own)
    except _Interruption:
        raise Interrupted(own.timed_out) from None
