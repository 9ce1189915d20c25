"""Transcripts: one append-only JSON-lines file per session; refuses to know tensors.

Each line is one fact, flushed before it is acted on. A torn last line is what a crash leaves: it is
dropped. Any other bad line is skipped and reported. A file from a newer version is refused.
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli.conversation import Conversation, Entry, Message, new_id
from chatcli.errors import (
    ChatcliError,
    FolderError,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    SessionUnreadable,
    SessionVersionError,
)
from chatcli.store import files

SESSION_VERSION = 1
SUFFIX = ".jsonl"
LONGEST_SLUG = 32


@dataclass
class Transcript:
    """A session as it is on disk: the conversation, and what was wrong with the file."""

    name: str
    conversation: Conversation
    problems: list[str] = field(default_factory=list)
    torn_at: int | None = None


@dataclass(frozen=True)
class Summary:
    """A session in a listing. `problem` replaces the rest for a file that cannot be read."""

    name: str
    turns: int = 0
    first_words: str = ""
    model: str | None = None
    last_used: float = 0.0
    problem: str | None = None


class SessionFolder:
    """The folder of sessions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Every session, last used first. Raises `FolderError` if the folder cannot be read."""
        with files.explained(f"read the sessions folder {self.folder}"):
            try:
                entries = [Path(entry) for entry in os.scandir(self.folder)]
            except FileNotFoundError:
                return []
            found = [path for path in entries if path.suffix == SUFFIX]
        return [path.stem for path in sorted(found, key=_modified, reverse=True)]

    def latest(self) -> str:
        """The session that was used last. Raises `SessionNotFound` if there is none."""
        names = self.names()
        if not names:
            raise SessionNotFound("There is no saved session yet: start one with 'chatcli'.")
        return names[0]

    def resolve(self, name: str) -> str:
        """A session's full name from itself or an unambiguous beginning of it."""
        files.check_name(name)
        names = self.names()
        if name in names:
            return name
        matches = [other for other in names if other.startswith(name)]
        if len(matches) == 1:
            return matches[0]
        raise SessionNotFound(_not_found(name, names, matches))

    def exact(self, name: str) -> str:
        """`name` if there is such a session: what cannot be undone takes no beginnings of names."""
        files.check_name(name)
        names = self.names()
        if name not in names:
            raise SessionNotFound(_not_found(name, names, []))
        return name

    def exists(self, name: str) -> bool:
        return self._path(name).exists()

    def free_name(self, wanted: str) -> str:
        """`wanted`, or `wanted-2`, `wanted-3`, … if that is taken."""
        taken = set(self.names())
        numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
        return next(name for name in (wanted, *numbered) if name not in taken)

    def read(self, name: str) -> Transcript:
        """A session without locking it."""
        path = self._path(self.resolve(name))
        with files.explained(f"read the session '{name}'"):
            data = path.read_bytes()
        return parse(path.stem, data)

    def summaries(self) -> list[Summary]:
        """Every session for a listing; one that cannot be read is listed with its problem."""
        return [self._summary(name) for name in self.names()]

    def _summary(self, name: str) -> Summary:
        try:
            conversation = self.read(name).conversation
        except ChatcliError as error:
            return Summary(name, problem=str(error))
        turns = conversation.turns()
        words = turns[0].user.message.content if turns else ""
        return Summary(name, len(turns), words, conversation.model, _modified(self._path(name)))

    def create(
        self,
        name: str,
        *,
        model: str | None,
        system: str | None,
        date: str | None = None,
        branched_from: str | None = None,
    ) -> SessionFile:
        """A new, locked, empty session that keeps `date` (default: today). Raises `SessionExists`."""
        files.check_name(name)
        files.private_folder(self.folder)
        header = {
            "type": "session", "version": SESSION_VERSION, "created": round(time.time(), 3),
            "date": date or datetime.date.today().isoformat(),
            "model": model, "system": system, "branched_from": branched_from,
        }  # fmt: skip
        with files.explained(f"write to the sessions folder {self.folder}"):
            try:
                files.create(self._path(name), _line(header))
            except FileExistsError:
                raise SessionExists(
                    f"There is a session '{name}' already: choose another name, "
                    f"or go on with 'chatcli resume {name}'."
                ) from None
        return self.open(name)

    def open(self, name: str) -> SessionFile:
        """A session, locked for writing. Raises `SessionLocked` if another process has it."""
        path = self._path(self.resolve(name))
        with files.explained(f"open the session '{path.stem}' for writing"):
            return SessionFile(path)

    def rename(self, name: str, new_name: str) -> str:
        """Give a session another name. Raises `SessionExists`, and `SessionLocked` if it is open."""
        with self.open(self.exact(name)):
            return self.rename_open(name, new_name)

    def rename_open(self, name: str, new_name: str) -> str:
        """`rename`, for a session that the caller has open."""
        old = self._path(self.exact(name))
        new = self._path(files.check_name(new_name))
        with files.explained(f"rename the session '{old.stem}'"):
            try:
                new.hardlink_to(old)
            except FileExistsError:
                raise SessionExists(f"There is a session '{new_name}' already.") from None
            old.unlink()
        return new.stem

    def delete(self, name: str) -> str:
        """Remove a session's transcript, also a damaged one.

        Raises `SessionLocked` if it is open, `SessionVersionError` if a newer chatcli wrote it.
        """
        path = self._path(self.exact(name))
        with files.explained(f"delete the session '{name}'"):
            descriptor = os.open(path, os.O_RDWR)
            try:
                _lock(descriptor, path.stem)
                with contextlib.suppress(SessionUnreadable):
                    parse(path.stem, path.read_bytes())
                path.unlink()
            finally:
                os.close(descriptor)
        return path.stem

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{SUFFIX}"


