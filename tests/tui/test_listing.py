"""The list of sessions that `chatcli list` draws: rows of one line, and names that can be told apart."""

from __future__ import annotations

import pytest
from wcwidth import wcswidth

from chatcli.commands.results import Listing
from chatcli.store.sessions.listing import Summary
from tests.tui.test_saved import printed

LONG = "hi-there-im-orla-i-live-in-cork-and-have-two-dogs"
SUMMARIES = [
    Summary(f"{LONG}-3", 12, "hi there, I'm Orla, I live in Cork with my two dogs", None, 1e9),
    Summary(f"{LONG}-2", 3, "hi there, I'm Orla, I live in Cork with my two dogs", None, 1e9),
    Summary("damaged", problem="The session 'damaged' cannot be read: no header."),
]


@pytest.mark.parametrize("columns", [36, 40, 60, 80, 100, 200])
def test_a_row_is_one_line_and_keeps_its_number(columns: int) -> None:
    heading, *rows = printed(Listing(SUMMARIES, 0, ""), columns, 24)
    assert ["session", "turns", "last", "used"] == heading.split()[:4]
    assert 3 == len(rows)
    assert max(map(wcswidth, rows)) <= columns
    assert ["3", "2"] == [row.split()[0].rpartition("-")[2] for row in rows[:2]]
    assert ["12", "3"] == [row.split()[1] for row in rows[:2]]


def test_a_name_is_whole_where_there_is_room() -> None:
    _, first, *_ = printed(Listing(SUMMARIES, 0, ""), 120, 24)
    assert first.startswith(f"{LONG}-3  12 ")


def test_what_is_left_out_is_named() -> None:
    assert (
        "… and 7 more: chatcli list --all" == printed(Listing(SUMMARIES, 7, "chatcli list --all"), 80, 24)[-1]
    )
