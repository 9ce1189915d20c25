"""A thread that runs jobs in order.

Like `ThreadPoolExecutor(1)`, but it accepts jobs until the program's exit handlers run, by which time the
standard one has ended, and it calls a function on the thread when that ends.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Queue:
    """The jobs of a thread. It must not refer to the executor, which could not be collected then."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._ended = False

    def put(self, job: Callable[[], None]) -> None:
        """Raises `RuntimeError` after `end`, because the job would never run."""
        with self._lock:
            if self._ended:
                raise RuntimeError("this thread has ended and takes no more jobs")
            self._jobs.put(job)

    def end(self) -> None:
        """Let the thread end after the queued jobs."""
        with self._lock:
            self._ended = True
            self._jobs.put(None)

    def run(self, at_end: Callable[[], object] | None) -> None:
        """Run jobs until `end`. This is the thread's target."""
        try:
            while (job := self._jobs.get()) is not None:
                job()
                del job
        finally:
            if at_end is not None:
                at_end()
            _running.pop(threading.current_thread(), None)


# The threads that have not ended, and their jobs.
_running: dict[threading.Thread, _Queue] = {}


class SerialExecutor:
    """A thread that ends at `shutdown`, when it is garbage-collected, or with the process."""

    def __init__(self, name: str, at_end: Callable[[], object] | None = None) -> None:
        """`name` is the thread's name; it calls `at_end` last."""
        self._queue = queued = _Queue()
        # A daemon, because the process would wait for other threads before `end_all` can end them.
        self.thread = threading.Thread(target=queued.run, args=(at_end,), name=name, daemon=True)
        weakref.finalize(self, queued.end).atexit = False
        _running[self.thread] = queued
        # Started now, because no thread can start while the process ends.
        self.thread.start()

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue `work` for the thread. Raises `RuntimeError` after `shutdown`."""
        running: Future[T] = Future()
        self._queue.put(partial(_do, running, partial(work, *args, **kwargs)))
        return running

    def shutdown(self, wait: bool = True) -> None:
        """End the thread after the submitted jobs."""
        self._queue.end()
        if wait:
            self.thread.join()

    def abandon(self) -> None:
        """`shutdown` without waiting, not even at exit: the job that runs may never end."""
        _running.pop(self.thread, None)
        self.shutdown(wait=False)


@atexit.register
def end_all() -> None:
    """At exit, wait for the threads that are still running.

    All are told to end first, so that a job submitted from one to another is refused. Otherwise both would
    wait forever.
    """
    running = list(_running.items())
    for _, queued in running:
        queued.end()
    for thread, _ in running:
        thread.join()


# A forked process does not have these threads.
os.register_at_fork(after_in_child=_running.clear)


def _do(running: Future[T], work: Callable[[], T]) -> None:
    if not running.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        running.set_exception(error)
        # The traceback refers to this frame, so a future in it would be a reference cycle.
        del running
    else:
        running.set_result(result)
