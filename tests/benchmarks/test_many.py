"""Many requests at once, beside mlx-lm's server."""

from __future__ import annotations

import pytest

from benchmarks import many
from chatcli.bench.serve import OURS, PEER, Asked, Pass


def test_ratios_are_ours_by_theirs() -> None:
    def passed(way: str, seconds: float, first: float) -> Pass:
        return Pass(way, [Asked(640, 512, 128, first, [0.01, 0.01, 0.03], "")] * 2, seconds)

    ours, peer = passed(OURS, 2.0, 0.1), passed(PEER, 3.0, 0.4)
    table = many.ratios(4, (ours, ours), (peer, peer))
    assert ("cold", "1.50", "0.25", "0.25", "3.0") == table.rows[0]


@pytest.mark.slow
def test_each_concurrency_has_prompts_of_its_own() -> None:
    shared, ratios = many.measure("pocket", [2], prompts=3, reply=8)
    assert 4 == len(shared.rows) and 2 == len(ratios.rows)
    reused = [float(row[1].split()[0]) for row in shared.rows]
    assert reused[0] < 90 < reused[1]
