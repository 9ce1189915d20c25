"""Every command line that chatcli prints runs in a shell as printed, and does what was meant."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chatcli.command_line import command_line, pip
from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError
from chatcli.store.sessions.folder import SessionFolder
from chatcli.tui.render.screen import Screen
from chatcli.tui.text.console import Sentence, open_console
from tests import ROOT
from tests.support.program import Program
from tests.support.shell import leave, open_shell, ready
from tests.support.terminal import COLUMNS, Terminal

# Names that a session may have, and that a shell would act on.
NAMES = [
    "plain",
    "two words",
    "it's",
    'she said "hi"',
    "$(touch pwned)",
    "`touch pwned`",
    "notes;touch pwned",
    "a|touch pwned",
    "a&touch pwned",
    "a>pwned",
    "$HOME",
    "*",
    "~",
    "!!",
    "#1",
    "a=b",
    "%s%n",
    "(x) {y} [z]",
    "🍎 apple",
    "日本語",
    ": chatcli delete plain",
]
# What else may stand in a command line: any argument, and any folder's name.
WORDS = [
    *NAMES,
    "-rf",
    "--help",
    "-",
    "a/b",
    "\\",
    "tab\there",
    "line\nbreak",
    "\x1b[31mred",
    "bad\udcffbyte",
    "",
]
FOLDERS = ["my saved chats", "$(touch pwned)", "it's", "-dash", "~", "esc\x1b[2J", "bad\udcff byte"]
SHELLS = [shell for shell in ("sh", "dash", "bash", "zsh", "fish") if shutil.which(shell)]


def arguments_in(shell: str, line: str, folder: Path) -> list[str]:
    """The arguments that `chatcli` gets where this shell runs this line."""
    program = folder / "chatcli"
    program.write_text('#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done\n')
    program.chmod(0o700)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    process = subprocess.run(
        [shell, "-c", line], cwd=folder, env=environment, capture_output=True, check=True
    )
    assert [program] == list(folder.iterdir())
    return [os.fsdecode(word) for word in process.stdout.split(b"\0")][:-1]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("word", WORDS)
def test_a_name_is_one_argument_of_every_shell(tmp_path: Path, shell: str, word: str) -> None:
    guard = ["--"] * word.startswith("-")
    assert ["resume", *guard, word] == arguments_in(shell, command_line("resume", word), tmp_path)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_one_argument_and_stands_before_the_names(tmp_path: Path, folder: str) -> None:
    line = command_line("cache verify --repair", "x", sessions=folder)
    given = [f"--sessions={folder}"] if folder.startswith("-") else ["--sessions", folder]
    assert ["cache", "verify", "--repair", *given, "x"] == arguments_in("sh", line, tmp_path)
    assert line.isprintable()


def save(folder: Path, name: str) -> None:
    with SessionFolder(folder).create(name, model=None, system=None) as session:
        session.append(Message("user", f"this is {name}"), None)


def run_line(program: Program, line: str, stdin: str = "", code: int = 0) -> str:
    """What a printed command line prints where a shell runs it."""
    scripts = program.home / "bin"
    scripts.mkdir(exist_ok=True)
    script = scripts / "chatcli"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m chatcli "$@"\n')
    script.chmod(0o700)
    environment = program.environment(CHATCLI_MODEL=str(program.model))
    environment["PATH"] = f"{scripts}:{environment['PATH']}"
    process = subprocess.run(
        ["sh", "-c", line], cwd=program.home, env=environment, input=stdin, capture_output=True, text=True
    )
    assert code == process.returncode, process
    assert not list(program.home.rglob("pwned"))
    return process.stdout


def command_in(output: str) -> str:
    """The command line that ends an output, on a line of its own if there was no room."""
    return str(re.findall(r":\s(chatcli .*)\Z", output.strip())[-1])


def last_command(terminal: Terminal) -> str:
    """The command line at the screen's end, over all of its rows, as a terminal copies it."""
    rows = "".join(row.ljust(COLUMNS) for row in terminal.all_text().split("\n"))
    return rows[rows.index("chatcli resume") :].rstrip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["it's two words", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES)],
)
def test_the_hint_at_leaving_goes_on_with_that_session(chatcli: Program, name: str) -> None:
    folder = "a folder with a name that is so long that no line of the terminal holds it $(touch pwned)"
    save(chatcli.home / folder, name)
    with open_shell(chatcli, "resume", "--sessions", folder, "-m", chatcli.model, name) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
        line = last_command(terminal)
    assert f"this is {name}" in run_line(chatcli, line, "/tree\n")


