"""Both ways to read rows into arrays: into shared memory, and by copies to a device's own memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.kv import loader
from chatcli.store.segments.catalog import rows_files
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id

ENDS = [3, 10, 11, 30]
TYPES = {
    "0.keys": "bfloat16",
    "0.values": "float16",
    "1.keys.0": "uint32",
    "1.keys.1": "bool",
    "2.keys": "complex64",
}
PATH = TokenPath.cut(root_id("f" * 32), range(31), ENDS)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SegmentStore]:
    """Rows of every size of number, copied in many pieces."""
    monkeypatch.setattr(loader, "COPY_BYTES", 64)
    monkeypatch.setattr(loader, "GROUP_BYTES", 1000)
    store = SegmentStore(tmp_path, "f" * 32)
    generator = np.random.default_rng(1)
    for depth, segment in enumerate(PATH, start=1):
        shape = (1, 2, segment.end - segment.start, 4)
        rows = {}
        for name, dtype in TYPES.items():
            size = loader.storage(dtype).itemsize
            data = generator.integers(0, 2, 8 * size * shape[2], np.uint8)
            rows[name] = Tensor(dtype, shape, data)
        store.put(Increment(PATH.upto(depth), rows, {}, "{}", 0.0))
    store.flush()
    yield store
    store.close()


def read(store: SegmentStore, path: TokenPath, length: int | None, *, copies: bool) -> dict[str, bytes]:
    with store.rows(path) as rows:
        arrays = loader.read(rows, dict.fromkeys(TYPES, length), copies=copies)
        count = rows.count
    assert TYPES == {
        name: str(array.dtype).removeprefix("mlx.core.").rstrip("_") for name, array in arrays.items()
    }
    assert {length or count} == {array.shape[2] for array in arrays.values()}
    return {name: bytes(mx.contiguous(array[..., :count, :])) for name, array in arrays.items()}


@pytest.mark.parametrize("depth", [1, 3, 4])
@pytest.mark.parametrize("length", [None, 64, 2])
def test_both_ways_read_the_same(store: SegmentStore, depth: int, length: int | None) -> None:
    path = PATH.upto(depth)
    assert read(store, path, length, copies=False) == read(store, path, length, copies=True)


@pytest.mark.parametrize("copies", [False, True])
def test_a_damaged_byte_is_told(store: SegmentStore, copies: bool) -> None:
    file = max(rows_files(store.location), key=lambda path: path.stat().st_size)
    data = bytearray(file.path.read_bytes())
    data[-70] ^= 1
    file.path.write_bytes(data)
    with pytest.raises(SegmentDamaged, match="checksum"):
        read(store, PATH, None, copies=copies)
