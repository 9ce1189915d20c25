"""Reads and writes checkpoints as a tree of immutable segment files.

FORMAT.md defines names and layout. No file is trusted: any fault raises `SegmentDamaged` with the reason,
which callers treat as a miss.
"""

from __future__ import annotations

import contextlib
import errno
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np

from chatcli import files
from chatcli.errors import SegmentDamaged
from chatcli.files import Location
from chatcli.settings.values import NEWEST_STATE_BYTES
from chatcli.store.segments import catalog
from chatcli.store.segments.catalog import (
    TOKENS,
    Kind,
    RowsFile,
    Sharing,
    covered,
    locate,
    segment_ends,
    stored_tokens,
)
from chatcli.store.segments.container import (
    SEGMENT_FORMAT,
    SEGMENT_VERSION,
    Container,
    Tensor,
    Tensors,
    pieces,
    size_of,
)
from chatcli.store.segments.joining import join_small_files
from chatcli.store.segments.rows import Piece, Rows, prefill_seconds
from chatcli.store.segments.token_path import Segment, TokenPath, root_id
from chatcli.threads.executor import SerialExecutor

# How often to look again, because another process may join files after they were located.
ATTEMPTS = 3
# How many states at ends of paths stay even if recomputing them is fast: this many, or more small ones, up to
# `NEWEST_STATE_BYTES`. If `SMALL_STATES` of them fit there, every boundary gets one.
NEWEST_STATES, SMALL_STATES = 4, 16
# How long to wait before writing to a folder again that could not be written.
RETRY_SECONDS = 60.0


@dataclass(frozen=True)
class Increment:
    """What a cache gained over the last `count` segments of `path`, and the seconds of their prefill.

    `rows` belong to the segments' tokens; `state` and `scalars` are the whole state at the end.
    """

    path: TokenPath
    rows: Tensors
    state: Tensors
    scalars: str
    seconds: float
    count: int = 1

    @property
    def segment(self) -> Segment:
        return self.path[-1]

    @property
    def segments(self) -> TokenPath:
        """The segments that the rows belong to."""
        return self.path.after(len(self.path) - self.count)


