"""Bytes on disk: private folders, atomic writes, safe names; refuses to know what the bytes mean."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from chatcli.errors import BadName, FolderError

# What is written: bytes, or pieces of them that follow each other.
Data = bytes | Sequence[bytes | memoryview]
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
LONGEST_NAME = 80
LONGEST_BYTES = 240
ATTEMPTS = 3
UNNAMED = ".new"
# What is named by its content, wherever a text names it.
SHA256_NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# The last of a disk is the transcripts'.
RESERVE = 4 << 20


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
    # It may be gone again by now, which is for the caller to find out.
    if path.exists() and not path.is_dir():
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


def from_home(name: str) -> Path:
    """A path with `~` spelt out; as it is where there is no such home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def write_once(path: Path, data: Data, scratch: Path, reserve: int = RESERVE) -> int:
    """Put `data` at `path` so that it is there whole or not at all, also after a crash.

    Written to a temporary file in `scratch` (same file system), flushed, renamed, and the folder's
    entry flushed. Returns the bytes written: 0 if `path` was there already. Raises `OSError`.
    """
    if path.exists():
        return 0
    replace(path, data, scratch, reserve)
    return sum(map(len, _pieces(data)))


def _pieces(data: Data) -> Sequence[bytes | memoryview]:
    return [data] if isinstance(data, bytes) else data


def replace(path: Path, data: Data, scratch: Path, reserve: int = RESERVE) -> None:
    """Put `data` in the place of `path`, whole or not at all, and leave `reserve` bytes of the disk.

    Raises `OSError`.
    """
    for _ in range(ATTEMPTS):
        # Another process may take a file for abandoned in the moment before it is locked, or
        # clear the folders away.
        with contextlib.suppress(FileNotFoundError):
            make_private(scratch)
            make_private(path.parent)
            _leave_room(scratch, sum(map(len, _pieces(data))) + reserve)
            _replace(path, data, scratch / f"{os.getpid()}-{uuid.uuid4().hex}")
            return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _replace(path: Path, data: Data, temporary: Path) -> None:
    try:
        with _flushed(temporary, data):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def _leave_room(folder: Path, size: int) -> None:
    """Raise the `OSError` of a full disk before the last of it is taken."""
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def create(path: Path, data: bytes) -> None:
    """Make a new file with these first bytes, whole or not at all. Raises `FileExistsError`."""
    with contextlib.suppress(OSError):
        sweep(path.parent, f".*{UNNAMED}")
    for _ in range(ATTEMPTS):
        # As in `replace`: a sweep elsewhere may come before the lock.
        with contextlib.suppress(FileNotFoundError):
            _create(path, data, path.with_name(f".{uuid.uuid4().hex}{UNNAMED}"))
            return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _create(path: Path, data: bytes, temporary: Path) -> None:
    try:
        with _flushed(temporary, data):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


@contextlib.contextmanager
def _flushed(path: Path, data: Data) -> Iterator[None]:
    """A new file with `data` on disk, locked for as long as it is needed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        # The lock says that someone is still at it; it goes with the process.
        fcntl.flock(file, fcntl.LOCK_EX)
        for piece in _pieces(data):
            file.write(piece)
        file.flush()
        os.fsync(descriptor)
        yield


def flush_folder(path: Path) -> None:
    """Make a rename or a new file in `path` outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether some process holds an exclusive lock on a file, this one included.

    Locks belong to what was opened, not to who opened it. The test itself locks for a moment.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def abandoned(paths: Iterable[Path]) -> list[Path]:
    """Those of these temporary files whose writers are gone."""
    return [path for path in paths if not is_locked(path)]


def sweep(folder: Path, pattern: str = "*") -> None:
    """Remove the temporary files of this pattern that killed processes left behind."""
    for path in abandoned(folder.glob(pattern)):
        path.unlink(missing_ok=True)
