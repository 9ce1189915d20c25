"""Joins the small files at the end of a path into one.

Many small files cost more to open than to read. So files are joined as in a log-structured merge tree (O'Neil
and others, 1996): whenever the last `FANOUT` files of a path hold about equally many segments, they become
one. A row is rewritten at most `log(segments, FANOUT)` times, and a path has at most `FANOUT - 1` files of
each size, until files are so large that opening them does not matter. The parts of a long segment that were
written during its prefill become one file once it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile

import numpy as np

from chatcli import files
from chatcli.files import Location
from chatcli.store.segments.catalog import (
    NAME_DIGITS,
    TOKENS,
    RowsFile,
    covered,
    cuts_of,
    ends_metadata,
    rows_name,
    rows_path,
    segment_ends,
    segment_ids,
    stored_tokens,
)
from chatcli.store.segments.container import Container, Tensor, Tensors, pieces
from chatcli.store.segments.rows import Piece, Rows, joined
from chatcli.store.segments.token_path import TokenPath

FANOUT = 8
# A path that ends in fewer small files is not joined.
MIN_SMALL_FILES = 6
MAX_JOINED_BYTES = 64 << 20

OpenPiece = Callable[[RowsFile, TokenPath], Piece]


def join_small_files(
    folder: Location,
    located: Sequence[RowsFile],
    path: TokenPath,
    open_piece: OpenPiece,
    *,
    last: bool = False,
) -> int:
    """Join the last files of a path if there are enough: write the joined one, then delete them.

    The segments up to the path's first boundary are not joined with others, because other conversations share
    them, nor are files that hold segments of other paths. `last`: nothing more will be written soon, so fewer
    files are enough. Returns the bytes written. Raises `OSError` and `SegmentDamaged`, and then loses
    nothing.
    """
    own = list(takewhile(lambda file: file.whole, reversed(located)))[::-1]
    sizes = [file.path.stat().st_size for file in own]
    starts = list(accumulate((file.segments for file in located), initial=0))[:-1][len(located) - len(own) :]
    number = sum(start >= path.last_start for start in starts)
    if number < 2 or sum(sizes[-number:]) > MAX_JOINED_BYTES:
        # All parts of a long segment count as one.
        counts = [
            max(len(path.upto(start + file.segments).after(start).boundaries), 1)
            for start, file in zip(starts, own, strict=True)
            if start >= max(path.beginning, 1)
        ]
        sizes = sizes[len(sizes) - len(counts) :]
        number = small_files(counts, sizes) if last else files_to_join(counts, sizes)
    if not number:
        return 0
    joining = own[-number:]
    run = path.upto(covered(located)).after(covered(located) - covered(joining))
    opened: list[Piece] = []
    try:
        depth = 0
        for file in joining:
            opened.append(open_piece(file, run.upto(depth + file.segments).after(depth)))
            depth += file.segments
        data = pieces(*_joined(Rows(opened), [segment.end for segment in run]))
    finally:
        for piece in opened:
            piece.file.close()
    size = files.write_once(rows_path(folder, run), data, folder / "tmp")
    for file in joining:
        file.path.unlink(missing_ok=True)
    return size


def files_to_join(segments: Sequence[int], sizes: Sequence[int]) -> int:
    """How many files at the end to join, given the number of segments and bytes of each."""
    number = joined_segments = 0
    while True:
        level = _level(joined_segments or segments[-1]) if segments else 0
        # The files to join so far count as one file of the next level.
        needed = FANOUT - 1 if joined_segments else FANOUT
        before = segments[: len(segments) - number][-needed:]
        if len(before) < needed or any(_level(count) != level for count in before):
            return number
        if sum(sizes[-number - needed :]) > MAX_JOINED_BYTES:
            return number
        number += needed
        joined_segments = sum(segments[-number:])


def small_files(segments: Sequence[int], sizes: Sequence[int]) -> int:
    """How many files of fewer than `FANOUT` segments a path ends with; 0 if they are not worth joining."""
    number = len(list(takewhile(lambda count: count < FANOUT, reversed(segments))))
    fits = sum(sizes[len(sizes) - number :]) <= MAX_JOINED_BYTES
    return number if number >= MIN_SMALL_FILES and fits else 0


def _level(segments: int) -> int:
    """The logarithm of a number of segments to the base `FANOUT`, rounded down."""
    level = 0
    while segments >= FANOUT:
        segments, level = segments // FANOUT, level + 1
    return level


def _joined(rows: Rows, ends: Sequence[int]) -> tuple[Tensors, dict[str, str]]:
    """The tensors and metadata of a file with these rows, whose segments end at `ends`."""
    first, last = rows.pieces[0].file.metadata, rows.pieces[-1].file.metadata
    tokens = [
        token
        for piece in rows.pieces
        for token in stored_tokens(piece.file)[piece.skip : piece.skip + piece.count]
    ]
    tensors = {name: Tensor.of(joined(rows, name), rows.dtype(name)) for name in rows.names}
    cuts = [cut for piece in rows.pieces for cut in cuts_of(piece.file) if cut in ends]
    metadata = {
        **{key: value for key, value in last.items() if key != "cuts"},
        "parent": first["parent"],
        "start": first["start"],
        "end": str(ends[-1]),
        "seconds": f"{rows.seconds:.3f}",
        **ends_metadata(ends, cuts),
    }
    return {TOKENS: Tensor.of(np.asarray(tokens, "<i4")), **tensors}, metadata


def segments_between(file: Container, keep: int, skip: int = 0) -> tuple[Tensors, dict[str, str]]:
    """What a file of the segments `skip` to `keep` of an open one holds, in memory. Raises as `shorten`."""
    ids, length = [file.metadata["parent"], *segment_ids(file)], len(stored_tokens(file))
    starts = [int(file.metadata["start"]), *segment_ends(file)]
    first, last = starts[skip], starts[keep]
    tensors, metadata = _joined(
        Rows([Piece(file, last - first, length, first - starts[0])]), starts[skip + 1 : keep + 1]
    )
    return tensors, {**metadata, "id": ids[keep], "parent": ids[skip], "start": str(first)}


def shorten(folder: Location, path: Location, keep: int) -> Location:
    """Replace a rows file by one with only its first `keep` segments. Returns the new file.

    Raises `OSError` and `SegmentDamaged`.
    """
    with Container(path) as file:
        used = path.stat().st_mtime
        tensors, metadata = segments_between(file, keep)
        new = path.with_name(rows_name(path.name[:NAME_DIGITS], segment_ids(file)[0], metadata["id"]))
        # Without a reserve, because the old file is deleted next.
        files.write_once(new, pieces(tensors, metadata), folder / "tmp", reserve=0)
        new.set_times((used, used))
    if new != path:
        path.unlink(missing_ok=True)
    return new
