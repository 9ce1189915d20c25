"""Finds the files of a path of segments by their names, which are the only index.

A rows file holds one or several consecutive segments. Its name has a key (its parent and first tokens), its
first segment and its last. Files with the same key are neighbours in a folder: one listing finds files that
hold a whole path, a part of it, or another path with the same beginning.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.store.segments.container import Container
from chatcli.store.segments.token_path import TokenPath, common_prefix, segment_id

Kind = Literal["rows", "state"]
TOKENS = "tokens"
# Hexadecimal digits of ids and keys in names of rows files.
NAME_DIGITS = 16
# A segment's key depends on this many leading tokens.
KEY_TOKENS = 64
# At most this many files of other paths are opened to look for a part of this one.
MAX_CANDIDATES = 32
SUFFIX = ".safetensors"
DAMAGED = ".damaged"
ROWS_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})\.rows\.safetensors")
VERSION_1_NAME = re.compile(r"[0-9a-f]{64}\.(rows\.safetensors|next)")
# A file that `segments.set_aside` has renamed.
DAMAGED_NAME = re.compile(
    r"([0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}\.rows|[0-9a-f]{64}(\.rows|\.state)?)\.damaged"
)
SHARD_NAME = re.compile("[0-9a-f]{2}")
STATE_NAME = re.compile(r"([0-9a-f]{64})\.state\.safetensors")


def model_folder(sessions: Path | Location, fingerprint: str) -> Location:
    """The folder of one model's segments."""
    return Location.of(sessions) / "kv" / fingerprint


def path_key(path: TokenPath) -> str:
    """The key in the names of all files that continue the path's root with its first tokens."""
    return key(path.root, path.tokens_of(path[0]))


def key(parent: str, tokens: Sequence[int]) -> str:
    """`path_key` of a path that begins with a segment of these tokens."""
    first = tokens[:KEY_TOKENS]
    digest = hashlib.sha256(bytes.fromhex(parent))
    digest.update(struct.pack(f"<{len(first)}q", *first))
    return digest.hexdigest()[:NAME_DIGITS]


def rows_path(folder: Location, path: TokenPath) -> Location:
    """The file of these segments' rows."""
    name = rows_name(path_key(path), path[0].id, path[-1].id)
    return folder / name[:2] / name


def rows_name(key: str, first: str, last: str) -> str:
    """The name of a rows file from its key and the ids of its first and last segment."""
    return f"{key}-{first[:NAME_DIGITS]}-{last[:NAME_DIGITS]}.rows{SUFFIX}"


def state_path(folder: Location, identifier: str) -> Location:
    """The file of the state at the end of a segment."""
    return folder / identifier[:2] / state_name(identifier)


def state_name(identifier: str) -> str:
    return f"{identifier}.state{SUFFIX}"


@dataclass(frozen=True)
class RowsFile:
    """A file with the rows of the next `segments` segments of a path. `whole`: it has no others."""

    path: Location
    segments: int
    whole: bool


def locate(folder: Location, path: TokenPath) -> list[RowsFile]:
    """The files that hold a path's rows, from its first segment until one is missing."""
    located: list[RowsFile] = []
    depth = 0
    depths = {segment.id[:NAME_DIGITS]: number for number, segment in enumerate(path, start=1)}
    while depth < len(path):
        rest = path.after(depth)
        same_start = [
            (file, depths.get(last, 0) - depth)
            for file, first, last in _same_key(folder, rest)
            if first == rest[0].id[:NAME_DIGITS]
        ]
        candidates = [RowsFile(file, segments, True) for file, segments in same_start if segments > 0]
        # Hundreds of other paths may pass through the same segment; one file is enough.
        others = [file for file, segments in same_start if segments <= 0]
        for file in others[: MAX_CANDIDATES if candidates else 8 * MAX_CANDIDATES]:
            if count := _shared_segments(file, rest):
                candidates.append(RowsFile(file, count, False))
        longest = max(candidates, key=lambda file: (file.segments, file.whole), default=None)
        if longest is None:
            break
        located.append(longest)
        depth += longest.segments
    return located


