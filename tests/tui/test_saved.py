"""Saved conversations look as they did while they were held, fill the window, and are exact in a pipe."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from chatcli.commands import results
from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.events import PrefixMatched, ReplyContinued, TextDelta, ToolCall, TurnDone, TurnRecord
from chatcli.tui.render.pipe import Pipe
from chatcli.tui.render.results import PROMPT_ROWS
from chatcli.tui.render.screen import Screen
from chatcli.tui.saved import layout_console, portable_entry, reply_rows
from chatcli.tui.text.wrap import cells
from tests.support.markdown import FRAGMENTS, REPLY, chunks

WINDOWS = [(40, 20), (80, 24), (120, 40), (200, 50)]


def conversation_of(*replies: str, thinking: str = "", finish_reason: str = "stop") -> Conversation:
    conversation, parent = Conversation("2031-11-03"), None
    created = time.time() - 3 * 3600 - 60
    for number, text in enumerate(replies, start=1):
        question = Entry(f"u{number}", parent, Message("user", f"question {number}"), created)
        conversation.add(question)
        reply = Message("assistant", text, thinking)
        entry = Entry(f"a{number}", question.id, reply, created, finish_reason)
        parent = conversation.add(entry).id
    return conversation


def printed(result: results.Result, columns: int, lines: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=columns, height=lines, force_terminal=True, highlight=False)
    Screen(console).result(result)
    return re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()).splitlines()


def live(question: str, text: str, size: int, columns: int, before: str = "") -> list[str]:
    """What the screen of a chat keeps of a turn, whose reply begins with `before`."""
    out = io.StringIO()
    console = Console(file=out, width=columns, height=24, force_terminal=True, highlight=False)
    screen = Screen(console, panel="off")
    screen.message(question)
    screen.reply.begin(str)
    if before:
        screen.event(ReplyContinued(before))
    screen.event(PrefixMatched(1, 0, None))
    for piece in chunks(text, size):
        screen.event(TextDelta(piece))
    screen.event(TurnDone(TurnRecord("talk", 1, text, finish_reason="stop")))
    return re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()).splitlines()


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("size", [3, 1000])
def test_a_saved_turn_looks_as_it_did(columns: int, size: int) -> None:
    conversation = conversation_of(REPLY)
    as_it_was = live("question 1", REPLY, size, columns)[1:]
    for result in (results.Transcript("talk", conversation), results.Opened("talk", conversation)):
        rows = printed(result, columns, 200)
        start = rows.index("1 › question 1") + 1
        assert as_it_was[:-1] == rows[start:]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=15).map("".join).filter(str.strip),
    st.integers(1, 30),
    st.sampled_from([24, 40, 80]),
)
def test_any_saved_reply_looks_as_it_did(text: str, size: int, columns: int) -> None:
    rows = printed(results.Transcript("talk", conversation_of(text)), columns, 24)
    assert live("question 1", text, size, columns)[1:-1] == rows[rows.index("1 › question 1") + 1 :]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_reply_that_goes_on_in_a_code_block_is_code_on_the_screen(size: int) -> None:
    before, text = "A:\n\n```py\ndef f(x):\n    retur", "n x * 2\n\nprint(f(2))\n```\n\nDone."
    rows = live("/continue", text, size, 80, before)
    assert ["    return x * 2", "", "print(f(2))", "", "  Done."] == rows[1:-1]


@pytest.mark.parametrize(("columns", "lines"), WINDOWS)
@pytest.mark.parametrize("turns", [1, 2, 9])
def test_an_opened_session_fills_the_window_with_its_end(columns: int, lines: int, turns: int) -> None:
    replies = [f"{REPLY * 3}\nthe end of {number}" for number in range(1, turns + 1)]
    rows = printed(results.Opened("talk", conversation_of(*replies)), columns, lines)
    assert lines - PROMPT_ROWS == len(rows)
    assert rows[0].startswith(f"talk · {turns} turn") and "3 h ago" in rows[0]
    assert f"  the end of {turns}" == rows[-1]
    above = " ".join(rows[:2])
    assert turns == 1 or (f"… {turns - 1} earlier turn" in above and "Ctrl-T shows all" in above)
    assert any(re.fullmatch(r"  … \d+ rows", row) for row in rows)
    assert all(cells(row) < columns for row in rows)


@pytest.mark.parametrize(("columns", "lines"), WINDOWS)
def test_an_opened_session_has_as_many_turns_as_fit(columns: int, lines: int) -> None:
    replies = [f"reply {number}" for number in range(1, 101)]
    notes = ["One line was damaged."]
    rows = printed(results.Opened("talk", conversation_of(*replies), notes), columns, lines)
    assert lines - PROMPT_ROWS - 3 < len(rows) <= lines - PROMPT_ROWS
    first = int(next(row for row in rows if "›" in row).partition(" ")[0])
    assert f"… {first - 1} earlier turns" in " ".join(rows[:2])
    assert ["  reply 100", "! One line was damaged."] == rows[-2:]


def test_a_short_session_is_shown_whole_with_its_thinking_folded() -> None:
    rows = printed(results.Opened("talk", conversation_of("Hi.", thinking="hm")), 80, 24)
    assert ["talk · 1 turn · 3 h ago", "", "1 › question 1", "  ✻ Thought · Ctrl-T shows it", "  Hi."] == rows
    assert ["talk · no turns yet"] == printed(results.Opened("talk", Conversation("2031-11-03")), 80, 24)


def test_folded_thinking_is_told_as_it_was_when_it_came() -> None:
    conversation = conversation_of("Hi.", thinking="hm")
    conversation.note("a1", {"thinking_tokens": 20, "thinking_seconds": 2.0, "generation_tps": 7.0})
    rows = printed(results.Opened("talk", conversation), 80, 24)
    assert "  ✻ Thought for 2.0 s, 20 tokens · Ctrl-T shows it" == rows[3]


def test_a_tool_call_is_told_as_it_was_when_it_came() -> None:
    call, before = '<tool_call>{"name": "search"}</tool_call>', "I *look*: 👩‍👩‍👧\n\n"
    conversation = conversation_of(before + call + "\n\nWait.")
    place = {"start": len(before), "end": len(before + call)}
    conversation.note("a1", {"tool_calls": [{**place, "name": "search", "arguments": '{"q": 1}'}]})
    shown = [
        "  I look: 👩‍👩‍👧",
        '  ⚙ calls search({"q": 1}), which chatcli does not run',
        "  Wait.",
    ]
    assert shown == printed(results.Opened("talk", conversation), 80, 24)[3:]
    assert shown == printed(results.Transcript("talk", conversation), 80, 24)[3:]
    entry = portable_entry(conversation.entries["a1"])
    rows = [row.plain for row in reply_rows(entry, layout_console(80))]
    assert shown[1:] == rows[1:] and "<tool_call>" not in rows[0]
    assert call in piped(results.Transcript("talk", conversation))


def test_what_tools_gave_stands_between_the_replies() -> None:
    conversation = Conversation("2031-11-03")
    call = ToolCall("weather", '{"city": "Lisbon"}', "call_1", 5, 11)
    messages = [
        Message("user", "Is it warm?"),
        Message("assistant", "Well.[call]", tool_calls=(call,)),
        Message("tool", "21 degrees\nand rain", tool_call_id="call_1"),
        Message("assistant", "Yes."),
    ]
    for number, message in enumerate(messages):
        conversation.add(Entry(f"e{number}", conversation.head, message, 0.0))
    shown = [
        "1 › Is it warm?",
        "  Well.",
        '  ⚙ calls weather({"city": "Lisbon"})',
        "  ⚙ gave 21 degrees and rain",
        "  Yes.",
    ]
    assert shown == printed(results.Opened("talk", conversation), 80, 24)[2:]
    assert shown == printed(results.Transcript("talk", conversation), 80, 24)[2:]
    assert "⚙ gave 21 degrees and rain" in piped(results.Transcript("talk", conversation))


def test_a_transcript_folds_the_thinking_and_shows_it_only_if_asked() -> None:
    conversation = conversation_of("Hi.", thinking="one\ntwo")
    rows = printed(results.Transcript("talk", conversation), 80, 24)
    assert rows[0].startswith("dated 3 November 2031")
    assert ["", "1 › question 1", "  ✻ Thought · --thinking shows it", "  Hi."] == rows[1:]
    rows = printed(results.Transcript("talk", conversation, thinking=True), 80, 24)
    assert ["  ┊ one", "  ┊ two", "  Hi."] == rows[3:]


def test_going_back_shows_where_the_conversation_goes_on() -> None:
    moved = results.HeadMoved("It goes on.", "talk", conversation_of("one", "two"))
    rows = printed(moved, 80, 24)
    assert "talk · 2 turns · 3 h ago" == rows[0] and ["  two", "It goes on."] == rows[-2:]
    assert ["It goes on."] == printed(
        results.HeadMoved("It goes on.", "talk", Conversation("2031-11-03")), 80, 24
    )
    assert "It goes on.\n" == piped(moved)


def piped(result: results.Result) -> str:
    out = io.StringIO()
    Pipe(out).result(result)
    return out.getvalue()


def test_a_pipe_gets_what_was_said_to_the_byte() -> None:
    text = f"{'long ' * 60}end\n\n  * **bold**\n\n```py\nx = 1\n```\n漢字  \nend"
    conversation = conversation_of(text, "short", thinking="one\n\ntwo")
    assert f"1 › question 1\n\n{text}\n\n2 › question 2\n\nshort\n" == piped(
        results.Transcript("talk", conversation)
    )
    shown = piped(results.Transcript("talk", conversation, thinking=True))
    assert f"1 › question 1\n\n┊ one\n┊\n┊ two\n\n{text}\n\n2 ›" in shown


def test_a_pipe_that_opens_a_session_is_told_how_it_ended() -> None:
    text = piped(results.Opened("talk", conversation_of("one", "two", "three"), ["A note."]))
    assert text.startswith(
        "Session talk · 3 turns · 3 h ago\n\n… 1 earlier turn\n\n2 › question 2\n\ntwo\n\n"
    )
    assert text.endswith("three\n! A note.\n")
    assert not re.search(r" +$", text, re.MULTILINE)


def forked(turns: int) -> Conversation:
    """Turns in a line; another reply to the second question, and a reply to the third that was continued."""
    conversation = conversation_of(*(f"reply {number}" for number in range(1, turns + 1)))
    head = conversation.head
    conversation.add(Entry("other", "u2", Message("assistant", "another reply"), 0.0, "stop"))
    conversation.entries = {
        "cut": Entry("cut", "u3", Message("assistant", "rep"), 0.0, "cancelled"),
        **conversation.entries,
    }
    conversation.head = head
    return conversation


@pytest.mark.parametrize("draw", [piped, lambda result: "\n".join(printed(result, 40, 24))])
def test_a_tree_is_a_line_with_its_branches_beside_it(draw: Callable[[results.Result], str]) -> None:
    straight = draw(results.Tree("talk", conversation_of(*["reply"] * 40))).splitlines()
    assert 1 + 2 * 40 == len(straight)
    assert all(row.startswith("● ") for row in straight[1:])
    rows = draw(results.Tree("talk", forked(4))).splitlines()
    assert [
        "● 1 › question 1",
        "●     reply 1",
        "● 2 › question 2",
        "├─○     another reply",
        "●     reply 2",
        "● 3 › question 3",
        "●     reply 3",
        "● 4 › question 4",
        "●     reply 4  ◀ here",
    ] == rows[1:]


@pytest.mark.parametrize("columns", [40, 80])
def test_a_deep_tree_leaves_room_for_words(columns: int) -> None:
    conversation = conversation_of("reply")
    for depth in range(60):
        question = conversation.add(Entry(f"v{depth}", conversation.head, Message("user", "deeper"), 1.0))
        for other in "ab":
            conversation.add(Entry(f"{other}-{depth}", question.id, Message("assistant", other * 9), 1.0))
    conversation.head = "a1"
    rows = printed(results.Tree("talk", conversation), columns, 24)
    assert all(cells(row) < columns for row in rows)
    assert all("deeper" in row for row in rows if "›" in row and "question" not in row)


WIDE = "漢字かな🎉 e\u0301 👩\u200d👩\u200d👧 👍\U0001f3fd 🇵🇹 שלום עולם " * 5 + "x" * 150
WIDE_REPLY = (
    f"# {WIDE}\n\n{WIDE} [l](http://x.y/{'z' * 99})\n\n- {WIDE}\n> {WIDE}\n\n```\n{WIDE}\n```\n\n"
    f"| {WIDE} | b |\n|---|---|\n| c | {WIDE} |\n\n| a | b |\n|---|---|\n| 🇵🇹👩\u200d👧 | c |\n| ab | c |\n"
)


@pytest.mark.parametrize("columns", [24, 40, 80, 120])
def test_wide_and_joined_signs_and_long_lines_keep_their_columns(columns: int) -> None:
    conversation = conversation_of(WIDE_REPLY, thinking=WIDE)
    for result in (
        results.Opened("talk 漢字" * 9, conversation),
        results.Transcript("talk", conversation, thinking=True),
        results.Tree("talk 漢字" * 9, conversation),
    ):
        rows = [
            row for row in printed(result, columns, 400) if not row.startswith(("dated", "for templates"))
        ]
        assert [] == [row for row in rows if cells(row) >= columns]
    before, last = printed(results.Transcript("talk", conversation), columns, 24)[-2:]
    assert cells(last[: last.index("c")]) == cells(before[: before.index("c")])
