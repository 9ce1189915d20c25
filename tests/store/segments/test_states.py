"""Which states stay on disk: those that take long to recompute, and the newest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chatcli.store.segments import catalog
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.segments import NEWEST_STATES, Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id

FINGERPRINT = "f" * 32
SECONDS = 0.3


def path_of(length: int) -> TokenPath:
    return TokenPath.cut(root_id(FINGERPRINT), range(length + 1), range(1, length + 1))


class Process:
    """A process that prefills a conversation of segments that each take `SECONDS`."""

    def __init__(self, folder: Path, recompute_seconds: float = 1.0) -> None:
        self.store = SegmentStore(folder, FINGERPRINT, recompute_seconds=recompute_seconds, newest_bytes=0)

    def run(self, start: int, end: int) -> TokenPath:
        """Prefill the segments from `start` to `end`, and leave."""
        if start:
            self.store.rows(path_of(start)).close()
        path = path_of(end)
        for depth in range(start + 1, end + 1):
            is_due = self.store.is_due(path.upto(depth), SECONDS, 1)
            self.put(path.upto(depth), with_state=is_due)
        self.put(path, with_state=True)
        self.store.close()
        return path

    def put(self, path: TokenPath, *, with_state: bool) -> None:
        rows = {"0.keys": Tensor.of(np.ones((1, 1, 1, 4), "f4"))}
        state = {"1.0": Tensor.of(np.ones((1, 4), "f4"))} if with_state else {}
        self.store.put(Increment(path, rows, state, "{}", SECONDS))


def states(folder: Path, path: TokenPath) -> list[int]:
    """The depths of a path that have a state."""
    kv = catalog.model_folder(folder, FINGERPRINT).path
    return [at for at, segment in enumerate(path, 1) if catalog.state_path(kv, segment.id).exists()]


def test_states_that_are_quickly_computed_again_are_not_written(tmp_path: Path) -> None:
    """Four segments take longer than a second, others begin as it does, and it can go on at its end."""
    assert [1, 5, 9, 10] == states(tmp_path, Process(tmp_path).run(0, 10))


def test_every_state_is_written_where_none_may_be_computed_again(tmp_path: Path) -> None:
    assert [1, 2, 3, 4, 5, 6] == states(tmp_path, Process(tmp_path, 0.0).run(0, 6))


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_states_that_processes_left_behind_go_when_there_are_newer_ones(tmp_path: Path, step: int) -> None:
    end = 0
    for end in range(step, 31, step):
        path = Process(tmp_path).run(end - step, end)
    kept = states(tmp_path, path)
    assert end == kept[-1]
    assert len(kept) <= 1 + end * SECONDS + NEWEST_STATES
    gaps = [at - max([0, *(each for each in kept if each <= at)]) for at in range(end + 1)]
    assert max(gaps) * SECONDS <= 1.2


def test_what_has_been_written_counts_though_it_will_be_thinned(tmp_path: Path) -> None:
    Process(tmp_path).run(0, 6)
    process = Process(tmp_path)
    process.store.rows(path_of(6)).close()
    due = [process.store.is_due(path_of(length), SECONDS, 1) for length in range(7, 11)]
    assert [False, False, False, True] == due
    process.store.close()
