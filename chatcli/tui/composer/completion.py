"""Completion in the input box: commands and their arguments, files after an `@`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from chatcli.commands import mentions
from chatcli.text import file_size

# From a line that begins with a slash to (text, start position, help) of each completion.
CompleteCommand = Callable[[str], Iterable[tuple[str, int, str]]]


class MessageCompleter(Completer):
    """Completes a first line that begins with a slash by `complete_command`, else the name after an `@`.

    Relative names start in `folder`.
    """

    def __init__(self, complete_command: CompleteCommand, folder: Path) -> None:
        self._complete_command, self._folder = complete_command, folder

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if document.text.startswith("/") and "\n" not in line:
            for text, start, help_ in self._complete_command(line) if line else ():
                yield Completion(text, start, text.rstrip(), help_)
            return
        typed = mentions.typed_name(document.current_line_before_cursor)
        for choice in mentions.choices(typed, self._folder) if typed is not None else ():
            size = "" if choice.size is None else file_size(choice.size)
            yield Completion(choice.text, -len(typed or ""), choice.shown, size)
