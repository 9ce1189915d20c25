"""Which caches can be trimmed back to an earlier token, and how far; refuses to know what for."""

from __future__ import annotations

from typing import Any

from mlx_lm.models.cache import RotatingKVCache, trim_prompt_cache

from chatcli.kv.prompt_cache import TRIMMED, WINDOWS, PromptCache, leaves


def untrimmable(cache: PromptCache) -> list[str]:
    """The classes of the leaves that cannot be trimmed, whatever mlx-lm has them say."""
    classes = {type(leaf) for leaf in leaves(cache)} - {*TRIMMED, *WINDOWS}
    return sorted(kind.__name__ for kind in classes)


def most_tokens(cache: PromptCache) -> int | None:
    """As many tokens as the cache may have been given to be trimmed still; None: any number.

    A window that is full has dropped what would have to come back.
    """
    return min((_most(leaf) for leaf in leaves(cache) if type(leaf) in WINDOWS), default=None)


def _most(leaf: Any) -> int:
    if type(leaf) is RotatingKVCache:
        return int(leaf.max_size) - 1
    # What was trimmed stays in the last piece of the buffer, which some versions count.
    return int(leaf.chunk_size - leaf.step)


def position(cache: PromptCache) -> int:
    """How many tokens a cache that can be trimmed has been given."""
    return max(int(leaf.offset) for leaf in leaves(cache))


def trim(cache: PromptCache, count: int) -> None:
    """Forget the last `count` tokens, in a cache that has no more than `most_tokens`."""
    trim_prompt_cache(cache, count)
