"""The server benchmark: prefilled tokens, also after a kill, compared with the least possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.bench import serve
from chatcli.bench.run import Plan
from chatcli.commands.results import Table

SMALL = serve.Size((200, 3), 3, 3, reply=8, shared_reply=4)


@pytest.mark.slow
def test_ours_prefills_the_least_possible_also_when_it_is_killed(recurrent: Path) -> None:
    tables: list[Table] = []
    outcome = serve.measure(Plan(str(recurrent)), lambda *_: None, tables.append, SMALL, concurrencies=(2,))
    never, killed, peer = outcome.agentic
    assert [serve.OURS, serve.KILLED, serve.PEER] == [each.way for each in outcome.agentic]
    assert never.above_least == killed.above_least == pytest.approx(1.0, abs=0.01)
    assert peer.above_least >= never.above_least
    ((cold, warm), (uncached, _), _) = outcome.shared[2]
    assert 0 == uncached.hit_ratio < cold.hit_ratio < warm.hit_ratio
    # Of a prompt that was asked before, the generation prompt.
    assert all(each.prefilled < 10 for each in warm.asked)
    assert [reply.text for reply in never.asked] == [reply.text for reply in peer.asked] != ["", "", ""]
    assert 3 == len(tables) and all(table.title.startswith("serve: ") for table in tables)


def test_what_is_left_to_run_is_measured_against_the_least() -> None:
    first = serve.Asked(100, 0, 100, 1.0, (0.1,), "Yes.")
    second = serve.Asked(150, 90, 40, 0.5, (0.1,), "No.")
    measured = serve.Pass(serve.OURS, [first, second], 2.0)
    assert (90 / 250, 160 / 140) == (measured.hit_ratio, measured.above_least)
    table = serve.conversation_table("turns, tiny", [measured])
    assert [("chatcli serve", "36.0 %", "60.0 %", "160", "1.143", "0.500 s")] == table.rows
