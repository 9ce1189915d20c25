"""`chatcli doctor`: prints what the checks of this machine find; refuses to know how they look.

It works where the settings, MLX or the sessions folder are broken, so that they can be mended.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chatcli import __version__, files
from chatcli.cli.config import effective, read_environment
from chatcli.cli.options import Configured, JsonOption, config_path
from chatcli.cli.output import print_json
from chatcli.doctor.finding import Finding, Status
from chatcli.settings import config_file
from chatcli.settings.values import SETTINGS
from chatcli.text import clean_line

if TYPE_CHECKING:
    from chatcli.doctor.checkup import Machine
    from chatcli.tui.render.screen import Screen

Found = dict[str, list[Finding]]

STYLES = {"ok": "green", "advice": "yellow", "problem": "bold red"}
# Columns of a finding's status, with the blanks around it, and of its name.
MARK, NAME = 11, 14
LEAST, MOST = 40, 100


def command(
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure with less, and parse no transcript.")
    ] = False,
    # A folder that cannot be read is no wrong usage here: it is found.
    sessions: Annotated[
        Path | None,
        typer.Option("--sessions", metavar="DIR", readable=False, help="The folder of sessions."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check this machine, MLX, the disk, the terminal and the saved conversations."""
    this = machine(quick, sessions)
    found = collected(this) if as_json else printed(this)
    problems = sum(one.status == "problem" for findings in found.values() for one in findings)
    if as_json:
        print_json(as_object(found, problems))
    if problems:
        raise typer.Exit(1)


def machine(quick: bool, sessions: Path | None) -> Machine:
    """What the command line, the environment and the file say, as far as they can be used."""
    from chatcli.doctor.checkup import Machine

    path = config_path()
    remembered = config_file.read(path)
    environment, problems = read_environment()
    configured = Configured(environment, remembered)
    folder = files.from_home(str(effective("sessions", configured, sessions).value))
    limit = configured.find("cache_limit")[0]
    size = None if limit is None else SETTINGS["cache_limit"].load(limit)
    return Machine(folder, size, path, remembered, problems, os.environ, sys.stdout, quick)


def collected(this: Machine) -> Found:
    from chatcli.doctor import checkup

    return {title: list(findings) for title, findings in checkup.areas(this)}


def as_object(found: Found, problems: int) -> dict[str, Any]:
    """All of it for a program."""
    told = [{"area": title, **vars(one)} for title, findings in found.items() for one in findings]
    return {"chatcli": __version__, "problems": problems, "findings": told}


def printed(this: Machine) -> Found:
    """Print each finding as soon as it is there, and at the end what is to be done."""
    from chatcli.doctor import checkup
    from chatcli.tui.render.screen import Screen

    page = Page(Screen())
    found: Found = {}
    for title, findings in checkup.areas(this):
        page.title(title)
        found[title] = []
        for one in findings:
            found[title].append(one)
            page.finding(one)
    page.summary([one for findings in found.values() for one in findings])
    return found


class Page:
    """Lines as wide as the screen: status, name and value in columns, what to do below."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._width = min(max(screen.console.width, LEAST), MOST) - 1

    def title(self, title: str) -> None:
        self._say(title, "bold")

    def finding(self, one: Finding) -> None:
        self._say(f"  {one.status:<{MARK - 2}}", STYLES[one.status], end="")
        self._say(f"{one.name:<{NAME - 1}} {self._wrapped(one.value, MARK + NAME)}")
        if one.advice:
            self._say(" " * MARK + self._wrapped(one.advice, MARK), STYLES[one.status])

    def summary(self, findings: Sequence[Finding]) -> None:
        """What there is to be done, last, where it is still on the screen."""
        hints, problems = (_named(findings, status) for status in ("advice", "problem"))
        if hints:
            self._say(self._wrapped(f"advice: {hints}", 0), STYLES["advice"])
        if problems:
            self._say(self._wrapped(f"problem: {problems}", 0), STYLES["problem"])
        else:
            self._say("Nothing is broken.", STYLES["ok"])

    def _wrapped(self, text: str, indent: int) -> str:
        """`text` on lines that begin at column `indent`; the first one's indent is left out."""
        lines = textwrap.wrap(clean_line(text), self._width - indent, break_on_hyphens=False)
        return f"\n{' ' * indent}".join(lines)

    def _say(self, text: str, style: str = "", end: str = "\n") -> None:
        self._screen.console.print(text, style=style, end=end, markup=False, emoji=False, soft_wrap=True)


def _named(findings: Sequence[Finding], status: Status) -> str:
    return ", ".join(one.name for one in findings if one.status == status)
