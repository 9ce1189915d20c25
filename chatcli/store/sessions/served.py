"""What a server remembers about its replies, in one private file.

Each line describes one reply: an id derived from the conversation, its record, and what a later process
needs. A later line with the same id adds to it. Lines expire after some days.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from chatcli import files
from chatcli.files import Location
from chatcli.records import valid_record

NAME = ".served"
# Clients continue conversations within days, if at all.
FORGET_SECONDS = 7 * 24 * 3600.0
# If the file is larger, the older half of its lines is dropped.
MAX_BYTES = 16 << 20
# Text fields of a line, besides the record.
FACTS = ("date", "session", "kept_as", "system")


def replies(folder: Location) -> dict[str, dict[str, Any]]:
    """The replies that have not expired, by id, oldest first. Raises `OSError`."""
    with files.opened_locked(folder / NAME, os.O_RDONLY) as descriptor:
        lines = list(_lines(files.read_all(descriptor))) if descriptor is not None else []
    known: dict[str, dict[str, Any]] = {}
    for line in lines:
        before = known.pop(line["id"], {})
        record = {**before.get("record", {}), **line["record"]}
        known[line["id"]] = {**before, **line, "record": record}
    return known


def append(folder: Location, reply: Mapping[str, Any]) -> None:
    """Add a reply, or more of one. Raises `OSError`."""
    line = json.dumps({"time": round(time.time(), 3), **reply}).encode() + b"\n"
    with files.opened_locked(folder / NAME, os.O_RDWR | os.O_CREAT) as descriptor:
        assert descriptor is not None
        size = os.lseek(descriptor, 0, os.SEEK_END)
        # A killed process may have left an unfinished line.
        torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
        files.write_all(descriptor, b"\n" + line if torn else line)
        if size + len(line) > MAX_BYTES:
            lines = list(_lines(files.read_all(descriptor)))
            _rewrite(descriptor, lines[len(lines) // 2 :])


def tidy(folder: Location) -> None:
    """Drop expired lines. Raises `OSError`."""
    with files.opened_locked(folder / NAME, os.O_RDWR) as descriptor:
        if descriptor is not None:
            _rewrite(descriptor, list(_lines(files.read_all(descriptor))))


def forget(folder: Location, session: str) -> None:
    """Drop the replies that are saved in a session. Raises `OSError`."""
    with files.opened_locked(folder / NAME, os.O_RDWR) as descriptor:
        if descriptor is None:
            return
        lines = list(_lines(files.read_all(descriptor)))
        gone = {line["id"] for line in lines if line.get("session") == session}
        if gone:
            _rewrite(descriptor, [line for line in lines if line["id"] not in gone])


def segment_ids(folder: Location) -> set[str]:
    """The ids of the segments that these replies name."""
    with contextlib.suppress(OSError):
        records = [reply["record"] for reply in replies(folder).values()]
        keys = "segments", "reply_segments"
        return {str(name) for record in records for key in keys for name in record.get(key, ())}
    return set()


def _rewrite(descriptor: int, lines: list[dict[str, Any]]) -> None:
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    if len(data) != os.fstat(descriptor).st_size:
        files.overwrite(descriptor, data)


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The lines that have not expired, without damaged ones."""
    oldest = time.time() - FORGET_SECONDS
    for line in data.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            fields = json.loads(line)
            texts = ("id", *(name for name in FACTS if name in fields))
            if all(isinstance(fields[name], str) for name in texts) and fields["time"] > oldest:
                yield {**fields, "record": valid_record(fields.get("record", {}))}
