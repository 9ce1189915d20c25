"""The shell in a pseudo-terminal: send messages, run commands, wait until it is ready."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.program import Program
from tests.support.terminal import (
    BRACKETED_PASTE,
    CTRL_D,
    CURSOR_SHOWN,
    MOUSE,
    Terminal,
)
from tests.support.tiny import SPECIAL

# In the numbers below a reply.
PANEL = r"[\d.]+ % reused\b"
# In the toolbar while a reply comes.
BUSY = "Esc stops"
# Thinking is closed after two tokens, and the mark that closes it is not said again, as text.
CLOSED_ONCE = ("--think-budget", "2", "--logit-bias", f"{SPECIAL.index('</think>')}:-1000")


def open_shell(program: Program, *args: object, **environment: str) -> Terminal:
    """`chatcli` with these arguments in a terminal of its own."""
    command = [sys.executable, "-m", "chatcli", *map(str, args)]
    return Terminal(command, program.environment(**environment), program.home)


def ready(terminal: Terminal) -> bool:
    """Whether the shell waits for a line, and nothing runs."""
    text = terminal.text()
    prompt = re.search(r"^›", text, re.MULTILINE)
    return bool(BRACKETED_PASTE in terminal.screen.mode and prompt and BUSY not in text)


def send_message(terminal: Terminal, message: str) -> None:
    """Send a message, or a command that streams a reply, and wait for its panel."""
    terminal.wait_for(lambda: ready(terminal))
    panels = terminal.count(PANEL)
    terminal.line(message)
    terminal.wait_for(lambda: terminal.count(PANEL) > panels)
    terminal.wait_for(lambda: ready(terminal))


@contextmanager
def speaking(models: Path, folder: Path, tokens: int, *options: str) -> Iterator[tuple[Program, Terminal]]:
    """The shell, ready, with a model whose replies go on for so many tokens."""
    program = Program(folder, models / "speaker")
    args = ("-m", program.model, "-S", "talk", "-n", str(tokens), "--temp", "1", "--seed", "2", *CLOSED_ONCE)
    with open_shell(program, "chat", *args, *options) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        yield program, terminal


def wait_for_some_reply(terminal: Terminal) -> None:
    """Wait until some of what the speaker says is on the screen: indented lines below the message."""
    terminal.wait_for(lambda: terminal.count(r"(?m)^  (┊ )?\S*[abc]{3}") > 2)


def run_command(terminal: Terminal, line: str, answer: str) -> None:
    """Run a slash command and wait for a new `answer` on the screen."""
    terminal.wait_for(lambda: ready(terminal))
    seen = terminal.count(re.escape(answer)) + line.count(answer)
    terminal.line(line)
    terminal.wait_for(lambda: terminal.count(re.escape(answer)) > seen)
    terminal.wait_for(lambda: ready(terminal))


def pick(terminal: Terminal, line: str, row: str, keys: str) -> None:
    """Run a command that takes the whole screen, wait for a row there, and press keys."""
    terminal.wait_for(lambda: ready(terminal))
    terminal.line(line)
    terminal.wait_for(lambda: row in terminal.text() and "Enter go there" in terminal.text())
    terminal.send(keys)
    terminal.wait_for(lambda: "Enter go there" not in terminal.text() and ready(terminal))


def check_terminal_restored(terminal: Terminal) -> None:
    assert terminal.modes_before == terminal.modes_now
    assert CURSOR_SHOWN in terminal.screen.mode
    assert BRACKETED_PASTE not in terminal.screen.mode
    assert MOUSE not in terminal.screen.mode
    assert "default" == terminal.screen.cursor.attrs.fg
    assert 0 == terminal.screen.cursor.x  # the shell's own prompt begins on a line of its own


def leave(terminal: Terminal) -> None:
    terminal.send(CTRL_D)
    assert 0 == terminal.wait_for_exit()
    assert "Traceback" not in terminal.all_text()


def turns_of(program: Program, name: str) -> list[dict[str, Any]]:
    return list(program.run("show", name, "--json").json()["turns"])
