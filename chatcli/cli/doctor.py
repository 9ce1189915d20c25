"""`chatcli doctor`: runs the checks of this machine and prints what they find.

It works where the settings, MLX or the sessions folder are broken, so that they can be mended.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chatcli import __version__, files
from chatcli.cli.config import effective, read_environment
from chatcli.cli.options import Configured, JsonOption, config_path, flag_of, sessions_flag
from chatcli.cli.output import print_json
from chatcli.command_line import split_sentence
from chatcli.doctor.finding import Finding, Status
from chatcli.settings import config_file
from chatcli.settings.values import POCKET, SETTINGS, aliased
from chatcli.text import clean_line

if TYPE_CHECKING:
    from chatcli.tui.render.screen import Screen

# Findings by the title of their area.
Findings = dict[str, list[Finding]]

STYLES = {"ok": "green", "advice": "yellow", "problem": "bold red"}
# Columns: of a finding's status with the blanks around it, of its name, and of the whole page.
STATUS_COLUMNS, NAME_COLUMNS = 11, 14
MIN_COLUMNS, MAX_COLUMNS = 40, 100


def command(
    quick: Annotated[
        bool, typer.Option("--quick", help="Import no mlx-lm, and parse no transcript.")
    ] = False,
    # A folder that cannot be read is a finding here, not a usage error.
    sessions: Annotated[Path | None, flag_of("sessions", readable=False)] = None,
    as_json: JsonOption = False,
) -> None:
    """Check MLX, the disk, the model, the terminal and your sessions."""
    from chatcli.doctor import checkup

    path = config_path()
    remembered = config_file.read(path)
    environment, environment_problems = read_environment()
    configured = Configured(environment, remembered)
    limit = configured.find("cache_limit")[0]
    machine = checkup.Machine(
        files.from_home(str(effective("sessions", configured, sessions).value)),
        None if limit is None else SETTINGS["cache_limit"].load(limit),
        aliased(str(configured.find("model")[0] or POCKET), remembered.models),
        path,
        remembered,
        environment_problems,
        os.environ,
        sys.stdout,
        quick,
        sessions_flag(sessions),
    )
    if as_json:
        findings = {title: list(area) for title, area in checkup.areas(machine)}
    else:
        findings = print_findings(checkup.areas(machine))
    problems = sum(finding.status == "problem" for area in findings.values() for finding in area)
    if as_json:
        rows = [{"area": title, **vars(finding)} for title, area in findings.items() for finding in area]
        print_json({"chatcli": __version__, "problems": problems, "findings": rows})
    if problems:
        raise typer.Exit(1)


def print_findings(areas: Iterable[tuple[str, Iterable[Finding]]]) -> Findings:
    """Print each finding as soon as it is there, and last, still on the screen, what there is to do."""
    from chatcli.tui.render.screen import Screen

    page = Page(Screen())
    findings: Findings = {}
    for title, area in areas:
        page.title(title)
        findings[title] = []
        for finding in area:
            findings[title].append(finding)
            page.finding(finding)
    page.summary([finding for area in findings.values() for finding in area])
    return findings


class Page:
    """Lines as wide as the screen: status, name and value in columns, and below them what to do."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._columns = min(max(screen.console.width, MIN_COLUMNS), MAX_COLUMNS) - 1

    def title(self, title: str) -> None:
        self._print(title, "bold")

    def finding(self, finding: Finding) -> None:
        style = STYLES[finding.status]
        self._print(f"  {finding.status:<{STATUS_COLUMNS - 2}}", style, end="")
        value = self._wrapped(finding.value, STATUS_COLUMNS + NAME_COLUMNS)
        self._print(f"{finding.name:<{NAME_COLUMNS - 1}} {value}")
        if finding.advice:
            self._print(" " * STATUS_COLUMNS + self._wrapped(finding.advice, STATUS_COLUMNS), style)

    def summary(self, findings: Sequence[Finding]) -> None:
        names: dict[Status, list[str]] = {"ok": [], "advice": [], "problem": []}
        for finding in findings:
            names[finding.status].append(finding.name)
        if names["advice"]:
            self._print(self._wrapped(f"advice: {', '.join(names['advice'])}", 0), STYLES["advice"])
        if names["problem"]:
            self._print(self._wrapped(f"problem: {', '.join(names['problem'])}", 0), STYLES["problem"])
        else:
            self._print("Nothing is broken.", STYLES["ok"])

    def _wrapped(self, text: str, indent: int) -> str:
        """`text` on lines that begin at column `indent`; the first one's indent is left out."""
        columns, line = self._columns - indent, clean_line(text)
        words, command = split_sentence(line)
        if command and len(line) > columns:
            # A command line is not broken, so that it can be copied.
            lines = [*textwrap.wrap(words, columns, break_on_hyphens=False), command]
        else:
            lines = textwrap.wrap(line, columns, break_on_hyphens=False)
        return f"\n{' ' * indent}".join(lines)

    def _print(self, text: str, style: str = "", end: str = "\n") -> None:
        self._screen.console.print(text, style=style, end=end, markup=False, emoji=False, soft_wrap=True)
