"""The shell as a person meets it: a real pseudo-terminal of 80 by 24, and what is on its screen."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from chatcli.text import percent
from tests.support.program import ESCAPES, Program
from tests.support.rendered import generation_prompt, rendered_message, token_count
from tests.support.shell import (
    PANEL,
    check_terminal_restored,
    open_shell,
    pick,
    ready,
    run_command,
    send_message,
    speaking,
    turns_of,
    wait_for_some_reply,
)
from tests.support.terminal import ALT_ENTER, CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal, pasted
from tests.support.tiny import write_model


def panels(terminal: Terminal) -> list[str]:
    """Each turn's panel, in the order they were drawn."""
    return re.findall(r"╭─ turn .*?╯", terminal.all_text(), re.DOTALL)


def check_panel(panel: str, turn: dict[str, Any]) -> None:
    prompt = turn["prompt_tokens"]
    again = turn["reused_settled_tokens"] if turn["settle_reason"] else 0
    reused = percent(turn["reused_tokens"] - again, prompt)
    prepared = percent(turn["typeahead_tokens"] + again, prompt)
    title, parts, times, *_ = panel.split("\n")
    assert f" turn {turn['turn']} · hit ratio {reused} " in title
    assert f"  {reused} reused · {prepared} prepared · {turn['prefilled_tokens']:,} new " in parts
    assert 24 == sum(map(parts.count, "█▓░")) and ("█" in parts) == (turn["reused_tokens"] > again)
    assert "first token" in times and "tok/s" in times
    reasons = {turn["miss_reason"], turn["settle_reason"]} - {None}
    assert 2 + len(reasons) <= panel.count("\n  │ ")
    assert (turn["settle_reason"] is not None) == (" prepared while you read: the " in panel)


def test_a_conversation_and_every_command(chatcli: Program) -> None:
    with open_shell(chatcli, "chat", "-m", chatcli.model, "-n", "8") as terminal:
        terminal.wait_for("Type a message and press Enter")
        terminal.wait_for("new conversation")
        send_message(terminal, "hello there")
        send_message(terminal, "how are you?")
        for panel, turn in zip(panels(terminal), turns_of(chatcli, "hello-there"), strict=True):
            check_panel(panel, turn)
        run_command(terminal, "/help", "This program")
        assert all(f"/{name}" in terminal.all_text() for name in ("branch", "stats", "think"))
        pick(terminal, "/tree", "2 › how are you?", "\x1b")
        run_command(terminal, "/stats", "prepared")
        turns = turns_of(chatcli, "hello-there")
        shown = " ".join(terminal.text().split())
        for turn in turns:
            prompt = turn["prompt_tokens"]
            assert f" {percent(turn['reused_tokens'], prompt)} {prompt:,} " in shown
        run_command(terminal, "/rename greeting", "Renamed to 'greeting'.")
        assert terminal.wait_for(" greeting ·")
        run_command(terminal, "/hlep", "did you mean /help?")
        run_command(terminal, "/think off", "Thinking: off.")
        run_command(terminal, "/system Be kind.", "System prompt changed")
        run_command(terminal, "/system", "System prompt: Be kind.")
        send_message(terminal, "/home/me/notes.txt is a path")
        third = turns_of(chatcli, "greeting")[2]
        assert "/home/me/notes.txt is a path" == third["user"]
        check_panel(panels(terminal)[-1], third)
        assert "" == third["thinking"]
        run_command(terminal, "/branch 1 aside", "'greeting' is unchanged: /resume opens it.")
        assert "aside · 1 turn" in terminal.text()
        send_message(terminal, "on the side")
        assert ["hello there", "on the side"] == [turn["user"] for turn in turns_of(chatcli, "aside")]
        run_command(terminal, "/resume greeting", "greeting · 3 turns")
        assert "/home/me/notes.txt is a path" in terminal.text()
        run_command(terminal, "/new", "A new conversation begins with your next message.")
        send_message(terminal, "brand new")
        check_panel(panels(terminal)[-1], turns_of(chatcli, "brand-new")[0])
        run_command(terminal, "/resume greeting", "greeting · 3 turns")
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()
        assert "chatcli resume greeting" in terminal.text()
        assert "Traceback" not in terminal.all_text()
        check_terminal_restored(terminal)
    with open_shell(chatcli, "resume", "greeting", "-n", "4", "--no-think") as terminal:
        terminal.wait_for("greeting · 3 turns")
        terminal.wait_for("/home/me/notes.txt is a path")
        send_message(terminal, "back again")
        fourth = turns_of(chatcli, "greeting")[3]
        check_panel(panels(terminal)[-1], fourth)
        assert fourth["prefilled_tokens"] < 30 < fourth["reused_tokens"]
        run_command(terminal, "/think on", "Thinking: on.")
        terminal.line("/quit")
        assert 0 == terminal.wait_for_exit()
        assert "chatcli resume greeting" in terminal.text()


