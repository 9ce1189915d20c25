"""The container format: tensors come back byte for byte, and all damage and false headers are detected."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.store.segments.container import (
    DTYPES,
    NO_DIGEST,
    PREFIX,
    Container,
    Tensor,
    pack,
    storage,
)

SAMPLE = np.array([[0.0, -0.0, 1.5, np.inf], [np.nan, 3, 250, 7]])
BITS = (0x01, 0x20, 0x80, 0xFF)
# Memory that the process may allocate in the tests of lying headers, whose files have a few hundred bytes.
EXTRA_MEMORY_BYTES = 1 << 30
Raw = tuple[str, tuple[int, ...], bytes]
Header = dict[str, Any]


def tensor(dtype: str, values: np.ndarray = SAMPLE) -> Tensor:
    if dtype == "bfloat16":
        bits = (values.astype("float32").view("uint32") >> 16).astype("uint16")
        return Tensor.of(bits, "bfloat16")
    with np.errstate(invalid="ignore"):
        array = np.nan_to_num(values).astype(dtype) if dtype[0] in "iu" else values.astype(dtype)
    return Tensor.of(array)


def raw(value: Tensor) -> Raw:
    return value.dtype, tuple(value.shape), value.raw().tobytes()


def read(path: Path) -> tuple[dict[str, Raw], dict[str, str]]:
    with Container(Location.of_file(path)) as file:
        return {name: raw(file.read(name)) for name in file.tensors}, dict(file.metadata)


def round_trip(
    folder: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> tuple[dict[str, Raw], dict[str, str]]:
    path = folder / "file"
    path.write_bytes(pack(tensors, metadata))
    return read(path)


def is_damaged(path: Path, data: bytes) -> bool:
    """Whether reading this raises `SegmentDamaged`; any other error is a failure."""
    path.write_bytes(data)
    try:
        with Container(Location.of_file(path)) as file:
            file.check()
    except SegmentDamaged:
        return True
    return False


# Round trips


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_every_type_comes_back_byte_for_byte(tmp_path: Path, dtype: str) -> None:
    tensors = {"b": tensor(dtype), "a": tensor(dtype, SAMPLE[:1])}
    metadata = {"id": "x", "text": 'é\n\0"digest":"'}
    expected = ({name: raw(value) for name, value in tensors.items()}, metadata)
    assert expected == round_trip(tmp_path, tensors, metadata)


@pytest.mark.parametrize("dtype", DTYPES.values())
@pytest.mark.parametrize("empty", [SAMPLE[:0], SAMPLE[:, :0]], ids=["no rows", "no columns"])
def test_an_empty_tensor_comes_back(tmp_path: Path, dtype: str, empty: np.ndarray) -> None:
    """MiniMax-M3's indexer caches values without columns."""
    tensors = {"a": tensor(dtype), "none": tensor(dtype, empty), "b": tensor(dtype)}
    stored, _ = round_trip(tmp_path, tensors, {})
    assert {name: raw(value) for name, value in tensors.items()} == stored


def test_no_tensors_and_a_scalar_come_back(tmp_path: Path) -> None:
    assert ({}, {"id": "x"}) == round_trip(tmp_path, {}, {"id": "x"})
    scalar = Tensor.of(np.float32(1.5).reshape(()))
    assert {"s": raw(scalar)} == round_trip(tmp_path, {"s": scalar}, {})[0]


def test_an_array_that_is_not_contiguous_is_packed_in_order(tmp_path: Path) -> None:
    array = np.arange(24, dtype="float32").reshape(4, 6)
    stored, _ = round_trip(tmp_path, {"a": Tensor.of(array[:, 2:4])}, {})
    assert array[:, 2:4].tobytes() == stored["a"][2]


def test_an_array_has_its_numbers_and_shape(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pack({"a": tensor("int16")}, {}))
    with Container(Location.of_file(tmp_path / "file")) as file:
        array = file.read("a").array()
    assert tensor("int16").array().tolist() == array.tolist()


def test_safetensors_reads_the_file(tmp_path: Path) -> None:
    from safetensors.numpy import load

    assert SAMPLE[1:, 1:].tolist() == load(pack({"a": Tensor.of(SAMPLE[1:, 1:])}, {}))["a"].tolist()


