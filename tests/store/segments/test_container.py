"""One file: what is put in comes out byte for byte, and whatever happens to it is noticed."""

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
# What the whole process may take in the hostile tests: they hold files of a few hundred bytes.
MORE_MEMORY = 1 << 30
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
    with Container(path) as file:
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
        with Container(path) as file:
            file.check()
    except SegmentDamaged:
        return True
    return False


# What comes back


@pytest.mark.parametrize("dtype", DTYPES.values())
def test_every_type_comes_back_byte_for_byte(tmp_path: Path, dtype: str) -> None:
    given = {"b": tensor(dtype), "a": tensor(dtype, SAMPLE[:1])}
    metadata = {"id": "x", "text": 'é\n\0"digest":"'}
    expected = ({name: raw(value) for name, value in given.items()}, metadata)
    assert expected == round_trip(tmp_path, given, metadata)


@pytest.mark.parametrize("dtype", DTYPES.values())
@pytest.mark.parametrize("empty", [SAMPLE[:0], SAMPLE[:, :0]], ids=["no rows", "no columns"])
def test_a_tensor_of_nothing_comes_back(tmp_path: Path, dtype: str, empty: np.ndarray) -> None:
    """MiniMax-M3's indexer keeps values of no columns."""
    given = {"a": tensor(dtype), "none": tensor(dtype, empty), "b": tensor(dtype)}
    stored, _ = round_trip(tmp_path, given, {})
    assert {name: raw(value) for name, value in given.items()} == stored


def test_no_tensors_and_a_scalar_come_back(tmp_path: Path) -> None:
    assert ({}, {"id": "x"}) == round_trip(tmp_path, {}, {"id": "x"})
    scalar = Tensor.of(np.float32(1.5).reshape(()))
    assert {"s": raw(scalar)} == round_trip(tmp_path, {"s": scalar}, {})[0]


def test_an_array_that_lies_in_pieces_is_packed_in_order(tmp_path: Path) -> None:
    whole = np.arange(24, dtype="float32").reshape(4, 6)
    stored, _ = round_trip(tmp_path, {"a": Tensor.of(whole[:, 2:4])}, {})
    assert whole[:, 2:4].tobytes() == stored["a"][2]


def test_an_array_has_its_numbers_and_shape(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pack({"a": tensor("int16")}, {}))
    with Container(tmp_path / "file") as file:
        array = file.read("a").array()
    assert tensor("int16").array().tolist() == array.tolist()


def test_the_file_is_one_that_safetensors_reads(tmp_path: Path) -> None:
    from safetensors.numpy import load

    assert SAMPLE[1:, 1:].tolist() == load(pack({"a": Tensor.of(SAMPLE[1:, 1:])}, {}))["a"].tolist()


@pytest.mark.parametrize("count", [1, 3, 1100])
def test_a_tensor_is_read_into_as_many_arrays_as_one_wants(tmp_path: Path, count: int) -> None:
    """1,100 are more than one call of the system takes."""
    values = np.random.default_rng(1).standard_normal((count, 5))
    (tmp_path / "file").write_bytes(pack({"a": Tensor.of(values)}, {}))
    views = [np.empty(5) for _ in range(count)]
    with Container(tmp_path / "file") as file:
        file.read_into({"a": [view.view("uint8").data for view in views]})
    assert values.tolist() == [view.tolist() for view in views]


def test_what_is_not_in_a_file_is_damage(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pack({"a": tensor("int8")}, {}))
    with Container(tmp_path / "file") as file:
        with pytest.raises(SegmentDamaged, match="it has no b"):
            file.read("b")
        with pytest.raises(SegmentDamaged, match="it does not tell its id"):
            file.metadata["id"]


def test_a_file_that_is_not_there_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Container(tmp_path / "none")


def test_no_file_stays_open_whatever_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with pytest.raises(SegmentDamaged):
            Container(path)
    assert before == len(list(Path("/proc/self/fd").iterdir()))


# Damage


def some_file() -> bytes:
    given = {"a": tensor("float16"), "none": tensor("float32", SAMPLE[:0]), "t": tensor("int32")}
    return pack(given, {"id": "x", "end": "2", "text": "é"})


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    data = some_file()
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
    data = some_file()
    cut = [length for length in range(len(data)) if not is_damaged(tmp_path / "f", data[:length])]
    assert [] == cut


@pytest.mark.parametrize("more", [b"\0", b"}", b"\0" * 4096, some_file()], ids=lambda m: len(m))
def test_anything_after_the_end_is_noticed(tmp_path: Path, more: bytes) -> None:
    assert is_damaged(tmp_path / "file", some_file() + more)


