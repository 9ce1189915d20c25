"""What a folder of sessions and checkpoints needs now and then; refuses to know MLX and terminals."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from chatcli import files
from chatcli.errors import ChatcliError
from chatcli.store.segments import eviction
from chatcli.store.segments.eviction import Removal
from chatcli.store.sessions import images
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.listing import SUFFIX

# In a reply's record. What was said cannot look so: quotes are escaped there.
MODEL = re.compile(rb'"model": ?("(?:[^"\\]|\\.)*"), ?"fingerprint": ?"([0-9a-f]{32})"')


def delete(folder: SessionFolder, name: str) -> int:
    """Remove a session, and the images and everything under `kv` that no other session names.

    Nothing of it can be found in the folder then. Returns the bytes of checkpoints that came free.
    """
    folder.delete(name)
    with files.explained(f"delete the checkpoints of '{name}'"):
        needed = eviction.named(transcripts(folder.folder))
        doomed = list(eviction.unneeded(folder.folder, needed, grace=0))
        freed = eviction.remove([*eviction.leftovers(folder.folder), *doomed])
    with files.explained(f"delete the images of '{name}'"):
        images.sweep(folder.folder, lambda: transcripts(folder.folder))
    return freed


def collectable(folder: SessionFolder, limit: int) -> list[Removal]:
    """What no session needs and what is over `limit` bytes, each file once. Raises `OSError`."""
    sessions = folder.folder
    needless = [
        *eviction.leftovers(sessions),
        *eviction.held_twice(sessions),
        *eviction.unneeded(sessions, eviction.named(transcripts(sessions))),
    ]
    surplus = eviction.over_limit(sessions, limit, open_segments(sessions), needless)
    return list({one.path: one for one in (*needless, *surplus)}.values())


def open_segments(sessions: Path, own: Path | None = None) -> set[str]:
    """The segments of the sessions that are open in some process now, without those of `own`."""
    others = (path for path in transcripts(sessions) if path != own)
    return eviction.named(path for path in others if files.is_locked(path))


def transcripts(sessions: Path) -> list[Path]:
    return sorted(sessions.glob(f"*{SUFFIX}"))


def model_names(sessions: Path) -> dict[str, str]:
    """The models' names by their fingerprints, as the replies in transcripts tell them."""
    found: dict[str, str] = {}
    for path in transcripts(sessions):
        with contextlib.suppress(OSError):
            for name, fingerprint in MODEL.findall(path.read_bytes()):
                with contextlib.suppress(ValueError):  # not as it was written
                    found[fingerprint.decode()] = json.loads(name)
    return found


def damaged_transcripts(folder: SessionFolder) -> list[str]:
    """What is wrong with each transcript, in a sentence."""
    return [problem for name in folder.names() for problem in _problems(folder, name)]


def _problems(folder: SessionFolder, name: str) -> Iterator[str]:
    try:
        yield from (f"{name}: {problem}" for problem in folder.read(name).problems)
    except ChatcliError as error:
        yield str(error)
