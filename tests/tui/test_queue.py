"""What waits for its turn: how it is shown, and how it comes back to the box."""

from __future__ import annotations

import pytest
from prompt_toolkit.utils import get_cwidth

from chatcli.tui.queue import Submission, SubmissionQueue, join_for_box


def submission(text: str) -> Submission:
    return Submission(text, text, text, text.startswith("/"))


@pytest.mark.parametrize(
    ("texts", "box", "joined", "left_out"),
    [
        (["one"], "", "one", []),
        (["one", "two\nlines"], "", "one\n\ntwo\nlines", []),
        (["one"], "typed", "one\n\ntyped", []),
        (["/stats"], "", "/stats", []),
        (["/stats"], "typed", "typed", ["/stats"]),
        (["one", "/stats", "two"], "", "one\n\ntwo", ["/stats"]),
    ],
)
def test_what_comes_back_to_the_box_is_joined_and_commands_only_come_alone(
    texts: list[str], box: str, joined: str, left_out: list[str]
) -> None:
    text, commands = join_for_box([submission(text) for text in texts], box)
    assert (joined, left_out) == (text, [command.text for command in commands])


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_what_waits_fits_its_rows(columns: int) -> None:
    queue = SubmissionQueue()
    assert 0 == queue.rows
    for number in range(5):
        words = "with many words " * 9 if number % 2 else "日本語" * 40
        queue.append(submission(f"message {number} {words}"))
    rows = "".join(fragment[1] for fragment in queue.fragments(columns)).split("\n")
    assert queue.rows == len(rows) == 4
    assert "  2 more queued" == rows[0]
    assert rows[2].startswith("  queued: message")
    assert rows[3].startswith("  queued: me") and rows[3].endswith(" · ↑ edits it") == (columns > 20)
    assert all(get_cwidth(row) < columns for row in rows)
