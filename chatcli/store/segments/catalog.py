"""Finds the files of a path of segments: their names are the only index; refuses to read tensors.

A rows file holds one segment or several in a row, so its name tells how it begins (its parent and
first tokens), its first segment and its last. Files that begin alike are neighbours in a folder:
one listing finds what holds a whole path, a part of it, or another path's like beginning.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Literal

import numpy as np

from chatcli.errors import SegmentDamaged
from chatcli.store.segments.container import Container
from chatcli.store.segments.token_path import TokenPath, segment_id

Kind = Literal["rows", "state"]
TOKENS = "tokens"
SHORT = 16
BEGINNING = 64
CANDIDATES = 32
SUFFIX = ".safetensors"
DAMAGED = ".damaged"
ROWS_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})\.rows\.safetensors")
OLD_NAME = re.compile(r"[0-9a-f]{64}\.(rows\.safetensors|next)")
SHARD_NAME = re.compile("[0-9a-f]{2}")
STATE_NAME = re.compile(r"([0-9a-f]{64})\.state\.safetensors")


def model_folder(sessions: Path, fingerprint: str) -> Path:
    """Where one model's segments are."""
    return sessions / "kv" / fingerprint


def beginning(path: TokenPath) -> str:
    """What the names of all files begin with that continue the path's root with its first tokens."""
    return key(path.root, path.tokens_of(path[0]))


def key(parent: str, tokens: Sequence[int]) -> str:
    """`beginning`, of a segment of these tokens."""
    first = tokens[:BEGINNING]
    digest = hashlib.sha256(bytes.fromhex(parent))
    digest.update(struct.pack(f"<{len(first)}q", *first))
    return digest.hexdigest()[:SHORT]


def rows_path(folder: Path, path: TokenPath) -> Path:
    """The file of these segments' rows."""
    name = rows_name(beginning(path), path[0].id, path[-1].id)
    return folder / name[:2] / name


def rows_name(begun: str, first: str, last: str) -> str:
    """The name of a rows file from its beginning and the ids of its first and last segment."""
    return f"{begun}-{first[:SHORT]}-{last[:SHORT]}.rows{SUFFIX}"


def state_path(folder: Path, identifier: str) -> Path:
    """The file of the state at the end of a segment."""
    return folder / identifier[:2] / state_name(identifier)


def state_name(identifier: str) -> str:
    return f"{identifier}.state{SUFFIX}"


@dataclass(frozen=True)
class Found:
    """A rows file that holds the next `segments` of a path. `whole`: and nothing more."""

    path: Path
    segments: int
    whole: bool


def locate(folder: Path, path: TokenPath) -> list[Found]:
    """The files that hold a path's rows, from its first segment on, as far as there are any."""
    found: list[Found] = []
    depth = 0
    while depth < len(path):
        best = max(
            _holding(folder, path.after(depth)),
            key=lambda one: (one.segments, one.whole),
            default=None,
        )
        if best is None:
            break
        found.append(best)
        depth += best.segments
    return found


def covered(found: Iterable[Found]) -> int:
    """How many leading segments of a path these files hold."""
    return sum(one.segments for one in found)


def _holding(folder: Path, path: TokenPath) -> Iterator[Found]:
    """The files that begin with the first of these segments."""
    ends = {segment.id[:SHORT]: count for count, segment in enumerate(path, start=1)}
    alike = [
        (file, last) for file, first, last in _beginning_like(folder, path) if first == path[0].id[:SHORT]
    ]
    whole = [Found(file, ends[last], True) for file, last in alike if last in ends]
    yield from whole
    # Other paths through the same beginning: there may be hundreds of them, and one will do.
    others = [file for file, last in alike if last not in ends]
    for file in others[: CANDIDATES if whole else 8 * CANDIDATES]:
        if count := _shared_segments(file, path):
            yield Found(file, count, False)


def _beginning_like(folder: Path, path: TokenPath) -> Iterator[tuple[Path, str, str]]:
    """The rows files that begin like a path does, with their first and last segment's id."""
    begun = beginning(path)
    for name in _names(folder / begun[:2]):
        if name.startswith(begun) and (parts := ROWS_NAME.fullmatch(name)):
            yield folder / begun[:2] / name, parts[2], parts[3]


def _names(folder: Path) -> Iterable[str]:
    with contextlib.suppress(OSError):  # what cannot be read is not there
        return os.listdir(folder)  # noqa: PTH208 - names are all that is needed
    return ()


def _shared_segments(name: Path, path: TokenPath) -> int:
    """How many leading segments of `path` a file holds. None if it cannot be read: not found."""
    try:
        with Container(name) as file:
            ends, tokens = segment_ends(file), stored_tokens(file)
    except (OSError, SegmentDamaged):
        return 0
    start, count = path[0].start, 0
    for segment, end in zip(path, ends, strict=False):
        if segment.end != end or tokens[segment.start - start : end - start] != path.tokens_of(segment):
            break
        count += 1
    return count


