"""Decides where a prompt continues from: the live cache, a snapshot, the disk, or nothing.

This module touches no arrays and no files. Only the `Catalogue` looks at the disk, after handing over what
waits to be written. `LiveCache.apply` executes the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from chatcli.engine.generate import STATE_TOKENS
from chatcli.kv.prompt_cache import RowLog
from chatcli.store.segments.token_path import Segment, TokenPath, common_prefix, segment_id

CACHE_OFF = "the cache is off"
# Sharing fewer tokens with another prompt is not mentioned.
WORTH_TOKENS = 512

# Where the cache continues from:
# - live: where it is now;
# - reply: an earlier token of its last reply;
# - offset: an earlier token of its path, reached by setting the offset;
# - snapshot: an earlier checkpoint whose windows and states are in memory;
# - disk: a checkpoint on disk;
# - kept reply: where it is now, plus a reply that was cut off, which is on disk beside the path;
# - nothing: an empty cache.
Source = Literal["live", "reply", "offset", "snapshot", "disk", "kept reply", "nothing"]


@dataclass(frozen=True)
class Position:
    """Where the live cache is: at the checkpoint at the end of `path`, plus the tokens `beyond` it.

    `log` has the windows' rows of the tokens beyond, and the states kept during a reply. `reply_start` is the
    index in `beyond` where the reply begins; None: there is no reply. `typed` are the ranges of positions
    that typeahead ran. `unsent` is how many segments at the end belong to an unsent message.
    """

    path: TokenPath
    beyond: Sequence[int] = ()
    log: RowLog = field(default_factory=RowLog)
    reply_start: int | None = None
    typed: tuple[range, ...] = ()
    unsent: int = 0

    @property
    def end(self) -> int:
        """The number of tokens in the cache."""
        return self.path.end + len(self.beyond)

    @property
    def sent(self) -> TokenPath:
        """The path without an unsent message."""
        return self.path.upto(len(self.path) - self.unsent)

    @property
    def unsent_segments(self) -> tuple[Segment, ...]:
        """The segments of an unsent message, which may still change."""
        return self.path.segments[len(self.path) - self.unsent :]

    def typed_between(self, start: int, end: int) -> int:
        """How many of the tokens from `start` to `end` typeahead ran."""
        return sum(max(min(run.stop, end) - max(run.start, start), 0) for run in self.typed)

    def at(self, path: TokenPath, beyond: Sequence[int] = (), *, typed: bool = True) -> Position:
        """The position at the end of a path that is a prefix of this one, or continues it.

        `typed`: tokens that typeahead ran still count as such.
        """
        end = path.end + len(beyond)
        kept = tuple(range(run.start, min(run.stop, end)) for run in self.typed if typed and run.start < end)
        unsent = max(self.unsent - max(len(self.path) - len(path), 0), 0)
        return Position(path, beyond, typed=kept, unsent=unsent)


@dataclass(frozen=True)
class CacheTraits:
    """What a model's cache can do.

    `stateful`: it has leaves without rows. `by_offset`: it can rewind by setting its offset.
    `within_replies`: it can rewind to any token of a reply, or to a state there. `any_rank_stateful`: at
    least one rank's cache is `stateful`. `step` is the number of tokens in a prefill chunk.
    """

    stateful: bool
    by_offset: bool
    within_replies: bool
    any_rank_stateful: bool
    step: int


@dataclass(frozen=True)
class Stored:
    """How many leading segments of a path have their `rows` on disk, and how many can be restored."""

    rows: int = 0
    depth: int = 0


class Catalogue(Protocol):
    """What is on disk; with several ranks, what all of them have."""

    @property
    def is_off(self) -> bool:
        """Whether nothing is kept anywhere, in memory either."""

    def stored(self, path: TokenPath, passed: int) -> Stored:
        """What there is of a path, of which the live cache has the first `passed` segments."""

    def borrowable(self, path: TokenPath, depth: int) -> int:
        """How many tokens after segment `depth`, in whole chunks, another conversation has rows of."""

    def shared_tokens(self, path: TokenPath) -> int:
        """How many tokens of a path some rows begin with, wherever they can be restored."""


@dataclass(frozen=True)
class Plan:
    """How much of `path` need not be prefilled, and where that comes from.

    `source` brings the cache to the end of segment `depth`, and `extra` tokens further. These are `borrowed`
    if they are rows of another conversation on disk. Typeahead ran `typed` of all these tokens. `reason` says
    why they are fewer than expected. `rows` is how many leading segments have rows on disk. `shared`, for a
    model with state, is how many leading tokens have rows on disk, even without a state to restore. Both are
    0 if they were not looked up.
    """

    path: TokenPath
    source: Source
    depth: int
    extra: int = 0
    borrowed: bool = False
    typed: int = 0
    reason: str | None = None
    rows: int = 0
    shared: int = 0

    def orders(self) -> dict[str, Any]:
        """What other ranks need to know about a plan, besides its path."""
        return {name: getattr(self, name) for name in ("source", "depth", "extra", "borrowed")}

    @property
    def start(self) -> int:
        """The position at which segment `depth` ends."""
        return self.path.upto(self.depth).end

    @property
    def tokens(self) -> int:
        """How many of the path's tokens need not be prefilled."""
        return self.start + self.extra


