"""What chatcli can be told: its commands, options, settings and keys, with the help they carry.

    python -m training.pocket.program > training/pocket/program.json

Run it before training: a machine that trains has torch and not all that chatcli imports, so the generators
read the file. A test fails when something that it lists no longer exists.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "program.json"


# What may follow the program's name, or that of a command, in a sentence and is no name itself.
WORDS_AFTER = (
    "is keeps saves runs never restores computes does has shows asks makes works knows itself and with "
    "settles counts prints trained takes can wrote project"
).split()


def live() -> dict[str, Any]:
    """As the program declares it."""
    import typer

    from chatcli.cli.main import app
    from chatcli.commands import handlers, registry
    from chatcli.settings.values import IN_SHELL, SETTINGS
    from chatcli.tui.render.results import KEYS

    assert handlers
    root: Any = typer.main.get_command(app)
    programs: dict[str, Any] = {}

    def note(words: tuple[str, ...], command: Any) -> None:
        flags = [flag for option in command.params for flag in (*option.opts, *option.secondary_opts)]
        programs[" ".join(words)] = {
            "help": plain(command.help or ""),
            "options": sorted(flag for flag in flags if flag.startswith("-")),
            "arguments": [each.metavar or each.name.upper() for each in command.params if _positional(each)],
        }
        for name, below in getattr(command, "commands", {}).items():
            if not below.hidden:
                note((*words, name), below)

    note((), root)
    return {
        "commands": {
            each.name: {"usage": each.usage, "details": plain(each.details), "aliases": list(each.aliases)}
            for each in registry.all_commands()
        },
        "programs": programs,
        "settings": {
            name: {"help": plain(each.help), "in_shell": name in IN_SHELL} for name, each in SETTINGS.items()
        },
        "keys": {keys: help_ for keys, help_ in KEYS},
    }


def plain(text: str) -> str:
    """A help text in one line."""
    return re.sub(r"\s+", " ", text.replace("\f", " ")).strip()


def _positional(parameter: Any) -> bool:
    return parameter.param_type_name == "argument" and not parameter.hidden


@cache
def known() -> dict[str, Any]:
    """As the file has it."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def unknown_names(answer: str, program: dict[str, Any]) -> list[str]:
    """The commands, options, settings and keys that an answer names and `program` lacks."""
    commands = {*program["commands"]} | {a for each in program["commands"].values() for a in each["aliases"]}
    programs, settings = program["programs"], program["settings"]
    options = {"-h", "--help"} | {flag for each in programs.values() for flag in each["options"]}
    wrong = [f"/{n}" for n in re.findall(r"(?<![\w/.~-])/([a-z][a-z-]*)", answer) if n not in commands]
    wrong += [f for f in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", answer) if f not in options]
    for first, second in re.findall(r"chatcli ([a-z]+)(?: ([a-z]+))?", answer):
        if first in WORDS_AFTER:
            continue
        below = any(name.startswith(f"{first} ") for name in programs)
        if first not in programs or (below and second and f"{first} {second}" not in programs):
            wrong.append(f"chatcli {first} {second}".strip())
    for name in re.findall(r"(?:/set|chatcli config(?: --unset)?) ([a-z_]+)", answer):
        if name not in settings and name not in ("models", *WORDS_AFTER):
            wrong.append(f"setting {name}")
    keys = " ".join(program["keys"])
    wrong += [key for key in re.findall(r"(?:Ctrl|Alt)-\w+", answer) if key not in keys]
    return wrong


if __name__ == "__main__":
    print(json.dumps(live(), indent=1, ensure_ascii=False))
