"""Long segments: where they are cut, which states are kept, and what happens to their files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from chatcli.files import Location
from chatcli.store.segments import catalog, cuts, eviction, inventory
from chatcli.store.segments.container import Container, Tensor
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from tests.support.checkpointing import (
    FINGERPRINT,
    expected,
    prompt_of,
    read,
    read_rows,
    rows_files,
    rows_of,
    state_files,
    state_of,
)

ROOT = root_id(FINGERPRINT)
DISTANCE = 10
PROMPT = prompt_of(200)


def long_path(prompt: Sequence[int], boundaries: Sequence[int], known: TokenPath | None = None) -> TokenPath:
    return TokenPath.cut(ROOT, prompt, boundaries, known, DISTANCE)


# Where


@pytest.mark.parametrize(
    ("step", "distance"), [(64, 1024), (7, 1022), (1, 1024), (1000, 1000), (1024, 1024), (2048, 2048)]
)
def test_a_cut_is_a_whole_number_of_chunks_from_its_boundary(step: int, distance: int) -> None:
    assert (distance, 0) == (cuts.distance(step), cuts.distance(step) % step)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, []),
        (0, 11, [10]),
        (3, 13, []),
        (3, 14, [13]),
        (3, 34, [13, 23, 33]),
        (5, 5, []),
    ],
)
def test_places_are_counted_from_the_boundary_and_lie_before_the_next(
    start: int, end: int, expected: list[int]
) -> None:
    assert expected == cuts.places(start, end, 10, PROMPT)
    assert [] == cuts.places(start, end, 0, PROMPT)


def test_no_place_lies_within_an_image() -> None:
    prompt = [1] * 15 + [-7] * 10 + [1] * 25
    assert [10, 30, 40] == cuts.places(0, 50, 10, prompt)
    assert [5, 15, 25, 35, 45] == cuts.places(0, 50, 5, prompt)[:1] + cuts.places(5, 50, 10, prompt)


def test_states_are_at_places_that_are_ever_further_apart_and_at_the_last() -> None:
    kept = [number for number in range(1, 101) if cuts.keeps_state(number, 100)]
    assert [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 41, 51, 63, 78, 97, 100] == kept


@pytest.mark.parametrize("last", [4, 9, 10, 19, 50, 400])
def test_at_least_four_fifths_of_what_prompts_share_have_a_state(last: int) -> None:
    kept = [number for number in range(1, last + 1) if cuts.keeps_state(number, last)]
    for shared in range(4, last + 1):
        # Another prompt parts just before the next cut.
        assert max(number for number in kept if number <= shared) >= 0.8 * (shared + 1) - 1


# Paths


def test_a_path_is_cut_between_its_boundaries() -> None:
    path = long_path(PROMPT, [4, 37, 40])
    assert [(4, False), (14, True), (24, True), (34, True), (37, False), (40, False)] == [
        (segment.end, segment.ends_at_cut) for segment in path
    ]
    assert ([4, 37, 40], 1, 5) == (path.boundaries, path.beginning, path.last_start)
    assert (1, 3) == (path.upto(5).last_start, path.after(2).beginning)
    assert PROMPT[14:37] == path.after(2).first_tokens
    assert (0, 0, []) == (path.upto(0).beginning, path.upto(0).last_start, path.upto(0).first_tokens)


def test_what_prompts_share_has_the_same_ids_up_to_the_last_cut_in_it() -> None:
    first = long_path(PROMPT, [4, 97])
    other = long_path([*PROMPT[:71], *prompt_of(80, seed=2)], [4, 140])
    shared = [segment.end for segment, each in zip(first, other, strict=False) if segment.id == each.id]
    assert [4, 14, 24, 34, 44, 54, 64] == shared


def test_what_is_known_of_another_path_changes_nothing() -> None:
    """That of a shorter prompt keeps a state at its last cut, which is none in a longer one."""
    rng = random.Random(3)
    for _ in range(200):
        ends = [sorted(rng.sample(range(1, 190), 3)) for _ in range(2)]
        known = long_path([*PROMPT[: rng.randrange(200)], *prompt_of(200, seed=5)], ends[0])
        assert long_path(PROMPT, ends[1]) == long_path(PROMPT, ends[1], known)


# Files


def put(store: SegmentStore, path: TokenPath, first: int, *, states: Sequence[int] = ()) -> None:
    """Put the rows of the segments after the first `first` as one file, and states at some depths."""
    run = path.after(first)
    parts = [rows_of(segment) for segment in run]
    rows = {
        name: Tensor.of(np.concatenate([part[name].array() for part in parts], axis=-2), parts[0][name].dtype)
        for name in parts[0]
    }
    store.put(Increment(path, rows, {}, "{}", 0.25 * len(run), len(run)))
    for depth in states:
        store.put(Increment(path.upto(depth), {}, state_of(path[depth - 1]), "{}", 0.25), rows_missing=False)
    store.flush()


def ends_in(path: Path) -> tuple[str, str | None]:
    with Container(Location.of_file(path)) as file:
        return file.metadata["ends"], file.metadata.get("cuts")


def test_a_long_segment_is_one_file_with_its_cuts(store: SegmentStore) -> None:
    path = long_path(PROMPT, [55, 60])
    put(store, path.upto(6), 0)
    put(store, path, 6)
    assert [("[10, 20, 30, 40, 50, 55]", "[10, 20, 30, 40, 50]"), ("[60]", None)] == sorted(
        map(ends_in, rows_files(store))
    )
    assert expected(path) == read(store, path)
    assert [] == store.missing(path)
    assert [] == list(inventory.verify(store.location.parent.parent.path))


def test_parts_that_were_written_while_it_was_read_become_one_file(store: SegmentStore) -> None:
    path = long_path(PROMPT, [4, 95])
    put(store, path.upto(1), 0)
    put(store, path.upto(4), 1, states=[4])
    put(store, path.upto(8), 4, states=[8])
    assert 3 == len(rows_files(store))
    # A reader that comes now has all of it.
    assert (8, 8) == (store.depth(path, stateful=False), store.depth(path, stateful=True))
    put(store, path, 8)
    assert [1, len(path) - 1] == [file.segments for file in catalog.locate(store.location, path)]
    assert 2 == len(rows_files(store)) and expected(path) == read(store, path)


def test_states_of_an_interrupted_read_go_where_the_rest_of_it_needs_none(store: SegmentStore) -> None:
    path = long_path(PROMPT, [155])
    assert [False, True, False] == [path[at].keeps_state for at in (8, 9, 10)]
    put(store, path.upto(11), 0, states=[9, 10, 11])
    assert 3 == len(state_files(store))
    put(store, path, 11)
    assert [catalog.state_path(store.location, path[9].id).path] == state_files(store)


def test_two_prompts_that_part_within_it_write_what_they_share_once(store: SegmentStore) -> None:
    first = long_path(PROMPT, [95])
    other = long_path([*PROMPT[:71], *prompt_of(40, seed=2)], [100])
    put(store, first, 0)
    assert 7 == store.depth(other, stateful=False)
    assert 71 == store.shared_tokens(other)
    put(store, other, 7)
    assert expected(other) == read(store, other) and expected(first) == read(store, first)
    assert 2 == len(rows_files(store))


def test_rows_are_lent_up_to_the_next_boundary_of_either(store: SegmentStore) -> None:
    """Beyond that the chunks of a prefill were others."""
    prompt = prompt_of(700)
    put(store, TokenPath.cut(ROOT, prompt, [250, 600], distance=100), 0)
    for boundaries, lent in [([580], 248), ([190], 188)]:
        rows = store.rows_of_other_path(TokenPath.cut(ROOT, prompt, boundaries), 4)
        assert rows is not None and lent == rows.count
        rows.close()


def test_rows_are_lent_from_the_middle_of_a_file(store: SegmentStore) -> None:
    """What both share up to a cut is in that file, too."""
    prompt = prompt_of(700)
    first = TokenPath.cut(ROOT, prompt, [600], distance=100)
    put(store, first, 0)
    other = TokenPath.cut(ROOT, [*prompt[:277], *prompt_of(300, seed=2)], [450], distance=100)
    depth = store.depth(other, stateful=False)
    assert (2, 277) == (depth, store.shared_tokens(other))
    rows = store.rows_of_other_path(other, 10, depth)
    assert rows is not None and 70 == rows.count
    whole = expected(first)
    for name, (dtype, _, data) in read_rows(rows).items():
        assert dtype == whole[name][0]
        itemsize = {"bfloat16": 2, "float32": 4}[dtype]
        heads, length, columns = whole[name][1][1:]
        array = np.frombuffer(data, np.uint8).reshape(heads, 70, columns * itemsize)
        source = np.frombuffer(whole[name][2], np.uint8).reshape(heads, length, columns * itemsize)
        assert np.array_equal(source[:, 200:270], array)
    rows.close()


def test_a_long_segment_of_before_it_was_cut_lends_its_rows(store: SegmentStore) -> None:
    prompt = prompt_of(700)
    put(store, TokenPath.cut(ROOT, prompt, [650]), 0)
    rows = store.rows_of_other_path(TokenPath.cut(ROOT, prompt, [650], distance=100), 100)
    assert rows is not None and 600 == rows.count
    rows.close()


# Which states


def due(path: TokenPath, store: SegmentStore, seconds: float, size: int = 1 << 30) -> list[int]:
    """The depths at which a state is written, of a model whose states are large."""
    depths = []
    for depth in range(1, len(path) + 1):
        if path[depth - 1].keeps_state and store.is_due(path.upto(depth), seconds, size):
            depths.append(depth)
            state = state_of(path[depth - 1])
            store.put(Increment(path.upto(depth), {}, state, "{}", seconds), rows_missing=False)
        else:
            store.is_due(path.upto(depth), seconds, size)
    return depths


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # Each segment takes longer than computing a state again may take.
        (2.0, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16]),
        (0.4, [3, 6, 10, 15, 16]),
        # All of it is quickly computed; others share what leads to the first boundary.
        (0.01, [16]),
    ],
)
def test_no_two_states_are_closer_than_they_are_computed(
    tmp_path: Path, seconds: float, expected: list[int]
) -> None:
    store = SegmentStore(tmp_path, FINGERPRINT, recompute_seconds=1.0, newest_bytes=0)
    assert expected == due(long_path(PROMPT, [155]), store, seconds)
    store.close()


def test_eviction_knows_what_conversations_share_however_often_it_is_cut(tmp_path: Path) -> None:
    """Two conversations after the same long system prompt keep the newest state of each."""
    store = SegmentStore(tmp_path, FINGERPRINT)
    newest = []
    for seed in (1, 2):
        prompt = [*PROMPT[:55], *prompt_of(60, seed=10 + seed)]
        path = long_path(prompt, [55, 80, 110])
        first = 0 if seed == 1 else path.beginning
        put(store, path, first, states=range(first + 1, len(path) + 1))
        newest.append(path.id)
    store.flush()
    removals = eviction.over_limit(tmp_path, 0)
    gone = [each.path.name[:64] for each in removals if each.reason == eviction.OLDER_STATE]
    assert not {*newest} & {*gone}
    assert len(state_files(store)) == len(gone) + len(newest)
    # Of the states on the way none is held to be a conversation of its own.
    assert {*path.upto(path.beginning).ids} <= {*gone}
    store.close()
