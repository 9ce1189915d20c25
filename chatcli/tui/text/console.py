"""The only way through rich to a terminal, a pipe or a string. Text is cleaned and never read as markup.

Also the styles and margins that every printed line shares.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TextIO

from rich.cells import cell_len
from rich.color import ANSI_COLOR_NAMES
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from chatcli.command_line import split_sentence
from chatcli.text import clean

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

ACCENT = "cyan"
DIM = "dim"
# Before a reply's rows and a turn's numbers. As wide as the prompt.
INDENT = "  "
# Rich's attributes and colours by prompt_toolkit's names.
ATTRIBUTES = ("bold", "dim", "italic", "underline", "strike", "reverse")
# Colours that were parsed from escape sequences are numbers.
COLOR_NAMES = {f"color({number})": name for name, number in ANSI_COLOR_NAMES.items() if number < 16}
# The environment's screen size. rich would believe 0 columns, or a million.
SIZE_VARIABLES = ("COLUMNS", "LINES")
MIN_SIZE, MAX_SIZE = 10, 2000


def open_console(file: TextIO | None = None, **options: Any) -> Console:
    """A console on `file` (default: standard output). `options` are rich's."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in SIZE_VARIABLES or (value.isdecimal() and MIN_SIZE <= int(value) <= MAX_SIZE)
    }
    console = Console(file=file, highlight=False, markup=False, emoji=False, _environ=environment, **options)
    console.push_render_hook(CleanText())
    return console


class Drawn:
    """A renderable that is made when it is printed, for the size that the screen has then."""

    def __init__(self, draw: Callable[[Console, ConsoleOptions], Iterable[RenderableType | Segment]]) -> None:
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._draw(console, options)


class CleanText(RenderHook):
    """Cleans all printed text, so that only rich's own codes act on the terminal."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Drawn(partial(_cleaned, renderable)) for renderable in renderables]


def _cleaned(renderable: RenderableType, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
    for segment in console.render(renderable, options):
        is_ours = segment.control or segment.text == "\n"
        yield segment if is_ours else Segment(clean(segment.text), segment.style)


class Sentence:
    """Cleaned text. A command line at its end that does not fit the width gets a line of its own.

    Print it with `crop=False`: then the terminal wraps a long command, and copies it whole.
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


def fragments(row: Text, console: Console) -> StyleAndTextTuples:
    """A row as prompt_toolkit's fragments, with the colours that `console` has."""
    return [
        (_style_name(segment.style, console.no_color), segment.text)
        for segment in row.render(console)
        if segment.text
    ]


@lru_cache(maxsize=256)
def _style_name(style: Style | None, no_color: bool) -> str:
    if style is None:
        return ""
    parts = [attribute for attribute in ATTRIBUTES if getattr(style, attribute)]
    if style.color is not None and not style.color.is_default and not no_color:
        name = COLOR_NAMES.get(style.color.name, style.color.name)
        parts.append(f"ansi{name.replace('bright_', 'bright')}")
    return " ".join(parts)
