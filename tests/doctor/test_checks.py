"""The checks one by one: what they report about file systems, terminals and disks."""

from __future__ import annotations

import io
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from chatcli.cli.process import DEBUG
from chatcli.cli.serve import KEY_VARIABLE
from chatcli.doctor import checkup, disk, installed
from chatcli.doctor.finding import Finding
from chatcli.settings import config_file
from tests.support.program import folder_contents


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    """The end of a pseudo-terminal that a program writes to."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as output:
        yield output
    os.close(master)


def test_locks_leave_no_file(tmp_path: Path) -> None:
    assert "ok" == disk.locks(tmp_path).status
    assert {} == folder_contents(tmp_path)


def test_what_a_check_stumbles_over_is_a_finding() -> None:
    def check() -> Iterator[Finding]:
        yield Finding("first", "ok", "1")
        raise OSError(5, "Input/output error")

    first, second = checkup.run("disk", check)
    assert ("first", "ok") == (first.name, first.status)
    assert ("disk", "problem") == (second.name, second.status)
    assert "Input/output error" in second.value


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed (SIGSEGV)"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os._exit(0)", "without an answer"),
        ("import time; time.sleep(60)", "no answer"),
        ("print('x' * 9); 1 / 0", "ZeroDivisionError"),
    ],
)
def test_how_a_child_ended_is_told(code: str, reason: str) -> None:
    with pytest.raises(installed.ChildFailed) as failure:
        installed.run_python(code, 1.5)
    assert reason in str(failure.value)


def test_a_child_does_not_import_from_the_folder_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('mine')")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert "[1]" == installed.run_python("import json; print(json.dumps([1]))", 30)
    finally:
        os.chdir(before)


def terminal_findings(stream: TextIO, **variables: str) -> dict[str, Finding]:
    return {finding.name: finding for finding in checkup.terminal(variables, stream)}


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_without_a_kind_is_advice(terminal: TextIO, term: str) -> None:
    finding = terminal_findings(terminal, TERM=term)["output"]
    assert "advice" == finding.status
    assert "TERM=" in finding.advice


def test_text_that_is_not_utf_8_is_advice() -> None:
    latin = io.TextIOWrapper(io.BytesIO(), "latin-1")
    assert "advice" == terminal_findings(latin, LANG="de_DE")["characters"].status
    utf_8 = io.TextIOWrapper(io.BytesIO(), "UTF-8")
    assert "ok" == terminal_findings(utf_8)["characters"].status


def machine(tmp_path: Path, config: str = "", **environment: str) -> checkup.Machine:
    path = tmp_path / "config.toml"
    path.write_text(config)
    remembered = config_file.read(path)
    return checkup.Machine(tmp_path, None, "pocket", path, remembered, [], environment, io.StringIO())


def test_the_variables_that_are_no_settings_are_known(tmp_path: Path) -> None:
    given = dict.fromkeys((KEY_VARIABLE, "CHATCLI_CONFIG", DEBUG), "x")
    assert ["ok"] == [finding.status for finding in checkup.settings(machine(tmp_path, **given))]
    wrong = checkup.settings(machine(tmp_path, **given, CHATCLI_KEY="x"))
    assert [("advice", "CHATCLI_KEY not known")] == [(finding.status, finding.value) for finding in wrong]


@pytest.mark.parametrize(
    ("name", "status", "value"),
    [
        ("pocket", "ok", "pocket"),
        ("./nowhere", "problem", "There is no model folder './nowhere'"),
        ("org/never-downloaded", "ok", "which the first chat downloads"),
    ],
)
def test_the_model_that_is_set_is_looked_for(name: str, status: str, value: str) -> None:
    (finding,) = checkup.model(name, True)
    assert status == finding.status
    assert value in finding.value
    assert (status == "problem") == bool(finding.advice)
