"""Command lines of chatcli and pip for a person to paste, quoted for the shell."""

from __future__ import annotations

import os
import shlex
import sys

# What stands before a command line in a sentence, which ends with it.
COLON = ": "
UV_PIP = "uv pip"


def command_line(command: str, *names: str, sessions: str | None = None) -> str:
    """`chatcli COMMAND --sessions DIR NAMES…`, which any POSIX shell runs as it is printed.

    `command` is our own words, with its options; `names` are anybody's. `sessions` is the folder as a
    person gave it to `--sessions`; None where chatcli finds the folder by itself. In a sentence the
    command line stands at the end, after a colon, with nothing behind it.
    """
    words = ["chatcli", *command.split()]
    if sessions is not None and sessions.startswith("-"):
        words.append(f"--sessions={quoted(sessions)}")
    elif sessions is not None:
        words += ["--sessions", quoted(sessions)]
    if any(name.startswith("-") for name in names):
        words.append("--")
    return " ".join([*words, *map(quoted, names)])


def pip(words: str) -> str:
    """`PYTHON -m pip WORDS` for the Python that runs this. In a sentence it stands as `command_line` does.

    In an environment without pip, as `uv tool install` makes them, `uv pip WORDS` for that environment.
    """
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        return f"{quoted(sys.executable)} -m pip {words}"
    command, _, rest = words.partition(" ")
    return f"{UV_PIP} {command} --python {quoted(sys.executable)} {rest}"


def quoted(word: str) -> str:
    """One word for the shell. printf spells what no screen shows as it is: control characters, bad bytes."""
    if word.isprintable():
        return shlex.quote(word)
    spelt = "".join(
        chr(byte) if byte < 0x80 and chr(byte).isalnum() else f"\\{byte:03o}" for byte in os.fsencode(word)
    )
    return f"\"$(printf '{spelt}')\""


def split_sentence(line: str) -> tuple[str, str]:
    """A line's words and the command line that it ends with, which is empty if there is none."""
    for start in ("chatcli", UV_PIP, f"{quoted(sys.executable)} -m pip"):
        words, colon, command = line.partition(f"{COLON}{start}")
        if colon:
            return f"{words}:", f"{colon.removeprefix(COLON)}{command}"
    return line, ""
