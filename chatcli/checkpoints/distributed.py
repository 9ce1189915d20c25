"""Checkpoints of a model that several ranks share: every rank keeps those of its own shard.

All ranks run the same code on the same tokens, or their collectives would wait for each other for
ever. So rank 0 has the others follow every step, all agree on what their disks have, and rank 0 alone
decides when to stop. A single process has plain `Checkpoints`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chatcli.checkpoints.checkpoints import Checkpoints, Match, Prefilled
from chatcli.engine.generate import Request, Token
from chatcli.engine.speculative import Speculator
from chatcli.errors import ModelBroken, RankLost, SegmentDamaged
from chatcli.kv.memory_limit import Limit, MemoryLimit, TightestLimit
from chatcli.kv.prompt_cache import RowLog
from chatcli.model import sharding
from chatcli.model.load import LoadedModel
from chatcli.model.ranks import Ranks
from chatcli.settings.values import Settings
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import StopSignal, Worker

UNBATCHED = "Several ranks generate the replies one by one."


@contextlib.contextmanager
def loading(ranks: Ranks, settings: Settings, name: str) -> Iterator[None]:
    """Connect the ranks and have all of them load model `name`. Raises `ModelBroken` or `RankLost`."""
    if ranks.leads:
        ranks.meet(sharding.broadcast)
        # On another machine the home folder may have another path.
        path, home = Path(name), Path.home()
        in_home = path.is_absolute() and path.is_relative_to(home)
        ranks.command(
            "load",
            name=str("~" / path.relative_to(home)) if in_home else name,
            model_options=asdict(settings.model_options),
            cache=settings.cache,
        )
    if ranks.size > 1 and settings.model_options.adapter_path is not None:
        raise ModelBroken(sharding.NO_ADAPTERS)
    with ranks.explained():
        yield


def open_checkpoints(
    ranks: Ranks, worker: Worker, loaded: LoadedModel, store: SegmentStore | None
) -> Checkpoints:
    """This rank's checkpoints."""
    if ranks.size == 1:
        return Checkpoints(worker, loaded, store)
    return (LeadingCheckpoints if ranks.leads else ShardedCheckpoints)(ranks, worker, loaded, store)


def tightest_limit(ranks: Ranks, own: MemoryLimit | None) -> Limit | None:
    """The limit of all ranks: the machine with the least memory decides. None where no rank has one."""
    gathered = ranks.all_gather(None if own is None else asdict(own))
    limits = tuple(MemoryLimit.from_dict(limit) for limit in gathered if limit is not None)
    if len(limits) > 1:
        return TightestLimit(limits)
    return limits[0] if limits else None


class ShardedCheckpoints(Checkpoints):
    """One rank's checkpoints. What is reused is the least that all ranks have."""

    unbatched_reason = UNBATCHED

    def __init__(self, ranks: Ranks, worker: Worker, loaded: LoadedModel, store: SegmentStore | None) -> None:
        self._ranks = ranks
        super().__init__(worker, loaded, store)
        # The layers of a pipeline's ranks may be of several kinds.
        self._rewinds_by_offset = all(ranks.all_gather(self._rewinds_by_offset))
        self._returns_to_cuts = any(ranks.all_gather(self._stateful))

    def _stored_depth(self, store: SegmentStore, path: TokenPath) -> int:
        depth = len(path)
        while True:
            own = super()._stored_depth(store, path.upto(depth))
            gathered = self._ranks.all_gather({"depth": own, "problem": store.problem})
            store.problem = next((rank["problem"] for rank in gathered if rank["problem"]), None)
            depths = {int(rank["depth"]) for rank in gathered}
            # A rank that has more may lack the state that would be needed for less.
            if len(depths) == 1:
                return depths.pop()
            depth = min(depths)

    def _load(self, path: TokenPath) -> None:
        own = None
        try:
            super()._load(path)
        except SegmentDamaged as error:
            own = error
        problems = self._ranks.all_gather(str(own) if own else None)
        if any(problems):
            self._reset()
            rank, problem = next((rank, problem) for rank, problem in enumerate(problems) if problem)
            raise SegmentDamaged(f"{problem} (rank {rank})") from own

    def _borrow(self, path: TokenPath, depth: int) -> int:
        count = super()._borrow(path, depth)
        if len(set(self._ranks.all_gather(count))) == 1:
            return count
        self.rewind()
        return 0

    def _agreed(self, seconds: float) -> float:
        return max(map(float, self._ranks.all_gather(seconds)))

    def _cut_reply(self, rest: TokenPath) -> bool:
        # The caches of some ranks may not go back by their offset alone.
        return False

    def keep_reply(self, path: TokenPath, *, expected: bool) -> tuple[str, int] | None:
        return None

    def resume_reply(self, path: TokenPath, tail: Sequence[int]) -> int:
        return 0

    def _may_go_on(self, run: Sequence[int], log: RowLog) -> bool:
        # The others send nothing before rank 0 has come to the end of the reply too.
        self._ranks.check_same(hashlib.sha256(json.dumps(run).encode()).hexdigest())
        return all(self._ranks.all_gather(super()._may_go_on(run, log)))


