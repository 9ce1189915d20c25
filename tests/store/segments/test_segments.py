"""Checkpoints on disk: what was put is got, from any process, and from files' names alone."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from chatcli import files
from chatcli.store.segments import inventory
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.inventory import Usage
from chatcli.store.segments.segments import Checkpoint, SegmentStore
from chatcli.store.segments.token_path import Segment, root_id
from tests.support.checkpointing import (
    CHAIN,
    FINGERPRINT,
    FIRST,
    ONE,
    PROMPT,
    checkpoint,
    damage_of_rows,
    damage_of_state,
    depth,
    expected,
    raw,
    read,
    rows_at,
    rows_files,
    state_at,
    state_files,
    state_of,
    whole,
    write,
    write_all,
)

LONG_AGO = 1_600_000_000


# What was put


def test_what_was_put_is_got(store: SegmentStore) -> None:
    size = write(store, ONE, state=True)
    state, scalars = store.state(FIRST)
    assert expected(ONE) == read(store, ONE)
    assert (raw(state_of(FIRST)), '{"x": 4}') == (raw(state), scalars)
    paths = [rows_at(store), state_at(store)]
    assert paths == [*rows_files(store), *state_files(store)]
    assert size == sum(path.stat().st_size for path in paths)
    assert {0o600} == {path.stat().st_mode & 0o777 for path in paths}


def test_a_path_is_read_as_one(store: SegmentStore) -> None:
    write_all(store, CHAIN)
    assert expected(CHAIN) == read(store, CHAIN)
    assert expected(ONE) == read(store, ONE)


@pytest.mark.parametrize("newest", range(1, 7))
def test_the_newest_rows_can_be_had_alone(store: SegmentStore, newest: int) -> None:
    write_all(store, CHAIN)
    with store.rows(CHAIN) as rows:
        into = np.empty(rows.shape("0.values", newest), "float32")
        rows.copy({"0.values": into})
        every = np.frombuffer(whole(rows)["0.values"][2], "float32").reshape(1, 2, 6, 3)
    assert every[..., 6 - newest :, :].tolist() == into.tolist()


def test_rows_are_copied_into_contiguous_arrays_only(store: SegmentStore) -> None:
    write_all(store, CHAIN)
    buffer = np.zeros((1, 2, 10, 3), "float32")
    with store.rows(CHAIN) as rows, pytest.raises(ValueError, match="contiguous"):
        rows.copy({"0.values": buffer[..., 2:8, :]})


def test_a_path_of_nothing_has_no_rows(store: SegmentStore) -> None:
    with store.rows([]) as rows:
        assert (0, []) == (rows.count, rows.names)
    assert 0 == store.depth([], stateful=True)


def test_a_segment_without_state_makes_one_file(store: SegmentStore) -> None:
    write(store, ONE)
    assert (1, 0) == (len(rows_files(store)), len(state_files(store)))
    assert (1, 0) == (depth(store), depth(store, stateful=True))
    assert "evicted or deleted" == damage_of_state(store)


def test_a_put_of_what_is_there_costs_nothing(store: SegmentStore) -> None:
    assert write(store, ONE, state=True) > 0
    before = rows_at(store).stat().st_ino, rows_at(store).read_bytes()
    assert 0 == write(store, ONE, state=True)
    assert before == (rows_at(store).stat().st_ino, rows_at(store).read_bytes())


def test_state_alone_is_written_again_where_it_was_dropped(store: SegmentStore) -> None:
    write(store, ONE, state=True)
    size = state_at(store).stat().st_size
    state_at(store).unlink()
    assert size == write(store, ONE, state=True)
    assert raw(state_of(FIRST)) == raw(store.state(FIRST)[0])


def test_rows_alone_are_written_again_where_they_were_dropped(store: SegmentStore) -> None:
    write(store, ONE, state=True)
    size = rows_at(store).stat().st_size
    rows_at(store).unlink()
    assert (0, size) == (depth(store, stateful=True), write(store, ONE, state=True))
    assert expected(ONE) == read(store, ONE)


def test_the_depth_is_that_of_the_deepest_state_up_to_which_there_are_rows(
    store: SegmentStore,
) -> None:
    write(store, ONE, state=True)
    write(store, CHAIN)
    assert (2, 1) == (depth(store), depth(store, stateful=True))
    write(store, CHAIN, state=True)
    assert 2 == depth(store, stateful=True)
    rows_at(store).unlink()
    assert (0, 0) == (depth(store), depth(store, stateful=True))


def test_what_is_not_there_is_a_miss_with_a_reason(store: SegmentStore) -> None:
    assert "evicted or deleted" == damage_of_rows(store)
    assert "evicted or deleted" == damage_of_state(store)
    write(store, ONE)
    assert "evicted or deleted" == damage_of_rows(store, CHAIN)


def test_close_waits_for_what_was_put(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path, FINGERPRINT)
    noise = {"0.keys": Tensor.of(np.ones((1, 8, 4, 4096), "float32"))}
    store.put(Checkpoint(ONE, noise, {}, "", 0.0))
    store.close()
    assert rows_at(store).stat().st_size > 8 * 4 * 4096 * 4


def test_each_write_is_told_with_its_bytes_and_path(tmp_path: Path) -> None:
    written: list[tuple[int, list[Segment]]] = []
    store = SegmentStore(tmp_path, FINGERPRINT, lambda size, path: written.append((size, list(path))))
    write(store, ONE, state=True)
    write(store, ONE, state=True)
    sizes = [path.stat().st_size for path in (rows_at(store), state_at(store))]
    assert [(size, list(ONE)) for size in sizes] == written
    store.close()


def test_a_use_is_noted_on_every_file_that_was_read(store: SegmentStore) -> None:
    write_all(store, CHAIN, state=True)
    for path in (*rows_files(store), *state_files(store)):
        os.utime(path, (LONG_AGO, LONG_AGO))
    with store.rows(ONE) as rows:
        store.touch(rows, FIRST)
    unused = {path for path in store.folder.glob("??/*") if path.stat().st_mtime == LONG_AGO}
    assert {rows_at(store, 1), state_at(store, 1)} == unused


# Names


def test_a_files_place_follows_from_the_tokens_alone(store: SegmentStore) -> None:
    """As FORMAT.md says it, in other words."""
    write_all(store, CHAIN, state=True)
    root = hashlib.sha256(f"chatcli:1:{FINGERPRINT}".encode()).digest()
    key = hashlib.sha256(root + struct.pack("<4q", 5, 6, 7, 8)).hexdigest()[:16]
    first = hashlib.sha256(root + struct.pack("<5q", 4, 5, 6, 7, 8)).hexdigest()
    name = f"{key[:2]}/{key}-{first[:16]}-{first[:16]}.rows.safetensors"
    assert (store.folder / name).is_file()
    assert (store.folder / first[:2] / f"{first}.state.safetensors").is_file()


def test_tokens_are_had_from_ids_alone(store: SegmentStore) -> None:
    write_all(store, CHAIN)
    names = [segment.id for segment in CHAIN]
    assert PROMPT[:6] == store.tokens_of(names)
    assert PROMPT[:4] == store.tokens_of([names[0], "0" * 64, names[1]])
    assert [] == store.tokens_of(["0" * 64])
    rows_at(store).write_bytes(b"garbage")
    assert [] == store.tokens_of(names)


@pytest.mark.parametrize("name", ["x", ".rows.safetensors", "{key}", "{key}-x-y.rows.safetensors"])
def test_garbage_between_the_files_is_passed_over(store: SegmentStore, name: str) -> None:
    write(store, ONE)
    key = rows_at(store).name[:16]
    (rows_at(store).parent / name.format(key=key)).write_bytes(b"garbage")
    assert 1 == depth(store)
    assert expected(ONE) == read(store, ONE)


def test_a_file_that_begins_alike_and_cannot_be_read_hides_nothing(store: SegmentStore) -> None:
    write(store, ONE)
    longer = rows_at(store).name.replace(f"-{FIRST.id[:16]}.", f"-{'0' * 16}.")
    (rows_at(store).parent / longer).write_bytes(b"garbage")
    assert expected(ONE) == read(store, ONE)


# Several at once, and folders in the way


def test_two_stores_share_a_folder(tmp_path: Path, store: SegmentStore) -> None:
    other = SegmentStore(tmp_path, FINGERPRINT)
    both = [store, other] * 3
    for writer in both:
        writer.put(checkpoint(ONE, state=True))
    for writer in both:
        writer.flush()
    assert raw(state_of(FIRST)) == raw(other.state(FIRST)[0])
    assert 0 == write(other, ONE, state=True)
    assert (None, None) == (store.take_problem(), other.take_problem())
    other.close()
    assert {rows_at(store), state_at(store)} == set(tmp_path.rglob("*.safetensors"))
    assert [] == list((store.folder / "tmp").iterdir())


def test_a_new_store_removes_what_killed_writers_left_and_nothing_of_living_ones(
    tmp_path: Path, store: SegmentStore
) -> None:
    write(store, ONE)
    dead, living = (store.folder / "tmp" / name for name in ("1-dead", "2-living"))
    dead.write_bytes(b"half a fi")
    with files._flushed(living, [b"half a fi"]):
        SegmentStore(tmp_path, FINGERPRINT).close()
        assert (False, True) == (dead.exists(), living.exists())
    assert 1 == depth(store)


def test_a_folder_that_cannot_be_written_turns_the_store_off_and_tells_it_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "kv").write_bytes(b"a file in the folder's place")
    store = SegmentStore(tmp_path, FINGERPRINT)
    assert None is store.take_problem()
    write(store, ONE)
    assert str(tmp_path / "kv") in str(store.take_problem())
    assert None is store.take_problem()
    assert 0 == write(store, ONE, state=True)
    assert "evicted or deleted" == damage_of_rows(store)
    assert "unreadable" in damage_of_state(store)
    store.close()
    assert b"a file in the folder's place" == (tmp_path / "kv").read_bytes()


def test_a_store_that_gave_up_writes_nothing_and_reads_on(store: SegmentStore) -> None:
    write(store, ONE)
    store.give_up("for a reason")
    store.give_up("for another")
    assert 0 == write(store, CHAIN)
    assert "checkpoints are off, for a reason" == store.take_problem()
    assert expected(ONE) == read(store, ONE)


# Numbers


def filled(store: SegmentStore, foreign: SegmentStore) -> tuple[int, int]:
    """Two segments, one with state, and a foreign model's; (rows bytes, state bytes)."""
    write(store, ONE, state=True)
    write(store, CHAIN)
    write(foreign, ONE)
    return sum(path.stat().st_size for path in rows_files(store)), state_at(store).stat().st_size


