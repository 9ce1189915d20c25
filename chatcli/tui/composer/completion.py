"""What completes in the box: commands on its first line, files after an `@`; refuses to know the keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document

from chatcli.commands import mentions
from chatcli.text import file_size


class Completions(Completer):
    """Slash commands on the first line, files after an `@`."""

    def __init__(self, commands: Completer, folder: Path) -> None:
        self._commands = commands
        self._files = ThreadedCompleter(Files(folder))

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return self._which(document).get_completions(document, event)

    def get_completions_async(
        self, document: Document, event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        return self._which(document).get_completions_async(document, event)

    def _which(self, document: Document) -> Completer:
        if document.text.startswith("/") and document.cursor_position_row == 0:
            return self._commands
        return self._files


class Files(Completer):
    """The files in `folder`, or wherever the name after `@` leads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        typed = mentions.typed_name(document.current_line_before_cursor)
        if typed is not None:
            for choice in mentions.choices(typed, self._folder):
                size = "" if choice.size is None else file_size(choice.size)
                yield Completion(choice.text, -len(typed), choice.shown, size)
