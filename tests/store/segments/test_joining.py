"""Joining small files: few are left, every row is the same, and nothing is lost in between."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.store.segments import eviction, inventory
from chatcli.store.segments.catalog import NAME_DIGITS, ROWS_NAME, RowsFile, locate
from chatcli.store.segments.container import Container
from chatcli.store.segments.joining import FANOUT, MAX_JOINED_BYTES, files_to_join, shorten, small_files
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
TOKEN_PATH = path_of(PROMPT, ENDS)
# One file of the first segment and one of the eight that follow it.
JOINED_ONCE = 1 + FANOUT


@pytest.fixture(scope="module")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    store = SegmentStore(folder, FINGERPRINT)
    write_all(store, TOKEN_PATH)
    store.close()
    return folder


@pytest.fixture
def long_store(tmp_path: Path, long_folder: Path) -> Iterator[SegmentStore]:
    """A store that holds all of `TOKEN_PATH`, put one segment after the other."""
    shutil.copytree(long_folder, tmp_path / "long")
    store = SegmentStore(tmp_path / "long", FINGERPRINT)
    yield store
    store.close()


def segments_per_file(store: SegmentStore, chain: TokenPath = TOKEN_PATH) -> list[int]:
    """How many segments each file of a path holds, in order."""
    return [file.segments for file in locate(store.location, chain)]


def named_for(path: Path) -> tuple[str, str]:
    parts = ROWS_NAME.fullmatch(path.name)
    assert parts is not None
    return parts[2], parts[3]


def branch_at(depth: int, own_segments: int = 3) -> TokenPath:
    """A path that shares the first `depth` segments with `TOKEN_PATH`."""
    shared = ENDS[depth - 1] if depth else 0
    prompt = [*PROMPT[:shared], *prompt_of(60, seed=100 + depth)]
    ends = [*ENDS[:depth], *(shared + 4 * number for number in range(1, own_segments + 1))]
    return path_of(prompt, ends)


# Which files are joined


def layout_after(count: int, segment_sizes: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Files after `count` puts: segments and bytes of each, and how often each segment was rewritten."""
    segments: list[int] = []
    file_sizes: list[int] = []
    rewrites = [0] * count
    for number in range(count):
        segments.append(1)
        file_sizes.append(segment_sizes[number])
        joining = files_to_join(segments, file_sizes)
        if joining:
            together = sum(segments[-joining:])
            for at in range(number + 1 - together, number + 1):
                rewrites[at] += 1
            segments[-joining:] = [together]
            file_sizes[-joining:] = [sum(file_sizes[-joining:])]
    return segments, file_sizes, rewrites


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1000])
def test_few_files_stay_and_no_row_is_rewritten_often(count: int) -> None:
    segments, _, rewrites = layout_after(count, [1000] * count)
    levels = int(math.log(count, FANOUT)) + 1
    assert count == sum(segments)
    assert len(segments) <= (FANOUT - 1) * levels
    assert max(rewrites) <= math.log(count, FANOUT)
    assert sorted(segments, reverse=True) == segments


def test_a_power_of_the_fanout_is_one_file() -> None:
    counts = {count: layout_after(count, [1] * count)[0] for count in (1, 7, 8, 15, 16, 64, 512)}
    assert {1: [1], 7: [1] * 7, 8: [8], 15: [8, *[1] * 7], 16: [8, 8], 64: [64], 512: [512]} == counts


