"""A renderer for windows whose size changes.

Many terminals reflow their lines when a window is made narrower: a row that is too long becomes two, and the
cursor must go up by one row more to draw over it. Rows of an intermediate width could not be found again, so
nothing is drawn while a window is dragged. A frame that is on its way to the terminal meanwhile cannot be
called back: a row may then stay twice or be lost, and no terminal reports it. The transcript has every row.
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

# Seconds for which a window must keep its size. tmux reports a change up to 0.25 s late.
RESIZE_SECONDS, TMUX_RESIZE_SECONDS = 0.1, 0.3
# Synchronized output: terminals that know it show everything between the two at once; others ignore it.
BEGIN_SYNC, END_SYNC = "\x1b[?2026h", "\x1b[?2026l"
# Terminals that reflow lines: variables that they set, their names in TERM (which ssh passes on), and in
# TERM_PROGRAM. In others a row may stay twice, which is better than losing one.
VARIABLES = (
    *("KITTY_WINDOW_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "ALACRITTY_WINDOW_ID"),
    *("VTE_VERSION", "KONSOLE_VERSION", "TMUX"),
)
NAMES_IN_TERM = ("kitty", "wezterm", "ghostty", "alacritty", "foot", "tmux")
PROGRAMS = ("iTerm.app", "Apple_Terminal", "vscode", "WezTerm", "ghostty", "tmux")
# Those of them that do not reflow the cursor's own row.
KEEPS_CURSOR_ROW = ("vscode",)
# Variables of other multiplexers, which were not tried.
MULTIPLEXERS = ("STY", "ZELLIJ")


def reflows(environment: Mapping[str, str]) -> bool:
    """Whether this terminal is known to reflow lines."""
    if any(environment.get(name) for name in MULTIPLEXERS):
        return False
    names_itself = any(name in environment.get("TERM", "") for name in NAMES_IN_TERM)
    is_known = names_itself or environment.get("TERM_PROGRAM") in PROGRAMS
    return is_known or any(environment.get(name) for name in VARIABLES)


class ReflowRenderer(Renderer):
    """prompt_toolkit's renderer, which finds what it drew in a window that has become narrower.

    It makes `output.get_size` return the size to draw for, which follows the window's once that rests.
    """

    def __init__(
        self,
        style: BaseStyle,
        output: Output,
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reflows = reflows(environment)
        self._reflows_cursor_row = environment.get("TERM_PROGRAM") not in KEEPS_CURSOR_ROW
        self._resize_seconds = TMUX_RESIZE_SECONDS if environment.get("TMUX") else RESIZE_SECONDS
        self._clock, self._resized_at = clock, float("-inf")
        self._window_size = output.get_size
        # The size to draw for, the window's last known size, and the size of the last drawing.
        self._size = self._known_window_size = self._drawn_size = self._window_size()
        self._drawn_cursor = Point(0, 0)
        output.get_size = lambda: self._size  # type: ignore[method-assign]
        super().__init__(style, output)

    def ready(self) -> bool:
        """Whether the window has kept its size for a moment. That becomes the size to draw for."""
        if (size := self._window_size()) != self._known_window_size:
            self._known_window_size, self._resized_at = size, self._clock()
        if self._clock() - self._resized_at < self._resize_seconds:
            return False
        self._size = size
        return True

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the last drawing, unless the window is still changing."""
        if self.ready():
            self._erase(leave_alternate_screen)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Draw, unless the window is still changing and this is not the last drawing."""
        if not (self.ready() or is_done):
            return
        with self._synchronized():
            if self._drawn_size != self._size and self.last_rendered_screen is not None:
                self._erase()
            self._render(app, layout, is_done)

    def print_above(self, app: Application[Any], text: str) -> None:
        """Write whole lines above the drawing, which moves down. Call it only if `ready`."""
        with self._synchronized():
            self._erase()
            self.output.write_raw(text)
            self._render(app, app.layout)

    def request_absolute_cursor_position(self) -> None:
        """Ask nothing: the position is not used."""

    @contextmanager
    def _synchronized(self) -> Iterator[None]:
        """The terminal shows everything that is written within at once."""
        self.output.write_raw(BEGIN_SYNC)
        try:
            yield
        finally:
            self.output.write_raw(END_SYNC)
            self.output.flush()

    def _render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        super().render(app, layout, is_done)
        self._drawn_size = self._size
        if (screen := self.last_rendered_screen) is not None:
            self._drawn_cursor = screen.get_cursor_position(layout.current_window)

    def _erase(self, leave_alternate_screen: bool = True) -> None:
        screen, cursor, output = self.last_rendered_screen, self._drawn_cursor, self.output
        if screen is not None:
            columns = self._size.columns
            if self._reflows and columns < self._drawn_size.columns:
                # Go up to where the cursor would be if no row had been broken.
                rows = sum(_breaks(screen, y, _end(screen, y), columns) for y in range(cursor.y))
                if self._reflows_cursor_row:
                    rows += _breaks(screen, cursor.y, cursor.x + 1, columns)
                output.cursor_up(rows)
            # The second column first: if the erasing began in the screen's first cell, tmux would push the
            # erased rows into its history.
            output.cursor_backward(cursor.x)
            output.cursor_up(cursor.y)
            output.cursor_forward(1)
            output.erase_down()
            output.cursor_backward(1)
            output.erase_end_of_line()
            output.cursor_down(cursor.y)
            output.cursor_forward(cursor.x)
        super().erase(leave_alternate_screen)


def _end(screen: Screen, y: int) -> int:
    """The column after the last one in a row that is not blank."""
    return max((x for x, cell in screen.data_buffer[y].items() if cell.char not in ("", " ")), default=-1) + 1


def _breaks(screen: Screen, y: int, end: int, columns: int) -> int:
    """How often a terminal of `columns` breaks a row before its column `end`."""
    column = x = breaks = 0
    row = screen.data_buffer[y]
    while x < end:
        width = max(row[x].width, 1)
        if column + width > columns:
            breaks, column = breaks + 1, 0
        column, x = column + width, x + width
    return breaks
