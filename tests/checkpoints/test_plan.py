"""Where a prompt continues from: the live cache x its snapshots x the disk x the path. No model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pytest

from chatcli.checkpoints.plan import (
    CACHE_OFF,
    WORTH_TOKENS,
    CacheTraits,
    Plan,
    Position,
    Source,
    Stored,
    make_plan,
    plan_kept_reply,
    reply_path,
)
from chatcli.kv.prompt_cache import RowLog, Snapshot
from chatcli.store.segments.token_path import TokenPath, root_id

ROOT = root_id("f" * 32)
STEP = 4
ANY_TOKEN = CacheTraits(
    stateful=False,
    by_offset=True,
    within_replies=True,
    any_rank_stateful=False,
    step=STEP,
)
WINDOWS = replace(ANY_TOKEN, by_offset=False, within_replies=False)
STATES = replace(WINDOWS, stateful=True, within_replies=True, any_rank_stateful=True)
ALL = (ANY_TOKEN, WINDOWS, STATES)

ENDS = [10, 20, 30]
TOKENS = list(range(40))


def path(depth: int = 3, *, changed_at: int = 40, ends: list[int] = ENDS) -> TokenPath:
    """The first segments of the prompt, whose tokens from `changed_at` on are others."""
    tokens = TOKENS[:changed_at] + [-token for token in TOKENS[changed_at:]]
    return TokenPath.cut(ROOT, tokens, ends).upto(depth)


@dataclass(frozen=True)
class Disk:
    """A disk with so many segments of rows, of which `restorable` have what else they need."""

    rows: int = 0
    restorable: int = 0
    others: int = 0
    shares: int = 0
    is_off: bool = False

    def stored(self, path: TokenPath, passed: int) -> Stored:
        return Stored(min(self.rows, len(path)), min(self.restorable, len(path)))

    def borrowable(self, path: TokenPath, depth: int) -> int:
        return self.others

    def shared_tokens(self, path: TokenPath) -> int:
        return self.shares


EMPTY = Disk()


def ids(path: TokenPath) -> set[str]:
    return {ROOT, *path.ids}


def plan(
    live: Position, traits: CacheTraits, disk: Disk = EMPTY, snapshots: Collection[str] | None = None
) -> Plan:
    """How the live cache comes to the end of the whole path."""
    return make_plan(path(), live, ids(live.path) if snapshots is None else snapshots, disk, traits)


def planned(plan: Plan) -> tuple[Source, int, int]:
    return plan.source, plan.depth, plan.extra


def log_with_states(*positions: int) -> RowLog:
    log = RowLog()
    log.states = [Snapshot(position, {}) for position in positions]
    return log


@pytest.mark.parametrize("traits", ALL)
def test_without_a_cache_everything_is_run_anew(traits: CacheTraits) -> None:
    off = Disk(3, 3, others=8, is_off=True)
    expected = Plan(path(), "nothing", 0, reason=CACHE_OFF)
    assert expected == plan(Position(path(2)), traits, off)


@pytest.mark.parametrize("traits", ALL)
@pytest.mark.parametrize(
    ("live", "disk", "expected"),
    [
        (0, EMPTY, ("nothing", 0)),
        (0, Disk(2, 2), ("disk", 2)),
        (1, Disk(3, 3), ("disk", 3)),
        (2, EMPTY, ("passed", 2)),
        (2, Disk(2, 2), ("passed", 2)),
        (2, Disk(1, 1), ("passed", 2)),
        (3, Disk(3, 3), ("passed", 3)),
    ],
)
def test_the_deepest_checkpoint_counts_and_memory_wins_a_draw(
    traits: CacheTraits, live: int, disk: Disk, expected: tuple[str, int]
) -> None:
    going_back = "offset" if traits.by_offset else "snapshot"
    source = going_back if expected[0] == "passed" else expected[0]
    assert (source, expected[1], 0) == planned(plan(Position(path(live)), traits, disk))


@pytest.mark.parametrize("traits", [WINDOWS, STATES])
def test_what_cannot_go_back_by_its_offset_goes_to_the_deepest_snapshot(traits: CacheTraits) -> None:
    live, first = Position(path(3)), path(1)
    assert ("snapshot", 1, 0) == planned(plan(live, traits, snapshots=ids(first)))
    assert ("disk", 2, 0) == planned(plan(live, traits, Disk(2, 2), snapshots=ids(first)))
    assert ("nothing", 0, 0) == planned(plan(live, traits, snapshots={ROOT}))


def test_a_damaged_checkpoint_is_not_tried_again() -> None:
    disk = Disk(3, 3)
    plans = [
        make_plan(path(), Position(path(1)), ids(path(1)), disk, WINDOWS, max_depth)
        for max_depth in (None, 2, 1, 0)
    ]
    assert [("disk", 3), ("disk", 2), ("snapshot", 1), ("snapshot", 1)] == [
        (each.source, each.depth) for each in plans
    ]


@pytest.mark.parametrize("traits", ALL)
def test_a_prompt_continues_from_tokens_beyond_that_it_begins_with(traits: CacheTraits) -> None:
    beyond = TOKENS[10:17]
    live = Position(path(1), beyond)
    assert ("live", 1, 7) == planned(plan(live, traits))
    # Not where another checkpoint is further, or the path ends.
    assert ("disk", 2, 0) == planned(plan(live, traits, Disk(2, 2)))
    assert 0 == plan(Position(path(3), TOKENS[30:35]), traits).extra


@pytest.mark.parametrize(
    ("traits", "expected"),
    [(ANY_TOKEN, ("offset", 1, STEP)), (WINDOWS, ("snapshot", 1, 0)), (STATES, ("snapshot", 1, 0))],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_message_whose_end_changed_keeps_whole_chunks_or_goes_to_the_checkpoint(
    traits: CacheTraits, expected: tuple[str, int, int], whole: bool
) -> None:
    """Whether all of it was run, or it was cut short."""
    typed = path(2, changed_at=17)
    live = Position(typed) if whole else Position(typed.upto(1), typed.tokens[10:19])
    assert expected == planned(plan(live, traits))


@pytest.mark.parametrize(
    ("traits", "states", "expected"),
    [
        (ANY_TOKEN, (), ("reply", 1, 6)),
        (STATES, (13, 15), ("reply", 1, 5)),
        (STATES, (12,), ("snapshot", 1, 0)),
        (STATES, (18,), ("snapshot", 1, 0)),
        (WINDOWS, (), ("snapshot", 1, 0)),
    ],
)
def test_a_reply_that_history_shows_otherwise_is_kept_up_to_there(
    traits: CacheTraits, states: tuple[int, ...], expected: tuple[str, int, int]
) -> None:
    """Generated from token 12 on, other than history from 16 on."""
    reply = path(2, changed_at=16).tokens[10:20]
    live = Position(path(1), reply, log_with_states(*states), reply_start=2)
    assert expected == planned(plan(live, traits))


def test_a_reply_of_which_history_shows_nothing_is_run_again_by_chunks() -> None:
    reply = path(2, changed_at=12).tokens[10:20]
    live = Position(path(1), reply, reply_start=2)
    assert ("offset", 1, 0) == planned(plan(live, ANY_TOKEN))


@pytest.mark.parametrize(
    ("traits", "expected"), [(ANY_TOKEN, (8, True)), (WINDOWS, (8, True)), (STATES, (0, False))]
)
@pytest.mark.parametrize(("live", "disk"), [(0, Disk(others=8)), (2, Disk(others=8)), (0, Disk(2, 2, 8))])
def test_rows_of_another_conversation_come_after_the_deepest_checkpoint(
    traits: CacheTraits, expected: tuple[int, bool], live: int, disk: Disk
) -> None:
    result = plan(Position(path(live)), traits, disk)
    assert expected == (result.extra, result.borrowed)
    assert max(live, disk.restorable) == result.depth


def test_nothing_is_borrowed_at_the_end_or_where_the_cache_is_ahead() -> None:
    disk = Disk(others=8)
    assert not plan(Position(path(3)), ANY_TOKEN, disk).borrowed
    assert not plan(Position(path(1), TOKENS[10:13]), ANY_TOKEN, disk).borrowed


@pytest.mark.parametrize("traits", ALL)
def test_what_was_typed_ahead_counts_where_the_prompt_has_it_from_there(traits: CacheTraits) -> None:
    live = Position(path(2), TOKENS[20:25], typed=(range(12, 25),), unsent=1)
    assert 13 == plan(live, traits).typed
    assert 8 == plan(replace(live, beyond=()), traits).typed
    assert 0 == plan(live, traits, Disk(3, 3)).typed


def test_a_position_forgets_what_it_leaves() -> None:
    live = Position(path(3), TOKENS[30:33], typed=(range(5, 12), range(25, 33)), unsent=2)
    assert 7 + 8 == live.typed_between(0, 40)
    back = live.at(path(2))
    assert ((range(5, 12),), 1, ()) == (back.typed, back.unsent, back.beyond)
    assert 0 == live.at(path(1)).unsent


def test_a_plan_knows_what_states_are_missing_for() -> None:
    ends = [10, 10 + WORTH_TOKENS]
    long = TokenPath.cut(ROOT, range(ends[-1] + 1), ends)
    disk = Disk(rows=2, restorable=1, shares=400)
    states = make_plan(long, Position(TokenPath(ROOT, [])), {ROOT}, disk, STATES)
    assert (1, 2, 400) == (states.depth, states.rows, states.shared)
    assert 0 == make_plan(long, Position(TokenPath(ROOT, [])), {ROOT}, disk, WINDOWS).shared


@pytest.mark.parametrize("traits", ALL)
def test_a_cut_reply_is_had_from_its_own_checkpoint_or_from_where_it_was_settled(traits: CacheTraits) -> None:
    question = TokenPath.cut(ROOT, TOKENS, [10])
    reply = reply_path(question, range(10, 30))
    assert 16 == reply.end
    assert ("kept reply", 0, 6) == planned(plan_kept_reply(reply, Disk(1, 1), traits))
    borrowed = 0 if traits.stateful else 4
    assert ("live", 0, borrowed) == planned(plan_kept_reply(reply, Disk(others=4), traits))
    assert 0 == plan_kept_reply(reply_path(question, [1, 2]), EMPTY, traits).extra
