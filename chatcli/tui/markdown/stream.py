"""Markdown that arrives in pieces, as lines for a terminal; refuses to know turns and who draws them.

Lines that no later text can change are given once, for good. Only what follows them is drawn again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console
from rich.text import Text

from chatcli.text import clean
from chatcli.tui.markdown.layout import Cut, Layout, Page, Start
from chatcli.tui.markdown.rows import NOWHERE, texts
from chatcli.tui.markdown.rules import source_lines

# Seconds between two drawings, and how many times longer than a drawing the rest after it is.
FRAME = 1 / 20
REST = 15


class Part(Protocol):
    """Where lines go."""

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        """Print `settled` for good; `live` is what follows it now, until the next call."""


class MarkdownStream:
    """Gives `part` the lines of a reply while its text is fed; `finish` leaves it complete.

    They are as wide as `console` and an indentation by `indent`, which is the part's, leave them. Text
    may hold anything: it is cleaned here.
    """

    def __init__(
        self,
        console: Console,
        part: Part,
        indent: str = "  ",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout = Layout(console, indent)
        self._live = part
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