@pytest.mark.parametrize("count", [1, 3, 1100])
def test_a_tensor_is_read_into_any_number_of_arrays(tmp_path: Path, count: int) -> None:
    """1,100 buffers are more than one `preadv` takes."""
    values = np.random.default_rng(1).standard_normal((count, 5))
    (tmp_path / "file").write_bytes(pack({"a": Tensor.of(values)}, {}))
    views = [np.empty(5) for _ in range(count)]
    with Container(Location.of_file(tmp_path / "file")) as file:
        file.read_into({"a": [view.view("uint8").data for view in views]})
    assert values.tolist() == [view.tolist() for view in views]


def test_a_missing_tensor_or_metadata_key_is_damage(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pack({"a": tensor("int8")}, {}))
    with Container(Location.of_file(tmp_path / "file")) as file:
        with pytest.raises(SegmentDamaged, match="it has no b"):
            file.read("b")
        with pytest.raises(SegmentDamaged, match="it does not state its id"):
            file.metadata["id"]


def test_a_missing_file_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Container(Location.of_file(tmp_path / "none"))


def test_no_file_stays_open_whatever_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with pytest.raises(SegmentDamaged):
            Container(Location.of_file(path))
    assert open_files == len(list(Path("/proc/self/fd").iterdir()))


# Damage


def sample_file() -> bytes:
    tensors = {"a": tensor("float16"), "none": tensor("float32", SAMPLE[:0]), "t": tensor("int32")}
    return pack(tensors, {"id": "x", "end": "2", "text": "é"})


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    data = sample_file()
    missed = []
    for position in range(len(data)):
        for bits in BITS:
            flipped = bytearray(data)
            flipped[position] ^= bits
            if not is_damaged(tmp_path / "file", bytes(flipped)):
                missed.append((position, bits))
    assert [] == missed
    assert not is_damaged(tmp_path / "file", data)


def test_a_file_cut_at_any_length_is_noticed(tmp_path: Path) -> None:
    data = sample_file()
    missed = [length for length in range(len(data)) if not is_damaged(tmp_path / "f", data[:length])]
    assert [] == missed


@pytest.mark.parametrize("trailing", [b"\0", b"}", b"\0" * 4096, sample_file()], ids=lambda m: len(m))
def test_anything_after_the_end_is_noticed(tmp_path: Path, trailing: bytes) -> None:
    assert is_damaged(tmp_path / "file", sample_file() + trailing)


def test_wrong_bytes_name_their_tensor(tmp_path: Path) -> None:
    data = bytearray(pack({"a": tensor("int8")}, {}))
    data[-1] ^= 1
    (tmp_path / "file").write_bytes(data)
    with (
        Container(Location.of_file(tmp_path / "file")) as file,
        pytest.raises(SegmentDamaged, match="the bytes of its a do not match"),
    ):
        file.read("a")


def test_a_file_that_shrinks_while_it_is_open_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(sample_file())
    with Container(Location.of_file(path)) as file:
        path.write_bytes(sample_file()[:-40])
        with pytest.raises(SegmentDamaged, match="too early"):
            file.check()


# Lying headers with a valid digest


def signed(text: bytes, payload: bytes) -> bytes:
    """A file with this header, its digest filled in."""
    blank = f'"digest":"{NO_DIGEST}"'.encode()
    assert text.count(blank) <= 1
    prefix = len(text).to_bytes(PREFIX, "little")
    digest = xxhash.xxh3_128_hexdigest(prefix + text).encode()
    return prefix + text.replace(NO_DIGEST.encode(), digest, 1) + payload


def sums_of(*parts: bytes) -> str:
    return "".join(xxhash.xxh3_64_hexdigest(part) for part in parts)


def header(payload: bytes = bytes(16), **metadata: Any) -> Header:
    """A valid header of one tensor."""
    return {
        "__metadata__": {"digest": NO_DIGEST, "sums": sums_of(payload), **metadata},
        "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, len(payload)]},
    }


def signed_file(edit: Callable[[Header], Any], payload: bytes = bytes(16)) -> bytes:
    fields = header(payload)
    edit(fields)
    return signed(json.dumps(fields, separators=(",", ":")).encode(), payload)


def with_tensor_fields(**changes: Any) -> Callable[[Header], Any]:
    return lambda fields: fields["a"].update(changes)


def with_metadata(**changes: Any) -> Callable[[Header], Any]:
    return lambda fields: fields["__metadata__"].update(changes)


