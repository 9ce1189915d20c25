"""mlx-lm's caches: rows, state, snapshot, rewind; refuses to know files and what tokens mean.

The only module that looks inside a cache. Three kinds of leaf (design, idea 3):
- rows: one row of keys and values per token, cut anywhere.
- window: rows too, of the newest tokens only, so they are logged as they pass.
- state: everything else, such as recurrent state, kept whole and restored only at its own position.
Shapes are mlx-lm's: keys and values are (batch, heads, tokens, dimensions), or tuples of such arrays
where they are quantized.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models.cache import (
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from chatcli.errors import CacheRefused
from chatcli.kv import loader
from chatcli.kv.freeze import arrays_in, freeze, thaw
from chatcli.settings.values import DEFAULTS, ModelOptions
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.rows import Rows as StoredRows

UNQUANTIZED = (
    "leave out --kv-bits (kv_bits in the settings), and name the model with -m where a session keeps it."
)
PromptCache = list[Any]
Rows = dict[str, mx.array]
ROWS = (KVCache, QuantizedKVCache, ConcatenateKVCache)
WINDOWS = (RotatingKVCache, ChunkedKVCache)
# Their buffers are written past the offset only, so an offset is all that a rewind needs.
TRIMMED = (KVCache, QuantizedKVCache)


def new(model: Any, model_options: ModelOptions = DEFAULTS) -> PromptCache:
    """An empty cache for `model`, of the size and precision that are asked for.

    Raises `CacheRefused` where mlx-lm has none such for this model.
    """
    if model_options.max_kv_size is not None and hasattr(model, "make_cache"):
        raise CacheRefused(
            "This model makes its own kind of cache, whose size cannot be chosen: leave out "
            "--max-kv-size (max_kv_size in the settings), and name the model with -m where a session "
            "keeps it."
        )
    made = list(make_prompt_cache(model, model_options.max_kv_size))
    return made if model_options.kv_bits is None else _quantized(made, model_options)


def _quantized(cache: PromptCache, model_options: ModelOptions) -> PromptCache:
    """The same layers as mlx-lm quantizes, while they are empty."""
    made = [_quantized_leaf(part, model_options) for part in cache]
    if not any(hasattr(part, "bits") for part in made):
        raise CacheRefused(f"This model has no plain KV cache that could be quantized: {UNQUANTIZED}")
    return made


def _quantized_leaf(part: Any, model_options: ModelOptions) -> Any:
    if not hasattr(part, "to_quantized"):
        return part
    try:
        return part.to_quantized(group_size=model_options.kv_group_size, bits=model_options.kv_bits)
    except NotImplementedError as error:
        raise CacheRefused(
            f"mlx-lm cannot quantize a sliding window such as this model's cache has: {UNQUANTIZED}"
        ) from error


def try_out(model: Any, model_options: ModelOptions) -> None:
    """Run three tokens on a quantized cache: not every model can.

    Raises `CacheRefused`, also where the groups do not fit the heads.
    """
    cache = new(model, model_options)
    try:
        for tokens in ([0, 0], [0]):
            model(mx.array(tokens)[None], cache=cache)
            evaluate(cache)
    except (ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise CacheRefused(
            f"This model cannot use a cache of {model_options.kv_bits} bits in groups of "
            f"{model_options.kv_group_size} ({reason}): try another --kv-group-size or --kv-bits, or "
            f"{UNQUANTIZED}"
        ) from error


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
    return any(not has_rows(leaf) for leaf in leaves(cache))


def only_trimmed(cache: PromptCache) -> bool:
    """Whether a snapshot takes no memory: every leaf goes back by its offset alone."""
    return all(type(leaf) in TRIMMED for leaf in leaves(cache))


def has_rows(leaf: Any) -> bool:
    """Whether a leaf keeps something for each token, so that it can be cut."""
    return type(leaf) in ROWS or type(leaf) in WINDOWS


def rows_of(leaf: Any) -> list[tuple[str, mx.array]]:
    """A leaf's key and value arrays by name; none before its first update."""
    if leaf.keys is None:
        return []
    return list(tree_flatten({"keys": leaf.keys, "values": leaf.values}))


