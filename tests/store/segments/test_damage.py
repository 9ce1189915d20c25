"""Damaged, foreign and unreadable segment files: each is a miss with a reason, and is set aside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.store.segments.catalog import TOKENS
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.segments import SegmentStore
from tests.support.checkpointing import (
    FIRST,
    ONE_SEGMENT,
    SECOND,
    TOKEN_PATH,
    damage_of_rows,
    damage_of_state,
    depth,
    expected,
    raw,
    read,
    rewrite,
    rows_at,
    rows_files,
    state_at,
    state_files,
    state_of,
    write,
    write_all,
)


def test_a_damaged_file_is_set_aside_and_written_anew_by_the_next_put(
    store: SegmentStore,
) -> None:
    size = write(store, ONE_SEGMENT)
    data = bytearray(rows_at(store).read_bytes())
    data[100] ^= 1
    rows_at(store).write_bytes(data)
    assert damage_of_rows(store).startswith("damaged: ")
    assert 0 == depth(store)
    assert [bytes(data)] == [path.read_bytes() for path in store.folder.rglob("*.damaged")]
    assert size == write(store, ONE_SEGMENT)
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


def test_rows_found_damaged_while_copied_are_set_aside_when_examined(
    store: SegmentStore,
) -> None:
    write_all(store, TOKEN_PATH)
    data = bytearray(rows_at(store, 1).read_bytes())
    data[-1] ^= 1
    rows_at(store, 1).write_bytes(data)
    with pytest.raises(SegmentDamaged, match="do not match their checksum"):
        read(store, TOKEN_PATH)
    assert 2 == depth(store)
    store.set_aside_damaged(TOKEN_PATH)
    assert 1 == depth(store)
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


def test_a_flipped_byte_on_disk_is_a_miss(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT, state=True)
    for path in (rows_at(store), state_at(store)):
        data = path.read_bytes()
        for position in range(0, len(data), 3):
            path.write_bytes(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])
            with pytest.raises(SegmentDamaged):
                read(store, ONE_SEGMENT)
                store.state(FIRST)
        path.write_bytes(data)
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)
    assert raw(state_of(FIRST)) == raw(store.state(FIRST)[0])


def test_swapped_files_are_damage(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH, state=True)
    for path_of_kind in (rows_at, state_at):
        first_bytes, second_bytes = path_of_kind(store).read_bytes(), path_of_kind(store, 1).read_bytes()
        path_of_kind(store).write_bytes(second_bytes)
        path_of_kind(store, 1).write_bytes(first_bytes)
    assert "belongs to another segment" in damage_of_rows(store)
    assert "damaged: its id belongs to another segment" == damage_of_state(store)
    with pytest.raises(SegmentDamaged, match="belongs to another segment"):
        store.state(SECOND)


def test_a_file_of_another_model_is_damage(store: SegmentStore, foreign: SegmentStore) -> None:
    write(foreign, ONE_SEGMENT, state=True)
    for path_of_kind in (rows_at, state_at):
        path_of_kind(store).parent.mkdir(parents=True, exist_ok=True)
        path_of_kind(store).write_bytes(path_of_kind(foreign).read_bytes())
    assert "damaged: its fingerprint belongs to another segment" == damage_of_rows(store)
    assert "damaged: its fingerprint belongs to another segment" == damage_of_state(store)


def test_state_in_the_place_of_rows_is_damage(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT, state=True)
    rows, state = rows_at(store).read_bytes(), state_at(store).read_bytes()
    rows_at(store).write_bytes(state)
    state_at(store).write_bytes(rows)
    assert "damaged: its kind belongs to another segment" == damage_of_rows(store)
    assert "damaged: its kind belongs to another segment" == damage_of_state(store)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "999"}, "its version belongs"),
        ({"format": None}, "its format belongs"),
        ({"start": "1"}, "its start belongs"),
        ({"start": None}, "its start belongs"),
        ({"parent": "0" * 64}, "its parent belongs"),
        ({"parent": None}, "its parent belongs"),
        ({"id": "0" * 64}, "its id belongs"),
        ({"ends": "[3, 4]"}, "its tokens differ from the conversation's"),
        ({"ends": "[5]"}, "its tokens are not as many as it says"),
        ({"ends": None}, "it does not state its ends"),
        ({"ends": "[0, 4]"}, "it does not say where its segments end"),
    ],
)
def test_rows_with_wrong_metadata_and_a_valid_digest_are_damage(
    store: SegmentStore, changes: dict[str, str | None], reason: str
) -> None:
    write(store, ONE_SEGMENT)
    rewrite(rows_at(store), changes)
    assert f"damaged: {reason}" in damage_of_rows(store)
    assert not rows_at(store).exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"end": "5"}, "its end belongs"),
        ({"id": None}, "its id belongs"),
        ({"scalars": None}, "it does not state its scalars"),
    ],
)
def test_a_state_with_wrong_metadata_and_a_valid_digest_is_damage(
    store: SegmentStore, changes: dict[str, str | None], reason: str
) -> None:
    write(store, ONE_SEGMENT, state=True)
    rewrite(state_at(store), changes)
    assert f"damaged: {reason}" in damage_of_state(store)
    assert not state_at(store).exists()


@pytest.mark.parametrize(
    "stored",
    [
        Tensor.of(np.array([5, 6, 7, 9], "<i4")),
        Tensor.of(np.array([5, 6, 7], "<i4")),
        Tensor.of(np.array([5, 6, 7, 8], "<i8")),
        Tensor.of(np.array([[5, 6], [7, 8]], "<i4")),
        Tensor.of(np.array([np.inf, np.nan], "float32")),
        Tensor("bfloat16", (1,), b"ab"),
        Tensor.of(np.array(5, "<i4")),
        None,
    ],
    ids=["others", "fewer", "64 bits", "a table", "infinite", "bfloat16", "a number", "none"],
)
def test_rows_of_other_tokens_with_a_valid_digest_are_damage(
    store: SegmentStore, stored: Tensor | None
) -> None:
    write(store, ONE_SEGMENT)
    rewrite(rows_at(store), {}, **{TOKENS: stored})
    assert "tokens" in damage_of_rows(store)


def test_rows_are_not_returned_for_other_tokens(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT)
    with pytest.raises(SegmentDamaged):
        store.rows(replace(ONE_SEGMENT, tokens=[5, 6, 7, 9]))


@pytest.mark.parametrize(
    "odd",
    [
        {"0.keys": None},
        {"9.keys": Tensor.of(np.zeros((1, 2, 2, 3), "float32"))},
        {"0.values": Tensor.of(np.zeros((1, 2, 3, 3), "float32"))},
        {"0.values": Tensor.of(np.zeros((1, 2, 2, 3), "float16"))},
        {"0.values": Tensor.of(np.zeros((1, 4, 2, 3), "float32"))},
        {"0.values": Tensor.of(np.zeros(2, "float32"))},
        {"0.values": Tensor.of(np.zeros((), "float32"))},
    ],
    ids=["fewer", "more", "of more tokens", "another type", "more heads", "flat", "a number"],
)
def test_rows_that_do_not_fit_those_before_are_damage(
    store: SegmentStore, odd: dict[str, Tensor | None]
) -> None:
    write_all(store, TOKEN_PATH)
    rewrite(rows_at(store, 1), {}, **odd)
    assert damage_of_rows(store, TOKEN_PATH).startswith("damaged: it")
    # Either file may be the wrong one, so both are set aside.
    assert 0 == depth(store)


def test_a_folder_in_place_of_a_file_is_a_miss(store: SegmentStore) -> None:
    rows_at(store).mkdir(parents=True)
    state_at(store).mkdir(parents=True)
    assert "unreadable" in damage_of_rows(store)
    assert "unreadable" in damage_of_state(store)


def test_an_unlistable_folder_is_a_miss_and_reported_on_write(
    store: SegmentStore,
) -> None:
    shard = rows_at(store).parent
    store.folder.mkdir(parents=True)
    shard.symlink_to(shard)
    assert (0, "evicted or deleted") == (depth(store), damage_of_rows(store))
    write(store, ONE_SEGMENT)
    assert str(store.folder) in str(store.take_problem())


def test_a_path_that_does_not_fit_its_model_is_set_aside(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH, state=True)
    store.set_aside_all(TOKEN_PATH)
    assert (0, []) == (depth(store), [*rows_files(store), *state_files(store)])
    assert 4 == len(list(store.folder.rglob("*.damaged")))
    assert write(store, ONE_SEGMENT, state=True) > 0
    assert 1 == depth(store, stateful=True)
