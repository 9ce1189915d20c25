"""Reads the rows of a path of segments from several files as if they were one.

Rows lie along the last axis but one. They are read straight into their destination, and checksums
are computed from the bytes that arrived there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chatcli.errors import SegmentDamaged
from chatcli.store.segments.catalog import TOKENS
from chatcli.store.segments.container import Array, Buffers, Container, storage

# No prefill takes longer: a file that says so, or says no number, is not believed.
MAX_SECONDS = 1e7


@dataclass(frozen=True)
class Piece:
    """The first `count` tokens of an open file that holds `length`."""

    file: Container
    count: int
    length: int


class Rows:
    """Open files that hold the rows of consecutive tokens, in order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Raises `SegmentDamaged` if the files do not hold the same kind of rows."""
        self.pieces = list(pieces)
        self.count = sum(piece.count for piece in pieces)
        for piece in self.pieces:
            _check_alike(self.pieces[0], piece)

    @property
    def seconds(self) -> float:
        """What prefilling these tokens took."""
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

    def copy(self, into: Mapping[str, Array]) -> None:
        """Read the rows into these arrays: all of them, or the newest if an array has too few rows.

        In an array with more rows they come first. Each file is read from its beginning to its end.
        Raises `SegmentDamaged` or `OSError`; what `into` holds then is undefined.
        """
        if not all(array.flags.c_contiguous for array in into.values()):
            raise ValueError("rows are copied into contiguous arrays")
        for name, array in into.items():
            self._copy_cut(name, array)
        whole = {name: array for name, array in into.items() if array.shape[-2] >= self.count}
        start = 0
        for piece in self.pieces:
            if piece.count == piece.length:
                end = start + piece.count
                piece.file.read_into({name: _blocks(array, start, end) for name, array in whole.items()})
            start += piece.count

    def _copy_cut(self, name: str, into: Array) -> None:
        """Copy from the pieces that are needed in part, each read whole and then cut."""
        start = min(into.shape[-2] - self.count, 0)
        for piece in self.pieces:
            end = start + piece.count
            is_cut = piece.count < piece.length or into.shape[-2] < self.count
            if is_cut and end > 0:
                stored = piece.file.read(name).array()
                part = stored[..., max(-start, 0) : piece.count, :]
                into[..., max(start, 0) : end, :] = part.view(into.dtype)
            start = end

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


def _blocks(array: Array, start: int, end: int) -> Buffers:
    """The rows `start` to `end` of a contiguous array as its bytes, head by head."""
    row = array.shape[-1] * array.itemsize
    if not row or start == end:
        return []
    data, head = array.reshape(-1).view(np.uint8).data, array.shape[-2] * row
    return [data[at + start * row : at + end * row] for at in range(0, len(data), head)]


def _check_alike(first: Piece, piece: Piece) -> None:
    tensors, others = piece.file.tensors, first.file.tensors
    if tensors.keys() != others.keys():
        raise SegmentDamaged("it holds other arrays than the segments before it")
    for name in tensors.keys() - {TOKENS}:
        shape, other = tensors[name].shape, others[name].shape
        same_type = tensors[name].dtype == others[name].dtype
        # All dimensions but the number of rows.
        same_shape = (*shape[:-2], *shape[-1:]) == (*other[:-2], *other[-1:])
        if not (same_type and same_shape and len(shape) > 1 and shape[-2] == piece.length):
            raise SegmentDamaged(f"its {name} does not fit the segments before it")


def joined(rows: Rows, name: str) -> Array:
    """One array with all of its rows, in memory."""
    array = np.empty(rows.shape(name), storage(rows.dtype(name)))
    rows.copy({name: array})
    return array
