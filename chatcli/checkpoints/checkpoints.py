"""Brings one live prompt cache to a prompt's position, from memory, disk or the model itself.

Refuses to know messages and terminals. A position is a segment of the prompt's chain; going from one
to the next is a prefill, and what it made is kept in memory and handed to the store.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from chatcli.checkpoints.speed import Speed
from chatcli.engine import generate, speculative
from chatcli.engine.generate import Request, Token
from chatcli.engine.speculative import Speculator
from chatcli.errors import MemoryFull, SegmentDamaged
from chatcli.kv import prompt_cache
from chatcli.kv.memory_limit import Limit
from chatcli.kv.prompt_cache import PromptCache, RowLog, Snapshot
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.store.segments import prefix
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.prefix import Segment, root_id
from chatcli.store.segments.rows import Rows
from chatcli.store.segments.segments import Checkpoint, SegmentStore
from chatcli.threads.mlx_thread import Worker

# What mlx-lm and MLX raise when arrays are not those of this model's cache.
UNFIT = (KeyError, ValueError, TypeError, AttributeError, RecursionError, OverflowError, RuntimeError)


# Places between the chunks of a draft that are remembered where each takes memory.
MOST_BORDERS = 6


@dataclass(frozen=True)
class Match:
    """How much of a chain can be had without the model: its first `depth` segments.

    `ahead` more tokens of the next segment are there too, in whole chunks: from a prefill that was
    cut short, or from another conversation's segment that begins alike. `reason` says why no more,
    where more had been expected. `drafted` of the tokens were run while they were typed.
    """

    depth: int
    in_memory: bool
    reason: str | None = None
    ahead: int = 0
    drafted: int = 0


@dataclass(frozen=True)
class TypeaheadMark:
    """A place between two chunks of a draft, to go back to when its end is changed."""

    parent: str
    tokens: list[int]
    snapshot: Snapshot
    log: RowLog


@dataclass(frozen=True)
class TypeaheadResult:
    """What of a segment was run while its message was being typed, and the seconds that it all took."""

    tokens: int
    seconds: float


class Checkpoints:
    """The live cache, the checkpoints on its own path, and the store behind them (None: no cache)."""

    # Why several sequences cannot be generated at once, if that is so for any model here.
    one_by_one: str | None = None

    def __init__(
        self,
        worker: Worker,
        loaded: LoadedModel,
        store: SegmentStore | None,
        memory: Limit | None = None,
    ) -> None:
        """`memory` None: nothing is refused before MLX itself has no more."""
        self.loaded = loaded
        self.memory = memory
        self.store = store
        self._worker = worker
        self._log = RowLog()
        self._seconds = 0.0
        self._speed = Speed()
        self._reset()
        # Whether this model was found to say the same in a batch; None: not tried yet.
        self.batches: bool | None = None
        self._stateful = worker.call(prompt_cache.has_state, self._cache)
        self._trimmed = worker.call(prompt_cache.rewinds_by_offset, self._cache)

    @property
    def root(self) -> str:
        return root_id(self.loaded.fingerprint)

    @property
    def path(self) -> list[str]:
        """The ids of the checkpoints that the live cache has passed, oldest first."""
        return list(self._path)

    @property
    def worker(self) -> Worker:
        """The thread that what `fork` returns belongs to."""
        return self._worker

    def fork(self) -> PromptCache:
        """The live cache a second time, to be run on its own."""
        return self._worker.call(prompt_cache.fork, self._cache)

    def _reset(self) -> None:
        loaded = self.loaded
        self._cache = self._worker.call(prompt_cache.new, loaded.model, loaded.model_options)
        self._path: list[str] = []
        self._ahead: list[int] = []
        self._by_draft = False
        self._unsaved: str | None = None
        self._drafted: dict[str, TypeaheadResult] = {}
        self._borders: list[TypeaheadMark] = []
        self._took: dict[str, float] = {self.root: 0.0}
        self._snapshots: dict[str, Snapshot] = {
            self.root: self._worker.call(prompt_cache.snapshot, self._cache, 0)
        }

    def check(self, chain: Sequence[Segment], depth: int, tokens: int) -> None:
        """Raises `MemoryFull` if a prompt of so many tokens, matched to `depth`, would not fit."""
        if self.memory is not None:
            longest = max((one.end - one.start for one in chain[depth:]), default=0)
            self.memory.check(tokens, longest, written=self.store is not None)

    def room(self, used: int, most: int) -> int:
        """How many of `most` tokens the memory takes beside those that are `used`; at least 1."""
        return most if self.memory is None else max(self.memory.max_tokens(used + most) - used, 1)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Where memory ends half-way, the cache is let go: it cannot be trusted, and it is large."""
        try:
            yield
        except MemoryFull:
            self._reset()
            raise

    def match(self, chain: Sequence[Segment], prompt: Sequence[int]) -> Match:
        """The deepest checkpoint on this chain. Memory wins a draw: it costs nothing to restore."""
        if self.store is None:
            return Match(0, False, "the cache is off")
        live = self._depth_in_memory(chain)
        if live == len(chain):
            return Match(live, True)
        if live < len(chain) - 1:
            self.store.flush()
        stored = self._stored(self.store, chain, prompt)
        return Match(live, True) if live >= stored else Match(stored, False)

    def _shared(self, chain: Sequence[Segment]) -> int:
        """How many segments of a chain the live cache has passed."""
        return prefix.common_prefix([segment.id for segment in chain], self._path)

    def _stored(self, store: SegmentStore, chain: Sequence[Segment], prompt: Sequence[int]) -> int:
        """How much of a chain the store has."""
        return store.depth(chain, prompt, stateful=self._stateful)

    def _depth_in_memory(self, chain: Sequence[Segment]) -> int:
        shared = self._shared(chain)
        if self._trimmed:
            return shared
        kept = (depth for depth in range(shared, 0, -1) if chain[depth - 1].id in self._snapshots)
        return next(kept, 0)

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
                match = Checkpoints.match(self, chain[: match.depth - 1], prompt)
        else:
            if self._goes_on(chain, match.depth, prompt) or self._back_to_border(chain, match.depth, prompt):
                ahead = len(self._ahead)
                drafted = self._drafted_of(chain[: match.depth]).tokens + ahead * self._by_draft
                return replace(match, reason=reason, ahead=ahead, drafted=drafted)
            self._rewind(chain[: match.depth])
            match = replace(match, drafted=self._drafted_of(chain[: match.depth]).tokens)
        return replace(match, reason=reason, ahead=self._borrow(chain, match.depth, prompt))

    def _drafted_of(self, chain: Sequence[Segment]) -> TypeaheadResult:
        """What a draft ran of these segments, together."""
        found = [self._drafted[one.id] for one in chain if one.id in self._drafted]
        return TypeaheadResult(sum(one.tokens for one in found), sum(one.seconds for one in found))

    def took(self, chain: Sequence[Segment], match: Match) -> float:
        """Seconds that the matched segments took when they were run, a draft of this prompt apart."""
        matched = chain[: match.depth]
        took = self._took.get(matched[-1].id if matched else self.root, 0.0)
        return took - self._drafted_of(matched).seconds

    def _goes_on(self, chain: Sequence[Segment], depth: int, prompt: Sequence[int]) -> bool:
        """Whether the next segment begins with what was run after the path's last checkpoint."""
        if not self._ahead or depth != len(self._path) or depth == len(chain):
            return False
        return self.store is not None and prefix.begins(chain[depth], prompt, self._ahead)

    def _back_to_border(self, chain: Sequence[Segment], depth: int, prompt: Sequence[int]) -> bool:
        """Go back to where the last draft and this prompt agree, if that is past the checkpoint."""
        if depth == len(chain):
            return False
        kept = [
            border
            for border in self._borders
            if border.parent == chain[depth].parent and prefix.begins(chain[depth], prompt, border.tokens)
        ]
        if not kept:
            return False
        self._borders, border = kept, kept[-1]
        self._worker.call(prompt_cache.rewind, self._cache, border.snapshot)
        self._path = [segment.id for segment in chain[:depth]]
        self._ahead, self._log, self._by_draft = border.tokens, border.log.copy(), True
        return True

    def _borrow(self, chain: Sequence[Segment], depth: int, prompt: Sequence[int]) -> int:
        """Take the rows that the next segment shares with others, in whole chunks.

        Whole chunks, because the rest is then prefilled as a cold run would: the same bits.
        A state cannot be cut, so a model with state has nothing to borrow.
        """
        if depth == len(chain):
            return 0
        self._log = RowLog()
        if self.store is None or self._stateful:
            return 0
        rows = self.store.like(chain, depth, prompt, self.loaded.prefill_step)
        if rows is None:
            return 0
        try:
            with rows, self._whole(), device.explained():
                self._worker.call(prompt_cache.append, self._cache, self._log, rows)
        except (SegmentDamaged, OSError, *UNFIT):
            self.rewind()
            return 0
        self._ahead = list(prompt[chain[depth].start :][: rows.count])
        self._by_draft = False
        return rows.count

    def _load(self, chain: Sequence[Segment], prompt: Sequence[int]) -> None:
        assert self.store is not None
        store, last = self.store, chain[-1]
        state: dict[str, Tensor] = {}
        scalars = "{}"
        if self._stateful:
            state, scalars = store.state(last)
        with store.rows(chain, prompt) as rows:
            self._fill(store, rows, state, scalars, chain, prompt)
            store.touch(rows, last)
            self._took[last.id] = rows.seconds
        self._remember(chain)

    def _fill(
        self,
        store: SegmentStore,
        rows: Rows,
        state: dict[str, Tensor],
        scalars: str,
        chain: Sequence[Segment],
        prompt: Sequence[int],
    ) -> None:
        self._keep(chain)
        try:
            with self._whole(), device.explained():
                self._worker.call(prompt_cache.fill, self._cache, rows, state, scalars)
        except SegmentDamaged as error:
            self._reset()
            store.examine(chain, prompt)
            raise SegmentDamaged(f"damaged: {error}") from error
        except OSError as error:
            self._reset()
            raise SegmentDamaged(f"unreadable: {error.strerror}") from error
        except UNFIT as error:
            self._reset()
            store.set_aside(chain, prompt)
            raise SegmentDamaged(f"damaged: it does not fit the model ({error})") from error

    def _keep(self, chain: Sequence[Segment]) -> None:
        """A new cache with the rows that the live one shares with a chain: they are not read again."""
        shared, live, took = self._shared(chain), self._cache, self._took
        self._reset()
        if shared:
            position = chain[shared - 1].end
            self._worker.call(prompt_cache.move_rows, live, self._cache, position)
            self._took = took

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
        shot = self._snapshot(chain)
        self._worker.call(prompt_cache.rewind, self._cache, shot)
        self._snapshots[chain[-1].id if chain else self.root] = shot
        self._path, self._ahead = [segment.id for segment in chain], []
        self._borders = []
        self._forget_older(2)

    def _snapshot(self, chain: Sequence[Segment]) -> Snapshot:
        """What was kept of the end of a chain that the live cache has passed."""
        if chain and self._trimmed:
            return prompt_cache.snapshot_at(self._cache, chain[-1].end)
        return self._snapshots[chain[-1].id if chain else self.root]

    def rewind(self) -> None:
        """Bring the live cache back to the last checkpoint, whatever was generated since."""
        self._ahead = []
        self._worker.call(prompt_cache.rewind, self._cache, self._snapshots[(self._path or [self.root])[-1]])

    def extend(
        self,
        chain: Sequence[Segment],
        prompt: Sequence[int],
        cancelled: threading.Event,
        *,
        draft: bool = False,
    ) -> Iterator[int]:
        """Prefill the last segment of `chain` and checkpoint it; the cache is at its parent or ahead.

        Yields tokens as they are done. If cancelled before the end, what is done is kept for a next
        segment that begins alike. A `draft` is not to be written before its message is sent.
        """
        segment = chain[-1]
        tokens = list(prompt[segment.start : segment.end])
        done, self._ahead = len(self._ahead), []
        log = self._log if done else RowLog()
        left = len(tokens) - done
        began = time.perf_counter()
        steps = self._worker.stream(generate.prefill, self.loaded, self._cache, tokens, log, done)
        with self._whole():
            for count in steps:
                done += count
                if draft and done < len(tokens):
                    self._mark(segment.parent, tokens[:done], log)
                yield count
                if cancelled.is_set() and done < len(tokens):
                    self._log, self._ahead, self._by_draft = log, tokens[:done], draft
                    return
        self._seconds = self._speed.of(left, time.perf_counter() - began, len(tokens))
        self._took[segment.id] = self._took.get(segment.parent, 0.0) + self._seconds
        self._remember(chain)
        self._log = log
        self._unsaved = segment.id if draft else None

    def run(
        self,
        chain: Sequence[Segment],
        prompt: Sequence[int],
        depth: int,
        cancelled: threading.Event,
        *,
        draft: bool = False,
    ) -> Iterator[tuple[int, int]]:
        """Go on from segment `depth` to the end of `chain`, a checkpoint at a time.

        Yields (tokens run, bytes that will be written). The last segment of a `draft` is not written.
        """
        for end in range(depth + 1, len(chain) + 1):
            unsent = draft and end == len(chain)
            ran = len(self._ahead) if self._by_draft else 0
            for count in self.extend(chain[:end], prompt, cancelled, draft=unsent):
                ran += count
                yield count, 0
            if draft and self._path[-1:] == [chain[end - 1].id]:
                self._drafted[chain[end - 1].id] = TypeaheadResult(ran, self._seconds)
            if not unsent:
                yield 0, self.persist(chain[:end], prompt)
            if cancelled.is_set():
                return

    def _mark(self, parent: str, tokens: list[int], log: RowLog) -> None:
        """Remember this place, and of places that take memory few, ever further apart."""
        shot = self._worker.call(prompt_cache.snapshot, self._cache, len(tokens))
        self._borders.append(TypeaheadMark(parent, tokens, shot, log.copy()))
        if not self._trimmed and len(self._borders) > MOST_BORDERS:
            self._borders = self._borders[::-2][::-1]

    def accept_draft(self, chain: Sequence[Segment], prompt: Sequence[int]) -> int:
        """The message is sent: `persist` what was kept in memory of its draft. Returns the bytes."""
        self._drafted, self._borders = {}, []
        if self._unsaved is None or [self._unsaved] != self._path[-1:]:
            return 0
        self._unsaved = None
        return self.persist(chain, prompt)

    def persist(self, chain: Sequence[Segment], prompt: Sequence[int]) -> int:
        """Hand the newest checkpoint, at the end of `chain`, to the store's writer.

        Returns its bytes; 0 if it is there.
        """
        if self.store is None or self._path[-1:] != [chain[-1].id]:
            return 0
        return self._worker.call(self._put, self.store, chain, prompt)

    def _put(self, store: SegmentStore, chain: Sequence[Segment], prompt: Sequence[int]) -> int:
        rows = prompt_cache.segment_rows(self._cache, self._log, chain[-1].start, chain[-1].end)
        try:
            state, scalars = prompt_cache.state(self._cache)
        except TypeError as error:
            store.give_up(f"this model's cache cannot be written: {error}")
            return 0
        gone = store.missing(chain, prompt)
        size = 0
        if prompt_cache.keeps_all_rows(self._cache):
            earlier = [depth for depth in gone if depth < len(chain)]
            size = sum(self._add_again(store, chain[:depth], prompt) for depth in earlier)
        made = Checkpoint(chain, prompt, rows, state, scalars, self._seconds)
        return size + store.add(made, rows=len(chain) in gone)

    def _add_again(self, store: SegmentStore, chain: Sequence[Segment], prompt: Sequence[int]) -> int:
        """What another process evicted or deleted of the live path: without it the rest is lost too."""
        rows = prompt_cache.segment_rows(self._cache, RowLog(), chain[-1].start, chain[-1].end)
        return store.add(Checkpoint(chain, prompt, rows, {}, "{}", self._seconds), rows=True)

    def generate(
        self,
        request: Request,
        cancelled: threading.Event,
        speculator: Speculator | None = None,
    ) -> Generator[Token]:
        """Run the rest of the prompt and generate; the cache of a `speculator` is at the same token.

        To close this early leaves the caches as the last checkpoint had them, but for a rewind.
        Where history shows the reply as it was generated, the next prefill goes on from there.
        """
        way = generate.generate
        if speculator is not None:
            way = partial(speculative.generate, speculator)
        ran = list(request.tail)
        with self.lent(ran) as (cache, log):
            tokens = self._worker.pump(way, self.loaded, cache, request, cancelled, log)
            with contextlib.closing(tokens):
                for token in tokens:
                    ran.append(token.id)
                    yield token

    @contextlib.contextmanager
    def lent(self, ran: list[int]) -> Iterator[tuple[PromptCache, RowLog]]:
        """The live cache, at the last checkpoint, for a reply; `ran` is to be what it holds then."""
        log, self._ahead = RowLog(), []
        with self._whole():
            yield self._cache, log
        if self._may_go_on(ran, log):
            self._worker.call(prompt_cache.reorder_windows, self._cache)
            self._ahead, self._log, self._by_draft = ran, log, False

    def _may_go_on(self, ran: Sequence[int], log: RowLog) -> bool:
        """Whether the next prefill can begin after a reply that came to its end."""
        return log.complete

    def text_of(self, said: Sequence[int]) -> str:
        """The text of the first tokens of a reply."""
        return generate.text_of(self.loaded, said)

    def floats(self, scalars: Sequence[Any]) -> list[float]:
        """The logprobs of generated tokens as numbers."""
        return self._worker.call(generate.floats, scalars)
