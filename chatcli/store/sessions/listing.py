"""Lists a folder of sessions: names by age, a summary of each, contents.

A person waits while ten thousand sessions are listed, so only sessions with branches or damage are parsed.
Others are summarized from the beginnings of their lines.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chatcli import files
from chatcli.conversation import attachments
from chatcli.errors import ChatcliError, FolderError
from chatcli.files import Location
from chatcli.store.sessions.transcript import DAMAGE, decode, header, parse

SUFFIX = ".jsonl"
# The file that names the session that was written last.
LAST = ".last"
PLAIN_NAME = re.compile(r"\w[\w-]{0,79}", re.ASCII)
USER = b'\n{"type": "user"'
# How lines begin that add a message, or that change neither the head's turn nor the model.
FORWARD = re.compile(
    rb'\n\{"type": "(?:(user|assistant|tool)", "id": "(\w+)", "parent": (?:null|"(\w+)"), "content": "'
    rb'|(?:note|part)", "id": "|(?:system|template|running|set)", ")'
)

# A file's modification time and bytes, why it cannot be read, or None if it is gone.
Read = tuple[float, bytes] | ChatcliError | None


@dataclass(frozen=True)
class Summary:
    """A session in a listing. If the file cannot be read, only `problem` is set."""

    name: str
    turns: int = 0
    first_words: str = ""
    model: str | None = None
    last_used: float = 0.0
    problem: str | None = None


def names(folder: Location) -> list[str]:
    """Every session, unordered. Raises `FolderError` if the folder cannot be read."""
    return [_name(entry) for entry in _sessions(folder)]


def by_age(folder: Location) -> list[str]:
    """Every session, last used first. Raises `FolderError` if the folder cannot be read."""
    dated = []
    for entry in _sessions(folder):
        with contextlib.suppress(FileNotFoundError):
            dated.append((-entry.stat(follow_symlinks=False).st_mtime, _name(entry)))
    return [name for _, name in sorted(dated)]


def last_written(folder: Location) -> str | None:
    """The session that was written last, if known."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (folder / LAST).read_bytes(files.LONGEST_NAME_BYTES + 1).decode().removesuffix("\n")
    return None


def note_last_written(folder: Location, name: str) -> None:
    """Remember which session was written last. It is a hint: not flushed, and errors are ignored."""
    flags = os.O_WRONLY | os.O_CREAT
    with contextlib.suppress(OSError), files.opened_locked(folder / LAST, flags) as descriptor:
        assert descriptor is not None
        data = f"{name}\n".encode()
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))


def forget_last_written(folder: Location, name: str) -> None:
    """Forget a deleted session. Raises `OSError`."""
    if last_written(folder) == name:
        (folder / LAST).unlink(missing_ok=True)


def summaries(folder: Location, newest: int | None = None) -> list[Summary]:
    """Every session or the newest, last used first; an unreadable one has a `problem`."""
    gathered = []
    for name in by_age(folder)[:newest]:
        read = _try_read(folder, name)
        if isinstance(read, ChatcliError):
            gathered.append(Summary(name, problem=str(read)))
        elif read is not None:
            modified, data = read
            try:
                gathered.append(_scanned(name, data, modified) or _parsed(name, data, modified))
            except ChatcliError as error:
                gathered.append(Summary(name, problem=str(error)))
    return gathered


def contents(folder: Location, report: Callable[[str], object]) -> Iterator[tuple[str, float, bytes]]:
    """Every session, last used first: its name, modification time and bytes.

    `report` gets a sentence about each unreadable session. Raises `FolderError` for an unreadable folder.
    """
    for name in by_age(folder):
        read = _try_read(folder, name)
        if isinstance(read, ChatcliError):
            report(str(read))
        elif read is not None:
            yield name, *read


def _try_read(folder: Location, name: str) -> Read:
    try:
        if not PLAIN_NAME.fullmatch(name):
            files.check_name(name)
        with os.fdopen(location(folder, name).open(), "rb") as file:
            return os.fstat(file.fileno()).st_mtime, files.read_all(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        return FolderError(f"Cannot read the session '{name}': {error.strerror}.")
    except ChatcliError as error:
        return error


def location(folder: Location, name: str) -> Location:
    """The file of a session."""
    return folder / f"{name}{SUFFIX}"


def read(folder: Location, name: str) -> bytes:
    """A session's bytes. Raises `FolderError`."""
    with files.explained(f"read the session '{name}'"):
        return location(folder, name).read_bytes()


def _sessions(folder: Location) -> Iterator[os.DirEntry[str]]:
    with files.explained(f"read the sessions folder {folder}"), contextlib.suppress(FileNotFoundError):
        yield from (entry for entry in folder.scan() if entry.name.endswith(SUFFIX))


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name[: -len(SUFFIX)]


def _parsed(name: str, data: bytes, modified: float) -> Summary:
    conversation = parse(name, data).conversation
    turns = conversation.turns()
    words = attachments.typed_text(turns[0].user.message.content) if turns else ""
    return Summary(name, len(turns), words, conversation.model, modified)


def _scanned(name: str, data: bytes, modified: float) -> Summary | None:
    """The summary of a conversation without branches; None if the file must be parsed.

    JSON strings contain no raw line feed, so the beginning of a line is never inside a message.
    """
    turns = _turns(data)
    if turns is None:
        return None
    conversation = header(name, data[: data.find(b"\n")])
    start = data.find(USER) + 1
    try:
        first = decode(data[start : data.find(b"\n", start)])["content"] if turns else ""
        words = attachments.typed_text(first)
    except DAMAGE:
        return None
    return Summary(name, turns, words, conversation.model, modified)


def _turns(data: bytes) -> int | None:
    """The number of user messages if each entry continues the one before it; else None."""
    turns, last, seen = 0, None, set()
    find, match_line = data.find, FORWARD.match
    at, end = find(b"\n"), data.rfind(b"\n")
    while at < end:
        match = match_line(data, at)
        if match is None:
            return None
        role, identifier, parent = match.groups()
        if role is not None:
            if parent != last or identifier in seen:
                return None
            last = identifier
            seen.add(identifier)
            turns += role == b"user"
        at = find(b"\n", at + 1)
    return None if b"\0" in data else turns
