"""Times a restore from segments against `mx.load` of the same bytes as one tensor in one file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from benchmarks.footprint import StoredConversation, arrays_of, restored
from benchmarks.measure import Contest, TimedTask, contest, trim_heap
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.kv import prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model.load import LoadedModel
from chatcli.store.segments.catalog import rows_files
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.threads.mlx_thread import Worker

FINGERPRINT = "b" * 32
SEGMENTS = 80


@dataclass(frozen=True)
class CacheShape:
    """An artificial cache of attention layers in bfloat16."""

    layers: int
    heads: int
    dimensions: int
    tokens: int

    @property
    def name(self) -> str:
        return f"{self.layers}×{self.heads}×{self.dimensions}, {self.tokens:,} tokens"


SMALL = CacheShape(24, 4, 64, 500)
MIDDLE = CacheShape(24, 4, 64, 2000)
LARGE = CacheShape(36, 8, 128, 4000)


@dataclass(frozen=True)
class Restore:
    """A path of `segments` in `files`, `bytes` of arrays: ours against one file. `equal`: bit for bit.

    `fresh` repeats the contest with the heap trimmed before each round, as in a new process, where most
    restores happen and getting memory from the system takes longer than reading.
    """

    name: str
    bytes: int
    segments: int
    files: int
    equal: bool
    contest: Contest
    fresh: Contest


def of_conversation(worker: Worker, loaded: LoadedModel, stored: StoredConversation, rounds: int) -> Restore:
    """`of_path` of a whole conversation."""
    name = f"{loaded.name}, {stored.footprint.turns} turns"
    return of_path(worker, loaded, name, stored.folder, stored.path, rounds)


def of_path(
    worker: Worker,
    loaded: LoadedModel,
    name: str,
    folder: Path,
    path: TokenPath,
    rounds: int,
) -> Restore:
    """`Checkpoints.restore` of a path on disk; everything but the model is created anew each round."""

    @contextlib.contextmanager
    def ours() -> Iterator[Callable[[], object]]:
        store = SegmentStore(folder, loaded.fingerprint)
        checkpoints = Checkpoints(worker, loaded, store)
        plan = checkpoints.plan(path)
        yield lambda: checkpoints.restore(plan)
        store.close()

    store = SegmentStore(folder, loaded.fingerprint)
    cache = restored(worker, loaded, store, path)
    return _compare(worker, name, store, path, (cache, cache), ours, rounds)


def of_shape(worker: Worker, shape: CacheShape, folder: Path, rounds: int) -> Restore:
    """Time `SegmentStore.rows` and `prompt_cache.fill` for a path that was written segment by segment."""
    cache = worker.call(_random_cache, shape)
    prompt = [number % 4096 for number in range(shape.tokens + 1)]
    ends = [shape.tokens * number // SEGMENTS for number in range(1, SEGMENTS + 1)]
    path = TokenPath.cut(root_id(FINGERPRINT), prompt, ends)
    _write(worker, folder, cache, path)

    def read() -> PromptCache:
        store, filled = SegmentStore(folder, FINGERPRINT), _empty_cache(shape)
        with store.rows(path) as rows:
            worker.call(prompt_cache.fill, filled, rows, {}, "{}")
        return filled

    @contextlib.contextmanager
    def ours() -> Iterator[Callable[[], object]]:
        yield read

    store = SegmentStore(folder, FINGERPRINT)
    return _compare(worker, shape.name, store, path, (cache, read()), ours, rounds)


def _empty_cache(shape: CacheShape) -> PromptCache:
    return [KVCache() for _ in range(shape.layers)]


def _random_cache(shape: CacheShape) -> PromptCache:
    cache = _empty_cache(shape)
    size = (1, shape.heads, shape.tokens, shape.dimensions)
    for leaf in cache:
        bits = (mx.random.randint(0, 0xFFFF, size, mx.uint16) for _ in range(2))
        leaf.keys, leaf.values = (array.view(mx.bfloat16) for array in bits)
        leaf.offset = shape.tokens
    prompt_cache.evaluate(cache)
    return cache


def _write(worker: Worker, folder: Path, cache: PromptCache, path: TokenPath) -> None:
    """Write segment after segment, so that files are joined as in a real conversation."""
    store = SegmentStore(folder, FINGERPRINT)
    for depth, segment in enumerate(path, start=1):
        rows = worker.call(prompt_cache.segment_rows, cache, RowLog(), segment.start, segment.end)
        store.put(Increment(path.upto(depth), rows, {}, "{}", 0.0))
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
    ours: TimedTask,
    rounds: int,
) -> Restore:
    """Time `ours` against one file of the same arrays. `caches`: the written one and the restored one."""
    written, read = (worker.call(arrays_of, cache) for cache in caches)
    file = store.folder / "one.safetensors"
    worker.call(_save_as_one, file, written)
    equal = worker.call(_same_bits, written, read)
    size, files = sum(array.nbytes for array in written.values()), len(list(rows_files(store.location)))
    # Free the copies of the arrays before timing.
    del written, read, caches
    store.close()

    @contextlib.contextmanager
    def one_file() -> Iterator[Callable[[], object]]:
        yield lambda: worker.call(_load, file)

    warm = contest(ours, one_file, rounds)
    fresh = contest(ours, one_file, rounds, trim_heap)
    return Restore(name, size, len(path), files, equal, warm, fresh)


def _save_as_one(path: Path, arrays: dict[str, Any]) -> None:
    """Save all bytes as one tensor, because on CUDA loading many is several times slower."""
    tensor = mx.concatenate([array.view(mx.uint8).reshape(-1) for array in arrays.values()])
    mx.save_safetensors(str(path), {"rows": tensor})


def _load(path: Path) -> dict[str, Any]:
    arrays: dict[str, Any] = mx.load(str(path))  # type: ignore[assignment]
    mx.eval(list(arrays.values()))
    return arrays


def _same_bits(arrays: dict[str, Any], others: dict[str, Any]) -> bool:
    return arrays.keys() == others.keys() and all(
        array.shape == others[name].shape
        and array.dtype == others[name].dtype
        and bool(mx.array_equal(array.view(mx.uint8), others[name].view(mx.uint8)))
        for name, array in arrays.items()
    )
