"""How every command prints: results on the screen, JSON, and sentences on standard error."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any, TextIO

import typer

from chatcli.errors import UsageError
from chatcli.text import clean
from chatcli.tui.terminal import startup

if TYPE_CHECKING:
    from chatcli.commands.results import Result


def warn(sentence: str, file: TextIO | None = None) -> None:
    """Print it on `file` (default: standard error), after the program's name."""
    print_sentence(f"chatcli: {sentence}", file or sys.stderr)


def print_sentence(sentence: str, file: TextIO | None) -> None:
    """Print it in a line; on a terminal broken at words, with a command line at its end in one piece."""
    if file is None or not file.isatty():
        print(clean(sentence), file=file)
        return
    from chatcli.tui.text.console import Sentence, open_console

    open_console(file).print(Sentence(sentence), crop=False)


def show_result(result: Result) -> None:
    """Draw it on a terminal; in a pipe it is plain text."""
    from chatcli.tui.render.pipe import Pipe
    from chatcli.tui.render.screen import Screen

    display = Screen() if sys.stdout.isatty() else Pipe()
    display.result(result)


def confirm(question: str, unasked: str | None, refused: str = "Nothing was deleted.") -> None:
    """Ask before what cannot be undone, and leave without a yes. Raises `UsageError` without a terminal.

    `unasked` is the command that does it without a question, None if it is too long to print. `refused` is
    said without a yes. Ctrl-C raises `KeyboardInterrupt`.
    """
    if not sys.stdin.isatty():
        how = f": {unasked}" if unasked else ", add --yes."
        raise UsageError(f"There is no terminal to ask in. To do it without a question{how}")
    # The prompt of a chat that could have come next has switched the echo off.
    startup.restore()
    columns = max(shutil.get_terminal_size().columns - 1, 1)
    lines = textwrap.wrap(clean(f"{question} [y/N]"), columns, break_on_hyphens=False)
    print("\n".join(lines), end=" ", file=sys.stderr, flush=True)
    try:
        answer = sys.stdin.readline().strip().lower()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise
    if answer not in ("y", "yes"):
        print(refused)
        raise typer.Exit(1)


def print_json(value: Any) -> None:
    """JSON in ASCII, so that nothing in it can act on a terminal."""
    print(json.dumps(value))
