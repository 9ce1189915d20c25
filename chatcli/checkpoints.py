"""Brings one live prompt cache to a prompt's position, from memory, disk or the model itself.

Refuses to know messages and terminals. A position is a segment of the prompt's chain; going from one
to the next is a prefill, and what it made is kept in memory and handed to the store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from chatcli import engine, prompt_cache
from chatcli.engine import Token
from chatcli.errors import SegmentDamaged
from chatcli.model import LoadedModel
from chatcli.prefix import Segment, common_prefix, root_id
from chatcli.prompt_cache import RowLog, Snapshot
from chatcli.settings import Sampling
from chatcli.store.segments import SegmentStore, Tensor
from chatcli.worker import Worker

# What mlx-lm and MLX raise when arrays are not those of this model's cache.
UNFIT = (KeyError, ValueError, TypeError, AttributeError)


@dataclass(frozen=True)
class Match:
    """How much of a chain can be had without the model: its first `depth` segments.

    `borrowed` more tokens were taken from other conversations' segments that begin like the next
    one. `reason` says why no more, where more had been expected.
    """

    depth: int
    in_memory: bool
    reason: str | None = None
    borrowed: int = 0


class Checkpoints:
    """The live cache, the checkpoints on its own path, and the store behind them (None: no cache)."""

    def __init__(self, worker: Worker, loaded: LoadedModel, store: SegmentStore | None) -> None:
        self.loaded = loaded
        self.store = store
        self._worker = worker
        self._log = RowLog()
        self._borrowed = 0
        self._reset()
        self._stateful = worker.call(prompt_cache.has_state, self._cache)

    @property
    def root(self) -> str:
        return root_id(self.loaded.fingerprint)

    @property
    def path(self) -> list[str]:
        """The ids of the checkpoints that the live cache has passed, oldest first."""
        return list(self._path)

    def _reset(self) -> None:
        self._cache = self._worker.call(prompt_cache.new, self.loaded.model)
        self._path: list[str] = []
        self._snapshots: dict[str, Snapshot] = {
            self.root: self._worker.call(prompt_cache.snapshot, self._cache, 0)
        }

    def match(self, chain: Sequence[Segment]) -> Match:
        """The deepest checkpoint on this chain. Memory wins a draw: it costs nothing to restore."""
        if self.store is None:
            return Match(0, False, "the cache is off")
        live = self._depth_in_memory(chain)
        if live == len(chain):
            return Match(live, True)
        if live < len(chain) - 1:
            self.store.flush()
        stored = self._depth_on_disk(chain)
        return Match(live, True) if live >= stored else Match(stored, False)

    def _depth_in_memory(self, chain: Sequence[Segment]) -> int:
        shared = 0
        while shared < min(len(chain), len(self._path)) and (
            chain[shared].id == self._path[shared]
        ):
            shared += 1
        kept = (depth for depth in range(shared, 0, -1) if chain[depth - 1].id in self._snapshots)
        return next(kept, 0)

    def _depth_on_disk(self, chain: Sequence[Segment]) -> int:
        assert self.store is not None
        whole = deepest = 0
        while whole < len(chain) and self.store.has(chain[whole].id, "rows"):
            whole += 1
            if not self._stateful or self.store.has(chain[whole - 1].id, "state"):
                deepest = whole
        return deepest

    def restore(self, chain: Sequence[Segment], prompt: Sequence[int], match: Match) -> Match:
        """Bring the live cache to the match; a damaged file makes it a shallower one, with a reason."""
        reason = match.reason
        while match.depth and not match.in_memory:
            last = chain[match.depth - 1]
            try:
                self._load(chain[: match.depth], prompt)
                break
            except SegmentDamaged as error:
                reason = reason or f"the checkpoint at token {last.end} is {error}"
                match = self.match(chain[: match.depth - 1])
        else:
            self._rewind(chain[: match.depth])
        return replace(match, reason=reason, borrowed=self._borrow(chain, match.depth, prompt))

    def _borrow(self, chain: Sequence[Segment], depth: int, prompt: Sequence[int]) -> int:
        """Take the rows that the next segment shares with others, in whole chunks.

        Whole chunks, because the rest is then prefilled as a cold run would: the same bits.
        A state cannot be cut, so a model with state has nothing to borrow.
        """
        self._log, self._borrowed = RowLog(), 0
        if self.store is None or self._stateful or depth == len(chain):
            return 0
        shared, count = self._shared_rows(self.store, chain[depth], prompt)
        count -= count % self.loaded.prefill_step
        if not count:
            return 0
        try:
            rows = [self.store.get(part, tokens, "rows")[0] for part, tokens in shared]
            self._worker.call(prompt_cache.append, self._cache, self._log, rows, count)
        except (SegmentDamaged, *UNFIT):
            self.rewind()
            return 0
        self._borrowed = count
        return count

    def _shared_rows(
        self, store: SegmentStore, segment: Segment, prompt: Sequence[int]
    ) -> tuple[list[tuple[Segment, list[int]]], int]:
        """Segments, with their tokens, that follow the same parent and begin as `segment` does,
        and how many tokens they share with it."""
        wanted = list(prompt[segment.start : segment.end])
        found: list[tuple[Segment, list[int]]] = []
        parent, count = segment.parent, 0
        while len(wanted) >= self.loaded.prefill_step and count < len(wanted):
            beginnings = [
                (common_prefix(tokens, wanted[count:]), other, tokens)
                for other, tokens in store.children(parent, segment.start + count)
            ]
            common, best, tokens = max(beginnings, key=itemgetter(0), default=(0, segment, []))
            if not common:
                break
            found.append((best, tokens))
            parent, count = best.id, count + common
            if common < len(tokens):
                break
        return found, count

    def _load(self, chain: Sequence[Segment], prompt: Sequence[int]) -> None:
        assert self.store is not None
        store, last = self.store, chain[-1]
        rows = self._rows_of(store, chain, prompt)
        state: dict[str, Tensor] = {}
        scalars = "{}"
        if self._stateful:
            state, scalars = store.get(last, prompt[last.start : last.end], "state")
        self._reset()
        try:
            self._worker.call(prompt_cache.fill, self._cache, rows, state, scalars, last.end)
        except UNFIT as error:
            self._reset()
            store.set_aside(chain)
            raise SegmentDamaged(f"damaged: it does not fit the model ({error})") from error
        self._remember(chain)

    def _rows_of(
        self, store: SegmentStore, chain: Sequence[Segment], prompt: Sequence[int]
    ) -> list[dict[str, Tensor]]:
        """The rows of every segment. Raises the first damage, after all the rest was looked at too,
        so that whatever is damaged is set aside and written anew."""
        rows: list[dict[str, Tensor]] = []
        damage: SegmentDamaged | None = None
        for part in chain:
            try:
                rows.append(store.get(part, prompt[part.start : part.end], "rows")[0])
            except SegmentDamaged as error:
                damage = damage or error
        if damage is not None:
            raise damage
        return rows

    def _remember(self, chain: Sequence[Segment]) -> None:
        self._path = [segment.id for segment in chain]
        last = chain[-1]
        self._snapshots[last.id] = self._worker.call(prompt_cache.snapshot, self._cache, last.end)
        self._forget_older(2)

    def _forget_older(self, keep: int) -> None:
        """Windows and states cost memory, so only the newest snapshots of the path are kept."""
        newest = set(self._path[-keep:]) | {self.root}
        self._snapshots = {name: shot for name, shot in self._snapshots.items() if name in newest}

    def _rewind(self, chain: Sequence[Segment]) -> None:
        identifier = chain[-1].id if chain else self.root
        self._worker.call(prompt_cache.rewind, self._cache, self._snapshots[identifier])
        self._path = [segment.id for segment in chain]
        self._forget_older(2)

    def rewind(self) -> None:
        """Bring the live cache back to the last checkpoint, whatever was generated since."""
        self._worker.call(
            prompt_cache.rewind, self._cache, self._snapshots[(self._path or [self.root])[-1]]
        )

    def extend(
        self, chain: Sequence[Segment], prompt: Sequence[int], cancelled: threading.Event
    ) -> Iterator[int]:
        """Prefill the last segment of `chain` and checkpoint it; the cache is at its parent.

        Yields tokens as they are done. If cancelled, the cache is back at the parent.
        """
        segment = chain[-1]
        log, borrowed = self._log if self._borrowed else RowLog(), self._borrowed
        self._borrowed = 0
        tokens = list(prompt[segment.start + borrowed : segment.end])
        for count in self._worker.stream(engine.prefill, self.loaded, self._cache, tokens, log):
            yield count
            if cancelled.is_set():
                self.rewind()
                return
        self._remember(chain)
        self._log = log

    def persist(self, segment: Segment, prompt: Sequence[int]) -> int:
        """Hand the newest checkpoint to the store's writer. Returns its bytes; 0 if it is there."""
        if self.store is None or self._path[-1:] != [segment.id]:
            return 0
        return self._worker.call(self._put, self.store, segment, prompt)

    def _put(self, store: SegmentStore, segment: Segment, prompt: Sequence[int]) -> int:
        rows = prompt_cache.cut(self._cache, self._log, segment.start, segment.end)
        state, scalars = prompt_cache.state(self._cache)
        tokens = prompt[segment.start : segment.end]
        return store.put(segment, tokens, rows, state, scalars)

    def generate(
        self, tail: Sequence[int], sampling: Sampling, room: int, cancelled: threading.Event
    ) -> Iterator[Token]:
        """Run the rest of the prompt and generate. Call `rewind` afterwards."""
        return self._worker.stream(
            engine.generate, self.loaded, self._cache, tail, sampling, room, cancelled
        )
