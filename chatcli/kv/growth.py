"""Predicts how a model's prompt cache grows with its tokens, from array shapes alone."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, RotatingKVCache

from chatcli.kv.freeze import arrays_in
from chatcli.kv.memory_limit import Growth, Window
from chatcli.kv.prompt_cache import FULL_CACHES, WINDOW_CACHES, has_rows, leaves, new, rows_of
from chatcli.settings.values import DEFAULTS, ModelOptions

# How many more tokens show whether a cache of an unknown class grows.
PROBE_TOKENS = 64


def predict(model: Any, options: ModelOptions = DEFAULTS) -> Growth:
    """How a cache of `model` grows. Its arrays have shapes but are never evaluated: nothing is computed."""
    cache = _unevaluated(model, options, tokens=1)
    full = [leaf for leaf in cache if type(leaf) in FULL_CACHES]
    row_bytes = sum(map(_row_bytes, full))
    windows = tuple(
        Window(_row_bytes(leaf), int(leaf.max_size if type(leaf) is RotatingKVCache else leaf.chunk_size))
        for leaf in cache
        if type(leaf) in WINDOW_CACHES
    )
    state_bytes = _state_bytes(cache)
    if any(not has_rows(leaf) and type(leaf) is not ArraysCache for leaf in cache):
        # A class that is not known here may well grow.
        grown = _state_bytes(_unevaluated(model, options, tokens=1 + PROBE_TOKENS)) - state_bytes
        row_bytes += -(-grown // PROBE_TOKENS)
    step = max((getattr(leaf, "step", 1) for leaf in full), default=1)
    return Growth(state_bytes, row_bytes, windows, step)


def _unevaluated(model: Any, options: ModelOptions, tokens: int) -> list[Any]:
    """The leaves of a cache that was given so many tokens, with arrays that are not evaluated."""
    cache = new(model, options)
    model(mx.zeros((1, tokens), mx.int32), cache=cache)
    return list(leaves(cache))


def _row_bytes(leaf: Any) -> int:
    """The bytes of one token's keys and values; 0 if this leaf is not used."""
    return sum(array.nbytes // array.shape[2] for _, array in rows_of(leaf))


def _state_bytes(cache: list[Any]) -> int:
    return sum(array.nbytes for leaf in cache if not has_rows(leaf) for array in arrays_in(leaf))