@pytest.mark.slow
def test_a_refused_command_leaves_the_box_empty_and_up_brings_it_back(chatcli: Program) -> None:
    refused = {
        "/choose 2": "There is nothing to choose from",
        "/regenerate 3": "/set temp 0.8 first",
        "/rewind": "Usage: /rewind TURN",
        "/undo 3": "Usage: /undo",
        "/hlep": "did you mean /help?",
    }
    with open_shell(chatcli, "-m", chatcli.model, "--temp", "0", "-n", "4") as terminal:
        send_message(terminal, "hello there")
        for line, answer in refused.items():
            run_command(terminal, line, answer)
            terminal.wait_for("› Say something")
        for line in reversed(refused):
            terminal.send(UP)
            terminal.wait_for(lambda line=line: terminal.text().count(f"› {line}\n") == 2)
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()


@pytest.mark.slow
def test_a_turn_after_a_changed_system_prompt_says_why_it_was_computed_again(
    chatcli: Program,
) -> None:
    with open_shell(chatcli, "-m", chatcli.model, "-S", "kind", "-n", "8") as terminal:
        send_message(terminal, "hello there")
        send_message(terminal, "how are you?")
        run_command(terminal, "/system Be kind.", "System prompt changed")
        send_message(terminal, "and now?")
        third = turns_of(chatcli, "kind")[2]
        check_panel(panels(terminal)[-1], third)
        # Either all but the message was settled behind the prompt meanwhile, or there is a reason.
        new = token_count(
            rendered_message("user", third["user"]) + generation_prompt(chatcli.model), chatcli.model
        )
        assert "changed at token" in terminal.text() or third["prefilled_tokens"] <= new
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()


def test_control_c_stops_a_reply_clears_a_line_and_leaves(models: Path, tmp_path: Path) -> None:
    with speaking(models, tmp_path, 4000) as (program, terminal):
        terminal.line("tell me everything")
        wait_for_some_reply(terminal)
        terminal.send(CTRL_C)
        terminal.wait_for("(stopped: the text so far is kept", seconds=10)
        terminal.wait_for(lambda: ready(terminal))
        turn = turns_of(program, "talk")[0]
        assert "cancelled" == turn["finish_reason"]
        assert len(turn["text"] + turn["thinking"]) > 50
        check_panel(panels(terminal)[-1], turn)

        terminal.send("half a thought")
        terminal.wait_for("half a thought")
        terminal.send(CTRL_C)
        terminal.wait_for(lambda: "half a thought" not in terminal.text())
        assert ready(terminal)
        assert terminal.process.poll() is None
        terminal.send(CTRL_C)
        terminal.wait_for("Press Ctrl-C again to leave.")
        terminal.send(CTRL_C)
        assert 0 == terminal.wait_for_exit()
        assert "chatcli resume talk" in terminal.text()
        assert "Traceback" not in terminal.all_text()
        check_terminal_restored(terminal)
    assert ["tell me everything"] == [turn["user"] for turn in turns_of(program, "talk")]


def scrollbar(terminal: Terminal) -> list[int]:
    """The rows with a cell of the menu's scrollbar."""
    rows = range(terminal.screen.lines)
    return [y for y in rows if "brightblack" in {cell.bg for cell in terminal.screen.buffer[y].values()}]


@pytest.mark.slow
def test_the_menu_of_commands_and_a_second_line(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model, "-S", "lines", "-n", "4") as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send("/")
        terminal.wait_for("more with /help COMMAND")
        terminal.wait_for(lambda: scrollbar(terminal))
        terminal.send("re")
        terminal.wait_for(lambda: "/rewind" in terminal.text() and "/branch" not in terminal.text())
        assert "/resume" in terminal.text() and "/rename" in terminal.text()
        assert not scrollbar(terminal)
        terminal.send("n")
        terminal.wait_for(lambda: "/resume" not in terminal.text())
        terminal.send(TAB)
        terminal.wait_for("› /rename")
        terminal.send(CTRL_C)
        terminal.wait_for(lambda: "/rename" not in terminal.text())
        terminal.send("first line" + ALT_ENTER)
        terminal.wait_for(lambda: terminal.screen.cursor.x == 2)
        assert 0 == terminal.count(PANEL)
        say_more = "second line"
        terminal.line(say_more)
        terminal.wait_for(lambda: terminal.count(PANEL) == 1)
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()
    assert ["first line\nsecond line"] == [turn["user"] for turn in turns_of(chatcli, "lines")]


