"""Reads rows of segments from disk into MLX arrays, in the fastest way for the device.

If CPU and device share memory (Metal, a CPU), rows are read straight into an array's own memory. On CUDA that
would move the array to managed memory, whose pages then return to the device one fault at a time. So there
several threads read rows in pieces that `mx.load` copies to the device, where they are joined.
"""

from __future__ import annotations

import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from operator import itemgetter
from queue import SimpleQueue
from typing import Any

import mlx.core as mx
import numpy as np

from chatcli.errors import SegmentDamaged
from chatcli.store.segments.container import Array, Tensor, storage
from chatcli.store.segments.rows import Block, Piece, Rows

# Reading less than this is faster than starting threads.
PARALLEL_BYTES = 16 << 20
READER_THREADS = 2
ARRAYS_PER_JOB = 8
# Allocating memory takes longer than filling it, so MLX does it on two threads.
STREAMS = 2
# For copying to a CUDA device: what a thread reads at once should still be in the CPU's cache when it is
# copied, and arrays are joined once all their parts have arrived, a few at a time.
COPY_THREADS = 8
COPY_BYTES = 8 << 20
GROUP_BYTES = 64 << 20
# Streams belong to the thread that created them.
_thread_local = threading.local()

Arrays = dict[str, mx.array]


def read(rows: Rows, lengths: Mapping[str, int | None], *, copies: bool | None = None) -> Arrays:
    """The arrays named in `lengths`, each of shape (batch, heads, length, ...).

    Length None takes all rows on disk. A smaller one takes the newest, a larger one leaves room after them.
    `copies` None: as suits the device. Raises `SegmentDamaged` or `OSError`.
    """
    whole = {name: rows.count if length is None else length for name, length in lengths.items()}
    if not (copies_to_device() if copies is None else copies):
        return _read_into_place(rows, whole)
    copier = _Copier(rows, whole)
    with ThreadPoolExecutor(COPY_THREADS, "chatcli-reader") as readers:
        try:
            for _ in range(min(COPY_THREADS, len(copier.jobs))):
                readers.submit(copier.work)
            return copier.arrays()
        finally:
            copier.jobs.clear()


def copies_to_device() -> bool:
    """Whether the device has its own memory, to which data must be copied."""
    return bool(mx.cuda.is_available())


def to_device(tensor: Tensor) -> mx.array:
    """A tensor as an array in the device's own memory."""
    name = f"uint{8 * storage(tensor.dtype).itemsize}"
    if not copies_to_device():
        flat = mx.array(tensor.raw().view(name))
    else:
        flat = _copied(tensor.raw(), storage(tensor.dtype).itemsize, mx.default_stream(mx.gpu))
    return flat.view(mlx_dtype(tensor.dtype)).reshape(tensor.shape)


def mlx_dtype(name: str) -> Any:
    """MLX's dtype for its name in segment files, which is the same except for `bool`."""
    return getattr(mx, "bool_" if name == "bool" else name)


# Shared memory


def _read_into_place(rows: Rows, lengths: Mapping[str, int]) -> Arrays:
    if not hasattr(_thread_local, "streams"):
        _thread_local.streams = [mx.new_stream(mx.cpu) for _ in range(STREAMS)]
    # NumPy has no bfloat16, so the arrays are unsigned integers of the same size until they are filled.
    arrays = {
        name: mx.zeros(
            rows.shape(name, length),
            getattr(mx, f"uint{8 * storage(rows.dtype(name)).itemsize}"),
            stream=stream,
        )
        for (name, length), stream in zip(lengths.items(), cycle(_thread_local.streams), strict=False)
    }
    mx.async_eval(arrays)  # type: ignore[no-untyped-call]
    if sum(array.nbytes for array in arrays.values()) < PARALLEL_BYTES:
        rows.copy({name: _writable_view(array) for name, array in arrays.items()})
    else:
        # The first arrays are read while MLX still allocates the last.
        with ThreadPoolExecutor(READER_THREADS) as readers:
            jobs, names = [], list(arrays)
            for first in range(0, len(names), ARRAYS_PER_JOB):
                views = {name: _writable_view(arrays[name]) for name in names[first : first + ARRAYS_PER_JOB]}
                jobs.append(readers.submit(rows.copy, views))
            for job in jobs:
                if job.exception() is not None:
                    readers.shutdown(cancel_futures=True)
                job.result()
    return {name: array.view(mlx_dtype(rows.dtype(name))) for name, array in arrays.items()}


def _writable_view(array: mx.array) -> Any:
    """A NumPy view of an array's memory, to be written before the array is read."""
    mx.eval(array)
    return np.array(array, copy=False)


# Devices with their own memory


@dataclass(frozen=True)
class _Job:
    """Blocks to copy: one part of a tensor, or whole tensors that are neighbours in their file.

    All belong to arrays of one `group`.
    """

    group: int
    piece: Piece
    blocks: Sequence[Block]


