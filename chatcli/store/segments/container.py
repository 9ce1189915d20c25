"""A safetensors file whose every byte is covered by a checksum, read straight into its destination.

FORMAT.md defines the layout. The safetensors library parses and validates headers. This module adds what it
lacks: checksums, locked and flushed files, and reading into existing arrays.
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xxhash
from safetensors import SafetensorError, safe_open

from chatcli.errors import SegmentDamaged
from chatcli.files import Location, NotRegular

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
CODES = {dtype: code for code, dtype in DTYPES.items()}
PREFIX = 8
NO_DIGEST = "0" * 32
SUM_DIGITS = 16
# One system call reads at most this many buffers, and a batch is full from this many bytes on.
MAX_BUFFERS = 1024
BATCH_BYTES = 1 << 20
# The largest dimension of an MLX array.
MAX_DIMENSION = (1 << 31) - 1

Array = np.ndarray[Any, np.dtype[Any]]
# Flat blocks of memory, in order.
Buffers = list[memoryview]
# Neighbouring tensors, and where the bytes of each go.
Batch = list[tuple[str, Buffers]]
# Called with the number of bytes read and checked since the last call. An exception ends the reading.


def storage(dtype: str) -> np.dtype[Any]:
    """The NumPy type that stores `dtype`. NumPy has no bfloat16, so its bits are stored."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


