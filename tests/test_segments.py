"""Checkpoints on disk: whatever happens to a file, it is read back equal or named as damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.prefix import Segment, chain, root_id
from chatcli.store import segments
from chatcli.store.segments import SegmentStore, Tensor, pack, unpack

FINGERPRINT = "f" * 32
TOKENS = [5, 6, 7, 8]
CHAIN = chain(root_id(FINGERPRINT), [*TOKENS, 9, 10], [4, 6])
FIRST, SECOND = CHAIN
SAMPLE = np.array([[0.0, -0.0, 1.5, np.inf], [np.nan, 3, 250, 7]])


def tensor(dtype: str, values: np.ndarray = SAMPLE) -> Tensor:
    if dtype == "bfloat16":
        bits = (values.astype("float32").view("uint32") >> 16).astype("uint16")
        return Tensor("bfloat16", bits.shape, bits)
    with np.errstate(invalid="ignore"):
        made = np.nan_to_num(values).astype(dtype) if dtype[0] in "iu" else values.astype(dtype)
    return Tensor(dtype, made.shape, np.ascontiguousarray(made))


def raw(value: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    return value.dtype, tuple(value.shape), bytes(memoryview(value.data))


def rows(seed: int = 1, count: int = 4) -> dict[str, Tensor]:
    noise = np.random.default_rng(seed).standard_normal((1, 2, count, 3))
    return {"0.keys": tensor("bfloat16", noise), "0.values": tensor("float32", noise)}


STATE = {"1.0.0": tensor("float32"), "1.0.1": tensor("float16")}


@pytest.fixture
def store(tmp_path: Path):
    made = SegmentStore(tmp_path, FINGERPRINT)
    yield made
    made.close()


def put(store: SegmentStore, state: dict[str, Tensor] | None = None) -> int:
    size = store.put(FIRST, TOKENS, rows(), state or {}, '{"x": 1}')
    store.flush()
    return size


def damaged(store: SegmentStore, kind: segments.Kind = "rows") -> str:
    with pytest.raises(SegmentDamaged) as caught:
        store.get(FIRST, TOKENS, kind)
    return str(caught.value)


# One file


@pytest.mark.parametrize("dtype", segments.SAFETENSORS_TO_SHORT)
def test_every_type_comes_back_byte_for_byte(dtype: str) -> None:
    given = {"b": tensor(dtype), "a": tensor(dtype, SAMPLE[:1])}
    back, metadata = unpack(pack(given, {"id": "x", "text": "é\n\0"}))
    assert {name: raw(value) for name, value in given.items()} == {
        name: raw(value) for name, value in back.items()
    }
    assert {"id": "x", "text": "é\n\0"} == metadata


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint32"])
@pytest.mark.parametrize("empty", [SAMPLE[:0], SAMPLE[:, :0]], ids=["no rows", "no columns"])
def test_a_tensor_of_nothing_comes_back(dtype: str, empty: np.ndarray) -> None:
    """MiniMax-M3's indexer keeps values of no columns."""
    given = {"a": tensor(dtype), "none": tensor(dtype, empty)}
    back, _ = unpack(pack(given, {}))
    assert {name: raw(value) for name, value in given.items()} == {
        name: raw(value) for name, value in back.items()
    }


def test_a_segment_of_no_tensors_and_a_scalar_come_back() -> None:
    assert ({}, {"id": "x"}) == unpack(pack({}, {"id": "x"}))
    scalar = Tensor("float32", (), np.float32(1.5).reshape(()))
    assert raw(scalar) == raw(unpack(pack({"s": scalar}, {}))[0]["s"])


def test_every_flipped_byte_is_noticed_or_harmless() -> None:
    given, said = {"a": tensor("float16"), "t": Tensor.of_tokens([1, 2])}, {"id": "x", "end": "2"}
    data = pack(given, said)
    right = ({name: raw(value) for name, value in given.items()}, said)
    noticed = 0
    for position in range(len(data)):
        for bits in (0x01, 0x20, 0x80, 0xFF):
            flipped = bytearray(data)
            flipped[position] ^= bits
            try:
                back, metadata = unpack(bytes(flipped))
            except SegmentDamaged:
                noticed += 1
                continue
            assert right == ({name: raw(value) for name, value in back.items()}, metadata)
    assert noticed > 3.5 * len(data)


