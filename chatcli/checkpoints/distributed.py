"""Checkpoints of which every rank keeps its own shard; refuses to know how the ranks are connected.

All ranks run the same code on the same tokens, or their collectives would wait for each other for
ever. So rank 0 tells the others what is asked of it, they agree on what their disks have, and rank
0 alone decides when something is to stop.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, replace

from chatcli.checkpoints.checkpoints import Checkpoints, Match, Prefilled
from chatcli.engine.generate import Request, Token
from chatcli.engine.speculative import Speculator
from chatcli.errors import RankLost, SegmentDamaged
from chatcli.kv.memory_limit import Limit
from chatcli.kv.prompt_cache import RowLog
from chatcli.model.load import LoadedModel
from chatcli.model.ranks import Ranks
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import Worker

ONE_BY_ONE = "Several ranks generate the replies one by one."


class SharedCheckpoints(Checkpoints):
    """As one rank has them: what is reused is the least that all have."""

    one_by_one = ONE_BY_ONE

    def __init__(
        self,
        ranks: Ranks,
        worker: Worker,
        loaded: LoadedModel,
        store: SegmentStore | None,
        memory: Limit | None = None,
    ) -> None:
        self._ranks = ranks
        super().__init__(worker, loaded, store, memory)
        # The layers of a pipeline's ranks may be of several kinds.
        self._trimmed = all(ranks.gather(self._trimmed))

    def _stored(self, store: SegmentStore, path: TokenPath) -> int:
        depth = len(path)
        while True:
            own = super()._stored(store, path.upto(depth))
            found = self._ranks.gather([own, store.problem])
            store.problem = next((problem for _, problem in found if problem), None)
            depths = {had for had, _ in found}
            # A rank that has more may lack the state that would be needed for less.
            if len(depths) == 1:
                return int(depths.pop())
            depth = min(depths)

    def _load(self, path: TokenPath) -> None:
        own = None
        try:
            super()._load(path)
        except SegmentDamaged as error:
            own = error
        found = self._ranks.gather(str(own) if own else None)
        if any(found):
            self._reset()
            rank, problem = next((rank, one) for rank, one in enumerate(found) if one)
            raise SegmentDamaged(f"{problem} (rank {rank})") from own

    def _borrow(self, rest: TokenPath) -> int:
        rows = super()._borrow(rest)
        if len(set(self._ranks.gather(rows))) == 1:
            return rows
        self.rewind()
        return 0

    def _may_go_on(self, ran: Sequence[int], log: RowLog) -> bool:
        # Nothing comes back from the others before rank 0 has come to the end too.
        self._ranks.agree(hashlib.sha256(json.dumps(ran).encode()).hexdigest())
        return all(self._ranks.gather(log.complete))


class StopSignal(threading.Event):
    """Whether it is to stop, as the other ranks hear it from rank 0 at the same place."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self._ranks = ranks

    def is_set(self) -> bool:
        return self._ranks.hear()


class _Said(threading.Event):
    """Whether it is to stop, told to the other ranks whenever it is asked."""

    def __init__(self, ranks: Ranks, own: threading.Event) -> None:
        super().__init__()
        self._ranks, self._own = ranks, own

    def is_set(self) -> bool:
        return self._ranks.say(self._own.is_set())


class LeadingCheckpoints(SharedCheckpoints):
    """Those of rank 0. What it is asked for, all do. Raises `RankLost` where not all can."""

    _prompt: Sequence[int] = ()
    _ends: Sequence[int] = ()

    def match(self, path: TokenPath) -> Match:
        with self._led():
            self._order("match", path)
            return super().match(path)

    def restore(self, path: TokenPath, match: Match) -> Match:
        with self._led():
            self._order("restore", path, match.depth, match.in_memory)
            return super().restore(path, match)

    def accept_typeahead(self, path: TokenPath) -> int:
        with self._led():
            self._order("accept_typeahead", path)
            return super().accept_typeahead(path)

    def prefill(
        self, path: TokenPath, depth: int, cancelled: threading.Event, *, typeahead: bool = False
    ) -> Iterator[Prefilled]:
        with self._led():
            self._order("prefill", path, depth, typeahead)
            yield from super().prefill(path, depth, _Said(self._ranks, cancelled), typeahead=typeahead)

    def generate(
        self,
        request: Request,
        cancelled: threading.Event,
        speculator: Speculator | None = None,
    ) -> Generator[Token]:
        assert speculator is None  # a runtime with ranks has no draft model
        if request.sampling.seed is None:
            sampling = replace(request.sampling, seed=secrets.randbits(32))
            request = replace(request, sampling=sampling)
        before, said = request.before, request.said
        with self._led():
            self._order(
                "generate",
                TokenPath(self.root, [*before, *request.tail]),
                len(before),
                asdict(request.sampling),
                request.room,
                len(said),
                request.opening,
            )
            yield from super().generate(request, _Said(self._ranks, cancelled))

    def _order(self, name: str, path: TokenPath, *values: object) -> None:
        """Have the others do something with a prompt, which they are told if they have it not."""
        ends = [segment.end for segment in path]
        if list(path.tokens) != self._prompt or ends != self._ends[: len(ends)]:
            self._prompt, self._ends = list(path.tokens), ends
            self._ranks.order("prompt", self._prompt, ends)
        self._ranks.order(name, len(ends), *values)

    @contextlib.contextmanager
    def _led(self) -> Iterator[None]:
        try:
            yield
        except GeneratorExit:
            self._ranks.drop()
            raise
        except RankLost:
            raise
        except Exception as error:
            # The others are somewhere in the middle, and nothing brings them back from there.
            raise self._ranks.explain(error) from error
