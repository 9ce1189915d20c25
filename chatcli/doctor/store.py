"""Checks the sessions and their checkpoints by names and headers; refuses to change or read through any.

`cache verify` reads every byte, and `cache gc` removes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from chatcli.doctor.finding import Finding, advice, count, ok, problem
from chatcli.errors import SegmentDamaged
from chatcli.store import maintenance
from chatcli.store.segments import budget, eviction, inventory
from chatcli.store.segments.container import Container
from chatcli.store.segments.inventory import Item, Problem
from chatcli.store.sessions import listing
from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import file_size

# So many headers of each model are read; names are hashes, so the first are any.
SAMPLE = 2000
NEARLY_FULL = 0.9


def sessions(folder: Path, whole: bool) -> Iterator[Finding]:
    """Every transcript, parsed if `whole`, else opened. Raises `FolderError`."""
    damaged = (
        maintenance.damaged_transcripts(SessionFolder(folder))
        if whole
        else [one.problem for one in listing.summaries(folder) if one.problem]
    )
    number = len(listing.names(folder))
    if damaged:
        todo = f"'chatcli cache verify' names each; the first: {damaged[0]}"
        yield problem(
            "sessions",
            f"{number:,}; damage in {count(len(damaged), 'place')}",
            todo,
            sessions=number,
            damaged=damaged,
        )
    else:
        yield ok("sessions", f"{number:,}", sessions=number)


def checkpoints(folder: Path, limit: int | None) -> Iterator[Finding]:
    """What they take, of how much, and for how many models. Raises `OSError`."""
    usages = inventory.usage(folder)
    most = budget.default_limit(folder) if limit is None else limit
    used = sum(use.bytes for use in usages)
    segments = sum(use.segments for use in usages)
    value = (
        f"{file_size(used)} of at most {file_size(most)}: "
        f"{count(segments, 'segment')} for {count(len(usages), 'model')}"
    )
    data = {"bytes": used, "limit_bytes": most, "segments": segments, "models": len(usages)}
    if _in_the_way(folder / "kv"):
        todo = "Move that file away: nothing can be kept until then."
        yield problem("checkpoints", f"{folder / 'kv'} is not a folder", todo, **data)
    elif used > NEARLY_FULL * most:
        todo = "What saves least goes first; for more: chatcli config cache_limit SIZE."
        yield advice("checkpoints", value, todo, **data)
    else:
        yield ok("checkpoints", value, **data)


def _in_the_way(place: Path) -> bool:
    return place.exists() and not place.is_dir()


def headers(folder: Path) -> Iterator[Finding]:
    """Whether files are what their names say, as far as that can be told without reading them."""
    read = 0
    bad: list[Problem] = []
    for model in inventory.models(folder):
        for one in islice(_headers(model), SAMPLE):
            read += 1
            bad += [one] if isinstance(one, Problem) else []
    if bad:
        todo = "They are computed again; 'chatcli cache verify --repair' sets them aside."
        first = f"{bad[0].path.name[:24]}…: {bad[0].reason}"
        yield problem(
            "headers",
            f"{len(bad):,} of {read:,} damaged ({first})",
            todo,
            read=read,
            damaged=[str(one.path) for one in bad],
        )
    else:
        more = " ('chatcli cache verify' reads all)" if read else ""
        yield ok("headers", f"{read:,} read, all whole{more}" if read else "none yet", read=read)


def _headers(model: Path) -> Iterator[Item | Problem]:
    """Rows and states in turn, so that a sample has both."""
    for state in islice(inventory.states(model), SAMPLE // 2):
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


def leftovers(folder: Path) -> Iterator[Finding]:
    """What no session needs, what was set aside, and what killed processes left. Raises `OSError`."""
    found = [
        *eviction.leftovers(folder),
        *eviction.held_twice(folder),
        *eviction.unneeded(folder, eviction.named(maintenance.transcripts(folder))),
    ]
    size = sum(one.size for one in found)
    data = {"files": len(found), "bytes": size}
    if found:
        todo = f"'chatcli cache gc' frees {file_size(size)}."
        yield advice("leftovers", _reasons([one.reason for one in found]), todo, **data)
    else:
        yield ok("leftovers", "none", **data)


def _reasons(reasons: Sequence[str]) -> str:
    return "; ".join(f"{count(number, 'file')}: {reason}" for reason, number in Counter(reasons).items())
