"""The history of messages and commands, for Up and Ctrl-R in later shells too."""

from __future__ import annotations

import contextlib
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory


def open_history(path: Path | None) -> History:
    """The history in a file that only its owner reads; in memory where it cannot be written."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return MessageHistory(str(path))


class MessageHistory(FileHistory):
    """A file history that goes on in memory when its file cannot be written, as on a full disk."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)
