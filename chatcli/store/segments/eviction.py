"""Removes checkpoints that no session needs, and those that were used longest ago when space is short.

A removed checkpoint costs time only: it is computed again. FORMAT.md has the order.
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

WEEK_SECONDS = 7 * 24 * 3600.0
# A running process names its newest segments in its transcript only when the turn ends.
GRACE_SECONDS = 3600.0
# The part of the limit that is left in use, so that not every turn is over it again.
TARGET_SHARE = 0.95

REDUNDANT = "a longer file holds the same rows"
OLDER_STATE = "over the limit: an older state"
LEAST_RECENT = "over the limit: used longest ago"


@dataclass(frozen=True)
class Removal:
    """A file that goes, and why. `keep` is how many of its leading segments stay.

    `size` is the bytes that come free.
    """

    path: Location
    size: int
    reason: str
    keep: int = 0


def named_ids(transcripts: Iterable[Location]) -> set[str]:
    """The ids of all segments that these transcripts name, damaged transcripts too."""
    ids: set[str] = set()
    for path in transcripts:
        with contextlib.suppress(OSError):
            ids |= files.hashes_in(path)
    return ids


def leftovers(sessions: Path | Location) -> Iterator[Removal]:
    """What was set aside, and what killed processes had begun to write. Raises `OSError`."""
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

    One that was used within `grace` seconds may belong to a turn that is still running.
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
                # Of several segments' rows, those up to the last needed one stay.
                ids: tuple[str, ...] = ()
                if holds_several(entry.name):
                    with contextlib.suppress(OSError, SegmentDamaged):
                        ids = read_rows(path).ids
                keep = max((number for number, name in enumerate(ids, start=1) if name in needed), default=0)
                size = facts.st_size - facts.st_size * keep // max(len(ids), 1)
                yield Removal(path, size, "no session needs it", keep)


def held_twice(sessions: Path | Location) -> Iterator[Removal]:
    """Rows files whose every segment a longer file holds: joining was cut short. Raises `OSError`."""
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
    """The rows files that a longer file stands for, by the segments that each holds.

    It must be located in their stead: a third file that begins earlier and ends within it may hide it.
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
    """What goes so that the checkpoints take at most `limit` bytes: states first, then leaves.

    The rows of `open_ids` stay. `removals` count as gone; a file that they shorten may go whole.
    Raises `OSError`.
    """
    counted = {removal.path: removal.size for removal in removals}
    used = total_bytes(sessions) - sum(counted.values())
    if used <= limit:
        return
    surplus = used - int(limit * TARGET_SHARE)
    for removal in chain(leftovers(sessions), _used_longest_ago(sessions, open_ids)):
        if surplus <= 0:
            return
        more = removal.size - counted.get(removal.path, 0)
        if more > 0:
            counted[removal.path] = removal.size
            surplus -= more
            yield removal


def _used_longest_ago(sessions: Path | Location, open_ids: Collection[str]) -> Iterator[Removal]:
    """What cannot be read or is held twice; states but each conversation's newest; rows with their states.

    A state is worth less the further it is from the newest, and half after a week without use. Rows go by the
    time of their last use, which is the last of all that continue them: a leaf goes before what leads to it.
    Branches that were left go first.
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
        # Parents come first. Of a forged file a parent may come later: nothing goes round in a circle.
        parents: dict[str, str] = {}
        used: dict[str, float] = {}
        for item in items:
            for name, parent in zip(item.ids, (item.parent, *item.ids), strict=False):
                parents.setdefault(name, parent)
                used[name] = math.inf if name in open_ids else max(used.get(name, 0.0), item.used)
        # How far each segment is from its newest state, and by which child the conversation goes on.
        steps: dict[str, int] = {}
        goes_on: dict[str, str] = {}
        for name, parent in reversed(parents.items()):
            if name in states:
                steps.setdefault(name, 0)
            if parent in used and (parent not in goes_on or used[name] > used[goes_on[parent]]):
                goes_on[parent] = name
                used[parent] = max(used[parent], used[name])
                steps.pop(parent, None)
                # What an open path left behind on another branch is not its newest.
                if name in steps and (name in open_ids or parent not in open_ids):
                    steps[parent] = steps[name] + 1
        # What follows the first boundary, up to which others share, is a conversation.
        cuts = frozenset().union(*(item.cuts for item in items))
        shared, left = set[str](), set[str]()
        # How many states lead to each segment with its own, and how many segments it is from the one before.
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
            if distance:
                # By the distance, so that gaps grow with it. Where many go at once, the power of two that
                # divides its number keeps some of them.
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
    """Carry removals out, whole files first: what is shortened is written anew and needs room.

    Returns the bytes that came free. Raises the first `OSError`, after everything has been tried.
    """
    removals, freed, problems = list(removals), 0, []
    for removal in sorted(removals, key=lambda removal: removal.keep > 0):
        try:
            freed += _deleted(removal.path) if not removal.keep else _shortened(removal)
        except OSError as error:
            problems.append(error)
    for folder in {removal.path.parent for removal in removals}:
        with contextlib.suppress(OSError):  # it may be gone
            folder.flush()
    if problems:
        raise problems[0]
    return freed


def _deleted(path: Location) -> int:
    """Raises `PermissionError` for a name that this program gives to no file that may go."""
    if not inventory.is_ours(path.name) and not files.UNNAMED_FILE.fullmatch(path.name):
        raise PermissionError(errno.EPERM, f"{path} is not a file of chatcli's")
    return inventory.removed(path)


def _shortened(removal: Removal) -> int:
    """Write a file anew without its end. If that fails, all of it goes."""
    before = _size(removal.path)
    try:
        kept = shorten(removal.path.parent.parent, removal.path, removal.keep)
        return before - _size(kept)
    except (OSError, SegmentDamaged):
        return _deleted(removal.path)
