"""Looks at a machine and its sessions folder, area by area; refuses to print and to end the process.

A check that meets something broken becomes a finding, and the others go on. MLX is never imported here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from chatcli.doctor import (
    disk,
    memory,
    mlx,
    models,
    settings,
    terminal,
    versions,
)
from chatcli.doctor.finding import Finding, problem
from chatcli.errors import ChatcliError
from chatcli.settings.config_file import Remembered
from chatcli.text import shorten

MIB = 1 << 20
# What a check may meet on a broken machine, beside what it expects.
FOREIGN = (OSError, ValueError, ImportError, RuntimeError, subprocess.SubprocessError, ChatcliError)
LONGEST = 300

Check = Callable[[], Iterable[Finding]]


@dataclass(frozen=True)
class Machine:
    """What the command line knows: the folder, its limit (bytes; None: as the disk allows), settings.

    `wrong` are sentences about the environment. `quick` measures with less and parses no transcript.
    """

    sessions: Path
    limit: int | None
    settings: Path
    said: Remembered
    wrong: Sequence[str]
    environment: Mapping[str, str]
    output: TextIO
    quick: bool = False


def areas(machine: Machine) -> Iterator[tuple[str, Iterator[Finding]]]:
    """Each area's title and its findings, which are looked for as they are asked for."""
    for title, checks_of in AREAS.items():
        if checks := _checks(title, checks_of, machine):
            yield title, _findings(checks)


def _checks(title: str, checks_of: Checks, machine: Machine) -> Mapping[str, Check]:
    try:
        return checks_of(machine)
    except FOREIGN as error:
        return {title: partial(list, [_stumbled(title, error)])}


def _findings(checks: Mapping[str, Check]) -> Iterator[Finding]:
    for name, check in checks.items():
        yield from look(name, check)


def look(name: str, check: Check) -> Iterator[Finding]:
    """What a check finds; what it stumbles over is a finding too."""
    try:
        yield from check()
    except FOREIGN as error:
        yield _stumbled(name, error)


def _stumbled(name: str, error: Exception) -> Finding:
    reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return problem(name, f"cannot be told: {shorten(reason, LONGEST)}")


def _versions(_: Machine) -> dict[str, Check]:
    return {
        "Python": versions.python,
        "mlx": versions.mlx,
        "libraries": versions.libraries,
    }


def _mlx(machine: Machine) -> dict[str, Check]:
    checks: dict[str, Check] = {"device": mlx.works, "memory": memory.system}
    return checks if machine.quick else checks | {"mlx-lm": mlx.mlx_lm}


def _disk(machine: Machine) -> dict[str, Check]:
    """What needs a folder to write in is left out where that is already found to be wrong."""
    folder, size = machine.sessions, (8 if machine.quick else 64) * MIB
    checks: dict[str, Check] = {
        "folder": partial(disk.folder, folder),
        "disk": partial(disk.room, folder),
        "file system": partial(disk.file_system, folder),
    }
    if disk.usable(folder):
        checks["file locks"] = partial(disk.locks, folder)
        checks["speed"] = partial(disk.speed, folder, size)
    return checks


def _store(machine: Machine) -> dict[str, Check]:
    """None for a folder that cannot be read. Raises `ImportError`: numpy may be what is broken."""
    from chatcli.doctor import store

    folder = machine.sessions
    if not disk.readable(folder):
        return {}
    return {
        "sessions": partial(store.sessions, folder, not machine.quick),
        "checkpoints": partial(store.checkpoints, folder, machine.limit),
        "headers": partial(store.headers, folder),
        "leftovers": partial(store.leftovers, folder),
    }


def _models(machine: Machine) -> dict[str, Check]:
    return {
        "models": models.cache,
        "token": partial(models.token, machine.environment),
        "offline": models.offline,
    }


def _terminal(machine: Machine) -> dict[str, Check]:
    variables, output = machine.environment, machine.output
    return {
        "output": partial(terminal.stream, variables, output),
        "colours": partial(terminal.colours, variables, output),
        "characters": partial(terminal.characters, variables, output),
        "inside": partial(terminal.inside, variables),
        "clipboard": partial(terminal.clipboard, variables, output),
    }


def _settings(machine: Machine) -> dict[str, Check]:
    return {
        "config file": partial(settings.file, machine.settings, machine.said),
        "environment": partial(settings.environment, machine.environment, machine.wrong),
    }


Checks = Callable[[Machine], Mapping[str, Check]]
AREAS: dict[str, Checks] = {
    "versions": _versions,
    "mlx and memory": _mlx,
    "sessions folder": _disk,
    "conversations": _store,
    "models": _models,
    "terminal": _terminal,
    "settings": _settings,
}