def test_an_error_on_a_terminal_breaks_at_words_and_has_its_command_on_a_line(chatcli: Program) -> None:
    with open_shell(chatcli, "lst") as terminal:
        assert 2 == terminal.wait_for_exit()
        assert (
            "chatcli: There is no command 'lst'. Did you mean 'list'? To ask it as a\n"
            "question:\n"
            "chatcli ask lst\n"
        ) in terminal.text()


def test_the_command_of_the_welcome_is_in_one_piece_in_a_narrow_window(tmp_path: Path) -> None:
    output = io.StringIO()
    Screen(open_console(output, width=40)).welcome("pocket", None, 0, tmp_path)
    assert "\nchatcli -m mlx-community/Qwen3.5-4B-MLX-4bit\n" in output.getvalue()


def test_a_command_of_pip_is_in_one_piece_too() -> None:
    output = io.StringIO()
    sentence = f"Images need Pillow, which is not here. To install it: {pip('install pillow')}"
    open_console(output, width=60).print(Sentence(sentence), crop=False)
    assert output.getvalue().endswith(f"\n{sys.executable} -m pip install pillow\n")


def test_where_there_is_no_pip_the_command_is_uvs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    code = (
        "from chatcli.command_line import pip, split_sentence\n"
        "print(pip('install -U mlx-lm'), split_sentence(f'So: {pip(\"install x\")}')[0])"
    )
    done = subprocess.run(
        [python, "-c", code], env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True
    )
    assert f"uv pip install --python {python} -U mlx-lm So:\n" == done.stdout.decode()


def test_a_folder_from_the_environment_is_not_named(chatcli: Program) -> None:
    save(chatcli.sessions, "talk")
    for args in ((), ("--sessions", chatcli.sessions)):
        with open_shell(chatcli, "resume", "talk", "-m", chatcli.model, *args) as terminal:
            terminal.wait_for(lambda: ready(terminal))
            leave(terminal)
            assert "chatcli resume talk" == last_command(terminal)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["$(touch pwned)", pytest.param("it's two words", marks=pytest.mark.slow)])
def test_every_other_printed_command_runs_too(chatcli: Program, name: str) -> None:
    folder = ("--sessions", "my chats")
    save(chatcli.home / "my chats", name)
    exported = chatcli.run("export", name, "--format", "json", *folder).text

    def printed(text: str) -> str:
        command = command_in(text)
        assert " --sessions 'my chats'" in command
        return command

    imported = printed(chatcli.run("import", "-", *folder, stdin=exported).text)
    assert f"this is {name}" in run_line(chatcli, imported, "/tree\n")
    taken = printed(chatcli.run("import", "-", "--as", name, *folder, stdin=exported, expect=1).errors)
    assert f"this is {name}" in run_line(chatcli, taken, "/tree\n")
    with SessionFolder(chatcli.home / "my chats").open(name):
        locked = printed(chatcli.run("resume", name, *folder, stdin="hi\n", expect=1).errors)
        assert f"Branched '{name}' after turn 1" in run_line(chatcli, locked)
    assert name in run_line(chatcli, printed(chatcli.run("show", "zzz", *folder, expect=1).errors))


@pytest.mark.slow
def test_what_lists_all_finds_all(chatcli: Program) -> None:
    for number in range(51):
        save(chatcli.home / "my chats", f"it's {number}")
    folder = ("--sessions", "my chats")
    for args in (("list",), ("search", "--thinking", "this is", "it's")):
        shown = run_line(chatcli, command_in(chatcli.run(*args, *folder).text))
        assert set(map(str, range(51))) == set(re.findall(r"(?m)^it's (\d+)", shown))


def test_an_error_of_the_python_door_names_its_folder(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path, "my chats")
    save(tmp_path, "talk")
    with pytest.raises(ChatcliError, match=r"continue it: chatcli resume --sessions 'my chats' talk$"):
        folder.create("talk", model=None, system=None)
