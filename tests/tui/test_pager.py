"""The thinking of a conversation on the whole screen: what is in sight first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from prompt_toolkit.application.current import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import get_cwidth

from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.tui.pager import Pager, result_pager, transcript


def first_screen(turns: list[tuple[str, str, str]]) -> list[str]:
    """The first screen of a conversation of (question, thinking, reply), at 80 by 40."""
    with create_app_session(DummyInput(), DummyOutput()):
        pager = transcript(conversation_of(turns))
        return "".join(part[1] for part in pager.visible_lines()).split("\n")


def test_the_thinking_opens_at_the_last_one() -> None:
    long = "\n".join(f"line {number}" for number in range(100))
    rows = first_screen([("one", "first thoughts", long), ("two", "last thoughts\nand more", long)])
    assert ["  ┊ last thoughts", "  ┊ and more", "  line 0"] == rows[:3]
    rows = first_screen([("one", long, long), ("two", "", "short")])
    assert "  ┊ line 0" == rows[0]
    rows = first_screen([("one", "", long), ("two", "", "the end")])
    assert ["  the end", ""] == rows[-2:]
    rows = first_screen([("one", "thoughts", "short")])
    assert ["1 › one", "  ┊ thoughts", "  short", ""] == rows


def conversation_of(turns: Sequence[tuple[str, str, str]]) -> Conversation:
    conversation, parent = Conversation("2025-03-01"), None
    for number, (question, thinking, text) in enumerate(turns):
        user = conversation.add(Entry(f"u{number}", parent, Message("user", question), 0))
        reply = Message("assistant", text, thinking)
        parent = conversation.add(Entry(f"a{number}", user.id, reply, 0)).id
    return conversation


@contextmanager
def reader(*turns: tuple[str, str, str], columns: int = 80, lines: int = 40) -> Iterator[Pager]:
    output = DummyOutput()
    output.get_size = lambda: Size(lines, columns)  # type: ignore[method-assign]
    with create_app_session(DummyInput(), output):
        pager = transcript(conversation_of(turns))
        pager.visible_lines()
        yield pager


def rows_of(pager: Pager) -> list[str]:
    return "".join(part[1] for part in pager.visible_lines()).split("\n")


def marked(pager: Pager, style: str) -> str:
    return "".join(text for name, text, *_ in pager.visible_lines() if style in name.split())


def footer(pager: Pager) -> str:
    return "".join(part[1] for part in pager.footer())


LONG = "\n".join(f"line {number}" for number in range(100))


def test_replies_are_markdown_as_when_they_came() -> None:
    with reader(("**why**?", "", "A *word*:\n\n```py\nx = 1\n```\n\n- one\n- two")) as pager:
        assert ["1 › **why**?", "  A word:", "", "  py", "x = 1"] == rows_of(pager)[:5]
        assert ["  • one", "  • two"] == rows_of(pager)[6:8]


def test_a_search_goes_to_the_first_match_from_here_and_two_keys_go_on() -> None:
    turns = [("one", "", f"{LONG}\nneedle a\n{LONG}"), ("two", "", f"Needle b and needle c\n\n{LONG}")]
    with reader(*turns) as pager:
        pager.search("needle")  # all are above: the first comes again
        assert "turn 1" in footer(pager) and "needle" == marked(pager, "reverse")
        assert any("needle a" in row for row in rows_of(pager))
        for step, turn, current in [(1, 2, "Needle"), (1, 2, "needle"), (1, 1, "needle"), (-1, 2, "needle")]:
            pager.next_match(step)
            assert f"turn {turn}" in footer(pager) and current == marked(pager, "reverse")
        assert "Needle" == marked(pager, "underline")
        pager.next_match(-1)
        assert "Needle" == marked(pager, "reverse") and "needle" == marked(pager, "underline")
    with reader(("one", "", "the only needle")) as pager:
        pager.search("needle")
        pager.next_match(1)
        assert "needle" == marked(pager, "reverse")


def test_what_is_searched_for_may_be_broken_over_rows_and_hold_marks() -> None:
    reply = f"{'word ' * 14}a **bold** statement\nof facts, and 漢字 in `code`"
    with reader(("one", "", reply)) as pager:
        for query in ("bold statement of", "FACTS, and 漢字 in code"):
            pager.search(query)
            assert "turn 1" in footer(pager)
            assert query.lower().replace(" ", "") == marked(pager, "reverse").lower().replace(" ", "")


def test_a_search_without_a_match_says_so() -> None:
    with reader(("one", "thoughts", LONG)) as pager:
        before = rows_of(pager)
        pager.search("nowhere")
        assert "  No matches: nowhere" == footer(pager) and before == rows_of(pager)
        pager.search("line 99")
        assert "turn 1" in footer(pager)


@pytest.mark.parametrize("columns", [24, 40, 60, 80, 200])
def test_the_footer_names_the_keys_and_fits(columns: int) -> None:
    with reader(("one", "", "needle"), columns=columns) as pager:
        assert "/ searches" in footer(pager) and "q" in footer(pager) and len(footer(pager)) < columns
        pager.search("needle")
        assert "turn 1" in footer(pager) and len(footer(pager)) < columns
        assert columns < 40 or "n next" in footer(pager)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_rows_of_wide_signs_keep_their_columns(columns: int) -> None:
    text = "漢字かな🎉 e\u0301 👩\u200d👩\u200d👧 👍\U0001f3fd 🇵🇹 שלום עולם " * 9 + "x" * 300
    text += " [l](http://x.y/" + "z" * 99 + ")"
    reply = f"{text}\n\n```\n{text}\n```\n\n| {text} | b |\n|---|---|\n| c | {text} |"
    with reader((text, text, reply), columns=columns, lines=400) as pager:
        rows = rows_of(pager)
        assert max(map(get_cwidth, rows)) < columns
        assert text.count("漢") * 6 == sum(row.count("漢") for row in rows)


def test_a_result_keeps_its_styles_and_can_be_searched() -> None:
    output = DummyOutput()
    with create_app_session(DummyInput(), output):
        pager = result_pager(lambda width: f"\x1b[32mgreen\x1b[0m and \x1b[1;90mgrey\x1b[0m\n{width} columns")
        assert ["green and grey", "80 columns"] == rows_of(pager)
        assert "green" == marked(pager, "ansigreen") and "grey" == marked(pager, "ansibrightblack")
        assert "the reply continues" in footer(pager)
        pager.search("columns")
        assert "columns" == marked(pager, "reverse") and "turn" not in footer(pager)
