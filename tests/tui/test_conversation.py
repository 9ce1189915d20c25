"""Going about a conversation in the shell: other replies, other places, what waits, what is kept."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.support.families import at_night
from tests.support.program import Program
from tests.support.shell import (
    BUSY,
    PANEL,
    leave,
    open_shell,
    pick,
    ready,
    run_command,
    send_message,
    speaking,
    turns_of,
    wait_for_some_reply,
)
from tests.support.terminal import CTRL_C, CTRL_D, CTRL_T, CTRL_U, CTRL_X, ENTER, ESCAPE, UP, pasted


def children(program: Program, name: str) -> dict[str | None, list[str]]:
    """What hangs under each entry of a session: the roles."""
    roles: dict[str | None, list[str]] = {}
    for entry in program.run("tree", name, "--json").json()["entries"]:
        roles.setdefault(entry["parent"], []).append(entry["role"])
    return roles


@pytest.mark.slow
def test_what_is_sent_while_a_reply_comes_waits_its_turn(models: Path, tmp_path: Path) -> None:
    with speaking(models, tmp_path, 300) as (program, terminal):
        terminal.line("first")
        terminal.wait_for(BUSY)
        terminal.line("second")
        terminal.wait_for(lambda: terminal.count(PANEL) == 2)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
    assert ["first", "second"] == [turn["user"] for turn in turns_of(program, "talk")]


@pytest.mark.slow
def test_what_waits_is_taken_back_and_nothing_starts_by_itself_after_a_stop(
    models: Path, tmp_path: Path
) -> None:
    with speaking(models, tmp_path, 4000) as (program, terminal):
        terminal.line("first")
        wait_for_some_reply(terminal)
        for line in ("second", "/undo", "third", "fourth"):
            terminal.line(line)
            terminal.wait_for(f"  queued: {line} · ↑ edits it")
        assert "queued: second" not in terminal.text()  # the newest three are shown
        assert "  1 more queued\n" in terminal.text()
        terminal.send(UP)
        terminal.wait_for("› fourth")
        terminal.wait_for(lambda: "queued: fourth" not in terminal.text())
        assert "queued: second" in terminal.text()
        terminal.send(ESCAPE)
        terminal.wait_for("(stopped: the text so far is kept")
        terminal.wait_for("› second\n\n  third\n\n  fourth\n")
        terminal.wait_for("not sent: /undo")
        terminal.wait_for(lambda: ready(terminal))
        assert "queued:" not in terminal.text()
        assert 1 == terminal.count(PANEL)
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")
        leave(terminal)
    assert ["first"] == [turn["user"] for turn in turns_of(program, "talk")]


@pytest.mark.slow
@pytest.mark.parametrize("joined", [False, at_night(True)])
def test_escape_stops_at_once_and_what_is_typed_next_is_whole(
    models: Path, tmp_path: Path, joined: bool
) -> None:
    def escape_and(text: str) -> None:
        for keys in [ESCAPE + text] if joined else [ESCAPE, text]:
            terminal.send(keys)
            time.sleep(0.1)  # a quick person's pause
        terminal.wait_for(f"› {text}\n")

    def erase() -> None:
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")

    with speaking(models, tmp_path, 4000) as (program, terminal):
        terminal.line("tell me everything")
        wait_for_some_reply(terminal)
        escape_and("/continue")
        terminal.wait_for("(stopped: the text so far is kept", seconds=10)
        terminal.wait_for(lambda: ready(terminal))
        erase()
        escape_and("different")
        erase()
        leave(terminal)
    assert ["cancelled"] == [turn["finish_reason"] for turn in turns_of(program, "talk")]


@pytest.mark.slow
def test_how_full_the_context_is_stays_in_sight_and_the_prompt_has_room(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, models / "hermit")
    args = ("-m", program.model, "-S", "talk", "-n", "4000", "--temp", "1", "--seed", "2")

    def taken() -> list[int]:
        bar = terminal.text().rstrip().rpartition("\n")[2]
        assert bar.startswith("  talk · Esc stops · ")
        return [int(count) for count in re.findall(r"([\d,]+) of 4,096 tokens", bar)]

    with open_shell(program, "chat", *args) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.line("first")
        terminal.wait_for("  ┊ ")
        (before,) = terminal.wait_for(taken)
        terminal.wait_for(lambda: taken()[0] > before + 5)
        thinking, above, prompt = terminal.text().rstrip().split("\n")[-4:-1]
        assert thinking.startswith("  ┊ ") and "" == above and prompt.startswith("› ")
        terminal.send(CTRL_C)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)


@pytest.mark.slow
def test_leaving_while_a_reply_comes_keeps_what_came(models: Path, tmp_path: Path) -> None:
    with speaking(models, tmp_path, 4000) as (program, terminal):
        terminal.line("tell me everything")
        wait_for_some_reply(terminal)
        leave(terminal)
    (turn,) = turns_of(program, "talk")
    assert "cancelled" == turn["finish_reason"] and turn["text"] + turn["thinking"]


@pytest.mark.slow
def test_what_is_typed_before_the_prompt_is_there_is_kept(chatcli: Program) -> None:
    with open_shell(chatcli, "chat", "-m", chatcli.model, "-S", "early", "-n", "4") as terminal:
        # The interpreter itself needs a moment before anything can keep the keys.
        terminal.wait_for(lambda: not terminal.modes_now[3] & 0o10)
        terminal.send(f"hello there{ENTER}")
        terminal.wait_for(lambda: terminal.count(PANEL) == 1)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
    assert ["hello there"] == [turn["user"] for turn in turns_of(chatcli, "early")]


@pytest.mark.slow
def test_nothing_is_lost_by_going_back_and_trying_again(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model, "-S", "talk", "-n", "6") as terminal:
        send_message(terminal, "one")
        send_message(terminal, "two")
        send_message(terminal, "/regenerate")
        run_command(terminal, "/undo", "Now after turn 1")
        send_message(terminal, "three")
        terminal.line("/edit 1")
        terminal.wait_for("the old one stays in /tree")
        terminal.wait_for(lambda: ready(terminal))
        assert 0 == terminal.text().count("› one more")
        send_message(terminal, " more")
        run_command(terminal, "/context", "of 4,096 tokens")
        run_command(terminal, "/continue", "Thought for")
        leave(terminal)
    roles = children(chatcli, "talk")
    assert ["user", "user"] == roles[None]
    assert 1 == sum(replies.count("user") == 2 for parent, replies in roles.items() if parent)
    assert 2 == sum(replies == ["assistant", "assistant"] for replies in roles.values())
    assert ["one more"] == [turn["user"] for turn in turns_of(chatcli, "talk")]


@pytest.mark.slow
def test_a_message_that_is_changed_after_all_not_leaves_everything_as_it_was(
    models: Path, tmp_path: Path
) -> None:
    with speaking(models, tmp_path, 4) as (program, terminal):
        send_message(terminal, "one")
        send_message(terminal, "two")
        for line in ("/edit 1", "/edit"):
            terminal.line(line)
            terminal.wait_for(f"editing turn {'1' if line == '/edit 1' else '2'}, Esc cancels")
            terminal.send(CTRL_C)
            terminal.wait_for("Edit cancelled.")
            terminal.wait_for("talk · turn 2")
        pick(terminal, "/tree", "1 › one", UP + UP + UP + ENTER)
        terminal.wait_for("talk · editing turn 1")
        # Another command, and leaving in the middle, call it off too.
        terminal.send(CTRL_C)
        terminal.wait_for("talk · turn 2")
        send_message(terminal, "three")
        # What is refused is being changed still, on disk it was never moved.
        terminal.line("/edit 2")
        terminal.wait_for("editing turn 2")
        terminal.send(pasted("word " * 5000) + ENTER)
        terminal.wait_for("no longer fits the model's context")
        terminal.wait_for("editing turn 2")
        assert ["one", "two", "three"] == [turn["user"] for turn in turns_of(program, "talk")]
        terminal.send(CTRL_C)
        terminal.wait_for("talk · turn 3")
        # Another text altogether is still beside the message that it takes the place of.
        terminal.line("/edit 2")
        terminal.wait_for("editing turn 2")
        terminal.send(CTRL_U)
        send_message(terminal, "other")
        leave(terminal)
    assert ["one", "other"] == [turn["user"] for turn in turns_of(program, "talk")]


@pytest.mark.slow
def test_a_message_that_is_chosen_in_the_tree_is_written_anew(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model, "-S", "talk", "-n", "6") as terminal:
        send_message(terminal, "the first words")
        send_message(terminal, "other words")
        pick(terminal, "/tree", "2 › other words", UP + ENTER)
        terminal.wait_for("› other words")
        send_message(terminal, " and more")
        terminal.send(ESCAPE + ESCAPE)
        terminal.wait_for("Enter go there")
        terminal.send(ESCAPE)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
    messages = [turn["user"] for turn in turns_of(chatcli, "talk")]
    assert ["the first words", "other words and more"] == messages


@pytest.mark.slow
def test_the_place_that_was_gone_to_is_kept_when_one_leaves(chatcli: Program) -> None:
    def messages() -> list[str]:
        return [turn["user"] for turn in turns_of(chatcli, "talk")]

    args = ("-m", chatcli.model, "-S", "talk", "-n", "4")
    with open_shell(chatcli, *args) as terminal:
        for message in ("one", "two", "three"):
            send_message(terminal, message)
        run_command(terminal, "/undo", "Now after turn 2")
        leave(terminal)
    assert ["one", "two"] == messages()
    with open_shell(chatcli, *args, "--at", "1") as terminal:
        terminal.wait_for("· turn 1")
        leave(terminal)
    assert ["one", "two"] == messages()
    with open_shell(chatcli, *args) as terminal:
        run_command(terminal, "/rewind 1", "Now after turn 1")
        # A message that is not sent anew after all is no place that was gone to.
        pick(terminal, "/tree", "3 › three", "three" + ENTER)
        terminal.wait_for("› three")
        terminal.send(CTRL_C)
        terminal.wait_for("› Say something")
        leave(terminal)
    assert ["one"] == messages()


@pytest.mark.slow
def test_the_thinking_of_all_turns_can_be_read(chatcli: Program) -> None:
    with open_shell(chatcli, "-S", "talk") as terminal:
        send_message(terminal, "My dog is called Biscuit.")
        terminal.send(CTRL_T)
        terminal.wait_for("┊ They tell me something")
        terminal.send("q")
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)


@pytest.mark.slow
def test_a_long_paste_is_sent_whole_and_stays_a_chip_on_the_screen(chatcli: Program) -> None:
    text = "\n".join(f"line {number}" for number in range(30))
    with open_shell(chatcli, "-m", chatcli.model, "-S", "talk", "-n", "4") as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(pasted(text))
        terminal.wait_for("› [pasted 30 lines]")
        send_message(terminal, " what is this?")
        assert "› [pasted 30 lines] what is this?" in terminal.text()
        leave(terminal)
    with open_shell(chatcli, "resume", "talk", "-m", chatcli.model) as terminal:
        terminal.wait_for("1 › [pasted 30 lines] what is this?")
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(UP)
        terminal.wait_for("\n› [pasted 30 lines] what is this?")
    assert [f"{text} what is this?"] == [turn["user"] for turn in turns_of(chatcli, "talk")]


@pytest.mark.slow
def test_a_named_file_stands_before_the_message(chatcli: Program) -> None:
    (chatcli.home / "notes.txt").write_text("the dog likes to swim\n")
    with open_shell(chatcli, "-m", chatcli.model, "-S", "talk", "-n", "4") as terminal:
        send_message(terminal, "what does @notes.txt say?")
        terminal.line("see @missing/x and @notes.txt")
        terminal.wait_for(lambda: terminal.count(PANEL) == 2)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
    for turn in turns_of(chatcli, "talk"):
        assert turn["user"].startswith("## notes.txt\n\n```text\nthe dog likes to swim\n```\n\n")


@pytest.mark.slow
def test_a_session_is_chosen_from_a_list(chatcli: Program) -> None:
    for name in ("older", "newer"):
        chatcli.ask(f"this is the {name} one", "-S", name, "-n", "4")
    with open_shell(chatcli, "resume", "-n", "4") as terminal:
        terminal.wait_for("Resume a session")
        terminal.wait_for("older")
        terminal.send("older" + ENTER)
        terminal.wait_for("this is the older one")
        send_message(terminal, "go on")
        leave(terminal)
    assert 2 == len(turns_of(chatcli, "older"))


@pytest.mark.slow
def test_the_session_that_is_open_stays_and_the_list_says_whole_why(chatcli: Program) -> None:
    chatcli.ask("hello", "-S", "talk", "-n", "4")
    with open_shell(chatcli, "resume", "talk", "-n", "4") as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.line("/resume")
        terminal.wait_for("Resume a session")
        terminal.send(CTRL_X)
        terminal.wait_for("The session 'talk' is open in this chat: /new leaves it, and /rename")
        terminal.wait_for("another name.")
        terminal.send(ESCAPE)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
    assert 1 == len(turns_of(chatcli, "talk"))


@pytest.mark.slow
def test_a_summary_goes_on_in_another_session(chatcli: Program) -> None:
    with open_shell(chatcli, "-S", "talk") as terminal:
        send_message(terminal, "My dog is called Biscuit.")
        send_message(terminal, "What is my dog called?")
        send_message(terminal, "/compact")
        terminal.wait_for("continues from this summary")
        send_message(terminal, "Hello again.")
        leave(terminal)
    asked = ["My dog is called Biscuit.", "What is my dog called?"]
    assert asked == [turn["user"] for turn in turns_of(chatcli, "talk")]
    after = chatcli.run("show", "talk-2", "--json").json()
    assert [asked[1], "Hello again."] == [turn["user"] for turn in after["turns"]]
    assert "Summary of the conversation so far:" in after["system"]


@pytest.mark.slow
def test_line_by_line_without_drawing(chatcli: Program) -> None:
    (chatcli.home / "notes.txt").write_text("a note\n")
    with open_shell(chatcli, "--plain", "-m", chatcli.model, "-S", "talk", "-n", "4") as terminal:
        terminal.wait_for(lambda: terminal.text().rstrip().endswith(">"))
        assert "/help shows the commands, Ctrl-D leaves.\n" in terminal.text()
        terminal.send(f"read @missing.txt{ENTER}")
        terminal.wait_for("There is no file @missing.txt")
        terminal.send(f"read @notes.txt{ENTER}")
        terminal.wait_for("% reused · ")
        terminal.send(f"/hlep{ENTER}")
        terminal.wait_for("did you mean /help?")
        terminal.send(CTRL_D)
        assert 0 == terminal.wait_for_exit()
        assert b"\x1b" not in terminal.raw
    sent = "## notes.txt\n\n```text\na note\n```\n\nread @notes.txt"
    assert [sent] == [turn["user"] for turn in turns_of(chatcli, "talk")]


@pytest.mark.slow
def test_an_export_and_a_search_from_the_chat(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model, "-S", "talk", "-n", "4") as terminal:
        send_message(terminal, "My dog is called Biscuit.")
        send_message(terminal, "It likes to swim.")
        pick(terminal, "/search biscuit", "talk · turn 1 · you", ENTER)
        terminal.wait_for("Now after turn 1. What came later stays in /tree.")
        run_command(terminal, "/export talk.json", "Written to ~/talk.json.")
        run_command(terminal, "/export talk.json", "talk.json exists already: give another name.")
        terminal.wait_for("› Say something")
        terminal.send(CTRL_C)
        terminal.wait_for("Press Ctrl-C again to leave.")
        leave(terminal)
    exported = json.loads((chatcli.home / "talk.json").read_text())
    assert "My dog is called Biscuit." == exported["entries"][0]["content"]


@pytest.mark.slow
def test_a_continue_that_is_stopped_while_it_is_read_computes_nothing_more(
    models: Path, tmp_path: Path
) -> None:
    program = Program(tmp_path, models / "qwen3_5")
    long = "My dog is called Biscuit and I live in Lisbon. " * 150
    program.run("ask", long, "-S", "talk", "-n", "2", "--temp", "0", "--prefill-step-size", "1")
    program.run("cache", "clear", "--yes", model=False)
    with open_shell(program, "resume", "talk") as terminal:
        terminal.wait_for("preparing the next turn: ")
        terminal.line("/continue")
        terminal.wait_for("reading")
        terminal.send(ESCAPE)
        terminal.wait_for("Stopped.")
        time.sleep(2)
        assert "preparing" not in terminal.text() and "no token" not in terminal.text()
        leave(terminal)


@pytest.mark.slow
def test_a_message_that_is_stopped_while_it_is_read_is_in_the_box_again(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, models / "qwen3_5")
    long = "My dog is called Biscuit and I live in Lisbon. " * 250
    args = ("-m", program.model, "-S", "talk", "-n", "8", "--prefill-step-size", "1", "--temp", "0")
    with open_shell(program, "chat", *args) as terminal:
        send_message(terminal, "Hello.")
        terminal.send(pasted(f"{long}\nWhere do I live?") + ENTER)
        terminal.wait_for("reading")
        terminal.send(ESCAPE)
        terminal.wait_for("Stopped.")
        terminal.wait_for(lambda: ready(terminal))
        assert "› [pasted" in terminal.text().rpartition("Stopped.")[2]
        # Nothing of it stays in the conversation, and it is not read behind the person's back.
        assert ["Hello."] == [turn["user"] for turn in turns_of(program, "talk")]
        time.sleep(2)
        bar = terminal.text().rstrip().rpartition("\n")[2]
        assert "prepared" not in bar and "preparing" not in bar
        terminal.send(ENTER)
        terminal.wait_for(lambda: terminal.count(PANEL) == 2, seconds=60)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
    asked = [turn["user"] for turn in turns_of(program, "talk")]
    assert 2 == len(asked) and asked[1].endswith("Where do I live?")
