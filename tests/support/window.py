"""The shell in a window of any size, which can change."""

from __future__ import annotations

import fcntl
import struct
import sys
import termios
from typing import Any

from tests.support.program import Program
from tests.support.shell import PANEL, ready
from tests.support.terminal import CTRL_C, CTRL_D, ENTER, Terminal

# The widest window of any test.
MAX_COLUMNS = 120


class Window(Terminal):
    """A terminal whose size is not in the environment, and can change; lines keep what they were.

    A terminal that lays out old lines anew does so by itself: what is tested is what was written.
    """

    def __init__(
        self, program: Program, *args: object, columns: int = 80, lines: int = 24, **env: str
    ) -> None:
        size = f"stty cols {columns} rows {lines}; unset COLUMNS LINES NO_COLOR; "
        given = " ".join(f"{name}={value}" for name, value in env.items())
        shell = ["sh", "-c", f'{size} exec env {given} "$@"', "sh"]
        command = [*shell, sys.executable, "-m", "chatcli", *map(str, args)]
        super().__init__(command, program.environment(), program.home)
        self.screen.resize(lines, columns)

    def resize(self, columns: int, lines: int) -> None:
        """As a terminal does: what does not fit below goes up, out of sight."""
        screen, cursor = self.screen, self.screen.cursor
        while self.read(0):
            pass
        while cursor.y >= lines:
            screen.history.top.append(screen.buffer[0])
            for y in range(screen.lines):
                screen.buffer[y] = screen.buffer[y + 1]
            cursor.y -= 1
        for y in [y for y in screen.buffer if y >= lines]:
            del screen.buffer[y]
        screen.lines, screen.columns = lines, columns
        screen.set_margins()
        cursor.x = min(cursor.x, columns - 1)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _row(self, cells: Any) -> str:
        return "".join(cells[column].data for column in range(MAX_COLUMNS)).rstrip()

    def text(self) -> str:
        return "\n".join(self._row(self.screen.buffer[y]) for y in range(self.screen.lines))

    def all_text(self) -> str:
        return "\n".join([*map(self._row, self.screen.history.top), self.text()])

    def line(self, text: str) -> None:
        """Type a line that may take several rows, and press Enter."""
        self.send(text)
        self.wait_for(lambda: self.drawn(text)[-30:] in flat(self.text()))
        self.send(ENTER)

    def drawn(self, text: str) -> str:
        """What this screen shows of a text, without white space."""
        return flat(text)

    def prompt_row(self) -> int:
        """The only row with an empty prompt."""
        rows = [y for y, row in enumerate(self.text().split("\n")) if row.startswith("› Say")]
        assert 1 == len(rows), self.text()
        return rows[0]


def flat(text: str) -> str:
    """Without white space, which a line break may change."""
    return "".join(text.split())


def send_line(window: Window, line: str, pattern: str = PANEL) -> str:
    """Send a line and wait for one more match of `pattern`. Returns the screen from the line on."""
    window.wait_for(lambda: ready(window))
    before, seen = window.all_text(), window.count(pattern)
    start = before.rindex("› ")
    window.line(line)
    window.wait_for(lambda: window.count(pattern) > seen)
    window.wait_for(lambda: ready(window))
    return window.all_text()[start:]


def command_output(window: Window, line: str) -> str:
    """Run a command that shows something above the next prompt. Returns its line and what it showed."""
    window.wait_for(lambda: ready(window))
    before = window.all_text().rindex("\n› ") + 1
    window.line(line)
    window.wait_for(lambda: prompt_is_back(window, before))
    return window.all_text()[before:].rpartition("\n› ")[0].rstrip()


def prompt_is_back(window: Window, before: int) -> bool:
    """Whether the prompt is back, below a command's line and what it showed."""
    shown, mark, _ = window.all_text()[before:].rpartition("\n› ")
    return bool(mark and "\n" in shown.strip() and ready(window))


def leave_window(window: Window) -> None:
    window.wait_for(lambda: ready(window))
    if "› Say something" not in window.text():
        window.send(CTRL_C)
        window.wait_for("› Say something")
    window.send(CTRL_D)
    assert 0 == window.wait_for_exit()
    assert "Traceback" not in window.all_text()
