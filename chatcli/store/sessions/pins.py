"""The pinned sessions, whose checkpoints are not evicted: a file with one name per line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from chatcli import files
from chatcli.files import Location
from chatcli.store.sessions import listing

NAME = ".pinned"


def names(sessions: Path | Location) -> list[str]:
    """The pinned sessions that exist. Raises `OSError`."""
    folder = Location.of(sessions)
    with files.opened_locked(folder / NAME, os.O_RDONLY) as descriptor:
        pinned = [] if descriptor is None else _read(descriptor)
    existing = set(listing.names(folder)) if pinned else ()
    return [name for name in pinned if name in existing]


def segment_ids(sessions: Path | Location) -> set[str]:
    """The segments that pinned sessions name. Raises `OSError`."""
    folder, ids = Location.of(sessions), set[str]()
    for name in names(folder):
        with contextlib.suppress(FileNotFoundError):
            ids |= files.hashes_in(listing.location(folder, name))
    return ids


def add(folder: Location, name: str) -> None:
    """Pin a session. Raises `OSError`."""
    _change(folder, lambda pinned: [*(each for each in pinned if each != name), name], os.O_CREAT)


def forget(folder: Location, name: str) -> None:
    """Unpin a session. Raises `OSError`."""
    _change(folder, lambda pinned: [each for each in pinned if each != name])


def rename(folder: Location, name: str, new_name: str) -> None:
    """Keep a renamed session pinned. Raises `OSError`."""
    _change(folder, lambda pinned: [new_name if each == name else each for each in pinned])


def _change(folder: Location, change: Callable[[list[str]], list[str]], flags: int = 0) -> None:
    with files.opened_locked(folder / NAME, os.O_RDWR | flags) as descriptor:
        if descriptor is None:
            return
        before = _read(descriptor)
        if (after := change(before)) != before:
            files.overwrite(descriptor, "".join(f"{name}\n" for name in after).encode())


def _read(descriptor: int) -> list[str]:
    return files.read_all(descriptor).decode("utf-8", "replace").split("\n")[:-1]
