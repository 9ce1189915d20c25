"""Checks the sessions and their checkpoints by names and headers.

`cache verify` reads every byte, and `cache gc` removes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.store import maintenance
from chatcli.store.segments import budget, eviction, inventory
from chatcli.store.segments.container import Container
from chatcli.store.segments.eviction import Removal
from chatcli.store.segments.inventory import Item, Problem
from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import count, file_size

# How many headers of each model are read. Names are hashes, so the first are a random sample.
SAMPLE_FILES = 2000
NEARLY_FULL_SHARE = 0.9


def sessions(folder: SessionFolder, whole: bool) -> Iterator[Finding]:
    """Every transcript, parsed if `whole`, else opened. Raises `FolderError`."""
    damaged = (
        maintenance.damaged_transcripts(folder)
        if whole
        else [summary.problem for summary in folder.summaries() if summary.problem]
    )
    number = folder.count()
    if damaged:
        todo = f"The first: {damaged[0]} To see each: {folder.command('cache verify')}"
        yield problem(
            "sessions",
            f"{number:,}; damage in {count('place', len(damaged))}",
            todo,
            sessions=number,
            damaged=damaged,
        )
    else:
        yield ok("sessions", f"{number:,}", sessions=number)


def checkpoints(folder: Path, limit_bytes: int | None) -> Iterator[Finding]:
    """What they take on disk, of how much, and for how many models. Raises `OSError`."""
    usages = inventory.usage(folder)
    limit_bytes = budget.default_limit(folder) if limit_bytes is None else limit_bytes
    used = sum(usage.bytes for usage in usages)
    segments = sum(usage.segments for usage in usages)
    value = (
        f"{file_size(used)} of at most {file_size(limit_bytes)}: "
        f"{count('segment', segments)} for {count('model', len(usages))}"
    )
    data = {"bytes": used, "limit_bytes": limit_bytes, "segments": segments, "models": len(usages)}
    if (folder / "kv").exists() and not (folder / "kv").is_dir():
        todo = "Move that file away: nothing can be saved until then."
        yield problem("checkpoints", f"{folder / 'kv'} is not a folder", todo, **data)
    elif used > NEARLY_FULL_SHARE * limit_bytes:
        todo = "The least useful are evicted first. To keep more: chatcli config cache_limit SIZE"
        yield advice("checkpoints", value, todo, **data)
    else:
        yield ok("checkpoints", value, **data)


def headers(sessions: SessionFolder) -> Iterator[Finding]:
    """Whether files are what their names say, as far as their headers show."""
    models = inventory.models(sessions.folder)
    files = [file for model in models for file in islice(_headers(model), SAMPLE_FILES)]
    read, damaged = len(files), [file for file in files if isinstance(file, Problem)]
    if damaged:
        repair = sessions.command("cache verify --repair")
        todo = f"They are computed again. To set them aside: {repair}"
        first = f"{damaged[0].path.name[:24]}…: {damaged[0].reason}"
        yield problem(
            "headers",
            f"{len(damaged):,} of {read:,} damaged ({first})",
            todo,
            read=read,
            damaged=[str(file.path) for file in damaged],
        )
    else:
        value = f"{read:,} read, all whole. To read every byte: {sessions.command('cache verify')}"
        yield ok("headers", value if read else "none yet", read=read)


def _headers(model: Location) -> Iterator[Item | Problem]:
    """States first, then rows, so that a sample has both."""
    for state in islice(inventory.states(model), SAMPLE_FILES // 2):
        yield _state(state)
    yield from inventory.rows(model)


def _state(item: Item) -> Item | Problem:
    try:
        with Container(item.path):
            return item
    except SegmentDamaged as error:
        return Problem(item.path, str(error))
    except FileNotFoundError:
        return item
    except OSError as error:
        return Problem(item.path, f"it cannot be read: {error.strerror}")


def leftovers(sessions: SessionFolder) -> Iterator[Finding]:
    """What no session needs, what was set aside, and what killed processes left. Raises `OSError`."""
    folder = sessions.folder
    removals = [
        *eviction.leftovers(folder),
        *eviction.held_twice(folder),
        *eviction.unneeded(folder, eviction.named_ids(maintenance.transcripts(folder))),
    ]
    size = sum(removal.size for removal in removals)
    data = {"files": len(removals), "bytes": size}
    if removals:
        todo = f"To free {file_size(size)}: {sessions.command('cache gc')}"
        yield advice("leftovers", _reasons(removals), todo, **data)
    else:
        yield ok("leftovers", "none", **data)


def _reasons(removals: Sequence[Removal]) -> str:
    counts = Counter(removal.reason for removal in removals)
    return "; ".join(f"{count('file', number)}: {reason}" for reason, number in counts.items())
