"""Files: private folders, paths that no link leads out of, atomic writes, locks, safe names."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import re
import shutil
import stat
import sys
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from chatcli.errors import BadName, FolderError
from chatcli.text import file_size


@dataclass(frozen=True)
class Streamed:
    """The content of a file of `size` bytes, made each time it is written."""

    size: int
    parts: Callable[[], Iterable[bytes | memoryview]]

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self.parts())


# The content of a file: bytes, or its parts in order.
Data = bytes | Sequence[bytes | memoryview] | Streamed
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
LONGEST_NAME = 80
LONGEST_NAME_BYTES = 240
ATTEMPTS = 3
# The suffix of a session file without a name yet.
UNNAMED = ".new"
# Matches the names of files being written, and nothing else.
UNNAMED_FILE = re.compile(rf"\.[0-9a-f]{{32}}{re.escape(UNNAMED)}")
TEMPORARY_FILE = re.compile(r"\d{1,10}-[0-9a-f]{32}")
# Matches a content hash anywhere in a text.
SHA256_NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# The errors of `O_NOFOLLOW` for a link: FreeBSD has its own.
LINK_ERRORS = (errno.ELOOP, errno.EMLINK)
# The errors of opening a socket or a missing device.
DEVICE_ERRORS = (errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV)
NO_FILE = "it is not a regular file"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The most that is read of files named by a person: a conversation to import, and text for a model.
MAX_IMPORT_BYTES, MAX_PROMPT_BYTES = 1_000_000_000, 16_000_000
# Commands of fcntl on macOS. Python has no name for the first one.
BARRIER_FLUSH, FULL_FLUSH = 85, 51
# Bytes of free disk space reserved for transcripts.
RESERVE = 4 << 20


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Translate an `OSError` into one sentence: what could not be done, and why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FolderError(f"Cannot {what}: {reason}.") from error


def make_private(path: Path) -> None:
    """Create `path` and missing parents, all with mode 0700. Raises `OSError`."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        Location.of(parent.parent).flush()
    # It may be gone again by now, which the caller will notice.
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def check_writable(path: Path) -> None:
    """Raise `FolderError` now rather than after a reply. (Root may write anywhere.)"""
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise FolderError(
            f"The sessions folder {path} cannot be read and written: "
            "fix its permissions or choose another with --sessions DIR."
        )