class SessionFile:
    """An open session: its conversation in memory, its file locked and appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            _lock(self._descriptor, path.stem)
            _check_still_there(self._descriptor, path)
            self.transcript = parse(path.stem, path.read_bytes())
            self._mend()
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def conversation(self) -> Conversation:
        return self.transcript.conversation

    def _mend(self) -> None:
        if self.transcript.torn_at is not None:
            os.ftruncate(self._descriptor, self.transcript.torn_at)

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one fact and wait until it is on disk. Raises `FolderError`; nothing is half kept."""
        data = _line(line)
        before = os.fstat(self._descriptor).st_size
        try:
            with files.explained(f"save to the session '{self.name}'"):
                _write_all(self._descriptor, data)
                os.fsync(self._descriptor)
        except FolderError:
            os.ftruncate(self._descriptor, before)
            raise

    def append(self, message: Message, parent: str | None, **facts: Any) -> Entry:
        """Hang a message under `parent`; on disk when this returns."""
        entry = Entry(new_id(), parent, message, time.time(), **facts)
        self.write(_entry_line(entry))
        return self.conversation.add(entry)

    def copy(self, entry: Entry) -> None:
        """Take over an entry of another session, as it is."""
        self.write(_entry_line(entry))
        self.conversation.add(entry)

    def note(self, entry: Entry, record: Mapping[str, Any]) -> None:
        """Add numbers to a reply that is written already."""
        self.write({"type": "note", "id": entry.id, "record": dict(record)})
        self.conversation.note(entry.id, record)

    def move_head(self, entry_id: str | None) -> None:
        """Continue from another entry from now on."""
        if entry_id != self.conversation.head:
            self.write({"type": "head", "id": entry_id})
            self.conversation.head = entry_id

    def set_system(self, system: str | None) -> None:
        if system != self.conversation.system:
            self.write({"type": "system", "content": system})
            self.conversation.system = system

    def set_model(self, model: str) -> None:
        if model != self.conversation.model:
            self.write({"type": "model", "model": model})
            self.conversation.model = model

    def moved(self, path: Path) -> None:
        """The file has been renamed."""
        self.path = path

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> SessionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def slug(text: str) -> str:
    """A session's name from its first message."""
    words = re.findall(r"[^\W_]+", re.sub("['’]", "", text.lower()))
    name = ""
    for word in words:
        if len(name) + len(word) + 1 > LONGEST_SLUG:
            break
        name = f"{name}-{word}" if name else word
    return name or time.strftime("chat-%Y%m%d-%H%M%S")