def test_bytes_that_are_wrong_say_which(tmp_path: Path) -> None:
    data = bytearray(pack({"a": tensor("int8")}, {}))
    data[-1] ^= 1
    (tmp_path / "file").write_bytes(data)
    with (
        Container(tmp_path / "file") as file,
        pytest.raises(SegmentDamaged, match="the bytes of its a do not match"),
    ):
        file.read("a")


def test_a_file_that_shrinks_while_it_is_open_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(some_file())
    with Container(path) as file:
        path.write_bytes(some_file()[:-40])
        with pytest.raises(SegmentDamaged, match="too early"):
            file.check()


# Headers that lie, with a digest that is right


def signed(text: bytes, payload: bytes) -> bytes:
    """A file with this header, in which the digest has been put in its place."""
    blank = f'"digest":"{NO_DIGEST}"'.encode()
    assert text.count(blank) <= 1
    prefix = len(text).to_bytes(PREFIX, "little")
    digest = xxhash.xxh3_128_hexdigest(prefix + text).encode()
    return prefix + text.replace(NO_DIGEST.encode(), digest, 1) + payload


def sums_of(*parts: bytes) -> str:
    return "".join(xxhash.xxh3_64_hexdigest(part) for part in parts)


def header(payload: bytes = bytes(16), **metadata: Any) -> Header:
    """A right header of one tensor."""
    return {
        "__metadata__": {"digest": NO_DIGEST, "sums": sums_of(payload), **metadata},
        "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, len(payload)]},
    }


def hostile(change: Callable[[Header], Any], payload: bytes = bytes(16)) -> bytes:
    fields = header(payload)
    change(fields)
    return signed(json.dumps(fields, separators=(",", ":")).encode(), payload)


def with_part(**changes: Any) -> Callable[[Header], Any]:
    return lambda fields: fields["a"].update(changes)


def with_told(**changes: Any) -> Callable[[Header], Any]:
    return lambda fields: fields["__metadata__"].update(changes)


def with_second(shape: Any, first: int, last: int) -> Callable[[Header], Any]:
    """Another tensor of the same payload; both sums are right."""

    def change(fields: Header) -> None:
        fields["b"] = {"dtype": "F32", "shape": shape, "data_offsets": [first, last]}
        fields["__metadata__"]["sums"] = sums_of(bytes(16), bytes(max(0, last - first)))

    return change


def replaced(old: str, new: str) -> bytes:
    """A right header's text with something else in it, signed again."""
    text = json.dumps(header(), separators=(",", ":"))
    assert old in text
    return signed(text.replace(old, new, 1).encode(), bytes(16))


