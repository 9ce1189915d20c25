"""The folder of sessions, and the file of an open session: names, locks, appends.

Each line is flushed before it is acted on. The writer locks the file while the session is open.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import errno
import os
import re
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from chatcli import files
from chatcli.command_line import command_line
from chatcli.errors import (
    FolderError,
    SessionError,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    SessionUnreadable,
)
from chatcli.files import Location
from chatcli.store.sessions import history, listing, marker, pins
from chatcli.store.sessions.listing import Summary
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import (
    Transcript,
    encode,
    entry_line,
    header_line,
    parse,
)
from chatcli.text import listed
from chatcli.threads.executor import SerialExecutor

MAX_SLUG_LENGTH = 32
# Words that are dropped from the end of a name.
FILLERS = re.compile(
    "a|an|and|are|as|at|because|but|by|for|from|has|have|i|if|in|into|is|its|my|of|on|or|our|than"
    "|the|their|to|was|were|when|where|which|while|who|with|your"
)
# How long to retry, because `files.is_locked` holds the lock for microseconds.
LOCK_SECONDS = 0.1
LOCK_POLL_SECONDS = 0.005
# Replaces the descriptor of a file that belongs to the parent process after a fork.
FORKED = -1


class SessionFolder:
    """Where sessions are saved."""

    def __init__(self, folder: Path, flag: str | None = None) -> None:
        """`flag` is the value for `--sessions` with which chatcli finds the folder; None if it finds it
        without.
        """
        self.folder = folder
        self.flag = flag
        self.location = Location.of(folder)
        self._opened: weakref.WeakSet[SessionFile] = weakref.WeakSet()

    def command(self, command: str, *names: str) -> str:
        """A chatcli command line for this folder, ready to paste."""
        return command_line(command, *names, sessions=self.flag)

    def names(self) -> list[str]:
        """Every session, last used first. Raises `FolderError` if the folder cannot be read."""
        return listing.by_age(self.location)

    def count(self) -> int:
        """How many sessions there are. Raises `FolderError` if the folder cannot be read."""
        return len(listing.names(self.location))

    def latest(self) -> str:
        """The session that was written last, even if the clock was set back since.

        Raises `SessionNotFound` if there is none.
        """
        names = self.names()
        if not names:
            raise SessionNotFound(f"There is no saved session yet. To start one: {self.command('')}")
        last = listing.last_written(self.location)
        return last if last in names else names[0]

    def resolve(self, name: str) -> str:
        """A session's full name from its name or an unambiguous beginning."""
        if self.exists(files.check_name(name)):
            return name
        names = sorted(listing.names(self.location))
        matches = [other for other in names if other.startswith(name)]
        if len(matches) == 1:
            return matches[0]
        raise SessionNotFound(self._not_found(name, names, matches))

    def exact(self, name: str) -> str:
        """`name` if that session exists: irreversible commands accept only full names."""
        files.check_name(name)
        names = listing.names(self.location)
        if name not in names:
            raise SessionNotFound(self._not_found(name, names, []))
        return name

    def holding(self, entry_id: str) -> str | None:
        """The session with this entry, whatever its name is now. Its branches may have the entry too."""
        for name in self.names():
            with contextlib.suppress(SessionError):
                if entry_id.encode() in listing.read(self.location, name):
                    return name
        return None

    def exists(self, name: str) -> bool:
        with files.explained(f"read the sessions folder {self.folder}"):
            return self._path(name).exists()

    def free_name(self, wanted: str) -> str:
        """`wanted`, or `wanted-2`, `wanted-3`, … if that is taken. A numbered name is counted on."""
        taken = set(listing.names(self.location))
        stem, _, number = wanted.rpartition("-")
        if wanted in taken and stem in taken and number.isdecimal():
            wanted = stem
        numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
        return next(name for name in (wanted, *numbered) if name not in taken)

    def size(self, name: str) -> int:
        """The size of a session's file in bytes. Raises `FolderError`."""
        with files.explained(f"read the session '{name}'"):
            return self._path(name).stat().st_size

    def read(self, name: str) -> Transcript:
        """Read a session without locking it."""
        name = self.resolve(name)
        return parse(name, listing.read(self.location, name))

    def summaries(self, newest: int | None = None) -> list[Summary]:
        """Summaries of every session or of the newest; an unreadable one has a `problem`."""
        return listing.summaries(self.location, newest)

    def create(self, name: str, *, model: str | None, system: str | None, **facts: Any) -> SessionFile:
        """Create an empty, locked session; see `building`. Raises `SessionExists`."""
        with self.building(name, model=model, system=system, **facts) as session:
            return session

    @contextlib.contextmanager
    def building(
        self,
        name: str,
        *,
        model: str | None,
        system: str | None,
        date: str | None = None,
        branched_from: str | None = None,
    ) -> Iterator[SessionFile]:
        """Create a locked session with `date` (default: today), for the block to fill.

        It appears under its name, complete and flushed, when the block ends. After an error or a kill there
        is no session. Raises `SessionExists`.
        """
        files.check_name(name)
        marker.claim(self.location)
        header = header_line(date or datetime.date.today().isoformat(), model, system, branched_from)
        with files.explained(f"write to the sessions folder {self.folder}"):
            if self._path(name).exists():
                raise self._taken(name)
            with contextlib.suppress(OSError):
                files.sweep(self.location, files.UNNAMED_FILE)
            session = self._unnamed(name, encode(header))
        try:
            yield session
            with files.explained(f"write to the sessions folder {self.folder}"), self._publishing():
                try:
                    session.publish(self._path(name))
                except FileExistsError:
                    raise self._taken(name) from None
        except BaseException:
            session.close()
            raise
        finally:
            with contextlib.suppress(OSError):
                session.temporary.unlink(missing_ok=True)
        self._opened.add(session)

    def _unnamed(self, name: str, first_line: bytes) -> SessionFile:
        """A session's file under a temporary name, locked. Raises `OSError`."""
        for _ in range(files.ATTEMPTS):
            # Another process may sweep the file before it is locked.
            with contextlib.suppress(SessionNotFound, FileNotFoundError):
                temporary = files.unnamed(self.location)
                try:
                    descriptor = temporary.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                    with os.fdopen(descriptor, "wb") as file:
                        file.write(first_line)
                    return SessionFile(temporary, name)
                except BaseException:
                    with contextlib.suppress(OSError):
                        temporary.unlink(missing_ok=True)
                    raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder))

    def _taken(self, name: str) -> SessionExists:
        return SessionExists(
            f"There is a session '{name}' already: choose another name, "
            f"or continue it: {self.command('resume', name)}"
        )

    @contextlib.contextmanager
    def _publishing(self) -> Iterator[None]:
        """Only one process at a time gives names in a folder, if the file system can lock folders."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                held.enter_context(self.location.locked())
            yield

    def open(self, name: str) -> SessionFile:
        """A session, locked for writing. Raises `SessionLocked` if another process has it."""
        path = self._path(self.resolve(name))
        in_a_copy = f"close it there, or continue in a copy: {self.command('branch', path.stem)}"
        with files.explained(f"open the session '{path.stem}' for writing"), self._locking(path, in_a_copy):
            session = SessionFile(path)
        self._opened.add(session)
        return session

    def check_closed(self, name: str) -> None:
        """Raise `SessionLocked` if the session is open, here or in another process."""
        path = self._path(self.exact(name))
        with (
            files.explained(f"read the session '{name}'"),
            os.fdopen(path.open(), "rb") as file,
            self._locking(path),
        ):
            _lock(file.fileno(), path.stem)

    @contextlib.contextmanager
    def _locking(self, path: Location, advice: str = "close it there first.") -> Iterator[None]:
        """Add `advice` to `SessionLocked`, or what to do if this process has the session open."""
        try:
            yield
        except SessionLocked as error:
            if any(session.location == path and not session.closed for session in self._opened):
                raise SessionLocked(
                    f"The session '{path.stem}' is open in this chat: /new leaves it, "
                    "and /rename gives it another name."
                ) from None
            raise SessionLocked(f"{error}: {advice}") from None

    def rename(self, name: str, new_name: str) -> str:
        """Give a session another name. Raises `SessionExists`, and `SessionLocked` if it is open."""
        with self.open(self.exact(name)):
            return self.rename_open(name, new_name)

    def rename_open(self, name: str, new_name: str) -> str:
        """`rename`, for a session that the caller has open."""
        old = self._path(self.exact(name))
        new = self._path(files.check_name(new_name))
        with files.explained(f"rename the session '{name}'"), self._publishing():
            if new.exists():
                raise SessionExists(f"There is a session '{new_name}' already.")
            # First, so that a failure leaves the session's name unchanged.
            history.rename(self.location, name, new_name)
            try:
                old.rename(new)
            except OSError:
                with contextlib.suppress(OSError):
                    history.rename(self.location, new_name, name)
                raise
            pins.rename(self.location, name, new_name)
            if listing.last_written(self.location) == name:
                listing.note_last_written(self.location, new_name)
            self.location.flush()
        return new_name

    def delete(self, name: str) -> str:
        """Remove a session's transcript, even if it is damaged.

        Raises `SessionLocked` if it is open, `SessionVersionError` if a newer chatcli wrote it.
        """
        path = self._path(self.exact(name))
        with (
            files.explained(f"delete the session '{name}'"),
            os.fdopen(path.open(os.O_RDWR), "rb") as file,
        ):
            with self._locking(path):
                _lock(file.fileno(), path.stem)
            _check_still_there(file.fileno(), path)
            with contextlib.suppress(SessionUnreadable):
                parse(name, files.read_all(file.fileno()))
            history.forget(self.location, name)
            pins.forget(self.location, name)
            path.unlink()
            listing.forget_last_written(self.location, name)
            self.location.flush(through=True)
        return path.stem

    def discard(self, session: SessionFile) -> None:
        """Close a session without messages and delete it completely, even on a full disk."""
        with contextlib.suppress(OSError, FolderError):
            session.location.unlink(missing_ok=True)
            listing.forget_last_written(self.location, session.name)
            session.close()

    def _not_found(self, name: str, names: list[str], matches: list[str]) -> str:
        if matches:
            return f"'{name}' matches {_listed(matches)}: type more of the name."
        missing = f"There is no session '{name}' in {files.with_tilde(Path(str(self.location)))}."
        if similar := difflib.get_close_matches(name, names, 3):
            return f"{missing} Did you mean {_listed(similar)}?"
        return f"{missing} In a chat /resume lists them, and outside: {self.command('list')}"

    def _path(self, name: str) -> Location:
        return listing.location(self.location, name)


class SessionFile(SessionLog):
    """A session with a file, which this process locks and appends to."""

    is_saved = True
    location: Location

    def __init__(self, path: Location, name: str | None = None) -> None:
        """`name` is its final name, if the file has a temporary name until `publish`."""
        self.location = self.temporary = path
        self.closed = False
        self._is_published = name is None
        self._descriptor = path.open(os.O_RDWR | os.O_APPEND)
        try:
            _lock(self._descriptor, name or path.stem)
            _check_still_there(self._descriptor, path)
            data = files.read_all(self._descriptor)
            super().__init__(parse(name or path.stem, data))
            torn_at = self.transcript.torn_at
            self._size = len(data) if torn_at is None else torn_at
            self._torn = torn_at is not None
            self._flusher = SerialExecutor("chatcli-flush")
            self._writing = threading.RLock()
            self._flushing: Future[None] | None = None
            self._cut_torn_line()
            # Interrupted replies become entries. On a full disk they stay parts.
            conversation = self.conversation
            entries = [conversation.entries[entry_id] for entry_id in sorted(self.transcript.interrupted)]
            with contextlib.suppress(FolderError):
                for entry in entries:
                    self.write(entry_line(entry))
                if entries and entries[-1].id != conversation.head:
                    self.write({"type": "head", "id": conversation.head})
        except BaseException:
            os.close(self._descriptor)
            raise
        _open_files.add(self)

    @property
    def path(self) -> Path:
        """The file's path, for messages."""
        return self.location.path

    def _cut_torn_line(self) -> None:
        """Cut off a line that a failed write or a killed process left unfinished."""
        if self._torn:
            os.ftruncate(self._descriptor, self._size)
            self._torn = False

    def write(self, line: Mapping[str, Any], *, wait: bool = True, flush: bool = True) -> None:
        """Append a line and wait until it is on disk. Raises `FolderError`, and then keeps no part of it.

        Without `wait` it survives this process but not yet a power failure; without `flush` the system
        decides when it does.
        """
        data = encode(line)
        with self._writing, files.explained(f"save to the session '{self.name}'"):
            self._cut_torn_line()
            self._check_ours()
            try:
                files.write_all(self._descriptor, data)
                if flush and self._is_published:  # otherwise everything is flushed together
                    flushing, self._flushing = self._flushing, None
                    if flushing is not None:
                        flushing.result()  # raises the flush thread's errors
                    if wait:
                        files.flush(self._descriptor)
                    else:
                        self._flushing = self._flusher.submit(files.flush, self._descriptor)
                    listing.note_last_written(self.location.parent, self.name)
            except BaseException:
                self._torn = True
                with contextlib.suppress(OSError):
                    self._cut_torn_line()
                raise
            self._size += len(data)

    def publish(self, path: Location) -> None:
        """Give a session with a temporary name its final one, once all of it is on disk.

        Raises `FileExistsError`, and `OSError`.
        """
        files.flush(self._descriptor)
        self.location.link(path)
        self.location.unlink()
        path.parent.flush()
        self.location, self._is_published = path, True
        listing.note_last_written(self.location.parent, self.name)

    def _check_ours(self) -> None:
        """Raise `FolderError` if the file at the session's path was replaced or changed."""
        facts = os.fstat(self._descriptor)
        if not (self.location.is_where_named() and _same(facts, self.location)):
            raise FolderError(
                f"Cannot save to the session '{self.name}': its file was deleted, moved or replaced. "
                "In a chat, /branch keeps the conversation in a new session."
            )
        if facts.st_size != self._size:
            raise FolderError(
                f"Cannot save to the session '{self.name}': another program has changed its file. "
                "Leave, check it, and open the session again."
            )

    def moved(self, path: Location) -> None:
        """Note that the file has been renamed."""
        with self._writing:
            self.location, self.name = path, path.stem

    def close(self) -> None:
        """Flush and close the file, which is closed even if this raises `FolderError`. Later calls do
        nothing.
        """
        # The system reuses a closed file's number.
        if self.closed:
            return
        self.closed = True
        self._flusher.shutdown()
        os.close(self._descriptor)
        if self._flushing is not None:
            with files.explained(f"save to the session '{self.name}'"):
                self._flushing.result()

    def __enter__(self) -> SessionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_open_files: weakref.WeakSet[SessionFile] = weakref.WeakSet()


