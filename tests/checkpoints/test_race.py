"""A read is given up where running the tokens would be sooner, and a turn goes on as if nothing was there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.checkpoints.race import MIN_BYTES, QUICKER, ComputingIsSooner, ReadRace
from chatcli.kv import loader
from chatcli.model.load import load
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import Worker

TOTAL = 100 * MIN_BYTES


def race(compute_seconds: float, bytes_per_second: float, total: int = TOTAL) -> float | None:
    """Seconds after which a read at this pace is given up; None if it is not."""
    seconds = 0.0
    read = ReadRace(compute_seconds, lambda: seconds)
    for step in range(1, 1001):
        done = total * step // 1000
        seconds = done / bytes_per_second
        try:
            read(done, total)
        except ComputingIsSooner:
            return seconds
    return None


@pytest.mark.parametrize("times_slower", [1.2, 3.0, 50.0])
def test_a_disk_slower_than_the_model_costs_a_tenth_of_the_prefill(times_slower: float) -> None:
    given_up = race(10.0, TOTAL / (10.0 * times_slower))
    assert given_up is not None
    assert given_up <= 1.0 + 10.0 * times_slower / 1000


@pytest.mark.parametrize("times_slower", [0.01, 0.9, 1.1])
def test_a_disk_that_is_about_as_fast_is_read(times_slower: float) -> None:
    assert race(10.0, TOTAL / (10.0 * times_slower)) is None


def test_a_disk_that_falls_asleep_half_way_is_given_up() -> None:
    seconds = 0.0
    read = ReadRace(10.0, lambda: seconds)
    seconds = 2.0
    read(TOTAL // 2, TOTAL)
    seconds = 14.0
    with pytest.raises(ComputingIsSooner):
        read(TOTAL // 2 + 1, TOTAL)


def test_what_is_small_or_of_unknown_cost_is_read_however_slow() -> None:
    assert race(0.1, 1000, MIN_BYTES - 1) is None
    assert race(0.0, TOTAL / 100) is None


class SlowDisk(Checkpoints):
    """Checkpoints whose reads are given up at their first bytes."""

    def _race(self, compute_seconds: float) -> loader.Progress:
        def progress(done: int, total: int) -> None:
            raise ComputingIsSooner

        return progress


@pytest.mark.parametrize("model", ["qwen3", "qwen3_5"], indirect=True)
def test_a_turn_that_gave_up_reading_goes_on_by_computing(model: Path, tmp_path: Path) -> None:
    worker = Worker()
    loaded = worker.call(load, str(model))
    never = threading.Event()
    tokens = [*range(5, 45)]

    def run(kind: type[Checkpoints], store: SegmentStore, ends: list[int]) -> tuple[object, int]:
        checkpoints = kind(worker, loaded, store)
        match, steps = checkpoints.advance(TokenPath.cut(checkpoints.root, tokens, ends), never)
        run = sum(step.tokens for step in steps)
        checkpoints.hand_over()
        store.flush()
        assert ends[-1] == match.tokens(TokenPath.cut(checkpoints.root, tokens, ends)) + run
        return match.reason, run

    store = SegmentStore(tmp_path, loaded.fingerprint)
    assert (None, 30) == run(Checkpoints, store, [10, 30])
    assert (QUICKER, 39) == run(SlowDisk, store, [10, 30, 39])
    assert (None, 0) == run(Checkpoints, store, [10, 30, 39])
    store.close()
    worker.close()
