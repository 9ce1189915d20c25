"""Rows of other conversations that begin alike: lent in whole chunks, and only what is equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.store.segments.catalog import KEY_TOKENS, rows_path
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from tests.support.checkpointing import path_of, prompt_of, rewrite, rows_of, whole, write_all

# Four tokens that both share, then a segment of each that is alike for 69 tokens.
START, ALIKE = 4, 69
SHARED = prompt_of(100)
MINE = [*SHARED[: START + ALIKE], 7, 7, 7]
CHAIN = path_of(MINE, [START, len(MINE)])


def tell(store: SegmentStore, length: int, *more: int) -> TokenPath:
    """Another conversation, which shares `length` tokens after the start with mine."""
    prompt = [*SHARED[: START + length], 9, 9]
    ends = [START, len(prompt), *(len(prompt) + number for number in more)]
    prompt += range(300, 300 + len(more))
    chain = path_of(prompt, ends)
    write_all(store, chain)
    return chain


def borrowed(store: SegmentStore, step: int) -> tuple[int, bytes] | None:
    """How many tokens others have of my second segment, and the rows of these."""
    rows = store.rows_of_other_path(CHAIN.after(1), step)
    if rows is None:
        return None
    with rows:
        return rows.count, whole(rows)["0.values"][2]


def file_of(store: SegmentStore, length: int) -> Path:
    prompt = [*SHARED[: START + length], 9, 9]
    return rows_path(store.folder, path_of(prompt, [START, len(prompt)]).after(1))


@pytest.mark.parametrize(("step", "count"), [(1, 69), (2, 68), (16, 64), (35, 35), (69, 69)])
def test_rows_of_a_like_beginning_are_lent_in_whole_chunks(
    store: SegmentStore, step: int, count: int
) -> None:
    theirs = tell(store, ALIKE)[1]
    rows = rows_of(theirs)["0.values"].array()[..., :count, :]
    assert (count, rows.tobytes()) == borrowed(store, step)


def test_the_first_segment_of_a_joined_file_is_lent(store: SegmentStore) -> None:
    theirs = tell(store, ALIKE, *range(1, 8))
    assert not file_of(store, ALIKE).exists()
    rows = rows_of(theirs[1])["0.values"].array()[..., :ALIKE, :]
    assert (ALIKE, rows.tobytes()) == borrowed(store, 1)


def test_no_more_is_lent_than_both_segments_have(store: SegmentStore) -> None:
    prompt = SHARED[: START + 66]
    write_all(store, path_of(prompt, [START, START + 66]))
    rows = borrowed(store, 1)
    assert rows is not None
    assert 66 == rows[0]


def test_less_than_a_chunk_is_not_lent(store: SegmentStore) -> None:
    tell(store, ALIKE)
    assert None is borrowed(store, ALIKE + 1)


def test_the_longest_of_several_beginnings_is_lent(store: SegmentStore) -> None:
    for length in (65, 68, 66):
        tell(store, length)
    rows = borrowed(store, 1)
    assert rows is not None
    assert 68 == rows[0]


def test_a_beginning_shorter_than_a_name_tells_is_not_worth_looking_for(
    store: SegmentStore,
) -> None:
    tell(store, KEY_TOKENS - 1)
    assert None is borrowed(store, 1)


def test_rows_after_another_beginning_are_not_lent(store: SegmentStore) -> None:
    prompt = [1, 2, 3, 4, *SHARED[4 : START + ALIKE], 9]
    write_all(store, path_of(prompt, [START, len(prompt)]))
    assert None is borrowed(store, 1)


@pytest.mark.parametrize("changes", [{"start": "5"}, {"version": "9"}, {"fingerprint": "0" * 32}])
def test_rows_that_lie_about_themselves_are_not_lent(
    store: SegmentStore, changes: dict[str, str | None]
) -> None:
    tell(store, ALIKE)
    rewrite(file_of(store, ALIKE), changes)
    assert None is borrowed(store, 1)


def test_damaged_rows_are_not_lent(store: SegmentStore) -> None:
    tell(store, ALIKE)
    path = file_of(store, ALIKE)
    path.write_bytes(path.read_bytes()[:-1])
    assert None is borrowed(store, 1)
