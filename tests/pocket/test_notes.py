"""Tests of composed logs, plans and lists."""

from __future__ import annotations

from random import Random

from training.pocket.notes import noted
from training.pocket.values import Source
from training.pocket.written import rendered


def test_what_is_asked_of_notes_was_told_as_it_now_is() -> None:
    asked = 0
    for seed in range(300):
        source = Source(Random(seed))
        told = ""
        for exchange, turn in rendered(source, noted(source.rng), 0.0):
            if not exchange.asks:
                told += "\n" + turn.reply.lower()
            elif "Told: " in turn.thinking:
                answer = turn.thinking.partition("Told: ")[2].rstrip(".").lower()
                assert answer in told
                assert answer in turn.reply.lower()
                asked += 1
    assert asked > 300


def test_notes_that_change_are_told_before() -> None:
    for seed in range(300):
        sorts = [each.thinking.split(":")[0] for each in noted(Random(seed)).exchanges]
        assert "Changed" not in sorts[:1]
