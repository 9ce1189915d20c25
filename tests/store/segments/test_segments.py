"""The segment store: any process reads back checkpoints as they were written."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from chatcli import files
from chatcli.files import Location
from chatcli.store.segments import inventory
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.inventory import Usage
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import Segment, root_id
from tests.support.checkpointing import (
    FINGERPRINT,
    FIRST,
    ONE_SEGMENT,
    PROMPT,
    TOKEN_PATH,
    checkpoint,
    damage_of_rows,
    damage_of_state,
    depth,
    expected,
    path_of,
    prompt_of,
    raw,
    read,
    read_rows,
    rows_at,
    rows_files,
    state_at,
    state_files,
    state_of,
    write,
    write_all,
)
from tests.support.program import segment_files

LONG_AGO = 1_600_000_000


# Put and read


def test_a_checkpoint_is_read_back_as_it_was_put(store: SegmentStore) -> None:
    size = write(store, ONE_SEGMENT, state=True)
    state, scalars = store.state(FIRST)
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)
    assert (raw(state_of(FIRST)), '{"x": 4}') == (raw(state), scalars)
    paths = [rows_at(store), state_at(store)]
    assert paths == [*rows_files(store), *state_files(store)]
    assert size == sum(path.stat().st_size for path in paths)
    assert {0o600} == {path.stat().st_mode & 0o777 for path in paths}


def test_what_is_queued_already_is_not_counted_twice(tmp_path: Path) -> None:
    go_on = threading.Event()
    store = SegmentStore(tmp_path, FINGERPRINT, lambda *_: go_on.wait(10) and None)
    try:
        sizes = [store.put(checkpoint(ONE_SEGMENT, state=True)) for _ in range(2)]
        assert [] == state_files(store)
    finally:
        go_on.set()
        store.close()
    assert [store.written_bytes, 0] == sizes


def test_the_rows_of_a_path_are_read_joined(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH)
    assert expected(TOKEN_PATH) == read(store, TOKEN_PATH)
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


@pytest.mark.parametrize("newest", range(1, 7))
def test_the_newest_rows_can_be_read_alone(store: SegmentStore, newest: int) -> None:
    write_all(store, TOKEN_PATH)
    with store.rows(TOKEN_PATH) as rows:
        into = np.empty(rows.shape("0.values", newest), "float32")
        rows.copy({"0.values": into})
        values = np.frombuffer(read_rows(rows)["0.values"][2], "float32").reshape(1, 2, 6, 3)
    assert values[..., 6 - newest :, :].tolist() == into.tolist()


def test_rows_are_copied_into_contiguous_arrays_only(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH)
    buffer = np.zeros((1, 2, 10, 3), "float32")
    with store.rows(TOKEN_PATH) as rows, pytest.raises(ValueError, match="contiguous"):
        rows.copy({"0.values": buffer[..., 2:8, :]})


def test_an_empty_path_has_no_rows(store: SegmentStore) -> None:
    with store.rows([]) as rows:
        assert (0, []) == (rows.count, rows.names)
    assert 0 == store.depth([], stateful=True)


def test_a_segment_without_state_makes_one_file(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT)
    assert (1, 0) == (len(rows_files(store)), len(state_files(store)))
    assert (1, 0) == (depth(store), depth(store, stateful=True))
    assert "evicted or deleted" == damage_of_state(store)


def test_a_put_of_an_existing_checkpoint_writes_nothing(store: SegmentStore) -> None:
    assert write(store, ONE_SEGMENT, state=True) > 0
    before = rows_at(store).stat().st_ino, rows_at(store).read_bytes()
    assert 0 == write(store, ONE_SEGMENT, state=True)
    assert before == (rows_at(store).stat().st_ino, rows_at(store).read_bytes())


def test_state_alone_is_written_again_where_it_was_dropped(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT, state=True)
    size = state_at(store).stat().st_size
    state_at(store).unlink()
    assert size == write(store, ONE_SEGMENT, state=True)
    assert raw(state_of(FIRST)) == raw(store.state(FIRST)[0])


def test_rows_alone_are_written_again_where_they_were_dropped(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT, state=True)
    size = rows_at(store).stat().st_size
    rows_at(store).unlink()
    assert (0, size) == (depth(store, stateful=True), write(store, ONE_SEGMENT, state=True))
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


def test_the_depth_is_that_of_the_deepest_state_with_all_rows_before_it(
    store: SegmentStore,
) -> None:
    write(store, ONE_SEGMENT, state=True)
    write(store, TOKEN_PATH)
    assert (2, 1) == (depth(store), depth(store, stateful=True))
    write(store, TOKEN_PATH, state=True)
    assert 2 == depth(store, stateful=True)
    rows_at(store).unlink()
    assert (0, 0) == (depth(store), depth(store, stateful=True))


def test_a_missing_checkpoint_is_a_miss_with_a_reason(store: SegmentStore) -> None:
    assert "evicted or deleted" == damage_of_rows(store)
    assert "evicted or deleted" == damage_of_state(store)
    write(store, ONE_SEGMENT)
    assert "evicted or deleted" == damage_of_rows(store, TOKEN_PATH)


def test_close_waits_for_pending_writes(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path, FINGERPRINT)
    noise = {"0.keys": Tensor.of(np.ones((1, 8, 4, 4096), "float32"))}
    store.put(Increment(ONE_SEGMENT, noise, {}, "", 0.0))
    store.close()
    assert rows_at(store).stat().st_size > 8 * 4 * 4096 * 4


def test_each_write_is_reported_with_its_bytes_and_path(tmp_path: Path) -> None:
    writes: list[tuple[int, list[Segment]]] = []
    store = SegmentStore(tmp_path, FINGERPRINT, lambda size, path: writes.append((size, list(path))))
    write(store, ONE_SEGMENT, state=True)
    write(store, ONE_SEGMENT, state=True)
    sizes = [path.stat().st_size for path in (rows_at(store), state_at(store))]
    assert [(size, list(ONE_SEGMENT)) for size in sizes] == writes
    store.close()


def test_touch_updates_the_time_of_every_file_that_was_read(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH, state=True)
    for path in (*rows_files(store), *state_files(store)):
        os.utime(path, (LONG_AGO, LONG_AGO))
    with store.rows(ONE_SEGMENT) as rows:
        store.touch(rows, FIRST)
    unused = {path for path in store.folder.glob("??/*") if path.stat().st_mtime == LONG_AGO}
    assert {rows_at(store, 1), state_at(store, 1)} == unused


# File names


def test_a_files_place_follows_from_the_tokens_alone(store: SegmentStore) -> None:
    """The names as FORMAT.md defines them, computed without the package."""
    write_all(store, TOKEN_PATH, state=True)
    root = hashlib.sha256(f"chatcli:1:{FINGERPRINT}".encode()).digest()
    key = hashlib.sha256(root + struct.pack("<4q", 5, 6, 7, 8)).hexdigest()[:16]
    first_id = hashlib.sha256(root + struct.pack("<5q", 4, 5, 6, 7, 8)).hexdigest()
    name = f"{key[:2]}/{key}-{first_id[:16]}-{first_id[:16]}.rows.safetensors"
    assert (store.folder / name).is_file()
    assert (store.folder / first_id[:2] / f"{first_id}.state.safetensors").is_file()


def test_tokens_are_read_by_segment_ids(store: SegmentStore) -> None:
    write_all(store, TOKEN_PATH)
    names = [segment.id for segment in TOKEN_PATH]
    assert PROMPT[:6] == store.tokens_of(names)
    assert PROMPT[:6] == store.tokens_of([names[0], "0" * 64, names[1]])
    assert PROMPT[:4] == store.tokens_of([names[0], "0" * 64])
    assert [] == store.tokens_of([names[1]])
    assert [] == store.tokens_of(["0" * 64])
    rows_at(store).write_bytes(b"garbage")
    assert [] == store.tokens_of(names)


@pytest.mark.parametrize("name", ["x", ".rows.safetensors", "{key}", "{key}-x-y.rows.safetensors"])
def test_garbage_between_the_files_is_ignored(store: SegmentStore, name: str) -> None:
    write(store, ONE_SEGMENT)
    key = rows_at(store).name[:16]
    (rows_at(store).parent / name.format(key=key)).write_bytes(b"garbage")
    assert 1 == depth(store)
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


def test_an_unreadable_file_with_the_same_key_hides_nothing(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT)
    longer = rows_at(store).name.replace(f"-{FIRST.id[:16]}.", f"-{'0' * 16}.")
    (rows_at(store).parent / longer).write_bytes(b"garbage")
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


# Several stores, unusable folders


def test_two_stores_share_a_folder(tmp_path: Path, store: SegmentStore) -> None:
    second_store = SegmentStore(tmp_path, FINGERPRINT)
    writers = [store, second_store] * 3
    for writer in writers:
        writer.put(checkpoint(ONE_SEGMENT, state=True))
    for writer in writers:
        writer.flush()
    assert raw(state_of(FIRST)) == raw(second_store.state(FIRST)[0])
    assert 0 == write(second_store, ONE_SEGMENT, state=True)
    assert (None, None) == (store.take_problem(), second_store.take_problem())
    second_store.close()
    assert {rows_at(store), state_at(store)} == set(tmp_path.rglob("*.safetensors"))
    assert [] == list((store.folder / "tmp").iterdir())


def test_a_new_store_removes_temporary_files_of_killed_writers_only(
    tmp_path: Path, store: SegmentStore
) -> None:
    write(store, ONE_SEGMENT)
    dead, living = (store.folder / "tmp" / f"{number}-{number * 32}" for number in "12")
    other = store.folder / "tmp" / "notes"
    other.write_bytes(b"not ours")
    dead.write_bytes(b"half a fi")
    with files.flushed(Location.of_file(living), [b"half a fi"]):
        SegmentStore(tmp_path, FINGERPRINT).close()
        assert (False, True, True) == (dead.exists(), living.exists(), other.exists())
    assert 1 == depth(store)


def test_an_unwritable_folder_turns_the_store_off_and_is_reported_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "kv").write_bytes(b"a file in the folder's place")
    store = SegmentStore(tmp_path, FINGERPRINT)
    assert None is store.take_problem()
    write(store, ONE_SEGMENT)
    assert str(tmp_path / "kv") in str(store.take_problem())
    assert None is store.take_problem()
    assert 0 == write(store, ONE_SEGMENT, state=True)
    assert "evicted or deleted" == damage_of_rows(store)
    assert "unreadable" in damage_of_state(store)
    store.close()
    assert b"a file in the folder's place" == (tmp_path / "kv").read_bytes()


def test_a_folder_that_can_be_written_again_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "kv").write_bytes(b"a file in the folder's place")
    with contextlib.closing(SegmentStore(tmp_path, FINGERPRINT, retry_seconds=0.0)) as store:
        for _ in range(2):
            write(store, ONE_SEGMENT)
            assert store.problem is not None
        assert store.take_problem() and store.take_problem() is None
        (tmp_path / "kv").unlink()
        write(store, ONE_SEGMENT)
        assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)
        assert store.problem is None is store.take_problem()
        # What goes wrong later is said again.
        store.give_up("for another reason")
        assert store.take_problem()


def test_a_store_that_gave_up_still_reads(store: SegmentStore) -> None:
    write(store, ONE_SEGMENT)
    store.give_up("for a reason")
    store.give_up("for another")
    assert 0 == write(store, TOKEN_PATH)
    assert "checkpoints are off, for a reason" == store.take_problem()
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


# Usage


def fill(store: SegmentStore, foreign: SegmentStore) -> tuple[int, int]:
    """Write two segments, one with state, and a foreign model's. Returns the bytes of rows and of state."""
    write(store, ONE_SEGMENT, state=True)
    write(store, TOKEN_PATH)
    write(foreign, ONE_SEGMENT)
    return sum(path.stat().st_size for path in rows_files(store)), state_at(store).stat().st_size


