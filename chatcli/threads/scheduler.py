"""One thread that runs jobs in order, and idle work while there are none."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from chatcli.threads.executor import SerialExecutor

T = TypeVar("T")


@dataclass(frozen=True)
class IdleWork:
    """Work that stops for jobs, when its `stop` is set."""

    stop: threading.Event
    future: Future[None]

    def end(self) -> None:
        """End it after its current chunk, without waiting."""
        self.stop.set()
        self.future.cancel()


class Scheduler:
    """Runs a session's turns and commands, or a server's requests, and idle work between them.

    A new job ends idle work after its current chunk. Nothing else starts threads for either.
    """

    def __init__(self, name: str) -> None:
        """`name` is the thread's."""
        self._executor = SerialExecutor(name)
        self._idle: list[IdleWork] = []
        self._ended = False

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queue `job`. Raises `RuntimeError` after `close`."""
        self.halt()
        return self._executor.submit(job)

    def idle(self, work: Callable[[threading.Event], None]) -> IdleWork:
        """Run `work` once nothing else waits. It must end when the event passed to it is set."""
        stop = threading.Event()
        idle = IdleWork(stop, Future() if self._ended else self._executor.submit(work, stop))
        self._idle = [*(each for each in self._idle if not each.future.done()), idle]
        if self._ended:
            idle.end()
        return idle

    def halt(self) -> None:
        """End all idle work after its current chunk, without waiting. What is done is kept."""
        for idle in self._idle:
            idle.end()

    def drain(self) -> None:
        """`halt`, and wait until it has ended, before the model or the conversation changes."""
        self.halt()
        concurrent.futures.wait([idle.future for idle in self._idle])

    def cancel(self) -> None:
        """`halt`, and accept no more idle work."""
        self._ended = True
        self.halt()

    def close(self) -> None:
        """`cancel`, and wait for the jobs and the thread's end."""
        self.cancel()
        self._executor.shutdown()
