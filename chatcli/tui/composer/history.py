"""The composer's history of messages and commands, for Up and Ctrl-R in later shells too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property

from prompt_toolkit.history import History

from chatcli.files import Location
from chatcli.store.sessions import history
from chatcli.store.sessions.history import Typed
from chatcli.tui.composer.paste import Pastes


class SessionHistory(History):
    """The messages typed in a folder of sessions, with long pastes as chips of `pastes`.

    If its file cannot be written, it is kept in memory. What is typed before there is a session is written
    once there is one, or on `close`.
    """

    def __init__(
        self,
        folder: Location,
        session: Callable[[], str | None],
        is_private: Callable[[], bool] = lambda: False,
    ) -> None:
        """`session` gives the name of the session that is open. While it `is_private`, nothing is written."""
        super().__init__()
        self._folder, self._session, self._is_private = folder, session, is_private
        self._unwritten: list[str] = []
        self.pastes = Pastes()

    @cached_property
    def _saved(self) -> list[str]:
        with contextlib.suppress(OSError):
            typed = reversed(history.entries(self._folder))
            return [self.pastes.folded(each.text, each.pastes) for each in typed]
        return []

    def load_history_strings(self) -> Sequence[str]:
        """Newest first."""
        return self._saved

    def labelled(self, text: str) -> str:
        """`text` with a label in place of each long paste that was typed in this folder."""
        self.load_history_strings()
        return self.pastes.labelled(self.pastes.fold_again(text))

    def store_string(self, string: str) -> None:
        if self._is_private():
            return
        self._unwritten.append(string)
        if self._session() is not None:
            self._write()

    def close(self) -> None:
        """Write the entries that have no session yet."""
        if self._unwritten:
            self._write()

    def _write(self) -> None:
        session, pastes = self._session(), self.pastes
        typed = [Typed(session, pastes.unfold(text), pastes.places(text)) for text in self._unwritten]
        self._unwritten.clear()
        with contextlib.suppress(OSError):
            history.append(self._folder, typed)