def covered(located: Iterable[RowsFile]) -> int:
    """How many leading segments of a path these files hold."""
    return sum(file.segments for file in located)


def _same_key(folder: Location, path: TokenPath) -> Iterator[tuple[Location, str, str]]:
    """The rows files with a path's key, each with the ids of its first and last segment."""
    wanted = path_key(path)
    for name in _names(folder / wanted[:2]):
        if name.startswith(wanted) and (parts := ROWS_NAME.fullmatch(name)):
            yield folder / wanted[:2] / name, parts[2], parts[3]


def _names(folder: Location) -> Iterable[str]:
    with contextlib.suppress(OSError):  # an unreadable folder has no files
        return folder.names()
    return ()


def _shared_segments(rows_file: Location, path: TokenPath) -> int:
    """How many leading segments of `path` a file holds; 0 if it cannot be read."""
    try:
        with Container(rows_file) as file:
            ends, tokens = segment_ends(file), stored_tokens(file)
    except (OSError, SegmentDamaged):
        return 0
    start, count = path[0].start, 0
    for segment, end in zip(path, ends, strict=False):
        if segment.end != end or tokens[segment.start - start : end - start] != path.tokens_of(segment):
            break
        count += 1
    return count


@dataclass(frozen=True)
class Sharing:
    """A file of another path whose tokens, after the first `skip`, match the next `count` tokens of a path.

    Its first segment comes after `parent`, at token `start` of the prompt.
    """

    path: Location
    parent: str
    start: int
    skip: int
    count: int


def sharing_tokens(folder: Location, path: TokenPath, depth: int = 0) -> Iterator[Sharing]:
    """Files that continue as a path does after `depth` segments, up to the first boundary of either.

    After it the prefill chunks differ.
    """
    rest = path.after(depth)
    own = np.asarray(rest.first_tokens)
    others = [other for other, first, _ in _same_key(folder, rest) if first != rest[0].id[:NAME_DIGITS]]
    starts = [(other, rest.root, rest[0].start) for other in others[:MAX_CANDIDATES]]
    # If they diverge before a boundary, the file with the shared tokens continues with the other path.
    ends_at_cut = depth > 0 and path[depth - 1].ends_at_cut
    located = locate(folder, path.upto(depth)) if ends_at_cut else []
    if located and not located[-1].whole:
        first = path[depth - located[-1].segments]
        starts.append((located[-1].path, first.parent, first.start))
    for other, parent, start in starts:
        with contextlib.suppress(OSError, SegmentDamaged), Container(other) as file:
            ends, cuts = segment_ends(file), cuts_of(file)
            end = next((end for end in ends if end > rest[0].start and end not in cuts), ends[-1])
            skip = rest[0].start - start
            stored = np.asarray(stored_tokens(file)[skip : end - start])
            shared = min(len(stored), len(own))
            differing = np.flatnonzero(stored[:shared] != own[:shared])
            count = int(differing[0]) if differing.size else shared
            yield Sharing(other, parent, start, skip, count)


def segment_ends(file: Container) -> list[int]:
    """Where the segments of a rows file end, in tokens of the prompt. Raises `SegmentDamaged`."""
    try:
        start, ends = int(file.metadata["start"]), json.loads(file.metadata["ends"])
        increasing = all(type(end) is int and end > before for before, end in pairwise([start, *ends]))
        if ends and start >= 0 and increasing:
            return list(ends)
    except (ValueError, TypeError, RecursionError) as error:
        raise SegmentDamaged("it does not say where its segments end") from error
    raise SegmentDamaged("it does not say where its segments end")


