"""Rows of a reply, and the places in its source where they end; refuses to know Markdown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rich.text import Text

from chatcli.tui.text.styles import DIM
from chatcli.tui.text.wrap import Breaks, breaks_from, full_breaks, word_breaks

# Up to where a reply is, whatever the width: a block's line in the source, which line of the
# block's text, how many of that line's characters. The blank row above a block is line -1.
Place = tuple[int, int, int]
NOWHERE: Place = (-1, 0, 0)


class Row(NamedTuple):
    """A row to show, and the place where it ends."""

    text: Text
    end: Place


@dataclass(frozen=True)
class Drawn:
    """Rows to show, of which the first `sure` can never change."""

    rows: list[Row]
    sure: int

    def upto(self, place: Place) -> int:
        """How many rows hold nothing after `place`."""
        return bisect_right(self.rows, place, key=lambda row: row.end)


@dataclass(frozen=True)
class Block:
    """A block at a line of the source. A row ends where `printed` is, whatever the width was."""

    line: int
    printed: Place

    def rows(self, lines: Iterable[Text], width: int, breaks: Breaks, done: int = 0) -> list[Row]:
        """Lines of the block's text, of which `done` came before, broken into rows."""
        made: list[Row] = []
        for number, line in enumerate(lines, done):
            offsets = self._breaks(breaks, number, line.plain, width)
            parts = zip(line.divide(offsets), [*offsets, len(line)], strict=True)
            made += [Row(part, (self.line, number, end)) for part, end in parts]
        return made

    def _breaks(self, breaks: Breaks, number: int, plain: str, width: int) -> list[int]:
        begin = self.printed[2] if self.printed[:2] == (self.line, number) else 0
        return breaks_from(breaks, plain, width, begin)

    def words(self, text: Text, width: int) -> list[Row]:
        """A text broken at words."""
        rows = self.rows(text.split("\n", allow_blank=True), width, word_breaks)
        for row in rows:
            row.text.rstrip()
        return rows

    def full(self, plain: str, width: int) -> int:
        """How many rows of a text that goes on are full."""
        lines = enumerate(plain.split("\n"))
        return sum(1 + len(self._breaks(word_breaks, *line, width)) for line in lines) - 1

    def barred(self, lines: Iterable[Text], width: int, done: int = 0) -> list[Row]:
        """Lines broken where the width is full, behind a bar."""
        rows = self.rows(lines, max(width - 2, 4), full_breaks, done)
        return [
            Row(Text.assemble(("│ ", DIM), text) if text.plain else Text("│", DIM), end) for text, end in rows
        ]

    def whole(self, *texts: Text) -> list[Row]:
        """Rows that are printed all or none."""
        return [Row(text, (self.line, 0, 0)) for text in texts]

    def gap(self, wanted: bool) -> list[Row]:
        """The blank row above the block, where there is one."""
        return [Row(Text(), (self.line, -1, 0))] if wanted else []


def stacked(parts: Iterable[tuple[list[Row], Drawn]]) -> Drawn:
    """Parts below each other, each after its blank rows. Only the last may change."""
    rows: list[Row] = []
    sure = 0
    for gap, drawn in parts:
        rows += gap
        sure = len(rows) + drawn.sure
        rows += drawn.rows
    return Drawn(rows, sure)


def prefixed(drawn: Drawn, first: str, rest: str) -> Drawn:
    """Rows behind a sign: `first` before the first of them, `rest` before the others."""
    rows = [
        Row(Text.assemble((rest if number else first, DIM), row.text), row.end)
        for number, row in enumerate(drawn.rows)
    ]
    for row in rows:
        row.text.rstrip()
    return Drawn(rows, drawn.sure)


def all_sure(rows: list[Row]) -> Drawn:
    """Rows that no later text changes."""
    return Drawn(rows, len(rows))


def texts(rows: Iterable[Row]) -> list[Text]:
    """What is shown of rows."""
    return [row.text for row in rows]
