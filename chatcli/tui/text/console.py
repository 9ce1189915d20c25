"""The one way through rich to a terminal, a pipe or a string: clean text only, and none of it is markup."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

from chatcli.text import clean

# What the environment may say of a screen's size. rich would take 0 columns, or a million, at their word.
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
    """What is made for the size that there is when it is printed."""

    def __init__(self, draw: Callable[[Console, ConsoleOptions], Iterable[RenderableType]]) -> None:
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._draw(console, options)


class CleanText(RenderHook):
    """Has whatever is printed pass through `Cleaned`."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Cleaned(renderable) for renderable in renderables]


class Cleaned:
    """A renderable whose text cannot act on a terminal, whoever wrote it: only rich's own codes can."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if segment.control or segment.text == "\n":
                yield segment
            else:
                yield Segment(clean(segment.text), segment.style)