def make_plan(
    path: TokenPath,
    live: Position,
    snapshots: Collection[str],
    catalogue: Catalogue,
    traits: CacheTraits,
    max_depth: int | None = None,
) -> Plan:
    """The plan that reuses most of a path. If memory and disk reach equally far, memory wins, because it
    costs nothing.

    `snapshots` are the ids of checkpoints that have one. On disk nothing deeper than `max_depth` is used,
    because it was damaged.
    """
    if catalogue.is_off:
        return Plan(path, "nothing", 0, reason=CACHE_OFF)
    depth, stored = common_prefix(path.ids, live.path.ids), Stored()
    if not traits.by_offset:
        depth = next((end for end in range(depth, 0, -1) if path[end - 1].id in snapshots), 0)
    if depth < len(path):
        stored = catalogue.stored(path.upto(len(path) if max_depth is None else max_depth), depth)
    if stored.depth > depth:
        plan = Plan(path, "disk", stored.depth)
    else:
        plan = _in_memory(path, depth, live, snapshots, traits)
        plan = replace(plan, typed=live.typed_between(0, plan.tokens))
    if not (plan.extra or traits.stateful or plan.depth == len(path)):
        borrowable = catalogue.borrowable(path, plan.depth)
        plan = replace(plan, extra=borrowable, borrowed=borrowable > 0)
    is_worth_it = traits.stateful and path.end - plan.start >= WORTH_TOKENS
    return replace(plan, rows=stored.rows, shared=catalogue.shared_tokens(path) if is_worth_it else 0)


def _in_memory(
    path: TokenPath, depth: int, live: Position, snapshots: Collection[str], traits: CacheTraits
) -> Plan:
    """How the live cache reaches the end of segment `depth`, which it has passed, or further."""
    rest = path.after(depth)
    if live.beyond and rest and depth == len(live.path):
        if rest.first_tokens[: len(live.beyond)] == list(live.beyond):
            return Plan(path, "live", depth, len(live.beyond))
        if rest.root in snapshots and (extra := _reusable_of_reply(rest, live, traits)):
            return Plan(path, "reply", depth, extra)
    if not depth:
        # Not in buffers of another conversation: CUDA would plan attention again for each chunk.
        return Plan(path, "nothing", 0)
    if not traits.by_offset:
        return Plan(path, "snapshot", depth)
    # Up to the next boundary of either, after which their chunks differ.
    passed = live.path.after(depth)
    run = passed.first_tokens
    if not passed.boundaries and live.reply_start is None:
        run += live.beyond
    shared = common_prefix(rest.first_tokens, run)
    return Plan(path, "offset", depth, shared - shared % traits.step)


def _reusable_of_reply(rest: TokenPath, live: Position, traits: CacheTraits) -> int:
    """How many of the tokens beyond can stay: those that history shows as generated.

    With state, up to the last state kept among them. 0 if they end before the reply's first token, or without
    `within_replies` (as with windows and no state): then all of it is prefilled.
    """
    if live.reply_start is None or not traits.within_replies:
        return 0
    start, common = rest[0].start, common_prefix(rest.first_tokens, live.beyond)
    if traits.stateful:
        ends = (state.position - start for state in reversed(live.log.states))
        common = next((end for end in ends if end <= common), 0)
    return common if common > live.reply_start else 0


def reply_path(path: TokenPath, run: Sequence[int]) -> TokenPath:
    """A segment of the tokens `run` after `path`, up to where a state is kept. At least one token is left to
    run.
    """
    tokens = [*path.tokens[: path.end], *run]
    end = (len(tokens) - 1) // STATE_TOKENS * STATE_TOKENS
    if end <= path.end:
        return TokenPath(path.id, tokens)
    segment = Segment(segment_id(path.id, tokens[path.end : end]), path.id, path.end, end)
    return TokenPath(path.id, tokens, (segment,))


def plan_kept_reply(reply: TokenPath, catalogue: Catalogue, traits: CacheTraits) -> Plan:
    """How much of a cut-off reply can be restored. The live cache must be at the end of its question.

    Without its own checkpoint, whole chunks of the settled reply are used; the rest is run.
    """
    if catalogue.stored(reply, 0).depth:
        return Plan(reply, "kept reply", 0, reply.end - reply[0].start)
    borrowable = 0 if traits.stateful or not reply else catalogue.borrowable(reply, 0)
    return Plan(reply, "live", 0, borrowable, borrowed=borrowable > 0)
