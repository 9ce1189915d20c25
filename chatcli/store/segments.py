"""Checkpoints on disk as a tree of immutable segments; refuses to know conversations and MLX.

The names and the layout are FORMAT.md's. Reading never trusts a file: whatever is wrong with one
is a `SegmentDamaged` with the reason, which the caller treats as a miss.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
import xxhash

from chatcli.errors import SegmentDamaged
from chatcli.prefix import Segment, segment_id
from chatcli.store import FORMAT_VERSION, files

Kind = Literal["rows", "state"]
# State is nothing without rows, so it is the first to go.
KINDS: tuple[Kind, ...] = ("state", "rows")
TOKENS = "tokens"
SAFETENSORS_TO_SHORT = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16",
    "float16": "F16", "bfloat16": "BF16", "uint32": "U32", "int32": "I32", "float32": "F32",
    "uint64": "U64", "int64": "I64", "float64": "F64",
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """An array as bytes: `dtype` is numpy's name or "bfloat16", `data` is contiguous."""

    dtype: str
    shape: tuple[int, ...]
    data: Any

    def raw(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes, not copied; there may be none."""
        return np.frombuffer(self.data, np.uint8) if 0 not in self.shape else np.empty(0, np.uint8)

    def tokens(self) -> list[int]:
        """Token ids. Raises `SegmentDamaged` if this is anything else."""
        if self.dtype != "int32" or len(self.shape) != 1:
            raise SegmentDamaged("its tokens are not numbers of tokens")
        return [int(token) for token in self.raw().view("<i4")]

    @classmethod
    def of_tokens(cls, tokens: Sequence[int]) -> Tensor:
        """Token ids as int32, shape (n,)."""
        values = np.asarray(tokens, dtype="<i4")
        return cls("int32", values.shape, values)


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Usage:
    """What one model's segments take on disk (bytes)."""

    fingerprint: str
    segments: int
    rows_bytes: int
    states: int
    state_bytes: int


def pack(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """One safetensors file with its own digest in the metadata."""
    buffers = {name: tensor.raw() for name, tensor in tensors.items()}
    signed = {**metadata, "digest": digest(tensors, metadata)}
    specs = {
        name: safetensors.TensorSpec(
            dtype=tensor.dtype,
            shape=list(tensor.shape),
            data_ptr=buffers[name].ctypes.data,
            data_len=buffers[name].nbytes,
        )
        for name, tensor in tensors.items()
    }
    return bytes(safetensors.serialize(specs, signed))


def digest(tensors: Tensors, metadata: Mapping[str, str]) -> str:
    """xxh3-128 over every metadata item and every tensor: name, type, shape and bytes."""
    hasher = xxhash.xxh3_128()
    for key in sorted(metadata):
        hasher.update(f"{key}\0{metadata[key]}\0".encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        hasher.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        hasher.update(tensor.raw().data)
    return hasher.hexdigest()


def unpack(data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of a file that `pack` made. Raises `SegmentDamaged`."""
    names = {short: long for long, short in SAFETENSORS_TO_SHORT.items()}
    try:
        parts: list[tuple[str, Any]] = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = dict(header["__metadata__"])
        tensors = {
            name: Tensor(names[part["dtype"]], tuple(part["shape"]), part["data"])
            for name, part in parts
        }
        claimed = metadata.pop("digest")
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise SegmentDamaged(f"not a segment file ({type(error).__name__})") from error
    if digest(tensors, metadata) != claimed:
        raise SegmentDamaged("its bytes do not match its digest")
    return tensors, metadata


class SegmentStore:
    """The segments of one model in one folder. Writes happen on a thread of its own."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.folder = folder / "kv" / fingerprint
        self.scratch = self.folder / "tmp"
        self.problem: str | None = None
        self._told = False
        self._writer = ThreadPoolExecutor(1, "chatcli-writer")
        self._pending: list[Future[None]] = []
        with contextlib.suppress(OSError):
            files.sweep(self.scratch)

    def path(self, identifier: str, kind: Kind) -> Path:
        return segment_path(self.folder, identifier, kind)

    def has(self, identifier: str, kind: Kind) -> bool:
        return self.path(identifier, kind).exists()

    def put(
        self, segment: Segment, tokens: Sequence[int], rows: Tensors, state: Tensors, scalars: str
    ) -> int:
        """Queue a segment for writing, rows before state. Returns the bytes that it will take.

        `tokens` are the segment's own. A segment that is there already costs nothing.
        """
        with_tokens = {TOKENS: Tensor.of_tokens(tokens), **rows}
        size = self._queue(segment, "rows", with_tokens, "")
        if state:
            size += self._queue(segment, "state", state, scalars)
        return size

    def _queue(self, segment: Segment, kind: Kind, tensors: Tensors, scalars: str) -> int:
        if self.problem or self.has(segment.id, kind):
            return 0
        data = pack(tensors, self._metadata(segment, kind, scalars))
        self._pending = [job for job in self._pending if not job.done()]
        self._pending.append(self._writer.submit(self._write, segment, kind, data))
        return len(data)

    def _metadata(self, segment: Segment, kind: Kind, scalars: str) -> dict[str, str]:
        return {
            "format": "chatcli-segment",
            "version": str(FORMAT_VERSION),
            "kind": kind,
            "fingerprint": self.fingerprint,
            "id": segment.id,
            "parent": segment.parent,
            "start": str(segment.start),
            "end": str(segment.end),
            "scalars": scalars,
            "created": str(int(time.time())),
        }

    def _write(self, segment: Segment, kind: Kind, data: bytes) -> None:
        if self.problem:
            return
        try:
            files.write_once(self.path(segment.id, kind), data, self.scratch)
            if kind == "rows":
                files.append_line(self._links(segment.parent), segment.id)
        except OSError as error:
            self.problem = f"checkpoints are off, {self.folder} cannot be written: {error.strerror}"

    def _links(self, parent: str) -> Path:
        return self.folder / parent[:2] / f"{parent}.next"

    def children(self, parent: str, start: int) -> list[tuple[Segment, list[int]]]:
        """The segments that continue `parent`, and their tokens. Not checked: `get` does that."""
        try:
            named = self._links(parent).read_text("ascii").split()
        except (OSError, UnicodeDecodeError):
            return []
        found = ((name, self.tokens(name)) for name in dict.fromkeys(named) if len(name) == 64)
        return [
            (Segment(name, parent, start, start + len(tokens)), tokens)
            for name, tokens in found
            if tokens
        ]

    def tokens(self, identifier: str) -> list[int]:
        """A segment's tokens without the rest of its file; none if there is no such file."""
        try:
            with safetensors.safe_open(self.path(identifier, "rows"), "np") as file:
                return [int(token) for token in file.get_tensor(TOKENS)]
        except (OSError, safetensors.SafetensorError, ValueError, TypeError, OverflowError):
            return []

    def flush(self) -> None:
        """Wait until everything that was put is on disk, or `problem` says why it is not."""
        pending, self._pending = self._pending, []
        for job in pending:
            job.result()

    def take_problem(self) -> str | None:
        """Why nothing more is written, the first time that it is asked for."""
        problem, self._told = (None if self._told else self.problem), bool(self.problem)
        return problem

    def close(self) -> None:
        self.flush()
        self._writer.shutdown()

    def get(
        self, segment: Segment, tokens: Sequence[int], kind: Kind
    ) -> tuple[dict[str, Tensor], str]:
        """A segment's tensors and scalars, checked against what it must be.

        A damaged file is set aside, so that the next turn writes it anew.
        Raises `SegmentDamaged` with the reason, also for a file that is not there.
        """
        path = self.path(segment.id, kind)
        try:
            return self._checked(path, segment, tokens, kind)
        except FileNotFoundError as error:
            raise SegmentDamaged("evicted or deleted") from error
        except OSError as error:
            raise SegmentDamaged(f"unreadable: {error.strerror}") from error
        except SegmentDamaged as error:
            _set_aside(path)
            raise SegmentDamaged(f"damaged: {error}") from error

    def _checked(
        self, path: Path, segment: Segment, tokens: Sequence[int], kind: Kind
    ) -> tuple[dict[str, Tensor], str]:
        tensors, metadata = unpack(path.read_bytes())
        expected = self._metadata(segment, kind, metadata.get("scalars", ""))
        for key in expected.keys() - {"created"}:
            if metadata.get(key) != expected[key]:
                raise SegmentDamaged(f"its {key} belongs to another segment")
        if kind == "rows":
            stored = tensors.pop(TOKENS, None)
            own = [] if stored is None else stored.tokens()
            if own != list(tokens) or segment_id(segment.parent, own) != segment.id:
                raise SegmentDamaged("its tokens are not the conversation's")
        return tensors, metadata["scalars"]

    def set_aside(self, chain: Sequence[Segment]) -> None:
        """Move these segments' files out of the way: they are whole, but do not fit the model."""
        for segment in chain:
            for kind in KINDS:
                _set_aside(self.path(segment.id, kind))


def segment_path(folder: Path, identifier: str, kind: Kind) -> Path:
    """Where a segment's file is in a model's folder."""
    return folder / identifier[:2] / f"{identifier}.{kind}.safetensors"


def remove(sessions: Path, fingerprint: str, identifiers: set[str]) -> int:
    """Delete one model's segments, state before rows. Returns the bytes that came free."""
    freed = 0
    for identifier in identifiers:
        for kind in KINDS:
            path = segment_path(sessions / "kv" / fingerprint, identifier, kind)
            with contextlib.suppress(FileNotFoundError):
                size = path.stat().st_size
                path.unlink()
                freed += size
    return freed


def _set_aside(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".damaged"))


def usage(folder: Path) -> list[Usage]:
    """What each model's segments take in a sessions folder. Raises `OSError`."""
    try:
        found = sorted((folder / "kv").iterdir())
    except FileNotFoundError:
        return []
    return [_usage_of(path) for path in found if path.is_dir()]


def _usage_of(folder: Path) -> Usage:
    rows = list(_sizes(folder, "rows"))
    states = list(_sizes(folder, "state"))
    return Usage(folder.name, len(rows), sum(rows), len(states), sum(states))


def _sizes(folder: Path, kind: Kind) -> Iterator[int]:
    for path in folder.glob(f"??/*.{kind}.safetensors"):
        with contextlib.suppress(FileNotFoundError):
            yield path.stat().st_size


def clear(folder: Path) -> int:
    """Delete every checkpoint in a sessions folder. Returns the bytes that came free."""
    with files.explained(f"delete the checkpoints in {folder}"):
        freed = sum(use.rows_bytes + use.state_bytes for use in usage(folder))
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder / "kv")
    return freed