@pytest.mark.slow
def test_no_escape_sequence_of_a_model_or_a_paste_reaches_the_terminal(models: Path, tmp_path: Path) -> None:
    text = "hello \x1b]0;evil\x07 world \x9b2J"
    for model in ("evil", "hermit"):
        program = Program(tmp_path / model, models / model)
        args = ("-m", program.model, "-S", "bad", "-n", "200", "--temp", "1", "--seed", "3")
        with open_shell(program, *args) as terminal:
            terminal.wait_for(lambda: ready(terminal))
            terminal.send(pasted(text))
            terminal.wait_for("world")
            terminal.send(ENTER)
            terminal.wait_for(lambda: terminal.count(PANEL) == 1)
            terminal.wait_for(lambda: ready(terminal))
            pick(terminal, "/tree", "1 › hello", "\x1b")
            terminal.send(CTRL_D)
            assert 0 == terminal.wait_for_exit()
            check_terminal_restored(terminal)
        turn = turns_of(program, "bad")[0]
        assert text == turn["user"]
        assert {"\x1b", "\x07", "\x9b"} <= set(turn["text"] + turn["thinking"])
        # The shell itself moves the cursor with ESC [, but never with these.
        for mark in [*ESCAPES[1:], b"\x1b]", b"\x1b\x1b", b"\x1b[["]:
            assert mark not in terminal.raw


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_ends_with_one_clear_line(chatcli: Program) -> None:
    broken = write_model(chatcli.home / "broken", "qwen3")
    os.truncate(broken / "model.safetensors", 1000)
    with open_shell(chatcli, "-m", "./broken") as terminal:
        terminal.wait_for("Type a message and press Enter")
        assert 1 == terminal.wait_for_exit()
        lines = [line for line in terminal.all_text().splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("chatcli: ")]
        assert 1 == len(errors)
        # The folder is given by its whole path, and a narrow screen wraps that and the words around it.
        message = "".join("".join(lines[lines.index(errors[0]) :]).split())
        assert f"{broken.resolve()}'cannotbeloaded" in message
        assert "Traceback" not in terminal.all_text()
        check_terminal_restored(terminal)
    assert not list(chatcli.sessions.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("flag", "name", "sentence"),
    [
        ("-m", "nope", "There is no model folder 'nope'"),
        ("--draft-model", "nope", "--draft-model: There is no model folder 'nope'"),
        pytest.param("-m", ".", "The folder '/", marks=pytest.mark.slow),
        pytest.param("-m", "org/nope", "'org/nope' is not on this machine", marks=pytest.mark.slow),
    ],
)
def test_a_model_that_cannot_be_there_is_told_before_a_prompt(
    chatcli: Program, flag: str, name: str, sentence: str
) -> None:
    with open_shell(chatcli, flag, name, HF_HUB_OFFLINE="1") as terminal:
        assert 1 == terminal.wait_for_exit()
        assert " ".join(terminal.all_text().split()).startswith(f"chatcli: {sentence}")
        assert "›" not in terminal.raw.decode()
        check_terminal_restored(terminal)


@pytest.mark.slow
def test_what_is_typed_ahead_is_shown_apart(chatcli: Program) -> None:
    with open_shell(chatcli, "-S", "typed", "-n", "8") as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send("My dog is called Biscuit and I live in Lisbon.")
        terminal.wait_for("tokens prepared")
        terminal.send(ENTER)
        terminal.wait_for("prepared ·")
        terminal.wait_for(lambda: ready(terminal))
        terminal.line("/quit")
        terminal.wait_for_exit()
    (turn,) = chatcli.run("show", "typed", "--json").json()["turns"]
    assert 10 < turn["typeahead_tokens"] == turn["prompt_tokens"] - turn["prefilled_tokens"]
    assert (0, 0.0) == (turn["reused_tokens"], turn["hit_ratio"])
    assert turn["prefilled_tokens"] <= 16


@pytest.mark.slow
def test_no_typeahead_means_none(chatcli: Program) -> None:
    with open_shell(chatcli, "-S", "typed", "-n", "8", "--no-typeahead") as terminal:
        send_message(terminal, "My dog is called Biscuit.")
        terminal.send("And I live in Lisbon, by the river.")
        terminal.wait_for("next turn ready")
        terminal.send(ENTER)
        terminal.wait_for(lambda: terminal.count(PANEL) > 1)
        terminal.wait_for(lambda: ready(terminal))
        terminal.line("/quit")
        terminal.wait_for_exit()
    turns = chatcli.run("show", "typed", "--json").json()["turns"]
    assert [0, 0] == [turn["typeahead_tokens"] for turn in turns]
