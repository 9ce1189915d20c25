"""Finds commands, options, settings and keys that a text names and the program lacks."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import typer

import chatcli.commands.handlers  # noqa: F401  (registers the slash commands)
from chatcli.cli.main import app
from chatcli.commands.registry import all_commands
from chatcli.settings.values import SETTINGS
from chatcli.tui.render.results import KEYS

# What may follow the program's name in a sentence and is not a command.
WORDS_AFTER = (
    "is keeps saves runs never restores computes does has shows asks makes works knows itself and with "
    "settles counts prints trained takes can wrote project"
)


@cache
def programs() -> dict[str, set[str]]:
    """Every command of the command line, as `cache stats`, with its options."""
    found: dict[str, set[str]] = {}

    def note(words: tuple[str, ...], command: Any) -> None:
        flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        found[" ".join(words)] = {flag for flag in flags if flag.startswith("-")}
        for name, below in getattr(command, "commands", {}).items():
            note((*words, name), below)

    note((), typer.main.get_command(app))
    return found


def unknown_names(text: str) -> list[str]:
    commands = {name for each in all_commands() for name in (each.name, *each.aliases)}
    options = {"-h", "--help"}.union(*programs().values())
    wrong = [f"/{name}" for name in re.findall(r"(?<![\w/.~-])/([a-z][a-z-]*)", text) if name not in commands]
    wrong += [flag for flag in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", text) if flag not in options]
    for first, second in re.findall(r"chatcli ([a-z]+)(?: ([a-z]+))?", text):
        below = any(name.startswith(f"{first} ") for name in programs())
        whole = f"{first} {second}" if below and second else first
        if first not in WORDS_AFTER.split() and whole not in programs():
            wrong.append(f"chatcli {whole}")
    for name in re.findall(r"(?:/set|chatcli config(?: --unset)?) ([a-z_]+)", text):
        if name not in SETTINGS and name not in ("models", *WORDS_AFTER.split()):
            wrong.append(f"setting {name}")
    keys = " ".join(keys for keys, _ in KEYS)
    return wrong + [key for key in re.findall(r"(?:Ctrl|Alt)-\w+", text) if key not in keys]
