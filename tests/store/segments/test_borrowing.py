"""Rows borrowed from another conversation whose segment begins with the same tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.store.segments.catalog import KEY_TOKENS, rows_path
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from tests.support.checkpointing import path_of, prompt_of, read_rows, rewrite, rows_of, write_all

# A shared segment of four tokens, then a segment of each that shares its first 69 tokens.
START, ALIKE = 4, 69
SHARED = prompt_of(100)
MINE = [*SHARED[: START + ALIKE], 7, 7, 7]
TOKEN_PATH = path_of(MINE, [START, len(MINE)])


def write_other(store: SegmentStore, length: int, *later_lengths: int) -> TokenPath:
    """Write another conversation that shares `length` tokens after the first segment."""
    prompt = [*SHARED[: START + length], 9, 9]
    ends = [START, len(prompt), *(len(prompt) + number for number in later_lengths)]
    prompt += range(300, 300 + len(later_lengths))
    path = path_of(prompt, ends)
    write_all(store, path)
    return path


def borrow(store: SegmentStore, step: int) -> tuple[int, bytes] | None:
    """How many tokens of the second segment are borrowed, and the bytes of their values."""
    rows = store.rows_of_other_path(TOKEN_PATH.after(1), step)
    if rows is None:
        return None
    with rows:
        return rows.count, read_rows(rows)["0.values"][2]


def file_of(store: SegmentStore, length: int) -> Path:
    prompt = [*SHARED[: START + length], 9, 9]
    return rows_path(store.location, path_of(prompt, [START, len(prompt)]).after(1)).path


@pytest.mark.parametrize(("step", "count"), [(1, 69), (2, 68), (16, 64), (35, 35), (69, 69)])
def test_rows_of_a_shared_beginning_are_lent_in_whole_chunks(
    store: SegmentStore, step: int, count: int
) -> None:
    theirs = write_other(store, ALIKE)[1]
    rows = rows_of(theirs)["0.values"].array()[..., :count, :]
    assert (count, rows.tobytes()) == borrow(store, step)


def test_the_first_segment_of_a_joined_file_is_lent(store: SegmentStore) -> None:
    theirs = write_other(store, ALIKE, *range(1, 8))
    assert not file_of(store, ALIKE).exists()
    rows = rows_of(theirs[1])["0.values"].array()[..., :ALIKE, :]
    assert (ALIKE, rows.tobytes()) == borrow(store, 1)


def test_no_more_is_lent_than_both_segments_have(store: SegmentStore) -> None:
    prompt = SHARED[: START + 66]
    write_all(store, path_of(prompt, [START, START + 66]))
    rows = borrow(store, 1)
    assert rows is not None
    assert 66 == rows[0]


def test_less_than_a_chunk_is_not_lent(store: SegmentStore) -> None:
    write_other(store, ALIKE)
    assert None is borrow(store, ALIKE + 1)


def test_the_longest_of_several_beginnings_is_lent(store: SegmentStore) -> None:
    for length in (65, 68, 66):
        write_other(store, length)
    rows = borrow(store, 1)
    assert rows is not None
    assert 68 == rows[0]


def test_a_shared_beginning_shorter_than_the_key_is_not_lent(
    store: SegmentStore,
) -> None:
    write_other(store, KEY_TOKENS - 1)
    assert None is borrow(store, 1)


def test_rows_after_another_beginning_are_not_lent(store: SegmentStore) -> None:
    prompt = [1, 2, 3, 4, *SHARED[4 : START + ALIKE], 9]
    write_all(store, path_of(prompt, [START, len(prompt)]))
    assert None is borrow(store, 1)


@pytest.mark.parametrize("changes", [{"start": "5"}, {"version": "9"}, {"fingerprint": "0" * 32}])
def test_rows_with_wrong_metadata_are_not_lent(store: SegmentStore, changes: dict[str, str | None]) -> None:
    write_other(store, ALIKE)
    rewrite(file_of(store, ALIKE), changes)
    assert None is borrow(store, 1)


def test_damaged_rows_are_not_lent(store: SegmentStore) -> None:
    write_other(store, ALIKE)
    path = file_of(store, ALIKE)
    path.write_bytes(path.read_bytes()[:-1])
    assert None is borrow(store, 1)
