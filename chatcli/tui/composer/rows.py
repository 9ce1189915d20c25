"""Lines of the input box as rows of the screen, broken between words (prompt_toolkit breaks anywhere)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import wcwidth

from chatcli.tui.text.fit import portable

TAB_WIDTH = 4
# Longer lines are broken anywhere, which is faster.
MAX_WRAPPED_CHARS = 4000
# From here on, characters are two columns wide, and a row may end between any two.
WIDE = "\u2e80"
WORD = re.compile(f"[^ \t{WIDE}-\U0010ffff]+|.", re.DOTALL)


@dataclass(frozen=True)
class WrappedLine:
    """A line's `cells`: for each character the number of blanks before it, and the text drawn for it.

    `row_starts`: the offsets in the line at which a row of the screen begins.
    """

    cells: list[tuple[int, str]]
    row_starts: list[int]


class LineWrapper:
    """Wraps lines. `label` returns the label of a chip, None for other characters."""

    def __init__(self, label: Callable[[str], str | None]) -> None:
        self._label = label
        self.wrap = lru_cache(256)(self._wrap)

    def _wrap(self, text: str, width: int) -> WrappedLine:
        """`text` in rows of `width` columns."""
        cells: list[tuple[int, str]] = []
        row_starts, column = [0], 0
        for word in WORD.findall(text):
            drawn = [
                self._label(character) or (" " * TAB_WIDTH if character == "\t" else portable(character))
                for character in word
            ]
            word_width = wcwidth.width("".join(drawn))
            for i, cell in enumerate(drawn):
                needed = word_width if i == 0 and word_width <= width else wcwidth.width(cell)
                blanks = 0
                if column and column + needed > width:
                    # A space at the end of a full row is not drawn.
                    cell = "" if column == width and word in " \t" else cell
                    blanks = width - column if cell else 0
                    row_starts.append(len(cells))
                    column = 0
                cells.append((blanks, cell))
                column += wcwidth.width(cell)
        return WrappedLine(cells, row_starts)

    def move(
        self, lines: Sequence[str], cursor: tuple[int, int], step: int, column: int | None, width: int
    ) -> tuple[int, int, int] | None:
        """(line, offset in it, column to keep) one row above (-1) or below (1) `cursor`; None at the end."""
        rows: list[tuple[int, int, int]] = []  # line, first offset, last offset
        for number in range(max(cursor[0] - 1, 0), min(cursor[0] + 2, len(lines))):
            text = lines[number]
            starts = self.wrap(text, width).row_starts if len(text) <= MAX_WRAPPED_CHARS else [0]
            ends = [*starts[1:], len(text) + 1]
            rows += [(number, start, end - 1) for start, end in zip(starts, ends, strict=True)]
        row = bisect_right([row[:2] for row in rows], cursor) - 1
        if not 0 <= row + step < len(rows):
            return None
        kept = cursor[1] - rows[row][1] if column is None else column
        line, start, end = rows[row + step]
        return line, min(start + kept, end), kept
