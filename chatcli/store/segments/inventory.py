"""Lists and verifies checkpoint files: what each contains, and what is wrong with it."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chatcli import files
from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.store.segments import catalog
from chatcli.store.segments.catalog import (
    DAMAGED,
    NAME_DIGITS,
    ROWS_NAME,
    SHARD_NAME,
    STATE_NAME,
    SUFFIX,
    Kind,
)
from chatcli.store.segments.container import SEGMENT_FORMAT, SEGMENT_VERSION, Container

KINDS: tuple[Kind, ...] = ("rows", "state")
# The folder for files being written.
TEMPORARY = "tmp"
MODEL_NAME = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Usage:
    """One model's disk use in bytes. `damaged_bytes` are of files that were set aside."""

    fingerprint: str
    rows_files: int
    segments: int
    rows_bytes: int
    states: int
    state_bytes: int
    damaged_bytes: int

    @property
    def bytes(self) -> int:
        return self.rows_bytes + self.state_bytes + self.damaged_bytes


@dataclass(frozen=True)
class Item:
    """A file of rows or of a state, and the ids of its segments.

    `used` is when it was last used, in seconds since the epoch. For rows, `parent` is the segment before the
    first, `start` the position where the first begins, and `cuts` the ids of segments that end at cuts.
    """

    path: Location
    size: int
    used: float
    ids: tuple[str, ...]
    parent: str = ""
    start: int = 0
    cuts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Problem:
    """A file whose contents do not match its name."""

    path: Location
    reason: str