def check_name(name: str) -> str:
    """Return `name` if it can name a session on every system; else raise `BadName`."""
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
    """A path with `~` expanded; unchanged if that home folder is unknown."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def with_tilde(path: Path) -> str:
    """An absolute path with `~` for the home folder."""
    absolute, home = path.absolute(), from_home("~")
    return f"~/{absolute.relative_to(home)}" if absolute.is_relative_to(home) else str(absolute)


class NotRegular(OSError):
    """The path is not a regular file but a link, a pipe or a device."""


class _OpenFolder:
    """A folder named by a user, opened on first use and kept open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.absolute = path.absolute()
        self.owner = os.geteuid()
        self._descriptors: list[int] = []

    def descriptor(self) -> int:
        """Raises `OSError`. A folder that was deleted since is opened again."""
        if not self._descriptors or not os.fstat(self._descriptors[-1]).st_nlink:
            self._open()
        return self._descriptors[-1]

    def make(self) -> None:
        """Create the folder at its path, and open that if the open one was moved away."""
        make_private(self.absolute)
        if self._descriptors and not self.is_where_named():
            self._open()

    def is_where_named(self) -> bool:
        """Raises `OSError`."""
        try:
            named = self.absolute.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(os.fstat(self.descriptor()), named)

    def _open(self) -> None:
        # Another thread may still use the old one, so it stays open.
        self._descriptors.append(os.open(self.absolute, FOLDER_FLAGS))
        self.owner = os.fstat(self._descriptors[-1]).st_uid

    def __del__(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


@functools.total_ordering
class Location:
    """A path at or below a folder that a user named, reached through that folder's descriptor.

    The named folder is opened once, so it stays the same even if its path or the current folder changes,
    until `make_folder` creates it again. Below it no link is followed, and only regular files owned by the
    folder's owner or by this user are opened. (Go's `os.Root` is similar.) `str` returns the path for
    messages. Methods raise `OSError`.
    """

    def __init__(self, folder: _OpenFolder, names: tuple[str, ...] = ()) -> None:
        self._folder = folder
        self._names = names

    def is_where_named(self) -> bool:
        """Whether the folder is still at its path."""
        return self._folder.is_where_named()

    @functools.cached_property
    def path(self) -> Path:
        """The path, for messages."""
        return self._folder.path.joinpath(*self._names)

    @classmethod
    def of(cls, folder: Path | Location) -> Location:
        """A folder by its path, following links. It need not exist yet."""
        return folder if isinstance(folder, Location) else cls(_OpenFolder(folder))

    @classmethod
    def of_file(cls, path: Path) -> Location:
        """A file in a trusted folder. The file itself may not be a link."""
        return cls.of(path.parent) / path.name

    def __truediv__(self, name: str) -> Location:
        """The entry with this name in this folder. Raises `ValueError` for an invalid name."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"{name!r} is not a name")
        return Location(self._folder, (*self._names, name))

    @property
    def name(self) -> str:
        return self._names[-1] if self._names else self.path.name

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def parent(self) -> Location:
        """The folder that contains this. Raises `ValueError` at the named folder."""
        if not self._names:
            raise ValueError(f"{self} is not below the folder that was named")
        return Location(self._folder, self._names[:-1])

    def with_name(self, name: str) -> Location:
        return self.parent / name

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Location({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self.path == (other.path if isinstance(other, Location) else other)

    def __lt__(self, other: Location) -> bool:
        return self.path < other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """The descriptor of this folder. Raises `OSError` for anything else, including links."""
        descriptor = self._folder.descriptor()
        if not self._names:
            yield descriptor
            return
        with contextlib.ExitStack() as held:
            for name in self._names:
                descriptor = os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
                held.callback(os.close, descriptor)
                _check_owner(os.fstat(descriptor), self._folder.owner)
            yield descriptor

    def stat(self) -> os.stat_result:
        """Does not follow links."""
        if not self._names:
            return os.fstat(self._folder.descriptor())
        with self.parent.opened() as folder:
            return os.stat(self.name, dir_fd=folder, follow_symlinks=False)

    def exists(self) -> bool:
        """Whether there is anything, even a link."""
        try:
            self.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_folder(self) -> bool:
        return self.exists() and stat.S_ISDIR(self.stat().st_mode)

    @contextlib.contextmanager
    def _opened_anew(self) -> Iterator[int]:
        """A separate descriptor, because locks and positions in a listing belong to descriptors."""
        with self.opened() as folder:
            descriptor = os.open(".", FOLDER_FLAGS, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def scan(self) -> Iterator[os.DirEntry[str]]:
        """The entries of this folder. `stat` of an entry works until the next entry is requested."""
        with self._opened_anew() as folder, os.scandir(folder) as entries:
            yield from entries

    def names(self) -> list[str]:
        """The names in this folder, unordered."""
        return [entry.name for entry in self.scan()]

    def open(self, flags: int = os.O_RDONLY) -> int:
        """The descriptor of a regular file owned by this user or by the named folder's owner."""
        with self.parent.opened() as folder:
            try:
                # Do not block on a pipe.
                descriptor = os.open(self.name, flags | FILE_FLAGS, PRIVATE_FILE, dir_fd=folder)
            except OSError as error:
                if error.errno in LINK_ERRORS:
                    raise NotRegular(error.errno, "it is a link", str(self)) from error
                if error.errno in DEVICE_ERRORS:
                    raise NotRegular(error.errno, NO_FILE, str(self)) from error
                raise
            try:
                facts = os.fstat(descriptor)
                if stat.S_ISDIR(facts.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self))
                if not stat.S_ISREG(facts.st_mode):
                    raise NotRegular(errno.EINVAL, NO_FILE, str(self))
                _check_owner(facts, self._folder.owner)
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

    def read_bytes(self, most: int = sys.maxsize) -> bytes:
        """The first `most` bytes."""
        with os.fdopen(self.open(), "rb") as file:
            return read_all(file.fileno(), most)

    def set_times(self, times: tuple[float, float] | None = None) -> None:
        """Set the times of last access and change, in seconds since the epoch; None: now."""
        with os.fdopen(self.open(), "rb") as file:
            os.utime(file.fileno(), times)

    def make_folder(self) -> None:
        """Create this folder and missing parents with mode 0700, each flushed before its contents."""
        if not self._names:
            self._folder.make()
            return
        try:
            with self.opened():
                return
        except FileNotFoundError:
            self.parent.make_folder()
        with self.parent.opened() as folder:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.name, PRIVATE_FOLDER, dir_fd=folder)
            flush(folder)

    def rename(self, new: Location) -> None:
        """Rename to `new`, replacing it."""
        with self.parent.opened() as source, new.parent.opened() as target:
            os.rename(self.name, new.name, src_dir_fd=source, dst_dir_fd=target)

    def link(self, new: Location) -> None:
        """Add `new` as a hard link. Raises `FileExistsError` if that exists."""
        with self.parent.opened() as source, new.parent.opened() as target:
            os.link(self.name, new.name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file, or a link itself."""
        expected = (FileNotFoundError,) if missing_ok else ()
        with contextlib.suppress(*expected), self.parent.opened() as folder:
            os.unlink(self.name, dir_fd=folder)

    def rmdir(self) -> None:
        """Remove an empty folder."""
        with self.parent.opened() as folder:
            os.rmdir(self.name, dir_fd=folder)

    def flush(self, *, through: bool = False) -> None:
        """Flush additions, renames and removals in this folder; see `flush`."""
        with self.opened() as folder:
            flush(folder, through=through)

    def free_bytes(self) -> int:
        """The free bytes on this folder's disk."""
        with self.opened() as folder:
            return shutil.disk_usage(folder).free

    @contextlib.contextmanager
    def locked(self, *, shared: bool = False) -> Iterator[None]:
        """Wait for a lock on this folder and hold it."""
        with self._opened_anew() as folder:
            lock(folder, shared=shared)
            yield


def _check_owner(facts: os.stat_result, owner: int) -> None:
    """Raise `PermissionError` for a file owned neither by this user nor by `owner`."""
    if facts.st_uid not in (os.geteuid(), owner):
        raise PermissionError(errno.EPERM, "it belongs to another user")


def open_named(path: Path) -> IO[bytes]:
    """Open a file, pipe or device that a person named, without blocking on a pipe. Raises `OSError`."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    os.set_blocking(file.fileno(), True)
    return file


def read_named(path: Path, limit: int) -> bytes:
    """Read a file that a person named. Raises `OSError`, also for more than `limit` bytes."""
    with open_named(path) as file:
        return read_at_most(file, limit)


def read_at_most(file: IO[bytes], limit: int) -> bytes:
    """Read a file to its end. Raises `OSError` for more than `limit` bytes, as devices may be endless."""
    facts = os.fstat(file.fileno())
    if stat.S_ISREG(facts.st_mode) and facts.st_size > limit:
        raise too_long(limit)
    data = file.read(limit + 1)
    if len(data) > limit:
        raise too_long(limit)
    return data


def too_long(limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {file_size(limit)}")


def read_all(descriptor: int, most: int = sys.maxsize) -> bytes:
    """Read a file at its current length, or its first `most` bytes.

    Raises `OSError`.
    """
    parts: list[bytes] = []
    offset, size = 0, min(os.fstat(descriptor).st_size, most)
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_once(location: Location, data: Data, scratch: Location, reserve: int = RESERVE) -> int:
    """Write `data` to `location` atomically, even in case of a crash, unless it exists.

    Like `replace`, but an existing file stays. Returns the bytes written. Raises `OSError`.
    """
    return 0 if location.exists() else replace(location, data, scratch, reserve)


def replace(
    location: Location, data: Data, scratch: Location, reserve: int = RESERVE, *, through: bool = False
) -> int:
    """Replace `location` by `data` atomically, and leave `reserve` bytes of the disk free.

    It is written to a temporary file in `scratch` (on the same file system), flushed and renamed, and the
    folder is flushed. Returns the bytes written. Raises `OSError`.
    """
    parts = [data] if isinstance(data, bytes) else data
    size = parts.size if isinstance(parts, Streamed) else sum(map(len, parts))

    def temporary() -> Location:
        scratch.make_folder()
        location.parent.make_folder()
        if scratch.free_bytes() < size + reserve:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(scratch))
        return scratch / f"{os.getpid()}-{uuid.uuid4().hex}"

    _put(location, parts, temporary, Location.rename, through)
    return size


def create(location: Location, data: bytes | Streamed, *, force: bool = False) -> None:
    """Create a file with this content atomically, and flush it.

    Raises `FileExistsError` if it exists, unless `force`.
    """
    with contextlib.suppress(OSError):
        sweep(location.parent, UNNAMED_FILE)
    parts = [data] if isinstance(data, bytes) else data
    place = Location.rename if force else Location.link
    _put(location, parts, lambda: unnamed(location.parent), place, through=True)


def _put(
    location: Location,
    parts: Iterable[bytes | memoryview],
    temporary: Callable[[], Location],
    place: Callable[[Location, Location], None],
    through: bool,
) -> None:
    for _ in range(ATTEMPTS):
        # Another process may delete the file as abandoned before it is locked, or delete the folders.
        with contextlib.suppress(FileNotFoundError):
            file = temporary()
            try:
                with flushed(file, parts, through=through):
                    place(file, location)
            finally:
                file.unlink(missing_ok=True)
            location.parent.flush(through=through)
            return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(location))


def unnamed(folder: Location) -> Location:
    """A temporary path in a folder."""
    return folder / f".{uuid.uuid4().hex}{UNNAMED}"


@contextlib.contextmanager
def flushed(
    location: Location, parts: Iterable[bytes | memoryview], *, through: bool = False
) -> Iterator[None]:
    """Create and flush a file, locked while the block runs. A killed process leaves it unlocked."""
    descriptor = location.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        lock(descriptor)
        file.writelines(parts)
        file.flush()
        flush(descriptor, through=through)
        yield


@contextlib.contextmanager
def opened_locked(location: Location, flags: int) -> Iterator[int | None]:
    """Open and lock a small file that several processes change; None if it does not exist and `flags` do not
    create it.

    Without `O_CREAT`, also None if the path is not a regular file. A file with several hard links is first
    replaced by a copy, so that its other names do not change. Raises `OSError`.
    """
    try:
        descriptor = location.open(flags)
    except (FileNotFoundError, NotRegular, IsADirectoryError):
        if flags & os.O_CREAT:
            raise
        yield None
        return
    try:
        lock(descriptor)
        if flags & (os.O_WRONLY | os.O_RDWR) and os.fstat(descriptor).st_nlink > 1:
            copy = unnamed(location.parent)
            with flushed(copy, [location.read_bytes()]):
                copy.rename(location)
            os.close(descriptor)
            descriptor = location.open(flags)
            lock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, in as many calls as needed. Raises `OSError`."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def overwrite(descriptor: int, data: bytes) -> None:
    """Overwrite a file's contents in place, and flush.

    In place, so that no copy of removed text is left on disk, and a full disk or a kill loses a line, not the
    file. Raises `OSError`.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)
    write_all(descriptor, data)
    os.ftruncate(descriptor, len(data))
    flush(descriptor, through=True)


