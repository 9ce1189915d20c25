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

# How many more tokens show whether a cache of an unknown class grows.
PROBE_TOKENS = 64


def predict(model: Any, options: ModelOptions = DEFAULTS) -> Growth:
    """How a cache of `model` grows. Its arrays have shapes but are never evaluated: nothing is computed."""
    cache = _unevaluated(model, options, tokens=1)
    growth = reduce(operator.add, (leaf.growth() for leaf in cache))
    if all(leaf.is_known for leaf in cache):
        return growth
    # A class that is not known may well grow.
    longer = reduce(operator.add, (leaf.growth() for leaf in _unevaluated(model, options, 1 + PROBE_TOKENS)))
    grown = longer.state_bytes - growth.state_bytes
    return replace(growth, row_bytes=growth.row_bytes - (-grown // PROBE_TOKENS))


def _unevaluated(model: Any, options: ModelOptions, tokens: int) -> list[Leaf]:
    """The leaves of a cache that was given so many tokens, with arrays that are not evaluated."""
    cache = new(model, options)
    model(mx.zeros((1, tokens), mx.int32), cache=cache)
    return leaves(cache)
