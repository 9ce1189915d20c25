"""`chatcli doctor`: runs the checks of this machine and prints what they find.

It works where the settings, MLX or the sessions folder are broken, so that they can be mended.
"""

from __future__ import annotations

import itertools
import os
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from chatcli import __version__, files
from chatcli.cli.config import effective, read_environment
from chatcli.cli.options import Configured, JsonOption, config_path, flag_of, sessions_flag
from chatcli.cli.output import print_json
from chatcli.command_line import split_sentence
from chatcli.doctor.finding import Finding
from chatcli.settings import config_file
from chatcli.settings.values import POCKET, SETTINGS, aliased
from chatcli.text import clean_line

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
    """Print each finding at once, and at the end, where it stays on the screen, what there is to do.

    Status, name and value stand in columns, and below them what to do.
    """
    from chatcli.tui.text.console import open_console

    console = open_console()
    page_columns = min(max(console.width, MIN_COLUMNS), MAX_COLUMNS) - 1
    findings: Findings = {}

    def show(text: str, style: str = "", end: str = "\n") -> None:
        console.print(text, style=style, end=end, soft_wrap=True)

    def wrapped(text: str, indent: int) -> str:
        """`text` on lines that begin at column `indent`; the first one's indent is left out."""
        columns, line = page_columns - indent, clean_line(text)
        words, command = split_sentence(line)
        # A command line is not broken, so that it can be copied.
        whole = [command] if command and len(line) > columns else []
        lines = textwrap.wrap(words if whole else line, columns, break_on_hyphens=False) + whole
        return f"\n{' ' * indent}".join(lines)

    for title, area in areas:
        show(title, "bold")
        findings[title] = []
        for finding in area:
            findings[title].append(finding)
            style = STYLES[finding.status]
            show(f"  {finding.status:<{STATUS_COLUMNS - 2}}", style, end="")
            value = wrapped(finding.value, STATUS_COLUMNS + NAME_COLUMNS)
            show(f"{finding.name:<{NAME_COLUMNS - 1}} {value}")
            if finding.advice:
                show(" " * STATUS_COLUMNS + wrapped(finding.advice, STATUS_COLUMNS), style)
    everything = list(itertools.chain(*findings.values()))
    for status in ("advice", "problem"):
        if names := [finding.name for finding in everything if finding.status == status]:
            show(wrapped(f"{status}: {', '.join(names)}", 0), STYLES[status])
    if not any(finding.status == "problem" for finding in everything):
        show("Nothing is broken.", STYLES["ok"])
    return findings