def test_no_joined_file_is_larger_than_the_maximum() -> None:
    noise = np.random.default_rng(3)
    sizes = noise.integers(1, MAX_JOINED_BYTES // 3, 400).tolist()
    segments, file_sizes, rewrites = layout_after(400, sizes)
    joined = [size for count, size in zip(segments, file_sizes, strict=True) if count > 1]
    assert joined
    assert max(joined) <= MAX_JOINED_BYTES
    assert max(rewrites) <= math.log(400, FANOUT)


def test_files_too_large_to_join_do_not_stop_later_ones() -> None:
    segments, _, _ = layout_after(30, [MAX_JOINED_BYTES, *[MAX_JOINED_BYTES // 2] * 3, *[1000] * 26])
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


def test_joining_stops_one_level_before_the_maximum_size() -> None:
    segments = [8] * 7 + [1] * 8
    assert 15 == files_to_join(segments, [MAX_JOINED_BYTES // 15] * 15)
    assert 8 == files_to_join(segments, [MAX_JOINED_BYTES // 7] * 7 + [1000] * 8)
    assert 0 == files_to_join(segments, [1] * 7 + [MAX_JOINED_BYTES // 8 + 1] * 8)


# Real files


def test_a_path_is_joined_as_it_grows(store: SegmentStore) -> None:
    counts = []
    for depth in range(1, JOINED_ONCE + 3):
        write(store, TOKEN_PATH.upto(depth))
        counts.append(segments_per_file(store))
    assert [[1] * depth for depth in range(1, JOINED_ONCE)] == counts[: JOINED_ONCE - 1]
    assert [[1, FANOUT], [1, FANOUT, 1], [1, FANOUT, 1, 1]] == counts[JOINED_ONCE - 1 :]
    assert 4 == len(rows_files(store))


def test_a_joined_path_is_a_few_files_and_nothing_else(long_store: SegmentStore) -> None:
    assert [1, FANOUT * FANOUT, FANOUT] == segments_per_file(long_store)
    assert 3 == len(rows_files(long_store))
    assert [] == list((long_store.folder / "tmp").iterdir())
    assert [] == list(inventory.verify(long_store.folder.parent.parent))
    assert [(TOKEN_PATH[0].id[:NAME_DIGITS], TOKEN_PATH[0].id[:NAME_DIGITS])] == [
        names for names in map(named_for, rows_files(long_store)) if names[0] == names[1]
    ]


def test_the_first_segment_is_never_joined(long_store: SegmentStore) -> None:
    first_file = locate(long_store.location, TOKEN_PATH)[0]
    assert (1, True) == (first_file.segments, first_file.whole)
    assert (TOKEN_PATH[0].id[:NAME_DIGITS],) * 2 == named_for(first_file.path)


def test_a_joined_path_reads_back_as_it_was_put(long_store: SegmentStore) -> None:
    assert len(TOKEN_PATH) == long_store.depth(TOKEN_PATH, stateful=False)
    assert expected(TOKEN_PATH) == read(long_store, TOKEN_PATH)


def test_a_joined_path_can_be_cut_after_every_segment(long_store: SegmentStore) -> None:
    for depth in range(1, len(TOKEN_PATH)):
        assert depth == long_store.depth(TOKEN_PATH.upto(depth), stateful=False)
        assert expected(TOKEN_PATH.upto(depth)) == read(long_store, TOKEN_PATH.upto(depth))


def test_a_joined_file_has_the_summed_prefill_seconds_of_its_segments(long_store: SegmentStore) -> None:
    seconds_by_segments = {}
    for path in rows_files(long_store):
        with Container(Location.of_file(path)) as file:
            seconds_by_segments[len(file.metadata["ends"].split(","))] = float(file.metadata["seconds"])
    assert {1: 0.25, FANOUT: 0.25 * FANOUT, FANOUT * FANOUT: 0.25 * FANOUT * FANOUT} == seconds_by_segments


@pytest.mark.parametrize("depth", [1, 2, 5, FANOUT, JOINED_ONCE, 20, MANY - 1])
def test_a_branch_uses_what_it_shares_of_a_joined_file(long_store: SegmentStore, depth: int) -> None:
    branch = branch_at(depth)
    before = {path: path.read_bytes() for path in rows_files(long_store)}
    assert depth == long_store.depth(branch, stateful=False)
    write_all(long_store, branch, depth)
    assert expected(branch) == read(long_store, branch)
    assert expected(TOKEN_PATH) == read(long_store, TOKEN_PATH)
    assert before == {path: path.read_bytes() for path in before}


def test_a_branch_that_grows_is_joined_and_leaves_the_shared_file_alone(
    long_store: SegmentStore,
) -> None:
    branch = branch_at(5, own_segments=FANOUT)
    old_files = rows_files(long_store)
    write_all(long_store, branch, 5)
    assert 1 == len(set(rows_files(long_store)) - set(old_files))
    assert set(old_files) <= set(rows_files(long_store))
    assert expected(branch) == read(long_store, branch)


def test_a_boundary_in_the_middle_of_a_segment_of_a_joined_file_is_no_match(
    long_store: SegmentStore,
) -> None:
    """Other boundaries make other segments; those before them still match."""
    ends = [*ENDS[:4], ENDS[4] - 3, ENDS[4]]
    assert 4 == long_store.depth(path_of(PROMPT, ends), stateful=False)


def leftover(store: SegmentStore) -> list[Path]:
    """Write nine segments as a process leaves them that was killed before it removed the joined files."""
    write_all(store, TOKEN_PATH.upto(JOINED_ONCE - 1))
    small = {path: path.read_bytes() for path in rows_files(store)}
    write(store, TOKEN_PATH.upto(JOINED_ONCE))
    assert [1, FANOUT] == segments_per_file(store)
    joined_files = [path for path in small if not path.exists()]
    for path in joined_files:
        path.write_bytes(small[path])
    return sorted(joined_files)


def test_a_kill_after_the_joined_file_was_written_loses_nothing(store: SegmentStore) -> None:
    joined_files = leftover(store)
    assert FANOUT - 1 == len(joined_files)
    assert expected(TOKEN_PATH.upto(JOINED_ONCE)) == read(store, TOKEN_PATH.upto(JOINED_ONCE))
    write_all(store, TOKEN_PATH.upto(20), JOINED_ONCE)
    assert expected(TOKEN_PATH.upto(20)) == read(store, TOKEN_PATH.upto(20))


def test_files_that_a_killed_process_left_are_held_twice(store: SegmentStore) -> None:
    sessions = store.folder.parent.parent
    joined_files = leftover(store)
    twice = list(eviction.held_twice(sessions))
    assert joined_files == sorted(removal.path for removal in twice)
    assert sum(path.stat().st_size for path in joined_files) == eviction.remove(twice)
    assert expected(TOKEN_PATH.upto(JOINED_ONCE)) == read(store, TOKEN_PATH.upto(JOINED_ONCE))
    assert [] == list(eviction.held_twice(sessions))


def test_no_file_of_a_whole_store_is_held_twice(long_store: SegmentStore) -> None:
    assert [] == list(eviction.held_twice(long_store.folder.parent.parent))


def test_the_small_files_are_used_where_the_joined_one_is_damaged(store: SegmentStore) -> None:
    leftover(store)
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    joined.write_bytes(joined.read_bytes()[:-1])
    with pytest.raises(SegmentDamaged, match="damaged"):
        read(store, TOKEN_PATH.upto(JOINED_ONCE))
    assert JOINED_ONCE - 1 == store.depth(TOKEN_PATH.upto(JOINED_ONCE), stateful=False)
    assert expected(TOKEN_PATH.upto(JOINED_ONCE - 1)) == read(store, TOKEN_PATH.upto(JOINED_ONCE - 1))


@pytest.mark.parametrize("number", [1, 4, 7])
def test_a_damaged_file_is_not_joined_but_set_aside(store: SegmentStore, number: int) -> None:
    write_all(store, TOKEN_PATH.upto(JOINED_ONCE - 1))
    bad = locate(store.location, TOKEN_PATH.upto(JOINED_ONCE - 1))[number].path.path
    data = bytearray(bad.read_bytes())
    data[-1] ^= 1
    bad.write_bytes(data)
    write(store, TOKEN_PATH.upto(JOINED_ONCE))
    assert None is store.take_problem()
    assert not bad.exists()
    assert number == store.depth(TOKEN_PATH.upto(JOINED_ONCE), stateful=False)
    write(store, TOKEN_PATH.upto(number + 1))
    assert expected(TOKEN_PATH.upto(JOINED_ONCE)) == read(store, TOKEN_PATH.upto(JOINED_ONCE))


@pytest.mark.parametrize("seconds", [None, "", "long"])
def test_files_without_prefill_seconds_are_no_error(store: SegmentStore, seconds: str | None) -> None:
    write_all(store, TOKEN_PATH.upto(JOINED_ONCE - 1))
    rewrite(locate(store.location, TOKEN_PATH.upto(3))[2].path.path, {"seconds": seconds})
    write(store, TOKEN_PATH.upto(JOINED_ONCE))
    assert None is store.take_problem()
    assert expected(TOKEN_PATH.upto(JOINED_ONCE)) == read(store, TOKEN_PATH.upto(JOINED_ONCE))


class OvertakenStore(SegmentStore):
    """Another process joins the files after they were located and before the first is opened."""

    overtaken = False

    def _piece(self, located: RowsFile, run: TokenPath) -> Piece:
        if not self.overtaken:
            self.overtaken = True
            other_store = SegmentStore(self.folder.parents[1], FINGERPRINT)
            write_all(other_store, TOKEN_PATH.upto(JOINED_ONCE - 1 + FANOUT), JOINED_ONCE - 1)
            other_store.close()
        return super()._piece(located, run)


def test_files_joined_by_another_process_before_they_are_opened_are_located_again(tmp_path: Path) -> None:
    path = TOKEN_PATH.upto(JOINED_ONCE - 1)
    writer = SegmentStore(tmp_path, FINGERPRINT)
    write_all(writer, path)
    writer.close()
    store = OvertakenStore(tmp_path, FINGERPRINT)
    small = rows_files(store)
    assert expected(path) == read(store, path)
    assert store.overtaken
    assert 1 == len(set(small) & set(rows_files(store)))
    store.close()


def test_a_link_is_a_miss(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH.upto(3))
    joined_files = locate(store.location, TOKEN_PATH.upto(3))[1].path.path
    joined_files.unlink()
    joined_files.symlink_to("nowhere")
    with pytest.raises(SegmentDamaged, match="it is a link"):
        store.rows(TOKEN_PATH.upto(3))
    with pytest.raises(SegmentDamaged, match="evicted or deleted"):
        store.rows(TOKEN_PATH.upto(3))


# Shortening


def shortened(store: SegmentStore, joined: Path, keep: int) -> Location:
    return shorten(store.location, store.location / joined.parent.name / joined.name, keep)


@pytest.mark.parametrize("keep", range(1, FANOUT))
def test_a_shortened_file_holds_its_first_segments(store: SegmentStore, keep: int) -> None:
    write_all(store, TOKEN_PATH.upto(JOINED_ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    new = shortened(store, joined, keep)
    assert (False, True) == (joined.exists(), new.exists())
    assert keep + 1 == store.depth(TOKEN_PATH.upto(JOINED_ONCE), stateful=False)
    assert expected(TOKEN_PATH.upto(keep + 1)) == read(store, TOKEN_PATH.upto(keep + 1))
    assert [] == list(inventory.verify(store.folder.parent.parent))


def test_no_tokens_that_were_cut_off_are_left_in_the_folder(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH.upto(JOINED_ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    shortened(store, joined, 2)
    cut_tokens = np.asarray(PROMPT[ENDS[2] : ENDS[3]], "<i4").tobytes()
    kept_tokens = np.asarray(PROMPT[ENDS[1] : ENDS[2]], "<i4").tobytes()
    data = b"".join(path.read_bytes() for path in store.folder.rglob("*") if path.is_file())
    assert (False, True) == (cut_tokens in data, kept_tokens in data)


def test_shortening_to_the_full_length_keeps_the_file(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH.upto(JOINED_ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    assert joined == shortened(store, joined, FANOUT)
    assert expected(TOKEN_PATH.upto(JOINED_ONCE)) == read(store, TOKEN_PATH.upto(JOINED_ONCE))


def test_a_damaged_file_is_not_shortened(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH.upto(JOINED_ONCE))
    (joined,) = [path for path in rows_files(store) if len(set(named_for(path))) == 2]
    data = bytearray(joined.read_bytes())
    data[-1] ^= 1
    joined.write_bytes(data)
    old_files = rows_files(store)
    with pytest.raises(SegmentDamaged):
        shortened(store, joined, 2)
    assert (old_files, bytes(data)) == (rows_files(store), joined.read_bytes())


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
def test_the_small_files_at_the_end_are_joined(segments: list[int], expected: int) -> None:
    assert expected == small_files(segments, [10] * len(segments))
    assert 0 == small_files(segments, [MAX_JOINED_BYTES] * len(segments))
