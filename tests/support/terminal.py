"""A real program in a real pseudo-terminal, with a screen to read and keys to press."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyte

COLUMNS, LINES = 80, 24
PATIENCE = 40.0
# Private modes as pyte keeps them: shifted, apart from the ANSI modes.
CURSOR_SHOWN, BRACKETED_PASTE, MOUSE = 25 << 5, 2004 << 5, 1000 << 5
# What is written in this mode is shown at its end.
SYNCHRONIZED = 2026 << 5
ESCAPE, ENTER, ALT_ENTER, TAB, BACKSPACE, DELETE = "\x1b", "\r", "\x1b\r", "\t", "\x7f", "\x1b[3~"
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
PAGE_UP, PAGE_DOWN, HOME, END = "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F"
CTRL_C, CTRL_D, CTRL_L, CTRL_O = "\x03", "\x04", "\x0c", "\x0f"
CTRL_T, CTRL_U, CTRL_X = "\x14", "\x15", "\x18"


def pasted(text: str) -> str:
    """What a terminal sends for a paste."""
    return f"\x1b[200~{text}\x1b[201~"


class Answering(pyte.HistoryScreen):
    """A screen that answers a program's questions, as a terminal does."""

    answer: Callable[[str], None]

    def write_process_input(self, data: str) -> None:
        self.answer(data)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """To its end also where the window has become narrower than the line is."""
        super().erase_in_line(how, private)
        line = self.buffer[self.cursor.y]
        for column in [column for column in line if column >= self.columns and how != 1]:
            del line[column]


class Terminal:
    """One process with a terminal of its own. `raw` is every byte that it wrote there."""

    def __init__(self, command: Sequence[str], env: dict[str, str], folder: Path) -> None:
        self.raw = b""
        self.screen = Answering(COLUMNS, LINES, history=2000, ratio=0.5)
        self.screen.answer = self.send
        self._stream = pyte.ByteStream(self.screen)
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.modes_before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            command,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**env, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)},
            cwd=folder,
            start_new_session=True,
            preexec_fn=self._own_the_terminal,
        )

    def _own_the_terminal(self) -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    @property
    def modes_now(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def line(self, text: str) -> None:
        """Type a line and press Enter, once the screen shows it."""
        self.send(text)
        self.wait_for(lambda: text[-12:] in self.text())
        self.send(ENTER)

    def text(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def all_text(self) -> str:
        """What is on the screen and what has scrolled away above it."""
        above = [
            "".join(row[column].data for column in range(COLUMNS)).rstrip() for row in self.screen.history.top
        ]
        return "\n".join([*above, self.text()])

    def read(self, seconds: float) -> bool:
        """Take in what the program writes within this time; False if nothing came."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        data = os.read(self._master, 65536)
        self.raw += data
        self._stream.feed(data)
        return True

    def wait_for(self, wanted: str | Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Read until the screen shows this text or the condition holds; its value."""
        holds = (lambda: wanted in self.text()) if isinstance(wanted, str) else wanted
        deadline = time.monotonic() + seconds
        while self._half_drawn() or not (value := holds()):
            assert time.monotonic() < deadline, f"{wanted!r} never came:\n{self.all_text()}"
            self.read(0.05)
        return value

    def _half_drawn(self) -> bool:
        return SYNCHRONIZED in self.screen.mode and self.process.poll() is None

    def wait_for_exit(self) -> int:
        """Read until the process has ended and everything that it wrote is taken in."""
        self.wait_for(lambda: self.process.poll() is not None)
        while self.read(0):
            pass
        return self.process.returncode

    def count(self, pattern: str) -> int:
        return len(re.findall(pattern, self.all_text()))
