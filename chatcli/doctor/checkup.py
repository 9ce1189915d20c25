"""Runs every check of a machine and its sessions folder, area by area.

An error in a check becomes a finding, and the others go on. MLX is never imported here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
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
# What a check may raise on a broken machine.
CHECK_ERRORS = (OSError, ValueError, ImportError, RuntimeError, subprocess.SubprocessError, ChatcliError)
MAX_REASON_CHARACTERS = 300

Check = Callable[[], Iterable[Finding]]


@dataclass(frozen=True)
class Machine:
    """What is checked. `limit_bytes` is the most that checkpoints may take (None: as the disk allows).

    `environment_problems` are sentences about what the environment sets. `quick` measures with less and
    parses no transcript. `sessions_flag` is what `--sessions` must say to mean `sessions`, None if nothing.
    """

    sessions: Path
    limit_bytes: int | None
    config_path: Path
    remembered: Remembered
    environment_problems: Sequence[str]
    environment: Mapping[str, str]
    output: TextIO
    quick: bool = False
    sessions_flag: str | None = None


def areas(machine: Machine) -> Iterator[tuple[str, Iterator[Finding]]]:
    """Each area's title and its findings. A check runs when its first finding is asked for."""
    for title, checks_of in AREAS.items():
        try:
            checks = checks_of(machine)
        except CHECK_ERRORS as error:
            yield title, iter([_failed(title, error)])
        else:
            if checks:
                yield title, chain.from_iterable(run(name, check) for name, check in checks.items())


def run(name: str, check: Check) -> Iterator[Finding]:
    """The check's findings; an error in it is one too."""
    try:
        yield from check()
    except CHECK_ERRORS as error:
        yield _failed(name, error)


def _failed(name: str, error: Exception) -> Finding:
    reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return problem(name, f"could not be checked: {shorten(reason, MAX_REASON_CHARACTERS)}")


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
    """Without the checks that write a file where no file can be written, which is a finding already."""
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
    """None for a folder that cannot be read. Raises `ImportError`, as where numpy is broken."""
    from chatcli.doctor import store
    from chatcli.store.sessions.folder import SessionFolder

    folder = SessionFolder(machine.sessions, machine.sessions_flag)
    if not disk.readable(folder.folder):
        return {}
    return {
        "sessions": partial(store.sessions, folder, not machine.quick),
        "checkpoints": partial(store.checkpoints, folder.folder, machine.limit_bytes),
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
        "config file": partial(settings.file, machine.config_path, machine.remembered),
        "environment": partial(settings.environment, machine.environment, machine.environment_problems),
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
