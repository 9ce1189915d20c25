"""Lines that a person has written before, and commands that complete; refuses to know what they do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from chatcli.commands import registry
from chatcli.session.state import State


class CommandCompleter(Completer):
    """Completes slash commands and their arguments from the registry."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if line.startswith("/") and "\n" not in line:
            for text, start, help_ in registry.completions(self._state, line):
                yield Completion(text, start, display_meta=help_)


def open_history(path: Path | None) -> History:
    """The history in a file that only its owner reads; in memory where there can be none."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return LineHistory(str(path))


class LineHistory(FileHistory):
    """Lines that cannot be kept, as on a full disk, are remembered until the end only."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)
