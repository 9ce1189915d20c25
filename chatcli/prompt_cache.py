"""mlx-lm's cache classes: rows, state, snapshot, rewind; refuses to know files and what tokens mean.

The only module that looks inside a cache. Three kinds of leaf (design, idea 3):
- rows: `KVCache`, one row of keys and values per token; cut anywhere, trimmed back for free.
- window: `RotatingKVCache`, rows too, logged as they pass because rotation drops them.
- state: everything else (`ArraysCache`, …), kept whole and restored only at its own position.
Shapes are mlx-lm's: keys and values are (batch, heads, tokens, dimensions).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models.cache import CacheList, KVCache, RotatingKVCache, make_prompt_cache

from chatcli.store.segments import Tensor

PromptCache = list[Any]
Rows = dict[str, mx.array]


def new(model: Any) -> PromptCache:
    """An empty cache for `model`."""
    return list(make_prompt_cache(model))


def leaves(cache: Sequence[Any]) -> Iterator[Any]:
    """The caches that hold arrays, through any nesting, in order."""
    for part in cache:
        if isinstance(part, CacheList):
            yield from leaves(part.caches)
        else:
            yield part


def layout(cache: PromptCache) -> str:
    """The classes and sizes of a cache's leaves; two caches with one layout can be exchanged."""
    return " ".join(_describe(leaf) for leaf in leaves(cache))


def _describe(leaf: Any) -> str:
    moving = {"offset", "_idx", "start_position"}
    sizes = {
        key: len(value) if isinstance(value, list) else value
        for key, value in vars(leaf).items()
        if isinstance(value, (int, list)) and key not in moving
    }
    return f"{type(leaf).__name__}{json.dumps(sizes, sort_keys=True)}"


def has_state(cache: PromptCache) -> bool:
    """Whether some leaf can be restored only at its own checkpoint."""
    return any(not _has_rows(leaf) for leaf in leaves(cache))


def _has_rows(leaf: Any) -> bool:
    return type(leaf) in (KVCache, RotatingKVCache)


def evaluate(cache: PromptCache) -> None:
    """Run what is pending."""
    mx.eval([leaf.state for leaf in leaves(cache)])


class RowLog:
    """The rows of the windows' newest tokens, collected while a segment is prefilled."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[mx.array]] = {}

    def record(self, cache: PromptCache, count: int) -> None:
        """Keep the rows of the last `count` tokens, before a later update drops them."""
        for index, leaf in enumerate(leaves(cache)):
            if type(leaf) is RotatingKVCache and leaf.keys is not None:
                keys, values = leaf._temporal_order(leaf.keys), leaf._temporal_order(leaf.values)
                self._keep(f"{index}.keys", keys, count)
                self._keep(f"{index}.values", values, count)
                # A window laid out as a restored one is gives the same bits from here on.
                leaf.keys, leaf.values = _window(leaf, keys), _window(leaf, values)
                leaf._idx = leaf.keys.shape[2]

    def _keep(self, name: str, rows: mx.array, count: int) -> None:
        newest = mx.contiguous(rows[..., -count:, :])
        mx.eval(newest)
        self._pieces.setdefault(name, []).append(newest)

    def rows(self) -> Rows:
        """What was collected, one array a name, and nothing is kept."""
        pieces, self._pieces = self._pieces, {}
        return {name: _join(parts) for name, parts in pieces.items()}


def _window(leaf: RotatingKVCache, rows: mx.array) -> mx.array:
    surplus = rows.shape[2] - max(leaf.max_size, 1)
    if surplus <= 0:
        return rows
    kept, recent = rows[..., : leaf.keep, :], rows[..., leaf.keep + surplus :, :]
    return mx.concatenate([kept, recent], axis=2)


def _join(parts: Sequence[mx.array]) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(list(parts), axis=2)


def cut(cache: PromptCache, log: RowLog, start: int, end: int) -> dict[str, Tensor]:
    """The rows of tokens [start, end), sliced to exactly these, as bytes."""
    rows = log.rows()
    for index, leaf in enumerate(leaves(cache)):
        if type(leaf) is KVCache and leaf.keys is not None:
            rows[f"{index}.keys"] = leaf.keys[..., start:end, :]
            rows[f"{index}.values"] = leaf.values[..., start:end, :]
    return _as_tensors(rows)


def state(cache: PromptCache) -> tuple[dict[str, Tensor], str]:
    """The arrays of the leaves that have no rows, and what is not an array in them, as JSON."""
    arrays: Rows = {}
    scalars: dict[str, Any] = {}
    for index, leaf in enumerate(leaves(cache)):
        if not _has_rows(leaf):
            for name, value in _flat_state(leaf):
                (arrays if isinstance(value, mx.array) else scalars)[f"{index}.{name}"] = value
    return _as_tensors(arrays), json.dumps(scalars, sort_keys=True)


def _as_tensors(arrays: Rows) -> dict[str, Tensor]:
    whole = {name: mx.contiguous(array) for name, array in arrays.items()}
    mx.eval(list(whole.values()))
    return {name: _as_tensor(array) for name, array in whole.items()}


def _as_tensor(array: Any) -> Tensor:
    return Tensor(str(array.dtype).rpartition(".")[2], tuple(array.shape), memoryview(array))


def _as_array(tensor: Tensor) -> mx.array:
    flat = mx.array(np.frombuffer(tensor.data, np.uint8))
    return flat.view(getattr(mx, tensor.dtype)).reshape(tensor.shape)


def fill(
    cache: PromptCache,
    segments: Sequence[Mapping[str, Tensor]],
    state: Mapping[str, Tensor],
    scalars: str,
    end: int,
) -> None:
    """Bring an empty cache to token `end` from its segments' rows, oldest first, and one state."""
    for index, leaf in enumerate(leaves(cache)):
        if not _has_rows(leaf):
            _fill_state(leaf, index, state, json.loads(scalars))
        elif any(f"{index}.keys" in rows for rows in segments):
            leaf.keys = _fill_rows(leaf, f"{index}.keys", segments)
            leaf.values = _fill_rows(leaf, f"{index}.values", segments)
            leaf.offset = end
            if type(leaf) is RotatingKVCache:
                leaf._idx = leaf.keys.shape[2]
    evaluate(cache)


