"""Searches the messages of every session, last used first.

A person waits while ten thousand sessions are searched, so only those whose bytes contain the words are
parsed.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from unicodedata import normalize

from chatcli.conversation.tree import Conversation, Entry, Role
from chatcli.errors import ChatcliError, UsageError
from chatcli.files import Location
from chatcli.store.sessions import listing
from chatcli.store.sessions.transcript import header, parse
from chatcli.text import clean_line

# Accents and other combining marks, which NFKD separates from their letters.
MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
QUERY = re.compile(r'"([^"]*)"?|([^\s"]+)')
# Characters that JSON escapes in a string.
ESCAPED = re.compile(r'["\\\x00-\x1f]')
# An interrupted reply is in parts, and a word may span two of them.
PART_OF_REPLY = b'\n{"type": "part"'
# The length of an excerpt, and of its text before the first match, in characters.
EXCERPT_LENGTH, EXCERPT_LEAD = 160, 40
# How many matches of a word are considered to place an excerpt.
MAX_MATCHES = 100


@dataclass(frozen=True)
class Hit:
    """A message that contains the words. `turn` is its number on the path to it.

    `on_path`: it is on the session's current path. `excerpt` is one clean line, `marks` the (start, end) of
    each word in it. `time` is when the message was written, `last_used` when the session was last used, both
    in seconds since the epoch.
    """

    session: str
    turn: int
    role: Role
    entry: str
    on_path: bool
    excerpt: str
    last_used: float
    time: float
    marks: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class SearchResult:
    """The hits of a search. `more`: there are older hits, which `all_command` lists."""

    words: Sequence[str]
    hits: Sequence[Hit]
    more: bool = False
    all_command: str = ""


def split(text: str) -> list[str]:
    """Split a typed query into words and quoted phrases."""
    return [phrase or word for phrase, word in QUERY.findall(text) if phrase or word]


def find(
    folder: Path | Location,
    words: Sequence[str],
    *,
    thinking: bool = False,
    report: Callable[[str], object] = lambda _: None,
) -> Iterator[Hit]:
    """The messages that contain all of these words and phrases, ignoring case and accents.

    `report` gets a sentence about each unreadable session. Raises `UsageError` if there is no word,
    `FolderError` if the folder cannot be read.
    """
    query = Query(words)
    if not query.patterns:
        raise UsageError("There is nothing to search for: type a word.")
    for name, last_used, data in listing.contents(Location.of(folder), report):
        try:
            conversation = _candidate(name, data, query)
        except ChatcliError as error:
            report(str(error))
            continue
        on_path = {entry.id for entry in conversation.path()} if conversation else set[str]()
        turns: dict[str | None, int] = {None: 0}
        for entry in conversation.entries.values() if conversation else ():
            role, created = entry.message.role, entry.created
            turns[entry.id] = turn = turns[entry.parent] + (role == "user")
            if query.held_by(text := _text(entry, thinking)):
                excerpt = _excerpt(text, query)
                marks, is_on_path = tuple(_marks(excerpt, query)), entry.id in on_path
                yield Hit(name, turn, role, entry.id, is_on_path, excerpt, last_used, created, marks)


def newest(hits: Iterator[Hit], words: Sequence[str], limit: int | None) -> SearchResult:
    """The first `limit` hits of a search (None: all)."""
    first = list(islice(hits, None if limit is None else limit + 1))
    return SearchResult(words, first[:limit], limit is not None and len(first) > limit)


def names(folder: Path | Location, words: str) -> set[str]:
    """The sessions with a message that contains all of these words, in the syntax of `split`.

    Unreadable sessions are left out. Raises `FolderError` if the folder cannot be read.
    """
    query, matching = Query(split(words)), set()
    for name, _, data in listing.contents(Location.of(folder), lambda _: None) if query.patterns else ():
        with contextlib.suppress(ChatcliError):
            conversation = _candidate(name, data, query)
            entries = conversation.entries.values() if conversation else ()
            if any(query.held_by(entry.message.content) for entry in entries):
                matching.add(name)
    return matching


class Query:
    """The words and phrases that a message must contain."""

    def __init__(self, words: Sequence[str]) -> None:
        terms = [term for word in words if (term := fold(word).split())]
        self.patterns = [re.compile(r"\s+".join(map(re.escape, term))) for term in terms]
        self._phrases = [pattern for pattern, term in zip(self.patterns, terms, strict=True) if len(term) > 1]
        self._words = [word for term in terms for word in term]
        self._pieces = [max(ESCAPED.split(word), key=len).encode() for word in self._words]

    def held_by(self, text: str) -> bool:
        folded = fold(text)
        return all(word in folded for word in self._words) and all(
            phrase.search(folded) for phrase in self._phrases
        )

    def may_be_in(self, raw: bytes) -> bool:
        """False if no string in this JSON contains the words. Raises `UnicodeDecodeError`."""
        if b"\\u" in raw or b"\\/" in raw:
            return True
        folded = fold_bytes(raw)
        return all(piece in folded for piece in self._pieces)

    def place(self, folded: str) -> int:
        """The offset at which an excerpt contains the most words."""
        starts = sorted(
            (match.start(), number)
            for number, pattern in enumerate(self.patterns)
            for match in islice(pattern.finditer(folded), MAX_MATCHES)
        )
        if len(self.patterns) == 1:
            return starts[0][0] if starts else 0
        seen = [
            len({number for at, number in starts[index:] if at < start + EXCERPT_LENGTH - EXCERPT_LEAD})
            for index, (start, _) in enumerate(starts)
        ]
        return starts[seen.index(max(seen))][0] if starts else 0


def fold(text: str) -> str:
    """`text` without case, accents and compatibility forms."""
    return fold_bytes(text.encode()).decode()


def fold_bytes(text: bytes) -> bytes:
    """`fold`, of UTF-8. Raises `UnicodeDecodeError`."""
    lower = text.lower()
    return lower if text.isascii() else BEYOND_ASCII.sub(lambda run: _fold_run(run[0]), lower)


@lru_cache(4096)
def _fold_run(run: bytes) -> bytes:
    """Folding a letter does not depend on its neighbours, so each run is folded separately."""
    return MARKS.sub("", normalize("NFKD", run.decode()).casefold()).encode()


def _candidate(name: str, data: bytes, query: Query) -> Conversation | None:
    """The parsed session, if it may contain the words. Raises `ChatcliError` if it cannot be read."""
    header(name, data[: max(data.find(b"\n"), 0)])
    with contextlib.suppress(UnicodeDecodeError):
        if PART_OF_REPLY not in data and not query.may_be_in(data):
            return None
    return parse(name, data).conversation


def _text(entry: Entry, thinking: bool) -> str:
    message = entry.message
    if not thinking or not message.thinking:
        return message.content
    return f"{message.content}\n\n{message.thinking}"


def _excerpt(text: str, query: Query) -> str:
    """One clean line of at most `EXCERPT_LENGTH` characters around the first match."""
    at = query.place(fold(text))
    # Folding changes lengths: count the characters whose folded text precedes the match.
    middle = at
    if not text.isascii():
        middle = bisect_right(range(len(text) + 1), at, key=lambda end: len(fold(text[:end]))) - 1
    start = max(middle - EXCERPT_LEAD, 0)
    before, after = text[start:middle], text[middle : middle + 2 * EXCERPT_LENGTH]
    if start:
        before = "…" + before[before.find(" ") + 1 :]
    line = clean_line(before + after)
    whole = len(line) <= EXCERPT_LENGTH and middle + 2 * EXCERPT_LENGTH >= len(text)
    return line if whole else line[: EXCERPT_LENGTH - 1].rstrip() + "…"


def _marks(excerpt: str, query: Query) -> Iterator[tuple[int, int]]:
    """The (start, end) of the words in an excerpt, in order, without overlaps."""
    folds = [char.lower() if char.isascii() else fold(char) for char in excerpt]
    origins = [index for index, letters in enumerate(folds) for _ in letters]
    folded = "".join(folds)
    spans = sorted(match.span() for pattern in query.patterns for match in pattern.finditer(folded))
    done = 0
    for begin, end in spans:
        start, stop = max(origins[begin], done), origins[end - 1] + 1
        if stop > start:
            yield start, stop
            done = stop
