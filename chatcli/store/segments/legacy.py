"""Reads the segments of format 1 and writes them anew as the present one; refuses to write format 1.

Format 1 kept one file a segment, named by its id alone, with one digest over all of it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import xxhash

from chatcli import files
from chatcli.errors import SegmentDamaged
from chatcli.store.segments.catalog import DAMAGED, SUFFIX, rows_path, state_path
from chatcli.store.segments.container import DTYPES, PREFIX, SEGMENT_VERSION, Tensor, pack
from chatcli.store.segments.prefix import Segment

VERSION = "1"


def upgrade(folder: Path, chain: Sequence[Segment], prompt: Sequence[int]) -> bool:
    """Bring the leading segments of a path into the present format. Says whether there were any."""
    count = 0
    for segment in chain:
        if not _upgrade_one(folder, segment, prompt):
            break
        count += 1
    return count > 0


def old_path(folder: Path, segment: Segment) -> Path:
    return folder / segment.id[:2] / f"{segment.id}.rows{SUFFIX}"


def _upgrade_one(folder: Path, segment: Segment, prompt: Sequence[int]) -> bool:
    old = old_path(folder, segment)
    try:
        data = old.read_bytes()
        # A state was written in another way then: it is computed again.
        state_path(folder, segment.id).unlink(missing_ok=True)
        tensors, metadata = unpack(data)
        told = {
            **metadata,
            "version": SEGMENT_VERSION,
            "seconds": "0",
            "ends": json.dumps([segment.end]),
        }
        told.pop("scalars", None)
        files.write_once(rows_path(folder, [segment], prompt), pack(tensors, told), folder / "tmp")
        old.unlink(missing_ok=True)
    except SegmentDamaged:
        with contextlib.suppress(OSError):
            old.replace(old.with_suffix(DAMAGED))
    except OSError:
        return False
    return True


def unpack(data: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and metadata of a file of format 1. Raises `SegmentDamaged`."""
    try:
        parts: list[tuple[str, Any]] = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        header = json.loads(data[PREFIX : PREFIX + int.from_bytes(data[:PREFIX], "little")])
        metadata = dict(header["__metadata__"])
        tensors = {
            name: Tensor(DTYPES[part["dtype"]], tuple(part["shape"]), np.frombuffer(part["data"], np.uint8))
            for name, part in parts
        }
        claimed = metadata.pop("digest")
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SegmentDamaged(f"not a segment file ({type(error).__name__})") from error
    if digest(tensors, metadata) != claimed:
        raise SegmentDamaged("its bytes do not match its digest")
    return tensors, metadata


def digest(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    """Format 1's xxh3-128 over every metadata item and every tensor: name, type, shape and bytes."""
    hasher = xxhash.xxh3_128()
    for key in sorted(metadata):
        hasher.update(f"{key}\0{metadata[key]}\0".encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        hasher.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        hasher.update(tensor.raw().data)
    return hasher.hexdigest()
