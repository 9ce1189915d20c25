"""Draws in a window whose size changes; refuses to know what is drawn.

Many terminals lay out their lines anew when a window is made narrower, and a row that has become too
long is two: who draws over it has to go up by as many rows more. What was drawn for the width of a
moment ago could not be found again, so nothing is drawn while a window is dragged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

from chatcli.tui.terminal import identify

# Seconds for which a window has to keep its size. tmux tells of a change up to 0.25 s after it.
REST, REST_IN_TMUX = 0.1, 0.3
# Terminals that know these show what lies between them at once; the others ignore them.
TOGETHER, DONE = "\x1b[?2026h", "\x1b[?2026l"
# Terminals that lay out lines anew. Of others it is not known: rows may stay there twice, which is
# less than to lose some.
REFLOWING = {
    "kitty",
    "WezTerm",
    "Ghostty",
    "Alacritty",
    "VTE",
    "Konsole",
    "tmux",
    "wezterm",
    "ghostty",
    "alacritty",
    "foot",
    "iTerm.app",
    "Apple_Terminal",
    "vscode",
}
# They leave the cursor's own row to the program.
BUT_THE_CURSORS = ("vscode",)
# They stand between the terminal and the program; what they do then was not tried.
NEVER = ("STY", "ZELLIJ")


def lays_out_anew(environment: Mapping[str, str]) -> bool:
    """Whether this terminal is known to make two rows of one that has become too long."""
    if any(environment.get(name) for name in NEVER):
        return False
    return not REFLOWING.isdisjoint(identify.names(environment))


class ReflowRenderer(Renderer):
    """prompt_toolkit's renderer, which finds what it drew in a window that has become narrower.

    The size that `output` tells is the one to draw for, from now on.
    """

    def __init__(
        self,
        style: BaseStyle,
        output: Output,
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._anew = lays_out_anew(environment)
        self._cursors_too = environment.get("TERM_PROGRAM") not in BUT_THE_CURSORS
        self._rest = REST_IN_TMUX if environment.get("TMUX") else REST
        self._clock, self._changed = clock, float("-inf")
        self._window = output.get_size
        self._size = self._seen = self._drawn = self._window()
        self._cursor = Point(0, 0)
        output.get_size = lambda: self._size  # type: ignore[method-assign]
        super().__init__(style, output)

    def ready(self) -> bool:
        """Whether the window has kept its size for a moment, for which one then draws."""
        if (size := self._window()) != self._seen:
            self._seen, self._changed = size, self._clock()
        if self._clock() - self._changed < self._rest:
            return False
        self._size = size
        return True

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Take away what was drawn last, unless the window is still changing."""
        if self.ready():
            self._erase(leave_alternate_screen)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Draw, unless the window is still changing and this is not the last time."""
        if not (self.ready() or is_done):
            return
        with self._at_once():
            if self._drawn != self._size and self.last_rendered_screen is not None:
                self._erase()
            self._render(app, layout, is_done)

    def print_above(self, app: Application[Any], text: str) -> None:
        """Write whole lines where something is drawn, and draw it again below them. First ask `ready`."""
        with self._at_once():
            self._erase()
            self.output.write_raw(text)
            self._render(app, app.layout)

    def request_absolute_cursor_position(self) -> None:
        """Ask nothing: nobody here wants to know how far down the prompt is."""

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """What is written meanwhile is shown when all of it is there."""
        self.output.write_raw(TOGETHER)
        try:
            yield
        finally:
            self.output.write_raw(DONE)
            self.output.flush()

    def _erase(self, leave_alternate_screen: bool = True) -> None:
        if (screen := self.last_rendered_screen) is not None:
            self._follow(screen)
            self._blank()
        super().erase(leave_alternate_screen)

    def _render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        super().render(app, layout, is_done)
        self._drawn = self._size
        if (screen := self.last_rendered_screen) is not None:
            self._cursor = screen.get_cursor_position(layout.current_window)

    def _blank(self) -> None:
        """Take away what was drawn, from the second column on and then the first.

        tmux would keep above the screen what is erased from the screen's first cell on.
        """
        self.output.cursor_backward(self._cursor.x)
        self.output.cursor_up(self._cursor.y)
        self.output.cursor_forward(1)
        self.output.erase_down()
        self.output.cursor_backward(1)
        self.output.erase_end_of_line()
        self.output.cursor_down(self._cursor.y)
        self.output.cursor_forward(self._cursor.x)

    def _follow(self, screen: Screen) -> None:
        """Go to where the cursor would be if no row had become two."""
        columns = self._size.columns
        if self._anew and columns < self._drawn.columns:
            above = range(self._cursor.y)
            more = sum(_breaks(screen, y, _end(screen, y), columns) for y in above)
            if self._cursors_too:
                more += _breaks(screen, self._cursor.y, self._cursor.x + 1, columns)
            self.output.cursor_up(more)


def _end(screen: Screen, y: int) -> int:
    """The column after the last one in a row that has something to show."""
    return max((x for x, cell in screen.data_buffer[y].items() if cell.char not in ("", " ")), default=-1) + 1


def _breaks(screen: Screen, y: int, end: int, columns: int) -> int:
    """How often a row is broken where there are so many columns, before its column `end`."""
    column = x = breaks = 0
    row = screen.data_buffer[y]
    while x < end:
        size = max(row[x].width, 1)
        if column + size > columns:
            breaks, column = breaks + 1, 0
        column, x = column + size, x + size
    return breaks
