"""One safetensors file whose every byte is covered by a checksum; refuses to know what is in it.

The layout is FORMAT.md's. A reader trusts nothing: whatever is wrong with a file is a
`SegmentDamaged` with the reason, and no size in a header is believed before it fits the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from chatcli.errors import SegmentDamaged

SEGMENT_FORMAT = "chatcli-segment"
SEGMENT_VERSION = "2"
DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
}
SHORT = {dtype: short for short, dtype in DTYPES.items()}
LONGEST_HEADER = 64 << 20
PREFIX = 8
NO_DIGEST = "0" * 32
SUM_DIGITS = 16
# Blocks of memory that one call fills, and about how many bytes of them.
VECTORS = 1024
BATCH = 1 << 20
# No array of MLX's has a dimension that is larger.
LONGEST_SIDE = (1 << 31) - 1

Array = np.ndarray[Any, np.dtype[Any]]
# Flat bytes, each in one block.
Views = list[memoryview]
Piece = bytes | memoryview
Batch = list[tuple[str, Views]]


def storage(dtype: str) -> np.dtype[Any]:
    """The numpy type that holds `dtype`: bfloat16 has none, so its bits are held."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


SIZES = {short: (dtype, storage(dtype).itemsize) for short, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """An array as bytes: `dtype` is numpy's name or "bfloat16", `data` is contiguous."""

    dtype: str
    shape: tuple[int, ...]
    data: Any

    def raw(self) -> Array:
        """The bytes, not copied; there may be none."""
        return np.frombuffer(self.data, np.uint8) if 0 not in self.shape else np.empty(0, np.uint8)

    def array(self) -> Array:
        """The numbers in their shape, not copied; bfloat16 as its bits."""
        return self.raw().view(storage(self.dtype)).reshape(self.shape)

    @classmethod
    def of(cls, array: Array, dtype: str | None = None) -> Tensor:
        """A numpy array; `dtype` says what its bits mean where numpy has no such type."""
        return cls(dtype or array.dtype.name, array.shape, np.ascontiguousarray(array))


Tensors = Mapping[str, Tensor]


def pack(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """A file: the metadata, a checksum for each tensor, and one for the header with all of them."""
    return b"".join(pieces(tensors, metadata))


def pieces(tensors: Tensors, metadata: Mapping[str, str]) -> list[Piece]:
    """`pack`, as its header and then the tensors' own bytes, which are not copied."""
    buffers = {name: tensor.raw().data for name, tensor in tensors.items()}
    sums = "".join(xxhash.xxh3_64_hexdigest(buffers[name]) for name in sorted(buffers))
    header = _header(tensors, {**metadata, "sums": sums, "digest": NO_DIGEST})
    header = header.replace(_digest_item(NO_DIGEST), _digest_item(_digest(header)), 1)
    return [header, *(buffers[name] for name in _in_order(tensors))]


def size_of(tensors: Tensors, metadata: Mapping[str, str]) -> int:
    """How many bytes `pack` will make, without reading a tensor."""
    sums = "0" * SUM_DIGITS * len(tensors)
    header = _header(tensors, {**metadata, "sums": sums, "digest": NO_DIGEST})
    return len(header) + sum(map(_length, tensors.values()))


def _in_order(tensors: Tensors) -> list[str]:
    """As safetensors has them: the largest types first, so that each is aligned."""
    return sorted(tensors, key=lambda name: (-storage(tensors[name].dtype).itemsize, name))


def _length(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * storage(tensor.dtype).itemsize


def _header(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """A safetensors header: its length in 8 bytes, then JSON, filled up to whole 8 bytes."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in _in_order(tensors):
        tensor, start = tensors[name], end
        end += _length(tensor)
        entries[name] = {
            "dtype": SHORT[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % PREFIX)
    return len(text).to_bytes(PREFIX, "little") + text


def _digest_item(value: str) -> bytes:
    return f'"digest":"{value}"'.encode()


def _digest(header: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(header)


class Told(dict[str, str]):
    """What a header tells. To ask it for anything else raises `SegmentDamaged`."""

    def __missing__(self, key: str) -> str:
        raise SegmentDamaged(f"it does not tell its {key}")


class Part(NamedTuple):
    """Where a tensor is in its file, and the checksum of its bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int
    sum: str


class Container:
    """An open file. Raises `SegmentDamaged` if its header is not whole, `OSError` as `open` does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.metadata, self.parts = _read_header(self._descriptor)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, name: str) -> Tensor:
        """A tensor, checked."""
        part = self._part(name)
        data = np.empty(part.length, np.uint8)
        self.read_into({name: [data.data] if part.length else []})
        return Tensor(part.dtype, part.shape, data)

    def read_into(self, wanted: Mapping[str, Views]) -> None:
        """Tensors' bytes into blocks of memory that hold each of them together, checked."""
        for batch in self.batches(wanted):
            self.read_batch(batch)

    def batches(self, wanted: Mapping[str, Views]) -> Iterator[Batch]:
        """Tensors and where they go, in groups of neighbours of some size, in the file's order."""
        batch: Batch = []
        size = vectors = end = 0
        for name in sorted(wanted, key=lambda name: self._part(name).offset):
            part, views = self.parts[name], wanted[name]
            if batch and (part.offset != end or size >= BATCH or vectors + len(views) > VECTORS):
                yield batch
                batch, size, vectors = [], 0, 0
            batch.append((name, views))
            size, vectors, end = size + part.length, vectors + len(views), part.offset + part.length
        if batch:
            yield batch

    def read_batch(self, batch: Batch) -> None:
        """Neighbouring tensors at once, each checked while its bytes are in the processor's cache."""
        views = [view for _, some in batch for view in some]
        _read_exactly(self._descriptor, views, self.parts[batch[0][0]].offset)
        for name, some in batch:
            hasher = xxhash.xxh3_64()
            for view in some:
                hasher.update(view)
            if hasher.hexdigest() != self.parts[name].sum:
                raise SegmentDamaged(f"the bytes of its {name} do not match their checksum")

    def check(self) -> None:
        """Read everything once. Raises `SegmentDamaged`."""
        for name in self.parts:
            self.read(name)

    def _part(self, name: str) -> Part:
        if name not in self.parts:
            raise SegmentDamaged(f"it has no {name}")
        return self.parts[name]


def _read_exactly(descriptor: int, views: Views, offset: int) -> None:
    """Fill `views` from `offset`. Raises `SegmentDamaged` at the file's end."""
    for first in range(0, len(views), VECTORS):
        some = views[first : first + VECTORS]
        wanted = sum(map(len, some))
        if os.preadv(descriptor, some, offset) != wanted:
            _read_slowly(descriptor, some, offset)
        offset += wanted


def _read_slowly(descriptor: int, views: Views, offset: int) -> None:
    """What one call did not give, as systems give at most 2 GiB at once."""
    for view in views:
        done = 0
        while done < len(view):
            count = os.preadv(descriptor, [view[done:]], offset)
            if count == 0:
                raise SegmentDamaged("it ends too early")
            done, offset = done + count, offset + count


def _read_header(descriptor: int) -> tuple[Told, dict[str, Part]]:
    size = os.fstat(descriptor).st_size
    prefix = os.pread(descriptor, PREFIX, 0)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < PREFIX or length > min(size - PREFIX, LONGEST_HEADER):
        raise SegmentDamaged("its header does not fit the file")
    text = os.pread(descriptor, length, PREFIX)
    metadata, entries = _parse(text)
    claimed = metadata.pop("digest")
    item = _digest_item(claimed) if claimed.isascii() else b""
    if not item or _digest(prefix + text.replace(item, _digest_item(NO_DIGEST), 1)) != claimed:
        raise SegmentDamaged("its header does not match its digest")
    return metadata, _parts(entries, metadata.pop("sums", ""), PREFIX + length, size)


def _parse(text: bytes) -> tuple[Told, dict[str, Any]]:
    try:
        entries = json.loads(text, object_pairs_hook=_unlike_names)
        metadata = Told(entries.pop("__metadata__").items())
        if all(isinstance(value, str) for value in metadata.values()) and "digest" in metadata:
            return metadata, entries
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SegmentDamaged(f"its header is not one ({type(error).__name__})") from error
    raise SegmentDamaged("its header has no digest")


def _unlike_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no name comes twice. Raises `ValueError`."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name comes twice")
    return made


def _parts(entries: dict[str, Any], sums: str, start: int, size: int) -> dict[str, Part]:
    """Where the tensors are. They must lie one after the other and fill the file."""
    if len(sums) != SUM_DIGITS * len(entries):
        raise SegmentDamaged("its checksums are not those of its tensors")
    pieces = (sums[at : at + SUM_DIGITS] for at in range(0, len(sums), SUM_DIGITS))
    try:
        found = {
            name: _part(entries[name], start, value)
            for name, value in zip(sorted(entries), pieces, strict=True)
        }
    except (ValueError, KeyError, TypeError) as error:
        raise SegmentDamaged(f"its header names no tensors ({type(error).__name__})") from error
    end = start
    for part in sorted(found.values(), key=lambda part: (part.offset, part.length)):
        if part.offset != end:
            raise SegmentDamaged("its tensors overlap or leave gaps")
        end += part.length
    if end != size:
        raise SegmentDamaged("its tensors do not fill the file")
    return found


def _part(entry: Mapping[str, Any], start: int, value: str) -> Part:
    """A plain loop, since a long conversation's files have thousands of these."""
    dtype, size = SIZES[entry["dtype"]]
    shape = entry["shape"]
    first, last = entry["data_offsets"]
    if type(shape) is not list or type(first) is not int or type(last) is not int or first < 0:
        raise ValueError("a shape or a place that is none")
    for side in shape:
        if type(side) is not int or not 0 <= side <= LONGEST_SIDE:
            raise ValueError("a shape that is none")
        size *= side
    if size != last - first:
        raise ValueError("a shape that does not fit its bytes")
    return Part(dtype, tuple(shape), start + first, size, value)
