"""Two ranks in one process, connected by sockets: both are at the same position after every step."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatcli.checkpoints.checkpoints import Checkpoints, Purpose
from chatcli.checkpoints.plan import Plan
from chatcli.model.load import load
from chatcli.model.ranks import Place, Ranks
from chatcli.session.follower import Follower
from chatcli.settings.values import Settings
from chatcli.store.segments.catalog import cache_files
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import Worker

ENDS = [10, 20, 30]
TOKENS = [*range(5, 45)]
NEVER = threading.Event()


class Rank(Follower):
    """A rank with a whole model and a store of its own."""

    def __init__(self, ranks: Ranks, model: Path, folder: Path) -> None:
        worker = Worker()
        super().__init__(ranks, Settings(sessions=folder), worker)
        self.ranks, self.worker = ranks, worker
        loaded = worker.call(load, str(model))
        self.store = SegmentStore(folder, loaded.fingerprint)
        self.own = Checkpoints(worker, loaded, self.store, ranks=ranks)

    @property
    def _checkpoints(self) -> Checkpoints:
        return self.own

    def files(self) -> set[str]:
        self.store.flush()
        return {path.path.name for path in cache_files(self.store.location)}


class Pair:
    """Rank 0, and rank 1 on a thread of its own, which does as it is told."""

    def __init__(self, model: Path, folder: Path) -> None:
        announced: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        opened: queue.SimpleQueue[Rank] = queue.SimpleQueue()

        def broadcast(data: bytes) -> bytes:
            announced.put(data)
            return data

        def follow() -> None:
            ranks = Ranks(Place(1, 2, "127.0.0.1"))
            ranks.meet(lambda _: announced.get())
            rank = Rank(ranks, model, folder / "1")
            opened.put(rank)
            try:
                for name, arguments in ranks.commands():
                    getattr(rank, name)(**arguments)
            except Exception as error:  # whatever it is, rank 0 would wait for ever
                ranks.fail(str(error))

        self.thread = threading.Thread(target=follow)
        self.thread.start()
        ranks = Ranks(Place(0, 2, "127.0.0.1"))
        ranks.meet(broadcast)
        self.first = Rank(ranks, model, folder / "0")
        self.second = opened.get()

    def advance(self, path: TokenPath, purpose: Purpose = "turn") -> Plan:
        plan, steps = self.first.own.advance(path, NEVER, purpose)
        assert path.end - plan.tokens == sum(step.tokens for step in steps)
        self.first.own.hand_over()
        own, others = (rank.own.live.position for rank in (self.first, self.second))
        assert path.ids == own.path.ids == others.path.ids
        return plan

    def close(self) -> None:
        self.first.ranks.leave()
        self.thread.join()
        for rank in (self.first, self.second):
            rank.store.close()
            rank.worker.close()


@pytest.fixture
def pair(model: Path, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(model, tmp_path)
    yield pair
    pair.close()


def path_of(pair: Pair, tokens: list[int] = TOKENS) -> TokenPath:
    return TokenPath.cut(pair.first.own.root, tokens, ENDS)


def test_what_settles_several_boundaries_is_written_by_both(pair: Pair) -> None:
    assert "nothing" == pair.advance(path_of(pair), "settle").source
    assert pair.first.files() == pair.second.files()
    assert len(pair.first.files()) >= 1


def test_both_go_where_rank_0_plans(pair: Pair) -> None:
    whole = path_of(pair)
    other = path_of(pair, [*TOKENS[:20], *TOKENS[:20]])
    pair.advance(whole, "settle")
    assert 2 == pair.advance(other, "typeahead").depth
    back = pair.advance(whole)
    assert ("disk", 3) == (back.source, back.depth)
    assert pair.first.files() == pair.second.files()


def test_what_one_of_them_lacks_or_has_damaged_is_reused_by_none(pair: Pair) -> None:
    whole = path_of(pair)
    pair.advance(whole, "settle")
    pair.advance(path_of(pair, TOKENS[::-1]), "settle")
    pair.second.store.flush()
    for path in cache_files(pair.second.store.location):
        data = bytearray(path.path.read_bytes())
        data[-3] ^= 1
        path.path.write_bytes(data)
    plan = pair.advance(whole)
    assert (0, True) == (plan.depth, "(rank 1)" in str(plan.reason))
