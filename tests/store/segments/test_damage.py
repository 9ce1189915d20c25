"""Checkpoints on disk: whatever happens to a file, it is read back equal or named as damaged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.store.segments.catalog import TOKENS
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.segments import SegmentStore
from tests.support.checkpointing import (
    CHAIN,
    FIRST,
    ONE,
    SECOND,
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
    size = write(store, ONE)
    data = bytearray(rows_at(store).read_bytes())
    data[100] ^= 1
    rows_at(store).write_bytes(data)
    assert damage_of_rows(store).startswith("damaged: ")
    assert 0 == depth(store)
    assert [bytes(data)] == [path.read_bytes() for path in store.folder.rglob("*.damaged")]
    assert size == write(store, ONE)
    assert expected(ONE) == read(store, ONE)


def test_rows_that_prove_damaged_while_they_are_copied_are_set_aside_when_examined(
    store: SegmentStore,
) -> None:
    write_all(store, CHAIN)
    data = bytearray(rows_at(store, 1).read_bytes())
    data[-1] ^= 1
    rows_at(store, 1).write_bytes(data)
    with pytest.raises(SegmentDamaged, match="do not match their checksum"):
        read(store, CHAIN)
    assert 2 == depth(store)
    store.set_aside_damaged(CHAIN)
    assert 1 == depth(store)
    assert expected(ONE) == read(store, ONE)


def test_a_flipped_byte_on_disk_is_a_miss(store: SegmentStore) -> None:
    write(store, ONE, state=True)
    for path in (rows_at(store), state_at(store)):
        data = path.read_bytes()
        for position in range(0, len(data), 3):
            path.write_bytes(data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :])
            with pytest.raises(SegmentDamaged):
                read(store, ONE)
                store.state(FIRST)
        path.write_bytes(data)
    assert expected(ONE) == read(store, ONE)
    assert raw(state_of(FIRST)) == raw(store.state(FIRST)[0])


def test_a_file_in_anothers_place_is_damage(store: SegmentStore) -> None:
    write_all(store, CHAIN, state=True)
    for place in (rows_at, state_at):
        first, second = place(store).read_bytes(), place(store, 1).read_bytes()
        place(store).write_bytes(second)
        place(store, 1).write_bytes(first)
    assert "belongs to another segment" in damage_of_rows(store)
    assert "damaged: its id belongs to another segment" == damage_of_state(store)
    with pytest.raises(SegmentDamaged, match="belongs to another segment"):
        store.state(SECOND)


def test_a_file_of_another_model_is_damage(store: SegmentStore, foreign: SegmentStore) -> None:
    write(foreign, ONE, state=True)
    for place in (rows_at, state_at):
        place(store).parent.mkdir(parents=True, exist_ok=True)
        place(store).write_bytes(place(foreign).read_bytes())
    assert "damaged: its fingerprint belongs to another segment" == damage_of_rows(store)
    assert "damaged: its fingerprint belongs to another segment" == damage_of_state(store)


def test_state_in_the_place_of_rows_is_damage(store: SegmentStore) -> None:
    write(store, ONE, state=True)
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
        ({"ends": "[3, 4]"}, "its tokens are not the conversation's"),
        ({"ends": "[5]"}, "its tokens are not as many as it says"),
        ({"ends": None}, "it does not tell its ends"),
        ({"ends": "[0, 4]"}, "it does not say where its segments end"),
    ],
)
def test_a_signed_file_that_says_something_else_is_damage(
    store: SegmentStore, changes: dict[str, str | None], reason: str
) -> None:
    write(store, ONE)
    rewrite(rows_at(store), changes)
    assert f"damaged: {reason}" in damage_of_rows(store)
    assert not rows_at(store).exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"end": "5"}, "its end belongs"),
        ({"id": None}, "its id belongs"),
        ({"scalars": None}, "it does not tell its scalars"),
    ],
)
def test_a_signed_state_that_says_something_else_is_damage(
    store: SegmentStore, changes: dict[str, str | None], reason: str
) -> None:
    write(store, ONE, state=True)
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
def test_signed_rows_of_other_tokens_are_damage(store: SegmentStore, stored: Tensor | None) -> None:
    write(store, ONE)
    rewrite(rows_at(store), {}, **{TOKENS: stored})
    assert "tokens" in damage_of_rows(store)


def test_rows_are_not_given_for_tokens_that_are_not_theirs(store: SegmentStore) -> None:
    write(store, ONE)
    with pytest.raises(SegmentDamaged):
        store.rows(replace(ONE, tokens=[5, 6, 7, 9]))


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
def test_signed_rows_that_do_not_fit_those_before_are_damage(
    store: SegmentStore, odd: dict[str, Tensor | None]
) -> None:
    write_all(store, CHAIN)
    rewrite(rows_at(store, 1), {}, **odd)
    assert damage_of_rows(store, CHAIN).startswith("damaged: it")
    # Nobody knows which of them lies, so all of them are computed again.
    assert 0 == depth(store)


def test_a_folder_in_a_files_place_is_a_miss(store: SegmentStore) -> None:
    rows_at(store).mkdir(parents=True)
    state_at(store).mkdir(parents=True)
    assert "unreadable" in damage_of_rows(store)
    assert "unreadable" in damage_of_state(store)


def test_a_folder_that_cannot_be_listed_is_a_miss_and_told_when_written(
    store: SegmentStore,
) -> None:
    shard = rows_at(store).parent
    store.folder.mkdir(parents=True)
    shard.symlink_to(shard)
    assert (0, "evicted or deleted") == (depth(store), damage_of_rows(store))
    write(store, ONE)
    assert str(store.folder) in str(store.take_problem())


def test_a_path_that_does_not_fit_its_model_is_moved_out_of_the_way(store: SegmentStore) -> None:
    write_all(store, CHAIN, state=True)
    store.set_aside_all(CHAIN)
    assert (0, []) == (depth(store), [*rows_files(store), *state_files(store)])
    assert 4 == len(list(store.folder.rglob("*.damaged")))
    assert write(store, ONE, state=True) > 0
    assert 1 == depth(store, stateful=True)