class SegmentStore:
    """The segments of one model in one folder, written on a separate thread.

    `written` is called on that thread after each write, with its bytes and its path. `written_bytes` counts
    everything written so far, including joined files; `upkeep_bytes` counts what was written outside of turns
    since it was last read: joined files, and states at the ends of conversations.
    """

    def __init__(
        self,
        folder: Path | Location,
        fingerprint: str,
        written: Callable[[int, TokenPath], None] | None = None,
        recompute_seconds: float = 0.0,
        newest_bytes: int = NEWEST_STATE_BYTES,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """A state is kept if computing it again would take longer than `recompute_seconds`.

        The newest states always stay, up to `newest_bytes`. After a failed write the folder is tried again
        after `retry_seconds`.
        """
        self.fingerprint = fingerprint
        self.location = catalog.model_folder(folder, fingerprint)
        self.folder = self.location.path
        self.problem: str | None = None
        self.written_bytes = self.upkeep_bytes = 0
        self._problem_taken = False
        self._retry_seconds, self._retry_at = retry_seconds, math.inf
        self._written = written
        self._writer = SerialExecutor("chatcli-writer")
        self._pending: list[Future[None]] = []
        self._queued: dict[Kind, set[str]] = {"rows": set(), "state": set()}
        self._newest: TokenPath | None = None
        self._recompute_seconds, self._newest_bytes = recompute_seconds, newest_bytes
        # The prefill seconds of segments, by id.
        self._seconds: dict[str, float] = {}
        self._state_bytes = 0
        with contextlib.suppress(OSError):
            files.sweep(self.location / "tmp")

    # Lookup

    def depth(self, path: TokenPath, *, stateful: bool, in_memory: Collection[str] = ()) -> int:
        """How many leading segments can be restored; if `stateful`, the last of them must have a state.

        `in_memory` are the ids of segments whose states are in memory.
        """
        ids = [segment.id for segment in path][: covered(locate(self.location, path))]
        while stateful and ids and not (ids[-1] in in_memory or self.has_state(ids[-1])):
            ids.pop()
        return len(ids)

    def shared_tokens(self, path: TokenPath) -> int:
        """How many leading tokens of a path have rows on disk, whether or not they can be restored there."""
        depth = covered(locate(self.location, path))
        end = path.upto(depth).end
        if depth == len(path):
            return end
        return end + max(
            (each.count for each in catalog.sharing_tokens(self.location, path, depth)), default=0
        )

    def has_state(self, identifier: str) -> bool:
        with contextlib.suppress(OSError):
            return catalog.state_path(self.location, identifier).exists()
        return False

    # Reading

    def rows(self, path: TokenPath) -> Rows:
        """Open the rows of a path; the caller closes them. A damaged file is set aside.

        Raises `SegmentDamaged` with the reason, also if rows are missing.
        """
        for _ in range(ATTEMPTS):
            with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as opened:
                pieces: list[Piece] = []
                depth = 0
                for located in locate(self.location, path):
                    run = path.upto(depth + located.segments).after(depth)
                    with self._explained(located.path):
                        pieces.append(self._piece(located, run))
                    opened.callback(pieces[-1].file.close)
                    depth += located.segments
                if depth < len(path):
                    continue  # files may have been joined while the folders were listed
                try:
                    rows = Rows(pieces)
                except SegmentDamaged as error:
                    for piece in pieces:
                        set_aside(piece.file.path)
                    raise SegmentDamaged(f"damaged: {error}") from error
                opened.pop_all()
                return rows
        raise SegmentDamaged("evicted or deleted")

    def _piece(self, located: RowsFile, run: TokenPath) -> Piece:
        """Open the rows of `run`, if the file contains them. Raises `SegmentDamaged`."""
        file = Container(located.path)
        try:
            self._check(file, "rows", parent=run.root, start=str(run[0].start))
            if located.whole and file.metadata.get("id") != run.id:
                raise SegmentDamaged("its id belongs to another segment")
            ends, tokens = segment_ends(file), stored_tokens(file)
            count = run.end - run[0].start
            if ends[: len(run)] != [segment.end for segment in run] or tokens[:count] != list(
                run.tokens[run[0].start : run.end]
            ):
                raise SegmentDamaged("its tokens differ from the conversation's")
            speed = prefill_seconds(file.metadata) / len(tokens)
            for segment in run:
                self._seconds.setdefault(segment.id, speed * (segment.end - segment.start))
            return Piece(file, count, len(tokens))
        except BaseException:
            file.close()
            raise

    def _check(self, file: Container, kind: Kind, **expected: str) -> None:
        common = {
            "format": SEGMENT_FORMAT,
            "version": SEGMENT_VERSION,
            "kind": kind,
            "fingerprint": self.fingerprint,
        }
        for key, value in {**common, **expected}.items():
            if file.metadata.get(key) != value:
                raise SegmentDamaged(f"its {key} belongs to another segment")

    @contextlib.contextmanager
    def _explained(self, path: Location) -> Iterator[None]:
        """Translate every read failure to `SegmentDamaged` with its reason, and set a damaged file aside."""
        try:
            yield
        except SegmentDamaged as error:
            set_aside(path)
            raise SegmentDamaged(f"damaged: {error}") from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SegmentDamaged(f"unreadable: {error.strerror}") from error

    def lendable(self, path: TokenPath, step: int, depth: int = 0) -> int:
        """How many tokens after `depth`, a multiple of `step`, another path shares with this one."""
        most = self._sharing_most(path, step, depth)
        return 0 if most is None else most.count - most.count % step

    def _sharing_most(self, path: TokenPath, step: int, depth: int) -> Sharing | None:
        if len(path.after(depth).first_tokens) < step:
            return None
        sharing = catalog.sharing_tokens(self.location, path, depth)
        most = max(sharing, key=attrgetter("count"), default=None)
        return most if most is not None and most.count >= step else None

    def rows_of_other_path(self, path: TokenPath, step: int, depth: int = 0) -> Rows | None:
        """Open the rows of these tokens; the caller closes them. None if they are missing or damaged."""
        most = self._sharing_most(path, step, depth)
        if most is None:
            return None
        with contextlib.suppress(OSError, SegmentDamaged), self._explained(most.path):
            file = Container(most.path)
            try:
                self._check(file, "rows", parent=most.parent, start=str(most.start))
                count = most.count - most.count % step
                return Rows([Piece(file, count, len(stored_tokens(file)), most.skip)])
            except BaseException:
                file.close()
                raise
        return None

    def state(self, segment: Segment) -> tuple[dict[str, Tensor], str]:
        """The state at a segment's end, and its scalars. Raises `SegmentDamaged`."""
        path = catalog.state_path(self.location, segment.id)
        try:
            with self._explained(path), Container(path) as file:
                self._check(file, "state", id=segment.id, end=str(segment.end))
                return {name: file.read(name) for name in file.tensors}, file.metadata["scalars"]
        except FileNotFoundError as error:
            raise SegmentDamaged("evicted or deleted") from error

    def set_aside_damaged(self, path: TokenPath) -> None:
        """Read all rows of a path and set the damaged files aside."""
        for located in locate(self.location, path):
            with (
                contextlib.suppress(OSError, SegmentDamaged),
                self._explained(located.path),
                Container(located.path) as file,
            ):
                file.check()

    def set_aside_rows(self, rows: Rows) -> None:
        """Set the files of open rows aside: they are intact, but do not fit the model."""
        for piece in rows.pieces:
            set_aside(piece.file.path)

    def set_aside_state(self, segment: Segment) -> None:
        """Set a state aside that does not fit the model."""
        set_aside(catalog.state_path(self.location, segment.id))

    def set_aside_all(self, path: TokenPath) -> None:
        """Set a path's files aside: they are intact, but do not fit the model."""
        for located in locate(self.location, path):
            set_aside(located.path)
        for segment in path:
            set_aside(catalog.state_path(self.location, segment.id))

    def touch(self, rows: Rows, last: Segment) -> None:
        """Mark a path's files as used now, for eviction."""
        paths = [piece.file.path for piece in rows.pieces]
        for path in (*paths, catalog.state_path(self.location, last.id)):
            with contextlib.suppress(OSError):
                path.set_times()

    def tokens_of(self, ids: Sequence[str]) -> list[int]:
        """The tokens of a path from its segment ids alone, as far as they are on disk."""
        return catalog.tokens_of(self.location, ids)

    # Which states are kept

    def took(self, path: TokenPath, seconds: float) -> None:
        """Note the prefill seconds of a path's last segment."""
        self._seconds[path.id] = seconds

    def is_due(self, path: TokenPath, seconds: float, size: int | None = None) -> bool:
        """Whether to write the state at the end of a path, of `size` bytes.

        Yes if recomputing it from the last state would take too long, at the first boundary, which other
        conversations share, and if it is small (`size` None: ignore the size). States at cuts that are
        deleted once their long segment is complete do not count as the last state. `seconds` is how long the
        prefill of the path's last segment took.
        """
        *before, last = path
        self.took(path, seconds)
        if size is not None:
            self._state_bytes = size
            if size * SMALL_STATES <= self._newest_bytes:
                return True
        if path.root == root_id(self.fingerprint) and path.beginning == len(path) and not last.ends_at_cut:
            return True
        for segment in reversed(before):
            if seconds > self._recompute_seconds:
                return True
            if segment.keeps_state and (segment.id in self._queued["state"] or self.has_state(segment.id)):
                return False
            seconds += self._seconds.get(segment.id, math.inf)
        return seconds > self._recompute_seconds

    def _thin(self, path: TokenPath) -> None:
        """After a state was written, delete the one that is no longer among the newest, if recomputing is
        fast.

        That is, if everything from the state before it up to the next one can be recomputed in time. States
        at cuts do not count among the newest.
        """
        if path[-1].ends_at_cut:
            return
        kept = max(NEWEST_STATES, self._newest_bytes // max(self._state_bytes, 1))
        # The depths of the states, newest first, up to the one before the first that is not among the newest.
        # Those up to the first boundary, which others share, do not count: the root stands for them.
        depths: list[int] = []
        at_boundaries = 0
        for depth in range(len(path), path.beginning, -1):
            if self.has_state(path[depth - 1].id):
                depths.append(depth)
                if at_boundaries > kept:
                    break
                at_boundaries += not path[depth - 1].ends_at_cut
        else:
            depths.append(0)
        if at_boundaries > kept:
            following, oldest, before = depths[-3:]
            between = path.segments[before : following - 1]
            seconds = sum(self._seconds.get(segment.id, math.inf) for segment in between)
            if seconds <= self._recompute_seconds:
                catalog.state_path(self.location, path[oldest - 1].id).unlink(missing_ok=True)

    # Writing

    def missing(self, path: TokenPath) -> list[int]:
        """The depths of a path whose rows are neither on disk nor queued."""
        depths = range(covered(locate(self.location, path)) + 1, len(path) + 1)
        return [depth for depth in depths if path[depth - 1].id not in self._queued["rows"]]

    def put(self, increment: Increment, *, rows_missing: bool | None = None) -> int:
        """Queue an increment for writing, rows before state. Returns the bytes it will take.

        The writer thread reads its arrays later: they must not change. A file that is already on disk is not
        written again and counts as 0 bytes. `rows_missing` None: look it up.
        """
        if rows_missing is None:
            rows_missing = len(increment.path) in self.missing(increment.path)
        size = self._queue(increment, "rows") if rows_missing else 0
        is_queued = increment.segment.id in self._queued["state"]
        if increment.state and not is_queued and not self.has_state(increment.segment.id):
            size += self._queue(increment, "state")
        return size

    def _queue(self, increment: Increment, kind: Kind) -> int:
        if self._is_off:
            return 0
        metadata, tensors = self._metadata(increment, kind), self._tensors(increment, kind)
        self._newest = increment.path
        self._queued[kind].update(_ids(increment, kind))
        self._pending = [job for job in self._pending if not job.done()]
        self._pending.append(self._writer.submit(self._write, increment, kind, tensors, metadata))
        return size_of(tensors, metadata)

    def _metadata(self, increment: Increment, kind: Kind) -> dict[str, str]:
        last = increment.segment
        first = increment.segments[0] if kind == "rows" else last
        metadata = {
            "format": SEGMENT_FORMAT,
            "version": SEGMENT_VERSION,
            "kind": kind,
            "fingerprint": self.fingerprint,
            "id": last.id,
            "parent": first.parent,
            "start": str(first.start),
            "end": str(last.end),
            "seconds": f"{increment.seconds:.3f}",
            "created": str(int(time.time())),
        }
        if kind == "state":
            return {**metadata, "scalars": increment.scalars}
        ends = [segment.end for segment in increment.segments]
        cuts = [segment.end for segment in increment.segments if segment.ends_at_cut]
        return {**metadata, **catalog.ends_metadata(ends, cuts)}

    def _tensors(self, increment: Increment, kind: Kind) -> Tensors:
        if kind == "state":
            return increment.state
        path, start = increment.path, increment.segments[0].start
        tokens = np.asarray(path.tokens[start : path.end], "<i4")
        return {TOKENS: Tensor.of(tokens), **increment.rows}

    def _write(self, increment: Increment, kind: Kind, tensors: Tensors, metadata: Mapping[str, str]) -> None:
        if self._is_off:
            return
        path = increment.path
        try:
            if kind == "rows":
                target = catalog.rows_path(self.location, increment.segments)
            else:
                target = catalog.state_path(self.location, increment.segment.id)
            size = files.write_once(target, pieces(tensors, metadata), self.location / "tmp")
            self.written_bytes += size
            if self._retry_at < math.inf:
                self.problem, self._retry_at = None, math.inf
            if kind == "rows" and not path[-1].ends_at_cut:
                self._join_small_files(path)
                # Delete states that only an interrupted prefill of this long segment would have needed.
                for segment in path.segments[path.last_start :]:
                    if not segment.keeps_state:
                        catalog.state_path(self.location, segment.id).unlink(missing_ok=True)
            elif kind == "state":
                self._thin(path)
            if self._written is not None:
                self._written(size or size_of(tensors, metadata), path)
        except OSError as error:
            self.give_up(f"{self.folder} cannot be written: {error.strerror}")
            # Too many files are open in this process: the disk is fine, and they will be closed soon.
            is_out_of_files = error.errno in (errno.EMFILE, errno.ENFILE)
            self._retry_at = time.monotonic() + (0.0 if is_out_of_files else self._retry_seconds)
        finally:
            self._queued[kind].difference_update(_ids(increment, kind))

    @property
    def _is_off(self) -> bool:
        return self.problem is not None and time.monotonic() < self._retry_at

    def give_up(self, reason: str) -> None:
        """Stop writing, and report why once."""
        self.problem = self.problem or f"checkpoints are off, {reason}"

    def _join_small_files(self, path: TokenPath, *, last: bool = False) -> None:
        try:
            size = -1
            while size and covered(located := locate(self.location, path)) == len(path):
                size = join_small_files(self.location, located, path, self._piece, last=last)
                self.written_bytes += size
                self.upkeep_bytes += size
        except FileNotFoundError:
            return  # another process has joined or evicted them
        except SegmentDamaged:
            self.set_aside_damaged(path)

    @property
    def unwritten(self) -> int:
        """How many files are queued."""
        return sum(not job.done() for job in list(self._pending))

    def is_queued(self, path: TokenPath) -> bool:
        """Whether rows of some of these segments are still to be written."""
        return not self._queued["rows"].isdisjoint(path.ids)

    def flush(self) -> None:
        """Wait until everything queued is on disk, or `problem` says why it is not."""
        pending, self._pending = self._pending, []
        for job in pending:
            job.result()

    def take_problem(self) -> str | None:
        """Why writing stopped, once: None on later calls."""
        problem, self._problem_taken = (None if self._problem_taken else self.problem), bool(self.problem)
        return problem

    def tidy(self) -> None:
        """Join the small files at the end of the newest path, because nothing more will be written soon."""
        if self._newest is not None:
            self._pending.append(self._writer.submit(self._tidy, self._newest))

    def _tidy(self, path: TokenPath) -> None:
        if self.problem is None:
            with contextlib.suppress(OSError):  # no new data is lost
                self._join_small_files(path, last=True)

    def close(self) -> None:
        self.flush()
        self._writer.shutdown()


def _ids(increment: Increment, kind: Kind) -> list[str]:
    """The segments whose rows or state an increment has."""
    return increment.segments.ids if kind == "rows" else [increment.segment.id]


def set_aside(path: Location) -> None:
    """Rename a file, so that the next turn writes it again. A folder is not ours and stays."""
    with contextlib.suppress(OSError):
        if path.is_folder():
            return
        path.rename(path.with_name(f"{path.stem}{catalog.DAMAGED}"))
