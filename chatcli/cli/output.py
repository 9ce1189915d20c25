"""What every command prints with: results on the screen, JSON, and sentences on standard error."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from chatcli.text import clean

if TYPE_CHECKING:
    from chatcli.commands.results import Result


def warn(sentence: str) -> None:
    print(clean(f"chatcli: {sentence}"), file=sys.stderr)


def show_result(result: Result) -> None:
    from chatcli.tui.render.screen import Screen

    Screen().result(result)


def print_json(value: Any) -> None:
    """JSON in ASCII, so that nothing in it can act on a terminal."""
    print(json.dumps(value))
