"""What goes when space is short, or when no session needs it any more; refuses to know tensors.

Nothing here can cost more than time: what is gone is computed again. The order is FORMAT.md's:
what no session names, then states thinned by age, then leaves of the tree by what they save.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from chatcli import files
from chatcli.errors import SegmentDamaged
from chatcli.store.segments import catalog, inventory
from chatcli.store.segments.catalog import DAMAGED, SHORT
from chatcli.store.segments.compaction import shorten
from chatcli.store.segments.inventory import (
    Item,
    Problem,
    bytes_below,
    entries,
    holds_several,
    models,
    read_rows,
    total_bytes,
)

# The newest states of every conversation, which thinning never takes.
NEWEST = 4
# After a week without use, a checkpoint is worth half.
HALF_LIFE = 7 * 24 * 3600.0
# A running process names its newest segments in its transcript only when the turn ends.
GRACE = 3600.0
# Once over the limit, go this far below it, so that not every turn has to.
TARGET = 0.9


@dataclass(frozen=True)
class Removal:
    """A file that goes, and why. `keep` is how many of its leading segments stay."""

    path: Path
    size: int
    reason: str
    keep: int = 0


def named(transcripts: Iterable[Path]) -> set[str]:
    """The ids of all segments that these transcripts name, damaged ones too."""
    found: set[str] = set()
    for path in transcripts:
        with contextlib.suppress(OSError):
            found |= {name.decode() for name in files.SHA256_NAME.findall(path.read_bytes())}
    return found


def leftovers(sessions: Path) -> Iterator[Removal]:
    """What was set aside, and what killed processes had begun to write. Raises `OSError`."""
    aside = [*sessions.glob(f"kv/*{DAMAGED}")]
    for folder in models(sessions):
        aside += [Path(one.path) for one in entries(folder) if one.name.endswith(DAMAGED)]
    for path in aside:
        yield Removal(path, _size(path), "damaged, and set aside")
    unfinished = [*sessions.glob("kv/*/tmp/*"), *sessions.glob(f".*{files.UNNAMED}")]
    for path in files.abandoned(unfinished):
        yield Removal(path, _size(path), "left behind by a process that was killed")


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return bytes_below(path) if _is_folder(path) else path.lstat().st_size
    return 0


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def unneeded(sessions: Path, needed: Collection[str], grace: float = GRACE) -> Iterator[Removal]:
    """Checkpoints that no session needs. Raises `OSError`.

    One that was used within `grace` seconds may belong to a turn that is still running.
    """
    short = {name[:SHORT] for name in needed}
    newest = time.time() - grace
    for folder in models(sessions):
        for entry in entries(folder):
            last = catalog.last_id(Path(entry.name))
            if last is not None and last not in short:
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mtime <= newest:
                        yield _without(entry, needed)


def _without(entry: os.DirEntry[str], needed: Collection[str]) -> Removal:
    """What goes of a file whose last segment is not needed: all of it, or its end."""
    path, size = Path(entry.path), entry.stat().st_size
    ids: tuple[str, ...] = ()
    if holds_several(entry.name):
        with contextlib.suppress(OSError, SegmentDamaged):
            ids = read_rows(path).ids
    keep = max((at for at, name in enumerate(ids, start=1) if name in needed), default=0)
    return Removal(path, size - size * keep // max(len(ids), 1), "no session needs it", keep)


def held_twice(sessions: Path) -> Iterator[Removal]:
    """Rows files whose every segment a longer file holds: joining was cut short. Raises `OSError`."""
    for folder in models(sessions):
        if any(holds_several(entry.name) for entry in entries(folder)):
            whole = [item for item in inventory.rows(folder) if isinstance(item, Item)]
            yield from (_twice(item) for item in _held_twice(whole))


def _twice(item: Item) -> Removal:
    return Removal(item.path, item.size, "a longer file holds the same rows")


def _held_twice(rows: Iterable[Item]) -> Iterator[Item]:
    """The rows that a longer file stands for.

    It must be found where they were: a third file that begins earlier and ends within it may hide it.
    """
    holders = _holders(rows)
    for longer in rows:
        inside = [item for item in holders[longer.ids[0]] if item is not longer]
        if len(longer.ids) > 1 and all(_is_part(item, longer) for item in inside):
            ends = {item.path: item for name in longer.ids for item in holders[name]}
            yield from (item for item in ends.values() if _is_part(item, longer))


def _is_part(item: Item, longer: Item) -> bool:
    return len(item.ids) < len(longer.ids) and set(item.ids) <= set(longer.ids)


def _holders(rows: Iterable[Item]) -> dict[str, list[Item]]:
    """The files that hold each segment: more than one where joining was cut short."""
    holders: dict[str, list[Item]] = {}
    for item in rows:
        for name in item.ids:
            holders.setdefault(name, []).append(item)
    return holders


def over_limit(
    sessions: Path, limit: int, open_ids: Collection[str] = (), going: Collection[Removal] = ()
) -> Iterator[Removal]:
    """What goes so that the checkpoints take at most `limit` bytes: states first, then leaves.

    The rows of `open_ids` stay. `going` is as good as gone; of what goes in part, all may go here.
    Raises `OSError`.
    """
    counted = {removal.path: removal.size for removal in going}
    used = total_bytes(sessions) - sum(counted.values())
    if used <= limit:
        return
    surplus = used - int(limit * TARGET)
    for removal in chain(leftovers(sessions), _cheapest(sessions, open_ids)):
        if surplus <= 0:
            return
        more = removal.size - counted.get(removal.path, 0)
        if more > 0:
            counted[removal.path] = removal.size
            surplus -= more
            yield removal


def _cheapest(sessions: Path, open_ids: Collection[str]) -> Iterator[Removal]:
    trees = [Tree(folder, open_ids) for folder in models(sessions)]
    for tree in trees:
        yield from tree.useless()
    thinned = heapq.merge(*(tree.thinned() for tree in trees), key=lambda item: item.used)
    for item in thinned:
        yield Removal(item.path, item.size, "over the limit: an older state, thinned")
    for _, least in heapq.merge(*(tree.leaves() for tree in trees), key=lambda one: one[0]):
        for item in least:
            yield Removal(item.path, item.size, "over the limit: worth the least")


class Tree:
    """One model's files and how they hang together. Removing files does not change it."""

    def __init__(self, folder: Path, open_ids: Collection[str]) -> None:
        self._open = open_ids
        self._now = time.time()
        found = list(inventory.rows(folder))
        rows = [item for item in found if isinstance(item, Item)]
        self._broken = [item for item in found if isinstance(item, Problem)]
        self._twice = {item.path: item for item in _held_twice(rows)}
        self._rows = [item for item in rows if item.path not in self._twice]
        self._holders = _holders(self._rows)
        self._states = {item.ids[0]: item for item in inventory.states(folder)}
        self._depth, self._below = self._measure()
        self._gone: set[str] = set()

    def _measure(self) -> tuple[dict[str, int], dict[str, int]]:
        """Of each segment: its segments up to the root, and the states below it on one path."""
        parents = {
            name: before
            for item in self._rows
            for before, name in zip((item.parent, *item.ids), item.ids, strict=False)
        }
        order = sorted(self._rows, key=lambda item: item.start)
        names = [name for item in order for name in item.ids]
        depth: dict[str, int] = {}
        for name in names:
            depth[name] = depth.get(parents[name], 0) + 1
        below: dict[str, int] = dict.fromkeys(names, 0)
        for name in reversed(names):
            here = below[name] + (name in self._states)
            if parents[name] in below:
                below[parents[name]] = max(below[parents[name]], here)
        return depth, below

    def useless(self) -> Iterator[Removal]:
        """What cannot be read, and what a longer file holds too."""
        yield from (Removal(one.path, _size(one.path), "damaged") for one in self._broken)
        yield from (_twice(item) for item in self._twice.values())

    def thinned(self) -> list[Item]:
        """The states that go first, longest unused first: ever sparser ones stay of older turns."""
        going = [item for name, item in self._states.items() if not self._stays(name)]
        self._gone = {item.ids[0] for item in going}
        return sorted(going, key=lambda item: (item.used, self._depth.get(item.ids[0], 0)))

    def _stays(self, name: str) -> bool:
        below = self._below.get(name)
        if below is None:
            return False  # there are no rows up to it
        return spared(self._depth[name], below)

    def leaves(self) -> Iterator[tuple[float, list[Item]]]:
        """Files that nothing hangs on after their states, least valuable first, then their parents.

        Each with what it is worth, or its parents' worth if that is more. Last come the states that
        hang on an open path.
        """
        children = dict.fromkeys(self._holders, 0)
        for item in self._rows:
            if item.parent in children:
                children[item.parent] += 1
        heap = [self._ranked(item) for item in self._rows if _is_leaf(item, children)]
        heapq.heapify(heap)
        before = 0.0
        while heap:
            worth, _, item = heapq.heappop(heap)
            if not self._is_open(item):
                before = max(before, worth)
                yield before, [*self._states_of(item), item]
                self._gone.update(item.ids)
                if item.parent in children:
                    children[item.parent] -= 1
                for parent in self._holders.get(item.parent, ()):
                    if _is_leaf(parent, children):
                        heapq.heappush(heap, self._ranked(parent))

        rest = [item for name, item in self._states.items() if name not in {*self._open, *self._gone}]
        yield math.inf, rest

    def _ranked(self, item: Item) -> tuple[float, str, Item]:
        return self._worth(item), str(item.path), item

    def _is_open(self, item: Item) -> bool:
        return any(name in self._open for name in item.ids)

    def _states_of(self, item: Item) -> list[Item]:
        return [self._states[name] for name in item.ids if name in self._states and name not in self._gone]

    def _worth(self, item: Item) -> float:
        """Prefill seconds saved per byte, halved for every week without use."""
        size = item.size + sum(state.size for state in self._states_of(item))
        age = max(0.0, self._now - item.used)
        return float(item.seconds / max(size, 1) * 0.5 ** (age / HALF_LIFE))