def models(sessions: Path | Location) -> list[Location]:
    """Each model's folder. Raises `OSError`."""
    kv = Location.of(sessions) / "kv"
    try:
        return sorted(
            kv / entry.name
            for entry in kv.scan()
            if MODEL_NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        if kv.parent.is_folder():
            return []  # `kv` is not a folder
        raise


def entries(folder: Location) -> Iterator[tuple[Location, os.DirEntry[str]]]:
    """The regular files of one model that are not being written. Raises `OSError`."""
    for shard in shards(folder):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for entry in shard.scan():
                if entry.is_file(follow_symlinks=False):
                    yield shard / entry.name, entry


def shards(folder: Location) -> list[Location]:
    """The folders of one model's files. Raises `OSError`."""
    try:
        return sorted(folder / name for name in folder.names() if SHARD_NAME.fullmatch(name))
    except FileNotFoundError:
        return []


def usage(sessions: Path | Location) -> list[Usage]:
    """The disk use of each model's checkpoints in a sessions folder. Raises `OSError`."""
    usages = []
    for folder in models(sessions):
        sizes: dict[str, list[int]] = {f".rows{SUFFIX}": [], f".state{SUFFIX}": [], DAMAGED: []}
        segments = 0
        for path, entry in entries(folder):
            if (ending := next((known for known in sizes if entry.name.endswith(known)), None)) is None:
                continue
            with contextlib.suppress(FileNotFoundError):
                sizes[ending].append(entry.stat(follow_symlinks=False).st_size)
            if not holds_several(entry.name):
                segments += ending == f".rows{SUFFIX}"
                continue
            with contextlib.suppress(OSError, SegmentDamaged), Container(path) as file:
                segments += len(catalog.segment_ends(file))
        rows, states, damaged = sizes.values()
        usages.append(
            Usage(folder.name, len(rows), segments, sum(rows), len(states), sum(states), sum(damaged))
        )
    return usages


def holds_several(name: str) -> bool:
    """Whether a file's name is that of a joined rows file."""
    parts = ROWS_NAME.fullmatch(name)
    return parts is not None and parts[2] != parts[3]


def clear(sessions: Path | Location) -> int:
    """Delete every checkpoint in a sessions folder, and nothing else. Returns the bytes freed."""
    with files.explained(f"delete the checkpoints in {sessions}"):
        root, freed = Location.of(sessions), 0
        with contextlib.suppress(FileNotFoundError):
            root.names()  # raises if `kv` is a file or unreadable
        for model in models(root):
            shared = [*shards(model), model / TEMPORARY]
            for folder in shared:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    freed += sum(removed(folder / name) for name in folder.names() if is_ours(name))
            for folder in (*shared, model, root / "kv"):
                with contextlib.suppress(OSError):  # other people's files and files being written stay
                    folder.rmdir()
    return freed


def is_ours(name: str) -> bool:
    """Whether chatcli gives such names to a model's files."""
    return catalog.last_id(name) is not None or any(
        pattern.fullmatch(name) for pattern in (catalog.DAMAGED_NAME, files.TEMPORARY_FILE)
    )


def removed(path: Location) -> int:
    """Remove a file and return its bytes; 0 if another process was faster. Raises `OSError`."""
    with contextlib.suppress(FileNotFoundError):
        size = path.stat().st_size
        path.unlink()
        return size
    return 0


def total_bytes(sessions: Path | Location) -> int:
    """The bytes of all checkpoints, including unfinished files. Raises `OSError`."""
    size = 0
    for model in models(sessions):
        for folder in (*shards(model), model / TEMPORARY):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                for entry in folder.scan():
                    with contextlib.suppress(FileNotFoundError):
                        size += entry.stat(follow_symlinks=False).st_size
    return size


def states(folder: Location) -> Iterator[Item]:
    """One model's states, read from their names."""
    for path, entry in entries(folder):
        if name := STATE_NAME.fullmatch(entry.name):
            with contextlib.suppress(FileNotFoundError):
                facts = entry.stat(follow_symlinks=False)
                yield Item(path, facts.st_size, facts.st_mtime, (name[1],))


def rows(folder: Location) -> Iterator[Item | Problem]:
    """One model's rows files, read from their headers, and those whose headers are damaged.

    Files that cannot be read now are left out.
    """
    for path, entry in entries(folder):
        if entry.name.endswith(f".rows{SUFFIX}"):
            try:
                yield read_rows(path)
            except SegmentDamaged as error:
                yield Problem(path, str(error))
            except OSError:
                continue


def read_rows(path: Location) -> Item:
    """Describe a rows file from its header. Raises `SegmentDamaged` and `OSError`."""
    with Container(path) as file:
        facts, metadata = file.facts(), file.metadata
        if _checked_kind(file, path.parent.parent.name) != "rows" or "parent" not in metadata:
            raise SegmentDamaged("it does not contain rows")
        # A single segment's id is trusted, so that its tokens need not be read.
        ends, cuts = catalog.segment_ends(file), catalog.cuts_of(file)
        ids = [metadata.get("id", "")] if len(ends) == 1 else catalog.segment_ids(file)
    if path.name != catalog.rows_name(path.name[:NAME_DIGITS], ids[0], ids[-1]):
        raise SegmentDamaged("it has another file's name")
    return Item(
        path,
        facts.st_size,
        facts.st_mtime,
        tuple(ids),
        metadata["parent"],
        int(metadata["start"]),
        frozenset(name for name, end in zip(ids, ends, strict=True) if end in cuts),
    )


def _checked_kind(file: Container, fingerprint: str) -> Kind:
    metadata = file.metadata
    if (metadata.get("format"), metadata.get("version")) != (SEGMENT_FORMAT, SEGMENT_VERSION):
        raise SegmentDamaged("it is not a segment of this format")
    if metadata.get("fingerprint") != fingerprint:
        raise SegmentDamaged("it belongs to another model")
    for kind in KINDS:
        if metadata.get("kind") == kind:
            return kind
    raise SegmentDamaged("it is neither rows nor state")


def verify(sessions: Path | Location) -> Iterator[Problem]:
    """Read every byte of every checkpoint and yield the damaged files. Raises `OSError`."""
    for folder in models(sessions):
        for path, _ in entries(folder):
            if catalog.last_id(path.name) is None:
                continue  # already set aside, or not ours
            try:
                with Container(path) as file:
                    _check_metadata(file)
                    file.check()
            except SegmentDamaged as error:
                yield Problem(path, str(error))
            except FileNotFoundError:
                continue
            except OSError as error:
                yield Problem(path, f"it cannot be read: {error.strerror}")


def _check_metadata(file: Container) -> None:
    """Raises `SegmentDamaged`."""
    path, name = file.path, name_of(file, file.path.parent.parent.name)
    if path.name != name or path.parent.name != name[:2]:
        raise SegmentDamaged("it has another file's name")


def name_of(file: Container, fingerprint: str) -> str:
    """The name that a file's contents give it, of a model's files. Raises `SegmentDamaged`."""
    kind, metadata = _checked_kind(file, fingerprint), file.metadata
    if kind == "state":
        name = catalog.state_name(metadata.get("id", ""))
        if not STATE_NAME.fullmatch(name):
            raise SegmentDamaged("its id is not one")
    else:
        ids = catalog.segment_ids(file)
        first_tokens = catalog.stored_tokens(file)[: catalog.segment_ends(file)[0] - int(metadata["start"])]
        name = catalog.rows_name(catalog.key(metadata["parent"], first_tokens), ids[0], ids[-1])
        if metadata["id"] != ids[-1]:
            raise SegmentDamaged("its id does not match its tokens")
    try:
        json.loads(metadata["scalars"] if kind == "state" else "{}")
        int(metadata["start"]), float(metadata["seconds"])
    except (ValueError, RecursionError) as error:
        raise SegmentDamaged("its metadata is not a number") from error
    return name
