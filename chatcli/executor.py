"""One thread that runs what it is given, in order; refuses to know what that is.

As `ThreadPoolExecutor(1)`, but it takes work for as long as the program runs its exit handlers, where
the standard one has ended already, and what is to be let go on the thread is let go there.
"""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Jobs = queue.SimpleQueue[Callable[[], None] | None]
# The threads that have not ended, and what each is told by; None ends it.
_running: dict[threading.Thread, Jobs] = {}


class SerialExecutor:
    """A thread that ends by `shutdown`, forgotten, or with the process."""

    def __init__(self, name: str, at_end: Callable[[], object] | None = None) -> None:
        """`name` is the thread's; it calls `at_end` last of all."""
        self._jobs: Jobs = queue.SimpleQueue()
        # A daemon, or the process would wait for it before it can be told to end.
        self.thread = threading.Thread(
            target=_run, args=(self._jobs, at_end), name=name, daemon=True
        )
        self._lock = threading.RLock()
        self._ended = False
        weakref.finalize(self, self._jobs.put, None).atexit = False
        _running[self.thread] = self._jobs
        # Now: where the process ends no thread begins any more.
        self.thread.start()

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `work` on the thread, later. Raises `RuntimeError` after `shutdown`."""
        running: Future[T] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError(f"{self.thread.name} has ended: nothing runs there any more")
            self._jobs.put(partial(_do, running, partial(work, *args, **kwargs)))
        return running

    def shutdown(self, wait: bool = True) -> None:
        """End the thread when it has done what it was given."""
        with self._lock:
            self._ended = True
            self._jobs.put(None)
        if wait:
            self.thread.join()

    def abandon(self) -> None:
        """`shutdown`, and the process will not wait for it either: what it is at may never end."""
        _running.pop(self.thread, None)
        self.shutdown(wait=False)


@atexit.register
def end_all() -> None:
    """The process ends: wait for what is under way where nobody did."""
    for thread, jobs in list(_running.items()):
        jobs.put(None)
        thread.join()


def _run(jobs: Jobs, at_end: Callable[[], object] | None) -> None:
    """What the thread does. It knows no executor, or none could be forgotten."""
    try:
        while (job := jobs.get()) is not None:
            job()
            del job
    finally:
        if at_end is not None:
            at_end()
        _running.pop(threading.current_thread(), None)


def _do(running: Future[T], work: Callable[[], T]) -> None:
    if not running.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        running.set_exception(error)
        # The traceback holds this frame: without the future in it nothing goes in a circle.
        del running
    else:
        running.set_result(result)