def test_a_file_cut_at_any_length_is_noticed() -> None:
    data = pack({"a": tensor("float16")}, {"id": "x"})
    for length in range(len(data)):
        with pytest.raises(SegmentDamaged):
            unpack(data[:length])


def test_anything_after_the_end_is_noticed() -> None:
    with pytest.raises(SegmentDamaged):
        unpack(pack({"a": tensor("float16")}, {"id": "x"}) + b"\0")


def safetensors_file(header: object, data: bytes = bytes(16)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(begin: int, end: int, dtype: str = "F32", shape: tuple[int, ...] = (2,)) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


SIGNED = {"__metadata__": {"digest": "0" * 32}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        struct.pack("<Q", 1 << 63) + b"{}",
        struct.pack("<Q", (1 << 64) - 1) + b"{}",
        struct.pack("<Q", 1 << 40) + b"{}",
        safetensors_file(b""),
        safetensors_file(b"\xff\xfe"),
        safetensors_file(b"[" * 50_000),
        safetensors_file([]),
        safetensors_file({}),
        safetensors_file({}, b""),
        safetensors_file({"__metadata__": {}}, b""),
        safetensors_file({"__metadata__": {"digest": None}}, b""),
        safetensors_file({"__metadata__": {"digest": 5}}, b""),
        safetensors_file({"__metadata__": []}, b""),
        safetensors_file(SIGNED, b""),
        safetensors_file({**SIGNED, "a": entry(0, 8), "b": entry(8, 16)}),
        safetensors_file({**SIGNED, "a": entry(0, 8), "b": entry(4, 12)}),
        safetensors_file({**SIGNED, "a": entry(0, 1 << 50)}),
        safetensors_file({**SIGNED, "a": entry(8, 0)}),
        safetensors_file({**SIGNED, "a": entry(-8, 8)}),
        safetensors_file({**SIGNED, "a": entry(0, 16, "F99")}),
        safetensors_file({**SIGNED, "a": entry(0, 16, "F8_E4M3", (16,))}),
        safetensors_file({**SIGNED, "a": entry(0, 16, "F32", (-4,))}),
        safetensors_file({**SIGNED, "a": entry(0, 16, "F32", (1 << 62, 1 << 62))}),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_a_hostile_header_is_damage_and_nothing_worse(data: bytes) -> None:
    with pytest.raises(SegmentDamaged):
        unpack(data)


def test_another_type_of_the_same_size_is_noticed() -> None:
    data = pack({"a": tensor("float16")}, {"id": "x"})
    assert 1 == data.count(b'"F16"')
    with pytest.raises(SegmentDamaged, match="digest"):
        unpack(data.replace(b'"F16"', b'"I16"'))


# The store


def test_what_was_put_is_got(store: SegmentStore) -> None:
    size = put(store, STATE)
    found, _ = store.get(FIRST, TOKENS, "rows")
    state, scalars = store.get(FIRST, TOKENS, "state")
    assert {name: raw(value) for name, value in rows().items()} == {
        name: raw(value) for name, value in found.items()
    }
    assert {name: raw(value) for name, value in STATE.items()} == {
        name: raw(value) for name, value in state.items()
    }
    assert '{"x": 1}' == scalars
    paths = [store.path(FIRST.id, kind) for kind in segments.KINDS]
    assert size == sum(path.stat().st_size for path in paths)
    assert {0o600} == {path.stat().st_mode & 0o777 for path in paths}


def test_a_segment_without_state_makes_one_file(store: SegmentStore) -> None:
    put(store)
    assert (True, False) == (store.has(FIRST.id, "rows"), store.has(FIRST.id, "state"))
    assert "evicted or deleted" == damaged(store, "state")


def test_a_put_of_what_is_there_costs_nothing(store: SegmentStore) -> None:
    assert put(store, STATE) > 0
    before = store.path(FIRST.id, "rows").read_bytes()
    assert 0 == put(store, STATE)
    assert before == store.path(FIRST.id, "rows").read_bytes()


def test_state_alone_is_written_again_where_it_was_dropped(store: SegmentStore) -> None:
    put(store, STATE)
    path = store.path(FIRST.id, "state")
    size = path.stat().st_size
    path.unlink()
    assert size == put(store, STATE)
    assert set(STATE) == set(store.get(FIRST, TOKENS, "state")[0])


def test_what_is_not_there_is_a_miss_with_a_reason(store: SegmentStore) -> None:
    assert "evicted or deleted" == damaged(store)


def test_a_damaged_file_is_set_aside_and_written_anew_by_the_next_put(
    store: SegmentStore,
) -> None:
    size = put(store)
    path = store.path(FIRST.id, "rows")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert damaged(store).startswith("damaged: ")
    assert not store.has(FIRST.id, "rows")
    assert size == put(store)
    assert raw(rows()["0.keys"]) == raw(store.get(FIRST, TOKENS, "rows")[0]["0.keys"])


def test_every_flipped_byte_on_disk_is_a_miss_or_the_right_rows(store: SegmentStore) -> None:
    put(store)
    path = store.path(FIRST.id, "rows")
    data = path.read_bytes()
    right = {name: raw(value) for name, value in rows().items()}
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x04
        path.write_bytes(flipped)
        try:
            found, _ = store.get(FIRST, TOKENS, "rows")
        except SegmentDamaged:
            continue
        assert right == {name: raw(value) for name, value in found.items()}


def test_a_file_in_anothers_place_is_damage(store: SegmentStore) -> None:
    put(store)
    store.put(SECOND, [9, 10], rows(2, 2), {}, "")
    store.flush()
    one, two = (store.path(part.id, "rows") for part in CHAIN)
    swapped = one.read_bytes(), two.read_bytes()
    two.write_bytes(swapped[0])
    one.write_bytes(swapped[1])
    assert "belongs to another segment" in damaged(store)
    with pytest.raises(SegmentDamaged, match="belongs to another segment"):
        store.get(SECOND, [9, 10], "rows")


def test_a_file_of_another_model_is_damage(tmp_path: Path, store: SegmentStore) -> None:
    other = SegmentStore(tmp_path, "e" * 32)
    put(other)
    path = store.path(FIRST.id, "rows")
    path.parent.mkdir(parents=True)
    path.write_bytes(other.path(FIRST.id, "rows").read_bytes())
    other.close()
    assert "damaged: its fingerprint belongs to another segment" == damaged(store)


def test_state_in_the_place_of_rows_is_damage(store: SegmentStore) -> None:
    put(store, STATE)
    state, in_place = (store.path(FIRST.id, kind) for kind in segments.KINDS)
    in_place.write_bytes(state.read_bytes())
    assert "damaged: its kind belongs to another segment" == damaged(store)


def test_a_file_of_another_format_version_is_damage(store: SegmentStore) -> None:
    put(store)
    path = store.path(FIRST.id, "rows")
    tensors, metadata = unpack(path.read_bytes())
    path.write_bytes(pack(tensors, {**metadata, "version": "999"}))
    assert "damaged: its version belongs to another segment" == damaged(store)


@pytest.mark.parametrize("stored", [[5, 6, 7, 9], [5, 6, 7], None])
def test_well_signed_rows_of_other_tokens_are_damage(
    store: SegmentStore, stored: list[int] | None
) -> None:
    put(store)
    path = store.path(FIRST.id, "rows")
    tensors, metadata = unpack(path.read_bytes())
    del tensors[segments.TOKENS]
    tokens = {} if stored is None else {segments.TOKENS: Tensor.of_tokens(stored)}
    path.write_bytes(pack({**tensors, **tokens}, metadata))
    assert "tokens" in damaged(store)


def test_rows_are_not_given_for_tokens_that_are_not_theirs(store: SegmentStore) -> None:
    put(store)
    with pytest.raises(SegmentDamaged, match="tokens"):
        store.get(FIRST, [5, 6, 7, 9], "rows")


@pytest.mark.parametrize("name", ["tokens", "0.keys"])
def test_well_signed_rows_of_a_wrong_type_are_damage(store: SegmentStore, name: str) -> None:
    """Whoever can sign a file can lie about its tokens' type; no other error may come of it."""
    put(store)
    path = store.path(FIRST.id, "rows")
    tensors, metadata = unpack(path.read_bytes())
    odd = {**tensors, name: Tensor("uint8", (3,), b"abc")}
    path.write_bytes(pack(odd, metadata))
    if name == "tokens":
        assert "damaged" in damaged(store)
    else:
        assert "uint8" == store.get(FIRST, TOKENS, "rows")[0]["0.keys"].dtype


def test_a_folder_in_a_files_place_is_a_miss(store: SegmentStore) -> None:
    store.path(FIRST.id, "rows").mkdir(parents=True)
    assert "unreadable" in damaged(store)


def test_segments_of_a_foreign_model_are_moved_out_of_the_way(store: SegmentStore) -> None:
    put(store, STATE)
    store.put(SECOND, [9, 10], rows(2, 2), {}, "")
    store.flush()
    store.set_aside(CHAIN)
    present = [store.has(part.id, kind) for part in CHAIN for kind in segments.KINDS]
    assert [False] * 4 == present


def test_two_stores_share_a_folder(tmp_path: Path, store: SegmentStore) -> None:
    other = SegmentStore(tmp_path, FINGERPRINT)
    both = [store, other] * 3
    for one in both:
        one.put(FIRST, TOKENS, rows(), STATE, "")
    for one in both:
        one.flush()
    assert set(STATE) == set(other.get(FIRST, TOKENS, "state")[0])
    assert 0 == put(other, STATE)
    assert (None, None) == (store.take_problem(), other.take_problem())
    other.close()
    found = set(tmp_path.rglob("*.safetensors"))
    assert {store.path(FIRST.id, kind) for kind in segments.KINDS} == found
    assert [] == list(store.scratch.iterdir())


# What follows a segment


def test_children_are_the_segments_that_were_put_after_one(store: SegmentStore) -> None:
    put(store)
    (other,) = chain(FIRST.parent, [5, 6, 7, 9], [4])
    store.put(other, [5, 6, 7, 9], rows(2), {}, "")
    store.put(SECOND, [9, 10], rows(3, 2), {}, "")
    store.flush()
    assert [(FIRST, TOKENS), (other, [5, 6, 7, 9])] == store.children(FIRST.parent, 0)
    assert [(SECOND, [9, 10])] == store.children(FIRST.id, 4)
    assert [] == store.children(SECOND.id, 6)


def test_a_child_that_was_evicted_or_damaged_is_left_out_and_comes_back_once(
    store: SegmentStore,
) -> None:
    put(store)
    path = store.path(FIRST.id, "rows")
    path.unlink()
    assert [] == store.children(FIRST.parent, 0)
    path.write_bytes(b"garbage")
    assert [] == store.children(FIRST.parent, 0)
    path.unlink()
    put(store)
    assert [(FIRST, TOKENS)] == store.children(FIRST.parent, 0)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\n\n", b"\0" * 64, b"x" * 64, b"\xff" * 64, b"../" * 21 + b"x", b"/" * 64, b"ab\ncd\n"],
    ids=ascii,
)
def test_garbage_in_the_index_is_passed_over(store: SegmentStore, garbage: bytes) -> None:
    put(store)
    (index,) = store.folder.rglob("*.next")
    index.write_bytes(garbage + b"\n" + index.read_bytes())
    kept = [] if b"\xff" in garbage else [(FIRST, TOKENS)]
    assert kept == store.children(FIRST.parent, 0)


@pytest.mark.parametrize(
    "tokens",
    [
        Tensor("float32", (2,), np.array([np.inf, np.nan], np.float32)),
        Tensor("bfloat16", (1,), b"ab"),
        Tensor("int32", (1, 2), np.array([[1, 2]], "<i4")),
        Tensor("int32", (), np.array(1, "<i4")),
        None,
    ],
    ids=["infinite", "bfloat16", "a table", "a number", "none"],
)
def test_a_child_with_odd_tokens_is_left_out(store: SegmentStore, tokens: Tensor | None) -> None:
    put(store)
    path = store.path(FIRST.id, "rows")
    tensors, metadata = unpack(path.read_bytes())
    del tensors[segments.TOKENS]
    odd = {} if tokens is None else {segments.TOKENS: tokens}
    path.write_bytes(pack({**tensors, **odd}, metadata))
    assert [] == store.children(FIRST.parent, 0)


def test_a_folder_that_cannot_be_written_turns_the_store_off_and_tells_it_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "kv").write_bytes(b"a file in the folder's place")
    store = SegmentStore(tmp_path, FINGERPRINT)
    assert None is store.take_problem()
    put(store)
    told = store.take_problem()
    assert told is not None
    assert str(tmp_path / "kv") in told
    assert None is store.take_problem()
    assert 0 == put(store, STATE)
    assert "unreadable" in damaged(store)
    store.close()
    assert b"a file in the folder's place" == (tmp_path / "kv").read_bytes()


