"""Reads the rows of segments from disk straight into the memory of MLX arrays."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import mlx.core as mx
import numpy as np

from chatcli.store.segments.container import storage
from chatcli.store.segments.rows import Rows

# Reading less than this takes less time than starting threads for it.
PARALLEL_BYTES = 16 << 20
READER_THREADS = 2
ARRAYS_PER_JOB = 8
# Preparing memory takes longer than filling it, so MLX does it on two threads.
STREAMS = 2
# Streams belong to the thread that made them.
_thread_local = threading.local()


def read(rows: Rows, lengths: Mapping[str, int | None]) -> dict[str, mx.array]:
    """The arrays named in `lengths`, each of shape (batch, heads, length, ...).

    Length None is as many rows as are on disk. A smaller one takes the newest, a larger one leaves
    room behind them. Raises `SegmentDamaged` or `OSError`.
    """
    if not hasattr(_thread_local, "streams"):
        _thread_local.streams = [mx.new_stream(mx.cpu) for _ in range(STREAMS)]
    # numpy has no bfloat16: the arrays are unsigned integers of the same size until they are filled.
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
        # The first arrays are read while MLX still prepares the last.
        with ThreadPoolExecutor(READER_THREADS) as readers:
            jobs, names = [], list(arrays)
            for first in range(0, len(names), ARRAYS_PER_JOB):
                views = {name: _writable_view(arrays[name]) for name in names[first : first + ARRAYS_PER_JOB]}
                jobs.append(readers.submit(rows.copy, views))
        for job in jobs:
            job.result()
    if mx.cuda.is_available():
        # What the CPU wrote moves to the GPU when it is first read: now, not in a turn.
        mx.eval([mx.max(array) for array in arrays.values()])
    return {name: array.view(mlx_dtype(rows.dtype(name))) for name, array in arrays.items()}


def mlx_dtype(name: str) -> Any:
    """MLX's dtype for the name that a segment file has for it, which is MLX's own but for `bool`."""
    return getattr(mx, "bool_" if name == "bool" else name)


def _writable_view(array: mx.array) -> Any:
    """A numpy view of an array's own memory, to be written before anyone else reads the array."""
    mx.eval(array)
    return np.array(array, copy=False)
