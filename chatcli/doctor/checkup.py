"""Runs every check of a machine, its settings and its sessions folder, area by area.

An error in a check becomes a finding, and the other checks continue. MLX is never imported here.
"""

from __future__ import annotations

import codecs
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from chatcli.doctor import installed
from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.errors import ChatcliError
from chatcli.settings.config_file import Remembered
from chatcli.settings.values import POCKET, SETTINGS
from chatcli.text import shorten
from chatcli.tui.terminal import clipboard

# The errors that a check may raise on a broken machine.
CHECK_ERRORS = (OSError, ValueError, ImportError, RuntimeError, subprocess.SubprocessError, ChatcliError)
PREFIX, NO_SETTINGS = "CHATCLI_", ("API_KEY", "CONFIG", "DEBUG")
MIN_COLUMNS, MIN_LINES = 60, 15
MEND = "Fix it with: chatcli config --edit"


@dataclass(frozen=True)
class Machine:
    """What to check. `limit_bytes` is the most that checkpoints may take (None: as the disk allows).

    `environment_problems` are sentences about environment variables. With `quick`, mlx-lm is not imported and
    transcripts are not parsed. `sessions_flag` is the value of `--sessions` that commands need for this
    folder, if any.
    """

    sessions: Path
    limit_bytes: int | None
    model: str
    config_path: Path
    remembered: Remembered
    environment_problems: Sequence[str]
    environment: Mapping[str, str]
    output: TextIO
    quick: bool = False
    sessions_flag: str | None = None


def areas(machine: Machine) -> Iterator[tuple[str, Iterator[Finding]]]:
    """Each area's title and findings. A check runs when its first finding is requested."""
    checks: dict[str, list[Callable[[], Iterable[Finding]]]] = {
        "versions": [installed.versions],
        "mlx": [installed.mlx, *(() if machine.quick else (installed.mlx_lm,))],
        "sessions": [lambda: saved(machine)],
        "model": [lambda: model(machine.model, machine.quick)],
        "terminal": [lambda: terminal(machine.environment, machine.output)],
        "settings": [lambda: settings(machine)],
    }
    for title, of_area in checks.items():
        yield title, (finding for check in of_area for finding in run(title, check))


def run(name: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The check's findings, including one for an error in it."""
    try:
        yield from check()
    except CHECK_ERRORS as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        yield problem(name, f"could not be checked: {shorten(reason, installed.MAX_REASON_CHARACTERS)}")


def saved(machine: Machine) -> Iterator[Finding]:
    """The folder, and its contents if it can be read. Raises `ImportError` with a broken NumPy."""
    from chatcli.doctor import disk
    from chatcli.store.sessions.folder import SessionFolder

    findings = list(disk.folder(machine.sessions))
    yield from findings
    if findings[-1].name == "file locks":
        folder = SessionFolder(machine.sessions, machine.sessions_flag)
        yield from disk.sessions(folder, not machine.quick)
        yield from disk.checkpoints(folder, machine.limit_bytes)


def model(name: str, quick: bool) -> Iterator[Finding]:
    """Whether the configured model is here and, unless `quick`, what is adapted for its chat template."""
    from chatcli.errors import ModelNotFound
    from chatcli.model import hub, locate

    try:
        locate.check(name)
        is_here = name == POCKET or Path(name).expanduser().is_dir() or hub.find_cached(name) is not None
    except ModelNotFound as error:
        yield problem("model", str(error), "To choose another: chatcli config model NAME")
    else:
        yield ok("model", name if is_here else f"{name}, which the first chat downloads", is_here=is_here)
        if is_here and not quick:
            yield from installed.chat_template(locate.resolve(name))


def settings(machine: Machine) -> Iterator[Finding]:
    """Problems in the config file and the environment. Values are not shown, because they may be private."""
    for sentence in machine.remembered.problems.values():
        yield problem("config file", sentence, MEND)
    for sentence in machine.remembered.unknown.values():
        yield advice("config file", sentence, MEND)
    for sentence in machine.environment_problems:
        yield problem("environment", sentence, "Unset it or give it another value.")
    known = {PREFIX + name.upper() for name in (*SETTINGS, *NO_SETTINGS)}
    names = sorted(name for name, value in machine.environment.items() if name.startswith(PREFIX) and value)
    if unknown := [name for name in names if name not in known]:
        todo = "It has no effect. To list the settings: chatcli config"
        yield advice("environment", f"{', '.join(unknown)} not known", todo)
    else:
        yield ok("settings", ", ".join([str(machine.config_path), *names]))


def terminal(environment: Mapping[str, str], stream: TextIO) -> Iterator[Finding]:
    """The kind of terminal, its size, the encoding, and whether /copy reaches a clipboard."""
    term = environment.get("TERM", "")
    if not stream.isatty():
        yield ok("output", "not a terminal: replies are plain text there")
    elif term in ("", "dumb"):
        todo = "Conversations run line by line; for the full screen: export TERM=xterm-256color."
        yield advice("output", f"a terminal, TERM={term or '(not set)'}", todo)
    else:
        yield ok("output", f"a terminal, TERM={term}")
    if stream.isatty():
        columns, lines = os.get_terminal_size(stream.fileno())
        value = f"{columns} columns, {lines} lines"
        if columns < MIN_COLUMNS or lines < MIN_LINES:
            todo = f"Make the window larger: lists need {MIN_COLUMNS} columns and {MIN_LINES} lines."
            yield advice("size", value, todo)
        else:
            yield ok("size", value)
    encoding = stream.encoding or "ascii"
    is_utf_8 = codecs.lookup(encoding).name == "utf-8"
    todo = "Symbols and other scripts become question marks; to see them: export LC_ALL=C.UTF-8."
    yield ok("characters", encoding) if is_utf_8 else advice("characters", encoding, todo)
    tool = next((tool[0] for tool in clipboard.tools(environment)), "the terminal, where it takes OSC 52")
    yield ok("clipboard", f"by {tool}", tool=tool)
