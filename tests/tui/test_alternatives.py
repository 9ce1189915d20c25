"""/regenerate 3 as a person meets it: three replies with numbers, one of which goes on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.console import Console

from chatcli.events import Alternatives, TurnRecord
from chatcli.text import clean
from chatcli.tui.render import alternatives
from tests.support.program import Program
from tests.support.shell import ready
from tests.support.window import Window, command_output, leave_window, send_line

REPLIES = ["Lisbon, by the river.", "In Lisbon. " * 12, "The river\x1b[2J.", "Yes."]


@pytest.fixture
def speaker(chatcli: Program) -> Program:
    """A model that thinks a little and answers each time with other words."""
    return Program(chatcli.home, chatcli.model.parent / "speaker")


def tree(program: Program) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head, and the replies to the first message in the order that they were made."""
    exported = program.run("export", "talk", "--format", "json").json()
    entries = {entry["id"]: entry for entry in exported["entries"]}
    replies = [entry for entry in exported["entries"] if entry["parent"] == exported["entries"][0]["id"]]
    return entries[exported["head"]], replies


@pytest.mark.slow
def test_a_digit_chooses_one_of_several_replies_while_there_is_something_to_choose(
    speaker: Program,
) -> None:
    given = ("-m", speaker.model, "-S", "talk", "-n", "40", "--temp", "1", "--seed", "3")
    with Window(speaker, *given, columns=90, lines=50) as window:
        window.wait_for(lambda: ready(window))
        send_line(window, "My dog is called Biscuit.")
        send_line(window, "/regenerate 3", r"1 is chosen; 2 to 3 and Enter chooses another\.")
        numbers = re.findall(r"^(\d)  [\d,]+ tokens", window.all_text(), re.MULTILINE)
        assert ["1", "2", "3"] == numbers
        head, replies = tree(speaker)
        assert (replies[1]["id"], 4) == (head["id"], len(replies))
        assert "Reply 2 is chosen" in command_output(window, "2")
        assert "Reply 3 is chosen" in command_output(window, "/choose 3")
        assert "1 to 3" in command_output(window, "/choose 4")
        window.send("\x03")
        send_line(window, "7 and 5?")
        send_line(window, "2")  # a message now
        command_output(window, "/set temp 0")
        assert "/set temp 0.8 first" in command_output(window, "/regenerate 3")
        leave_window(window)
    head, replies = tree(speaker)
    asked = [turn["user"] for turn in speaker.run("show", "talk", "--json").json()["turns"]]
    assert ["My dog is called Biscuit.", "7 and 5?", "2"] == asked


@pytest.mark.slow
def test_a_script_can_make_several_and_choose(speaker: Program) -> None:
    lines = "My dog is called Biscuit.\n/regenerate 2\n2\n"
    given = ("-S", "talk", "-n", "40", "--temp", "1", "--seed", "3")
    done = speaker.run("chat", *given, stdin=lines)
    assert "[1] " in done.text and "[2] " in done.text and "Reply 2 is chosen" in done.text
    head, replies = tree(speaker)
    assert clean(head["content"]) in done.text.split("[2] ")[1]
    assert 3 == len(replies)


def shown(width: int, count: int = 4) -> list[str]:
    records = [TurnRecord("talk", 1, text=text, tokens=[1] * 8) for text in REPLIES[:count]]
    console = Console(width=width, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(alternatives.renderable(Alternatives(tuple(records), ()), width))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize(("width", "rows"), [(80, 4), (100, 2), (140, 1)])
def test_replies_stand_side_by_side_where_there_is_room(width: int, rows: int) -> None:
    lines = shown(width)
    heads = [re.findall(r"(\d)  8 tokens", line) for line in lines]
    assert ["1", "2", "3", "4"] == [number for head in heads for number in head]
    assert rows == sum(map(bool, heads))
    assert all(len(line) <= width for line in lines)
    assert not any("\x1b" in line for line in lines)
    assert "1 is chosen; 2 to 4 and Enter chooses another." == lines[-1]


def test_replies_beside_each_other_are_markdown() -> None:
    text = "A **word**:\n\n```py\nx = 1\n```\n- one"
    records = (TurnRecord("talk", 1, text=text), TurnRecord("talk", 1, text="Short."))
    console = Console(width=120, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(alternatives.renderable(Alternatives(records, ()), 120))
    rows = [" ".join(row.split()) for row in captured.get().splitlines()]
    assert ["A word: Short.", "", "py", "x = 1", "", "• one"] == rows[1:7]


def test_fewer_replies_than_were_asked_for_are_told_as_they_are() -> None:
    assert "1 is chosen; 2 and Enter chooses the other." == shown(80, 2)[-1]
    assert "Only one reply came." == shown(80, 1)[-1]
    assert ["(stopped: nothing came)"] == shown(80, 0)
