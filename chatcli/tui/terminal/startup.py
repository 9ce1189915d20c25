"""Keeps keys that are typed while the program starts for its prompt: without echo, and Enter as Enter.

It is imported first, so it imports little.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import termios
from typing import Any

_modes_before: list[Any] | None = None
# Bytes that were typed before `quiet`: in them, Enter is a line break.
_typed_before = 0


def quiet() -> None:
    """Make the terminal keep keys for the next prompt. Ctrl-C still interrupts.

    Does nothing if standard input is not a terminal.
    """
    global _modes_before, _typed_before
    try:
        _modes_before = termios.tcgetattr(sys.stdin)
        modes = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError, AttributeError):
        return
    modes[0] &= ~termios.ICRNL
    modes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, modes)
    (_typed_before,) = struct.unpack("i", fcntl.ioctl(sys.stdin, termios.FIONREAD, bytes(4)))


def pass_on_typed() -> None:
    """Pass the keys that were typed before `quiet` to prompt_toolkit's next prompt, with Enter as Enter."""
    global _typed_before
    if not _typed_before or not select.select([sys.stdin], [], [], 0)[0]:
        return
    from prompt_toolkit.application import get_app_session
    from prompt_toolkit.input.typeahead import store_typeahead
    from prompt_toolkit.input.vt100_parser import Vt100Parser
    from prompt_toolkit.key_binding import KeyPress

    keys: list[KeyPress] = []
    typed = os.read(sys.stdin.fileno(), _typed_before)
    Vt100Parser(keys.append).feed(typed.decode(errors="replace").replace("\n", "\r"))
    store_typeahead(get_app_session().input, keys)
    _typed_before = 0


def restore() -> None:
    """Undo `quiet`."""
    global _modes_before
    if _modes_before is not None:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, _modes_before)
        _modes_before = None
