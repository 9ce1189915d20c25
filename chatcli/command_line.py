"""Command lines of chatcli and pip for people to paste, quoted for the shell."""

from __future__ import annotations

import os
import shlex
import sys

# Separates a sentence's words from the command line at its end.
COLON = ": "
UV_PIP = "uv pip"


def command_line(command: str, *names: str, sessions: str | None = None) -> str:
    """`chatcli COMMAND --sessions DIR NAMES…`, quoted for any POSIX shell.

    `command` is trusted text with its options; `names` are arbitrary. `sessions` is the value that the person
    gave to `--sessions`, or None if chatcli finds the folder by itself. In a sentence, put the command line
    at the end, after a colon.
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
    """`PYTHON -m pip WORDS` for the running Python. In a sentence, put it where `command_line` goes.

    In an environment without pip, such as those of `uv tool install`, it is `uv pip WORDS` instead.
    """
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        return f"{quoted(sys.executable)} -m pip {words}"
    command, _, rest = words.partition(" ")
    return f"{UV_PIP} {command} --python {quoted(sys.executable)} {rest}"


def quoted(word: str) -> str:
    """One word quoted for the shell. Unprintable characters are spelled with printf."""
    if word.isprintable():
        return shlex.quote(word)
    spelled = "".join(
        chr(byte) if byte < 0x80 and chr(byte).isalnum() else f"\\{byte:03o}" for byte in os.fsencode(word)
    )
    return f"\"$(printf '{spelled}')\""


def split_sentence(line: str) -> tuple[str, str]:
    """Split a line into its words and the command line at its end, which may be empty."""
    for start in ("chatcli", UV_PIP, f"{quoted(sys.executable)} -m pip"):
        words, colon, command = line.partition(f"{COLON}{start}")
        if colon:
            return f"{words}:", f"{colon.removeprefix(COLON)}{command}"
    return line, ""