def _fill_state(
    leaf: Any, index: int, state: Mapping[str, Tensor], scalars: Mapping[str, Any]
) -> None:
    mine = f"{index}."
    found = [(name, _as_array(part)) for name, part in state.items() if name.startswith(mine)]
    found += [(name, value) for name, value in scalars.items() if name.startswith(mine)]
    if found:
        _set_flat_state(leaf, [(name.removeprefix(mine), value) for name, value in found])


def _fill_rows(leaf: Any, name: str, segments: Sequence[Mapping[str, Tensor]]) -> mx.array:
    rows = _join([_as_array(segment[name]) for segment in segments])
    return _window(leaf, rows) if type(leaf) is RotatingKVCache else rows


@dataclass(frozen=True)
class Snapshot:
    """What it takes to bring a live cache back to `position`: nothing per row, windows and states."""

    position: int
    parts: tuple[Any, ...]


def snapshot(cache: PromptCache, position: int) -> Snapshot:
    """Remember the cache as it is. Arrays are shared, not copied."""
    return Snapshot(position, tuple(_remember(leaf) for leaf in leaves(cache)))


def _remember(leaf: Any) -> Any:
    if type(leaf) is KVCache:
        return leaf.offset
    if type(leaf) is RotatingKVCache:
        return _handle(leaf.keys), _handle(leaf.values), leaf.offset, leaf._idx
    return _flat_state(leaf)


def _handle(array: Any) -> Any:
    """The same data under another name, which an update in place of the first does not reach."""
    return array[...] if isinstance(array, mx.array) else array


def _flat_state(leaf: Any) -> list[tuple[str, Any]]:
    """A leaf's whole state by name; mlx-lm before 0.32 keeps what is not an array in `meta_state`."""
    parts = {"state": leaf.state, "meta_state": getattr(leaf, "meta_state", None)}
    return [(name, _handle(value)) for name, value in tree_flatten(parts)]


def _set_flat_state(leaf: Any, flat: list[tuple[str, Any]]) -> None:
    parts = tree_unflatten([(name, _handle(value)) for name, value in flat])
    leaf.state = parts["state"]
    if parts.get("meta_state") is not None:
        leaf.meta_state = parts["meta_state"]


def rewind(cache: PromptCache, to: Snapshot) -> None:
    """Bring the cache back to a snapshot of its own past. Rows before it must be untouched."""
    for leaf, part in zip(leaves(cache), to.parts, strict=True):
        if type(leaf) is KVCache:
            leaf.offset = part
        elif type(leaf) is RotatingKVCache:
            leaf.keys, leaf.values = _handle(part[0]), _handle(part[1])
            leaf.offset, leaf._idx = part[2], part[3]
        else:
            _set_flat_state(leaf, part)
