"""Checkpoints of a model shared by several ranks: each rank keeps those of its shard.

All ranks must run the same code on the same tokens, or their collectives would wait for each other forever.
So rank 0 plans with what all ranks have, every rank executes the plan, and only rank 0 decides when to stop.
A single process is a world of one rank and sends nothing.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chatcli.checkpoints.live_cache import LiveCache
from chatcli.checkpoints.plan import Stored
from chatcli.checkpoints.writer import CheckpointWriter
from chatcli.engine.generate import GenerationRequest
from chatcli.errors import ModelBroken, RankLost
from chatcli.kv.memory_limit import Limit, MemoryLimit, TightestLimit
from chatcli.model import sharding
from chatcli.model.ranks import Ranks
from chatcli.settings.values import Settings
from chatcli.store.segments.null import NullStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import StopSignal


@contextlib.contextmanager
def loading(ranks: Ranks, settings: Settings, name: str) -> Iterator[None]:
    """Connect the ranks and have all of them load model `name`. Raises `ModelBroken` or `RankLost`."""
    if ranks.leads:
        ranks.meet(sharding.broadcast)
        # The home folder may have a different path on another machine.
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


def tightest_limit(ranks: Ranks, own: MemoryLimit | None) -> Limit | None:
    """The smallest memory limit of all ranks. None if no rank has one."""
    gathered = ranks.all_gather(None if own is None else asdict(own))
    limits = tuple(MemoryLimit.from_dict(limit) for limit in gathered if limit is not None)
    if len(limits) > 1:
        return TightestLimit(limits)
    return limits[0] if limits else None


@dataclass(frozen=True)
class ReceivedStop:
    """The stop signal of ranks other than 0, received each time that rank 0 checks its own."""

    ranks: Ranks

    def is_set(self) -> bool:
        return self.ranks.receive_stop()


@dataclass(frozen=True)
class BroadcastStop:
    """The stop signal of rank 0, which sends the answer to the other ranks each time it is checked."""

    ranks: Ranks
    own: StopSignal

    def is_set(self) -> bool:
        stop = self.own.is_set()
        self.ranks.send_stop(stop)
        return stop


class Leader:
    """On rank 0, makes the other ranks do what it does. On other ranks, or with one rank, it does nothing."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._leads = ranks.size > 1 and ranks.leads
        # The prompt and boundaries that the other ranks know.
        self._tokens: Sequence[int] = ()
        self._boundaries: Sequence[int] = ()

    @contextlib.contextmanager
    def together(self, name: str, path: TokenPath | None = None, **arguments: object) -> Iterator[None]:
        """Make the others execute a command, on `path` if given, while this rank does the same in the block.

        Raises `RankLost` if any rank fails.
        """
        if not self._leads:
            yield
            return
        try:
            if path is not None:
                self._send_path(path)
                arguments["segments"] = len(path)
            self.ranks.command(name, **arguments)
            yield
        except GeneratorExit:
            self.ranks.cancel()
            raise
        except RankLost:
            raise
        except Exception as error:
            # The others are in the middle of the command and cannot be brought back.
            raise self.ranks.explain(error) from error

    def _send_path(self, path: TokenPath) -> None:
        """Send the path to the others, unless they know it."""
        tokens, boundaries = list(path.tokens), path.boundaries
        if tokens != self._tokens or boundaries != self._boundaries[: len(boundaries)]:
            self._tokens, self._boundaries = tokens, boundaries
            self.ranks.command("set_prompt", tokens=tokens, boundaries=boundaries)

    def stop(self, own: StopSignal) -> StopSignal:
        """A stop signal that the others receive too, each time it is checked."""
        return BroadcastStop(self.ranks, own) if self._leads else own

    @contextlib.contextmanager
    def generating(self, root: str, request: GenerationRequest) -> Iterator[GenerationRequest]:
        """`together`, with a request that samples the same tokens on all ranks."""
        sampling = request.sampling
        if self._leads and sampling.seed is None:
            sampling = replace(sampling, seed=secrets.randbits(32))
        with self.together(
            "generate",
            TokenPath(root, [*request.prefix, *request.tail]),
            start=len(request.prefix),
            sampling=asdict(sampling),
            room=request.room,
            reply_tokens=len(request.reply_start),
            generation_prompt=request.generation_prompt,
            answer=request.answer and asdict(request.answer),
        ):
            yield replace(request, sampling=sampling)


class Disk:
    """The `Catalogue` of what the disks of all ranks have."""

    def __init__(self, live: LiveCache, writer: CheckpointWriter, leader: Leader) -> None:
        self._live, self._store, self._writer, self._leader = live, live.store, writer, leader

    @property
    def is_off(self) -> bool:
        """Whether checkpoints are off, including those in memory."""
        return isinstance(self._store, NullStore)

    def stored(self, path: TokenPath, passed: int) -> Stored:
        """How much of a path is stored; the live cache has its first `passed` segments."""
        store, rest = self._store, path.after(passed)
        with self._leader.together("look_up", path, passed=passed):
            self._writer.hand_over()
            if len(rest.boundaries) > 1 or store.is_queued(rest):
                store.flush()
            depth = len(path)
            while True:
                own = self._own(path.upto(depth))
                gathered = self._leader.ranks.all_gather([own.rows, own.depth, store.problem])
                store.problem = next((problem for _, _, problem in gathered if problem), None)
                depths = {depth for _, depth, _ in gathered}
                # A rank that can restore more may lack the state at a lower depth.
                if len(depths) == 1:
                    return Stored(min(rows for rows, _, _ in gathered), depths.pop())
                depth = min(depths)

    def _own(self, path: TokenPath) -> Stored:
        """What this rank has on disk, and in memory for states."""
        rows = depth = self._store.depth(path, stateful=False)
        while self._live.traits.stateful and depth and not self._has_state(path[depth - 1].id):
            depth -= 1
        return Stored(rows, depth)

    def _has_state(self, identifier: str) -> bool:
        return identifier in self._live.snapshots or self._store.has_state(identifier)

    def borrowable(self, path: TokenPath, depth: int) -> int:
        """How many tokens after segment `depth`, in whole chunks, have rows in another conversation."""
        with self._leader.together("look_up_others", path, depth=depth):
            traits = self._live.traits
            own = 0 if traits.stateful else self._store.lendable(path, traits.step, depth)
            counts = set(self._leader.ranks.all_gather(own))
            return own if len(counts) == 1 else 0

    def shared_tokens(self, path: TokenPath) -> int:
        """How many leading tokens of a path have rows on disk, whether or not they can be restored there."""
        return self._store.shared_tokens(path)
