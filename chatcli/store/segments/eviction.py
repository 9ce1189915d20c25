"""Removes checkpoints that no session needs, and the least recently used ones when space is short.

A removed checkpoint only costs time: it is computed again. FORMAT.md defines the order.
"""

from __future__ import annotations

import contextlib
import errno
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from chatcli import files
from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.store.segments import catalog, inventory
from chatcli.store.segments.catalog import DAMAGED_NAME, NAME_DIGITS, ROWS_NAME
from chatcli.store.segments.inventory import Item, entries, holds_several, models, read_rows, total_bytes
from chatcli.store.segments.joining import shorten
from chatcli.store.sessions import pins

WEEK_SECONDS = 7 * 24 * 3600.0
# A running process names its newest segments in its transcript only when the turn ends.
GRACE_SECONDS = 3600.0
# Eviction stops at this fraction of the limit, so that the next turn does not exceed it again.
TARGET_SHARE = 0.95

REDUNDANT = "a longer file holds the same rows"
OLDER_STATE = "over the limit: an older state"
LEAST_RECENT = "over the limit: used longest ago"


@dataclass(frozen=True)
class Removal:
    """A file to delete, and why. `keep` is how many of its leading segments stay.

    `size` is the number of bytes freed.
    """

    path: Location
    size: int
    reason: str
    keep: int = 0


def named_ids(transcripts: Iterable[Location]) -> set[str]:
    """The ids of all segments that these transcripts name, including damaged ones."""
    ids: set[str] = set()
    for path in transcripts:
        with contextlib.suppress(OSError):
            ids |= files.hashes_in(path)
    return ids


def leftovers(sessions: Path | Location) -> Iterator[Removal]:
    """Files that were set aside, or left unfinished by killed processes. Raises `OSError`."""
    folders = models(sessions)
    for folder in folders:
        for path, _ in entries(folder):
            if DAMAGED_NAME.fullmatch(path.name):
                yield Removal(path, _size(path), "damaged, and set aside")
    unfinished = [files.abandoned(folder / inventory.TEMPORARY) for folder in folders]
    for path in chain(*unfinished, files.abandoned(Location.of(sessions), files.UNNAMED_FILE)):
        yield Removal(path, _size(path), "left behind by a process that was killed")


def _size(path: Location) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def unneeded(
    sessions: Path | Location, needed: Collection[str], grace: float = GRACE_SECONDS
) -> Iterator[Removal]:
    """Checkpoints that no session needs. Raises `OSError`.

    Checkpoints used within `grace` seconds stay, because they may belong to a running turn.
    """
    needed_digits = {name[:NAME_DIGITS] for name in needed}
    newest = time.time() - grace
    for folder in models(sessions):
        for path, entry in entries(folder):
            last = catalog.last_id(entry.name)
            if last is None or last in needed_digits:
                continue
            with contextlib.suppress(FileNotFoundError):
                facts = entry.stat(follow_symlinks=False)
                if facts.st_mtime > newest:
                    continue
                # In a joined file the segments up to the last needed one stay.
                ids: tuple[str, ...] = ()
                if holds_several(entry.name):
                    with contextlib.suppress(OSError, SegmentDamaged):
                        ids = read_rows(path).ids
                keep = max((number for number, name in enumerate(ids, start=1) if name in needed), default=0)
                size = facts.st_size - facts.st_size * keep // max(len(ids), 1)
                yield Removal(path, size, "no session needs it", keep)


def held_twice(sessions: Path | Location) -> Iterator[Removal]:
    """Rows files whose segments are all in a longer file, after an interrupted joining. Raises `OSError`."""
    for folder in models(sessions):
        ids: dict[Location, tuple[str, ...]] = {}
        for path, entry in entries(folder):
            if parts := ROWS_NAME.fullmatch(entry.name):
                ids[path] = (parts[2],)
                if holds_several(entry.name):
                    with contextlib.suppress(OSError, SegmentDamaged):
                        ids[path] = tuple(name[:NAME_DIGITS] for name in read_rows(path).ids)
        for path in _redundant(ids):
            yield Removal(path, _size(path), REDUNDANT)


def _redundant(ids: Mapping[Location, tuple[str, ...]]) -> set[Location]:
    """The rows files that a longer file replaces, given the segments of each.

    The longer file must be found in their place: a third file that begins earlier and ends within it may hide
    it.
    """
    holders: dict[str, list[Location]] = {}
    for path, names in ids.items():
        for name in names:
            holders.setdefault(name, []).append(path)
    redundant: set[Location] = set()
    for longer, names in ids.items():
        parts = {
            path
            for name in names
            for path in holders[name]
            if len(ids[path]) < len(names) and set(ids[path]) <= set(names)
        }
        if parts and parts.issuperset({*holders[names[0]]} - {longer}):
            redundant |= parts
    return redundant


def over_limit(
    sessions: Path | Location,
    limit: int,
    open_ids: Collection[str] = (),
    removals: Collection[Removal] = (),
) -> Iterator[Removal]:
    """Which files to delete so that checkpoints take at most `limit` bytes: states first, then leaves.

    The rows of `open_ids` stay, and the rows and states of pinned sessions. `removals` count as deleted; a
    file that they shorten may be deleted whole. Raises `OSError`.
    """
    counted = {removal.path: removal.size for removal in removals}
    used = total_bytes(sessions) - sum(counted.values())
    if used <= limit:
        return
    surplus = used - int(limit * TARGET_SHARE)
    pinned = pins.segment_ids(sessions)
    for removal in chain(leftovers(sessions), _used_longest_ago(sessions, {*open_ids, *pinned}, pinned)):
        if surplus <= 0:
            return
        more = removal.size - counted.get(removal.path, 0)
        if more > 0:
            counted[removal.path] = removal.size
            surplus -= more
            yield removal


