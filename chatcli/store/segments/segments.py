"""Checkpoints on disk as a tree of immutable segments; refuses to know conversations and MLX.

The names and the layout are FORMAT.md's. Reading never trusts a file: whatever is wrong with one
is a `SegmentDamaged` with the reason, which the caller treats as a miss.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chatcli import files
from chatcli.errors import SegmentDamaged
from chatcli.store.segments import catalog
from chatcli.store.segments.catalog import TOKENS, Found, Kind, covered, locate, segment_ends, stored_tokens
from chatcli.store.segments.compaction import compact
from chatcli.store.segments.container import (
    SEGMENT_FORMAT,
    SEGMENT_VERSION,
    Container,
    Tensor,
    Tensors,
    pieces,
    size_of,
)
from chatcli.store.segments.rows import Piece, Rows
from chatcli.store.segments.token_path import Segment, TokenPath
from chatcli.threads.executor import SerialExecutor

# Another process may join files between our finding and our opening them.
ATTEMPTS = 3


@dataclass(frozen=True)
class Checkpoint:
    """What is new at the end of `path`, and what it took to compute.

    `rows` are those of the last segment's tokens; `state` and `scalars` are the whole state there.
    """

    path: TokenPath
    rows: Tensors
    state: Tensors
    scalars: str
    seconds: float

    @property
    def segment(self) -> Segment:
        return self.path[-1]


class SegmentStore:
    """The segments of one model in one folder. Writes happen on a thread of its own.

    `written` is called there after each write, with its bytes and the path that it belongs to.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        written: Callable[[int, TokenPath], None] | None = None,
    ) -> None:
        self.fingerprint = fingerprint
        self.folder = catalog.model_folder(folder, fingerprint)
        self.problem: str | None = None
        self._told = False
        self._written = written
        self._writer = SerialExecutor("chatcli-writer")
        self._pending: list[Future[None]] = []
        self._queued: set[str] = set()
        self._newest: TokenPath | None = None
        with contextlib.suppress(OSError):
            files.sweep(self.folder / "tmp")

    # Finding

    def depth(self, path: TokenPath, *, stateful: bool) -> int:
        """How many leading segments can be restored: the last of them with state if `stateful`."""
        depth = covered(self._locate(path))
        while stateful and depth and not self.has_state(path[depth - 1].id):
            depth -= 1
        return depth

    def has_state(self, identifier: str) -> bool:
        with contextlib.suppress(OSError):
            return catalog.state_path(self.folder, identifier).exists()
        return False

    def _locate(self, path: TokenPath) -> list[Found]:
        return locate(self.folder, path)

    # Reading

    def rows(self, path: TokenPath) -> Rows:
        """The rows of a path, open: close them. What is damaged is set aside.

        Raises `SegmentDamaged` with the reason, also for a file that is not there.
        """
        for _ in range(ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                return self._open(path)
        raise SegmentDamaged("evicted or deleted")

    def _open(self, path: TokenPath) -> Rows:
        pieces: list[Piece] = []
        try:
            depth = 0
            for found in self._locate(path):
                run = path.upto(depth + found.segments).after(depth)
                with self._explained(found.path):
                    pieces.append(self._piece(found, run))
                depth += found.segments
            if depth < len(path):
                # Files may have been joined while we looked for them in one folder after the other.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return self._fitting(pieces)
        except BaseException:
            for piece in pieces:
                piece.file.close()
            raise

    def _fitting(self, pieces: Sequence[Piece]) -> Rows:
        try:
            return Rows(pieces)
        except SegmentDamaged as error:
            for piece in pieces:
                set_aside(piece.file.path)
            raise SegmentDamaged(f"damaged: {error}") from error

    def _piece(self, found: Found, run: TokenPath) -> Piece:
        file = Container(found.path)
        try:
            self._check(file, "rows", parent=run.root, start=str(run[0].start))
            if found.whole and file.metadata.get("id") != run.id:
                raise SegmentDamaged("its id belongs to another segment")
            ends, tokens = segment_ends(file), stored_tokens(file)
            count = run.end - run[0].start
            if ends[: len(run)] != [segment.end for segment in run] or tokens[:count] != list(
                run.tokens[run[0].start : run.end]
            ):
                raise SegmentDamaged("its tokens are not the conversation's")
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
    def _explained(self, path: Path) -> Iterator[None]:
        """Set a damaged file aside, and say of every failure to read what it is."""
        try:
            yield
        except SegmentDamaged as error:
            set_aside(path)
            raise SegmentDamaged(f"damaged: {error}") from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SegmentDamaged(f"unreadable: {error.strerror}") from error

    def like(self, path: TokenPath, step: int) -> Rows | None:
        """Rows of another path that begins as this one does, in whole multiples of `step` tokens."""
        shared = catalog.like_beginnings(self.folder, path)
        best = max(shared, key=lambda one: one[1], default=(None, 0))
        name, count = best[0], best[1] - best[1] % step
        if name is None or not count:
            return None
        with contextlib.suppress(OSError, SegmentDamaged):
            file = Container(name)
            try:
                self._check(file, "rows", parent=path.root, start=str(path[0].start))
                return Rows([Piece(file, count, len(stored_tokens(file)))])
            except BaseException:
                file.close()
                raise
        return None

    def state(self, segment: Segment) -> tuple[dict[str, Tensor], str]:
        """The state at a segment's end, and its scalars. Raises `SegmentDamaged`."""
        path = catalog.state_path(self.folder, segment.id)
        try:
            with self._explained(path), Container(path) as file:
                self._check(file, "state", id=segment.id, end=str(segment.end))
                return {name: file.read(name) for name in file.tensors}, file.metadata["scalars"]
        except FileNotFoundError as error:
            raise SegmentDamaged("evicted or deleted") from error

    def examine(self, path: TokenPath) -> None:
        """Set aside whatever is damaged on a path."""
        for found in self._locate(path):
            with contextlib.suppress(OSError, SegmentDamaged), self._explained(found.path):
                check_whole(found.path)

    def set_aside(self, path: TokenPath) -> None:
        """Move a path's files out of the way: they are whole, but do not fit the model."""
        for found in self._locate(path):
            set_aside(found.path)
        for segment in path:
            set_aside(catalog.state_path(self.folder, segment.id))

    def touch(self, rows: Rows, last: Segment) -> None:
        """Note that a path was used now: eviction takes what was used longest ago."""
        paths = [piece.file.path for piece in rows.pieces]
        for path in (*paths, catalog.state_path(self.folder, last.id)):
            with contextlib.suppress(OSError):
                os.utime(path)

    def tokens_of(self, names: Sequence[str]) -> list[int]:
        """The tokens of a path of segments from their ids alone, as far as they are on disk."""
        return catalog.tokens_of(self.folder, names)

    # Writing

    def missing(self, path: TokenPath) -> list[int]:
        """The depths of a path whose rows are neither on disk nor about to be."""
        depth = covered(self._locate(path))
        depths = range(depth + 1, len(path) + 1)
        return [at for at in depths if path[at - 1].id not in self._queued]

    def put(self, made: Checkpoint) -> int:
        """Queue a checkpoint for writing, rows before state. Returns the bytes that it will take.

        Its arrays are read on the writer's thread, later: they must not change. What is there
        already costs nothing.
        """
        return self.add(made, rows=len(made.path) in self.missing(made.path))

    def add(self, made: Checkpoint, *, rows: bool) -> int:
        """`put`, where it is known whether the rows are wanted."""
        size = self._queue(made, "rows") if rows else 0
        if made.state and not self.has_state(made.segment.id):
            size += self._queue(made, "state")
        return size

    def _queue(self, made: Checkpoint, kind: Kind) -> int:
        if self.problem:
            return 0
        told, tensors = self._told_of(made, kind), self._tensors(made, kind)
        self._newest = made.path
        if kind == "rows":
            self._queued.add(made.segment.id)
        self._pending = [job for job in self._pending if not job.done()]
        self._pending.append(self._writer.submit(self._write, made, kind, tensors, told))
        return size_of(tensors, told)

    def _told_of(self, made: Checkpoint, kind: Kind) -> dict[str, str]:
        """A file's metadata."""
        segment = made.segment
        told = {
            "format": SEGMENT_FORMAT,
            "version": SEGMENT_VERSION,
            "kind": kind,
            "fingerprint": self.fingerprint,
            "id": segment.id,
            "parent": segment.parent,
            "start": str(segment.start),
            "end": str(segment.end),
            "seconds": f"{made.seconds:.3f}",
            "created": str(int(time.time())),
        }
        if kind == "state":
            return {**told, "scalars": made.scalars}
        return {**told, "ends": json.dumps([segment.end])}

    def _tensors(self, made: Checkpoint, kind: Kind) -> Tensors:
        if kind == "state":
            return made.state
        tokens = np.asarray(made.path.tokens_of(made.segment), "<i4")
        return {TOKENS: Tensor.of(tokens), **made.rows}

    def _write(self, made: Checkpoint, kind: Kind, tensors: Tensors, told: Mapping[str, str]) -> None:
        if self.problem:
            return
        try:
            if kind == "rows":
                target = catalog.rows_path(self.folder, made.path.after(len(made.path) - 1))
            else:
                target = catalog.state_path(self.folder, made.segment.id)
            size = files.write_once(target, pieces(tensors, told), self.folder / "tmp")
            if kind == "rows":
                self._join_small_files(made.path)
            if self._written is not None:
                self._written(size or size_of(tensors, told), made.path)
        except OSError as error:
            self.give_up(f"{self.folder} cannot be written: {error.strerror}")
        finally:
            if kind == "rows":
                self._queued.discard(made.segment.id)

    def give_up(self, reason: str) -> None:
        """Write nothing more in this process, and say why once."""
        self.problem = self.problem or f"checkpoints are off, {reason}"

    def _join_small_files(self, path: TokenPath, *, last: bool = False) -> None:
        try:
            found = locate(self.folder, path)
            if covered(found) == len(path):
                compact(self.folder, found, path, self._piece, last=last)
        except FileNotFoundError:
            return  # another process joined or evicted them first
        except SegmentDamaged:
            self.examine(path)

    def flush(self) -> None:
        """Wait until everything that was put is on disk, or `problem` says why it is not."""
        pending, self._pending = self._pending, []
        for job in pending:
            job.result()

    def take_problem(self) -> str | None:
        """Why nothing more is written, the first time that it is asked for."""
        problem, self._told = (None if self._told else self.problem), bool(self.problem)
        return problem

    def tidy(self) -> None:
        """Leave what was written in few files, because nothing more is written soon."""
        if self._newest is not None:
            self._pending.append(self._writer.submit(self._tidy, self._newest))

    def close(self) -> None:
        self.flush()
        self._writer.shutdown()

    def _tidy(self, path: TokenPath) -> None:
        if self.problem is None:
            with contextlib.suppress(OSError):  # nothing new would be lost by it
                self._join_small_files(path, last=True)


def check_whole(path: Path) -> None:
    """Read every byte. Raises `SegmentDamaged` or `OSError`."""
    with Container(path) as file:
        file.check()


def set_aside(path: Path) -> None:
    """Move a file out of the way, so that the next turn writes it anew."""
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(catalog.DAMAGED))
