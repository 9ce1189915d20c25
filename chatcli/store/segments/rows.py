"""Reads the rows of a path of segments from several files as if they were one.

Rows lie along the second-to-last axis. They are read straight into their destination, and checksums are
computed from the bytes there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chatcli.errors import SegmentDamaged
from chatcli.store.segments.catalog import TOKENS
from chatcli.store.segments.container import Array, Buffers, Container, storage

# No prefill takes longer: larger values in files, or values that are not numbers, are ignored.
MAX_SECONDS = 1e7


class Block(NamedTuple):
    """The `rows` to read of a file's tensor, and where they begin in the joined array."""

    name: str
    rows: slice
    at: int


@dataclass(frozen=True)
class Piece:
    """`count` tokens of an open file with `length` tokens, after the first `skip`."""

    file: Container
    count: int
    length: int
    skip: int = 0

    def has_only(self, block: Block) -> bool:
        """Whether the block is all of its tensor."""
        return block.rows == slice(0, self.length)

    def cut(self, block: Block) -> Array:
        """The block's rows, from a tensor that is read and checked whole."""
        stored = self.file.read(block.name)
        return stored.array()[..., block.rows, :]


class Rows:
    """Open files with the rows of consecutive tokens, in order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Raises `SegmentDamaged` if the files do not contain the same kind of rows."""
        self.pieces = list(pieces)
        self.count = sum(piece.count for piece in pieces)
        for piece in self.pieces:
            tensors, others = piece.file.tensors, self.pieces[0].file.tensors
            if tensors.keys() != others.keys():
                raise SegmentDamaged("its arrays differ from those of the segments before it")
            for name in tensors.keys() - {TOKENS}:
                shape, other = tensors[name].shape, others[name].shape
                same_type = tensors[name].dtype == others[name].dtype
                # All dimensions except the number of rows.
                same_shape = (*shape[:-2], *shape[-1:]) == (*other[:-2], *other[-1:])
                if not (same_type and same_shape and len(shape) > 1 and shape[-2] == piece.length):
                    raise SegmentDamaged(f"its {name} does not fit the segments before it")

    @property
    def seconds(self) -> float:
        """How long prefilling these tokens took."""
        return sum(prefill_seconds(piece.file.metadata) * piece.count / piece.length for piece in self.pieces)

    @property
    def names(self) -> list[str]:
        """The names of the arrays, `L.keys` and `L.values` of each leaf L."""
        return sorted(self.pieces[0].file.tensors.keys() - {TOKENS}) if self.pieces else []

    def dtype(self, name: str) -> str:
        return self.pieces[0].file.tensors[name].dtype

    def shape(self, name: str, length: int | None = None) -> tuple[int, ...]:
        """The joined array's shape, with a row for each token or with `length` rows."""
        *before, _, last = self.pieces[0].file.tensors[name].shape
        return (*before, self.count if length is None else length, last)

    def blocks(self, lengths: Mapping[str, int]) -> Iterator[tuple[Piece, list[Block]]]:
        """The rows of each file for arrays of `lengths` rows: all of them, or the newest that fit.

        In a longer array they come first.
        """
        start = 0
        for piece in self.pieces:
            blocks = []
            for name, length in lengths.items():
                at = start + min(length - self.count, 0)
                if at + piece.count > 0:
                    wanted = slice(piece.skip + max(-at, 0), piece.skip + piece.count)
                    blocks.append(Block(name, wanted, max(at, 0)))
            yield piece, blocks
            start += piece.count

    def copy(self, into: Mapping[str, Array]) -> None:
        """Read the rows into these arrays at the places given by `blocks`, each file from start to end.

        Raises `SegmentDamaged` or `OSError`, and then leaves undefined contents in `into`.
        """
        if not all(array.flags.c_contiguous for array in into.values()):
            raise ValueError("rows are copied into contiguous arrays")
        for piece, blocks in self.blocks({name: array.shape[-2] for name, array in into.items()}):
            whole: dict[str, Buffers] = {}
            for block in blocks:
                array = into[block.name]
                if piece.has_only(block):
                    whole[block.name] = _buffers(array, block.at, block.at + piece.length)
                else:
                    part = piece.cut(block).view(array.dtype)
                    array[..., block.at : block.at + part.shape[-2], :] = part
            piece.file.read_into(whole)

    def close(self) -> None:
        for piece in self.pieces:
            piece.file.close()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prefill_seconds(metadata: Mapping[str, str]) -> float:
    """The prefill seconds in a file's metadata; 0 if there are none."""
    try:
        seconds = float(metadata["seconds"])
    except (SegmentDamaged, ValueError):
        return 0.0
    return seconds if 0 <= seconds <= MAX_SECONDS else 0.0


def _buffers(array: Array, start: int, end: int) -> Buffers:
    """The bytes of rows `start` to `end` of a contiguous array, head by head."""
    row = array.shape[-1] * array.itemsize
    if not row or start == end:
        return []
    data, head = array.reshape(-1).view(np.uint8).data, array.shape[-2] * row
    return [data[at + start * row : at + end * row] for at in range(0, len(data), head)]


def joined(rows: Rows, name: str) -> Array:
    """One array with all of its rows, in memory."""
    array = np.empty(rows.shape(name), storage(rows.dtype(name)))
    rows.copy({name: array})
    return array
