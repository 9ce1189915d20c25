"""Files: private folders, atomic writes, locks, safe names."""

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
from typing import IO

from chatcli.errors import BadName, FolderError

# The content of a file: bytes, or parts of it in order.
Data = bytes | Sequence[bytes | memoryview]
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
LONGEST_NAME = 80
LONGEST_NAME_BYTES = 240
ATTEMPTS = 3
# The suffix of a session that has no name yet.
UNNAMED = ".new"
# A content hash, wherever a text names one.
SHA256_NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# Bytes of a disk that are left to the transcripts.
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
    size = len(name.encode("utf-8", "replace"))
    rules = {
        "must not be empty": not name.strip(),
        f"is at most {LONGEST_NAME} characters long": len(name) > LONGEST_NAME or size > LONGEST_NAME_BYTES,
        "must not contain '/' or '\\'": "/" in name or "\\" in name,
        "must not begin with '.' or '-'": name[:1] in {".", "-"},
        "must not begin or end with a space": name != name.strip(),
        "must not contain control or invisible characters": any(
            unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in name
        ),
    }
    for rule, is_broken in rules.items():
        if is_broken:
            raise BadName(f"A session's name {rule}. Try letters, digits, '-' and '_'.")
    return name


def from_home(name: str) -> Path:
    """A path with `~` spelt out; as it is where there is no such home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def with_tilde(path: Path) -> str:
    """An absolute path as people write it, the home folder as `~`."""
    absolute, home = path.absolute(), from_home("~")
    return f"~/{absolute.relative_to(home)}" if absolute.is_relative_to(home) else str(absolute)


def write_once(path: Path, data: Data, scratch: Path, reserve: int = RESERVE) -> int:
    """Put `data` at `path` so that it is there whole or not at all, also after a crash.

    As `replace`, but a file that is there stays. Returns the bytes written. Raises `OSError`.
    """
    return 0 if path.exists() else replace(path, data, scratch, reserve)


def replace(path: Path, data: Data, scratch: Path, reserve: int = RESERVE) -> int:
    """Put `data` in the place of `path`, whole or not at all, and leave `reserve` bytes of the disk.

    It is written to a temporary file in `scratch` (same file system), flushed, renamed, and the
    folder's entry flushed. Returns the bytes written. Raises `OSError`.
    """
    parts = [data] if isinstance(data, bytes) else data
    size = sum(map(len, parts))
    for _ in range(ATTEMPTS):
        # Another process may take the file for abandoned in the moment before it is locked, or
        # clear the folders away.
        with contextlib.suppress(FileNotFoundError):
            make_private(scratch)
            make_private(path.parent)
            if shutil.disk_usage(scratch).free < size + reserve:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(scratch))
            temporary = scratch / f"{os.getpid()}-{uuid.uuid4().hex}"
            try:
                with _flushed(temporary, parts):
                    temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            flush_folder(path.parent)
            return size
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def create(path: Path, data: bytes) -> None:
    """Make a new file with these first bytes, whole or not at all. Raises `FileExistsError`."""
    with contextlib.suppress(OSError):
        sweep(path.parent, f".*{UNNAMED}")
    for _ in range(ATTEMPTS):
        # As in `replace`: a sweep elsewhere may come before the lock.
        with contextlib.suppress(FileNotFoundError):
            temporary = path.with_name(f".{uuid.uuid4().hex}{UNNAMED}")
            try:
                with _flushed(temporary, [data]):
                    path.hardlink_to(temporary)
            finally:
                temporary.unlink(missing_ok=True)
            flush_folder(path.parent)
            return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


@contextlib.contextmanager
def _flushed(path: Path, parts: Sequence[bytes | memoryview]) -> Iterator[None]:
    """A new file on disk, locked while the block runs: a killed process leaves it without a lock."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        lock(descriptor)
        file.writelines(parts)
        file.flush()
        os.fsync(descriptor)
        yield


def hashes_in(path: Path) -> set[str]:
    """The content hashes that a text names. Raises `OSError`."""
    return {name.decode() for name in SHA256_NAME.findall(path.read_bytes())}


def flush_folder(path: Path) -> None:
    """Make a rename or a new file in `path` outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(file: int | IO[bytes], *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file or folder until it is closed. False if it is locked elsewhere, unless `wait`.

    Advisory: other processes are kept away only as they lock it too. Raises `OSError`.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked_folder(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Wait for a lock on a folder and hold it. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        lock(descriptor, shared=shared)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether some process holds an exclusive lock on a file, this one included.

    Locks belong to open files, not to processes. The test itself locks for a moment.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not lock(descriptor, shared=True, wait=False)
    finally:
        os.close(descriptor)


def abandoned(paths: Iterable[Path]) -> list[Path]:
    """Those of these temporary files whose writers are gone."""
    return [path for path in paths if not is_locked(path)]


def sweep(folder: Path, pattern: str = "*") -> None:
    """Remove the temporary files of this pattern that killed processes left behind."""
    for path in abandoned(folder.glob(pattern)):
        path.unlink(missing_ok=True)