def like_beginnings(folder: Path, path: TokenPath) -> Iterator[tuple[Path, int]]:
    """Files of other paths whose first segment begins as this path's does, and the tokens shared."""
    segment = path[0]
    wanted = np.asarray(path.tokens_of(segment))
    others = [name for name, first, _ in _beginning_like(folder, path) if first != segment.id[:SHORT]]
    for name in others[:CANDIDATES]:
        with contextlib.suppress(OSError, SegmentDamaged), Container(name) as file:
            length = segment_ends(file)[0] - segment.start
            own = np.asarray(stored_tokens(file)[:length])
            shared = min(len(own), len(wanted))
            differing = np.flatnonzero(own[:shared] != wanted[:shared])
            yield name, int(differing[0]) if differing.size else shared


def segment_ends(file: Container) -> list[int]:
    """Where the segments of a rows file end, in tokens of the prompt. Raises `SegmentDamaged`."""
    try:
        start, ends = int(file.metadata["start"]), json.loads(file.metadata["ends"])
        places = [start, *ends]
        if (
            len(places) > 1
            and start >= 0
            and all(type(end) is int and end > before for before, end in pairwise(places))
        ):
            return list(ends)
    except (ValueError, TypeError, RecursionError) as error:
        raise SegmentDamaged("it does not say where its segments end") from error
    raise SegmentDamaged("it does not say where its segments end")


def stored_tokens(file: Container) -> list[int]:
    """The token ids of a rows file. Raises `SegmentDamaged`."""
    tensor = file.read(TOKENS)
    if tensor.dtype != "int32" or len(tensor.shape) != 1:
        raise SegmentDamaged("its tokens are not numbers of tokens")
    tokens: list[int] = tensor.array().tolist()
    if len(tokens) != segment_ends(file)[-1] - int(file.metadata["start"]):
        raise SegmentDamaged("its tokens are not as many as it says")
    return tokens


def first_tokens(file: Container) -> list[int]:
    """The tokens of a rows file's first segment. Raises `SegmentDamaged`."""
    return stored_tokens(file)[: segment_ends(file)[0] - int(file.metadata["start"])]


def segment_ids(file: Container) -> list[str]:
    """The full ids of a rows file's segments, computed from its tokens. Raises `SegmentDamaged`."""
    tokens, ends, start = stored_tokens(file), segment_ends(file), int(file.metadata["start"])
    parent, before, found = file.metadata["parent"], start, []
    try:
        for end in ends:
            parent = segment_id(parent, tokens[before - start : end - start])
            before = end
            found.append(parent)
    except ValueError as error:
        raise SegmentDamaged("its parent is not an id") from error
    return found


def tokens_of(folder: Path, names: Sequence[str]) -> list[int]:
    """The tokens of a path of segments from their ids alone, as far as they are on disk."""
    files = {path.name: path for path in rows_files(folder)}
    tokens: list[int] = []
    left = list(names)
    while left:
        known = max(
            (
                _named(path, left)
                for name, path in files.items()
                if name[SHORT + 1 :].startswith(left[0][:SHORT])
            ),
            default=(0, []),
        )
        if not known[0]:
            break
        tokens, left = tokens + known[1], left[known[0] :]
    return tokens


def _named(path: Path, names: Sequence[str]) -> tuple[int, list[int]]:
    """How many of these segments a file holds, from its first on, and their tokens."""
    try:
        with Container(path) as file:
            pairs = zip(segment_ids(file), names, strict=False)
            count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            length = segment_ends(file)[count - 1] - int(file.metadata["start"]) if count else 0
            return count, stored_tokens(file)[:length]
    except (OSError, SegmentDamaged):
        return 0, []


def last_of(path: Path) -> str | None:
    """The first digits of the id of a file's last segment, from its name; None if it is no segment's.

    Empty for names of segment version 1 (`ID.rows.safetensors`, `ID.next`), which no segment needs.
    """
    if rows := ROWS_NAME.fullmatch(path.name):
        return rows[3]
    if STATE_NAME.fullmatch(path.name):
        return path.name[:SHORT]
    return "" if OLD_NAME.fullmatch(path.name) else None


def rows_files(folder: Path) -> Iterator[Path]:
    """Every rows file of a model."""
    return (path for path in cache_files(folder) if ROWS_NAME.fullmatch(path.name))


def cache_files(folder: Path) -> Iterator[Path]:
    """Every file of a model except what is being written."""
    for shard in sorted(_names(folder)):
        if SHARD_NAME.fullmatch(shard):
            yield from (folder / shard / name for name in _names(folder / shard))
