"""A private conversation in the shell, as a person has one: on the screen, and nowhere else."""

from __future__ import annotations

import pytest

from tests.support.program import Program, folder_contents
from tests.support.shell import open_shell, ready, run_command, send_message
from tests.support.terminal import CTRL_D, UP

SECRETS = ("heliotrope is my code word", "ultramarine is another one")


def test_nothing_of_a_private_conversation_is_in_any_file(chatcli: Program) -> None:
    arguments = ("chat", "-m", chatcli.model, "-n", 6, "--panel", "line")
    with open_shell(chatcli, *arguments) as terminal:
        terminal.wait_for("new conversation")
        send_message(terminal, "hello there")
        # What is typed at once after it is private, too.
        terminal.line("/private")
        terminal.line(SECRETS[0])
        terminal.wait_for("A private conversation begins: nothing of it is written to disk.")
        terminal.wait_for("private conversation ·")
        terminal.wait_for(lambda: ready(terminal) and terminal.count("reused") == 2)
        assert "Say something in private: nothing of it is written to disk" in terminal.text()
        send_message(terminal, SECRETS[1])
        terminal.send(UP)
        terminal.wait_for(f"› {SECRETS[1]}")
        terminal.send("\x15")
        run_command(terminal, "/private off", "What you say is saved again")
        send_message(terminal, "good bye")
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()
    written = folder_contents(chatcli.home)
    assert any(b"hello there" in data for data in written.values())
    words = [word.encode() for secret in SECRETS for word in (secret, "-".join(secret.split()[:1]))]
    assert [] == [
        name for name, data in written.items() if any(w in data or w in name.encode() for w in words)
    ]
    assert 2 == sum(name.endswith(".jsonl") for name in written)


@pytest.mark.slow
def test_a_private_start_makes_no_folder(chatcli: Program) -> None:
    with open_shell(chatcli, "chat", "--private", "-m", chatcli.model, "-n", 6) as terminal:
        terminal.wait_for("This conversation is not written to disk.")
        send_message(terminal, SECRETS[0])
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()
    assert not chatcli.sessions.exists()
    assert "" == chatcli.ask(SECRETS[1], "--private", "-n", 4)["session"]
    assert not chatcli.sessions.exists()