def test_usage_counts_files_and_bytes_of_each_model(
    tmp_path: Path, store: SegmentStore, foreign: SegmentStore
) -> None:
    assert [] == inventory.usage(tmp_path)
    rows_bytes, state_bytes = filled(store, foreign)
    other, mine = inventory.usage(tmp_path)
    assert Usage(FINGERPRINT, 2, 2, rows_bytes, 1, state_bytes, 0) == mine
    assert ("e" * 32, 1, 0, 0) == (other.fingerprint, other.segments, other.states, 0)
    store.set_aside_all(CHAIN)
    _, mine = inventory.usage(tmp_path)
    assert Usage(FINGERPRINT, 0, 0, 0, 0, 0, rows_bytes + state_bytes) == mine


def test_clear_deletes_every_checkpoint_and_no_transcript(
    tmp_path: Path, store: SegmentStore, foreign: SegmentStore
) -> None:
    assert 0 == inventory.clear(tmp_path)
    filled(store, foreign)
    (tmp_path / "dog.jsonl").write_bytes(b"words")
    total = sum(use.bytes for use in inventory.usage(tmp_path))
    assert total == inventory.clear(tmp_path)
    assert ["dog.jsonl"] == [path.name for path in tmp_path.iterdir()]


def test_a_store_goes_on_after_another_process_cleared_its_folder(
    tmp_path: Path, store: SegmentStore
) -> None:
    size = write(store, ONE)
    inventory.clear(tmp_path)
    assert size == write(store, ONE)
    assert expected(ONE) == read(store, ONE)
    assert None is store.take_problem()


def test_ids_are_those_of_before(store: SegmentStore) -> None:
    """A change would make every checkpoint on every disk another one."""
    assert hashlib.sha256(f"chatcli:1:{FINGERPRINT}".encode()).hexdigest() == root_id(FINGERPRINT)
    assert FIRST.parent == root_id(FINGERPRINT)