def parse(name: str, data: bytes) -> Transcript:
    """A session from its file's bytes. Raises `SessionUnreadable` or `SessionVersionError`."""
    whole, _, torn = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    transcript = Transcript(name, _conversation(name, lines[:1]))
    for number, line in enumerate(lines[1:], start=2):
        try:
            _apply(transcript.conversation, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            transcript.problems.append(f"line {number} of the session '{name}' is damaged: skipped")
    if torn:
        transcript.torn_at = len(data) - len(torn)
        transcript.problems.append(f"an unfinished last line ({len(torn)} bytes) was dropped")
    return transcript


def _conversation(name: str, first_line: list[bytes]) -> Conversation:
    try:
        header = json.loads(first_line[0])
        version = header["version"]
        known = header["type"] == "session" and isinstance(version, int)
        if known and version <= SESSION_VERSION:
            date = datetime.date.fromisoformat(header["date"]).isoformat()
            return Conversation(date, header.get("system"), header.get("model"))
    except (IndexError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SessionUnreadable(_unreadable(name)) from error
    if not known:
        raise SessionUnreadable(_unreadable(name))
    raise SessionVersionError(
        f"The session '{name}' was written by a newer chatcli (format {version}): "
        "upgrade chatcli to open it. It has not been touched."
    )


def _unreadable(name: str) -> str:
    return (
        f"The session '{name}' cannot be read: its first line is damaged. It has not been touched."
    )


def _apply(conversation: Conversation, line: dict[str, Any]) -> None:
    kind = line["type"]
    if kind in ("user", "assistant"):
        conversation.add(_entry(line))
    elif kind == "note":
        conversation.note(line["id"], line["record"])
    elif kind == "head":
        conversation.head = conversation.entries[line["id"]].id if line["id"] else None
    elif kind == "system":
        conversation.system = line["content"]
    elif kind == "model":
        conversation.model = line["model"]


def _entry(line: dict[str, Any]) -> Entry:
    message = Message(line["type"], str(line["content"]), str(line.get("thinking", "")))
    reason, record = line.get("finish_reason"), dict(line.get("record", {}))
    return Entry(line["id"], line["parent"], message, float(line["time"]), reason, record)


def _entry_line(entry: Entry) -> dict[str, Any]:
    message = entry.message
    line: dict[str, Any] = {
        "type": message.role, "id": entry.id, "parent": entry.parent,
        "content": message.content, "time": round(entry.created, 3),
    }  # fmt: skip
    if message.role == "assistant":
        line["thinking"] = message.thinking
        line["finish_reason"] = entry.finish_reason
        line["record"] = dict(entry.record)
    return line


def _line(fact: Mapping[str, Any]) -> bytes:
    return (json.dumps(fact, ensure_ascii=False) + "\n").encode()


def _modified(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


def _lock(descriptor: int, name: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionLocked(
            f"The session '{name}' is open in another chatcli: close it there, "
            f"or go on in a copy with 'chatcli branch {name}'."
        ) from None


def _check_still_there(descriptor: int, path: Path) -> None:
    """Raise `SessionNotFound` if another process took the file away before it was locked."""
    try:
        same = os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        same = False
    if not same:
        raise SessionNotFound(f"There is no session '{path.stem}' any more.")


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _not_found(name: str, names: list[str], matches: list[str]) -> str:
    if matches:
        return f"'{name}' could be any of {_listed(matches)}: give more of the name."
    close = difflib.get_close_matches(name, names, 3)
    hint = f" Did you mean {_listed(close)}?" if close else " 'chatcli list' shows them all."
    return f"There is no session '{name}'.{hint}"


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:5])


def recovered(transcript: Transcript) -> Iterator[str]:
    """What opening this session found and mended, in sentences."""
    yield from transcript.problems
    lost = transcript.conversation.unanswered()
    if lost is not None:
        turn = len(transcript.conversation.turns())
        yield f"turn {turn} was sent but its reply was cut off: the message is kept"