PART = json.dumps(header()["a"], separators=(",", ":"))
CHANGES: dict[str, Callable[[Header], Any]] = {
    "an unknown type": with_part(dtype="F99"),
    "a type of another size": with_part(dtype="F64"),
    "a type that is none": with_part(dtype=None),
    "a type that is a list": with_part(dtype=["F32"]),
    "no type": lambda fields: fields["a"].pop("dtype"),
    "no shape": lambda fields: fields["a"].pop("shape"),
    "no offsets": lambda fields: fields["a"].pop("data_offsets"),
    "a negative shape": with_part(shape=[-2, -2]),
    "an absurd shape": with_part(shape=[1 << 62, 1 << 62]),
    "an absurd shape of nothing": with_part(shape=[1 << 70, 0], data_offsets=[0, 0]),
    "a side of 2**31 of nothing": with_part(shape=[1 << 31, 0], data_offsets=[0, 0]),
    "a shape of 2**63": with_part(shape=[1 << 63]),
    "a boolean in the shape": with_part(shape=[4, True]),
    "a float in the shape": with_part(shape=[4.0]),
    "a text in the shape": with_part(shape=["4"]),
    "a null in the shape": with_part(shape=[None]),
    "a shape that is a number": with_part(shape=4),
    "a shape that is a text": with_part(shape="4"),
    "a shape that is an object": with_part(shape={}, dtype="C64", data_offsets=[0, 8]),
    "a shape that does not fill its bytes": with_part(shape=[3]),
    "a deep shape": with_part(shape=[[4]]),
    "offsets before the start": with_part(data_offsets=[-16, 0]),
    "offsets the wrong way round": with_part(data_offsets=[16, 0]),
    "offsets that begin later": with_part(data_offsets=[8, 24]),
    "an offset of 2**63": with_part(data_offsets=[0, 1 << 63], shape=[1 << 61]),
    "an offset of 2**64": with_part(data_offsets=[1 << 64, (1 << 64) + 16]),
    "a boolean offset": with_part(data_offsets=[False, 16]),
    "a float offset": with_part(data_offsets=[0, 16.0]),
    "one offset": with_part(data_offsets=[16]),
    "three offsets": with_part(data_offsets=[0, 8, 16]),
    "no object": lambda fields: fields.update(a=5),
    "overlapping tensors": with_second([2], 8, 16),
    "the same bytes twice": with_second([4], 0, 16),
    "a gap": with_part(data_offsets=[0, 8], shape=[2]),
    "a tensor past the end": with_second([4], 16, 32),
    "a tensor with no sum": lambda fields: fields.update(b={**fields["a"]}),
    "a sum of no tensor": lambda fields: fields.pop("a"),
    "no sums": lambda fields: fields["__metadata__"].pop("sums"),
    "a sum too short": with_told(sums=sums_of(bytes(16))[:-1]),
    "a sum too many": with_told(sums=sums_of(bytes(16), b"")),
    "a sum of other bytes": with_told(sums=sums_of(b"other")),
    "sums that are no text": with_told(sums=5),
    "a number in the metadata": with_told(end=5),
    "a null in the metadata": with_told(end=None),
    "a list in the metadata": with_told(end=[]),
    "metadata that is a list": lambda fields: fields.update(__metadata__=[["digest", NO_DIGEST]]),
    "metadata that is null": lambda fields: fields.update(__metadata__=None),
    "no metadata": lambda fields: fields.pop("__metadata__"),
    "no digest": lambda fields: fields["__metadata__"].pop("digest"),
    "a digest that is a number": with_told(digest=5),
    "a digest that is no text at all": with_told(digest="\ud800"),
    "a digest of nothing": with_told(digest=""),
    "a digest of zeros": with_told(digest="00"),
}
TEXTS: dict[str, bytes] = {
    "a tensor twice": replaced(f'"a":{PART}', f'"a":{PART},"a":{PART}'),
    "a part twice": replaced('"shape":[4]', '"shape":[9],"shape":[4]'),
    "metadata twice": replaced('{"__metadata__":', '{"__metadata__":{"x":"y"},"__metadata__":'),
    "a digest twice": replaced('"digest":', '"digest":"x","digest":'),
    "sums twice": replaced('"sums":', '"sums":"","sums":'),
    "deep nesting": replaced('"shape":[4]', '"shape":' + "[" * 50_000 + "]" * 50_000),
    "deep nesting of objects": replaced('"shape":[4]', '"x":' + '{"x":' * 50_000),
    "a number of many digits": replaced("[4]", "[" + "9" * 10_000 + "]"),
    "a number that is infinite": replaced("[4]", "[1e999]"),
    "NaN": replaced("[4]", "[NaN]"),
    "half an object": replaced("[4]", "[4"),
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
def little_memory() -> Iterator[None]:
    """A limit that an allocation which believes a header runs into."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_the_helpers_sign_as_a_writer_does(tmp_path: Path) -> None:
    """Or the files below would be refused for their digest."""
    assert not is_damaged(tmp_path / "file", hostile(lambda _: None))
    assert not is_damaged(tmp_path / "file", replaced("[4]", "[4]"))
    assert not is_damaged(tmp_path / "file", hostile(with_part(shape=[2, 2])))
    empty = with_second([(1 << 31) - 1, 0], 16, 16)
    assert not is_damaged(tmp_path / "file", hostile(empty))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_signed_header_that_lies_is_damage(tmp_path: Path, change: Callable[[Header], Any]) -> None:
    assert is_damaged(tmp_path / "file", hostile(change))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS)
def test_a_signed_text_that_is_no_header_is_damage(tmp_path: Path, data: bytes) -> None:
    assert is_damaged(tmp_path / "file", data)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("length", LENGTHS)
def test_a_header_as_long_as_one_likes_is_damage(tmp_path: Path, length: int) -> None:
    text = json.dumps(header()).encode()
    assert is_damaged(tmp_path / "file", length.to_bytes(PREFIX, "little") + text + bytes(16))


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_type_of_the_same_size_is_noticed_by_the_digest(tmp_path: Path, dtype: str) -> None:
    """The bytes do not change, so the sums are right: what they mean is covered too."""
    data = pack({"a": tensor("float16")}, {"id": "x"})
    assert 1 == data.count(b'"F16"')
    other = data.replace(b'"F16"', f'"{dtype}"'.encode())
    assert (dtype != "F16") == is_damaged(tmp_path / "file", other)


def test_storage_has_the_size_of_its_type() -> None:
    sizes = {name: storage(name).itemsize for name in ("bool", "bfloat16", "int32", "complex64")}
    assert {"bool": 1, "bfloat16": 2, "int32": 4, "complex64": 8} == sizes
