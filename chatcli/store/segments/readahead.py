"""Has the system read a conversation's newest checkpoint before it is asked for; refuses to know MLX.

Only names are looked at. Whatever cannot be found or read is left to whoever needs it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chatcli.conversation.tree import Conversation

# Linux reads no more than its read-ahead size for one piece of advice, by default this much.
ADVISED = 128 << 10
BLOCK = 8 << 20


@dataclass(frozen=True)
class Needed:
    """The segments that a model's replies on a path are made of, the newest first."""

    fingerprint: str
    segments: list[str]


def needed(conversation: Conversation, model: str) -> Needed | None:
    """What `model`'s last reply on the head's path says that it needs; None if there is no such."""
    records = [entry.record for entry in conversation.path()]
    own = [one for one in records if one.get("model") == model and one.get("segments")]
    fingerprint = own[-1].get("fingerprint") if own else None
    if fingerprint is None:
        return None
    names = [name for one in own if one.get("fingerprint") == fingerprint for name in one["segments"]]
    return Needed(fingerprint, list(dict.fromkeys(reversed(names))))


def paths(sessions: Path, wanted: Needed) -> list[Path]:
    """The files to read: the newest state that there is, then the rows, the newest first."""
    # Numpy comes with it, which the prompt need not wait for.
    from chatcli.store.segments import catalog

    folder = catalog.model_folder(sessions, wanted.fingerprint)
    there = {path.name: path for path in catalog.cache_files(folder)}
    states = (there.get(catalog.state_name(name)) for name in wanted.segments)
    newest = next((path for path in states if path is not None), None)
    place = {name[: catalog.SHORT]: at for at, name in enumerate(wanted.segments)}
    # Of the files that begin with one segment, that which goes on longest on this path. One that
    # ends on another path may hold a part of this one.
    best: dict[str, tuple[int, Path]] = {}
    for name, path in there.items():
        if (parts := catalog.ROWS_NAME.fullmatch(name)) and parts[2] in place:
            rank = place.get(parts[3], len(place)), path
            best[parts[2]] = min(rank, best.get(parts[2], rank))
    rows = [best[first][1] for first in place if first in best]
    return [newest, *rows] if newest is not None else rows


def read(files: Iterable[Path], stop: threading.Event) -> None:
    """Bring files into the system's cache, until `stop` is set."""
    for path in files:
        with contextlib.suppress(OSError):
            _read(path, stop)


def _read(path: Path, stop: threading.Event) -> None:
    advise = getattr(os, "posix_fadvise", None)
    step = BLOCK if advise is None else ADVISED
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        for at in range(0, os.fstat(descriptor).st_size, step):
            if stop.is_set():
                return
            if advise is None:
                os.pread(descriptor, step, at)
            else:
                advise(descriptor, at, step, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(descriptor)


def begin(sessions: Path, wanted: Needed, stop: threading.Event) -> threading.Thread:
    """Find and read the files on a thread of its own, which keeps no process alive."""
    thread = threading.Thread(
        target=_run, args=(sessions, wanted, stop), name="chatcli-readahead", daemon=True
    )
    thread.start()
    return thread


def _run(sessions: Path, wanted: Needed, stop: threading.Event) -> None:
    read(paths(sessions, wanted), stop)