def _set_arrays(leaf: Any, arrays: list[tuple[str, mx.array]]) -> None:
    parts = tree_unflatten(arrays)
    leaf.keys, leaf.values = parts["keys"], parts["values"]


def merges(cache: PromptCache) -> bool:
    """Whether mlx-lm runs several of these as one batch, as its server decides it.

    A window that keeps its first tokens would lose them there.
    """
    return all(hasattr(leaf, "merge") and not getattr(leaf, "keep", 0) for leaf in leaves(cache))


def fork(cache: PromptCache) -> PromptCache:
    """The same cache a second time: arrays are shared until one of the two is written."""
    return copy.deepcopy(cache)


def nbytes(cache: PromptCache) -> int:
    """What the arrays take, room to grow included."""
    return sum(array.nbytes for leaf in leaves(cache) for array in arrays_in(leaf))


def evaluate(cache: PromptCache) -> None:
    """Run what is pending."""
    mx.eval([array for leaf in leaves(cache) for array in arrays_in(leaf)])


class RowLog:
    """The rows of the windows' newest tokens, collected while a segment is run.

    `whole` is False once rows were gone before they could be kept. `nbytes` is what is kept.
    """

    def __init__(self) -> None:
        self.whole = True
        self.nbytes = 0
        self._pieces: dict[str, list[mx.array]] = {}

    def record(self, cache: PromptCache, count: int) -> None:
        """Keep the rows of the last `count` tokens, before a later update drops them.

        The windows are laid out as restored ones are, so that they give the same bits from here on.
        """
        self.keep(cache, count)
        lay_out(cache)

    def keep(self, cache: PromptCache, count: int) -> None:
        """`record`, while the model goes on with the windows as they are."""
        for index, leaf in enumerate(leaves(cache)):
            if type(leaf) in WINDOWS and leaf.keys is not None:
                ordered = _ordered(leaf)
                self.whole &= all(rows.shape[2] >= count for _, rows in ordered)
                self.add(index, [(name, rows[..., -count:, :]) for name, rows in ordered])

    def give_up(self) -> None:
        """Keep nothing more of this segment."""
        self.whole, self.nbytes, self._pieces = False, 0, {}

    def add(self, index: int, rows: list[tuple[str, mx.array]]) -> None:
        """Keep rows of leaf `index`, copied, so that the buffers that they lie in can go."""
        newest = [(name, mx.contiguous(part)) for name, part in rows]
        mx.async_eval([part for _, part in newest])  # type: ignore[no-untyped-call]
        for name, part in newest:
            self.nbytes += part.nbytes
            self._pieces.setdefault(f"{index}.{name}", []).append(part)

    def copy(self) -> RowLog:
        """What was collected so far, for a second way on from here."""
        other = RowLog()
        other._pieces = {name: list(parts) for name, parts in self._pieces.items()}
        other.nbytes, other.whole = self.nbytes, self.whole
        return other

    def rows(self) -> Rows:
        """What was collected, one array a name, and nothing is kept."""
        pieces, self._pieces = self._pieces, {}
        return {name: _join(parts) for name, parts in pieces.items()}


def shortest_window(cache: PromptCache) -> int | None:
    """How many tokens' rows every window holds at least; None if there are no windows."""
    return min((_window(leaf) for leaf in leaves(cache) if type(leaf) in WINDOWS), default=None)


def _window(leaf: Any) -> int:
    rotating = type(leaf) is RotatingKVCache
    return int(leaf.max_size - leaf.keep if rotating else leaf.chunk_size)


def lay_out(cache: PromptCache) -> None:
    """Put the windows' rows in order, the way that they are restored."""
    for leaf in leaves(cache):
        if type(leaf) in WINDOWS and leaf.keys is not None:
            _lay_out(leaf, _ordered(leaf), leaf.offset)