def with_second(shape: Any, start: int, end: int) -> Callable[[Header], Any]:
    """Add another tensor of the same payload; both sums are valid."""

    def edit(fields: Header) -> None:
        fields["b"] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
        fields["__metadata__"]["sums"] = sums_of(bytes(16), bytes(max(0, end - start)))

    return edit


def signed_with(old: str, new: str) -> bytes:
    """A valid header with `old` replaced in its text, and a valid digest."""
    text = json.dumps(header(), separators=(",", ":"))
    assert old in text
    return signed(text.replace(old, new, 1).encode(), bytes(16))


TENSOR_JSON = json.dumps(header()["a"], separators=(",", ":"))
CHANGES: dict[str, Callable[[Header], Any]] = {
    "an unknown type": with_tensor_fields(dtype="F99"),
    "a type of another size": with_tensor_fields(dtype="F64"),
    "a type that is none": with_tensor_fields(dtype=None),
    "a type that is a list": with_tensor_fields(dtype=["F32"]),
    "no type": lambda fields: fields["a"].pop("dtype"),
    "no shape": lambda fields: fields["a"].pop("shape"),
    "no offsets": lambda fields: fields["a"].pop("data_offsets"),
    "a negative shape": with_tensor_fields(shape=[-2, -2]),
    "an absurd shape": with_tensor_fields(shape=[1 << 62, 1 << 62]),
    "an absurd shape of nothing": with_tensor_fields(shape=[1 << 70, 0], data_offsets=[0, 0]),
    "a side of 2**31 of nothing": with_tensor_fields(shape=[1 << 31, 0], data_offsets=[0, 0]),
    "a shape of 2**63": with_tensor_fields(shape=[1 << 63]),
    "a boolean in the shape": with_tensor_fields(shape=[4, True]),
    "a float in the shape": with_tensor_fields(shape=[4.0]),
    "a text in the shape": with_tensor_fields(shape=["4"]),
    "a null in the shape": with_tensor_fields(shape=[None]),
    "a shape that is a number": with_tensor_fields(shape=4),
    "a shape that is a text": with_tensor_fields(shape="4"),
    "a shape that is an object": with_tensor_fields(shape={}, dtype="C64", data_offsets=[0, 8]),
    "a shape that does not fill its bytes": with_tensor_fields(shape=[3]),
    "a deep shape": with_tensor_fields(shape=[[4]]),
    "offsets before the start": with_tensor_fields(data_offsets=[-16, 0]),
    "offsets the wrong way round": with_tensor_fields(data_offsets=[16, 0]),
    "offsets that begin later": with_tensor_fields(data_offsets=[8, 24]),
    "an offset of 2**63": with_tensor_fields(data_offsets=[0, 1 << 63], shape=[1 << 61]),
    "an offset of 2**64": with_tensor_fields(data_offsets=[1 << 64, (1 << 64) + 16]),
    "a boolean offset": with_tensor_fields(data_offsets=[False, 16]),
    "a float offset": with_tensor_fields(data_offsets=[0, 16.0]),
    "one offset": with_tensor_fields(data_offsets=[16]),
    "three offsets": with_tensor_fields(data_offsets=[0, 8, 16]),
    "no object": lambda fields: fields.update(a=5),
    "overlapping tensors": with_second([2], 8, 16),
    "the same bytes twice": with_second([4], 0, 16),
    "a gap": with_tensor_fields(data_offsets=[0, 8], shape=[2]),
    "a tensor past the end": with_second([4], 16, 32),
    "a tensor with no sum": lambda fields: fields.update(b={**fields["a"]}),
    "a sum of no tensor": lambda fields: fields.pop("a"),
    "no sums": lambda fields: fields["__metadata__"].pop("sums"),
    "a sum too short": with_metadata(sums=sums_of(bytes(16))[:-1]),
    "a sum too many": with_metadata(sums=sums_of(bytes(16), b"")),
    "a sum of other bytes": with_metadata(sums=sums_of(b"other")),
    "sums that are no text": with_metadata(sums=5),
    "a number in the metadata": with_metadata(end=5),
    "a null in the metadata": with_metadata(end=None),
    "a list in the metadata": with_metadata(end=[]),
    "metadata that is a list": lambda fields: fields.update(__metadata__=[["digest", NO_DIGEST]]),
    "metadata that is null": lambda fields: fields.update(__metadata__=None),
    "no metadata": lambda fields: fields.pop("__metadata__"),
    "no digest": lambda fields: fields["__metadata__"].pop("digest"),
    "a digest that is a number": with_metadata(digest=5),
    "a digest that is no text at all": with_metadata(digest="\ud800"),
    "a digest of nothing": with_metadata(digest=""),
    "a digest of zeros": with_metadata(digest="00"),
}
HEADER_TEXTS: dict[str, bytes] = {
    "a tensor twice": signed_with(f'"a":{TENSOR_JSON}', f'"a":{TENSOR_JSON},"a":{TENSOR_JSON}'),
    "a part twice": signed_with('"shape":[4]', '"shape":[9],"shape":[4]'),
    "metadata twice": signed_with('{"__metadata__":', '{"__metadata__":{"x":"y"},"__metadata__":'),
    "a digest twice": signed_with('"digest":', '"digest":"x","digest":'),
    "sums twice": signed_with('"sums":', '"sums":"","sums":'),
    "deep nesting": signed_with('"shape":[4]', '"shape":' + "[" * 50_000 + "]" * 50_000),
    "deep nesting of objects": signed_with('"shape":[4]', '"x":' + '{"x":' * 50_000),
    "a number of many digits": signed_with("[4]", "[" + "9" * 10_000 + "]"),
    "a number that is infinite": signed_with("[4]", "[1e999]"),
    "NaN": signed_with("[4]", "[NaN]"),
    "half an object": signed_with("[4]", "[4"),
    "no JSON": signed(b"\xff\xfe", b""),
    "nothing": signed(b"", b""),
    "a list": signed(b"[]", b""),
    "an empty object": signed(b"{}", b""),
    "a number": signed(b"5", b""),
    "a text": signed(b'"x"', b""),
    "null": signed(b"null", b""),
    "a list of pairs": signed(f'[["__metadata__",{{"sums":"","digest":"{NO_DIGEST}"}}]]'.encode(), b""),
}
# The library's limit is 100,000,000.
LENGTHS = [0, 1, PREFIX, 1 << 26, 100_000_000, 1 << 31, 1 << 40, 1 << 63, (1 << 64) - 1]


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """An address space limit that stops an allocation of the size in a lying header."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_MEMORY_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_the_helpers_write_valid_digests(tmp_path: Path) -> None:
    """Otherwise the files below would be refused for their digest."""
    assert not is_damaged(tmp_path / "file", signed_file(lambda _: None))
    assert not is_damaged(tmp_path / "file", signed_with("[4]", "[4]"))
    assert not is_damaged(tmp_path / "file", signed_file(with_tensor_fields(shape=[2, 2])))
    empty = with_second([(1 << 31) - 1, 0], 16, 16)
    assert not is_damaged(tmp_path / "file", signed_file(empty))


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("edit", CHANGES.values(), ids=CHANGES)
def test_a_lying_header_is_damage(tmp_path: Path, edit: Callable[[Header], Any]) -> None:
    assert is_damaged(tmp_path / "file", signed_file(edit))


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("data", HEADER_TEXTS.values(), ids=HEADER_TEXTS)
def test_a_text_that_is_no_header_is_damage(tmp_path: Path, data: bytes) -> None:
    assert is_damaged(tmp_path / "file", data)


@pytest.mark.usefixtures("limited_memory")
@pytest.mark.parametrize("length", LENGTHS)
def test_any_wrong_header_length_is_damage(tmp_path: Path, length: int) -> None:
    text = json.dumps(header()).encode()
    assert is_damaged(tmp_path / "file", length.to_bytes(PREFIX, "little") + text + bytes(16))


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_type_of_the_same_size_is_noticed_by_the_digest(tmp_path: Path, dtype: str) -> None:
    """The payload and its sums stay the same: only the digest covers the header."""
    data = pack({"a": tensor("float16")}, {"id": "x"})
    assert 1 == data.count(b'"F16"')
    retyped = data.replace(b'"F16"', f'"{dtype}"'.encode())
    assert (dtype != "F16") == is_damaged(tmp_path / "file", retyped)


def test_storage_has_the_size_of_its_type() -> None:
    sizes = {name: storage(name).itemsize for name in ("bool", "bfloat16", "int32", "complex64")}
    assert {"bool": 1, "bfloat16": 2, "int32": 4, "complex64": 8} == sizes
