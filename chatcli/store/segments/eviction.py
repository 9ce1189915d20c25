"""Removes checkpoints that no session needs, and the least valuable ones when space is short.

A removed checkpoint costs time only: it is computed again. FORMAT.md has the order: what no session
names, then states, then leaves of the tree, both by the seconds that they save.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path

from chatcli import files
from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.settings.values import NEWEST_STATE_BYTES
from chatcli.store.segments import catalog, inventory
from chatcli.store.segments.catalog import DAMAGED_NAME, NAME_DIGITS
from chatcli.store.segments.compaction import shorten
from chatcli.store.segments.inventory import (
    Item,
    Problem,
    RowsByName,
    entries,
    holds_several,
    models,
    read_rows,
    total_bytes,
)

# The states at a path's end that stay however quickly they are computed again: so many, and of small ones as
# many as take `NEWEST_STATE_BYTES`. Of those that `SMALL_STATES` fit there, there is one at every boundary.
NEWEST_STATES, SMALL_STATES = 4, 16
# After a week without use, a checkpoint is worth half.
HALF_LIFE_SECONDS = 7 * 24 * 3600.0
# A running process names its newest segments in its transcript only when the turn ends.
GRACE_SECONDS = 3600.0
# The part of the limit that is left in use, so that not every turn is over it again.
TARGET_SHARE = 0.95

# Whether rows are on the way to the newest of their conversation, and the seconds that a byte saves.
Rank = tuple[bool, float]

REDUNDANT = "a longer file holds the same rows"


@dataclass(frozen=True)
class Removal:
    """A file that goes, and why. `keep` is how many of its leading segments stay.

    `size` is the bytes that come free.
    """

    path: Location
    size: int
    reason: str
    keep: int = 0


def newest_states(size: int, newest_bytes: int = NEWEST_STATE_BYTES) -> int:
    """How many states of so many bytes stay at a path's end."""
    return max(NEWEST_STATES, newest_bytes // max(size, 1))


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
        rows = RowsByName(folder)
        parts = rows.own({name for item in rows.joined for name in item.ids})
        for item in _redundant([*rows.joined, *parts]):
            yield Removal(item.path, item.size, REDUNDANT)


def _redundant(rows: Iterable[Item]) -> Iterator[Item]:
    """The rows files that a longer file stands for.

    It must be located in their stead: a third file that begins earlier and ends within it may hide it.
    """
    holders = _holders(rows)
    for longer in rows:
        beginnings = [item for item in holders[longer.ids[0]] if item is not longer]
        if len(longer.ids) > 1 and all(_is_part(item, longer) for item in beginnings):
            parts = {item.path: item for name in longer.ids for item in holders[name]}
            yield from (item for item in parts.values() if _is_part(item, longer))


def _is_part(item: Item, longer: Item) -> bool:
    return len(item.ids) < len(longer.ids) and set(item.ids) <= set(longer.ids)


def quickly_computed(
    sessions: Path | Location, seconds: float, grace: float = GRACE_SECONDS
) -> Iterator[Removal]:
    """States that are computed again within `seconds` from the one before. Raises `OSError`.

    Those that were used within `grace` seconds stay.
    """
    newest = time.time() - grace
    for folder in models(sessions):
        states = list(inventory.states(folder))
        if not any(item.used <= newest for item in states):
            continue
        rows = RowsByName(folder).before(item.ids[0] for item in states)
        for item in Tree(folder, (), rows).thinned(seconds):
            if item.used <= newest:
                yield Removal(item.path, item.size, f"computed again in {seconds:g} s")


def _holders(rows: Iterable[Item]) -> dict[str, list[Item]]:
    """The files that hold each segment: more than one where joining was cut short."""
    holders: dict[str, list[Item]] = {}
    for item in rows:
        for name in item.ids:
            holders.setdefault(name, []).append(item)
    return holders


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
    for removal in chain(leftovers(sessions), _cheapest(sessions, open_ids)):
        if surplus <= 0:
            return
        more = removal.size - counted.get(removal.path, 0)
        if more > 0:
            counted[removal.path] = removal.size
            surplus -= more
            yield removal


def _cheapest(sessions: Path | Location, open_ids: Collection[str]) -> Iterator[Removal]:
    trees = [Tree(folder, open_ids) for folder in models(sessions)]
    for tree in trees:
        yield from tree.useless()
    for _, item in heapq.merge(*(tree.older_states() for tree in trees), key=itemgetter(0)):
        yield Removal(item.path, item.size, "over the limit: an older state, thinned")
    for _, items in heapq.merge(*(tree.leaves() for tree in trees), key=itemgetter(0)):
        for item in items:
            yield Removal(item.path, item.size, "over the limit: least useful")


class Tree:
    """One model's files and how they hang together. Removing files does not change it."""

    def __init__(
        self, folder: Location, open_ids: Collection[str], rows_files: Iterable[Item | Problem] | None = None
    ) -> None:
        """Of all rows files, or of some: states are thinned alike if those on the ways to them are there."""
        self._open = open_ids
        self._now = time.time()
        items = list(inventory.rows(folder) if rows_files is None else rows_files)
        rows = [item for item in items if isinstance(item, Item)]
        problems = [item for item in items if isinstance(item, Problem)]
        self._damaged = [item for item in problems if inventory.is_ours(item.path.name)]
        self._redundant = {item.path: item for item in _redundant(rows)}
        self._rows = [item for item in rows if item.path not in self._redundant]
        self._holders = _holders(self._rows)
        self._states = {item.ids[0]: item for item in inventory.states(folder)}
        self._measure()
        self._removed: set[str] = set()  # ids of segments whose states have been given

    def _measure(self) -> None:
        """Of each segment, parents first: its parent, its seconds, and what is below it on one path.

        That is how many states, and on the ways to them the seconds to the last segment before the next.
        A parent that does not come before is none: no forged file makes a circle. `_cuts` are on the way to a
        boundary, `_shared` up to the first one.
        """
        self._parents: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._cuts: set[str] = set()
        self._shared: set[str] = set()
        for item in sorted(self._rows, key=lambda item: item.start):
            for name, parent, seconds in zip(
                item.ids, (item.parent, *item.ids), item.segment_seconds, strict=False
            ):
                self._parents.setdefault(name, parent if parent in self._parents else "")
                self._seconds.setdefault(name, seconds)
            self._cuts |= {name for name, end in zip(item.ids, item.ends, strict=True) if end in item.cuts}
        for name, parent in self._parents.items():
            if not parent or (parent in self._shared and parent in self._cuts):
                self._shared.add(name)
        self._below = dict.fromkeys(self._parents, 0)
        self._reach = dict.fromkeys(self._parents, 0.0)
        for name in reversed(self._parents):
            has_state, parent = name in self._states, self._parents[name]
            if parent:
                self._below[parent] = max(self._below[parent], self._below[name] + has_state)
                if self._below[name] and not has_state:
                    reach = self._seconds[name] + self._reach[name]
                    self._reach[parent] = max(self._reach[parent], reach)

    def useless(self) -> Iterator[Removal]:
        """What cannot be read, and what a longer file holds too."""
        yield from (Removal(item.path, _size(item.path), "damaged") for item in self._damaged)
        yield from (Removal(item.path, item.size, REDUNDANT) for item in self._redundant.values())

    def thinned(self, seconds: float, *, newest_bytes: int = NEWEST_STATE_BYTES) -> list[Item]:
        """States without which all up to the next are computed within `seconds` from the last that stays.

        Not the newest ones.
        """
        thinned: list[Item] = []
        since: dict[str, float] = {}
        for name, parent in self._parents.items():
            since[name] = since.get(parent, 0.0) + self._seconds[name]
            if name in self._states:
                if since[name] + self._reach[name] > seconds:
                    since[name] = 0.0
                elif parent and self._below[name] >= newest_states(self._states[name].size, newest_bytes):
                    thinned.append(self._states[name])
        return thinned

    def older_states(self) -> Iterator[tuple[float, Item]]:
        """The states that go first for want of space, least valuable first, each with what it is worth.

        Those without rows, then all but the newest of each conversation. One is worth the seconds to it from
        the one before it that stays, and less the further it is from the newest.
        """
        for name, item in self._states.items():
            if name not in self._parents:
                self._removed.add(name)
                yield -1.0, item
        distances = self._distances()

        def worth(name: str) -> float:
            seconds, parent = self._seconds[name], self._parents[name]
            while parent and (parent not in self._states or parent in self._removed):
                seconds, parent = seconds + self._seconds[parent], self._parents[parent]
            item = self._states[name]
            return self._worth(seconds / distances[name], item.size, item.used)

        heap = [(worth(name), name) for name in self._states if distances.get(name)]
        heapq.heapify(heap)
        while heap:
            before, name = heapq.heappop(heap)
            if (now := worth(name)) > before:  # a state on the way to it has gone
                heapq.heappush(heap, (now, name))
            else:
                self._removed.add(name)
                yield now, self._states[name]

    def _distances(self) -> dict[str, int]:
        """Of each segment, how many boundaries it is from its conversation's newest state; 1 of a shared one.

        Those on the way count with the boundary before them.
        """
        distances = self._to_newest({name: item.used for name, item in self._states.items()})
        for name, parent in self._parents.items():
            if name in self._shared:
                distances[name] = 1
            else:
                distances.setdefault(name, distances[parent] + (parent not in self._cuts))
        return distances

    def _to_newest(self, used: Mapping[str, float]) -> dict[str, int]:
        """The segments on the way to the newest of each conversation, and how many boundaries it is away.

        A conversation is all that follows a path's first boundary, up to which others share. `used` is when
        what may be the newest was last used; what is open is newer.
        """
        conversations: dict[str, str] = {}
        newest: dict[str, tuple[bool, float, int, str]] = {}
        for number, (name, parent) in enumerate(self._parents.items()):
            begins = name in self._shared or parent in self._shared
            conversation = conversations[name] = name if begins else conversations[parent]
            if name in used:
                last = (name in self._open, used[name], number, name)
                newest[conversation] = max(newest.get(conversation, last), last)
        steps: dict[str, int] = {}
        for *_, name in newest.values():
            step = 0
            while name:
                steps[name], name = step, self._parents[name]
                step = max(step + (name not in self._cuts), 1)
        return steps

    def leaves(self) -> Iterator[tuple[Rank, list[Item]]]:
        """Leaves of the tree, each with its states, least valuable first; then what they leave as leaves.

        Branches that were left come before the newest of each conversation. Each has its rank, or that of the
        one before it if that is more. Last come the states beside open paths.
        """
        children = dict.fromkeys(self._holders, 0)
        for item in self._rows:
            if item.parent in children:
                children[item.parent] += 1
        newest = self._to_newest({name: item.used for item in self._rows for name in item.ids})

        def ranked(item: Item) -> tuple[Rank, str, Item]:
            size = item.size + sum(state.size for state in self._states_of(item))
            worth = self._worth(item.seconds, size, item.used)
            return (any(name in newest for name in item.ids), worth), str(item.path), item

        heap = [ranked(item) for item in self._rows if _is_leaf(item, children)]
        heapq.heapify(heap)
        highest = (False, 0.0)
        while heap:
            rank, _, item = heapq.heappop(heap)
            if not any(name in self._open for name in item.ids):
                highest = max(highest, rank)
                yield highest, [*self._states_of(item), item]
                self._removed.update(item.ids)
                if item.parent in children:
                    children[item.parent] -= 1
                for parent in self._holders.get(item.parent, ()):
                    if _is_leaf(parent, children):
                        heapq.heappush(heap, ranked(parent))

        kept = {*self._open, *self._removed}
        yield (True, math.inf), [item for name, item in self._states.items() if name not in kept]

    def _states_of(self, item: Item) -> list[Item]:
        return [self._states[name] for name in item.ids if name in self._states and name not in self._removed]

    def _worth(self, seconds: float, size: int, used: float) -> float:
        """Prefill seconds saved per byte, halved for every week without use."""
        age = max(0.0, self._now - used)
        return float(seconds / max(size, 1) * 0.5 ** (age / HALF_LIFE_SECONDS))


def _is_leaf(item: Item, children: Mapping[str, int]) -> bool:
    return not any(children[name] for name in item.ids)


def remove(removals: Iterable[Removal]) -> int:
    """Carry removals out, whole files first: what is shortened is written anew and needs room.

    Returns the bytes that came free. Raises the first `OSError`, after everything has been tried.
    """
    removals, freed, problems = list(removals), 0, []
    for removal in sorted(removals, key=lambda removal: removal.keep > 0):
        try:
            freed += _shortened(removal) if removal.keep else _deleted(removal.path)
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
    size = _size(path)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        return size
    return 0


def _shortened(removal: Removal) -> int:
    """Write a file anew without its end. If that fails, all of it goes."""
    before = _size(removal.path)
    try:
        kept = shorten(removal.path.parent.parent, removal.path, removal.keep)
        return before - _size(kept)
    except (OSError, SegmentDamaged):
        return _deleted(removal.path)
