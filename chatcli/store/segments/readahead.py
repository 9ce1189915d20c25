"""Reads a conversation's newest checkpoint into the system's page cache before the model needs it.

Files are found by their names alone. Read errors are ignored here; the later read reports them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chatcli.conversation.tree import Conversation
from chatcli.files import Location

# One call of posix_fadvise on Linux reads at most the read-ahead size; this is its default.
ADVISED_BYTES = 128 << 10
READ_BYTES = 8 << 20


@dataclass(frozen=True)
class NeededSegments:
    """The segments of a model's replies on a path, newest first."""

    fingerprint: str
    segments: list[str]


def needed(conversation: Conversation, model: str) -> NeededSegments | None:
    """The segments that the records of `model`'s replies on the head's path name; None if there are none."""
    records = [entry.record for entry in conversation.path()]
    own = [record for record in records if record.get("model") == model and record.get("segments")]
    fingerprint = own[-1].get("fingerprint") if own else None
    if fingerprint is None:
        return None
    ids = [name for record in own if record.get("fingerprint") == fingerprint for name in record["segments"]]
    return NeededSegments(fingerprint, list(dict.fromkeys(reversed(ids))))


def paths(sessions: Path, needed: NeededSegments) -> list[Location]:
    """The files to read: the newest state on disk, then the rows, the newest first."""
    # Imports NumPy, which must not delay the prompt.
    from chatcli.store.segments import catalog

    folder = catalog.model_folder(sessions, needed.fingerprint)
    on_disk = {path.name: path for path in catalog.cache_files(folder)}
    states = (on_disk.get(catalog.state_name(name)) for name in needed.segments)
    newest = next((path for path in states if path is not None), None)
    rank = {name[: catalog.NAME_DIGITS]: number for number, name in enumerate(needed.segments)}
    # Of the files that begin with the same segment, take the one that reaches furthest on this path. A file
    # that ends on another path may contain a part of this one.
    best: dict[str, tuple[int, Location]] = {}
    for name, path in on_disk.items():
        if (parts := catalog.ROWS_NAME.fullmatch(name)) and parts[2] in rank:
            candidate = rank.get(parts[3], len(rank)), path
            best[parts[2]] = min(candidate, best.get(parts[2], candidate))
    rows = [best[first][1] for first in rank if first in best]
    return [newest, *rows] if newest is not None else rows


def read(files: Iterable[Location], stop: threading.Event) -> None:
    """Read files into the system's cache until `stop` is set."""
    for path in files:
        with contextlib.suppress(OSError):
            _read(path, stop)


def _read(path: Location, stop: threading.Event) -> None:
    # macOS has no posix_fadvise.
    step = READ_BYTES if sys.platform == "darwin" else ADVISED_BYTES
    with os.fdopen(path.open(), "rb") as file:
        for offset in range(0, os.fstat(file.fileno()).st_size, step):
            if stop.is_set():
                return
            if sys.platform == "darwin":
                os.pread(file.fileno(), step, offset)
            else:
                os.posix_fadvise(file.fileno(), offset, step, os.POSIX_FADV_WILLNEED)


def begin(sessions: Path, needed: NeededSegments, stop: threading.Event) -> threading.Thread:
    """Find and read the files on a daemon thread."""
    thread = threading.Thread(
        target=lambda: read(paths(sessions, needed), stop), name="chatcli-readahead", daemon=True
    )
    thread.start()
    return thread
