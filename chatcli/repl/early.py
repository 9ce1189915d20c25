"""Keeps what is typed while the program starts: no echo, and Enter stays Enter; light to import."""

from __future__ import annotations

import contextlib
import sys
import termios
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_terminal() -> Iterator[None]:
    """Have the terminal keep keys for the prompt that comes; as it was, afterwards.

    Ctrl-C still interrupts. What is no terminal stays as it is.
    """
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):
        yield
        return
    quiet = termios.tcgetattr(sys.stdin)
    quiet[0] &= ~termios.ICRNL
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
