"""Keeps the checkpoints within their limit while a process writes them."""

from __future__ import annotations

import contextlib
import errno
import shutil
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from chatcli.files import Location
from chatcli.store.segments import eviction, inventory
from chatcli.store.segments.token_path import TokenPath
from chatcli.store.sessions import pins

MAX_BYTES = 20 << 30
# The default limit is this fraction of the disk: a tenth.
DISK_PARTS = 10
# Other processes write too, so files are counted again after this fraction of the limit was written.
RECOUNT_PARTS = 16


def default_limit(sessions: Path | Location) -> int:
    """The smaller of 20 GiB and a tenth of the space that would be free without the checkpoints, in bytes."""
    path = sessions.path if isinstance(sessions, Location) else sessions
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    used = 0
    with contextlib.suppress(OSError):  # the folder cannot be used: the first write reports it
        used = inventory.total_bytes(sessions)
    return min(MAX_BYTES, (shutil.disk_usage(existing).free + used) // DISK_PARTS)


def limit_or_default(limit: int | None, sessions: Path | Location) -> int:
    """`limit` in bytes, or `default_limit` if there is none."""
    return default_limit(sessions) if limit is None else limit


class Budget:
    """A limit in bytes, shared by any number of writers.

    `open_ids` gives the segments of conversations that are open elsewhere.
    """

    def __init__(
        self, sessions: Path | Location, limit: int, open_ids: Callable[[], Collection[str]]
    ) -> None:
        self._sessions = Location.of(sessions)
        self._limit = limit
        self._open_ids = open_ids
        self._used: int | None = None
        self._uncounted = 0
        # The ids of each root's newest path, because a model and its draft model write at the same time.
        self._newest: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def written(self, size: int, path: TokenPath) -> None:
        """Count `size` bytes written for `path`, and make room if the limit is exceeded.

        Raises `OSError` as removing does, and if open conversations alone exceed the limit: then nothing more
        should be written.
        """
        with self._lock:
            self._newest[path.root] = {segment.id for segment in path}
            self._uncounted += size
            if self._used is None or self._uncounted * RECOUNT_PARTS > self._limit:
                self._used, self._uncounted = inventory.total_bytes(self._sessions), 0
            else:
                self._used += size
            if self._used <= self._limit:
                return
            ids = set(self._open_ids()).union(*self._newest.values())
            eviction.remove(eviction.over_limit(self._sessions, self._limit, ids))
            self._used = inventory.total_bytes(self._sessions)
            if self._used > self._limit:
                kind = "open or pinned" if pins.names(self._sessions) else "open"
                raise OSError(
                    errno.EDQUOT,
                    f"the {kind} conversations take more than the limit of {self._limit:,} bytes "
                    "(raise it with --cache-limit)",
                )
