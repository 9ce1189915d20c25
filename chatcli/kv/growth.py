"""Predicts how a model's prompt cache grows with its tokens, from shapes alone."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, RotatingKVCache

from chatcli.kv.freeze import arrays_in
from chatcli.kv.memory_limit import Growth, Window
from chatcli.kv.prompt_cache import ROWS, WINDOWS, PromptCache, has_rows, leaves, new, rows_of
from chatcli.settings.values import DEFAULTS, ModelOptions

# Tokens that tell whether a cache of an unknown class grows.
PROBED = 64


def growth(model: Any, model_options: ModelOptions = DEFAULTS) -> Growth:
    """How a cache of `model` grows, by the shapes that a token would give it: nothing is computed."""
    cache = list(leaves(_shaped(model, model_options, 1)))
    row = sum(_row(leaf) for leaf in cache if type(leaf) in ROWS)
    windows = tuple(Window(_row(leaf), _limit(leaf)) for leaf in cache if type(leaf) in WINDOWS)
    state = _state_size(cache)
    if any(not has_rows(leaf) and type(leaf) is not ArraysCache for leaf in cache):
        # A class that is not known here may well grow.
        more = _state_size(list(leaves(_shaped(model, model_options, 1 + PROBED)))) - state
        row += -(-more // PROBED)
    step = max((getattr(leaf, "step", 1) for leaf in cache if type(leaf) in ROWS), default=1)
    return Growth(state, row, windows, step)


def _shaped(model: Any, model_options: ModelOptions, tokens: int) -> PromptCache:
    """A cache after so many tokens whose arrays have shapes, and contents that are never computed."""
    cache = new(model, model_options)
    model(mx.zeros((1, tokens), mx.int32), cache=cache)
    return cache


def _row(leaf: Any) -> int:
    """Bytes of one token's keys and values; 0 if this leaf is not used."""
    return sum(array.nbytes // array.shape[2] for _, array in rows_of(leaf))


def _limit(leaf: Any) -> int:
    return int(leaf.max_size if type(leaf) is RotatingKVCache else leaf.chunk_size)


def _state_size(cache: list[Any]) -> int:
    states = (leaf for leaf in cache if not has_rows(leaf))
    return sum(array.nbytes for leaf in states for array in arrays_in(leaf))
