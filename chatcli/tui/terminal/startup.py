"""Keeps what is typed while the program starts: no echo, and Enter stays Enter; light to import."""

from __future__ import annotations

import sys
import termios
from typing import Any

_before: list[Any] | None = None


def quiet() -> None:
    """Have the terminal keep keys for the prompt that comes; Ctrl-C still interrupts.

    What is no terminal stays as it is.
    """
    global _before
    try:
        _before = termios.tcgetattr(sys.stdin)
        changed = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError, AttributeError):
        return
    changed[0] &= ~termios.ICRNL
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, changed)


def restore() -> None:
    """The terminal as it was before `quiet`."""
    global _before
    if _before is not None:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, _before)
        _before = None
