"""The checks one by one: what they make of a file system, a terminal, a disk."""

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
from chatcli.doctor import checkup, child, disk, settings
from chatcli.doctor import terminal as terminal_checks
from chatcli.doctor.child import ChildFailed
from chatcli.doctor.finding import Finding
from chatcli.settings import config_file
from tests.support.program import folder_contents

MOUNTED = [("/", "ext4"), ("/home", "xfs"), ("/home/me/far away", "nfs4"), ("/home", "btrfs")]


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    """The end of a pseudo-terminal that a program writes to."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as output:
        yield output
    os.close(master)


@pytest.fixture
def tmux(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """A `tmux` that tells these options, found before any other."""
    tool = tmp_path / "bin" / "tmux"
    tool.parent.mkdir()
    cases = "".join(f"{name}) echo {value};; " for name, value in request.param.items())
    tool.write_text(f'#!/bin/sh\ncase "$4" in {cases}esac\n')
    tool.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{tool.parent}:{before}"
    yield
    os.environ["PATH"] = before


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc", "ext4"),
        ("/home/me/sessions", "btrfs"),
        ("/home/me/far away/sessions", "nfs4"),
        ("/home/me/far away", "nfs4"),
        ("/homes", "ext4"),
    ],
)
def test_the_innermost_file_system_counts_and_the_last_mounted_there(path: str, kind: str) -> None:
    assert kind == disk.kind_at(Path(path), MOUNTED)


def test_mounts_are_read_from_both_systems() -> None:
    linux = disk.LINUX_MOUNT.fullmatch("host:/x /far\\040away nfs4 rw,vers=4.2 0 0")
    mac = disk.MAC_MOUNT.fullmatch("//me@host/share on /Volumes/my share (smbfs, nodev)")
    root = disk.MAC_MOUNT.fullmatch("/dev/disk3s1s1 on / (apfs, sealed, local, journaled)")
    assert linux and ("/far\\040away", "nfs4") == linux.groups()
    assert mac and ("/Volumes/my share", "smbfs") == mac.groups()
    assert root and ("/", "apfs") == root.groups()


def test_this_machine_tells_its_file_systems() -> None:
    assert disk.kind_at(Path("/"), disk.mounts())


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smbfs", "smb3", "fuse.sshfs", "9p", "afpfs"])
def test_network_file_systems_are_known(kind: str) -> None:
    assert disk.NETWORK.fullmatch(kind)


@pytest.mark.parametrize("kind", ["ext4", "apfs", "btrfs", "zfs", "fuseblk", "overlay", "xfs"])
def test_local_file_systems_are_not_taken_for_network_ones(kind: str) -> None:
    assert not disk.NETWORK.fullmatch(kind)


def test_speed_and_locks_leave_no_file(tmp_path: Path) -> None:
    speed, flush = disk.speed(tmp_path, 8 << 20)
    (locks,) = disk.locks(tmp_path)
    assert 0 < flush.data["flush_seconds"]
    assert "loads in about" in speed.value
    assert "ok" == locks.status
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
    with pytest.raises(ChildFailed) as failure:
        child.python(code, 1.5)
    assert reason in str(failure.value)


def test_a_child_does_not_import_from_the_folder_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('mine')")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert "[1]" == child.python("import json; print(json.dumps([1]))", 30)
    finally:
        os.chdir(before)


def test_a_tool_that_is_not_there_is_told() -> None:
    with pytest.raises(ChildFailed, match="No such file"):
        child.output(["no-such-tool-at-all"], 1)


@pytest.mark.parametrize(
    ("variables", "colours", "status"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24, "ok"),
        ({"TERM": "xterm-256color"}, 256, "ok"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, 1, "ok"),
        ({"TERM": "xterm"}, 16, "advice"),
    ],
)
def test_colours(terminal: TextIO, variables: dict[str, str], colours: int, status: str) -> None:
    (finding,) = terminal_checks.colours(variables, terminal)
    assert (colours, status) == (finding.data["colours"], finding.status)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_without_a_kind_is_advice(terminal: TextIO, term: str) -> None:
    first, _ = terminal_checks.stream({"TERM": term}, terminal)
    assert "advice" == first.status
    assert "TERM=" in first.advice


def test_text_that_is_not_utf_8_is_advice() -> None:
    latin = io.TextIOWrapper(io.BytesIO(), "latin-1")
    (finding,) = terminal_checks.characters({"LANG": "de_DE"}, latin)
    assert "advice" == finding.status
    (finding,) = terminal_checks.characters({}, io.TextIOWrapper(io.BytesIO(), "UTF-8"))
    assert "ok" == finding.status


@pytest.mark.parametrize(
    "variables", [{"TERM": "xterm-kitty"}, {"TERM_PROGRAM": "vscode"}, {"WT_SESSION": "1"}]
)
def test_terminals_that_take_osc_52(terminal: TextIO, variables: dict[str, str]) -> None:
    (finding,) = terminal_checks.clipboard(variables, terminal)
    assert "OSC 52 likely works" in finding.value


def test_an_unknown_terminal_over_ssh_is_advice(terminal: TextIO) -> None:
    (finding,) = terminal_checks.clipboard({"TERM": "xterm", "SSH_TTY": "/dev/pts/1"}, terminal)
    assert "advice" == finding.status


@pytest.mark.parametrize("tmux", [{"set-clipboard": "external", "escape-time": "500"}], indirect=True)
@pytest.mark.usefixtures("tmux")
def test_tmux_that_drops_what_is_copied_and_holds_esc_back(terminal: TextIO) -> None:
    variables = {
        "TMUX": "/tmp/tmux-0/default,1,0",
        "TERM": "tmux-256color",
        "SSH_TTY": "/dev/pts/1",
    }
    (clipboard,) = terminal_checks.clipboard(variables, terminal)
    (inside,) = terminal_checks.inside(variables)
    assert "set-clipboard on" in clipboard.advice
    assert "tmux, ssh" == inside.value
    assert "500 ms" in inside.advice


@pytest.mark.parametrize("tmux", [{"set-clipboard": "on", "escape-time": "10"}], indirect=True)
@pytest.mark.usefixtures("tmux")
def test_tmux_as_it_should_be(terminal: TextIO) -> None:
    variables = {"TMUX": "x", "KITTY_WINDOW_ID": "1"}
    (clipboard,) = terminal_checks.clipboard(variables, terminal)
    (inside,) = terminal_checks.inside(variables)
    assert ["ok", "ok"] == [clipboard.status, inside.status]


def test_the_variables_that_are_no_settings_are_known() -> None:
    given = dict.fromkeys((KEY_VARIABLE, "CHATCLI_CONFIG", DEBUG), "x")
    assert ["ok"] == [finding.status for finding in settings.environment(given, [])]
    wrong = settings.environment({**given, "CHATCLI_KEY": "x"}, [])
    assert [("advice", "CHATCLI_KEY not known")] == [(finding.status, finding.value) for finding in wrong]


def test_the_settings_file_and_its_aliases_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('temp = 1\n[models]\nfast = "org/fast"\nsmall = "org/small"\n')
    (finding,) = settings.file(path, config_file.read(path))
    assert ("ok", f"{path} (1 setting, 2 aliases)") == (finding.status, finding.value)