def _ordered(leaf: Any) -> list[tuple[str, mx.array]]:
    """A window's rows, oldest first."""
    rotated = type(leaf) is RotatingKVCache
    length = leaf.offset if rotated else leaf.offset - leaf.start_position
    arrays = rows_of(leaf)
    if rotated:
        arrays = [(name, leaf._temporal_order(rows)) for name, rows in arrays]
    return [(name, rows[..., :length, :]) for name, rows in arrays]


def _lay_out(leaf: Any, ordered: list[tuple[str, mx.array]], end: int) -> None:
    """Set a window's rows, the newest of which is that of token `end` - 1, in order."""
    limit, keep = (leaf.max_size, leaf.keep) if type(leaf) is RotatingKVCache else (leaf.chunk_size, 0)
    _set_arrays(leaf, [(name, _newest(rows, limit, keep)) for name, rows in ordered])
    leaf.offset = end
    if type(leaf) is RotatingKVCache:
        leaf._idx = leaf.keys.shape[2]
    else:
        leaf.start_position = end - leaf.keys.shape[2]


def _newest(rows: mx.array, limit: int, keep: int) -> mx.array:
    surplus = rows.shape[2] - limit
    if surplus <= 0:
        return rows
    return mx.concatenate([rows[..., :keep, :], rows[..., keep + surplus :, :]], axis=2)


def _join(parts: Sequence[mx.array]) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(list(parts), axis=2)


def cut(cache: PromptCache, log: RowLog, start: int, end: int) -> dict[str, Tensor]:
    """The rows of tokens [start, end), sliced to exactly these, as bytes."""
    rows = log.rows()
    for index, leaf in enumerate(leaves(cache)):
        if type(leaf) in ROWS:
            for name, array in rows_of(leaf):
                rows[f"{index}.{name}"] = array[..., start:end, :]
    return _as_tensors(rows)


def keeps_rows(cache: PromptCache) -> bool:
    """Whether the rows of all past tokens are there still: no window has dropped any."""
    return not any(type(leaf) in WINDOWS for leaf in leaves(cache))


def state(cache: PromptCache) -> tuple[dict[str, Tensor], str]:
    """The leaves that have no rows: their arrays, and everything else of them as JSON.

    Raises `TypeError` if a leaf holds something that cannot be written.
    """
    arrays: Rows = {}
    kept = {
        str(index): freeze(leaf, arrays, str(index))
        for index, leaf in enumerate(leaves(cache))
        if not has_rows(leaf)
    }
    return _as_tensors(arrays), json.dumps(kept, sort_keys=True)


def _as_tensors(arrays: Rows) -> dict[str, Tensor]:
    whole = {name: mx.contiguous(array) for name, array in arrays.items()}
    mx.eval(list(whole.values()))
    return {name: _as_tensor(array) for name, array in whole.items()}


def _as_tensor(array: Any) -> Tensor:
    return Tensor(str(array.dtype).rpartition(".")[2], tuple(array.shape), memoryview(array))


def _as_array(tensor: Tensor) -> mx.array:
    flat = mx.array(np.frombuffer(tensor.data, np.uint8))
    return flat.view(loader.mlx_dtype(tensor.dtype)).reshape(tensor.shape)


def fill(cache: PromptCache, rows: StoredRows, state: Mapping[str, Tensor], scalars: str) -> None:
    """Bring an empty cache, or one that has `moved` rows of the same tokens, to the end of `rows`.

    Raises `SegmentDamaged` or `OSError` as reading does, and what MLX raises where they do not fit.
    """
    lengths = {index: _needed(leaf, rows.count) for index, leaf in enumerate(leaves(cache))}
    _take(cache, None, rows, lengths)
    arrays = {name: _as_array(part) for name, part in state.items()}
    kept = json.loads(scalars)
    for index, leaf in enumerate(leaves(cache)):
        if not has_rows(leaf):
            thaw(kept[str(index)], arrays, leaf)
    evaluate(cache)