# NumPy's name of a type and its size in bytes.
ITEMS = {code: (dtype, storage(dtype).itemsize) for code, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """An array as bytes: `dtype` is numpy's name or "bfloat16", `data` is contiguous."""

    dtype: str
    shape: tuple[int, ...]
    data: Any

    def raw(self) -> Array:
        """The bytes, not copied; possibly empty."""
        return np.frombuffer(self.data, np.uint8) if 0 not in self.shape else np.empty(0, np.uint8)

    def array(self) -> Array:
        """The array in its shape, not copied; bfloat16 as bits."""
        return self.raw().view(storage(self.dtype)).reshape(self.shape)

    @classmethod
    def of(cls, array: Array, dtype: str | None = None) -> Tensor:
        """A tensor of a NumPy array; `dtype` names the type of its bits if NumPy lacks it."""
        return cls(dtype or array.dtype.name, array.shape, np.ascontiguousarray(array))


Tensors = Mapping[str, Tensor]


def pack(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """The bytes of a file: a header with metadata and checksums, then the tensors."""
    return b"".join(pieces(tensors, metadata))


def pieces(tensors: Tensors, metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """`pack` as the header and then the tensors' own buffers, which are not copied.

    The library's `serialize` copies every tensor. Its `serialize_file` is as fast as this, but writes to an
    unlocked temporary file, which another process would delete, loses error numbers, and cannot put the
    header's digest into the header.
    """
    buffers = {name: tensor.raw().data for name, tensor in tensors.items()}
    sums = {name: xxhash.xxh3_64_hexdigest(buffer) for name, buffer in buffers.items()}
    return [header(tensors, metadata, sums), *(buffers[name] for name in file_order(tensors))]


def size_of(tensors: Tensors, metadata: Mapping[str, str]) -> int:
    """The length of `pack` in bytes, without reading a tensor."""
    return len(_header(tensors, metadata, "0" * SUM_DIGITS * len(tensors))) + sum(
        map(_length, tensors.values())
    )


def header(
    tensors: Mapping[str, Tensor | TensorInfo], metadata: Mapping[str, str], sums: Mapping[str, str]
) -> bytes:
    """What comes before the tensors of a file, which follow in `file_order`; `sums` are theirs by name."""
    text = _header(tensors, metadata, "".join(sums[name] for name in sorted(tensors)))
    return text.replace(_digest_item(NO_DIGEST), _digest_item(_digest(text)), 1)


def file_order(tensors: Mapping[str, Tensor | TensorInfo]) -> list[str]:
    """The largest types first, as the library orders them, so that each tensor is aligned."""
    return sorted(tensors, key=lambda name: (-storage(tensors[name].dtype).itemsize, name))


def _length(tensor: Tensor | TensorInfo) -> int:
    return math.prod(tensor.shape) * storage(tensor.dtype).itemsize


def _header(tensors: Mapping[str, Tensor | TensorInfo], metadata: Mapping[str, str], sums: str) -> bytes:
    """A safetensors header without its digest: its length in 8 bytes, then JSON, padded to whole 8 bytes."""
    entries: dict[str, Any] = {"__metadata__": {**metadata, "sums": sums, "digest": NO_DIGEST}}
    end = 0
    for name in file_order(tensors):
        tensor, start = tensors[name], end
        end += _length(tensor)
        code, shape = CODES[tensor.dtype], list(tensor.shape)
        entries[name] = {"dtype": code, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % PREFIX)
    return len(text).to_bytes(PREFIX, "little") + text


def _digest_item(value: str) -> bytes:
    return f'"digest":"{value}"'.encode()


def _digest(header: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(header)


class Metadata(dict[str, str]):
    """A header's metadata. A missing key raises `SegmentDamaged`."""

    def __missing__(self, key: str) -> str:
        raise SegmentDamaged(f"it does not state its {key}")


class TensorInfo(NamedTuple):
    """A tensor's position in its file, in bytes, and the xxh3-64 of its bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int
    sum: str


class Container:
    """An open file. Raises `SegmentDamaged` if its header is damaged, `OSError` as `open` does."""

    def __init__(self, path: Location, descriptor: int | None = None) -> None:
        """`descriptor` is that of `path`, if it is open already; it is closed with this."""
        self.path = path
        try:
            self._descriptor = path.open() if descriptor is None else descriptor
        except NotRegular as error:
            raise SegmentDamaged(error.strerror) from error
        try:
            self.metadata, self.tensors = _read_header(self._descriptor)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def part(self, tensors: dict[str, TensorInfo], metadata: Mapping[str, str]) -> Container:
        """Some of the tensors under other names, as a file of their own: of use while this is open."""
        part = copy.copy(self)
        part.metadata, part.tensors = Metadata(metadata), tensors
        return part

    def facts(self) -> os.stat_result:
        """The file's size and times."""
        return os.fstat(self._descriptor)

    def read(self, name: str) -> Tensor:
        """A tensor, checked."""
        info = self._info(name)
        data = np.empty(info.length, np.uint8)
        self.read_into({name: [data.data] if info.length else []})
        return Tensor(info.dtype, info.shape, data)

    def read_into(self, buffers: Mapping[str, Buffers]) -> None:
        """Read and check tensors, each into buffers that together have its length."""
        for names in self.neighbours(buffers, BATCH_BYTES):
            batch: Batch = []
            count = 0
            for name in names:
                if count + len(buffers[name]) > MAX_BUFFERS and batch:
                    self._read_batch(batch)
                    batch, count = [], 0
                batch.append((name, buffers[name]))
                count += len(buffers[name])
            self._read_batch(batch)

    def neighbours(self, names: Iterable[str], size: int) -> Iterator[list[str]]:
        """Tensors in file order, in groups without gaps; a group is full once it has `size` bytes."""
        group: list[str] = []
        start = end = 0
        for name in sorted(names, key=lambda name: self._info(name).offset):
            info = self.tensors[name]
            if group and (info.offset != end or end - start >= size):
                yield group
                group = []
            if not group:
                start = info.offset
            group.append(name)
            end = info.offset + info.length
        if group:
            yield group

    def stream(self, names: Sequence[str]) -> TensorStream:
        """The bytes of tensors that are `neighbours`."""
        return TensorStream(self._descriptor, [(name, self._info(name)) for name in names])

    def chunks(self, name: str) -> Iterator[memoryview]:
        """A tensor's bytes a piece at a time, of use until the next one; checked with the last."""
        left, stream, buffer = (
            self._info(name).length,
            self.stream([name]),
            memoryview(bytearray(BATCH_BYTES)),
        )
        while left:
            piece = buffer[: min(left, BATCH_BYTES)]
            stream.readinto(piece)
            left -= len(piece)
            yield piece

    def _read_batch(self, batch: Batch) -> None:
        """Read neighbouring tensors at once, and check each while its bytes are in the CPU's cache."""
        buffers = [buffer for _, own in batch for buffer in own]
        _read_exactly(self._descriptor, buffers, self.tensors[batch[0][0]].offset)
        for name, own in batch:
            hasher = xxhash.xxh3_64()
            for buffer in own:
                hasher.update(buffer)
            _compare(name, hasher, self.tensors[name])

    def check(self) -> None:
        """Read and check everything. Raises `SegmentDamaged`."""
        for name in self.tensors:
            self.read(name)

    def _info(self, name: str) -> TensorInfo:
        if name not in self.tensors:
            raise SegmentDamaged(f"it has no {name}")
        return self.tensors[name]


class TensorStream:
    """The bytes of neighbouring tensors as one stream. A tensor is checked when its last byte is read."""

    def __init__(self, descriptor: int, tensors: Sequence[tuple[str, TensorInfo]]) -> None:
        self._descriptor = descriptor
        self._offset = tensors[0][1].offset
        self._tensors = list(reversed(tensors))
        self._hasher, self._left = xxhash.xxh3_64(), tensors[0][1].length

    def readinto(self, buffer: memoryview) -> None:
        """Fill `buffer` with the next bytes. Raises `SegmentDamaged` or `OSError`."""
        _read_exactly(self._descriptor, [buffer], self._offset)
        self._offset += len(buffer)
        done = 0
        while self._tensors:
            end = done + min(self._left, len(buffer) - done)
            self._hasher.update(buffer[done:end])
            self._left -= end - done
            done = end
            if self._left:
                return
            name, info = self._tensors.pop()
            _compare(name, self._hasher, info)
            if self._tensors:
                self._hasher, self._left = xxhash.xxh3_64(), self._tensors[-1][1].length


def _compare(name: str, hasher: xxhash.xxh3_64, info: TensorInfo) -> None:
    if hasher.hexdigest() != info.sum:
        raise SegmentDamaged(f"the bytes of its {name} do not match their checksum")


def _read_exactly(descriptor: int, buffers: Buffers, offset: int) -> None:
    """Fill `buffers` from `offset`. Raises `SegmentDamaged` at the file's end."""
    for first in range(0, len(buffers), MAX_BUFFERS):
        batch = buffers[first : first + MAX_BUFFERS]
        size = sum(map(len, batch))
        if os.preadv(descriptor, batch, offset) == size:
            offset += size
            continue
        for buffer in batch:  # one read returns at most 2 GiB
            done = 0
            while done < len(buffer):
                count = os.preadv(descriptor, [buffer[done:]], offset)
                if count == 0:
                    raise SegmentDamaged("it ends too early")
                done, offset = done + count, offset + count


def _read_header(descriptor: int) -> tuple[Metadata, dict[str, TensorInfo]]:
    """An open file's metadata and tensors. Raises `SegmentDamaged` and `OSError`."""
    try:
        # By its descriptor, because the path may lead elsewhere by now. Not memory-mapped: if the file
        # shrank, the process would crash.
        with safe_open(f"/dev/fd/{descriptor}", "np", backend="pread") as file:
            metadata = Metadata(file.metadata() or {})
            slices = {name: file.get_slice(name) for name in file.offset_keys()}
    except SafetensorError as error:
        raise SegmentDamaged(f"its header cannot be read ({error})") from error
    prefix = _read_bytes(descriptor, PREFIX, 0)
    header = prefix + _read_bytes(descriptor, int.from_bytes(prefix, "little"), PREFIX)
    digest, sums = metadata.pop("digest", ""), metadata.pop("sums", "")
    if _digest(header.replace(_digest_item(digest), _digest_item(NO_DIGEST), 1)) != digest:
        raise SegmentDamaged("its header does not match its digest")
    # The library keeps only the last of equal names. Each string has two quotes, so a duplicate shows as too
    # many quotes.
    texts = header.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in header else header
    if texts.count(b'"') != 2 * (1 + 2 * (2 + len(metadata)) + 5 * len(slices)):
        raise SegmentDamaged("its header contains a name twice")
    if len(sums) != SUM_DIGITS * len(slices):
        raise SegmentDamaged("its checksums do not belong to its tensors")
    sum_of = {name: sums[at * SUM_DIGITS : (at + 1) * SUM_DIGITS] for at, name in enumerate(sorted(slices))}
    tensors, offset = {}, len(header)
    # In order of offset: the library has checked that the tensors fill the file without gaps.
    for name, part in slices.items():
        dtype, size = ITEMS.get(part.get_dtype(), ("", 0))
        shape = tuple(part.get_shape())
        length = math.prod(shape, start=size)
        if not length and (not dtype or max(shape) > MAX_DIMENSION):
            raise SegmentDamaged(f"MLX cannot hold an array like its {name}")
        tensors[name] = TensorInfo(dtype, shape, offset, length, sum_of[name])
        offset += length
    return metadata, tensors


def _read_bytes(descriptor: int, length: int, offset: int) -> bytes:
    data = bytearray(length)
    if length:
        _read_exactly(descriptor, [memoryview(data)], offset)
    return bytes(data)
