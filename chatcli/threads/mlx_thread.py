"""The thread that owns MLX.

MLX's streams belong to the thread that created them, so one worker imports MLX, loads the model and runs it.
If a thread with streams ends, MLX 0.32 aborts the process at exit, so this one clears them however it ends:
closed, garbage-collected, or with the process.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from chatcli.threads.executor import SerialExecutor

P = ParamSpec("P")
T = TypeVar("T")


class StopSignal(Protocol):
    """Says between steps of long work whether to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


class Worker:
    """A thread for MLX. Everything that touches an array goes through `call` or `stream`.

    A worker that `may_be_lost` waits for other processes, which may never answer.
    """

    def __init__(self, *, may_be_lost: bool = False) -> None:
        self._open: set[Future[Any]] | None = set() if may_be_lost else None
        self._lost: Exception | None = None
        self._executor = SerialExecutor("chatcli-mlx", at_end=_clear_streams)
        self._endings: list[Callable[[], object]] = []

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue `work` for the thread. Raises `RuntimeError` after `close` or `leave`."""
        running = self._executor.submit(work, *args, **kwargs)
        if self._open is None:
            return running
        first: Future[T] = Future()
        self._open.add(first)
        first.add_done_callback(self._open.discard)
        running.add_done_callback(partial(_hand_on, first))
        if self._lost is not None:
            _end(first, self._lost)
        return first

    def lose(self, error: Exception) -> None:
        """Make everything that waits for the thread raise `error`, now and later, because the thread may
        hang.
        """
        self._lost = error
        for waited in list(self._open or ()):
            _end(waited, error)

    def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on the thread and wait for its result or its error."""
        if threading.current_thread() is self._executor.thread:
            return work(*args, **kwargs)
        return self.submit(work, *args, **kwargs).result()

    def stream(self, work: Callable[P, Iterator[T]], *args: P.args, **kwargs: P.kwargs) -> Generator[T]:
        """Iterate a generator whose steps run on the thread. It is closed with this iterator."""
        steps = self.call(work, *args, **kwargs)
        try:
            while (item := self.call(_next, steps)) is not None:
                yield item
        finally:
            self.call(getattr(steps, "close", _nothing))

    def pump(self, work: Callable[[], Iterator[T]], others: StopSignal | None = None) -> Generator[T]:
        """`stream`, but the thread runs ahead of the consumer, unless there are `others`.

        While `others` is set, other work may run between two items; otherwise only after the last item, or
        after this iterator is closed.
        """
        steps, closed = self.call(work), threading.Event()
        signals = [closed] if others is None else [closed, others]
        ahead: Future[bool] | None = None
        try:
            while ahead is None or not ahead.result():
                items: queue.SimpleQueue[T | None] = queue.SimpleQueue()
                ahead = self.submit(_fill, items, signals, steps)
                if self._open is not None:
                    ahead.add_done_callback(lambda _, items=items: items.put(None))  # type: ignore[misc]
                while (item := items.get()) is not None:
                    yield item
        except GeneratorExit:
            closed.set()
            if ahead is not None:
                ahead.result()
            raise
        finally:
            closed.set()
            self.call(getattr(steps, "close", _nothing))
            # An error's traceback refers to this frame, so a future in it would be a reference cycle.
            ahead = None

    def at_end(self, work: Callable[[], object]) -> None:
        """Run `work` on the thread at `close`, in reverse order."""
        self._endings.append(work)

    def close(self) -> None:
        """End the thread, unless it was lost: then it is abandoned."""
        if self._lost is not None:
            self._executor.abandon()
            return
        while self._endings:
            self.call(self._endings.pop())
        self._executor.shutdown()

    def leave(self) -> None:
        """End the thread after its last job, without waiting for it."""
        self._executor.shutdown(wait=False)


def _hand_on(first: Future[T], running: Future[T]) -> None:
    """Copy the thread's result or error, unless the thread was lost."""
    error = running.exception()
    with contextlib.suppress(InvalidStateError):
        if error is None:
            first.set_result(running.result())
        else:
            first.set_exception(error)


def _end(waited: Future[Any], error: Exception) -> None:
    with contextlib.suppress(InvalidStateError):
        waited.set_exception(error)


def _fill(items: queue.SimpleQueue[T | None], signals: Sequence[StopSignal], steps: Iterator[T]) -> bool:
    """Add at least one item, and more until a signal is set. Returns whether there are no more."""
    try:
        for item in steps:
            items.put(item)
            if any(signal.is_set() for signal in signals):
                return False
        return True
    finally:
        items.put(None)


def _next(steps: Iterator[T]) -> T | None:
    return next(steps, None)


def _nothing() -> None:
    pass


def _clear_streams() -> None:
    if (mlx := sys.modules.get("mlx.core")) is not None:
        mlx.clear_streams()
