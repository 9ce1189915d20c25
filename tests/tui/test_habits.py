"""What people who know other shells and chats press without thinking."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import Program
from tests.support.shell import (
    BUSY,
    PANEL,
    leave,
    open_shell,
    ready,
    run_command,
    send_message,
    speaking,
    turns_of,
    wait_for_some_reply,
)
from tests.support.terminal import CTRL_C, CTRL_D, CTRL_U, DOWN, ENTER, ESCAPE, UP, Terminal

CTRL_Z = "\x1a"
# In the last row of a screen that a command's result has for itself.
CLOSES = "Esc closes"


def test_escape_cancels_an_edit_and_twice_clears_the_box(models: Path, tmp_path: Path) -> None:
    with speaking(models, tmp_path, 4) as (program, terminal):
        send_message(terminal, "one")
        terminal.line("/edit")
        terminal.wait_for("editing turn 1, Esc cancels")
        terminal.send(" more")
        terminal.wait_for("› one more")
        terminal.send(ESCAPE)
        terminal.wait_for("Edit cancelled.")
        terminal.wait_for("› Say something")
        terminal.send(UP)
        terminal.wait_for("› one more")
        terminal.send(ESCAPE)
        terminal.wait_for("Press Esc again to clear.")
        terminal.send("!")
        terminal.wait_for("› one more!")
        assert "Press Esc again" not in terminal.text()
        terminal.send(ESCAPE)
        terminal.wait_for("Press Esc again to clear.")
        terminal.send(ESCAPE)
        terminal.wait_for("› Say something")
        terminal.send(UP)
        terminal.wait_for("› one more!")
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")
        leave(terminal)
    assert ["one"] == [turn["user"] for turn in turns_of(program, "talk")]


def test_the_notice_of_control_c_goes_when_typing_begins(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(CTRL_C)
        terminal.wait_for("Press Ctrl-C again to leave.")
        terminal.send("x")
        terminal.wait_for("› x")
        assert "Press Ctrl-C again" not in terminal.text()
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")
        terminal.send(CTRL_C)
        terminal.wait_for("Press Ctrl-C again to leave.")
        assert terminal.process.poll() is None
        leave(terminal)


@pytest.mark.slow
def test_exit_leaves_in_its_place_in_the_queue_and_with_a_space_it_is_a_message(
    models: Path, tmp_path: Path
) -> None:
    with speaking(models, tmp_path, 400) as (program, terminal):
        send_message(terminal, " exit")
        terminal.line("first")
        terminal.wait_for(BUSY)
        terminal.line("second")
        terminal.line("exit")
        terminal.line("third")
        assert 0 == terminal.wait_for_exit()
        assert "not sent: third" in terminal.all_text()
        assert "› exit\n" in terminal.all_text()
    assert [" exit", "first", "second"] == [turn["user"] for turn in turns_of(program, "talk")]


def test_enter_runs_the_highlighted_command_and_help_fits_the_screen(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send("/st")
        terminal.wait_for("the numbers of all turns")
        terminal.send(DOWN + ENTER)
        terminal.wait_for("There is no conversation yet")
        terminal.wait_for(lambda: ready(terminal))
        run_command(terminal, "/help", "This program")
        rows = terminal.text().split("\n")
        assert "› /help" == rows[0]
        assert "Messages" in rows[1] and "Keys (/help keys: all)" in terminal.text()
        run_command(terminal, "/help retry", "example: /regenerate 4")
        run_command(terminal, "/help keys", "Ctrl-G")
        leave(terminal)


def test_a_command_typed_before_another_has_ended_comes_after_it(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(f"/date{ENTER}/help{ENTER}")
        terminal.wait_for("This program")
        terminal.wait_for(lambda: ready(terminal))
        lines = terminal.all_text().split("\n")
        assert lines.index("› /date") < lines.index("› /help")
        leave(terminal)


@pytest.mark.slow
def test_commands_that_only_read_work_while_a_reply_comes(models: Path, tmp_path: Path) -> None:
    with speaking(models, tmp_path, 3900) as (program, terminal):
        send_message_and_stop(terminal, "first")
        terminal.line("second")
        terminal.wait_for(BUSY)
        terminal.line("/tree foo")
        terminal.wait_for("  Usage: /tree\n")
        terminal.wait_for("› /tree foo")
        terminal.send(CTRL_U)
        terminal.wait_for(lambda: "Usage: /tree" not in terminal.text())
        for line, answer in {
            "/tree": "1 › first",
            "/stats": "hit ratio",
            "/context": "your messages",
            "/help": "This program",
            "/search second": "turn 2",
        }.items():
            terminal.wait_for(BUSY)
            terminal.line(line)
            terminal.wait_for(lambda answer=answer: answer in terminal.text() and CLOSES in terminal.text())
            terminal.send("q")
            terminal.wait_for(lambda: CLOSES not in terminal.text())
        terminal.wait_for(BUSY)
        terminal.send(ESCAPE)
        terminal.wait_for("(stopped")
        terminal.wait_for(lambda: ready(terminal))
        assert "Usage: /tree" not in terminal.all_text()  # nothing of it stands in a reply
        assert "› /stats" not in terminal.all_text() and "your messages" not in terminal.all_text()
        leave(terminal)
    assert ["first", "second"] == [turn["user"] for turn in turns_of(program, "talk")]


def send_message_and_stop(terminal: Terminal, message: str) -> None:
    terminal.line(message)
    wait_for_some_reply(terminal)
    terminal.send(ESCAPE)
    terminal.wait_for("(stopped")
    terminal.wait_for(lambda: ready(terminal))


@pytest.mark.slow
def test_enter_sends_what_was_typed_before_the_program_could_read(chatcli: Program) -> None:
    args = ("-m", chatcli.model, "-S", "early", "-n", "4")
    begin_late = "import time; time.sleep(0.5); from chatcli.__main__ import main; main()"
    command = [sys.executable, "-c", begin_late, "chat", *map(str, args)]
    with Terminal(command, chatcli.environment(), chatcli.home) as terminal:
        terminal.send(f"hello there{ENTER}and")
        terminal.wait_for(lambda: terminal.count(PANEL) == 1)
        terminal.wait_for("› and\n")
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")
        leave(terminal)
    assert ["hello there"] == [turn["user"] for turn in turns_of(chatcli, "early")]


def test_what_is_typed_after_a_stop_from_outside_is_shown(chatcli: Program) -> None:
    environment = chatcli.environment(PS1="bash> ", CHATCLI_MODEL=str(chatcli.model))
    with Terminal(["bash", "--norc", "-i"], environment, chatcli.home) as terminal:

        def stop_and_go_on(key: bool = False) -> None:
            stops = terminal.count("Stopped")
            if key:
                terminal.send(CTRL_Z)
            else:
                os.kill(pid, signal.SIGTSTP)
            terminal.wait_for(lambda: terminal.count("Stopped") > stops)
            terminal.wait_for(lambda: terminal.text().rstrip().endswith("bash>"))
            terminal.line("fg %1")

        terminal.wait_for("bash>")
        terminal.line(f"{sys.executable} -m chatcli")
        terminal.wait_for(lambda: ready(terminal))
        children = subprocess.run(["pgrep", "-P", str(terminal.process.pid)], capture_output=True, check=True)
        pid = int(children.stdout)
        for number in range(3):
            stop_and_go_on(key=number == 1)
            terminal.wait_for(lambda: ready(terminal))
            terminal.send(f"word{number}")
            terminal.wait_for(f"word{number}")
        terminal.wait_for("› word0word1word2")
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")
        # In a full-screen list, too.
        send_message(terminal, "hello")
        terminal.line("/tree")
        terminal.wait_for("Enter go there")
        stop_and_go_on()
        terminal.wait_for("Enter go there")
        terminal.send(ESCAPE)
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(CTRL_D)
        terminal.wait_for("chatcli resume hello")
