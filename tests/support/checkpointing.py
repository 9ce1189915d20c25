"""Checkpoints for tests of the store: random rows and states derived from the segment's id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.store.segments.catalog import rows_path, state_path
from chatcli.store.segments.container import Container, Tensor, pack
from chatcli.store.segments.rows import Rows, joined
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import Segment, TokenPath, root_id

FINGERPRINT = "f" * 32
Raw = dict[str, tuple[str, tuple[int, ...], bytes]]


def prompt_of(length: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(0, 1 << 18, length).tolist()


def path_of(prompt: Sequence[int], ends: Iterable[int], fingerprint: str = FINGERPRINT) -> TokenPath:
    return TokenPath.cut(root_id(fingerprint), prompt, ends)


def rows_of(segment: Segment) -> dict[str, Tensor]:
    """Rows of two layers in two types; the values of the second layer have no columns."""
    noise = np.random.default_rng(int(segment.id[:12], 16))
    values = noise.standard_normal((1, 2, segment.end - segment.start, 3)).astype("float32")
    half = (values.view("uint32") >> 16).astype("uint16")
    return {
        "0.keys": Tensor.of(half, "bfloat16"),
        "0.values": Tensor.of(values),
        "2.keys": Tensor.of(values[:, :1]),
        "2.values": Tensor.of(values[..., :0]),
    }


def state_of(segment: Segment) -> dict[str, Tensor]:
    noise = np.random.default_rng(int(segment.id[12:24], 16))
    return {"1.0.0": Tensor.of(noise.standard_normal((1, 3, 4)).astype("float16"))}


def checkpoint(path: TokenPath, *, state: bool = False) -> Increment:
    last = path[-1]
    return Increment(path, rows_of(last), state_of(last) if state else {}, f'{{"x": {last.end}}}', 0.25)


def write(store: SegmentStore, path: TokenPath, *, state: bool = False) -> int:
    """Put the last segment of a path and wait until it is on disk. Returns the bytes that `put` reports."""
    size = store.put(checkpoint(path, state=state))
    store.flush()
    return size


def write_all(
    store: SegmentStore,
    path: TokenPath,
    first: int = 0,
    *,
    state: bool = False,
) -> None:
    """Put the segments of a path from index `first` on, one after the other."""
    for depth in range(first + 1, len(path) + 1):
        write(store, path.upto(depth), state=state)


def raw(tensors: dict[str, Tensor]) -> Raw:
    return {name: (part.dtype, tuple(part.shape), part.raw().tobytes()) for name, part in tensors.items()}


def read_rows(rows: Rows) -> Raw:
    """All rows, each tensor read to its last byte."""
    arrays = {name: joined(rows, name) for name in rows.names}
    return {name: (rows.dtype(name), a.shape, a.tobytes()) for name, a in arrays.items()}


def read(store: SegmentStore, path: TokenPath) -> Raw:
    """The rows of a path as the store gives them. Raises `SegmentDamaged`."""
    with store.rows(path) as rows:
        assert (path[-1].end if path else 0) == rows.count
        return read_rows(rows)


def expected(path: TokenPath) -> Raw:
    """The rows of a path as they were put, joined along the tokens."""
    parts = [rows_of(segment) for segment in path]
    arrays: Raw = {}
    for name, first in parts[0].items():
        array = np.concatenate([part[name].array() for part in parts], axis=-2)
        arrays[name] = (first.dtype, array.shape, array.tobytes())
    return arrays


def rows_files(store: SegmentStore) -> list[Path]:
    return sorted(store.folder.glob("??/*.rows.safetensors"))


def state_files(store: SegmentStore) -> list[Path]:
    return sorted(store.folder.glob("??/*.state.safetensors"))


def rewrite(path: Path, changes: dict[str, str | None], **tensors: Tensor | None) -> None:
    """Write a file again with other metadata or tensors (None removes one) and a valid digest."""
    with Container(Location.of_file(path)) as file:
        parts: dict[str, Tensor | None] = {name: file.read(name) for name in file.tensors}
        metadata: dict[str, str | None] = {**file.metadata, **changes}
    remaining = {name: part for name, part in {**parts, **tensors}.items() if part is not None}
    path.write_bytes(pack(remaining, {key: value for key, value in metadata.items() if value is not None}))


# One path of two segments


PROMPT = [5, 6, 7, 8, 9, 10, 11]
TOKEN_PATH = path_of(PROMPT, [4, 6])
ONE_SEGMENT = TOKEN_PATH.upto(1)
FIRST, SECOND = TOKEN_PATH


def rows_at(store: SegmentStore, number: int = 0) -> Path:
    return rows_path(store.location, TOKEN_PATH.upto(number + 1).after(number)).path


def state_at(store: SegmentStore, number: int = 0) -> Path:
    return state_path(store.location, TOKEN_PATH[number].id).path


def damage_of_rows(store: SegmentStore, path: TokenPath = ONE_SEGMENT) -> str:
    with pytest.raises(SegmentDamaged) as caught:
        store.rows(path)
    return str(caught.value)


def damage_of_state(store: SegmentStore) -> str:
    with pytest.raises(SegmentDamaged) as caught:
        store.state(FIRST)
    return str(caught.value)


def depth(store: SegmentStore, *, stateful: bool = False) -> int:
    return store.depth(TOKEN_PATH, stateful=stateful)
