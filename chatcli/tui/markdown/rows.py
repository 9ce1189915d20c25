"""Rows of a reply, each with the position in the source where it ends, whatever the width is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.text import Text

from chatcli.tui.text.console import DIM
from chatcli.tui.text.wrap import Breaks, breaks_from, full_breaks, word_breaks

# A block's line in the source, a line of the block's text, an offset in that line. The blank row above a
# block is line -1 of its text.
Position = tuple[int, int, int]
BEFORE_ALL: Position = (-1, 0, 0)


class Row(NamedTuple):
    """`is_code`: a row of a code block, which has no margin."""

    text: Text
    end: Position
    is_code: bool = False


@dataclass(frozen=True)
class RenderedRows:
    """Rows of which no later text changes the first `stable`."""

    rows: list[Row]
    stable: int

    def count_until(self, position: Position) -> int:
        """How many rows end at `position` or before."""
        return bisect_right(self.rows, position, key=lambda row: row.end)


@dataclass(frozen=True)
class Block:
    """Makes the rows of the block at a line of the source. One of them ends at `printed`.

    `printed` is how far the reply is printed, maybe in rows of another width.
    """

    line: int
    printed: Position

    def rows(self, lines: Iterable[Text], width: int, breaks: Breaks, start: int = 0) -> list[Row]:
        """Lines of the block's text, the first of which is line `start`, broken into rows."""
        rows: list[Row] = []
        for number, line in enumerate(lines, start):
            offsets = self._breaks(breaks, number, line.plain, width)
            parts = zip(line.divide(offsets), [*offsets, len(line)], strict=True)
            rows += [Row(part, (self.line, number, end)) for part, end in parts]
        return rows

    def _breaks(self, breaks: Breaks, number: int, plain: str, width: int) -> list[int]:
        printed = self.printed[2] if self.printed[:2] == (self.line, number) else 0
        return breaks_from(breaks, plain, width, printed)

    def word_rows(self, text: Text, width: int) -> list[Row]:
        """A text broken at words."""
        rows = self.rows(text.split("\n", allow_blank=True), width, word_breaks)
        for row in rows:
            row.text.rstrip()
        return rows

    def count_full(self, plain: str, width: int) -> int:
        """How many rows of a text that may grow are full."""
        lines = enumerate(plain.split("\n"))
        return sum(1 + len(self._breaks(word_breaks, *line, width)) for line in lines) - 1

    def code_rows(self, lines: Sequence[Text], width: int, start: int) -> list[Row]:
        """Lines of code from line `start` of the block's text on, broken where the width is full."""
        return [row._replace(is_code=True) for row in self.rows(lines, width, full_breaks, start)]

    def atomic_rows(self, *texts: Text) -> list[Row]:
        """Rows that are printed together or not at all."""
        return [Row(text, (self.line, 0, 0)) for text in texts]

    def gap(self, wanted: bool) -> list[Row]:
        """The blank row above the block, if it is wanted."""
        return [Row(Text(), (self.line, -1, 0))] if wanted else []


def stack(parts: Iterable[tuple[list[Row], RenderedRows]]) -> RenderedRows:
    """Parts one after the other, each after its blank rows. Only the last part may change."""
    rows: list[Row] = []
    stable = 0
    for gap, rendered in parts:
        rows += gap
        stable = len(rows) + rendered.stable
        rows += rendered.rows
    return RenderedRows(rows, stable)


def indented(rows: Iterable[Row], indent: str) -> list[Row]:
    """Rows behind a margin; code has none, so that it can be copied from the screen."""
    return [
        row if row.is_code or not row.text.plain else row._replace(text=Text(indent) + row.text)
        for row in rows
    ]


def prefixed(rendered: RenderedRows, first: str, rest: str) -> RenderedRows:
    """Rows behind a marker: `first` before the first of them, `rest` before the others."""
    rows = [
        Row(Text.assemble((rest if number else first, DIM), row.text), row.end)
        for number, row in enumerate(rendered.rows)
    ]
    for row in rows:
        row.text.rstrip()
    return RenderedRows(rows, rendered.stable)


def all_stable(rows: list[Row]) -> RenderedRows:
    return RenderedRows(rows, len(rows))
