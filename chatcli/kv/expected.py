"""Predicts the contents of this model's prompt cache from shapes, and checks data from disk against it.

A checksum proves that a file is unchanged, not that it belongs to this cache. So names, shapes, types and
plain values are compared with those of a cache that the model itself has filled.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from chatcli.errors import SegmentDamaged
from chatcli.kv import prompt_cache
from chatcli.kv.freeze import PLAIN, Arrays
from chatcli.kv.leaf import leaves, rows_in, states_in
from chatcli.kv.prompt_cache import PromptCache
from chatcli.settings.values import ModelOptions
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.rows import Rows

# The model is run on these numbers of tokens, unevaluated, to see what changes. A cache of an unknown class
# may buffer some tokens before it grows.
PROBE_TOKENS, LONG_PROBE_TOKENS = (1, 8), (1, 2, 65)
# An unknown class is tried with these numbers of tokens: a decode and a prefill.
TRIAL_TOKENS = (1, 2)
# The errors that a model may raise for unsupported tokens or caches.
MODEL_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RuntimeError)

# An array's type and shape.
Description = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Probe:
    """A cache after `tokens` tokens: the arrays of its rows, and each leaf without rows, frozen, with its
    arrays.

    `logits` is the number of logits of the model.
    """

    tokens: int
    logits: int
    rows: Mapping[str, Description]
    states: Mapping[str, Any]
    arrays: Mapping[str, Description]


class ExpectedCache:
    """The contents of the caches of one model with these options. Use it on the thread that owns MLX."""

    def __init__(self, model: Any, options: ModelOptions) -> None:
        self._model, self._options = model, options

    @functools.cached_property
    def _has_unknown_leaves(self) -> bool:
        cache = prompt_cache.new(self._model, self._options)
        return not all(leaf.is_known for leaf in leaves(cache))

    @functools.cached_property
    def _probes(self) -> tuple[Probe, ...]:
        """Computes nothing: the arrays have shapes and types but are never evaluated."""
        lengths = LONG_PROBE_TOKENS if self._has_unknown_leaves else PROBE_TOKENS
        try:
            return tuple(
                _probe(self._model, prompt_cache.new(self._model, self._options), tokens)
                for tokens in lengths
            )
        except MODEL_ERRORS:
            return ()  # running the model will report what it cannot do

    def vocabulary_size(self) -> int | None:
        """The number of logits of the model; None if unknown."""
        return min((probe.logits for probe in self._probes), default=None)

    def check_rows(self, rows: Rows) -> None:
        """Raises `SegmentDamaged` if these are not rows of this cache."""
        if not self._probes:
            return
        known = [probe.rows for probe in self._probes]
        names = set(rows.names)
        if not any(names == each.keys() for each in known):
            _refuse_names(names, known[0])
        for name in rows.names:
            *before, _, last = rows.shape(name)
            described = (rows.dtype(name), (*before, last))
            if not any(described == each.get(name) for each in known):
                raise SegmentDamaged(f"its {name} does not have this model's shape and type")

    def check_state(self, tensors: Mapping[str, Tensor], scalars: str, end: int) -> None:
        """Raises `SegmentDamaged` if this is not a state of this cache after `end` tokens."""
        try:
            frozen = json.loads(scalars)
        except (ValueError, RecursionError) as error:
            raise SegmentDamaged("its scalars are not valid JSON") from error
        if not self._probes:
            return
        names = {name for state in _values(frozen) for name in _array_names(state)}
        if names != tensors.keys():
            _refuse_names(set(tensors), dict.fromkeys(names))
        arrays = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
        fits = _Fits(self._probes, arrays, end, lenient=self._has_unknown_leaves)
        states = [probe.states for probe in self._probes]
        if not isinstance(frozen, dict) or frozen.keys() != states[0].keys():
            raise SegmentDamaged("it has the state of other layers")
        for name in states[0]:
            if not fits.value(frozen[name], [state[name] for state in states]):
                raise SegmentDamaged(f"the state of its layer {name} does not belong to this model")

    def try_out(self, cache: PromptCache) -> None:
        """Run tokens on a copy of a restored cache, unevaluated, if it has leaves of an unknown class.

        Raises the model's errors if its arrays do not fit together.
        """
        if self._has_unknown_leaves and self._probes:
            for tokens in TRIAL_TOKENS:
                self._model(mx.zeros((1, tokens), mx.int32), cache=prompt_cache.fork(cache))


def _probe(model: Any, cache: PromptCache, tokens: int) -> Probe:
    logits = model(mx.zeros((1, tokens), mx.int32), cache=cache)
    rows: dict[str, Description] = {}
    states: dict[str, Any] = {}
    arrays: Arrays = {}
    for leaf in rows_in(cache):
        for name, array in leaf.buffers:
            dtype, (batch, heads, _, last) = _described(array)
            rows[f"{leaf.number}.{name}"] = dtype, (batch, heads, last)
    for state in states_in(cache):
        states[str(state.number)], own = state.snapshot()
        arrays |= own
    return Probe(
        tokens, logits.shape[-1], rows, states, {name: _described(array) for name, array in arrays.items()}
    )


def _described(array: mx.array) -> Description:
    return str(array.dtype).removeprefix("mlx.core."), tuple(array.shape)


def _values(frozen: Any) -> Iterable[Any]:
    return frozen.values() if isinstance(frozen, dict) else ()


def _array_names(frozen: Any) -> Iterable[str]:
    """The names of the arrays in a frozen value."""
    if isinstance(frozen, list):
        for part in frozen:
            yield from _array_names(part)
    elif isinstance(frozen, dict):
        for kind, content in frozen.items():
            if kind == "array":
                yield str(content)
            else:
                yield from _array_names(list(content.values()) if isinstance(content, dict) else content)


def _refuse_names(names: set[str], expected: Mapping[str, Any]) -> None:
    if missing := sorted(expected.keys() - names):
        raise SegmentDamaged(f"it has no {missing[0]}")
    raise SegmentDamaged(f"this model's cache has no {min(names - expected.keys(), default='such arrays')}")


@dataclass(frozen=True)
class _Fits:
    """Whether frozen values could be this cache's after `end` tokens.

    What is the same in all probes must be the same again. What differs may be anything that a cache of `end`
    tokens can contain. `lenient`: parts that the probes do not have yet may exist.
    """

    probes: tuple[Probe, ...]
    arrays: Mapping[str, Description]
    end: int
    lenient: bool

    def value(self, stored: Any, expected: list[Any]) -> bool:
        if all(each is None for each in expected):
            return stored is None or self.lenient
        if len({_kind(each) for each in expected}) > 1:
            return any(self.value(stored, [each] * len(expected)) for each in expected)
        kind = _kind(expected[0])
        if _kind(stored) != kind:
            return stored is None and self.lenient
        if kind == "array":
            return self._array(stored["array"], [each["array"] for each in expected])
        if isinstance(expected[0], PLAIN):
            return self._plain(stored, expected)
        contents = [each[kind] for each in expected]
        return self._content(stored[kind], contents)

    def _content(self, stored: Any, expected: list[Any]) -> bool:
        if isinstance(expected[0], dict):
            known = {name for each in expected for name in each}
            common = {name for name in known if all(name in each for each in expected)}
            if not isinstance(stored, dict) or not common <= stored.keys() <= known:
                return False
            return all(
                self.value(part, [each[name] for each in expected if name in each])
                for name, part in stored.items()
            )
        if not isinstance(stored, list):
            return False
        lengths = {len(each) for each in expected}
        if len(lengths) > 1 or (self.lenient and len(stored) not in lengths):
            return len(stored) <= max(self.end, *lengths)
        if len(stored) not in lengths:
            return False
        return all(self.value(part, list(others)) for part, *others in zip(stored, *expected, strict=True))

    def _array(self, stored: Any, expected: list[str]) -> bool:
        if stored not in expected or stored not in self.arrays:
            return False
        dtype, shape = self.arrays[stored]
        known = [probe.arrays[stored] for probe in self.probes if stored in probe.arrays]
        if dtype not in {each for each, _ in known} or any(len(each) != len(shape) for _, each in known):
            return False
        dimensions = zip(shape, *(each for _, each in known), strict=True)
        return all(self._number(size, list(others)) for size, *others in dimensions)

    def _plain(self, stored: Any, expected: list[Any]) -> bool:
        if isinstance(stored, int) and not isinstance(stored, bool):
            return self._number(stored, expected)
        if isinstance(stored, float) and not math.isfinite(stored):
            return False
        return stored in expected or len(set(expected)) > 1 or self.lenient

    def _number(self, stored: int, expected: list[int]) -> bool:
        if len(set(expected)) == 1 and (expected[0] or not self.lenient):
            return stored == expected[0]
        if expected == [probe.tokens for probe in self.probes]:
            return stored == self.end
        return 0 <= stored <= max(self.end, *expected)


def _kind(frozen: Any) -> str:
    """`array`, `list`, `object` and so on, or the type of a plain value; empty for a value that is not
    frozen.
    """
    if isinstance(frozen, PLAIN):
        return type(frozen).__name__
    return next(iter(frozen)) if isinstance(frozen, dict) and len(frozen) == 1 else ""
