"""Checks the settings, in the config file and the environment. Values are not shown: they may be private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.settings.config_file import Remembered
from chatcli.settings.values import RENAMED, SETTINGS
from chatcli.text import count

PREFIX = "CHATCLI_"
OTHERS = ("API_KEY", "CONFIG", "DEBUG")
MEND = "Fix it with: chatcli config --edit"


def file(path: Path, remembered: Remembered) -> Iterator[Finding]:
    """Each problem of the file, or how much it sets."""
    for sentence in remembered.problems.values():
        yield problem("config file", sentence, MEND)
    for sentence in remembered.unknown.values():
        yield advice("config file", sentence, MEND)
    if not remembered.problems and not remembered.unknown:
        number, aliases = len(remembered.values), len(remembered.models)
        contents = f"{count('setting', number)}, {count('alias', aliases, 'aliases')}"
        yield ok(
            "config file",
            f"{path} ({contents if path.exists() else 'not there: the defaults apply'})",
            path=str(path),
            settings=sorted(remembered.values),
        )


def environment(variables: Mapping[str, str], problems: Sequence[str]) -> Iterator[Finding]:
    """Which variables are set for chatcli. `problems` are sentences about unusable values."""
    known = {PREFIX + name.upper() for name in (*SETTINGS, *RENAMED, *OTHERS)}
    names = sorted(name for name, value in variables.items() if name.startswith(PREFIX) and value)
    for sentence in problems:
        yield problem("environment", sentence, "Unset it or give it another value.")
    if unknown := [name for name in names if name not in known]:
        todo = "It has no effect. To list the settings: chatcli config"
        yield advice("environment", f"{', '.join(unknown)} not known", todo, unknown=unknown)
    elif not problems:
        value = ", ".join(names) or f"no {PREFIX}… is set"
        yield ok("environment", value, set=names)