def hashes_in(location: Location) -> set[str]:
    """The content hashes that a text names. Raises `OSError`."""
    return {name.decode() for name in SHA256_NAME.findall(location.read_bytes())}


def flush(descriptor: int, *, through: bool = False) -> None:
    """Make written data survive a power failure, before anything written later. Raises `OSError`.

    On macOS fsync leaves data in the drive's cache, which may be written in any order. A barrier keeps the
    order, so that after a power failure no later record exists without the earlier ones, but the last ones
    may be missing. `through`: the data is on disk when this returns, which takes longer. Use it where order
    does not help: for deletions, and for files that are handed to another program.
    """
    commands = (FULL_FLUSH,) if through else (BARRIER_FLUSH, FULL_FLUSH)
    flush_by(descriptor, commands if sys.platform == "darwin" else ())


def flush_by(descriptor: int, commands: Iterable[int]) -> None:
    """Flush with the first of these commands that the file system supports, else with fsync. Raises
    `OSError`.
    """
    for command in commands:
        # Some file systems, such as network ones, refuse them.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, command)
            return
    os.fsync(descriptor)


def lock(file: int | IO[bytes], *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file or folder until it is closed. False if it is locked elsewhere, unless `wait`.

    Advisory: it only affects processes that also lock the file. Raises `OSError`.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def is_locked(location: Location) -> bool:
    """Whether any process, including this one, holds an exclusive lock on a file.

    Locks belong to open files, not to processes. The test itself takes the lock for a moment.
    """
    try:
        descriptor = location.open()
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        return not lock(file, shared=True, wait=False)


def abandoned(folder: Location, pattern: re.Pattern[str] = TEMPORARY_FILE) -> Iterator[Location]:
    """The temporary files in a folder whose writers are gone. Raises `OSError`."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in folder.scan():
            if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                location = folder / entry.name
                if not is_locked(location):
                    yield location


def sweep(folder: Location, pattern: re.Pattern[str] = TEMPORARY_FILE) -> None:
    """Remove the temporary files that killed processes left behind. Raises `OSError`."""
    for location in abandoned(folder, pattern):
        location.unlink(missing_ok=True)
