"""Slow work behind a list that someone types in; refuses to know the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from chatcli.errors import ChatcliError

T = TypeVar("T")


class DebouncedQuery(Generic[T]):
    """Runs slow work on a thread, for the newest key only, once the person rests for a moment."""

    def __init__(
        self,
        work: Callable[[str], T],
        done: Callable[[str, T | ChatcliError], None],
        rest: float,
    ) -> None:
        self._work, self._done, self._rest = work, done, rest
        self._wanted: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.running = False

    def ask(self, key: str | None) -> None:
        """Want the result for `key`, and no other any more."""
        self._wanted = key
        if self._timer is not None:
            self._timer.cancel()
        if key is not None:
            self._timer = asyncio.get_running_loop().call_later(self._rest, self._start)

    @property
    def busy(self) -> bool:
        return self.running or self._wanted is not None

    def _start(self) -> None:
        if self.running or self._wanted is None:
            return
        key, self._wanted, self.running = self._wanted, None, True
        loop = asyncio.get_running_loop()
        # A daemon: leaving the list does not wait for it.
        threading.Thread(target=self._run, args=(loop, key), daemon=True).start()

    def _run(self, loop: asyncio.AbstractEventLoop, key: str) -> None:
        result: T | ChatcliError
        try:
            result = self._work(key)
        except ChatcliError as error:
            result = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the list was left
            loop.call_soon_threadsafe(self._finish, key, result)

    def _finish(self, key: str, result: T | ChatcliError) -> None:
        self.running = False
        self._done(key, result)
        self._start()
