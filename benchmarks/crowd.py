"""Writes folders of thousands of sessions and segments without a model, and times lookups in them.

Every segment has its own file, which is harder than in practice, where files are joined.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from chatcli.bench.race import Spread
from chatcli.conversation.tree import Entry, Message
from chatcli.files import Location
from chatcli.records import ReplyRecord
from chatcli.store.segments import catalog
from chatcli.store.segments.catalog import TOKENS
from chatcli.store.segments.container import SEGMENT_FORMAT, SEGMENT_VERSION, Tensor, pack
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import Segment, TokenPath, root_id
from chatcli.store.sessions.transcript import SESSION_VERSION, encode, entry_line

FINGERPRINT = "c" * 32
SYSTEM = list(range(24))
SEGMENT_TOKENS = 8
TURNS = 3
ROWS = np.zeros((1, 1, SEGMENT_TOKENS, 4), np.float32)
FAST_ROUNDS = 200
# How many hard links a file may have: ext4 allows 65,000.
MAX_LINKS = 30_000


def write_sessions(folder: Path, count: int) -> None:
    """Write session files as conversations do."""
    header = {
        "type": "session",
        "version": SESSION_VERSION,
        "created": time.time(),
        "date": "2025-01-01",
        "model": "pocket",
        "system": None,
        "branched_from": None,
    }
    for number in range(count):
        lines = [header, *map(entry_line, _entries(number))]
        (folder / f"session-{number}.jsonl").write_bytes(b"".join(map(encode, lines)))


def _entries(number: int) -> Iterator[Entry]:
    parent: str | None = None
    record: ReplyRecord = {
        "prompt_tokens": 100,
        "reused_tokens": 90,
        "prefilled_tokens": 10,
        "model": "pocket",
        "fingerprint": FINGERPRINT,
        "segments": [f"{number:064x}"],
        "hit_ratio": 0.9,
        "boundaries": {"before": 80, "question": 90, "reply": 100},
    }
    for turn in range(TURNS):
        question, answer = f"{number:08x}{turn:04x}a", f"{number:08x}{turn:04x}b"
        text = f"Question {turn} of session {number}, as long as people make them."
        reply = Message("assistant", "An answer of a sentence or two. " * 6, "Some thinking. " * 20)
        yield Entry(question, parent, Message("user", text), time.time())
        yield Entry(answer, question, reply, time.time(), "stop", record)
        parent = answer


def _path(number: int, length: int) -> TokenPath:
    """A path of `length` segments: a shared system prompt, then its own tokens."""
    own = np.random.default_rng(number).integers(100, 3000, (length - 1) * SEGMENT_TOKENS).tolist()
    prompt = [*SYSTEM, *own, 0]
    ends = range(len(SYSTEM), len(prompt), SEGMENT_TOKENS)
    return TokenPath.cut(root_id(FINGERPRINT), prompt, ends)


def write_segments(folder: Path, paths: int, segments: int) -> Iterator[TokenPath]:
    """Write `segments` on equally long paths, one file each, and a state at the end of each path."""
    model = catalog.model_folder(folder, FINGERPRINT)
    for shard in range(256):
        (model / f"{shard:02x}").path.mkdir(parents=True, exist_ok=True)
    length = max(segments // paths, 2)
    for number in range(max(segments // length, 1)):
        path = _path(number, length)
        for depth in range(number > 0, len(path)):
            _write_rows(model, path.upto(depth + 1).after(depth))
        _write_state(model, path[-1])
        yield path


def link_segments(folder: Path, count: int) -> None:
    """Add `count` segments as hard links to existing files."""
    model, chooser = catalog.model_folder(folder, FINGERPRINT), random.Random(count)
    originals = [file.path for file in islice(catalog.rows_files(model), count // MAX_LINKS + 1)]
    for number in range(count):
        key, identifier = (f"{chooser.getrandbits(64):016x}" for _ in range(2))
        name = catalog.rows_name(key, identifier, identifier)
        os.link(originals[number // MAX_LINKS], model.path / name[:2] / name)


def _write_rows(model: Location, path: TokenPath) -> None:
    """Write a file for the path's first segment."""
    segment = path[0]
    tokens = np.asarray(path.tokens_of(segment), "<i4")
    keys = np.resize(ROWS, (1, 1, len(tokens), 4))
    tensors = {name: Tensor.of(keys) for name in ("0.keys", "0.values")}
    metadata = _metadata(segment, "rows") | {"ends": f"[{segment.end}]"}
    catalog.rows_path(model, path).path.write_bytes(pack({TOKENS: Tensor.of(tokens), **tensors}, metadata))


def _write_state(model: Location, segment: Segment) -> None:
    metadata = _metadata(segment, "state") | {"scalars": "{}"}
    path = catalog.state_path(model, segment.id)
    path.path.write_bytes(pack({"1.cache": Tensor.of(ROWS)}, metadata))


def _metadata(segment: Segment, kind: str) -> dict[str, str]:
    return {
        "format": SEGMENT_FORMAT,
        "version": SEGMENT_VERSION,
        "kind": kind,
        "fingerprint": FINGERPRINT,
        "id": segment.id,
        "parent": segment.parent,
        "start": str(segment.start),
        "end": str(segment.end),
        "seconds": "0.100",
        "created": "1700000000",
    }


def matches(folder: Path, paths: Sequence[TokenPath], seed: int = 1) -> tuple[Spread, Spread]:
    """The seconds to look up some of the paths, and other paths that do not exist."""
    chooser = random.Random(seed)
    stored = [chooser.choice(paths) for _ in range(FAST_ROUNDS)]
    absent = [_path(len(paths) + number, len(paths[0])) for number in range(FAST_ROUNDS)]
    return _matches(folder, stored, len(paths[0])), _matches(folder, absent, 1)


def _matches(folder: Path, paths: Sequence[TokenPath], expected: int) -> Spread:
    """The seconds to look up each path, which must find `expected` segments. A full match includes finding
    its state.
    """
    store, times = SegmentStore(folder, FINGERPRINT), []
    for path in paths:
        began = time.perf_counter()
        depth = store.depth(path, stateful=expected == len(path))
        times.append(time.perf_counter() - began)
        assert depth == expected, (depth, expected)
    store.close()
    return Spread.of(times)
