"""A sentence whose command line can be copied: it is never broken or cut, whatever the width."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from chatcli.command_line import split_sentence
from chatcli.text import clean


class Sentence:
    """Cleaned text. A command line at its end that does not fit the width gets a line of its own.

    To be printed with `crop=False`: a long command is broken by the terminal, which copies it whole.
    """

    def __init__(self, text: str, style: str = "", command_style: str | None = None) -> None:
        self._text, self._style = clean(text), style
        self._command_style = style if command_style is None else command_style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._text.split("\n"):
            words, command = split_sentence(line)
            if command and cell_len(line) <= options.max_width:
                yield Text.assemble((f"{words} ", self._style), (command, self._command_style))
                continue
            yield Text(words, self._style)
            if command:
                yield Text(command, self._command_style, no_wrap=True, overflow="ignore")