class _Copier:
    """Threads copy `jobs` to the device, each on its own stream; `arrays` joins them."""

    def __init__(self, rows: Rows, lengths: Mapping[str, int]) -> None:
        self._rows, self._lengths = rows, lengths
        self._groups = self._grouped()
        self.jobs = deque(self._all_jobs())
        self._left = Counter(job.group for job in self.jobs)
        self._results: SimpleQueue[tuple[_Job, list[mx.array]] | BaseException] = SimpleQueue()

    def _grouped(self) -> list[list[str]]:
        """The arrays' names in file order, in groups of about equal, sufficient size."""
        groups: list[list[str]] = []
        left, last_size = 0, 0
        tensors = [piece.file.tensors for piece in self._rows.pieces]
        for name in sorted(self._lengths, key=lambda name: tensors[0][name].offset) if tensors else ():
            size = storage(self._rows.dtype(name)).itemsize
            if left <= 0 or size != last_size:
                groups.append([])
                left, last_size = GROUP_BYTES, size
            groups[-1].append(name)
            left -= sum(file[name].length for file in tensors)
        return groups

    def _all_jobs(self) -> Iterator[_Job]:
        for number, names in enumerate(self._groups):
            for piece, blocks in self._rows.blocks({name: self._lengths[name] for name in names}):
                whole = {block.name: block for block in blocks if piece.has_only(block)}
                for neighbours in piece.file.neighbours(whole, COPY_BYTES):
                    yield _Job(number, piece, [whole[name] for name in neighbours])
                yield from (_Job(number, piece, [block]) for block in blocks if not piece.has_only(block))

    def work(self) -> None:
        """Run jobs until there are none."""
        try:
            stream = mx.new_stream(mx.default_device())
            while True:
                try:
                    job = self.jobs.popleft()
                except IndexError:
                    return
                self._results.put((job, self._copy(job, stream)))
        except BaseException as error:
            # The thread that waits for the result raises it.
            self._results.put(error)
        finally:
            mx.clear_streams()

    def _copy(self, job: _Job, stream: mx.Stream) -> list[mx.array]:
        """The job's bytes on the device, in order, as unsigned integers of the tensors' size."""
        first, tensors = job.blocks[0], job.piece.file.tensors
        size = storage(tensors[first.name].dtype).itemsize
        if not job.piece.has_only(first):
            block = job.piece.cut(first)
            return [_copied(np.ascontiguousarray(block).reshape(-1), size, stream)]
        source = job.piece.file.stream([block.name for block in job.blocks])
        left = sum(tensors[block.name].length for block in job.blocks)
        parts = []
        while left:
            count = min(left, COPY_BYTES)
            parts.append(_NumberStream(count // size, size, source.readinto).load(stream))
            left -= count
        return parts

    def arrays(self) -> Arrays:
        """All arrays, once they have arrived."""
        arrays: Arrays = {name: self._empty(name, self._lengths[name]) for name in self._lengths}
        parts: dict[str, list[tuple[int, mx.array]]] = {name: [] for name in self._lengths}
        while self._left:
            result = self._results.get()
            if isinstance(result, BaseException):
                raise result
            job, flat = result
            for block, part in zip(job.blocks, self._cut(job, flat), strict=True):
                parts[block.name].append((block.at, part))
            self._left[job.group] -= 1
            if not self._left[job.group]:
                del self._left[job.group]
                names = self._groups[job.group]
                arrays |= {name: self._joined(name, parts.pop(name)) for name in names}
                # Evaluated now, so that the parts are freed.
                mx.async_eval([arrays[name] for name in names])  # type: ignore[no-untyped-call]
            del result, flat, part
        mx.eval(arrays)
        return arrays

    def _cut(self, job: _Job, copied: list[mx.array]) -> Iterator[mx.array]:
        """The rows of each of the job's blocks."""
        flat = copied[0] if len(copied) == 1 else mx.concatenate(copied) if copied else None
        start = 0
        for block in job.blocks:
            empty = self._empty(block.name, block.rows.stop - block.rows.start)
            if flat is None or not empty.size:
                yield empty
                continue
            yield flat[start : start + empty.size].view(empty.dtype).reshape(empty.shape)
            start += empty.size

    def _joined(self, name: str, parts: list[tuple[int, mx.array]]) -> mx.array:
        """The parts in order, followed by room for later rows."""
        rows = [part for _, part in sorted(parts, key=itemgetter(0))]
        room = self._lengths[name] - sum(part.shape[-2] for part in rows)
        return mx.concatenate([*rows, self._empty(name, room)], axis=-2)

    def _empty(self, name: str, length: int) -> mx.array:
        return mx.zeros(self._rows.shape(name, length), mlx_dtype(self._rows.dtype(name)))


def _copied(numbers: Array, size: int, stream: mx.Stream) -> mx.array:
    """Numbers in memory as a flat array of unsigned integers of `size` bytes on the stream's device."""
    source = numbers.view(np.uint8).data
    at = 0

    def readinto(buffer: memoryview) -> None:
        nonlocal at
        buffer[:] = source[at : at + len(buffer)]
        at += len(buffer)

    return _NumberStream(len(source) // size, size, readinto).load(stream)


class _NumberStream:
    """A file in NumPy's format for `mx.load`: a header, then unsigned integers from `readinto`.

    `mx.load` copies to the device itself, without managed memory.
    """

    closed = False

    def __init__(self, count: int, size: int, readinto: Callable[[memoryview], None]) -> None:
        text = f"{{'descr': '<u{size}', 'fortran_order': False, 'shape': ({count},)}}\n".encode()
        self._header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
        self._position = 0
        self._fill = readinto
        self._error: SegmentDamaged | OSError | None = None

    def load(self, stream: mx.Stream) -> mx.array:
        """The numbers on the device of `stream`. Raises what `readinto` raises."""
        array: mx.array = mx.load(self, "npy", stream=stream)  # type: ignore[assignment, arg-type]
        if self._error is not None:
            raise self._error
        return array

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> None:
        self._position = offset if whence == 0 else self._position + offset

    def readinto(self, buffer: memoryview) -> int:
        """Called by MLX, first for the header. Must not raise, because MLX is evaluating."""
        start, self._position = self._position, self._position + len(buffer)
        if start < len(self._header):
            buffer[:] = self._header[start : self._position]
            return len(buffer)
        try:
            self._fill(buffer.cast("B"))
        except (SegmentDamaged, OSError) as error:
            self._error = error
        return len(buffer)
