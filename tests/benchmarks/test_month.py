"""The simulated month: its counts match the disk, and every session can be resumed."""

from __future__ import annotations

import pytest

from benchmarks import month
from chatcli.bench.ours import RECOMPUTE_SECONDS

LIMIT = 10 << 30


def test_a_month_writes_and_keeps_less_than_the_other_ways() -> None:
    simulated = month.simulate(2, 20, {"qwen3.5-9b": 2}, LIMIT, 1, lambda *_: None)
    ours, snapshots, everything = simulated.ours, simulated.snapshots, simulated.everything
    assert (40, 2, 0) == (simulated.turns, simulated.sessions, ours.lost)
    assert ours.kept <= ours.written < min(snapshots.written, everything.written)
    assert ours.prefilled == snapshots.prefilled == everything.prefilled > 40 * 48
    assert 0 == everything.again <= ours.again < ours.prefilled
    assert ours.written - ours.kept == ours.evicted
    assert ours.kept <= ours.most <= ours.written
    assert "chatcli" == month.table(simulated).rows[0][0]


@pytest.mark.slow
def test_no_turn_of_a_conversation_is_further_than_a_state_may_be() -> None:
    together, apart = [each for each in month.conversations(12) if each.name.startswith("qwen3.5-9b")]
    assert 0.5 < together.longest_seconds <= RECOMPUTE_SECONDS >= apart.longest_seconds
    assert together.states <= apart.states < 12
    assert together.kept <= together.written < apart.written
