"""Times a restore from segments against the same bytes in one safetensors file that `mx.load` reads.

Refuses to know models' weights: a cache of any size is made up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from chatcli.bench.measure import Contender, Contest, contest, give_memory_back
from chatcli.bench.talk import Spoken, arrays_of, restored
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model.load import LoadedModel
from chatcli.store.segments.catalog import rows_files
from chatcli.store.segments.segments import Checkpoint, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.threads.mlx_thread import Worker

FINGERPRINT = "b" * 32
SEGMENTS = 80


@dataclass(frozen=True)
class Shape:
    """A cache of attention layers in bfloat16."""

    layers: int
    heads: int
    dimensions: int
    tokens: int

    @property
    def name(self) -> str:
        return f"{self.layers}×{self.heads}×{self.dimensions}, {self.tokens:,} tokens"


SMALL = Shape(24, 4, 64, 500)
MIDDLE = Shape(24, 4, 64, 2000)
LARGE = Shape(36, 8, 128, 4000)


@dataclass(frozen=True)
class Restore:
    """A path of `segments` in `files`: `bytes` of arrays, ours against one file. `equal`: bit for bit.

    `fresh` is the contest again, with memory as in a process that has just begun, as most restores
    find it: there, getting memory from the system takes longer than reading.
    """

    name: str
    bytes: int
    segments: int
    files: int
    equal: bool
    contest: Contest
    fresh: Contest


def of_talk(worker: Worker, loaded: LoadedModel, spoken: Spoken, rounds: int) -> Restore:
    """`of_path` of a whole conversation."""
    name = f"{loaded.name}, {spoken.talk.turns} turns"
    return of_path(worker, loaded, name, spoken.folder, spoken.path, rounds)


def of_path(
    worker: Worker,
    loaded: LoadedModel,
    name: str,
    folder: Path,
    path: TokenPath,
    rounds: int,
) -> Restore:
    """`Checkpoints.restore` of what lies in `folder`, everything fresh but the model."""

    @contextlib.contextmanager
    def ours() -> Iterator[Callable[[], object]]:
        store = SegmentStore(folder, loaded.fingerprint)
        fresh = Checkpoints(worker, loaded, store)
        match = fresh.match(path)
        yield lambda: fresh.restore(path, match)
        store.close()

    store = SegmentStore(folder, loaded.fingerprint)
    cache = restored(worker, loaded, store, path)
    return _compare(worker, name, store, path, (cache, cache), ours, rounds)


def of_shape(worker: Worker, shape: Shape, folder: Path, rounds: int) -> Restore:
    """`SegmentStore.rows` and `prompt_cache.fill` of a path that was written segment by segment."""
    cache = worker.call(_made_up, shape)
    prompt = [number % 4096 for number in range(shape.tokens + 1)]
    ends = [shape.tokens * number // SEGMENTS for number in range(1, SEGMENTS + 1)]
    path = TokenPath.cut(root_id(FINGERPRINT), prompt, ends)
    _write(worker, folder, cache, path)

    def read() -> PromptCache:
        store, filled = SegmentStore(folder, FINGERPRINT), _empty(shape)
        with store.rows(path) as rows:
            worker.call(prompt_cache.fill, filled, rows, {}, "{}")
        return filled

    @contextlib.contextmanager
    def ours() -> Iterator[Callable[[], object]]:
        yield read

    store = SegmentStore(folder, FINGERPRINT)
    return _compare(worker, shape.name, store, path, (cache, read()), ours, rounds)


def _empty(shape: Shape) -> PromptCache:
    return [KVCache() for _ in range(shape.layers)]


def _made_up(shape: Shape) -> PromptCache:
    """A cache of random bits."""
    cache = _empty(shape)
    size = (1, shape.heads, shape.tokens, shape.dimensions)
    for leaf in cache:
        bits = (mx.random.randint(0, 0xFFFF, size, mx.uint16) for _ in range(2))
        leaf.keys, leaf.values = (part.view(mx.bfloat16) for part in bits)
        leaf.offset = shape.tokens
    prompt_cache.evaluate(cache)
    return cache


def _write(worker: Worker, folder: Path, cache: PromptCache, path: TokenPath) -> None:
    """Put segment after segment, so that files are joined as in life."""
    store = SegmentStore(folder, FINGERPRINT)
    for depth, segment in enumerate(path, start=1):
        rows = worker.call(prompt_cache.segment_rows, cache, RowLog(), segment.start, segment.end)
        store.put(Checkpoint(path.upto(depth), rows, {}, "{}", 0.0))
        store.flush()
    store.tidy()
    store.close()
    assert store.problem is None, store.problem


def _compare(
    worker: Worker,
    name: str,
    store: SegmentStore,
    path: TokenPath,
    caches: tuple[PromptCache, PromptCache],
    ours: Contender,
    rounds: int,
) -> Restore:
    """The contest, and whether the cache that was kept and the one that was read are the same."""
    kept, read = (worker.call(arrays_of, cache) for cache in caches)
    file = store.folder / "one.safetensors"
    worker.call(mx.save_safetensors, str(file), kept)
    equal = worker.call(_same_bits, kept, read) and worker.call(_same_bits, kept, _load(file))
    size, files = sum(part.nbytes for part in kept.values()), len(list(rows_files(store.folder)))
    del kept, read, caches
    store.close()
    again = contest(ours, _one_file(worker, file), rounds)
    fresh = contest(ours, _one_file(worker, file), rounds, give_memory_back)
    return Restore(name, size, len(path), files, equal, again, fresh)


def _one_file(worker: Worker, path: Path) -> Contender:
    @contextlib.contextmanager
    def reading() -> Iterator[Callable[[], object]]:
        yield lambda: worker.call(_load, path)

    return reading


def _load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = mx.load(str(path))  # type: ignore[assignment]
    mx.eval(list(found.values()))
    return found


def _same_bits(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        part.shape == other[name].shape
        and part.dtype == other[name].dtype
        and bool(mx.array_equal(part.view(mx.uint8), other[name].view(mx.uint8)))
        for name, part in one.items()
    )
