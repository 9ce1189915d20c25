"""The rows of a path of segments, joined from their files as they are read; refuses to know MLX.

Rows lie along the last axis but one. They are copied straight to where they are wanted, and no
array is believed before its checksum has been computed from the very bytes that were copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from chatcli.errors import SegmentDamaged
from chatcli.store.segments.catalog import TOKENS
from chatcli.store.segments.container import Array, Buffers, Container, TensorInfo, storage

Job = Callable[[], None]


@dataclass(frozen=True)
class Piece:
    """The first `count` tokens of an open file that holds `length`."""

    file: Container
    count: int
    length: int


class Rows:
    """Open files that hold the rows of neighbouring tokens, in order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Raises `SegmentDamaged` if the files do not hold the same kind of rows."""
        self.pieces = list(pieces)
        self.count = sum(piece.count for piece in pieces)
        for piece in self.pieces:
            _check_alike(self.pieces[0], piece)

    @property
    def seconds(self) -> float:
        """What prefilling these tokens took when it was done."""
        return sum(prefill_seconds(piece.file.metadata) * piece.count / piece.length for piece in self.pieces)

    @property
    def names(self) -> list[str]:
        """The arrays that there are, `L.keys` and `L.values` of each leaf L."""
        return sorted(self.pieces[0].file.tensors.keys() - {TOKENS}) if self.pieces else []

    def dtype(self, name: str) -> str:
        return self.pieces[0].file.tensors[name].dtype

    def shape(self, name: str, length: int | None = None) -> tuple[int, ...]:
        """The joined array's shape, with a row for each token or with `length` rows."""
        *before, _, last = self.pieces[0].file.tensors[name].shape
        return (*before, self.count if length is None else length, last)

    def copy(self, into: Mapping[str, Array]) -> None:
        """Arrays into others: all of their rows, first where there is room for more, or the newest that fit.

        Each file is read from its beginning to its end. Raises `SegmentDamaged` or `OSError`; what
        is in `into` then is anything.
        """
        if not all(array.flags.c_contiguous for array in into.values()):
            raise ValueError("rows are copied into contiguous arrays")
        jobs = [job for name, array in into.items() for job in self._parts_of(name, array)]
        whole = {name: array for name, array in into.items() if array.shape[-2] >= self.count}
        start = 0
        for piece in self.pieces:
            if piece.count == piece.length:
                end = start + piece.count
                views = {name: _blocks(array, start, end) for name, array in whole.items()}
                jobs += [partial(piece.file.read_batch, batch) for batch in piece.file.batches(views)]
            start += piece.count
        for job in jobs:
            job()

    def _parts_of(self, name: str, into: Array) -> Iterator[Job]:
        """The pieces of which not everything is wanted, each read whole and then cut."""
        start = min(into.shape[-2] - self.count, 0)
        for piece in self.pieces:
            end = start + piece.count
            cut = piece.count < piece.length or into.shape[-2] < self.count
            if cut and end > 0:
                part = into[..., max(start, 0) : end, :]
                yield partial(_copy_part, piece, name, part, max(-start, 0))
            start = end

    def close(self) -> None:
        for piece in self.pieces:
            piece.file.close()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prefill_seconds(told: Mapping[str, str]) -> float:
    """What a file's metadata says that its tokens took; 0 where it says nothing of use."""
    try:
        return float(told["seconds"])
    except (SegmentDamaged, ValueError):
        return 0.0


def _copy_part(piece: Piece, name: str, into: Array, skipped: int) -> None:
    """A piece's rows without the first `skipped`."""
    whole = piece.file.read(name).array()
    into[...] = whole[..., skipped : piece.count, :].view(into.dtype)


def _blocks(array: Array, start: int, end: int) -> Buffers:
    """The rows `start` to `end` of a contiguous array as its bytes, head by head."""
    row = array.shape[-1] * array.itemsize
    if not row or start == end:
        return []
    data, head = array.reshape(-1).view(np.uint8).data, array.shape[-2] * row
    return [data[at + start * row : at + end * row] for at in range(0, len(data), head)]


def _check_alike(first: Piece, piece: Piece) -> None:
    ours, theirs = first.file.tensors, piece.file.tensors
    if ours.keys() != theirs.keys():
        raise SegmentDamaged("it holds other arrays than the segments before it")
    for name in theirs.keys() - {TOKENS}:
        one, other = ours[name], theirs[name]
        if _kind(one) != _kind(other) or len(other.shape) < 2 or other.shape[-2] != piece.length:
            raise SegmentDamaged(f"its {name} does not fit the segments before it")


def _kind(part: TensorInfo) -> tuple[str, tuple[int, ...]]:
    return part.dtype, (*part.shape[:-2], *part.shape[-1:])


def joined(rows: Rows, name: str) -> Array:
    """One array with all of its rows, in memory."""
    made = np.empty(rows.shape(name), storage(rows.dtype(name)))
    rows.copy({name: made})
    return made
