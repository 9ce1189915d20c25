"""Markdown that arrives in pieces, as lines for a terminal.

Lines that no later text can change are handed over once, for good. Only what follows them is laid out again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console
from rich.text import Text

from chatcli.text import clean
from chatcli.tui.markdown.layout import Layout, Page, TailState, source_lines
from chatcli.tui.markdown.rows import BEFORE_ALL

# A line's end as `clean` leaves it.
LINE_END = re.compile("␍+\n")
FRAME_SECONDS = 1 / 20
# The pause after a drawing is at least this many times as long as the drawing took.
PAUSE_FACTOR = 15


def rendered(text: str, console: Console, indent: str = "  ") -> list[Text]:
    """The rows of a complete reply, as a `MarkdownStream` prints them."""
    source = LINE_END.sub("\n", clean(text))
    return [row.text for row in Layout(console, indent).page(source, TailState(), BEFORE_ALL, True).rows]


class MarkdownOutput(Protocol):
    """Takes rows."""

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        """Print `settled` for good; `live` is what follows it now, until the next call."""


class MarkdownStream:
    """Hands the lines of a reply to `output` while its text is fed; `finish` leaves it complete.

    Lines other than code begin with `indent`, and all leave the console's last column free. The text is
    cleaned here.
    """

    def __init__(
        self,
        console: Console,
        output: MarkdownOutput,
        indent: str = "  ",
        clock: Callable[[], float] = time.monotonic,
        before: str = "",
    ) -> None:
        """The text continues `before`, which was shown earlier.

        The rows of it that the text may still change are shown again.
        """
        self._layout = Layout(console, indent)
        self._output = output
        self._clock = clock
        self._next_frame = clock()
        # The tail of the source, what must be remembered before it, and how far it is printed.
        self._tail = ""
        self._state = TailState()
        self._printed = BEFORE_ALL
        self._continues = bool(before)
        if before:
            self._tail = clean(before)
            self._settle(lambda settled, live: None)

    def feed(self, text: str) -> None:
        """Take the next piece of the reply, and draw if the last drawing is long enough ago."""
        self._tail += clean(text)
        began = self._clock()
        if began >= self._next_frame:
            self._settle(self._put)
            ended = self._clock()
            self._next_frame = ended + max(FRAME_SECONDS, (ended - began) * PAUSE_FACTOR)

    def finish(self) -> None:
        """Print what is left and end the line. Harmless when called twice."""
        self._layout.fit()
        page = self._page(LINE_END.sub("\n", self._tail), ended=True)
        self._put([row.text for row in page.rows[page.count_until(self._printed) :]], [])
        self._tail, self._state, self._printed = "", TailState(), BEFORE_ALL

    def _put(self, settled: list[Text], live: list[Text]) -> None:
        if self._continues and (first := settled or live):
            if not first[0].plain:  # the gap above a block that begins here
                del first[0]
            self._continues = not settled
        self._output.put(settled, live)

    def _settle(self, put: Callable[[list[Text], list[Text]], None]) -> None:
        """Hand over the settled and the live rows, and keep the tail."""
        self._tail = LINE_END.sub("\n", self._tail)
        self._layout.fit()
        shown = complete = self._page(self._tail)
        if not shown.decided:
            # Only the lines before the last one may be stable.
            complete = self._page(self._tail[: self._tail.rfind("\n") + 1])
        settled = complete.rows[complete.count_until(self._printed) : complete.stable]
        printed = settled[-1].end if settled else self._printed
        live = shown.rows[shown.count_until(printed) :]
        put([row.text for row in settled], [row.text for row in live])
        # Only now: an interrupt may repeat a line, but never lose one.
        self._printed = printed
        cut = complete.cut
        if cut is not None and cut.rows <= complete.count_until(printed):
            self._tail = cut.opener + "".join(source_lines(self._tail)[cut.line :])
            self._state = cut.state

    def _page(self, source: str, ended: bool = False) -> Page:
        return self._layout.page(source, self._state, self._printed, ended)