def _is_leaf(item: Item, children: Mapping[str, int]) -> bool:
    return not any(children[name] for name in item.ids)


def spared(depth: int, below: int) -> bool:
    """Whether thinning leaves a state: the newest ones, then every 2nd, 4th, 8th … going back."""
    if below < NEWEST:
        return True
    spacing = 1 << (below // NEWEST).bit_length()
    return depth % spacing == 0


def remove(removals: Iterable[Removal]) -> int:
    """Carry removals out, those of whole files first: what is written anew needs room.

    Returns the bytes that came free. Raises the first `OSError`, after everything has been tried.
    """
    freed, problems = 0, []
    for removal in sorted(removals, key=lambda one: one.keep > 0):
        try:
            freed += _shortened(removal) if removal.keep else _deleted(removal.path)
        except OSError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return freed


def _deleted(path: Path) -> int:
    size = _size(path)
    if _is_folder(path):
        shutil.rmtree(path)
        return size
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        return size
    return 0


def _shortened(removal: Removal) -> int:
    """Write a file anew without its end. Where that fails all of it goes: its end must."""
    before = _size(removal.path)
    try:
        kept = shorten(removal.path.parent.parent, removal.path, removal.keep)
        return before - _size(kept)
    except (OSError, SegmentDamaged):
        return _deleted(removal.path)
