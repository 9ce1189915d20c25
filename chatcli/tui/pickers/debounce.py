"""Slow queries behind a list that someone types in: debounced, on a thread, the newest only."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from chatcli.errors import ChatcliError

T = TypeVar("T")


class DebouncedQuery(Generic[T]):
    """Calls `run(key)` on a thread for the newest key only, `seconds` after it was asked for.

    `done(key, result)` is called in the event loop, with the error if `run` raised a `ChatcliError`.
    """

    def __init__(
        self,
        run: Callable[[str], T],
        done: Callable[[str, T | ChatcliError], None],
        seconds: float,
    ) -> None:
        self._run, self._done, self._seconds = run, done, seconds
        self._pending: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._running = False

    def ask(self, key: str | None) -> None:
        """Ask for the result of `key`, in place of any other that is still pending; None: of nothing."""
        self._pending = key
        if self._timer is not None:
            self._timer.cancel()
        if key is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._start)

    @property
    def busy(self) -> bool:
        return self._running or self._pending is not None

    def _start(self) -> None:
        if self._running or self._pending is None:
            return
        key, self._pending, self._running = self._pending, None, True
        loop = asyncio.get_running_loop()

        def query() -> None:
            result: T | ChatcliError
            try:
                result = self._run(key)
            except ChatcliError as error:
                result = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: the list was left
                loop.call_soon_threadsafe(finish, result)

        def finish(result: T | ChatcliError) -> None:
            self._running = False
            self._done(key, result)
            self._start()

        # A daemon: leaving the list does not wait for it.
        threading.Thread(target=query, daemon=True).start()
