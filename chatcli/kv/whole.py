"""Shows a pass of several tokens the whole buffer of each plain cache, where MLX plans attention by length.

MLX's CUDA build plans the attention of several tokens for each pair of lengths anew, in about 50 ms. With the
whole buffer and a mask for what is not written yet, one plan holds until the buffer grows.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from chatcli.kv.leaf import PlainRows, leaves
from chatcli.kv.prompt_cache import PromptCache

# Buffers grow by so many tokens: a plan for each.
ROOM_TOKENS = 1024


class WholeBuffer:
    """A `KVCache` that returns its whole buffers, and masks the rows past the offset."""

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def update_and_fetch(self, keys: Any, values: Any) -> tuple[Any, Any]:
        """[batch, heads, tokens, size] to the buffers [batch, heads, length, size]."""
        self._cache.update_and_fetch(keys, values)
        return self._cache.keys, self._cache.values

    def make_mask(self, count: int, return_array: bool = False, window_size: int | None = None) -> Any:
        """[count, length]: what each of the next `count` tokens may see."""
        places = mx.arange(self._cache.keys.shape[2])
        own = mx.arange(self._cache.offset, self._cache.offset + count)[:, None]
        mask = places <= own
        return mask if window_size is None else mask & (places > own - window_size)


def whole_buffers(cache: PromptCache, count: int) -> list[Any]:
    """The cache for a pass of `count` tokens, with room for them."""
    for leaf in leaves(cache):
        if isinstance(leaf, PlainRows):
            leaf.widen(count, ROOM_TOKENS)
    return [WholeBuffer(each) if type(each) is KVCache and each.keys is not None else each for each in cache]
