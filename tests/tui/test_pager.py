"""The thinking of a conversation on the whole screen: what is in sight first."""

from __future__ import annotations

from prompt_toolkit.application.current import create_app_session
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput

from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.tui.pager import Pager


def first_screen(turns: list[tuple[str, str, str]]) -> list[str]:
    """The first screen of a conversation of (question, thinking, reply), at 80 by 40."""
    conversation, parent = Conversation("2025-03-01"), None
    for number, (question, thinking, text) in enumerate(turns):
        user = conversation.add(Entry(f"u{number}", parent, Message("user", question), 0))
        reply = Message("assistant", text, thinking)
        parent = conversation.add(Entry(f"a{number}", user.id, reply, 0)).id
    with create_app_session(DummyInput(), DummyOutput()):
        pager = Pager(conversation)
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