def _used_longest_ago(
    sessions: Path | Location, open_ids: Collection[str], pinned: Collection[str]
) -> Iterator[Removal]:
    """Damaged and redundant files; all but each conversation's newest state; then rows with their states.

    A state is worth less the further it is from the newest, and half after a week without use. Rows are
    ordered by their last use, or their descendants', so a leaf goes before its ancestors. Abandoned branches
    go first.
    """
    older: list[tuple[float, Item]] = []
    rows: list[tuple[tuple[bool, float, int], Item, list[Item]]] = []
    now = time.time()
    for folder in models(sessions):
        items: list[Item] = []
        for found in inventory.rows(folder):
            if isinstance(found, Item):
                items.append(found)
            elif inventory.is_ours(found.path.name):
                yield Removal(found.path, _size(found.path), "damaged")
        redundant = _redundant({item.path: item.ids for item in items})
        yield from (Removal(item.path, item.size, REDUNDANT) for item in items if item.path in redundant)
        items = sorted((item for item in items if item.path not in redundant), key=lambda item: item.start)
        states = {item.ids[0]: item for item in inventory.states(folder)}
        # Parents come first. In a forged file a parent may come later, but this never loops.
        parents: dict[str, str] = {}
        used: dict[str, float] = {}
        for item in items:
            for name, parent in zip(item.ids, (item.parent, *item.ids), strict=False):
                parents.setdefault(name, parent)
                used[name] = math.inf if name in open_ids else max(used.get(name, 0.0), item.used)
        # How far each segment is from its newest state, and which child continues the conversation.
        steps: dict[str, int] = {}
        goes_on: dict[str, str] = {}
        for name, parent in reversed(parents.items()):
            if name in states:
                steps.setdefault(name, 0)
            if parent in used and (parent not in goes_on or used[name] > used[goes_on[parent]]):
                goes_on[parent] = name
                used[parent] = max(used[parent], used[name])
                steps.pop(parent, None)
                # A state that an open path left on another branch is not its newest.
                if name in steps and (name in open_ids or parent not in open_ids):
                    steps[parent] = steps[name] + 1
        # A conversation is what follows the first boundary, up to which others share.
        cuts = frozenset().union(*(item.cuts for item in items))
        shared, left = set[str](), set[str]()
        # For each segment: how many states its path has, itself included, and the number of segments since
        # the previous state.
        numbers: dict[str, int] = {}
        gaps: dict[str, int] = {}
        for name, parent in parents.items():
            gaps[name] = 1 if parent in states else gaps.get(parent, 0) + 1
            numbers[name] = numbers.get(parent, 0) + (name in states)
            if parent not in numbers or (parent in shared and parent in cuts):
                shared.add(name)
            elif parent in left or (parent not in shared and goes_on[parent] != name):
                left.add(name)
        for name, state in states.items():
            distance = max(steps.get(name, 1), int(name in left))
            if distance and name not in pinned:
                # Divided by the distance, so that gaps grow with it. The power of two that divides a state's
                # number keeps some of them when many are deleted at once.
                number, weeks = numbers.get(name, 0), max(now - state.used, 0.0) / WEEK_SECONDS
                saved = gaps.get(name, 0) * (number & -number) / distance
                older.append((saved / max(state.size, 1) * 0.5**weeks, state))
        for _, state in older:
            states.pop(state.ids[0], None)
        for item in items:
            own = [states[name] for name in item.ids if name in states and name not in open_ids]
            last = max(used[name] for name in item.ids)
            rows.append(((item.ids[0] not in left, last, -item.start), item, own))
    for _, state in sorted(older, key=lambda each: each[0]):
        yield Removal(state.path, state.size, OLDER_STATE)
    for _, item, own in sorted(rows, key=lambda each: each[0]):
        is_open = any(name in open_ids for name in item.ids)
        for removed in own if is_open else [*own, item]:
            yield Removal(removed.path, removed.size, LEAST_RECENT)


def remove(removals: Iterable[Removal]) -> int:
    """Carry removals out, whole files first: shortening rewrites a file and needs space.

    Returns the bytes freed. Raises the first `OSError`, after everything has been tried.
    """
    removals, freed, problems = list(removals), 0, []
    for removal in sorted(removals, key=lambda removal: removal.keep > 0):
        try:
            freed += _deleted(removal.path) if not removal.keep else _shortened(removal)
        except OSError as error:
            problems.append(error)
    for folder in {removal.path.parent for removal in removals}:
        with contextlib.suppress(OSError):  # the folder may be gone
            folder.flush()
    if problems:
        raise problems[0]
    return freed


def _deleted(path: Location) -> int:
    """Raises `PermissionError` for a name that chatcli does not give to files it may delete."""
    if not inventory.is_ours(path.name) and not files.UNNAMED_FILE.fullmatch(path.name):
        raise PermissionError(errno.EPERM, f"{path} is not a file of chatcli's")
    return inventory.removed(path)


def _shortened(removal: Removal) -> int:
    """Rewrite a file without its end, or delete it if that fails."""
    before = _size(removal.path)
    try:
        kept = shorten(removal.path.parent.parent, removal.path, removal.keep)
        return before - _size(kept)
    except (OSError, SegmentDamaged):
        return _deleted(removal.path)
