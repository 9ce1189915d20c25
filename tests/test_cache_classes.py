"""Every cache class of mlx-lm by itself: what goes on from a restored one is what went on before."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

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

from chatcli import prompt_cache
from chatcli.prompt_cache import RowLog

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
    # That release cuts the padding of its own buffer for rows: it fails without chatcli too.
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


def step(cache: list[Any], seed: int, count: int, dtype: mx.Dtype) -> list[mx.array]:
    """Feed `count` tokens of random rows to every leaf; what attention would see comes back."""
    mx.random.seed(seed)
    seen: list[mx.array] = []
    for leaf in prompt_cache.leaves(cache):
        if isinstance(leaf, ArraysCache):
            leaf[0] = (0 if leaf[0] is None else leaf[0]) + mx.random.normal((1, 2, 3)).astype(
                dtype
            )
            seen.append(leaf[0])
            continue
        if isinstance(leaf, ChunkedKVCache):
            leaf.maybe_trim_front()
        rows = mx.random.normal((2, 1, 2, count, 32)).astype(dtype)
        seen += [part for _, part in tree_flatten(leaf.update_and_fetch(rows[0], rows[1]))]
    return seen


def same(left: list[mx.array], right: list[mx.array]) -> bool:
    return all(
        a.dtype == b.dtype and a.shape == b.shape and mx.array_equal(a, b).item()
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_a_restored_cache_goes_on_as_the_original(
    make: Callable[[], list[Any]], pieces: list[list[int]], dtype: mx.Dtype
) -> None:
    cache, log, segments, end = make(), RowLog(), [], 0
    for segment, counts in enumerate(pieces):
        start = end
        for number, count in enumerate(counts):
            step(cache, 100 * segment + number, count, dtype)
            log.record(cache, count)
            end += count
        segments.append(prompt_cache.cut(cache, log, start, end))
    restored = make()
    prompt_cache.fill(restored, segments, *prompt_cache.state(cache), end)
    for seed, count in enumerate([5, 1, 1, 20, 1], start=9000):
        assert same(step(cache, seed, count, dtype), step(restored, seed, count, dtype))


@pytest.mark.parametrize("before", [1, 5, 12, 40])
def test_a_rewound_cache_goes_on_as_if_nothing_had_come(
    make: Callable[[], list[Any]], before: int
) -> None:
    cache, plain = make(), make()
    for used in (cache, plain):
        step(used, 1, before, mx.float32)
        RowLog().record(used, before)
    taken = prompt_cache.snapshot(cache, before)
    for _ in range(2):
        for seed in range(20):
            step(cache, seed, 1 + seed % 2, mx.float32)
        prompt_cache.rewind(cache, taken)
    for seed, count in enumerate([1, 6, 1], start=50):
        assert same(step(cache, seed, count, mx.float32), step(plain, seed, count, mx.float32))


def test_rows_are_cut_to_their_tokens_and_keep_their_dtype() -> None:
    cache, log = [KVCache(), RotatingKVCache(max_size=4)], RowLog()
    step(cache, 1, 9, mx.bfloat16)
    log.record(cache, 9)
    rows = prompt_cache.cut(cache, log, 0, 9)
    assert {"0.keys", "0.values", "1.keys", "1.values"} == set(rows)
    assert {("bfloat16", (1, 2, 9, 32))} == {(part.dtype, part.shape) for part in rows.values()}


def test_layouts_differ_where_caches_cannot_be_exchanged() -> None:
    layouts = {prompt_cache.layout([maker()]) for maker in MAKERS.values()}
    assert len(MAKERS) == len(layouts)
