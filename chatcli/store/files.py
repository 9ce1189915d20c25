"""Bytes on disk: private folders, atomic writes, safe names; refuses to know what the bytes mean."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import unicodedata
import uuid
from collections.abc import Iterator
from pathlib import Path

from chatcli.errors import BadName, FolderError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
LONGEST_NAME = 80
LONGEST_BYTES = 240
STALE_SECONDS = 3600.0


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Translate an `OSError` into one sentence: what could not be done, and why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FolderError(f"Cannot {what}: {reason}.") from error


def private_folder(path: Path) -> Path:
    """Make `path`, readable by its owner only, with its parents. Raises `FolderError`."""
    with explained(f"use the folder {path} (choose another with --sessions DIR)"):
        make_private(path)
    return path


def make_private(path: Path) -> None:
    """Make `path` and the parents that are missing, all mode 0700. Raises `OSError`."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    if not missing and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def check_writable(path: Path) -> None:
    """Raise `FolderError` now rather than after a reply. (Root may write anywhere.)"""
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise FolderError(
            f"The sessions folder {path} cannot be read and written: "
            "mend its permissions or choose another with --sessions DIR."
        )


def check_name(name: str) -> str:
    """`name` itself if it can name a session on every system, else `BadName`."""
    problem = _name_problem(name)
    if problem:
        raise BadName(f"A session's name {problem}. Try letters, digits, '-' and '_'.")
    return name


def _name_problem(name: str) -> str | None:
    rules = {
        "must not be empty": not name.strip(),
        f"is at most {LONGEST_NAME} characters long": len(name) > LONGEST_NAME
        or len(name.encode("utf-8", "replace")) > LONGEST_BYTES,
        "must not contain '/' or '\\'": "/" in name or "\\" in name,
        "must not begin with '.' or '-'": name[:1] in {".", "-"},
        "must not begin or end with a space": name != name.strip(),
        "must not contain control or invisible characters": not _visible(name),
    }
    return next((text for text, broken in rules.items() if broken), None)


def _visible(text: str) -> bool:
    return all(unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in text)


def write_once(path: Path, data: bytes, scratch: Path) -> int:
    """Put `data` at `path` so that it is there whole or not at all, also after a crash.

    Written to a temporary file in `scratch` (same file system), flushed, renamed, and the folder's
    entry flushed. Returns the bytes written: 0 if `path` was there already. Raises `OSError`.
    """
    if path.exists():
        return 0
    for folder in (path.parent, scratch):
        make_private(folder)
    temporary = scratch / f"{os.getpid()}-{uuid.uuid4().hex}"
    try:
        _write_flushed(temporary, data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)
    return len(data)


def create(path: Path, data: bytes) -> None:
    """Make a new file with these first bytes, whole or not at all. Raises `FileExistsError`."""
    temporary = path.with_name(f".{uuid.uuid4().hex}.new")
    try:
        _write_flushed(temporary, data)
        path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Add a short line to a private file; several processes may do so at once."""
    make_private(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _write_flushed(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def flush_folder(path: Path) -> None:
    """Make a rename or a new file in `path` outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(scratch: Path) -> None:
    """Remove temporary files that a killed process left behind more than an hour ago."""
    oldest = time.time() - STALE_SECONDS
    for file in scratch.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_mtime < oldest:
                file.unlink()