def cuts_of(file: Container) -> list[int]:
    """The ends of segments in a rows file that are cuts, not boundaries.

    They decide what is evicted first; reading does not need them.
    """
    try:
        cuts = json.loads(file.metadata.get("cuts", "[]"))
        return [end for end in cuts if type(end) is int] if isinstance(cuts, list) else []
    except (ValueError, RecursionError):
        return []


def ends_metadata(ends: Sequence[int], cuts: Sequence[int]) -> dict[str, str]:
    """A rows file's metadata about where its segments end, and which ends are `cuts`."""
    return {"ends": json.dumps(list(ends)), **({"cuts": json.dumps(list(cuts))} if cuts else {})}


def stored_tokens(file: Container) -> list[int]:
    """The token ids of a rows file. Raises `SegmentDamaged`."""
    tensor = file.read(TOKENS)
    if tensor.dtype != "int32" or len(tensor.shape) != 1:
        raise SegmentDamaged("its tokens are not token ids")
    tokens: list[int] = tensor.array().tolist()
    if len(tokens) != segment_ends(file)[-1] - int(file.metadata["start"]):
        raise SegmentDamaged("its tokens are not as many as it says")
    return tokens


def segment_ids(file: Container) -> list[str]:
    """The full ids of a rows file's segments, computed from its tokens. Raises `SegmentDamaged`."""
    tokens, ends, start = stored_tokens(file), segment_ends(file), int(file.metadata["start"])
    ids = [file.metadata["parent"]]
    try:
        for begin, end in pairwise([start, *ends]):
            ids.append(segment_id(ids[-1], tokens[begin - start : end - start]))
    except ValueError as error:
        raise SegmentDamaged("its parent is not an id") from error
    return ids[1:]


def tokens_of(folder: Location, ids: Sequence[str]) -> list[int]:
    """The tokens up to the last of these segments that is on disk together with all segments before it.

    Parents come before their children in `ids`, which may belong to several diverging paths.
    """
    paths = list(rows_files(folder))
    prefixes: dict[str, list[int]] = {}
    last: list[int] = []
    left = list(ids)
    while left:
        candidates = (
            path for path in paths if path.name[NAME_DIGITS + 1 :].startswith(left[0][:NAME_DIGITS])
        )
        stored = max((_tokens_in(path, left) for path in candidates), default=(0, "", 0, []))
        count, parent, start, tokens = stored
        prefix = prefixes.get(parent, [])
        if count and len(prefix) == start:
            last = prefixes[left[count - 1]] = prefix + tokens
        left = left[max(count, 1) :]
    return last


def _tokens_in(path: Location, ids: Sequence[str]) -> tuple[int, str, int, list[int]]:
    """How many of these segments a file begins with; its parent, its start, and their tokens."""
    try:
        with Container(path) as file:
            count = common_prefix(segment_ids(file), ids)
            start = int(file.metadata["start"])
            length = segment_ends(file)[count - 1] - start if count else 0
            return count, file.metadata["parent"], start, stored_tokens(file)[:length]
    except (OSError, SegmentDamaged):
        return 0, "", 0, []


def last_id(name: str) -> str | None:
    """The first digits of the id of a file's last segment, from its name; None if the name is not a
    segment's.

    Empty for names of segment version 1 (`ID.rows.safetensors`, `ID.next`), which no segment needs.
    """
    if rows := ROWS_NAME.fullmatch(name):
        return rows[3]
    if STATE_NAME.fullmatch(name):
        return name[:NAME_DIGITS]
    return "" if VERSION_1_NAME.fullmatch(name) else None


def rows_files(folder: Location) -> Iterator[Location]:
    """The rows files of a model."""
    return (path for path in cache_files(folder) if ROWS_NAME.fullmatch(path.name))


def cache_files(folder: Location) -> Iterator[Location]:
    """Every file of a model except what is being written."""
    for shard in sorted(_names(folder)):
        if SHARD_NAME.fullmatch(shard):
            yield from (folder / shard / name for name in _names(folder / shard))
