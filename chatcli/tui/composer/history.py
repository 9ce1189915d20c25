"""The composer's history of messages and commands, for Up and Ctrl-R in later shells too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from prompt_toolkit.history import History

from chatcli.files import Location
from chatcli.store.sessions import history
from chatcli.store.sessions.history import Typed


class SessionHistory(History):
    """What was typed in a folder of sessions. Where its file cannot be written, it goes on in memory.

    What is typed before there is a session is written once there is one, or on `close`.
    """

    def __init__(self, folder: Location, session: Callable[[], str | None]) -> None:
        """`session` gives the name of the session that is open."""
        super().__init__()
        self._folder, self._session = folder, session
        self._unwritten: list[str] = []

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        with contextlib.suppress(OSError):
            return [typed.text for typed in reversed(history.entries(self._folder))]
        return []

    def store_string(self, string: str) -> None:
        self._unwritten.append(string)
        if self._session() is not None:
            self._write()

    def close(self) -> None:
        """Write what has no session yet."""
        if self._unwritten:
            self._write()

    def _write(self) -> None:
        typed = [Typed(self._session(), text) for text in self._unwritten]
        self._unwritten.clear()
        with contextlib.suppress(OSError):
            history.append(self._folder, typed)