def _leave_files_to_parent() -> None:
    """In a forked process, disown the files: they and their locks belong to the parent."""
    for file in _open_files:
        if not file.closed:
            os.close(file._descriptor)
            file.closed, file._descriptor = True, FORKED


os.register_at_fork(after_in_child=_leave_files_to_parent)


def slug(text: str) -> str:
    """A session's name: the first words of its first message, without filler words at the end."""
    words = re.findall(r"[^\W_]+", re.sub("['’]", "", text.lower()))
    kept: list[str] = []
    for word in words:
        if len("-".join((*kept, word))) > MAX_SLUG_LENGTH:
            break
        kept.append(word)
    end = len(kept)
    while end and FILLERS.fullmatch(kept[end - 1]):
        end -= 1
    return "-".join(kept[:end] or kept) or time.strftime("chat-%Y%m%d-%H%M%S")


def _lock(descriptor: int, name: str) -> None:
    """Raises `SessionLocked` if the lock is not released soon."""
    deadline = time.monotonic() + LOCK_SECONDS
    while not files.lock(descriptor, wait=False):
        if time.monotonic() > deadline:
            raise SessionLocked(f"The session '{name}' is open in another chatcli")
        time.sleep(LOCK_POLL_SECONDS)


def _check_still_there(descriptor: int, path: Location) -> None:
    """Raise `SessionNotFound` if another process removed the file before it was locked."""
    if not _same(os.fstat(descriptor), path):
        raise SessionNotFound(f"The session '{path.stem}' no longer exists.")


def _same(facts: os.stat_result, path: Location) -> bool:
    try:
        return os.path.samestat(facts, path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _listed(names: list[str]) -> str:
    return listed([f"'{name}'" for name in names])
