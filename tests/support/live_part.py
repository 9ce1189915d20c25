"""A reply's lines on a terminal: what is settled scrolls away, what is live is drawn again in place."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType, Segment, Segments
from rich.text import Text

from chatcli.tui.text.wrap import rows

LIVE_ROWS = 8
ERASE = Control((ControlType.ERASE_IN_LINE, 0)).segment
NEWLINE = Segment("\n")


class LivePart:
    """The end of a screen, where the cursor is at the start of a line to begin with."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows = 1
        self._is_clean = True
        self._moves = console.is_terminal and not console.is_dumb_terminal

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        """Replace the live rows by `settled`, for good, and `live`."""
        if self._is_clean and not settled and not live:
            return
        most = max(min(LIVE_ROWS, self._console.height - 2), 1)
        width = self._console.width
        above = rows(settled, "", width)
        below = rows(live, "", width)[-most:] if self._moves else []
        parts = self._to_top()
        for row in above:
            parts += [*row.render(self._console), *self._erase(), NEWLINE]
        for number, row in enumerate(below):
            parts += [NEWLINE] * (number > 0) + [*row.render(self._console), *self._erase()]
        drawn = len(above) + max(len(below), 1)
        if not below:
            parts += self._erase()
        parts += self._erase_below(self._rows - drawn, below[-1].cell_len if below else 0)
        self._rows = max(len(below), 1)
        self._is_clean = not below
        self._console.print(Segments(parts), end="", crop=False)
        self._console.file.flush()

    def _to_top(self) -> list[Segment]:
        if not self._moves:
            return []
        up = [(ControlType.CURSOR_UP, self._rows - 1)] if self._rows > 1 else []
        return [Control(ControlType.CARRIAGE_RETURN, *up).segment]

    def _erase(self) -> list[Segment]:
        return [ERASE] if self._moves else []

    def _erase_below(self, rows: int, column: int) -> list[Segment]:
        if rows <= 0 or not self._moves:
            return []
        back = Control((ControlType.CURSOR_UP, rows), (ControlType.CURSOR_MOVE_TO_COLUMN, column)).segment
        return [*([NEWLINE, ERASE] * rows), back]
