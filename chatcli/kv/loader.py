"""Reads rows from disk straight to where MLX has them; refuses to know caches."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mlx.core as mx
import numpy as np

from chatcli.store.segments.container import storage
from chatcli.store.segments.rows import Rows as StoredRows

# Reading less than this takes less time than starting threads for it (bytes).
LARGE = 16 << 20
READERS = 2
# Arrays that one thread reads together.
GROUP = 8
# A stream belongs to the thread that made it.
_own = threading.local()


def read(rows: StoredRows, lengths: Mapping[str, int | None]) -> dict[str, mx.array]:
    """Arrays read from disk, straight to where MLX has them."""
    blank = {
        name: mx.zeros(rows.shape(name, length), _unsigned(rows.dtype(name)), stream=stream)
        for (name, length), stream in zip(lengths.items(), _alternating(len(lengths)), strict=True)
    }
    mx.async_eval(blank)  # type: ignore[no-untyped-call]
    if sum(array.nbytes for array in blank.values()) < LARGE:
        rows.copy({name: _shared(array) for name, array in blank.items()})
    else:
        _read_by_threads(rows, blank)
    if mx.cuda.is_available():
        # What a CPU wrote moves to the GPU when it is first read: now, not in a turn.
        mx.eval([mx.max(array) for array in blank.values()])
    return {name: array.view(mlx_dtype(rows.dtype(name))) for name, array in blank.items()}


def _read_by_threads(rows: StoredRows, blank: Mapping[str, mx.array]) -> None:
    """The first arrays are read while the last are still being made."""
    with ThreadPoolExecutor(READERS) as readers:
        running, names = [], list(blank)
        for first in range(0, len(names), GROUP):
            views = {name: _shared(blank[name]) for name in names[first : first + GROUP]}
            running.append(readers.submit(rows.copy, views))
    for one in running:
        one.result()


def mlx_dtype(name: str) -> Any:
    """MLX's type of that name in a file."""
    return getattr(mx, "bool_" if name == "bool" else name)


def _unsigned(dtype: str) -> Any:
    """A type of the same size that numpy knows too."""
    return getattr(mx, f"uint{8 * storage(dtype).itemsize}")


def _shared(array: mx.array) -> Any:
    """A numpy view of an array's own memory, to write into before anyone else has seen it."""
    mx.eval(array)
    return np.array(array, copy=False)


def _alternating(count: int) -> Iterator[Any]:
    streams = _streams()
    return (streams[number % len(streams)] for number in range(count))


def _streams() -> list[Any]:
    """Two threads of MLX's that prepare memory, which takes longer than filling it."""
    if not hasattr(_own, "streams"):
        _own.streams = [mx.new_stream(mx.cpu) for _ in range(2)]
    return list(_own.streams)
