"""The composer's history for a folder of sessions: one private file.

Each line is one message or command with its session, so that it is deleted with the session.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from chatcli import files
from chatcli.files import Location
from chatcli.text import decodable

NAME = ".history"


@dataclass(frozen=True)
class Typed:
    """A message or command; `session` is None if it belongs to none.

    `pastes` are the places (start, end) of the long pastes in the text, in order.
    """

    session: str | None
    text: str
    pastes: tuple[tuple[int, int], ...] = ()


def entries(folder: Location) -> list[Typed]:
    """The history, oldest first, without damaged lines. Raises `OSError`."""
    with files.opened_locked(folder / NAME, os.O_RDONLY) as descriptor:
        return list(_parsed(files.read_all(descriptor))) if descriptor is not None else []


def append(folder: Location, typed: Sequence[Typed]) -> None:
    """Add to the history. Raises `OSError`."""
    with files.opened_locked(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor:
        assert descriptor is not None
        files.write_all(descriptor, _encoded(typed))


def forget(folder: Location, session: str) -> None:
    """Remove what was typed in a session. Raises `OSError`."""
    _rewrite(folder, lambda each: None if each.session == session else each)


def rename(folder: Location, session: str, new_name: str) -> None:
    """Move a renamed session's entries to its new name. Raises `OSError`."""
    _rewrite(folder, lambda each: replace(each, session=new_name) if each.session == session else each)


def clear(folder: Location) -> int:
    """Remove everything. Returns how many entries there were. Raises `OSError`."""
    count = len(entries(folder))
    (folder / NAME).unlink(missing_ok=True)
    return count


def _rewrite(folder: Location, change: Callable[[Typed], Typed | None]) -> None:
    with files.opened_locked(folder / NAME, os.O_RDWR) as descriptor:
        if descriptor is None:
            return
        before = list(_parsed(files.read_all(descriptor)))
        after = [changed for each in before if (changed := change(each)) is not None]
        if after != before:
            files.overwrite(descriptor, _encoded(after))


def _encoded(typed: Sequence[Typed]) -> bytes:
    lines = (
        json.dumps(
            {"session": each.session, "text": each.text} | ({"pastes": each.pastes} if each.pastes else {})
        )
        for each in typed
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _parsed(data: bytes) -> Iterator[Typed]:
    for line in data.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            fields = json.loads(line)
            session, text = fields["session"], fields["text"]
            pastes = tuple((start, end) for start, end in fields.get("pastes", ()))
            places = [0, *chain(*pastes), len(text)]
            is_typed = isinstance(text, str) and (session is None or isinstance(session, str))
            if is_typed and places == sorted(places):
                yield Typed(session, decodable(text), pastes)