def test_close_waits_for_what_was_put(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path, FINGERPRINT)
    noise = {"0.keys": tensor("float32", np.ones((1, 8, 4096, 16)))}
    store.put(FIRST, TOKENS, noise, {}, "")
    store.close()
    assert store.path(FIRST.id, "rows").stat().st_size > 8 * 4096 * 16 * 4


def test_what_is_written_is_what_the_arrays_were_at_the_put(store: SegmentStore) -> None:
    buffer = np.zeros((64, 4096), np.float32)
    store.put(FIRST, TOKENS, {"0.keys": Tensor("float32", buffer.shape, buffer)}, {}, "")
    buffer[:] = 1
    store.flush()
    found, _ = store.get(FIRST, TOKENS, "rows")
    assert 0.0 == float(np.frombuffer(found["0.keys"].data, np.float32).sum())


# Numbers


def filled(folder: Path) -> tuple[int, int]:
    """Two segments, one with state, and a foreign model's; (rows bytes, state bytes)."""
    store = SegmentStore(folder, FINGERPRINT)
    put(store, STATE)
    store.put(SECOND, [9, 10], rows(2, 2), {}, "")
    store.close()
    other = SegmentStore(folder, "e" * 32)
    put(other)
    other.close()
    sizes = [store.path(part.id, "rows").stat().st_size for part in CHAIN]
    return sum(sizes), store.path(FIRST.id, "state").stat().st_size


