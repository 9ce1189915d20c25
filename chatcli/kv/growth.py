"""Predicts how a model's prompt cache grows with its tokens, from array shapes alone."""

from __future__ import annotations

import operator
from dataclasses import replace
from functools import reduce
from typing import Any

import mlx.core as mx

from chatcli.kv.leaf import Leaf, leaves
from chatcli.kv.memory_limit import Growth
from chatcli.kv.prompt_cache import new
from chatcli.settings.values import DEFAULTS, ModelOptions

# After how many more tokens to check whether a cache of an unknown class grows.
PROBE_TOKENS = 64


def predict(model: Any, options: ModelOptions = DEFAULTS) -> Growth:
    """How a cache of `model` grows. Computes nothing: its arrays have shapes but are never evaluated."""
    cache = _unevaluated(model, options, tokens=1)
    growth = reduce(operator.add, (leaf.growth() for leaf in cache))
    if all(leaf.is_known for leaf in cache):
        return growth
    # An unknown class may grow.
    longer = reduce(operator.add, (leaf.growth() for leaf in _unevaluated(model, options, 1 + PROBE_TOKENS)))
    grown = longer.state_bytes - growth.state_bytes
    return replace(growth, row_bytes=growth.row_bytes - (-grown // PROBE_TOKENS))


def _unevaluated(model: Any, options: ModelOptions, tokens: int) -> list[Leaf]:
    """The leaves of a cache after `tokens` tokens, with unevaluated arrays."""
    cache = new(model, options)
    model(mx.zeros((1, tokens), mx.int32), cache=cache)
    return leaves(cache)
