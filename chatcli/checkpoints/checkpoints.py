"""Brings one live prompt cache to a position of a prompt: from memory, from disk, or by the model.

A position is the end of a segment of the prompt's `TokenPath`. Going from one to the next is a
prefill; what it made is kept in memory and handed to the store's writer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any, Literal, NamedTuple

from chatcli.engine import generate, speculative
from chatcli.engine.generate import Request, Token
from chatcli.engine.speculative import Speculator
from chatcli.errors import MemoryFull, SegmentDamaged
from chatcli.kv import prompt_cache
from chatcli.kv.expected import ExpectedCache
from chatcli.kv.memory_limit import MAX_SNAPSHOTS, Limit
from chatcli.kv.prompt_cache import PromptCache, RowLog, Snapshot, State
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.store.segments import cuts
from chatcli.store.segments.container import Tensors
from chatcli.store.segments.rows import Rows
from chatcli.store.segments.segments import Checkpoint, SegmentStore
from chatcli.store.segments.token_path import Segment, TokenPath, common_prefix, root_id, segment_id
from chatcli.threads.mlx_thread import StopSignal, Worker

# What mlx-lm and MLX raise when arrays are not those of this model's cache.
MISMATCH_ERRORS = (
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
    RuntimeError,
)
# What waits for the first token holds the windows' rows and states of so many segments, and of a prefill that
# takes longer so many seconds of it: whoever is killed loses no more than those and a segment's.
MAX_UNWRITTEN, MAX_UNWRITTEN_SECONDS = 4, 5.0
# Of a model without recurrent layers, or where the state need not be written.
NO_STATE: tuple[Tensors, str] = {}, "{}"
# What a prefill is for: a turn that someone waits for, the reply as history, or an unsent message.
Purpose = Literal["turn", "settle", "typeahead"]


@dataclass(frozen=True)
class Match:
    """How much of a path need not be prefilled: its first `depth` segments.

    Nor need the next `ahead` tokens: a prefill that was cut short has run them, or another
    conversation's segment begins alike. `reason` says why it is less than was expected. `typeahead`
    of the tokens were run while they were typed.
    """

    depth: int
    in_memory: bool
    reason: str | None = None
    ahead: int = 0
    typeahead: int = 0

    def tokens(self, path: TokenPath) -> int:
        """How many of the path's tokens this covers."""
        return path.upto(self.depth).end + self.ahead


class Prefilled(NamedTuple):
    """A step of a prefill: tokens that were run, and bytes that were handed to the store's writer."""

    tokens: int
    bytes: int


class Unwritten(NamedTuple):
    """A checkpoint at the end of `path` that is still to be cut from the live cache, and its prefill seconds.

    `log` has the windows' rows of its last segment (None: its rows are not to be written), `state` what is
    not in the cache any more when it is cut: written if `is_worth_it`, or if the store says so.
    """

    path: TokenPath
    log: RowLog | None
    state: State | None
    seconds: float
    is_worth_it: bool = False


@dataclass(frozen=True)
class TypeaheadResult:
    """The tokens of a segment that were run while its message was being typed, and their seconds."""

    tokens: int
    seconds: float


@dataclass
class PrefillSpeed:
    """How fast this model has prefilled on this machine so far."""

    tokens: int = 0
    seconds: float = 0.0

    def estimate(self, run: int, seconds: float, total: int) -> float:
        """Seconds for `total` tokens, of which `run` took `seconds` just now (the rest were there)."""
        self.tokens += run
        self.seconds += seconds
        return seconds + (total - run) * self.seconds / max(self.tokens, 1)


