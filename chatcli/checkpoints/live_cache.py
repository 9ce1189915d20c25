"""The prompt cache that turns run on, its position, and snapshots of the checkpoints that it has passed.

Only `LiveCache` moves it: `apply` executes a plan, `extend` prefills a segment, and a reply borrows it
between `begin_reply` and `end_reply`. Call everything here on the thread that owns MLX.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from chatcli.checkpoints.plan import CacheTraits, Plan, Position
from chatcli.engine import generate
from chatcli.errors import MemoryFull, SegmentDamaged
from chatcli.kv import prompt_cache
from chatcli.kv.expected import ExpectedCache
from chatcli.kv.leaf import OffsetRows, Window, leaves, rows_in, windows_in
from chatcli.kv.memory_limit import MAX_SNAPSHOTS, Limit
from chatcli.kv.prompt_cache import PromptCache, RowLog, Snapshot
from chatcli.model import device
from chatcli.model.load import LoadedModel
from chatcli.model.ranks import Ranks
from chatcli.store.segments.container import Tensors
from chatcli.store.segments.null import NullStore
from chatcli.store.segments.rows import Rows
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath, common_prefix, root_id
from chatcli.threads.mlx_thread import StopSignal

# The errors of mlx-lm and MLX for arrays that do not fit this model's cache.
MISMATCH_ERRORS = (
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
    RuntimeError,
)
# For models without recurrent layers, and where no state is written.
NO_STATE: tuple[Tensors, str] = {}, "{}"
# How many prefills say how fast the next one will be, and what is assumed before the first.
NEWEST_PREFILLS, UNKNOWN_SECONDS_PER_TOKEN = 8, 1e-3


class Unwritten(NamedTuple):
    """The last segment of `path`, not yet written. Its plain rows are sliced from the live cache later.

    `log` has the windows' rows (None: only the state is written). `state` is a copy of the state at the end,
    written if `is_worth_it` or the store says that it is due. `seconds` is how long the prefill took.
    """

    path: TokenPath
    log: RowLog | None
    state: Snapshot | None
    seconds: float
    is_worth_it: bool = False


@dataclass
class PrefillSpeed:
    """This model's prefill speed on this machine so far."""

    tokens: int = 0
    seconds: float = 0.0
    # Seconds for each token of the newest ones.
    newest: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST_PREFILLS))

    @property
    def seconds_per_token(self) -> float:
        """At its best lately: the first runs compile, and short ones take as long as longer ones."""
        return min(self.newest, default=UNKNOWN_SECONDS_PER_TOKEN)

    def estimate(self, run: int, seconds: float, total: int) -> float:
        """Estimated seconds for `total` tokens, of which `run` took `seconds` just now and the rest were
        reused.
        """
        self.tokens += run
        self.seconds += seconds
        if run:
            self.newest.append(seconds / run)
        return seconds + (total - run) * self.seconds / max(self.tokens, 1)


