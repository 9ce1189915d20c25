"""Deletes and pins sessions, and finds files that are damaged or can be removed."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from chatcli import files
from chatcli.errors import ChatcliError, UsageError
from chatcli.files import Location
from chatcli.store.segments import catalog, eviction, inventory
from chatcli.store.segments.eviction import Removal
from chatcli.store.sessions import images, listing, pins, served
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.listing import SUFFIX
from chatcli.text import file_size

# Matches in a reply's record only: in the text of a message quotes are escaped.
MODEL = re.compile(rb'"model": ?("(?:[^"\\]|\\.)*"), ?"fingerprint": ?"([0-9a-f]{32})"')


def delete(folder: SessionFolder, name: str) -> int:
    """Remove a session, and the images and everything under `kv` that no other session names.

    Nothing of it is left in the folder. Returns the bytes of checkpoints that were freed.
    """
    folder.delete(name)
    with files.explained(f"delete the checkpoints of '{name}'"):
        served.forget(folder.location, name)
        needed = _needed_ids(folder.location)
        unneeded = eviction.unneeded(folder.location, needed, grace=0)
        freed = eviction.remove([*eviction.leftovers(folder.location), *unneeded])
    with files.explained(f"delete the images of '{name}'"):
        images.sweep(folder.location, lambda: transcripts(folder.location))
    return freed


def collectable(folder: SessionFolder, limit: int) -> list[Removal]:
    """The files that no session needs or that exceed `limit` bytes, each once. Raises `OSError`."""
    sessions = folder.location
    unneeded = [
        *eviction.leftovers(sessions),
        *eviction.held_twice(sessions),
        *eviction.unneeded(sessions, _needed_ids(sessions)),
    ]
    surplus = eviction.over_limit(sessions, limit, open_segments(sessions), unneeded)
    return list({removal.path: removal for removal in (*unneeded, *surplus)}.values())


def _needed_ids(sessions: Location) -> set[str]:
    """The ids of the segments that sessions and recently served conversations name."""
    return eviction.named_ids(transcripts(sessions)) | served.segment_ids(sessions)


def open_segments(sessions: Path | Location, own: Location | None = None) -> set[str]:
    """The ids of the segments of all sessions that are open in any process, except `own`."""
    others = (path for path in transcripts(sessions) if path != own)
    return eviction.named_ids(path for path in others if files.is_locked(path))


def pin(folder: SessionFolder, name: str, limit: int) -> int:
    """Protect the checkpoints of a session from eviction. Returns their bytes.

    Raises `UsageError` if those of all pinned sessions would take more than `limit`.
    """
    with files.explained(f"pin '{name}'"):
        names = {*pins.names(folder.location), name}
        sizes = pinned_bytes(folder.location, names)
        if (total := sum(sizes.values())) > limit:
            raise UsageError(
                f"The pinned conversations would take {file_size(total)}, but the limit for all checkpoints "
                f"is {file_size(limit)}: raise it with --cache-limit."
            )
        pins.add(folder.location, name)
    return sizes[name]


def unpin(folder: SessionFolder, name: str) -> None:
    """Allow a session's checkpoints to be evicted again."""
    with files.explained(f"unpin '{name}'"):
        pins.forget(folder.location, name)


def pinned_bytes(sessions: Location, names: Iterable[str]) -> dict[str, int]:
    """The bytes of each session's checkpoints; shared checkpoints count for the first session."""
    sizes = {
        path.name: (catalog.last_id(path.name), entry.stat(follow_symlinks=False).st_size)
        for model in inventory.models(sessions)
        for path, entry in inventory.entries(model)
    }
    bytes_of: dict[str, int] = {}
    for name in names:
        ids = eviction.named_ids([listing.location(sessions, name)])
        digits = {each[: catalog.NAME_DIGITS] for each in ids}
        own = [each for each, (last, _) in sizes.items() if last in digits]
        bytes_of[name] = sum(sizes.pop(each)[1] for each in own)
    return bytes_of


def transcripts(sessions: Path | Location) -> list[Location]:
    """The session files. Raises `OSError`."""
    folder = Location.of(sessions)
    with contextlib.suppress(FileNotFoundError):
        return sorted(folder / name for name in folder.names() if name.endswith(SUFFIX))
    return []


@dataclass(frozen=True)
class Written:
    """Bytes of checkpoints that sessions have written, by their names and by day (ISO 8601)."""

    sessions: Mapping[str, int]
    days: Mapping[str, int]


def written(folder: SessionFolder) -> Written:
    """Sum up the records of all sessions. A turn shared by branches counts once. Raises `OSError`."""
    sessions, days, counted = Counter[str](), Counter[str](), set[str]()
    for name in sorted(folder.names()):
        with contextlib.suppress(ChatcliError):
            for entry in folder.read(name).conversation.entries.values():
                size = entry.record.get("checkpoint_bytes", 0) + entry.record.get("upkeep_bytes", 0)
                if size and entry.id not in counted:
                    counted.add(entry.id)
                    sessions[name] += size
                    days[date.fromtimestamp(entry.created).isoformat()] += size
    return Written(dict(sessions), dict(days))


def model_names(sessions: Path | Location) -> dict[str, str]:
    """Model names by fingerprint, from the replies' records in transcripts."""
    names: dict[str, str] = {}
    for path in transcripts(sessions):
        with contextlib.suppress(OSError):
            for name, fingerprint in MODEL.findall(path.read_bytes()):
                with contextlib.suppress(ValueError):  # a damaged line
                    names[fingerprint.decode()] = json.loads(name)
    return names


def damaged_transcripts(folder: SessionFolder) -> list[str]:
    """One sentence for each damaged transcript."""
    problems: list[str] = []
    for name in folder.names():
        try:
            problems += [f"{name}: {problem}" for problem in folder.read(name).problems]
        except ChatcliError as error:
            problems.append(str(error))
    return problems