class Checkpoints:
    """The live cache, the checkpoints on its own path, and the store behind them (None: no cache).

    `advance` is the whole of it: match, restore, prefill, checkpoint. `generate` goes on from there.
    """

    # Why several sequences cannot be generated in a batch, whatever the model; None: they can.
    unbatched_reason: str | None = None
    # While it is set, a prefill lets other work run between two layers; None: there is none.
    others: StopSignal | None = None

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
        self._expected = loaded.expected or ExpectedCache(loaded.model, loaded.model_options)
        self._log = RowLog()
        self._speed = PrefillSpeed()
        self._newest_path: TokenPath | None = None
        self._snapshots: dict[str, Snapshot] = {}
        # Made by typeahead for a message that is not sent, and by a turn before its first token.
        self._unsent: list[Unwritten] = []
        self._unwritten: list[Unwritten] = []
        self._written_bytes = 0
        self._reset()
        # Whether this model generates the same tokens in a batch; None: not tried yet.
        self.exact_in_batch: bool | None = None
        self._stateful = worker.call(prompt_cache.has_state, self._cache)
        self._returns_to_cuts = self._stateful
        self._decodes_as_prefilled = worker.call(prompt_cache.decodes_as_prefilled, self._cache)
        self._rewinds_by_offset = worker.call(prompt_cache.rewinds_by_offset, self._cache)

    def _reset(self) -> None:
        """An empty live cache. Snapshots of other paths have states that need not be read.

        `_ahead` are the tokens that it holds after its last checkpoint; typeahead ran `_ahead_typed` of them.
        """
        loaded = self.loaded
        self._cache = self._worker.call(prompt_cache.new, loaded.model, loaded.model_options)
        self._live: list[str] = []
        self._live_path = TokenPath(self.root, [])
        self._ahead: list[int] = []
        self._ahead_typed = 0
        # What the last reply has run after the checkpoint, and the tokens of that before the reply's first.
        self._reply: list[int] = []
        self._reply_start = 0
        for unsent in self._unsent:
            self._snapshots.pop(unsent.path.id, None)
        self._unsent = []
        self._typeahead: dict[str, TypeaheadResult] = {}
        self._path_seconds: dict[str, float] = {self.root: 0.0}
        self._snapshots[self.root] = self._worker.call(prompt_cache.snapshot, self._cache, 0)

    @property
    def root(self) -> str:
        return root_id(self.loaded.fingerprint)

    def cut(self, tokens: Sequence[int], boundaries: Sequence[int]) -> TokenPath:
        """A prompt's path; the hashes that the path before has are not computed again."""
        distance = cuts.distance(self.loaded.prefill_step)
        self._newest_path = TokenPath.cut(self.root, tokens, boundaries, self._newest_path, distance)
        return self._newest_path

    @property
    def stateful(self) -> bool:
        """Whether the model has recurrent state, which is not on disk at every checkpoint."""
        return self._stateful

    @property
    def live_ids(self) -> list[str]:
        """The ids of the checkpoints that the live cache has passed, oldest first."""
        return list(self._live)

    @property
    def worker(self) -> Worker:
        """The thread that what `fork` returns belongs to."""
        return self._worker

    def fork(self) -> PromptCache:
        """The live cache a second time, to be run on its own."""
        return self._worker.call(prompt_cache.fork, self._cache)

    def room(self, used: int, most: int) -> int:
        """How many of `most` more tokens fit the memory after `used` ones; at least 1."""
        return most if self.memory is None else max(self.memory.max_tokens(used + most) - used, 1)

    @contextlib.contextmanager
    def _reset_if_out_of_memory(self) -> Iterator[None]:
        """Where memory ends half-way the live cache cannot be trusted, and its memory is needed."""
        try:
            yield
        except MemoryFull:
            self._snapshots = {}
            self._unwritten = []
            self._reset()
            raise

    def advance(
        self, path: TokenPath, cancelled: StopSignal, purpose: Purpose = "turn"
    ) -> tuple[Match, Iterator[Prefilled]]:
        """Bring the live cache to the end of `path`: match, restore, prefill, checkpoint.

        Returns what was there already, restored, and the prefill of the rest: nothing of it runs
        before it is iterated. Setting `cancelled` ends it after the current chunk, and what is done
        is kept. A turn writes what typeahead has kept in memory only. Nobody waits for what a turn
        writes: that comes with its first token, or with `hand_over`; where reading takes long, on the way,
        and when it is cancelled. Raises `MemoryFull` before anything
        is touched where it would not fit.
        """
        match = self.match(path)
        self.check(path, match.depth)
        match = self.restore(path, match)
        return match, self._advance(path, match.depth, cancelled, purpose)

    def _advance(
        self, path: TokenPath, depth: int, cancelled: StopSignal, purpose: Purpose
    ) -> Iterator[Prefilled]:
        self._forget_older_snapshots(len(path.tokens))
        if purpose == "turn":
            self.accept_typeahead(path.upto(depth))
        for step in self.prefill(path, depth, cancelled, typeahead=purpose == "typeahead"):
            yield step
            if purpose != "turn" and self._unwritten and not self._unwritten[-1].path[-1].on_the_way:
                yield Prefilled(0, self.hand_over())
        if purpose != "turn" or cancelled.is_set():
            yield Prefilled(0, self.hand_over())

    # Match

    def match(self, path: TokenPath) -> Match:
        """The deepest checkpoint on this path. Memory wins a draw: it costs nothing to restore."""
        self._hand_over()
        if self.store is None:
            return Match(0, False, "the cache is off")
        live = self._live_depth(path)
        if not self._rewinds_by_offset:
            kept = (depth for depth in range(live, 0, -1) if path[depth - 1].id in self._snapshots)
            live = next(kept, 0)
        if live == len(path):
            return Match(live, True)
        rest = path.after(live)
        if len(rest.boundaries) > 1 or self.store.is_queued(rest):
            self.store.flush()
        stored = self._stored_depth(self.store, path)
        return Match(live, True) if live >= stored else Match(stored, False)

    def _live_depth(self, path: TokenPath) -> int:
        """How many segments of a path the live cache has passed."""
        return common_prefix(path.ids, self._live)

    def _stored_depth(self, store: SegmentStore, path: TokenPath) -> int:
        """How many segments of a path the store can restore."""
        return store.depth(path, stateful=self._stateful, in_memory=self._snapshots.keys())

    def check(self, path: TokenPath, depth: int) -> None:
        """Raises `MemoryFull` if the path's prompt, matched to `depth`, would not fit."""
        if self.memory is not None:
            ends = [path.upto(depth).end, *path.after(depth).boundaries]
            longest = max((end - start for start, end in pairwise(ends)), default=0)
            self.memory.check(len(path.tokens), longest, written=self.store is not None)

    def path_seconds(self, path: TokenPath, match: Match) -> float:
        """Prefill seconds of the matched segments when they were run, without typeahead for this prompt."""
        matched = path.upto(match.depth)
        return self._path_seconds.get(matched.id, 0.0) - self._typeahead_of(matched).seconds

    def _typeahead_of(self, path: TokenPath) -> TypeaheadResult:
        """What typeahead ran of these segments, together."""
        results = [self._typeahead[segment.id] for segment in path if segment.id in self._typeahead]
        return TypeaheadResult(
            sum(result.tokens for result in results), sum(result.seconds for result in results)
        )

    # Restore

    def restore(self, path: TokenPath, match: Match) -> Match:
        """Bring the live cache to the match.

        A damaged file makes it a shallower one, with a reason.
        """
        reason = match.reason
        is_left = self._live_depth(path) <= path.beginning  # for another conversation
        if self.store is not None and is_left and (state := self._state_to_leave(self.store)):
            self._unwritten.append(state)
        while match.depth and not match.in_memory:
            matched = path.upto(match.depth)
            try:
                self._load(matched)
            except SegmentDamaged as error:
                reason = reason or f"the checkpoint at token {matched.end} is {error}"
                # Not `self.match`: with several ranks, all of them are in `restore` already.
                match = Checkpoints.match(self, path.upto(match.depth - 1))
            else:
                return replace(match, reason=reason, ahead=self._borrow(path, match.depth))
        matched = path.upto(match.depth)
        match = replace(match, reason=reason, typeahead=self._typeahead_of(matched).tokens)
        if self._goes_on(path, match.depth):
            ahead = len(self._ahead)
            return replace(match, ahead=ahead, typeahead=match.typeahead + self._ahead_typed)
        further = self._shared_further(path, match.depth)
        typed = self._typed_further(match.depth, further)
        self._rewind(matched, further)
        self._ahead_typed = typed
        ahead = further or self._borrow(path, match.depth)
        return replace(match, ahead=ahead, typeahead=match.typeahead + typed)

    def _goes_on(self, path: TokenPath, depth: int) -> bool:
        """Whether what was run after the live path's last checkpoint leads to the next boundary."""
        if not self._ahead or depth != len(self._live) or depth == len(path) or self.store is None:
            return False
        return begins_with(path.after(depth), self._ahead) or self._cut_reply(path.after(depth))

    def _cut_reply(self, rest: TokenPath) -> bool:
        """Go back to where history shows the reply otherwise than it was generated, or to a state before.

        Not where that is before its first token, as without thinking: then all of it is run, and the rows
        are those of a prefill. Nor with windows, whose rows differ by rounding when they were decoded.
        """
        if not (self._rewinds_by_offset or self._stateful):
            return False
        common = common_prefix(rest.first_tokens, self._ahead)
        if self._ahead is not self._reply or common <= self._reply_start or rest.root not in self._snapshots:
            return False
        position, state = rest[0].start + common, None
        if self._stateful:
            state = next((kept for kept in self._log.states[::-1] if kept.position <= position), None)
            if state is None or state.position <= rest[0].start + self._reply_start:
                return False
            position = state.position
        start = self._snapshots[rest.root]
        if not self._worker.call(prompt_cache.rewind_run, self._cache, self._log, start, position, state):
            return False
        self._ahead = self._ahead[: position - rest[0].start]
        return True

    def _shared_further(self, path: TokenPath, depth: int) -> int:
        """How many tokens, in whole chunks, the live cache shares with a path that it has passed to `depth`.

        Where any offset will do; not from the root, where it begins anew.
        """
        if not depth or not self._rewinds_by_offset or self.store is None:
            return 0
        # Up to the next boundary of both: from there on their chunks are others.
        shared = common_prefix(path.after(depth).first_tokens, self._live_path.after(depth).first_tokens)
        return shared - shared % self.loaded.prefill_step

    def _typed_further(self, depth: int, further: int) -> int:
        """How many of these tokens, `further` than the live path's first segments, typeahead ran."""
        rest = self._live_path.after(depth)
        if not further:
            return 0
        end, typed = rest[0].start + further, 0
        for segment in rest:
            ran = self._typeahead.get(segment.id)
            # What it did not run comes first.
            start = segment.end - (ran.tokens if ran is not None else 0)
            typed += max(min(segment.end, end) - start, 0)
        return typed

    def _rewind(self, path: TokenPath, further: int = 0) -> None:
        """Bring the live cache back to the end of a path that it has passed, and so many tokens `further`."""
        if not path:
            # Not the buffers of another conversation: CUDA plans attention anew for each chunk in those.
            self._cache = self._worker.call(prompt_cache.new, self.loaded.model, self.loaded.model_options)
            snapshot = self._worker.call(prompt_cache.snapshot, self._cache, 0)
        elif self._rewinds_by_offset:
            snapshot = prompt_cache.snapshot_at(self._cache, path.end + further)
        else:
            snapshot = self._snapshots[path.id]
        self._worker.call(prompt_cache.rewind, self._cache, snapshot)
        tokens = path.tokens[path.end : path.end + further]
        self._go_to(path, snapshot)
        self._ahead, self._ahead_typed = list(tokens), 0
        self._log = RowLog()

    def _borrow(self, path: TokenPath, depth: int) -> int:
        """Take the rows up to the next boundary that another conversation has too, in whole chunks.

        Whole chunks, because the rest is then prefilled as a cold run would: the same bits.
        A state cannot be cut, so a model with state has nothing to borrow.
        """
        if depth == len(path):
            return 0
        self._log = RowLog()
        if self.store is None or self._stateful:
            return 0
        rows = self.store.rows_of_other_path(path, self.loaded.prefill_step, depth)
        return 0 if rows is None else self._append(self.store, path.after(depth), rows, *NO_STATE)

    def _append(self, store: SegmentStore, rest: TokenPath, rows: Rows, state: Tensors, scalars: str) -> int:
        """Add rows of the beginning of `rest`, and the state at their end. Returns how many, 0 if damaged."""
        try:
            with rows, self._reset_if_out_of_memory(), device.explained():
                try:
                    self._worker.call(self._expected.check_rows, rows)
                except SegmentDamaged:
                    store.set_aside_rows(rows)
                    return 0
                self._worker.call(prompt_cache.append, self._cache, self._log, rows, state, scalars)
                self._worker.call(self._expected.try_out, self._cache)
        except (SegmentDamaged, OSError, *MISMATCH_ERRORS):
            self.rewind()
            return 0
        self._ahead = rest.first_tokens[: rows.count]
        self._ahead_typed = 0
        return rows.count

    def _load(self, path: TokenPath) -> None:
        """Read a path's rows, and the state at its end, from disk.

        Raises `SegmentDamaged`.
        """
        assert self.store is not None
        store, last = self.store, path[-1]
        state, scalars = NO_STATE
        if self._stateful and last.id in self._snapshots:
            state, scalars = self._worker.call(prompt_cache.state, self._cache, self._kept_state(path))
        elif self._stateful:
            state, scalars = store.state(last)
            try:
                self._worker.call(self._expected.check_state, state, scalars, path.end)
            except SegmentDamaged as error:
                store.set_aside_state(last)
                raise SegmentDamaged(f"damaged: {error}") from error
        with store.rows(path) as rows:
            try:
                self._worker.call(self._expected.check_rows, rows)
            except SegmentDamaged as error:
                store.set_aside_rows(rows)
                raise SegmentDamaged(f"damaged: {error}") from error
            self._keep_shared_rows(path)
            try:
                with self._reset_if_out_of_memory(), device.explained():
                    self._worker.call(prompt_cache.fill, self._cache, rows, state, scalars)
                    self._worker.call(self._expected.try_out, self._cache)
            except SegmentDamaged as error:
                self._reset()
                store.set_aside_damaged(path)
                raise SegmentDamaged(f"damaged: {error}") from error
            except OSError as error:
                self._reset()
                raise SegmentDamaged(f"unreadable: {error.strerror}") from error
            except MISMATCH_ERRORS as error:
                self._reset()
                store.set_aside_all(path)
                raise SegmentDamaged(f"damaged: it does not fit the model ({error})") from error
            store.touch(rows, last)
            self._path_seconds[last.id] = rows.seconds
        self._remember(path)

    def _keep_shared_rows(self, path: TokenPath) -> None:
        """A new cache with the rows that the live one shares with a path: they are not read again."""
        shared, live, seconds = path.upto(self._live_depth(path)), self._cache, self._path_seconds
        self._reset()
        if shared:
            self._worker.call(prompt_cache.move_rows, live, self._cache, shared.end)
            self._path_seconds = seconds

    def _remember(self, path: TokenPath, *, is_there: bool = True) -> None:
        """The live cache is at the end of this path, or was: keep a snapshot to come back to if it is."""
        call, cache = self._worker.call, self._cache
        self._go_to(path, call(prompt_cache.snapshot, cache, path.end) if is_there else None)

    def _go_to(self, path: TokenPath, snapshot: Snapshot | None) -> None:
        """The live cache is at the end of this path, where `snapshot` was taken. None: it has run further."""
        last = self._live_path[-1] if self._live_path else None
        # Windows are read from disk with the rows, once they are there.
        may_return = self._returns_to_cuts or any(each.path.id == self._live_path.id for each in self._unsent)
        if last is not None and last.on_the_way and not (last.keeps_state and may_return):
            self._snapshots.pop(last.id, None)
        self._live, self._live_path = path.ids, path
        self._unsent = [each for each in self._unsent if each.path.id in self._live]
        if snapshot is not None:
            self._snapshots.pop(path.id, None)
            self._snapshots[path.id] = snapshot  # the newest is the last
        self._forget_older_snapshots(path.end)

    def _forget_older_snapshots(self, tokens: int) -> None:
        """Keep the snapshots that fit the memory beside a cache of so many tokens, the newest ones."""
        last = self._live[-1:]
        passed = (
            segment.id
            for segment in reversed(self._live_path.segments)
            if not segment.on_the_way or [segment.id] == last
        )
        newest, live = {*islice(passed, MAX_SNAPSHOTS), self.root}, {*self._live}
        # Windows are read from disk with the rows. An unsent message may have changed.
        unsent = {each.path.id for each in self._unsent if not each.path[-1].on_the_way}
        older = [
            key
            for key in self._snapshots
            if key not in newest and key not in unsent and (self._stateful or key in live)
        ]
        room = len(older)
        if self._rewinds_by_offset:
            room = 0  # any offset will do
        elif self.memory is not None:
            room = self.memory.max_snapshots(tokens) - MAX_SNAPSHOTS
        newest.update(older[max(len(older) - room, 0) :])
        self._snapshots = {key: snapshot for key, snapshot in self._snapshots.items() if key in newest}

    def rewind(self) -> None:
        """Bring the live cache back to the last checkpoint that it can go to, whatever was run since."""
        live = self._live_path
        while live and not self._rewinds_by_offset and live.id not in self._snapshots:
            live = live.upto(len(live) - 1)
        self._rewind(live)

    # Prefill and checkpoint

    def prefill(
        self, path: TokenPath, depth: int, cancelled: StopSignal, *, typeahead: bool = False
    ) -> Iterator[Prefilled]:
        """Go on from the end of segment `depth` to the end of `path`, a checkpoint at a time.

        What `typeahead` has run after the last boundary but one is not written before its message is sent.
        """
        for end in range(depth + 1, len(path) + 1):
            unsent = typeahead and end > path.last_start
            for count in self.extend(path.upto(end), cancelled, typeahead=typeahead, unsent=unsent):
                yield Prefilled(count, 0)
            if is_much(self._unwritten, self.memory.max_snapshots(path.end) if self.memory else 0):
                self._hand_over()
            if cancelled.is_set():
                return

    def extend(
        self, path: TokenPath, cancelled: StopSignal, *, typeahead: bool = False, unsent: bool = False
    ) -> Iterator[int]:
        """Prefill the last segment of `path` and checkpoint it; the cache is at its parent or ahead.

        Yields tokens as they are done, 0 where `others` may run. If cancelled before the end, what is done is
        kept for a next segment that begins alike. An `unsent` segment may still change, and is kept in memory
        only.
        """
        segment = path[-1]
        tokens = path.tokens_of(segment)
        # A reply, or what was borrowed, may lead beyond this segment.
        done, beyond = min(len(self._ahead), len(tokens)), self._ahead[len(tokens) :]
        log, further = self._log.split(len(tokens)) if done else (RowLog(), RowLog())
        typed = self._ahead_typed if typeahead else 0
        self._ahead, self._ahead_typed = [], 0
        left = len(tokens) - done
        started, paused = time.perf_counter(), 0.0
        steps = self._worker.stream(
            generate.prefill, self.loaded, self._cache, tokens, log, done, self.others
        )
        with self._reset_if_out_of_memory():
            for count in steps:
                done += count
                if typeahead:
                    typed += count
                before = time.perf_counter()
                yield count
                paused += time.perf_counter() - before
                if count and cancelled.is_set() and done < len(tokens):
                    self._ahead, self._ahead_typed, self._log = tokens[:done], typed, log
                    return
        seconds = self._speed.estimate(left, time.perf_counter() - started - paused, len(tokens))
        self._path_seconds[segment.id] = self._path_seconds.get(segment.parent, 0.0) + seconds
        self._remember(path, is_there=not beyond)
        if self.store is not None:
            state = self._kept_state(path) if self._stateful and not beyond else None
            waiting = self._unsent if unsent else self._unwritten
            if waiting and not waiting[-1].path[-1].keeps_state:
                # It was there for the case that the prefill is interrupted.
                waiting[-1] = waiting[-1]._replace(state=None)
            waiting.append(Unwritten(path, log, state, self._agreed(seconds)))
        if typeahead:
            self._typeahead[segment.id] = TypeaheadResult(typed, seconds * typed / len(tokens))
        if beyond:
            self._ahead, self._log = beyond, further

    def _agreed(self, seconds: float) -> float:
        """Prefill seconds that all ranks agree on, so that each finds the same states worth their bytes."""
        return seconds

    def accept_typeahead(self, path: TokenPath) -> None:
        """The message is sent: what was kept in memory only is to be written."""
        self._typeahead = {}
        unsent, self._unsent = self._unsent, []
        self._unwritten += [each for each in unsent if each.path.id in self._live]

    def hand_over(self) -> int:
        """Hand the checkpoints that were made to the store's writer.

        Returns the bytes of all that was handed over since the last call.
        """
        self._hand_over()
        size, self._written_bytes = self._written_bytes, 0
        return size

    def _hand_over(self) -> None:
        if self._unwritten:
            self._worker.call(self._put_unwritten)

    def _put_unwritten(self) -> None:
        """On the worker's thread, also between two tokens of a reply."""
        unwritten, self._unwritten = self._unwritten, []
        for run in runs(unwritten):
            if self.store is not None:
                size = self._put(self.store, run)
                if run[0].log is None:
                    self.store.upkeep_bytes += size
                else:
                    self._written_bytes += size

    def _put(self, store: SegmentStore, run: Sequence[Unwritten]) -> int:
        """Write the rows of consecutive segments as one file, then the states that are worth it."""
        size = self._put_rows(store, run) if run[0].log is not None else 0
        for own, log, kept, seconds, is_worth_it in run:
            if log is not None:
                store.took(own, seconds)
            if kept is not None and (is_worth_it or store.is_due(own, seconds, kept.nbytes)):
                state, scalars = self._serialized(store, kept)
                size += store.put(Checkpoint(own, {}, state, scalars, seconds), rows_missing=False)
        return size

    def _put_rows(self, store: SegmentStore, run: Sequence[Unwritten]) -> int:
        path, size = run[-1].path, 0
        first = len(path) - len(run) + 1
        missing = store.missing(path)
        if prompt_cache.keeps_all_rows(self._cache):
            # Another process evicted or deleted rows of the live path: without them the rest is lost too.
            for earlier in (path.upto(depth) for depth in missing if depth < first):
                rows = prompt_cache.segment_rows(self._cache, RowLog(), earlier[-1].start, earlier.end)
                size += store.put(Checkpoint(earlier, rows, *NO_STATE, run[-1].seconds), rows_missing=True)
        run = run[next((depth - first for depth in missing if depth >= first), len(run)) :]
        if not run:
            return size
        log = RowLog.joined([each.log for each in run if each.log is not None])
        rows = prompt_cache.segment_rows(self._cache, log, run[0].path[-1].start, path.end)
        seconds = sum(each.seconds for each in run)
        return size + store.put(Checkpoint(path, rows, *NO_STATE, seconds, len(run)), rows_missing=True)

    def _kept_state(self, path: TokenPath) -> State:
        """The state at the end of a path that has a snapshot."""
        return prompt_cache.state_of(self._cache, self._snapshots[path.id])

    def _serialized(self, store: SegmentStore, state: State) -> tuple[Tensors, str]:
        """A state as `prompt_cache.state` has it. One that cannot be written ends all writing."""
        try:
            return prompt_cache.state(self._cache, state)
        except TypeError as error:
            store.give_up(f"this model's cache cannot be written: {error}")
            return NO_STATE

    def leave(self) -> None:
        """Write the state at the end of the live path unless settling has: nothing goes on from there."""
        if self.store is not None:
            self.store.upkeep_bytes += Checkpoints.persist_state(self)

    def persist_state(self) -> int:
        """Hand the state at the end of the live path to the writer, however quickly it was computed.

        The conversation is opened there, also after the process was killed. Returns its bytes; 0 if it is
        there.
        """
        self._hand_over()
        if self.store is None or not self._stateful:
            return 0
        self.store.flush()
        left = self._state_to_leave(self.store)
        return 0 if left is None else self._worker.call(self._put, self.store, [left])

    def _state_to_leave(self, store: SegmentStore) -> Unwritten | None:
        """The state at the end of the live path, unless there is none or it is on disk."""
        path, unsent = self._live_path, {each.path.id for each in self._unsent}
        while path.id in unsent:
            path = path.upto(len(path) - 1)
        if not self._stateful or not path or path.id not in self._snapshots or store.has_state(path.id):
            return None
        return Unwritten(path, None, self._kept_state(path), 0.0, is_worth_it=True)

    # Generate

    def keep_reply(self, path: TokenPath, *, expected: bool) -> tuple[str, int] | None:
        """Write a checkpoint near the end of the reply that was just generated after `path`.

        A reply that was cut goes on from it (`resume_reply`), which is `expected` if a person cut it. Returns
        its segment's id and its bytes. None where there is none: the reply is short, or not expected to go on
        and quickly computed again, or its rows differ by more than rounding from those of a prefill.
        """
        if self.store is None or self._ahead is not self._reply or self._live != path.ids:
            return None
        reply = self._reply_path(path, self._reply)
        if not reply:
            return None
        seconds = self._speed.estimate(0, 0.0, reply.end - path.end)
        kept = next((state for state in self._log.states if state.position == reply.end), None)
        is_due = self.store.is_due(reply, seconds)
        if self._stateful and (kept is None or not (expected or is_due)):
            return None
        # Alone: it is not to be joined with the files of the conversation's path.
        unwritten = Unwritten(reply, self._log.copy(), kept, seconds, is_worth_it=True)
        return reply.id, self._worker.call(self._put, self.store, [unwritten])

    def _reply_path(self, path: TokenPath, run: Sequence[int]) -> TokenPath:
        """A segment of what is `run` after `path`, up to a place where a state is kept; a token is left."""
        tokens = [*path.tokens[: path.end], *run]
        end = (len(tokens) - 1) // generate.STATE_TOKENS * generate.STATE_TOKENS
        if end <= path.end:
            return TokenPath(path.id, tokens)
        segment = Segment(segment_id(path.id, tokens[path.end : end]), path.id, path.end, end)
        return TokenPath(path.id, tokens, (segment,))

    def resume_reply(self, path: TokenPath, tail: Sequence[int]) -> int:
        """Restore how far `keep_reply` has kept the reply in `tail`; `generate` goes on after that.

        The live cache is at the end of `path`. Returns how many tokens these are. Where there are none, whole
        chunks of where the reply was settled will do, so that the rest is run as if all were.
        """
        if self.store is None or self._live != path.ids or self._ahead:
            return 0
        self.store.flush()
        reply = self._reply_path(path, tail)
        if not self.store.depth(reply, stateful=self._stateful):
            return self._borrow(reply, 0)
        self._log = RowLog()
        state, scalars = NO_STATE
        try:
            if self._stateful:
                state, scalars = self.store.state(reply[0])
                try:
                    self._worker.call(self._expected.check_state, state, scalars, reply.end)
                except SegmentDamaged:
                    self.store.set_aside_state(reply[0])
                    raise
            rows = self.store.rows(reply)
        except SegmentDamaged:
            return 0
        return self._append(self.store, reply, rows, state, scalars)

    def prefill_tail(self, tail: Sequence[int]) -> Iterator[int]:
        """Run `tail` but for its last token; `generate` goes on from there.

        The live cache is at the end of the path that `tail` follows. Yields tokens as they are done: where it
        is left, what is done is kept for `generate`.
        """
        tokens, log, done = list(tail[:-1]), RowLog(), 0
        steps = self._worker.stream(generate.prefill, self.loaded, self._cache, tokens, log)
        with self._reset_if_out_of_memory():
            for count in steps:
                done += count
                self._ahead, self._ahead_typed, self._log = tokens[:done], 0, log
                yield count

    def leave_live_cache(self) -> None:
        """Leave the live cache to the reply that is generated on it, and go on from the last checkpoint."""
        self._cache = self.fork()
        self.rewind()

    def generate(
        self,
        request: Request,
        cancelled: StopSignal,
        speculator: Speculator | None = None,
        *,
        others: StopSignal | None = None,
    ) -> Generator[Token]:
        """Run the rest of the prompt and generate; the cache of a `speculator` is at the same token.

        To close this early leaves the caches as the last checkpoint had them, but for a rewind.
        Where history shows the reply as it was generated, the next prefill goes on from there.
        While `others` is set, other work may run between its tokens, after `leave_live_cache` also prefills.
        """
        run_model = generate.generate
        if speculator is not None:
            run_model = partial(speculative.generate_with_draft, speculator)
        run, done, log_so_far = list(request.tail), len(self._ahead), RowLog()
        if done:
            # A reply that goes on has some of its rows already.
            request = replace(request, tail=run[done:], prefix=[*request.prefix, *run[:done]])
            log_so_far = self._log
        with self.lent(run, log_so_far, len(request.reply_start)) as (cache, log):

            def run_reply() -> Iterator[Token]:
                for token in run_model(self.loaded, cache, request, cancelled, log):
                    yield token
                    self._put_unwritten()

            worker = self._worker
            tokens = worker.pump(run_reply) if others is None else worker.pump_unless(others, run_reply)
            with contextlib.closing(tokens):
                for token in tokens:
                    run.append(token.id)
                    yield token

    @contextlib.contextmanager
    def lent(
        self, run: list[int], log: RowLog | None = None, reply_tokens: int = 0
    ) -> Iterator[tuple[PromptCache, RowLog]]:
        """The live cache, for a reply. `run` is what it holds afterwards beyond the last checkpoint.

        `log` has the windows' rows that it holds beyond it already, if there are any. The last
        `reply_tokens` of `run` are the reply's already.
        """
        log, self._ahead, cache = log or RowLog(), [], self._cache
        self._reply, self._reply_start = run, len(run) - reply_tokens
        with self._reset_if_out_of_memory():
            yield cache, log
        if cache is self._cache and self._may_go_on(run, log):
            self._worker.call(prompt_cache.reorder_windows, self._cache)
            self._ahead, self._ahead_typed, self._log = run, 0, log

    def _may_go_on(self, run: Sequence[int], log: RowLog) -> bool:
        """Whether the next prefill can begin after a reply that came to its end.

        Where its rows are other than those of a prefill, it is settled like any reply, or an uncached run
        would go on with other numbers.
        """
        return self._decodes_as_prefilled and log.complete

    def text_of(self, tokens: Sequence[int]) -> str:
        """The text of the first tokens of a reply."""
        return generate.text_of(self.loaded, tokens)

    def vocabulary_size(self) -> int:
        """How many token ids the model has: it must be run on no others."""
        return self._worker.call(self._expected.vocabulary_size) or len(self.loaded.tokenizer)

    def memory_bytes(self) -> int:
        """The bytes that the model and all caches take now."""
        return self._worker.call(device.used)

    def floats(self, scalars: Sequence[Any]) -> list[float]:
        """The logprobs of generated tokens as numbers."""
        return self._worker.call(generate.floats, scalars)


