"""What every command prints with: results on the screen, JSON, and sentences on standard error."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from chatcli.text import clean

if TYPE_CHECKING:
    from chatcli.commands.results import Result


def warn(sentence: str, file: TextIO | None = None) -> None:
    """Print it on `file` (default: standard error), as the program's."""
    print(clean(f"chatcli: {sentence}"), file=file or sys.stderr)


def show_result(result: Result) -> None:
    """Draw it on a terminal; in a pipe it is plain text."""
    from chatcli.tui.render.pipe import Pipe
    from chatcli.tui.render.screen import Screen

    display = Screen() if sys.stdout.isatty() else Pipe()
    display.result(result)


def print_json(value: Any) -> None:
    """JSON in ASCII, so that nothing in it can act on a terminal."""
    print(json.dumps(value))
