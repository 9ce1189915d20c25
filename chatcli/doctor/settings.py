"""Checks the settings, in the file and the environment; refuses to show values, which may be private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from chatcli.doctor.finding import Finding, advice, count, ok, problem
from chatcli.settings.config_file import Remembered
from chatcli.settings.values import SETTINGS

PREFIX = "CHATCLI_"
OTHERS = ("CONFIG", "DEBUG")
MEND = "Mend it with 'chatcli config --edit'."


def file(path: Path, said: Remembered) -> Iterator[Finding]:
    """Each thing that is wrong in the file, or how much it sets."""
    for wrong in said.problems.values():
        yield problem("config file", wrong, MEND)
    for unknown in said.unknown.values():
        yield advice("config file", unknown, MEND)
    if not said.problems and not said.unknown:
        held = f"{count(len(said.values), 'setting')}, {count(len(said.models), 'name')} of models"
        there = path.exists()
        yield ok(
            "config file",
            f"{path} ({held if there else 'not there: the defaults hold'})",
            path=str(path),
            settings=sorted(said.values),
        )


def environment(variables: Mapping[str, str], problems: Sequence[str]) -> Iterator[Finding]:
    """Which variables are set for chatcli. `problems` are those whose values cannot be used."""
    known = {PREFIX + name.upper() for name in (*SETTINGS, *OTHERS)}
    found = sorted(name for name, value in variables.items() if name.startswith(PREFIX) and value)
    for wrong in problems:
        yield problem("environment", wrong, "Unset it or give it another value.")
    if strange := [name for name in found if name not in known]:
        todo = "Nothing reads that: 'chatcli config' lists what can be set."
        yield advice("environment", f"{', '.join(strange)} not known", todo, unknown=strange)
    elif not problems:
        value = ", ".join(found) or f"no {PREFIX}… is set"
        yield ok("environment", value, set=found)