@dataclass(frozen=True)
class ReceivedStop:
    """The stop signal of every rank but rank 0, which rank 0 sends at each place where its own is asked."""

    ranks: Ranks

    def is_set(self) -> bool:
        return self.ranks.receive_stop()


@dataclass(frozen=True)
class BroadcastStop:
    """The stop signal of rank 0: whenever it is asked, the other ranks are sent the answer."""

    ranks: Ranks
    own: StopSignal

    def is_set(self) -> bool:
        stop = self.own.is_set()
        self.ranks.send_stop(stop)
        return stop


class LeadingCheckpoints(ShardedCheckpoints):
    """Rank 0's checkpoints: every rank does what is asked of these. Raises `RankLost` if one cannot."""

    # The prompt that the other ranks know, and its boundaries.
    _tokens: Sequence[int] = ()
    _boundaries: Sequence[int] = ()

    def match(self, path: TokenPath) -> Match:
        with self._leading():
            self._command("match", path)
            return super().match(path)

    def restore(self, path: TokenPath, match: Match) -> Match:
        with self._leading():
            self._command("restore", path, depth=match.depth, in_memory=match.in_memory)
            return super().restore(path, match)

    def accept_typeahead(self, path: TokenPath) -> None:
        with self._leading():
            self._command("accept_typeahead", path)
            super().accept_typeahead(path)

    def hand_over(self) -> int:
        with self._leading():
            self._ranks.command("hand_over")
            return super().hand_over()

    def persist_state(self) -> int:
        with self._leading():
            self._ranks.command("persist_state")
            return super().persist_state()

    def prefill(
        self, path: TokenPath, depth: int, cancelled: StopSignal, *, typeahead: bool = False
    ) -> Iterator[Prefilled]:
        with self._leading():
            self._command("prefill", path, depth=depth, typeahead=typeahead)
            stop = BroadcastStop(self._ranks, cancelled)
            yield from super().prefill(path, depth, stop, typeahead=typeahead)

    def generate(
        self,
        request: Request,
        cancelled: StopSignal,
        speculator: Speculator | None = None,
        *,
        others: StopSignal | None = None,
    ) -> Generator[Token]:
        assert speculator is None and others is None  # ranks have no draft model, and do one thing at a time
        if request.sampling.seed is None:
            sampling = replace(request.sampling, seed=secrets.randbits(32))
            request = replace(request, sampling=sampling)
        with self._leading():
            self._send_path(TokenPath(self.root, [*request.prefix, *request.tail]))
            self._ranks.command(
                "generate",
                start=len(request.prefix),
                sampling=asdict(request.sampling),
                room=request.room,
                reply_tokens=len(request.reply_start),
                generation_prompt=request.generation_prompt,
            )
            yield from super().generate(request, BroadcastStop(self._ranks, cancelled))

    def _command(self, name: str, path: TokenPath, **arguments: object) -> None:
        """Have the others do something with the path."""
        self._send_path(path)
        self._ranks.command(name, segments=len(path), **arguments)

    def _send_path(self, path: TokenPath) -> None:
        """Let the others know the path, unless they do."""
        tokens, boundaries = list(path.tokens), path.boundaries
        if tokens != self._tokens or boundaries != self._boundaries[: len(boundaries)]:
            self._tokens, self._boundaries = tokens, boundaries
            self._ranks.command("set_prompt", tokens=tokens, boundaries=boundaries)

    @contextlib.contextmanager
    def _leading(self) -> Iterator[None]:
        try:
            yield
        except GeneratorExit:
            self._ranks.cancel()
            raise
        except RankLost:
            raise
        except Exception as error:
            # The others are somewhere in the middle, and nothing brings them back from there.
            raise self._ranks.explain(error) from error
