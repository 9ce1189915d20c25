"""Joining small files: few of them stay, every row is the same, and nothing is lost on the way."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.store.segments import eviction, inventory
from chatcli.store.segments.catalog import NAME_DIGITS, ROWS_NAME, RowsFile, locate
from chatcli.store.segments.compaction import FANOUT, MAX_JOINED_BYTES, files_to_join, shorten, small_files
from chatcli.store.segments.container import Container
from chatcli.store.segments.rows import Piece
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from tests.support.checkpointing import (
    FINGERPRINT,
    expected,
    path_of,
    prompt_of,
    read,
    rewrite,
    rows_files,
    write,
    write_all,
)

MANY = 1 + FANOUT + FANOUT * FANOUT
LENGTHS = [5, 1, 3, 2, 7, 1, 1, 4]
ENDS = list(itertools.accumulate(itertools.islice(itertools.cycle(LENGTHS), MANY)))
PROMPT = prompt_of(ENDS[-1] + 50)
CHAIN = path_of(PROMPT, ENDS)
# One file of the first segment and one of the eight that follow it.
ONCE = 1 + FANOUT


@pytest.fixture(scope="module")
def grown_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    store = SegmentStore(folder, FINGERPRINT)
    write_all(store, CHAIN)
    store.close()
    return folder


@pytest.fixture
def long(tmp_path: Path, grown_once: Path) -> Iterator[SegmentStore]:
    """A store of the whole path, written as a conversation writes it."""
    shutil.copytree(grown_once, tmp_path / "long")
    store = SegmentStore(tmp_path / "long", FINGERPRINT)
    yield store
    store.close()


def inside(store: SegmentStore, chain: TokenPath = CHAIN) -> list[int]:
    """How many segments each file of a path holds."""
    return [file.segments for file in locate(store.folder, chain)]


def named_for(path: Path) -> tuple[str, str]:
    parts = ROWS_NAME.fullmatch(path.name)
    assert parts is not None
    return parts[2], parts[3]


def branch_at(depth: int, more: int = 3) -> TokenPath:
    """Another path that shares the first `depth` segments with the first."""
    shared = ENDS[depth - 1] if depth else 0
    prompt = [*PROMPT[:shared], *prompt_of(60, seed=100 + depth)]
    ends = [*ENDS[:depth], *(shared + 4 * number for number in range(1, more + 1))]
    return path_of(prompt, ends)


# Which files


def grown(count: int, sizes: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """The files after `count` puts: segments, bytes, and how often each segment was rewritten."""
    segments: list[int] = []
    taken: list[int] = []
    moved = [0] * count
    for number in range(count):
        segments.append(1)
        taken.append(sizes[number])
        joining = files_to_join(segments, taken)
        if joining:
            together = sum(segments[-joining:])
            for at in range(number + 1 - together, number + 1):
                moved[at] += 1
            segments[-joining:] = [together]
            taken[-joining:] = [sum(taken[-joining:])]
    return segments, taken, moved


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1000])
def test_few_files_stay_and_no_row_is_rewritten_often(count: int) -> None:
    segments, _, moved = grown(count, [1000] * count)
    levels = int(math.log(count, FANOUT)) + 1
    assert count == sum(segments)
    assert len(segments) <= (FANOUT - 1) * levels
    assert max(moved) <= math.log(count, FANOUT)
    assert sorted(segments, reverse=True) == segments


def test_a_power_of_the_fan_is_one_file() -> None:
    counts = {count: grown(count, [1] * count)[0] for count in (1, 7, 8, 15, 16, 64, 512)}
    assert {1: [1], 7: [1] * 7, 8: [8], 15: [8, *[1] * 7], 16: [8, 8], 64: [64], 512: [512]} == counts


def test_no_joined_file_is_larger_than_is_worth_it() -> None:
    noise = np.random.default_rng(3)
    sizes = noise.integers(1, MAX_JOINED_BYTES // 3, 400).tolist()
    segments, taken, moved = grown(400, sizes)
    joined = [size for count, size in zip(segments, taken, strict=True) if count > 1]
    assert joined
    assert max(joined) <= MAX_JOINED_BYTES
    assert max(moved) <= math.log(400, FANOUT)


def test_files_too_large_to_join_do_not_keep_later_ones_from_it() -> None:
    segments, _, _ = grown(30, [MAX_JOINED_BYTES, *[MAX_JOINED_BYTES // 2] * 3, *[1000] * 26])
    assert [1, 1, 1, 8, 8, 8, 1, 1, 1] == segments


@pytest.mark.parametrize(
    ("segments", "joined"),
    [
        ([], 0),
        ([1], 0),
        ([1] * 7, 0),
        ([8] * 7 + [1] * 7, 0),
        ([8] * 7 + [1] * 8, 15),
        ([64] * 7 + [8] * 7 + [1] * 8, 22),
        ([64, 8, 8] + [1] * 8, 8),
        ([9] * 7 + [3] + [1] * 7, 15),
        ([1] * 7 + [8], 0),
        ([1] * 8 + [8], 0),
        ([1] * 8 + [8] + [1] * 7, 0),
    ],
)
def test_eight_files_of_a_size_at_the_end_become_one(segments: list[int], joined: int) -> None:
    assert joined == files_to_join(segments, [1] * len(segments))


def test_bytes_stop_joining_one_level_before_they_are_too_many() -> None:
    segments = [8] * 7 + [1] * 8
    assert 15 == files_to_join(segments, [MAX_JOINED_BYTES // 15] * 15)
    assert 8 == files_to_join(segments, [MAX_JOINED_BYTES // 7] * 7 + [1000] * 8)
    assert 0 == files_to_join(segments, [1] * 7 + [MAX_JOINED_BYTES // 8 + 1] * 8)


# Real files


def test_a_path_is_joined_as_it_grows(store: SegmentStore) -> None:
    counts = []
    for depth in range(1, ONCE + 3):
        write(store, CHAIN.upto(depth))
        counts.append(inside(store))
    assert [[1] * depth for depth in range(1, ONCE)] == counts[: ONCE - 1]
    assert [[1, FANOUT], [1, FANOUT, 1], [1, FANOUT, 1, 1]] == counts[ONCE - 1 :]
    assert 4 == len(rows_files(store))


def test_a_joined_path_is_few_whole_files_and_nothing_else(long: SegmentStore) -> None:
    assert [1, FANOUT * FANOUT, FANOUT] == inside(long)
    assert 3 == len(rows_files(long))
    assert [] == list((long.folder / "tmp").iterdir())
    assert [] == list(inventory.verify(long.folder.parent.parent))
    assert [(CHAIN[0].id[:NAME_DIGITS], CHAIN[0].id[:NAME_DIGITS])] == [
        names for names in map(named_for, rows_files(long)) if names[0] == names[1]
    ]


def test_the_first_segment_stays_by_itself(long: SegmentStore) -> None:
    first = locate(long.folder, CHAIN)[0]
    assert (1, True) == (first.segments, first.whole)
    assert (CHAIN[0].id[:NAME_DIGITS],) * 2 == named_for(first.path)


def test_a_joined_path_gives_the_bytes_that_were_put(long: SegmentStore) -> None:
    assert len(CHAIN) == long.depth(CHAIN, stateful=False)
    assert expected(CHAIN) == read(long, CHAIN)


def test_a_joined_path_can_be_cut_after_every_segment(long: SegmentStore) -> None:
    for depth in range(1, len(CHAIN)):
        assert depth == long.depth(CHAIN.upto(depth), stateful=False)
        assert expected(CHAIN.upto(depth)) == read(long, CHAIN.upto(depth))


def test_a_joined_file_tells_what_its_parts_took(long: SegmentStore) -> None:
    took = {}
    for path in rows_files(long):
        with Container(path) as file:
            took[len(file.metadata["ends"].split(","))] = float(file.metadata["seconds"])
    assert {1: 0.25, FANOUT: 0.25 * FANOUT, FANOUT * FANOUT: 0.25 * FANOUT * FANOUT} == took


@pytest.mark.parametrize("depth", [1, 2, 5, FANOUT, ONCE, 20, MANY - 1])
def test_a_branch_uses_what_it_shares_of_a_joined_file(long: SegmentStore, depth: int) -> None:
    chain = branch_at(depth)
    before = {path: path.read_bytes() for path in rows_files(long)}
    assert depth == long.depth(chain, stateful=False)
    write_all(long, chain, depth)
    assert expected(chain) == read(long, chain)
    assert expected(CHAIN) == read(long, CHAIN)
    assert before == {path: path.read_bytes() for path in before}


def test_a_branch_that_grows_is_joined_and_leaves_the_shared_file_alone(
    long: SegmentStore,
) -> None:
    chain = branch_at(5, more=FANOUT)
    before = rows_files(long)
    write_all(long, chain, 5)
    assert 1 == len(set(rows_files(long)) - set(before))
    assert set(before) <= set(rows_files(long))
    assert expected(chain) == read(long, chain)


def test_a_boundary_in_the_middle_of_a_segment_of_a_joined_file_is_no_match(
    long: SegmentStore,
) -> None:
    """Other boundaries make other segments: what comes before them is still found."""
    ends = [*ENDS[:4], ENDS[4] - 3, ENDS[4]]
    assert 4 == long.depth(path_of(PROMPT, ends), stateful=False)


def leftover(store: SegmentStore) -> list[Path]:
    """The first nine segments when a process was killed before it removed the joined ones."""
    write_all(store, CHAIN.upto(ONCE - 1))
    small = {path: path.read_bytes() for path in rows_files(store)}
    write(store, CHAIN.upto(ONCE))
    assert [1, FANOUT] == inside(store)
    joined_files = [path for path in small if not path.exists()]
    for path in joined_files:
        path.write_bytes(small[path])
    return sorted(joined_files)


def test_a_kill_after_the_joined_file_was_written_loses_nothing(store: SegmentStore) -> None:
    joined_files = leftover(store)
    assert FANOUT - 1 == len(joined_files)
    assert expected(CHAIN.upto(ONCE)) == read(store, CHAIN.upto(ONCE))
    write_all(store, CHAIN.upto(20), ONCE)
    assert expected(CHAIN.upto(20)) == read(store, CHAIN.upto(20))


def test_what_a_killed_joining_left_is_named_as_held_twice(store: SegmentStore) -> None:
    sessions = store.folder.parent.parent
    joined_files = leftover(store)
    twice = list(eviction.held_twice(sessions))
    assert joined_files == sorted(removal.path for removal in twice)
    assert sum(path.stat().st_size for path in joined_files) == eviction.remove(twice)
    assert expected(CHAIN.upto(ONCE)) == read(store, CHAIN.upto(ONCE))
    assert [] == list(eviction.held_twice(sessions))


def test_no_file_of_a_whole_store_is_held_twice(long: SegmentStore) -> None:
    assert [] == list(eviction.held_twice(long.folder.parent.parent))


def test_the_small_files_serve_where_the_joined_one_is_damaged(store: SegmentStore) -> None:
    leftover(store)
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    joined.write_bytes(joined.read_bytes()[:-1])
    with pytest.raises(SegmentDamaged, match="damaged"):
        read(store, CHAIN.upto(ONCE))
    assert ONCE - 1 == store.depth(CHAIN.upto(ONCE), stateful=False)
    assert expected(CHAIN.upto(ONCE - 1)) == read(store, CHAIN.upto(ONCE - 1))


@pytest.mark.parametrize("number", [1, 4, 7])
def test_a_damaged_file_is_not_joined_but_set_aside(store: SegmentStore, number: int) -> None:
    write_all(store, CHAIN.upto(ONCE - 1))
    bad = locate(store.folder, CHAIN.upto(ONCE - 1))[number].path
    data = bytearray(bad.read_bytes())
    data[-1] ^= 1
    bad.write_bytes(data)
    write(store, CHAIN.upto(ONCE))
    assert None is store.take_problem()
    assert not bad.exists()
    assert number == store.depth(CHAIN.upto(ONCE), stateful=False)
    write(store, CHAIN.upto(number + 1))
    assert expected(CHAIN.upto(ONCE)) == read(store, CHAIN.upto(ONCE))


@pytest.mark.parametrize("seconds", [None, "", "long"])
def test_files_that_do_not_tell_their_time_are_no_error(store: SegmentStore, seconds: str | None) -> None:
    write_all(store, CHAIN.upto(ONCE - 1))
    rewrite(locate(store.folder, CHAIN.upto(3))[2].path, {"seconds": seconds})
    write(store, CHAIN.upto(ONCE))
    assert None is store.take_problem()
    assert expected(CHAIN.upto(ONCE)) == read(store, CHAIN.upto(ONCE))


class OvertakenStore(SegmentStore):
    """Another process joins the files after they were located and before the first is opened."""

    overtaken = False

    def _piece(self, located: RowsFile, run: TokenPath) -> Piece:
        if not self.overtaken:
            self.overtaken = True
            other = SegmentStore(self.folder.parents[1], FINGERPRINT)
            write_all(other, CHAIN.upto(ONCE - 1 + FANOUT), ONCE - 1)
            other.close()
        return super()._piece(located, run)


def test_files_that_are_joined_between_finding_and_opening_are_found_again(tmp_path: Path) -> None:
    path = CHAIN.upto(ONCE - 1)
    writer = SegmentStore(tmp_path, FINGERPRINT)
    write_all(writer, path)
    writer.close()
    store = OvertakenStore(tmp_path, FINGERPRINT)
    small = rows_files(store)
    assert expected(path) == read(store, path)
    assert store.overtaken
    assert 1 == len(set(small) & set(rows_files(store)))
    store.close()


def test_a_file_that_is_named_and_never_there_is_a_miss(store: SegmentStore) -> None:
    write_all(store, CHAIN.upto(3))
    joined_files = locate(store.folder, CHAIN.upto(3))[1].path
    joined_files.unlink()
    joined_files.symlink_to("nowhere")
    with pytest.raises(SegmentDamaged, match="evicted or deleted"):
        store.rows(CHAIN.upto(3))


# Shortening


@pytest.mark.parametrize("keep", range(1, FANOUT))
def test_a_shortened_file_holds_its_first_segments(store: SegmentStore, keep: int) -> None:
    write_all(store, CHAIN.upto(ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    new = shorten(store.folder, joined, keep)
    assert (False, True) == (joined.exists(), new.exists())
    assert keep + 1 == store.depth(CHAIN.upto(ONCE), stateful=False)
    assert expected(CHAIN.upto(keep + 1)) == read(store, CHAIN.upto(keep + 1))
    assert [] == list(inventory.verify(store.folder.parent.parent))


def test_nothing_of_what_was_cut_off_is_left_in_the_folder(store: SegmentStore) -> None:
    write_all(store, CHAIN.upto(ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    shorten(store.folder, joined, 2)
    tokens = np.asarray(PROMPT[ENDS[2] : ENDS[3]], "<i4").tobytes()
    kept = np.asarray(PROMPT[ENDS[1] : ENDS[2]], "<i4").tobytes()
    data = b"".join(path.read_bytes() for path in store.folder.rglob("*") if path.is_file())
    assert (False, True) == (tokens in data, kept in data)


def test_a_file_shortened_to_all_that_it_has_stays(store: SegmentStore) -> None:
    write_all(store, CHAIN.upto(ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    assert joined == shorten(store.folder, joined, FANOUT)
    assert expected(CHAIN.upto(ONCE)) == read(store, CHAIN.upto(ONCE))


def test_a_damaged_file_is_not_shortened(store: SegmentStore) -> None:
    write_all(store, CHAIN.upto(ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    data = bytearray(joined.read_bytes())
    data[-1] ^= 1
    joined.write_bytes(data)
    before = rows_files(store)
    with pytest.raises(SegmentDamaged):
        shorten(store.folder, joined, 2)
    assert (before, bytes(data)) == (rows_files(store), joined.read_bytes())


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([], 0),
        ([1] * 5, 0),
        ([1] * 6, 6),
        ([8, 1, 1, 1, 1, 1, 1, 1], 7),
        ([64, 8, 3, 1, 1, 2, 7, 1], 6),
        ([1, 1, 1, 1, 1, 1, 8], 0),
    ],
)
def test_the_small_files_at_the_end_are_joined_last(segments: list[int], expected: int) -> None:
    assert expected == small_files(segments, [10] * len(segments))
    assert 0 == small_files(segments, [MAX_JOINED_BYTES] * len(segments))
