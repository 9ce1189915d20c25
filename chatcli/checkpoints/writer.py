"""Hands checkpoints to the store: decides which are worth writing, when, and in which files.

Prefilled segments wait, because rows can be cut from the live cache later: until a turn has its first token,
the cache moves away, or there are too many. Typed segments wait until the message is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chatcli.checkpoints.live_cache import NO_STATE, LiveCache, Unwritten
from chatcli.checkpoints.plan import reply_path
from chatcli.kv import prompt_cache
from chatcli.kv.leaf import windows_in
from chatcli.kv.prompt_cache import RowLog, Snapshot
from chatcli.store.segments.container import Tensors
from chatcli.store.segments.null import NullStore
from chatcli.store.segments.segments import Increment
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import Worker

# At most this many segments that end at a boundary, or seconds of prefill, wait for the first token, with
# their windows' rows and states in memory. A kill loses them, the current segment, and the writer's queue.
MAX_UNWRITTEN, MAX_UNWRITTEN_SECONDS = 4, 5.0


class CheckpointWriter:
    """Writes the live cache's prefilled segments."""

    def __init__(self, live: LiveCache, worker: Worker) -> None:
        self._live, self._store, self._worker = live, live.store, worker
        self._bytes = 0

    @property
    def waiting(self) -> list[Unwritten]:
        """The segments to write now: none of an unsent message, and none whose rows left the live cache."""
        ids = {*self._live.position.sent.ids}
        return [each for each in self._live.unwritten if each.log is None or each.path.id in ids]

    def take_bytes(self) -> int:
        """The bytes handed over for turns since the last call."""
        size, self._bytes = self._bytes, 0
        return size

    def hand_over(self) -> None:
        """Hand all waiting segments to the store."""
        if self._live.unwritten:
            self._worker.call(self.put_waiting)

    def put_waiting(self) -> None:
        """`hand_over`, called on the thread that owns MLX, even between two tokens of a reply."""
        if not self._live.unwritten:
            return
        waiting = self.waiting
        unsent = {segment.id for segment in self._live.position.unsent_segments}
        self._live.unwritten = [each for each in self._live.unwritten if each.path.id in unsent]
        for run in runs(waiting):
            size = self._put(run)
            if run[0].log is None:
                self._store.upkeep_bytes += size
            else:
                self._bytes += size

    def _put(self, run: Sequence[Unwritten]) -> int:
        """Write the rows of consecutive segments as one file, then the states worth keeping."""
        store, size = self._store, self._put_rows(run) if run[0].log is not None else 0
        for own, log, kept, seconds, is_worth_it in run:
            if log is not None:
                store.took(own, seconds)
            if kept is not None and (is_worth_it or store.is_due(own, seconds, kept.nbytes)):
                state, scalars = self._serialized(kept)
                size += store.put(Increment(own, {}, state, scalars, seconds), rows_missing=False)
        return size

    def _put_rows(self, run: Sequence[Unwritten]) -> int:
        store, cache, path = self._store, self._live.cache, run[-1].path
        first = len(path) - len(run) + 1
        missing = store.missing(path)
        # Another process may have evicted or deleted rows of the live path: without them the rest is useless.
        size = self._put_earlier(path, [depth for depth in missing if depth < first], run[-1].seconds)
        run = run[next((depth - first for depth in missing if depth >= first), len(run)) :]
        if not run:
            return size
        log = RowLog.joined([each.log for each in run if each.log is not None])
        rows = prompt_cache.segment_rows(cache, log, run[0].path[-1].start, path.end)
        seconds = sum(each.seconds for each in run)
        return size + store.put(Increment(path, rows, *NO_STATE, seconds, len(run)), rows_missing=True)

    def _put_earlier(self, path: TokenPath, depths: Sequence[int], seconds: float) -> int:
        """Write rows of the live path that were run before, unless windows have dropped them since."""
        cache, size = self._live.cache, 0
        for earlier in () if windows_in(cache) else map(path.upto, depths):
            rows = prompt_cache.segment_rows(cache, RowLog(), earlier[-1].start, earlier.end)
            size += self._store.put(Increment(earlier, rows, *NO_STATE, seconds), rows_missing=True)
        return size

    def put_path(self) -> None:
        """Write what the store lacks of the formerly private live path, as far as it can still be cut."""
        path, seconds = self._live.position.sent, self._live.seconds(self._live.position.sent)
        missing = self._store.missing(path)
        self._worker.call(self._put_earlier, path, missing, seconds / max(len(path), 1))
        self.put_state_at_end()

    def _serialized(self, state: Snapshot) -> tuple[Tensors, str]:
        """A state in the form of `prompt_cache.state`. If it cannot be written, writing stops for good."""
        try:
            return prompt_cache.state(self._live.cache, state)
        except TypeError as error:
            self._store.give_up(f"this model's cache cannot be written: {error}")
            return NO_STATE

    # When a conversation or reply ends

    def add_state_at_end(self) -> None:
        """Add the state at the end of the live path to what waits."""
        if (state := self._state_at_end()) is not None:
            self._live.unwritten.append(state)

    def put_state_at_end(self) -> int:
        """Write the state at the end of the live path, even if recomputing it would be fast. Returns its
        bytes.

        The conversation is reopened there, also after a kill.
        """
        self.hand_over()
        if not self._live.traits.stateful:
            return 0
        self._store.flush()
        state = self._state_at_end()
        return 0 if state is None else self._worker.call(self._put, [state])

    def _state_at_end(self) -> Unwritten | None:
        """The state at the end of the live path; None if there is none or it is on disk."""
        live, path = self._live, self._live.position.sent
        if live.private or not live.traits.stateful or not path or path.id not in live.snapshots:
            return None
        if self._store.has_state(path.id):
            return None
        return Unwritten(path, None, live.state(path), 0.0, is_worth_it=True)

    def put_reply(self, path: TokenPath, *, expected: bool) -> tuple[str, int] | None:
        """Write a checkpoint near the end of the reply just generated after `path`.

        Called for replies that were cut off, so that /continue can resume there. `expected`: a person stopped
        it. Returns the segment's id and bytes, or None if nothing is written: the reply is too short, its
        rows may not be kept (see `end_reply`), or, for a model with state, no state was kept there or it is
        neither expected nor slow to recompute.
        """
        live, position = self._live, self._live.position
        is_at_its_end = position.reply_start is not None and position.path.ids == path.ids
        reply = reply_path(path, position.beyond)
        if not (is_at_its_end and reply) or live.private or isinstance(self._store, NullStore):
            return None
        seconds = live.speed.estimate(0, 0.0, reply.end - path.end)
        kept = next((state for state in position.log.states if state.position == reply.end), None)
        is_due = self._store.is_due(reply, seconds)
        if live.traits.stateful and (kept is None or not (expected or is_due)):
            return None
        # By itself, so that it is not joined with the files of the conversation's path.
        unwritten = Unwritten(reply, position.log.copy(), kept, seconds, is_worth_it=True)
        return reply.id, self._worker.call(self._put, [unwritten])


def is_much(unwritten: Sequence[Unwritten], max_states: int) -> bool:
    """Whether the waiting segments take much memory, or would take long to compute again.

    `max_states` is the most states, if it exceeds the limit for segments at boundaries.
    """
    states = sum(each.state is not None for each in unwritten)
    at_boundaries = sum(not each.path[-1].ends_at_cut for each in unwritten)
    seconds = sum(each.seconds for each in unwritten)
    return (
        at_boundaries > MAX_UNWRITTEN
        or states > max(max_states, MAX_UNWRITTEN)
        or seconds > MAX_UNWRITTEN_SECONDS
    )


def runs(unwritten: Sequence[Unwritten]) -> Iterator[list[Unwritten]]:
    """Group segments on the way to the same boundary, to be written as one file."""
    run: list[Unwritten] = []
    for each in unwritten:
        last = run[-1].path[-1] if run and each.log is not None and run[-1].log is not None else None
        if run and not (last is not None and last.ends_at_cut and last.id == each.path[-1].parent):
            yield run
            run = []
        run.append(each)
    if run:
        yield run
