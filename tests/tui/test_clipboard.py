"""/copy: what takes the text, and that it says so only where something has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chatcli.tui.terminal import clipboard
from tests.support.program import Program


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH; what is put there keeps what it is given in a file of its name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(folder: Path, name: str, code: int = 0) -> None:
    cat = shutil.which("cat", path=os.defpath)
    (folder / name).write_text(f"#!/bin/sh\n{cat} > {folder / name}.got\nexit {code}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("installed", "environment", "way"),
    [
        (["pbcopy", "xclip"], {"DISPLAY": ":0"}, "pbcopy"),
        (["wl-copy", "xclip"], {"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, "wl-copy"),
        (["wl-copy", "xclip"], {"DISPLAY": ":0"}, "xclip"),
        (["xsel"], {"DISPLAY": ":0"}, "xsel"),
        # A tool without its desktop fails, and over ssh it is another machine's.
        (["xclip"], {}, clipboard.TERMINAL),
        (["pbcopy"], {"SSH_TTY": "/dev/pts/1"}, clipboard.TERMINAL),
        (["tmux"], {"TMUX": "/tmp/tmux,1,0", "SSH_TTY": "/dev/pts/1"}, "tmux"),
        (["tmux", "xclip"], {"TMUX": "/tmp/tmux,1,0", "DISPLAY": ":0"}, "xclip"),
        # tmux without a command of its name is one on another machine: it drops the sequence.
        ([], {"TMUX": "/tmp/tmux,1,0"}, None),
        ([], {}, clipboard.TERMINAL),
    ],
)
def test_the_best_way_there_is_takes_the_text(
    installed: list[str], environment: dict[str, str], way: str | None, tools: Path
) -> None:
    for name in installed:
        put(tools, name)
    sent: list[str] = []
    assert way == clipboard.copy("Grüße", environment, sent.append)
    got = {path.stem: path.read_text() for path in tools.glob("*.got")}
    assert ({way: "Grüße"} if way in installed else {}) == got
    assert (["\x1b]52;c;R3LDvMOfZQ==\x07"] if way == clipboard.TERMINAL else []) == sent


def test_where_a_tool_fails_the_next_one_is_tried(tools: Path) -> None:
    put(tools, "wl-copy", code=1)
    put(tools, "xclip")
    environment = {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}
    assert "xclip" == clipboard.copy("a", environment, None)


def test_a_text_that_no_terminal_takes_is_not_called_copied(tools: Path) -> None:
    sent: list[str] = []
    assert clipboard.copy("a" * 60_000, {}, sent.append) is None
    assert clipboard.copy("a", {}, None) is None
    assert [] == sent


def test_in_tmux_its_paste_gives_the_reply(tmp_path: Path) -> None:
    tmux = shutil.which("tmux")
    if tmux is None:
        pytest.skip("tmux is not installed")

    def run(*arguments: str) -> str:
        command = [tmux, "-L", "chatcli-test", "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout

    try:
        run("new-session", "-d", "-s", "copy")
        socket = run("display-message", "-p", "-t", "copy", "#{socket_path},#{pid},0").strip()
        # As a program in that session is given it.
        script = (
            "import os, sys; sys.path.insert(0, sys.argv[1]); "
            "from chatcli.tui.terminal import clipboard; print(clipboard.copy('Hello.', os.environ))"
        )
        root = str(Path(clipboard.__file__).parents[3])
        program = subprocess.run(
            [sys.executable, "-c", script, root],
            env={"PATH": os.environ["PATH"], "TMUX": socket},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "tmux\n" == program.stdout
        assert "Hello." == run("show-buffer")
    finally:
        run("kill-server")


def test_a_script_says_where_nothing_was_copied(chatcli: Program) -> None:
    done = chatcli.run("chat", "-n", "4", stdin="Hello.\n/copy\n")
    assert "Not copied: " in done.text
