"""One thread that runs what it is given, in order; refuses to know what that is.

As `ThreadPoolExecutor(1)`, but it takes work for as long as the program runs its exit handlers, where
the standard one has ended already, and what is to be let go on the thread is let go there.
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


class _Line:
    """What waits for a thread. It knows no executor, or none could be forgotten."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._ended = False

    def put(self, job: Callable[[], None]) -> None:
        """Raises `RuntimeError` after `end`: nobody would come for it."""
        with self._lock:
            if self._ended:
                raise RuntimeError("this thread has ended: nothing runs there any more")
            self._jobs.put(job)

    def end(self) -> None:
        """What was put before is the last."""
        with self._lock:
            self._ended = True
            self._jobs.put(None)

    def run(self, at_end: Callable[[], object] | None) -> None:
        """What the thread does."""
        try:
            while (job := self._jobs.get()) is not None:
                job()
                del job
        finally:
            if at_end is not None:
                at_end()
            _running.pop(threading.current_thread(), None)


# The threads that have not ended, and what waits for each.
_running: dict[threading.Thread, _Line] = {}


class SerialExecutor:
    """A thread that ends by `shutdown`, forgotten, or with the process."""

    def __init__(self, name: str, at_end: Callable[[], object] | None = None) -> None:
        """`name` is the thread's; it calls `at_end` last of all."""
        self._line = line = _Line()
        # A daemon, or the process would wait for it before it can be told to end.
        self.thread = threading.Thread(target=line.run, args=(at_end,), name=name, daemon=True)
        weakref.finalize(self, line.end).atexit = False
        _running[self.thread] = line
        # Now: where the process ends no thread begins any more.
        self.thread.start()

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `work` on the thread, later. Raises `RuntimeError` after `shutdown`."""
        running: Future[T] = Future()
        self._line.put(partial(_do, running, partial(work, *args, **kwargs)))
        return running

    def shutdown(self, wait: bool = True) -> None:
        """End the thread when it has done what it was given."""
        self._line.end()
        if wait:
            self.thread.join()

    def abandon(self) -> None:
        """`shutdown`, and the process will not wait for it either: what it is at may never end."""
        _running.pop(self.thread, None)
        self.shutdown(wait=False)


@atexit.register
def end_all() -> None:
    """The process ends: wait for what is under way where nobody did.

    All are told first: what one would give to another then is refused, or both would wait for ever.
    """
    running = list(_running.items())
    for _, line in running:
        line.end()
    for thread, _ in running:
        thread.join()


# The threads stay behind where a process is forked.
os.register_at_fork(after_in_child=_running.clear)


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
