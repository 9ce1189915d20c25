"""A line of text in rows of a screen, broken between words; refuses to know what draws it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from wcwidth import wcswidth

from chatcli.tui.text.fit import steady

TAB_WIDTH = 4
# Characters in a line from which on it is broken anywhere, which is faster.
LONGEST = 4000
# From here on, characters are two columns wide, and a row may end between any two.
WIDE = "\u2e80"
WORD = re.compile(f"[^ \t{WIDE}-\U0010ffff]+|.", re.DOTALL)


@dataclass(frozen=True)
class Line:
    """`cells`: for each character the blanks before it and what it looks like.

    `rows`: the places in the text at which a row of the screen begins.
    """

    cells: list[tuple[int, str]]
    rows: list[int]


class Rows:
    """Lays out lines. `label` says what stands for a character, None for most."""

    def __init__(self, label: Callable[[str], str | None]) -> None:
        self._label = label
        self.line = lru_cache(256)(self._line)

    def _line(self, text: str, width: int) -> Line:
        """`text` in rows of `width` columns."""
        cells: list[tuple[int, str]] = []
        rows, column = [0], 0
        for word in WORD.findall(text):
            looks = [self._look(character) for character in word]
            whole = columns("".join(looks))
            for i, look in enumerate(looks):
                size = whole if i == 0 and whole <= width else columns(look)
                blanks = 0
                if column and column + size > width:
                    # A space for which its row has no column left is not drawn.
                    look = "" if column == width and word in " \t" else look
                    blanks = width - column if look else 0
                    rows.append(len(cells))
                    column = 0
                cells.append((blanks, look))
                column += columns(look)
        return Line(cells, rows)

    def _look(self, character: str) -> str:
        blank = " " * TAB_WIDTH if character == "\t" else None
        return self._label(character) or blank or steady(character)

    def beside(
        self,
        lines: Sequence[str],
        place: tuple[int, int],
        step: int,
        column: int | None,
        width: int,
    ) -> tuple[int, int, int] | None:
        """(line, place in it, column to keep) a row above (-1) or below (1) a place, if there is."""
        line, at = place
        rows = list(self._around(lines, line, width))
        now = bisect_right([row[:2] for row in rows], place) - 1
        if not 0 <= now + step < len(rows):
            return None
        kept = at - rows[now][1] if column is None else column
        line, start, end = rows[now + step]
        return line, min(start + kept, end), kept

    def _around(self, lines: Sequence[str], line: int, width: int) -> Iterator[tuple[int, int, int]]:
        """(line, first place, last place) of each row of a line and of those beside it."""
        for number in range(max(line - 1, 0), min(line + 2, len(lines))):
            text = lines[number]
            starts = self.line(text, width).rows if len(text) <= LONGEST else [0]
            for start, after in zip(starts, [*starts[1:], len(text) + 1], strict=True):
                yield number, start, after - 1


@lru_cache(4096)
def columns(text: str) -> int:
    return max(wcswidth(text), 0)