def moved(cache: PromptCache, into: PromptCache, position: int) -> PromptCache:
    """Give the rows of the first `position` tokens to an empty cache, as far as they lie in order.

    `cache` is not to be used any more. Returns `into`.
    """
    for leaf, empty in zip(leaves(cache), leaves(into), strict=True):
        if type(leaf) in TRIMMED and leaf.keys is not None:
            empty.keys, empty.values, empty.offset = leaf.keys, leaf.values, position
            leaf.keys = leaf.values = None
    return into


def append(cache: PromptCache, log: RowLog, rows: StoredRows) -> None:
    """Add rows from disk as if they had been prefilled."""
    _take(cache, log, rows, {})
    evaluate(cache)


def _take(
    cache: PromptCache, log: RowLog | None, rows: StoredRows, lengths: Mapping[int, int | None]
) -> None:
    """Put rows behind those that the leaves have; `lengths` as `_needed` tells them."""
    wanted = {name: lengths.get(int(name.partition(".")[0])) for name in rows.names}
    arrays = loader.read(rows, {name: length for name, length in wanted.items() if length != 0})
    for index, leaf in enumerate(leaves(cache)):
        mine = f"{index}."
        new = [(name.removeprefix(mine), rows_) for name, rows_ in arrays.items() if name.startswith(mine)]
        if new and type(leaf) in WINDOWS:
            if log is not None:
                log.add(index, new)
            _lay_out(leaf, _after(_ordered(leaf), new), leaf.offset + rows.count)
        elif new:
            end = rows.count + (leaf.offset if log is not None else 0)
            _set_arrays(leaf, _behind(rows_of(leaf), new, leaf.offset, end))
            leaf.offset = end


def _needed(leaf: Any, count: int) -> int | None:
    """How many rows a leaf is given when `count` are restored; None: as many.

    Fewer are the newest ones. More leave room to go on without copying them all.
    """
    if type(leaf) in TRIMMED and leaf.keys is not None:
        return count - int(leaf.offset)
    if type(leaf) is RotatingKVCache and not leaf.keep:
        return min(int(leaf.max_size), count)
    if type(leaf) is ChunkedKVCache:
        return min(int(leaf.chunk_size), count)
    return count + -count % leaf.step + 2 * leaf.step if type(leaf) in TRIMMED else None


def _after(
    before: list[tuple[str, mx.array]], rows: list[tuple[str, mx.array]]
) -> list[tuple[str, mx.array]]:
    old = dict(before)
    return [(name, _join([old[name], new]) if old else new) for name, new in rows]


def _behind(
    before: list[tuple[str, mx.array]], new: list[tuple[str, mx.array]], start: int, end: int
) -> list[tuple[str, mx.array]]:
    """Rows after the first `start`: written to where they belong if there is room up to `end`."""
    if not before or before[0][1].shape[2] < end:
        return _after([(name, old[..., :start, :]) for name, old in before], new)
    added = dict(new)
    for name, old in before:
        old[..., start:end, :] = added[name]
    return before


@dataclass(frozen=True)
class Snapshot:
    """What it takes to bring a live cache back to `position`: nothing per row, windows and states."""

    position: int
    parts: tuple[Any, ...]


def snapshot(cache: PromptCache, position: int) -> Snapshot:
    """Remember the cache as it is. Arrays are shared, not copied."""
    return Snapshot(position, tuple(_remember(leaf) for leaf in leaves(cache)))


def _remember(leaf: Any) -> Any:
    if type(leaf) in TRIMMED:
        return leaf.offset
    arrays: Rows = {}
    return freeze(leaf, arrays, ""), arrays


def place(cache: PromptCache, position: int) -> Snapshot:
    """A snapshot of an earlier position, where `only_trimmed`: nothing had to be remembered."""
    return Snapshot(position, tuple(min(leaf.offset, position) for leaf in leaves(cache)))


def rewind(cache: PromptCache, to: Snapshot) -> None:
    """Bring the cache back to a snapshot of its own past. Rows before it must be untouched."""
    for leaf, part in zip(leaves(cache), to.parts, strict=True):
        if type(leaf) in TRIMMED:
            leaf.offset = part
        else:
            kept, arrays = part
            thaw(kept, arrays, leaf)
