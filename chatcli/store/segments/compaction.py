"""Joins the small files at the end of a path into one; refuses to know who reads them.

Many small files cost more to open than to read. So files are joined as in a log-structured merge
tree (O'Neil and others, 1996): whenever the last `FAN` files of a path hold about equally many
segments, they become one. A row is rewritten at most `log(segments, FAN)` times, and a path has
at most `FAN - 1` files of each size, until a file is large enough to be worth opening by itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np

from chatcli import files
from chatcli.store.segments.catalog import (
    SHORT,
    TOKENS,
    Found,
    covered,
    rows_name,
    rows_path,
    segment_ends,
    segment_ids,
    stored_tokens,
)
from chatcli.store.segments.container import Container, Tensor, pack
from chatcli.store.segments.rows import Piece, Rows, joined
from chatcli.store.segments.token_path import TokenPath

FAN = 8
FEW = 6
LARGE = 64 << 20


Opener = Callable[[Found, TokenPath], Piece]


def compact(
    folder: Path,
    found: Sequence[Found],
    path: TokenPath,
    checked: Opener,
    *,
    last: bool = False,
) -> None:
    """Join the last files of a path if it is their turn: the new one is written, then they go.

    The first segment stays by itself: it is what other conversations share. `checked` opens a file
    of known segments. `last`: nothing more is written soon, so a few small files are enough.
    Raises `OSError` and `SegmentDamaged`; nothing is lost then.
    """
    run = _own_files(found)
    sizes = [one.path.stat().st_size for one in run]
    segments_in = [one.segments for one in run]
    count = small_files(segments_in, sizes) if last else files_to_join(segments_in, sizes)
    if count:
        chosen = run[-count:]
        end = covered(found)
        joined_path = path.upto(end).after(end - covered(chosen))
        target = rows_path(folder, joined_path)
        files.write_once(target, _joined(chosen, joined_path, checked), folder / "tmp")
        for one in chosen:
            one.path.unlink(missing_ok=True)


def _own_files(found: Sequence[Found]) -> list[Found]:
    """The files at the end of a path that hold nothing of another, without the path's first."""
    own: list[Found] = []
    for one in reversed(found[1:]):
        if not one.whole:
            break
        own.insert(0, one)
    return own


def files_to_join(segments: Sequence[int], sizes: Sequence[int]) -> int:
    """How many files at the end become one, by the number of segments in each and their bytes."""
    taken = inside = 0
    while True:
        level = _level(inside or segments[-1]) if segments else 0
        needed = FAN - 1 if inside else FAN
        before = segments[: len(segments) - taken][-needed:]
        grown = taken + needed
        if len(before) < needed or any(_level(count) != level for count in before):
            return taken
        if sum(sizes[-grown:]) > LARGE:
            return taken
        taken, inside = grown, sum(segments[-grown:])


def small_files(segments: Sequence[int], sizes: Sequence[int]) -> int:
    """How many files of a few segments end a path; 0 if that is too few to be worth joining."""
    few = len(list(takewhile(lambda count: _level(count) == 0, reversed(segments))))
    return few if few >= FEW and sum(sizes[len(sizes) - few :]) <= LARGE else 0


def _level(segments: int) -> int:
    level = 0
    while segments >= FAN:
        segments, level = segments // FAN, level + 1
    return level


def _joined(chosen: Sequence[Found], path: TokenPath, checked: Opener) -> bytes:
    pieces: list[Piece] = []
    try:
        done = 0
        for found in chosen:
            pieces.append(checked(found, path.upto(done + found.segments).after(done)))
            done += found.segments
        return _pack(Rows(pieces), [segment.end for segment in path])
    finally:
        for piece in pieces:
            piece.file.close()


def _pack(rows: Rows, ends: Sequence[int]) -> bytes:
    """The file of these rows, whose segments end at `ends`."""
    first, last = rows.pieces[0].file.metadata, rows.pieces[-1].file.metadata
    tokens = [token for piece in rows.pieces for token in stored_tokens(piece.file)[: piece.count]]
    tensors = {name: Tensor.of(joined(rows, name), rows.dtype(name)) for name in rows.names}
    changes = {
        "parent": first["parent"],
        "start": first["start"],
        "end": str(ends[-1]),
        "ends": json.dumps(list(ends)),
        "seconds": f"{rows.seconds:.3f}",
    }
    return pack({TOKENS: Tensor.of(np.asarray(tokens, "<i4")), **tensors}, {**last, **changes})


def shorten(folder: Path, path: Path, keep: int) -> Path:
    """Write a rows file anew with its first `keep` segments only, then drop it.

    Raises `OSError` and `SegmentDamaged`.
    """
    with Container(path) as file:
        ends = segment_ends(file)[:keep]
        ids = segment_ids(file)
        length = len(stored_tokens(file))
        count = ends[-1] - int(file.metadata["start"])
        rows = Rows([Piece(file, count, length)])
        file.metadata["id"] = ids[keep - 1]
        used = path.stat().st_mtime
        new = path.with_name(rows_name(path.name[:SHORT], ids[0], ids[keep - 1]))
        # What is shortened makes room.
        files.write_once(new, _pack(rows, ends), folder / "tmp", reserve=0)
        os.utime(new, (used, used))
    if new != path:
        path.unlink(missing_ok=True)
    return new
