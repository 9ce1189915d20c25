"""Markdown that arrives in pieces, drawn in a terminal as it grows; refuses to know what a turn is.

Lines that no later text can change are printed once, for good. Only what follows them is redrawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType, Segment, Segments
from rich.text import Text

from chatcli.plain import clean
from chatcli.repl.folding import rows
from chatcli.repl.markdown_layout import Cut, Layout, Page, Start
from chatcli.repl.markdown_rows import NOWHERE, texts
from chatcli.repl.markdown_rules import source_lines

# Seconds between two drawings, and how many times longer than a drawing the rest after it is.
FRAME = 1 / 20
REST = 15
LIVE_ROWS = 8
ERASE = Control((ControlType.ERASE_IN_LINE, 0)).segment
NEWLINE = Segment("\n")


class Part(Protocol):
    """Where lines go."""

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        """Print `settled` for good; `live` is what follows it now, until the next call."""


class MarkdownStream:
    """Draws a reply on `console` while its text is fed; `finish` leaves it complete.

    The cursor must be at the start of a line. Text may hold anything: it is cleaned here.
    `part` takes the lines instead of the terminal; it has to indent them by `indent`.
    """

    def __init__(
        self,
        console: Console,
        indent: str = "  ",
        clock: Callable[[], float] = time.monotonic,
        part: Part | None = None,
    ) -> None:
        self._layout = Layout(console, indent)
        self._live: Part = part or LivePart(console, indent)
        self._clock = clock
        self._next_frame = clock()
        self._tail = ""
        self._start = Start()
        self._printed = NOWHERE

    def feed(self, text: str) -> None:
        """Take the next piece of the reply; draw it if the last drawing is long enough ago."""
        self._tail += clean(text)
        began = self._clock()
        if began >= self._next_frame:
            self._draw()
            ended = self._clock()
            self._next_frame = ended + max(FRAME, (ended - began) * REST)

    def finish(self) -> None:
        """Print what is left and end the line. Harmless when called twice."""
        self._layout.fit()
        page = self._page(self._tail.replace("␍\n", "\n"), ended=True)
        self._live.put(texts(page.rows[page.upto(self._printed) :]), [])
        self._tail, self._start, self._printed = "", Start(), NOWHERE

    def _draw(self) -> None:
        self._tail = self._tail.replace("␍\n", "\n")
        self._layout.fit()
        shown = firm = self._page(self._tail)
        if not shown.decided:
            firm = self._page(self._tail[: self._tail.rfind("\n") + 1])
        settled = firm.rows[firm.upto(self._printed) : firm.sure]
        printed = settled[-1].end if settled else self._printed
        self._live.put(texts(settled), texts(shown.rows[shown.upto(printed) :]))
        # Only now: an interrupt may repeat a line, but never lose one.
        self._printed = printed
        if firm.cut is not None and firm.cut.rows <= firm.upto(printed):
            self._drop(firm.cut)

    def _page(self, source: str, ended: bool = False) -> Page:
        return self._layout.page(source, self._start, self._printed, ended)

    def _drop(self, cut: Cut) -> None:
        self._tail = cut.opener + "".join(source_lines(self._tail)[cut.line :])
        self._start = cut.start


class LivePart:
    """The end of the screen, which is drawn again in place; what is settled scrolls away above."""

    def __init__(self, console: Console, indent: str) -> None:
        self._console = console
        self._indent = indent
        self._rows = 1
        self._is_clean = True
        self._moves = console.is_terminal and not console.is_dumb_terminal

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        """Replace the live rows by `settled`, for good, and `live`."""
        if self._is_clean and not settled and not live:
            return
        most = max(min(LIVE_ROWS, self._console.height - 2), 1)
        width = self._console.width
        above = rows(settled, self._indent, width)
        below = rows(live, self._indent, width)[-most:] if self._moves else []
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
        back = Control(
            (ControlType.CURSOR_UP, rows), (ControlType.CURSOR_MOVE_TO_COLUMN, column)
        ).segment
        return [*([NEWLINE, ERASE] * rows), back]
