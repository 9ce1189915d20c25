"""Completion in the input box: commands and their arguments, files after an `@`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document

from chatcli.commands import mentions, registry
from chatcli.session.live_chat import LiveChat
from chatcli.text import file_size


class MessageCompleter(Completer):
    """Completes by `commands` on a first line that begins with a slash, else files in `folder`."""

    def __init__(self, commands: Completer, folder: Path) -> None:
        self._commands = commands
        self._files = ThreadedCompleter(FileCompleter(folder))

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return self._completer(document).get_completions(document, event)

    def get_completions_async(
        self, document: Document, event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        return self._completer(document).get_completions_async(document, event)

    def _completer(self, document: Document) -> Completer:
        is_command = document.text.startswith("/") and document.cursor_position_row == 0
        return self._commands if is_command else self._files


class CommandCompleter(Completer):
    """Slash commands and their arguments, from the registry."""

    def __init__(self, chat: LiveChat) -> None:
        self._chat = chat

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if line.startswith("/") and "\n" not in line:
            for text, start, help_ in registry.completions(self._chat, line):
                yield Completion(text, start, text.rstrip(), help_)


class FileCompleter(Completer):
    """Files in `folder`, or wherever the name after `@` leads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        typed = mentions.typed_name(document.current_line_before_cursor)
        if typed is not None:
            for choice in mentions.choices(typed, self._folder):
                size = "" if choice.size is None else file_size(choice.size)
                yield Completion(choice.text, -len(typed), choice.shown, size)
