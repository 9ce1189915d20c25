"""Keep what is typed while the program starts for the prompt: without echo, Enter as Enter.

Light to import, as it comes first.
"""

from __future__ import annotations

import sys
import termios
from typing import Any

_modes_before: list[Any] | None = None


def quiet() -> None:
    """Have the terminal keep keys for the prompt that comes; Ctrl-C still interrupts.

    Does nothing if standard input is no terminal.
    """
    global _modes_before
    try:
        _modes_before = termios.tcgetattr(sys.stdin)
        modes = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError, AttributeError):
        return
    modes[0] &= ~termios.ICRNL
    modes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, modes)


def restore() -> None:
    """Undo `quiet`."""
    global _modes_before
    if _modes_before is not None:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, _modes_before)
        _modes_before = None