def test_usage_counts_files_and_bytes_of_each_model(tmp_path: Path) -> None:
    assert [] == segments.usage(tmp_path)
    rows_bytes, state_bytes = filled(tmp_path)
    other, mine = segments.usage(tmp_path)
    assert segments.Usage(FINGERPRINT, 2, rows_bytes, 1, state_bytes) == mine
    assert ("e" * 32, 1, 0, 0) == (other.fingerprint, other.segments, other.states, 0)


def test_remove_deletes_the_named_segments_of_one_model(tmp_path: Path) -> None:
    filled(tmp_path)
    store = SegmentStore(tmp_path, FINGERPRINT)
    gone = sum(store.path(FIRST.id, kind).stat().st_size for kind in segments.KINDS)
    assert gone == segments.remove(tmp_path, FINGERPRINT, {FIRST.id, "0" * 64})
    assert 0 == segments.remove(tmp_path, FINGERPRINT, {FIRST.id})
    assert (False, True) == tuple(store.has(part.id, "rows") for part in CHAIN)
    store.close()
    other, mine = segments.usage(tmp_path)
    assert (1, 0, 1) == (mine.segments, mine.states, other.segments)


def test_clear_deletes_every_checkpoint_and_no_transcript(tmp_path: Path) -> None:
    assert 0 == segments.clear(tmp_path)
    filled(tmp_path)
    (tmp_path / "dog.jsonl").write_bytes(b"words")
    total = sum(use.rows_bytes + use.state_bytes for use in segments.usage(tmp_path))
    assert total == segments.clear(tmp_path)
    assert ([], ["dog.jsonl"]) == (
        segments.usage(tmp_path),
        [path.name for path in tmp_path.iterdir()],
    )


def test_a_store_goes_on_after_another_process_cleared_its_folder(
    tmp_path: Path, store: SegmentStore
) -> None:
    size = put(store)
    segments.clear(tmp_path)
    assert size == put(store)
    assert store.has(FIRST.id, "rows")
    assert None is store.take_problem()


def test_a_files_place_follows_from_its_id(store: SegmentStore) -> None:
    identifier = Segment("ab" + "0" * 62, "", 0, 1).id
    assert store.folder / "ab" / f"{identifier}.rows.safetensors" == store.path(identifier, "rows")