def begins_with(path: TokenPath, tokens: Sequence[int]) -> bool:
    """Whether what leads to a path's first boundary begins with these tokens."""
    return bool(path) and path.first_tokens[: len(tokens)] == list(tokens)


def is_much(unwritten: Sequence[Unwritten], max_states: int) -> bool:
    """Whether what waits to be written takes much memory, or would take long to compute again.

    There is room for `max_states` of those on the way to a boundary, if that is more than for the others.
    """
    states = sum(each.state is not None for each in unwritten)
    at_boundaries = sum(not each.path[-1].on_the_way for each in unwritten)
    seconds = sum(each.seconds for each in unwritten)
    return (
        at_boundaries > MAX_UNWRITTEN
        or states > max(max_states, MAX_UNWRITTEN)
        or seconds > MAX_UNWRITTEN_SECONDS
    )


def runs(unwritten: Sequence[Unwritten]) -> Iterator[list[Unwritten]]:
    """What is to be written, together where segments are on the way to the same boundary."""
    run: list[Unwritten] = []
    for each in unwritten:
        last = run[-1].path[-1] if run and each.log is not None and run[-1].log is not None else None
        if run and not (last is not None and last.on_the_way and last.id == each.path[-1].parent):
            yield run
            run = []
        run.append(each)
    if run:
        yield run
