"""Eviction and the budget: states before rows, leaves first, never the open path."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from chatcli.files import Location
from chatcli.store import maintenance
from chatcli.store.segments import budget, catalog, eviction, inventory
from chatcli.store.segments.budget import Budget
from chatcli.store.segments.container import SEGMENT_FORMAT, SEGMENT_VERSION, Tensor, pack
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import Segment, TokenPath, root_id
from chatcli.store.sessions.folder import SessionFolder

FINGERPRINT = "f" * 32
OTHER = "e" * 32
WEEK_SECONDS = 7 * 24 * 3600.0


def tokens_of(seed: int, length: int, *, prefix: Sequence[int] = ()) -> list[int]:
    """`length` tokens of the conversation `seed` after `prefix`, and one token to run."""
    return [*prefix, *(seed * 1000 + at for at in range(length)), 0]


def path_of(tokens: Sequence[int], fingerprint: str = FINGERPRINT) -> TokenPath:
    return TokenPath.cut(root_id(fingerprint), tokens, range(1, len(tokens)))


def put_conversation(
    folder: Path,
    tokens: Sequence[int],
    fingerprint: str = FINGERPRINT,
    *,
    seconds: float = 1.0,
    state: bool = True,
    state_floats: int = 64,
    on_written: Callable[[int, TokenPath], None] | None = None,
) -> TokenPath:
    """Put one segment a token, with rows and, if `state`, a state each."""
    store = SegmentStore(folder, fingerprint, on_written)
    path = path_of(tokens, fingerprint)
    states = {"1.0": Tensor.of(np.ones((1, state_floats), "f4"))} if state else {}
    for depth in range(1, len(path) + 1):
        rows = {"0.keys": Tensor.of(np.full((1, 1, 1, 64), depth, "f4"))}
        store.put(Increment(path.upto(depth), rows, states, "{}", seconds))
    store.close()
    return path


def depth(folder: Path, tokens: Sequence[int], *, stateful: bool = False) -> int:
    store = SegmentStore(folder, FINGERPRINT)
    try:
        return store.depth(path_of(tokens), stateful=stateful)
    finally:
        store.close()


def states(folder: Path, path: TokenPath) -> list[int]:
    """The depths of a path that have a state."""
    kv = catalog.model_folder(folder, FINGERPRINT).path
    return [at for at, segment in enumerate(path, 1) if catalog.state_path(kv, segment.id).exists()]


def evict(folder: Path, limit: int, open_ids: Sequence[Segment] = ()) -> list[eviction.Removal]:
    ids = {segment.id for segment in open_ids}
    removals = list(eviction.over_limit(folder, limit, ids))
    eviction.remove(removals)
    return removals


def set_age(folder: Path, seconds: float) -> None:
    for path in folder.glob("kv/*/??/*"):
        used = path.stat().st_mtime - seconds
        os.utime(path, (used, used))


def slightly_smaller_limit(folder: Path) -> int:
    """A limit of one byte less than is used: eviction then frees a tenth."""
    return inventory.total_bytes(folder) - 1


# States


def test_the_newest_state_of_each_conversation_outlives_all_others(tmp_path: Path) -> None:
    conversations = [put_conversation(tmp_path, tokens_of(seed, 6)) for seed in (1, 2, 3)]
    removals = list(eviction.over_limit(tmp_path, 0))
    eviction.remove(removals[:15])
    assert [[6], [6], [6]] == [states(tmp_path, path) for path in conversations]


def test_the_newest_state_of_an_open_path_stays_where_another_branch_goes_on(tmp_path: Path) -> None:
    tokens = tokens_of(1, 12)
    put_conversation(tmp_path, tokens)
    went_back = path_of([*tokens[:8], 0])
    evict(tmp_path, 0, went_back)
    assert [8] == states(tmp_path, went_back)


def test_without_space_only_the_last_state_of_a_path_stays(tmp_path: Path) -> None:
    path = put_conversation(tmp_path, tokens_of(1, 20))
    size = max(item.stat().st_size for item in tmp_path.rglob("*.state.*"))
    rows = sum(item.stat().st_size for item in tmp_path.rglob("*.rows.*"))
    evict(tmp_path, int((rows + size) / eviction.TARGET_SHARE) + 1)
    assert (20, [20]) == (depth(tmp_path, tokens_of(1, 20), stateful=True), states(tmp_path, path))


def test_states_go_before_rows_and_more_of_those_used_longest_ago(tmp_path: Path) -> None:
    old = put_conversation(tmp_path, tokens_of(1, 20))
    set_age(tmp_path, WEEK_SECONDS)
    new = put_conversation(tmp_path, tokens_of(2, 20))
    removals = evict(tmp_path, slightly_smaller_limit(tmp_path))
    assert ["state.safetensors"] * len(removals) == [
        removal.path.name.partition(".")[2] for removal in removals
    ]
    assert (20, 20) == (depth(tmp_path, tokens_of(1, 20)), depth(tmp_path, tokens_of(2, 20)))
    assert len(states(tmp_path, old)) < len(states(tmp_path, new))
    assert [20] == states(tmp_path, old)[-1:] == states(tmp_path, new)[-1:]


def test_a_state_from_the_future_is_a_new_one(tmp_path: Path) -> None:
    path = put_conversation(tmp_path, tokens_of(1, 5))
    set_age(tmp_path, -4e9)
    evict(tmp_path, 0)
    assert [] == states(tmp_path, path)


def test_a_state_without_rows_is_evicted(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 1))
    for path in tmp_path.glob("kv/*/??/*.rows.*"):
        path.unlink()
    (removal,) = evict(tmp_path, 0)
    assert "over the limit: an older state" == removal.reason


# Leaves


def test_what_was_used_longest_ago_goes_first_of_whatever_model(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 4), FINGERPRINT, state=False)
    set_age(tmp_path, WEEK_SECONDS)
    put_conversation(tmp_path, tokens_of(1, 4), OTHER, state=False)
    models = [removal.path.parent.parent.name for removal in eviction.over_limit(tmp_path, 0)]
    assert [*[FINGERPRINT] * 4, *[OTHER] * 4] == models


def test_what_a_newer_conversation_begins_with_stays_as_long_as_that(tmp_path: Path) -> None:
    tokens = tokens_of(1, 12)
    put_conversation(tmp_path, tokens, state=False)
    put_conversation(tmp_path, tokens_of(3, 5), state=False)
    set_age(tmp_path, WEEK_SECONDS)
    newest = tokens_of(2, 4, prefix=tokens[:8])
    put_conversation(tmp_path, newest, state=False)
    # The ninth of the old one is in a file with the eight that both have.
    eviction.remove(list(eviction.over_limit(tmp_path, 0))[:8])
    assert (9, 12, 0) == tuple(depth(tmp_path, each) for each in (tokens, newest, tokens_of(3, 5)))


def test_branches_that_were_left_go_before_the_newest_of_an_older_conversation(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(3, 5), state=False)
    set_age(tmp_path, WEEK_SECONDS)
    tokens = tokens_of(1, 12)
    put_conversation(tmp_path, tokens, state=False)
    newest = tokens_of(2, 4, prefix=tokens[:8])
    put_conversation(tmp_path, newest, state=False)
    eviction.remove(list(eviction.over_limit(tmp_path, 0))[:3])
    assert (9, 12, 5) == tuple(depth(tmp_path, each) for each in (tokens, newest, tokens_of(3, 5)))


def test_older_states_stay_ever_more_sparsely(tmp_path: Path) -> None:
    path = put_conversation(tmp_path, tokens_of(1, 40))
    eviction.remove(list(eviction.over_limit(tmp_path, 0))[:30])
    kept = states(tmp_path, path)
    assert (10, 40) == (len(kept), kept[-1])
    assert all(40 - at < 3 * (40 - later) for at, later in pairwise(kept[:-1])), kept


def test_leaves_go_before_their_parents(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 5), state=False)
    for remaining in (4, 3, 2, 1, 0):
        evict(tmp_path, slightly_smaller_limit(tmp_path))
        assert remaining == depth(tmp_path, tokens_of(1, 5))


def test_the_open_path_keeps_its_rows_whatever_the_limit(tmp_path: Path) -> None:
    tokens = tokens_of(1, 20)
    path = put_conversation(tmp_path, tokens)
    put_conversation(tmp_path, tokens_of(2, 20, prefix=tokens[:12]))
    put_conversation(tmp_path, tokens_of(3, 20))
    evict(tmp_path, 0, path)
    assert (20, 20) == (depth(tmp_path, tokens), depth(tmp_path, tokens, stateful=True))
    assert 12 == depth(tmp_path, tokens_of(2, 20, prefix=tokens[:12]))
    assert 0 == depth(tmp_path, tokens_of(3, 20))


def test_nothing_is_evicted_below_the_limit(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 5))
    assert [] == evict(tmp_path, inventory.total_bytes(tmp_path))


def test_eviction_ends_a_tenth_below_the_limit(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 60), state=False)
    limit = inventory.total_bytes(tmp_path) // 2
    evict(tmp_path, limit)
    assert inventory.total_bytes(tmp_path) <= limit * eviction.TARGET_SHARE


def test_given_removals_are_not_counted_twice(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 3), state=False)
    (first_removal, *_) = eviction.over_limit(tmp_path, 0)
    limit = inventory.total_bytes(tmp_path) - first_removal.size
    assert [] == list(eviction.over_limit(tmp_path, limit, removals=[first_removal]))


def test_a_damaged_file_goes_before_sound_ones(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 3), state=False)
    path = next(tmp_path.glob("kv/*/??/*.rows.*"))
    path.write_bytes(b"damaged")
    first, *_ = eviction.over_limit(tmp_path, 0)
    assert (path, "damaged") == (first.path, first.reason)


def test_a_file_that_no_longer_exists_frees_nothing(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 3))
    removals = list(eviction.over_limit(tmp_path, 0))
    inventory.clear(tmp_path)
    assert 0 == eviction.remove(removals)


def test_one_file_that_cannot_be_removed_does_not_keep_the_others(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 3), state=False)
    removals = list(eviction.over_limit(tmp_path, 0))
    stuck = eviction.Removal(removals[0].path / "below", 1, "it is below a file")
    with pytest.raises(OSError):
        eviction.remove([stuck, *removals])
    assert 0 == inventory.total_bytes(tmp_path)


# Joined files


def small_copies(folder: Path, tokens: Sequence[int], length: int) -> dict[Path, bytes]:
    """Put the first `length` segments; returns their rows files, which the next segment will join."""
    put_conversation(folder, [*tokens[:length], 0], state=False)
    return {path: path.read_bytes() for path in folder.glob("kv/*/??/*.rows.*")}


def test_files_held_by_a_longer_one_are_removed(tmp_path: Path) -> None:
    tokens = tokens_of(1, 9)
    small = small_copies(tmp_path, tokens, 8)
    put_conversation(tmp_path, tokens, state=False)
    (first,) = small.keys() & set(tmp_path.glob("kv/*/??/*"))
    for path, data in small.items():
        path.write_bytes(data)
    twice = list(eviction.held_twice(tmp_path))
    assert {*small} - {first} == {removal.path for removal in twice}
    eviction.remove(twice)
    assert 9 == depth(tmp_path, tokens)


def test_files_held_twice_can_all_be_evicted(tmp_path: Path) -> None:
    tokens = tokens_of(1, 9)
    small = small_copies(tmp_path, tokens, 8)
    put_conversation(tmp_path, tokens, state=False)
    for path, data in small.items():
        path.write_bytes(data)
    evict(tmp_path, 0)
    assert 0 == inventory.total_bytes(tmp_path)


def test_a_file_stays_if_the_longer_one_that_holds_it_cannot_be_reached(tmp_path: Path) -> None:
    """Two processes joined at once: segments 2 to 9, and 3 to 10. Only the file of 10 continues after 9."""
    tokens = tokens_of(1, 10)
    put_conversation(tmp_path, tokens, state=False)
    hidden = join(tmp_path, tokens, 2, 10)
    assert (10, 3) == (
        depth(tmp_path, tokens),
        len(list(inventory.rows(Location.of(hidden.parent.parent)))) - 1,
    )
    assert [] == list(eviction.held_twice(tmp_path))
    evict(tmp_path, 0)
    assert 0 == inventory.total_bytes(tmp_path)


def test_eviction_ends_where_files_name_each_other_as_parents(tmp_path: Path) -> None:
    path = put_conversation(tmp_path, tokens_of(1, 2))
    for rows in tmp_path.rglob("*.rows.*"):
        rows.unlink()
    join(tmp_path, tokens_of(1, 2), 0, 1, parent=path[1].id)
    join(tmp_path, tokens_of(1, 2), 1, 2)
    evict(tmp_path, 0)
    assert [] == states(tmp_path, path)


def join(folder: Path, tokens: Sequence[int], start: int, end: int, parent: str | None = None) -> Path:
    """Write a file of the segments from `start` to `end`, with a false `parent` if one is given."""
    run = path_of(tokens).upto(end).after(start)
    metadata = {
        "format": SEGMENT_FORMAT,
        "version": SEGMENT_VERSION,
        "kind": "rows",
        "fingerprint": FINGERPRINT,
        "id": run[-1].id,
        "parent": parent or run[0].parent,
        "start": str(start),
        "end": str(end),
        "ends": json.dumps([segment.end for segment in run]),
        "seconds": "1.0",
        "created": "1",
    }
    keys = np.arange(start + 1, end + 1, dtype="f4").repeat(64).reshape(1, 1, -1, 64)
    own = Tensor.of(np.asarray(tokens[start:end], "<i4"))
    path = catalog.rows_path(catalog.model_folder(folder, FINGERPRINT).path, run)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pack({catalog.TOKENS: own, "0.keys": Tensor.of(keys)}, metadata))
    return path


# The budget


def test_the_default_is_20_gib_or_a_tenth_of_the_free_space(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    limit = budget.default_limit(tmp_path / "not" / "there")
    assert limit <= budget.MAX_BYTES
    assert limit == pytest.approx(min(budget.MAX_BYTES, free / 10), rel=0.05)


def test_writes_stay_below_the_limit(tmp_path: Path) -> None:
    put_conversation(tmp_path, tokens_of(1, 30), state=False)
    limit = inventory.total_bytes(tmp_path)
    put_conversation(tmp_path, tokens_of(2, 15), state=False, on_written=Budget(tmp_path, limit, set).written)
    assert inventory.total_bytes(tmp_path) <= limit
    assert 15 == depth(tmp_path, tokens_of(2, 15))


def test_segments_open_elsewhere_are_not_evicted(tmp_path: Path) -> None:
    open_ids = {segment.id for segment in put_conversation(tmp_path, tokens_of(1, 10), state=False)}
    put_conversation(tmp_path, tokens_of(2, 30), state=False)
    keeper = Budget(tmp_path, inventory.total_bytes(tmp_path), lambda: open_ids)
    put_conversation(tmp_path, tokens_of(3, 10), state=False, on_written=keeper.written)
    assert (10, 10) == (depth(tmp_path, tokens_of(1, 10)), depth(tmp_path, tokens_of(3, 10)))
    assert 30 > depth(tmp_path, tokens_of(2, 30))


def test_an_open_path_over_the_limit_is_reported_once_and_no_longer_written(tmp_path: Path) -> None:
    limit = 5_000
    store = SegmentStore(tmp_path, FINGERPRINT, Budget(tmp_path, limit, set).written)
    tokens = tokens_of(1, 60)
    path = path_of(tokens)
    for at in range(1, 61):
        rows = {"0.keys": Tensor.of(np.ones((1, 1, 1, 64), "f4"))}
        store.put(Increment(path.upto(at), rows, {}, "{}", 1.0))
        store.flush()
    problem = store.take_problem()
    assert problem and "more than the limit of 5,000 bytes" in problem
    assert None is store.take_problem()
    assert inventory.total_bytes(tmp_path) < 1.5 * limit
    store.close()
    assert 0 < depth(tmp_path, tokens) < 60


def test_a_full_budget_raises_as_a_full_disk_does(tmp_path: Path) -> None:
    path = put_conversation(tmp_path, tokens_of(1, 5))
    with pytest.raises(OSError, match="--cache-limit") as caught:
        Budget(tmp_path, 0, set).written(1, path)
    assert errno.EDQUOT == caught.value.errno


def test_writes_of_other_processes_are_counted_after_a_while(tmp_path: Path) -> None:
    keeper = Budget(tmp_path, 100_000, set)
    path = put_conversation(tmp_path, tokens_of(1, 2), on_written=keeper.written)
    put_conversation(tmp_path, tokens_of(2, 120), state=False)
    assert inventory.total_bytes(tmp_path) < 100_000
    put_conversation(tmp_path, tokens_of(3, 120))
    for _ in range(20):
        keeper.written(1_000, path)
    assert inventory.total_bytes(tmp_path) <= 100_000


def test_open_segments_are_those_of_other_locked_sessions(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    opened = []
    for name, digit in (("a", "1"), ("b", "2"), ("c", "3")):
        session = folder.create(name, model=None, system=None)
        session.write({"type": "note", "id": "x", "record": {"segments": [digit * 64]}})
        opened.append(session)
    opened[0].close()
    assert {"2" * 64, "3" * 64} == maintenance.open_segments(tmp_path)
    assert {"2" * 64} == maintenance.open_segments(tmp_path, opened[2].path)
    for session in opened[1:]:
        session.close()