def test_usage_counts_files_and_bytes_of_each_model(
    tmp_path: Path, store: SegmentStore, foreign: SegmentStore
) -> None:
    assert [] == inventory.usage(tmp_path)
    rows_bytes, state_bytes = fill(store, foreign)
    foreign_usage, mine = inventory.usage(tmp_path)
    assert Usage(FINGERPRINT, 2, 2, rows_bytes, 1, state_bytes, 0) == mine
    assert ("e" * 32, 1, 0, 0) == (foreign_usage.fingerprint, foreign_usage.segments, foreign_usage.states, 0)
    store.set_aside_all(TOKEN_PATH)
    _, mine = inventory.usage(tmp_path)
    assert Usage(FINGERPRINT, 0, 0, 0, 0, 0, rows_bytes + state_bytes) == mine


def test_clear_deletes_every_checkpoint_and_no_transcript(
    tmp_path: Path, store: SegmentStore, foreign: SegmentStore
) -> None:
    assert 0 == inventory.clear(tmp_path)
    fill(store, foreign)
    (tmp_path / "dog.jsonl").write_bytes(b"words")
    total = sum(use.bytes for use in inventory.usage(tmp_path))
    assert total == inventory.clear(tmp_path)
    assert ["dog.jsonl"] == [path.name for path in tmp_path.iterdir()]


def test_a_store_works_after_another_process_cleared_its_folder(tmp_path: Path, store: SegmentStore) -> None:
    size = write(store, ONE_SEGMENT)
    inventory.clear(tmp_path)
    assert size == write(store, ONE_SEGMENT)
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)
    assert None is store.take_problem()


def test_ids_have_not_changed(store: SegmentStore) -> None:
    """A change would turn every checkpoint on disk into a miss."""
    assert hashlib.sha256(f"chatcli:1:{FINGERPRINT}".encode()).hexdigest() == root_id(FINGERPRINT)
    assert FIRST.parent == root_id(FINGERPRINT)


def test_when_descriptors_run_out_the_next_checkpoint_is_written_again(
    store: SegmentStore, tmp_path: Path
) -> None:
    prompt = prompt_of(20)
    write(store, path_of(prompt, [10]))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(next_one := os.open("/", os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, limits[1]))
    try:
        write(store, path_of(prompt_of(20, seed=2), [10]))
        assert "Too many open files" in str(store.take_problem())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    written = len(segment_files(tmp_path))
    write(store, path_of(prompt_of(20, seed=3), [10]))
    assert written + 1 == len(segment_files(tmp_path)) and store.problem is None