class LiveCache:
    """One prompt cache and its `position`. With several ranks, each has its shard's, at the same position.

    `snapshots`, by id, are of checkpoints on its path, and of others while memory allows. `unwritten` are new
    checkpoints that were not handed to the store yet. While it is `private` there are none, and nothing of
    its path goes to disk.
    """

    private = False

    def __init__(
        self, loaded: LoadedModel, store: SegmentStore | NullStore, memory: Limit | None, ranks: Ranks
    ) -> None:
        self.loaded, self.store, self.memory = loaded, store, memory
        self._ranks = ranks
        self._expected = loaded.expected or ExpectedCache(loaded.model, loaded.model_options)
        self.speed = PrefillSpeed()
        self.root = root_id(loaded.fingerprint)
        self.snapshots: dict[str, Snapshot] = {}
        self.unwritten: list[Unwritten] = []
        self.position = Position(TokenPath(self.root, []))
        self._reset()
        stateful = prompt_cache.is_stateful(self.cache)
        by_offset = prompt_cache.rewinds_by_offset(self.cache)
        rewinds = all(isinstance(leaf, OffsetRows | Window) for leaf in rows_in(self.cache))
        # Ranks of a pipeline may have different kinds of layers.
        self.traits = CacheTraits(
            stateful,
            by_offset=all(ranks.all_gather(by_offset)),
            within_replies=ranks.size == 1 and rewinds and (by_offset or stateful),
            any_rank_stateful=any(ranks.all_gather(stateful)),
            step=loaded.prefill_step,
        )

    def forget(self) -> None:
        """Drop everything in memory that was run."""
        self.snapshots.clear()
        self._reset()

    def _reset(self) -> None:
        """Replace the cache by an empty one. Snapshots of other paths stay: their states are useful."""
        for segment in self.position.unsent_segments:
            self.snapshots.pop(segment.id, None)
        self.cache = prompt_cache.new(self.loaded.model, self.loaded.model_options)
        self.position = Position(TokenPath(self.root, []))
        # The seconds to prefill each segment, by id.
        self._seconds = {self.root: 0.0}
        self.snapshots[self.root] = prompt_cache.snapshot(self.cache, 0)

    @contextlib.contextmanager
    def _given_up_if_out_of_memory(self) -> Iterator[None]:
        """If memory runs out half-way, drop the live cache: it is inconsistent and its memory is needed."""
        try:
            yield
        except MemoryFull:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Free the cache and drop its unwritten segments."""
        self.snapshots, self.unwritten = {}, []
        self._reset()

    def vocabulary_size(self) -> int:
        """The number of token ids; the model must not be run on others."""
        return self._expected.vocabulary_size() or len(self.loaded.tokenizer)

    def seconds(self, path: TokenPath) -> float:
        """How long the cached segments of a path took to prefill, without typeahead."""
        seconds = self._seconds.get(path.id, 0.0)
        for segment in path if self.position.typed else ():
            typed = self.position.typed_between(segment.start, segment.end)
            own = self._seconds.get(segment.id, 0.0) - self._seconds.get(segment.parent, 0.0)
            seconds -= own * typed / (segment.end - segment.start)
        return seconds

    def state(self, path: TokenPath) -> Snapshot:
        """The state at the end of a path that has a snapshot."""
        return prompt_cache.state_of(self.cache, self.snapshots[path.id])

    # Executing a plan

    def apply(self, plan: Plan) -> Plan:
        """Move the cache as planned. Returns the plan with the number of extra tokens that were really
        restored.

        Raises `SegmentDamaged` with the reason if files are missing or damaged, and `MemoryFull`.
        """
        path = plan.path.upto(plan.depth)
        if plan.source == "disk":
            self._load_on_all_ranks(path)
        elif plan.source == "reply":
            self._back_within_reply(plan.extra)
        elif plan.source not in ("live", "kept reply"):
            self._go_back(path, () if plan.borrowed else plan.path.tokens[path.end : plan.tokens])
        if not (plan.borrowed or plan.source == "kept reply"):
            return plan
        extra = self._append_kept(plan.path) if plan.source == "kept reply" else self._borrow(plan)
        if len(set(self._ranks.all_gather(extra))) > 1:
            self.rewind()
            extra = 0
        return replace(plan, extra=extra, borrowed=extra > 0)

    def rewind(self) -> None:
        """Go back to the last checkpoint that the cache can return to, dropping everything run since."""
        path = self.position.path
        while path and not self.traits.by_offset and path.id not in self.snapshots:
            path = path.upto(len(path) - 1)
        self._go_back(path)

    def _go_back(self, path: TokenPath, beyond: Sequence[int] = ()) -> None:
        """Go back to the end of an earlier path, and to tokens `beyond` it if setting an offset suffices."""
        if not path:
            self.cache = prompt_cache.new(self.loaded.model, self.loaded.model_options)
            snapshot = prompt_cache.snapshot(self.cache, 0)
        elif self.traits.by_offset:
            snapshot = prompt_cache.snapshot_at(self.cache, path.end)
            prompt_cache.rewind(self.cache, prompt_cache.snapshot_at(self.cache, path.end + len(beyond)))
        else:
            snapshot = self.snapshots[path.id]
            prompt_cache.rewind(self.cache, snapshot)
        self._go_to(self.position.at(path, list(beyond)), snapshot)

    def _back_within_reply(self, count: int) -> None:
        """Go back to the first `count` tokens of what a reply has run, and to the state there."""
        position = self.position
        end = position.path.end + count
        state = next((state for state in position.log.states if state.position == end), None)
        prompt_cache.rewind_run(self.cache, position.log, self.snapshots[position.path.id], end, state)
        self.position = replace(position.at(position.path, position.beyond[:count]), log=position.log)

    def _load_on_all_ranks(self, path: TokenPath) -> None:
        """`_load`, on all ranks or none. Raises `SegmentDamaged`."""
        own = None
        try:
            self._load(path)
        except SegmentDamaged as error:
            own = error
        problems = enumerate(self._ranks.all_gather(str(own) if own else None))
        for rank, problem in problems:
            if problem and self._ranks.size > 1:
                self._reset()
                raise SegmentDamaged(f"{problem} (rank {rank})") from own
        if own is not None:
            raise own

    def _load(self, path: TokenPath) -> None:
        """Read a path's rows, and the state at its end, from disk. Raises `SegmentDamaged`."""
        store, last = self.store, path[-1]
        assert isinstance(store, SegmentStore)
        state, scalars = NO_STATE
        if self.traits.stateful and last.id in self.snapshots:
            state, scalars = prompt_cache.state(self.cache, self.state(path))
        elif self.traits.stateful:
            state, scalars = self._stored_state(store, path)
        with store.rows(path) as rows:
            self._check(store, rows)
            # Rows that the live cache shares with the path are kept; the others are freed and read.
            shared = path.upto(common_prefix(path.ids, self.position.path.ids))
            live, seconds = self.cache, self._seconds
            self._reset()
            if shared:
                prompt_cache.move_rows(live, self.cache, shared.end)
                self._seconds = seconds
            del live
            try:
                with self._given_up_if_out_of_memory(), device.explained():
                    prompt_cache.fill(self.cache, rows, state, scalars)
                    self._expected.try_out(self.cache)
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
            if not self.private:
                store.touch(rows, last)
            self._seconds[last.id] = rows.seconds
        self._go_to(Position(path), prompt_cache.snapshot(self.cache, path.end))

    def _stored_state(self, store: SegmentStore, path: TokenPath) -> tuple[Tensors, str]:
        """The state at the end of a path on disk, checked. Raises `SegmentDamaged`."""
        state, scalars = store.state(path[-1])
        try:
            self._expected.check_state(state, scalars, path.end)
        except SegmentDamaged as error:
            store.set_aside_state(path[-1])
            raise SegmentDamaged(f"damaged: {error}") from error
        return state, scalars

    def _check(self, store: SegmentStore, rows: Rows) -> None:
        """Raises `SegmentDamaged` if these rows do not fit this model's cache, and sets their files aside."""
        try:
            self._expected.check_rows(rows)
        except SegmentDamaged as error:
            store.set_aside_rows(rows)
            raise SegmentDamaged(f"damaged: {error}") from error

    def _borrow(self, plan: Plan) -> int:
        """Add rows of another conversation that match the tokens after a plan's segments.

        Only whole chunks, so that the rest is prefilled with the same chunks, and bits, as in a cold run.
        Returns the number of tokens; 0 if the files are damaged.
        """
        assert isinstance(self.store, SegmentStore)
        rows = self.store.rows_of_other_path(plan.path, self.traits.step, plan.depth)
        return 0 if rows is None else self._append(plan.path.after(plan.depth), rows, *NO_STATE)

    def _append_kept(self, reply: TokenPath) -> int:
        """Add the rows and the state from the checkpoint of a reply that was cut off."""
        assert isinstance(self.store, SegmentStore)
        try:
            stateful = self.traits.stateful
            state, scalars = self._stored_state(self.store, reply) if stateful else NO_STATE
            return self._append(reply, self.store.rows(reply), state, scalars)
        except SegmentDamaged:
            return 0

    def _append(self, rest: TokenPath, rows: Rows, state: Tensors, scalars: str) -> int:
        """Add rows for the beginning of `rest`, and the state at their end. Returns their number, 0 if
        damaged.
        """
        assert isinstance(self.store, SegmentStore)
        log = RowLog()
        try:
            with rows, self._given_up_if_out_of_memory(), device.explained():
                self._check(self.store, rows)
                prompt_cache.append(self.cache, log, rows, state, scalars)
                self._expected.try_out(self.cache)
        except (SegmentDamaged, OSError, *MISMATCH_ERRORS):
            self.rewind()
            return 0
        self.position = replace(
            self.position, beyond=rest.first_tokens[: rows.count], log=log, reply_start=None
        )
        return rows.count

    # Prefilling and generating

    def extend(
        self,
        path: TokenPath,
        cancelled: StopSignal,
        others: StopSignal | None = None,
        *,
        typeahead: bool = False,
        unsent: bool = False,
    ) -> Iterator[int]:
        """Prefill the last segment of `path` and checkpoint it. The cache must be at its parent or beyond.

        Yields the number of tokens of each step, 0 where `others` may run. If cancelled, what is done is kept
        for a later segment with the same beginning. An `unsent` segment may still change.
        """
        before, segment, tokens = self.position, path[-1], path.tokens_of(path[-1])
        # A reply or borrowed rows may extend beyond this segment.
        done, further = min(len(before.beyond), len(tokens)), before.beyond[len(tokens) :]
        log, further_log = before.log.split(len(tokens)) if done else (RowLog(), RowLog())
        self.position = before.at(before.path)
        typed = before.typed if typeahead else self.position.typed
        left, first = len(tokens) - done, segment.start + done
        started, paused = time.perf_counter(), 0.0
        with self._given_up_if_out_of_memory():
            for count in generate.prefill(self.loaded, self.cache, tokens, log, done, others):
                done += count
                stopped = time.perf_counter()
                yield count
                paused += time.perf_counter() - stopped
                if count and cancelled.is_set() and done < len(tokens):
                    run = (range(first, segment.start + done),) if typeahead else ()
                    self.position = replace(self.position, beyond=tokens[:done], log=log, typed=typed + run)
                    return
        seconds = self.speed.estimate(left, time.perf_counter() - started - paused, len(tokens))
        self._seconds[segment.id] = self._seconds.get(segment.parent, 0.0) + seconds
        run = (range(first, segment.end),) if typeahead and left else ()
        position = Position(path, typed=typed + run, unsent=self.position.unsent + unsent)
        self._go_to(position, None if further else prompt_cache.snapshot(self.cache, path.end))
        self.position = replace(position, beyond=further, log=further_log)
        state = self.state(path) if self.traits.stateful and not further else None
        if self.unwritten and not self.unwritten[-1].path[-1].keeps_state:
            # It was needed only if the prefill had been interrupted.
            self.unwritten[-1] = self.unwritten[-1]._replace(state=None)
        # All ranks must keep the same states.
        slowest = max(map(float, self._ranks.all_gather(seconds)))
        if not self.private:
            self.unwritten.append(Unwritten(path, log, state, slowest))

    def prefill_tail(self, tail: Sequence[int]) -> Iterator[int]:
        """Run all of `tail` except its last token, from the checkpoint before it. Yields like `extend`.

        Only the server does this, so that other replies can run between chunks. In a turn `generate` runs the
        tail.
        """
        tokens, log, done = list(tail[:-1]), RowLog(), 0
        with self._given_up_if_out_of_memory():
            for count in generate.prefill(self.loaded, self.cache, tokens, log):
                done += count
                self.position = replace(self.position.at(self.position.path, tokens[:done]), log=log)
                yield count

    def message_sent(self) -> None:
        """The typed message was sent: it can no longer change."""
        self.position = replace(self.position, typed=(), unsent=0)

    def begin_reply(self) -> tuple[PromptCache, RowLog]:
        """Lend the cache, and the log of its rows after the last checkpoint, to a reply.

        Without `end_reply`, everything that the reply ran is lost.
        """
        position = self.position
        self.position = position.at(position.path)
        return self.cache, position.log if position.beyond else RowLog()

    def end_reply(self, run: Sequence[int], log: RowLog, reply_start: int) -> None:
        """Take the cache back. `run` are the tokens that it has run after the last checkpoint.

        The next prefill may continue after these rows if prefilling would give the same values except for
        rounding, and if all windows' rows were logged. Otherwise, or if the reply ended early at a stop text,
        they are prefilled again from the checkpoint.
        """
        # The other ranks send nothing before rank 0 reaches the end of the reply too.
        if self._ranks.size > 1:
            self._ranks.check_same(hashlib.sha256(json.dumps(run).encode()).hexdigest())
        as_prefilled = all(leaf.decodes_as_prefilled for leaf in leaves(self.cache))
        if all(self._ranks.all_gather(as_prefilled and log.complete)):
            for window in windows_in(self.cache):
                window.reorder()
            self.position = replace(self.position, beyond=run, log=log, reply_start=reply_start)

    def leave_to_reply(self) -> None:
        """Give the cache away to the reply that is generated on it, and continue from the last checkpoint."""
        self.cache = prompt_cache.fork(self.cache)
        self.rewind()

    def beside(self) -> LiveCache:
        """Another live cache, at the last checkpoint that this one can return to. They share arrays."""
        other = copy.copy(self)
        other.cache = prompt_cache.fork(self.cache)
        other._seconds, other.snapshots, other.unwritten = dict(self._seconds), dict(self.snapshots), []
        other.rewind()
        return other

    # Snapshots

    def _go_to(self, position: Position, snapshot: Snapshot | None) -> None:
        """Set the position, whose path ends where `snapshot` was taken (None: the position is beyond)."""
        left, self.position = self.position, position
        last = left.path[-1] if left.path else None
        # At a cut, windows need no snapshot, because they can be restored from disk.
        may_return = self.traits.any_rank_stateful or left.unsent
        if last is not None and last.ends_at_cut and not (last.keeps_state and may_return):
            self.snapshots.pop(last.id, None)
        if snapshot is not None:
            self.snapshots.pop(position.path.id, None)
            self.snapshots[position.path.id] = snapshot  # so that the newest is the last
        self.forget_snapshots(position.path.end)

    def forget_snapshots(self, tokens: int) -> None:
        """Keep the newest snapshots that fit in memory beside a cache of `tokens` tokens."""
        path = self.position.path
        boundaries = (
            part.id
            for part in reversed(path.segments)
            if not part.ends_at_cut or part is path[-1]
            for segment in reversed(path.segments)
            if not segment.ends_at_cut or segment is path[-1]
        )
        kept = {*islice(boundaries, MAX_SNAPSHOTS), self.root}
        # Without states, snapshots off the path are useless, because windows are restored from disk. Those of
        # an unsent message go first, because it may change.
        usable = self.snapshots.keys() if self.traits.any_rank_stateful else {*path.ids}
        changing = {segment.id for segment in self.position.unsent_segments if not segment.ends_at_cut}
        older = [key for key in self.snapshots if key in usable and key not in kept | changing]
        room = len(older)
        if self.traits.by_offset:
            room = 0  # any offset will do
        elif self.memory is not None:
            room = self.memory.max_snapshots(tokens) - MAX_SNAPSHOTS
        kept.update(older[max(len(older) - room, 0) :])
        self.snapshots = {key: snapshot for key, snapshot in self.snapshots.items() if key in kept}
