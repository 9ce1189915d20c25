"""Lists a folder of sessions: names by age, a summary of each, contents.

Ten thousand sessions are listed while a person waits. So a session without branches is summarized by
the beginnings of its lines, and only one with branches or damage is parsed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, zip_longest
from operator import itemgetter
from pathlib import Path

from chatcli import files
from chatcli.conversation import attachments
from chatcli.errors import ChatcliError, FolderError
from chatcli.store.sessions.transcript import DAMAGE, decode, header, parse

# Threads that read, and sessions that they are ahead of the consumer.
READERS, READ_AHEAD = 16, 256
SUFFIX = ".jsonl"
PLAIN_NAME = re.compile(r"\w[\w-]{0,79}", re.ASCII)
USER = b'\n{"type": "user"'
# The beginning of a line that adds a message, or that changes neither the head's turn nor the model.
FORWARD = re.compile(
    rb'\n\{"type": "(?:(user|assistant)", "id": "(\w+)", "parent": (?:null|"(\w+)"), "content": "'
    rb'|(?:note|part)", "id": "|(?:system|template|running|set)", ")'
)

# A file's modification time and bytes, why it cannot be read, or None if it is gone.
Read = tuple[float, bytes] | ChatcliError | None


@dataclass(frozen=True)
class Summary:
    """A session in a listing. `problem` replaces the rest for a file that cannot be read."""

    name: str
    turns: int = 0
    first_words: str = ""
    model: str | None = None
    last_used: float = 0.0
    problem: str | None = None


def names(folder: Path) -> list[str]:
    """Every session, in no order. Raises `FolderError` if the folder cannot be read."""
    return [_name(entry) for entry in _sessions(folder)]


def by_age(folder: Path) -> list[str]:
    """Every session, last used first. Raises `FolderError` if the folder cannot be read."""
    return [_name(entry) for entry in _by_age(folder)]


def summaries(folder: Path, newest: int | None = None) -> list[Summary]:
    """Every session or the newest, last used first; one that cannot be read has a `problem`."""
    dated = []
    for entry in _sessions(folder) if newest is None else _by_age(folder)[:newest]:
        with contextlib.suppress(FileNotFoundError):
            modified, summary = _summary(_name(entry), entry)
            dated.append((-modified, summary.name, summary))
    return [summary for _, _, summary in sorted(dated, key=itemgetter(0, 1))]


def contents(folder: Path, report: Callable[[str], object]) -> Iterator[tuple[str, float, bytes]]:
    """Every session, last used first: its name, modification time and bytes.

    `report` gets a sentence about each that cannot be read. Raises `FolderError` if the folder cannot be.
    """
    entries = _by_age(folder)
    # A disk gives many small files quickest if several are asked for at a time.
    with ThreadPoolExecutor(READERS, "chatcli-reader") as readers:
        for start in range(0, len(entries), READ_AHEAD):
            ahead = entries[start : start + READ_AHEAD]
            try:
                parts = readers.map(_read_each, (ahead[at::READERS] for at in range(READERS)))
            except RuntimeError:  # no thread can start: the program is ending
                return
            # Sessions were dealt to the readers round-robin.
            for name, read in filter(None, chain.from_iterable(zip_longest(*parts))):
                if isinstance(read, ChatcliError):
                    report(str(read))
                elif read is not None:
                    yield name, *read


def _read_each(entries: Sequence[os.DirEntry[str]]) -> list[tuple[str, Read]]:
    return [(name := _name(entry), _try_read(name, entry.path)) for entry in entries]


def _try_read(name: str, path: str) -> Read:
    try:
        if not PLAIN_NAME.fullmatch(name):
            files.check_name(name)
        return _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return FolderError(f"Cannot read the session '{name}': {error.strerror}.")
    except ChatcliError as error:
        return error


def read(path: Path) -> bytes:
    """A session's bytes. Raises `FolderError`."""
    with files.explained(f"read the session '{path.stem}'"):
        return _read(str(path))[1]


def _sessions(folder: Path) -> list[os.DirEntry[str]]:
    with files.explained(f"read the sessions folder {folder}"):
        try:
            with os.scandir(folder) as entries:
                return [entry for entry in entries if entry.name.endswith(SUFFIX)]
        except FileNotFoundError:
            return []


def _by_age(folder: Path) -> list[os.DirEntry[str]]:
    dated = []
    for entry in _sessions(folder):
        with contextlib.suppress(FileNotFoundError):
            dated.append((-entry.stat().st_mtime, entry.name, entry))
    return [entry for _, _, entry in sorted(dated, key=itemgetter(0, 1))]


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name[: -len(SUFFIX)]


def _read(path: str) -> tuple[float, bytes]:
    """A file's modification time and bytes. A pipe is not waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        facts = os.fstat(descriptor)
        return facts.st_mtime, os.read(descriptor, facts.st_size + 1)
    finally:
        os.close(descriptor)


def _summary(name: str, entry: os.DirEntry[str]) -> tuple[float, Summary]:
    """Its modification time and the summary. Raises `FileNotFoundError` if it has just gone."""
    try:
        modified, data = _read(entry.path)
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = f"Cannot read the session '{name}': {error.strerror}."
        return entry.stat().st_mtime, Summary(name, problem=problem)
    try:
        if not PLAIN_NAME.fullmatch(name):
            files.check_name(name)
        return modified, _scanned(name, data, modified) or _parsed(name, data, modified)
    except ChatcliError as error:
        return modified, Summary(name, problem=str(error))


def _parsed(name: str, data: bytes, modified: float) -> Summary:
    conversation = parse(name, data).conversation
    turns = conversation.turns()
    words = attachments.typed_text(turns[0].user.message.content) if turns else ""
    return Summary(name, len(turns), words, conversation.model, modified)


def _scanned(name: str, data: bytes, modified: float) -> Summary | None:
    """The summary of a conversation without branches; None if it must be parsed.

    JSON has no raw line feed within a text, so a line's beginning is never part of a message.
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
    """How many messages a person sent, if each entry continues the one before it; else None."""
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
