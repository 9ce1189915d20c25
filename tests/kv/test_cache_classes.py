"""Every cache class of mlx-lm alone: a restored or rewound cache continues exactly as the original."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from chatcli.kv import prompt_cache
from chatcli.kv.freeze import arrays_in
from chatcli.kv.leaf import leaves
from chatcli.kv.prompt_cache import RowLog
from chatcli.store.segments.rows import Rows
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath
from tests.support.checkpointing import FINGERPRINT, path_of, prompt_of

MAKERS: dict[str, Callable[[], Any]] = {
    "full": KVCache,
    "concatenated": ConcatenateKVCache,
    "4 bits": lambda: QuantizedKVCache(group_size=32, bits=4),
    "8 bits": lambda: QuantizedKVCache(group_size=32, bits=8),
    "window": lambda: RotatingKVCache(max_size=12),
    "window with keep": lambda: RotatingKVCache(max_size=12, keep=4),
    "chunked": lambda: ChunkedKVCache(12),
    "nested": lambda: CacheList(KVCache(), CacheList(RotatingKVCache(max_size=7), KVCache())),
    "state": lambda: ArraysCache(3),
    "mixed": lambda: CacheList(ArraysCache(2), KVCache()),
}
if version("mlx-lm") < "0.32":
    # Its ChunkedKVCache takes padding of its buffer for rows, which fails without chatcli too.
    MAKERS.pop("chunked")
PIECES = {
    "one": [[30]],
    "uneven": [[7], [1, 1, 3], [18]],
    "single": [[1]] * 15,
    "short": [[3], [2]],
}
DTYPES = (mx.float32, mx.bfloat16, mx.float16)


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[], list[Any]]:
    return lambda: [MAKERS[request.param]()]


def feed(cache: list[Any], seed: int, count: int, dtype: mx.Dtype) -> list[mx.array]:
    """Feed `count` tokens of random rows to every leaf. Returns the arrays that attention would see."""
    mx.random.seed(seed)
    seen: list[mx.array] = []
    for leaf in (each.cache for each in leaves(cache)):
        if isinstance(leaf, ArraysCache):
            leaf[0] = (0 if leaf[0] is None else leaf[0]) + mx.random.normal((1, 2, 3)).astype(dtype)
            seen.append(leaf[0])
            continue
        if isinstance(leaf, ChunkedKVCache):
            leaf.maybe_trim_front()
        rows = mx.random.normal((2, 1, 2, count, 32)).astype(dtype)
        seen += [part for _, part in tree_flatten(leaf.update_and_fetch(rows[0], rows[1]))]
    return seen


def all_equal(left: list[mx.array], right: list[mx.array]) -> bool:
    return all(
        a.dtype == b.dtype and a.shape == b.shape and mx.array_equal(a, b).item()
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_a_restored_cache_continues_as_the_original(
    make: Callable[[], list[Any]], pieces: list[list[int]], dtype: mx.Dtype, tmp_path: Path
) -> None:
    ends = list(itertools.accumulate(map(sum, pieces)))
    prompt = prompt_of(ends[-1])
    path = path_of(prompt, ends)
    cache, store = make(), SegmentStore(tmp_path, FINGERPRINT)
    for number, counts in enumerate(pieces):
        checkpoint_segment(store, cache, path.upto(number + 1), counts, dtype)
    restored = make()
    restore(store, restored, path)
    store.close()
    for seed, count in enumerate([5, 1, 1, 20, 1], start=9000):
        assert all_equal(feed(cache, seed, count, dtype), feed(restored, seed, count, dtype))


def checkpoint_segment(
    store: SegmentStore,
    cache: list[Any],
    path: TokenPath,
    counts: list[int],
    dtype: mx.Dtype,
) -> None:
    """Feed the tokens of the last segment in pieces of `counts`, and write its checkpoint."""
    log = RowLog()
    for number, count in enumerate(counts):
        feed(cache, 100 * len(path) + number, count, dtype)
        log.record(cache, count)
    rows = prompt_cache.segment_rows(cache, log, path[-1].start, path[-1].end)
    store.put(Increment(path, rows, *prompt_cache.state(cache), 0.0))


def restore(store: SegmentStore, cache: list[Any], path: TokenPath) -> None:
    """Fill an empty cache from the store."""
    store.flush()
    stateful = prompt_cache.is_stateful(cache)
    assert len(path) == store.depth(path, stateful=stateful)
    state, scalars = store.state(path[-1]) if stateful else ({}, "{}")
    with store.rows(path) as rows:
        prompt_cache.fill(cache, rows, state, scalars)


class Pair(NamedTuple):
    """A named tuple of two arrays."""

    left: mx.array
    right: mx.array


class UnknownCache:
    """A cache of an unknown class, with attributes of many kinds."""

    __slots__ = ("__dict__", "__own", "__weakref__", "slot")

    def __init__(self, seed: int) -> None:
        mx.random.seed(seed)
        self.slot = mx.random.normal((2, 3))
        self.__own = mx.random.normal((3,))
        self.pair = Pair(mx.random.normal((1,)), mx.random.normal((0, 4)))
        self.by_place = {(seed, "a"): mx.random.normal((2,)), 3: [None, True, 1.5, "é"]}
        self.inner = CacheList(KVCache())
        self.inner.caches[0].update_and_fetch(*mx.random.normal((2, 1, 2, seed, 8)))


class SelfReferencingCache:
    """A cache of an unknown class that refers to itself."""

    __slots__ = ("inside", "rows")

    def __init__(self, seed: int) -> None:
        mx.random.seed(seed)
        self.rows = mx.random.normal((2, 3))
        self.inside = {"knot": self}


def arrays(cache: list[Any]) -> list[mx.array]:
    return list(arrays_in(cache))


def test_an_unknown_class_is_restored_from_disk(tmp_path: Path) -> None:
    cache, restored, store = [UnknownCache(5)], [UnknownCache(9)], SegmentStore(tmp_path, FINGERPRINT)
    prompt = prompt_of(3)
    path = path_of(prompt, [3])
    store.put(Increment(path, {}, *prompt_cache.state(cache), 0.0))
    restore(store, restored, path)
    store.close()
    assert 7 == len(arrays(cache))
    assert all_equal(arrays(cache), arrays(restored))
    assert list(cache[0].by_place) == list(restored[0].by_place)
    assert cache[0].by_place[3] == restored[0].by_place[3]
    assert (Pair, 5) == (type(restored[0].pair), restored[0].inner.caches[0].offset)


def test_a_named_tuple_that_the_empty_cache_lacks_is_refused() -> None:
    empty = UnknownCache(1)
    empty.pair = None
    state, scalars = prompt_cache.state([UnknownCache(5)])
    with pytest.raises(TypeError, match="Pair"):
        prompt_cache.fill([empty], Rows([]), state, scalars)


@pytest.mark.parametrize("cache_class", [UnknownCache, SelfReferencingCache])
def test_an_unknown_class_is_rewound(cache_class: type) -> None:
    cache, same_seed = [cache_class(5)], [cache_class(5)]
    snapshot = prompt_cache.snapshot(cache, 5)
    for array in arrays(cache):
        array[...] = 7
    assert not all_equal(arrays(same_seed), arrays(cache))
    prompt_cache.rewind(cache, snapshot)
    assert all_equal(arrays(same_seed), arrays(cache))


def test_a_cache_that_refers_to_itself_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        prompt_cache.state([SelfReferencingCache(5)])


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3)], ids=str)
def test_states_of_every_dtype_and_shape_are_restored(dtype: str, shape: tuple[int, ...]) -> None:
    cache, restored = [ArraysCache(1)], [ArraysCache(1)]
    cache[0][0] = mx.random.randint(0, 100, shape).astype(getattr(mx, dtype))
    prompt_cache.fill(restored, Rows([]), *prompt_cache.state(cache))
    assert all_equal([cache[0][0]], [restored[0][0]])


@pytest.mark.parametrize("before", [1, 5, 12, 40])
def test_a_rewound_cache_continues_as_if_nothing_was_fed(make: Callable[[], list[Any]], before: int) -> None:
    cache, plain = make(), make()
    for each in (cache, plain):
        feed(each, 1, before, mx.float32)
        RowLog().record(each, before)
    snapshot = prompt_cache.snapshot(cache, before)
    for _ in range(2):
        for seed in range(20):
            feed(cache, seed, 1 + seed % 2, mx.float32)
        prompt_cache.rewind(cache, snapshot)
    for seed, count in enumerate([1, 6, 1], start=50):
        assert all_equal(feed(cache, seed, count, mx.float32), feed(plain, seed, count, mx.float32))


def test_rows_are_cut_to_their_tokens_and_keep_their_dtype() -> None:
    cache, log = [KVCache(), RotatingKVCache(max_size=4)], RowLog()
    feed(cache, 1, 9, mx.bfloat16)
    log.record(cache, 9)
    rows = prompt_cache.segment_rows(cache, log, 0, 9)
    assert {"0.keys", "0.values", "1.keys", "1.values"} == set(rows)
    assert {("bfloat16", (1, 2, 9, 32))} == {(part.dtype, part.shape) for part in rows.values()}


def test_incompatible_caches_have_different_layouts() -> None:
    layouts = {prompt_cache.layout([maker()]) for maker in MAKERS.values()}
    assert len(MAKERS) == len(layouts)
