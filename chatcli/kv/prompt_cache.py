"""mlx-lm's prompt caches: split into rows and state, filled, appended to, forked, rewound and trimmed.

A prompt cache is mlx-lm's list with a cache object per layer. `CacheList` nests them; those that hold
arrays are the leaves. There are three kinds:

- Full (`KVCache`, `QuantizedKVCache`, `ConcatenateKVCache`): a row of keys and values per token, so a
  segment is a slice, and a cache can be restored at any token.
- Window (`RotatingKVCache`, `ChunkedKVCache`): rows too, but of the newest tokens only. A `RowLog`
  keeps a segment's rows before rotation drops them, so a window can be restored at any token as well.
- State (`ArraysCache` and any other class): arrays that cannot be cut, such as recurrent and
  convolution state. They are kept whole and restored only at their own position.

Keys and values have mlx-lm's shape (batch, heads, tokens, head_dim) and keep their dtype. Quantized
ones are (packed, scales, biases) of shape (batch, heads, tokens, ...), so rows lie along axis 2
everywhere. An array is named by its leaf's number and its place there: `0.keys`, `3.values.1`.

Whatever evaluates arrays belongs on the thread that owns MLX.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
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
from chatcli.kv.freeze import Arrays, arrays_in, freeze, thaw
from chatcli.settings.values import DEFAULTS, ModelOptions
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.rows import Rows

UNQUANTIZED = (
    "leave out --kv-bits (kv_bits in the settings), and name the model with -m where a session keeps it."
)
# What MLX says of rows that groups do not divide, with their length.
INDIVISIBLE = re.compile(r"divisible by the quantization group size.*,\s*(\d+)\)")
PromptCache = list[Any]
# A leaf's arrays with their names inside it, such as `values.1`.
NamedArrays = list[tuple[str, mx.array]]
FULL_CACHES = (KVCache, QuantizedKVCache, ConcatenateKVCache)
WINDOW_CACHES = (RotatingKVCache, ChunkedKVCache)
# From so many rows on it is sooner to decode in buffers that MLX's CUDA build plans its attention for.
PLANNED_ROWS = 4096
# These write their buffers only past the offset, so the offset is all that a rewind needs.
OFFSET_CACHES = (KVCache, QuantizedKVCache)


def new(model: Any, options: ModelOptions = DEFAULTS) -> PromptCache:
    """An empty cache for `model`, of the size and precision that `options` ask for.

    Raises `CacheRefused` where mlx-lm has no such cache for this model.
    """
    if options.max_kv_size is not None and hasattr(model, "make_cache"):
        raise CacheRefused(
            "This model makes its own kind of cache, whose size cannot be chosen: leave out "
            "--max-kv-size (max_kv_size in the settings), and name the model with -m where a session "
            "keeps it."
        )
    cache = list(make_prompt_cache(model, options.max_kv_size))
    if options.kv_bits is None:
        return cache
    # While it is empty, so that all of its rows are alike.
    try:
        cache = [
            part.to_quantized(group_size=options.kv_group_size, bits=options.kv_bits)
            if hasattr(part, "to_quantized")
            else part
            for part in cache
        ]
    except NotImplementedError as error:
        raise CacheRefused(
            f"mlx-lm cannot quantize a sliding window such as this model's cache has: {UNQUANTIZED}"
        ) from error
    if not any(hasattr(part, "bits") for part in cache):
        raise CacheRefused(f"This model has no plain KV cache that could be quantized: {UNQUANTIZED}")
    return cache


def check_quantized(model: Any, options: ModelOptions) -> None:
    """Run three tokens on a quantized cache, which not every model's code can.

    Raises `CacheRefused`, also where the head dimension is no multiple of the group size.
    """
    cache = new(model, options)
    try:
        for tokens in ([0, 0], [0]):
            model(mx.array(tokens)[None], cache=cache)
            evaluate(cache)
    except (ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        if indivisible := INDIVISIBLE.search(reason):
            reason = f"its keys and values are {indivisible[1]} numbers long, no multiple of that"
        elif "[broadcast_shapes]" in reason:
            reason = "mlx-lm has no room for rows of this length in so many bits"
        raise CacheRefused(
            f"This model cannot use a cache of {options.kv_bits} bits in groups of "
            f"{options.kv_group_size}: {reason}. Try another --kv-group-size or --kv-bits, or "
            f"{UNQUANTIZED}"
        ) from error


# What a cache is


def leaves(cache: Sequence[Any]) -> Iterator[Any]:
    """The cache objects that hold arrays, through any nesting, in order."""
    for part in cache:
        if isinstance(part, CacheList):
            yield from leaves(part.caches)
        else:
            yield part


def layout(cache: PromptCache) -> str:
    """The leaves' classes and sizes. Checkpoints can be exchanged between caches of one layout."""
    positions = {"offset", "_idx", "start_position"}
    descriptions = []
    for leaf in leaves(cache):
        sizes = {
            name: len(value) if isinstance(value, list) else value
            for name, value in vars(leaf).items()
            if isinstance(value, (int, list)) and name not in positions
        }
        descriptions.append(f"{type(leaf).__name__}{json.dumps(sizes, sort_keys=True)}")
    return " ".join(descriptions)


def has_rows(leaf: Any) -> bool:
    """Whether a leaf is full or a window: it keeps a row per token and can be cut."""
    return type(leaf) in FULL_CACHES or type(leaf) in WINDOW_CACHES


def has_state(cache: PromptCache) -> bool:
    """Whether some leaf can be restored only at the position of a checkpoint."""
    return any(not has_rows(leaf) for leaf in leaves(cache))


def keeps_all_rows(cache: PromptCache) -> bool:
    """Whether the rows of all past tokens are still there: no leaf is a window."""
    return not any(type(leaf) in WINDOW_CACHES for leaf in leaves(cache))


def rewinds_by_offset(cache: PromptCache) -> bool:
    """Whether a snapshot takes no memory, because every leaf goes back by its offset alone."""
    return all(type(leaf) in OFFSET_CACHES for leaf in leaves(cache))


def decodes_as_prefilled(cache: PromptCache) -> bool:
    """Whether rows of tokens that were generated are those of a prefill, but for rounding.

    Quantization makes a step of a rounding. A window that keeps its first tokens shows them to a token
    that is run alone, and within a chunk to the first ones only: mlx-lm's mask there is a plain window's.
    """
    return not any(
        type(leaf) is QuantizedKVCache or (type(leaf) is RotatingKVCache and leaf.keep)
        for leaf in leaves(cache)
    )


def can_merge(cache: PromptCache) -> bool:
    """Whether mlx-lm merges caches of this kind into a batch, by the test of its own server.

    A window that keeps its first tokens would lose them there.
    """
    return all(hasattr(leaf, "merge") and not getattr(leaf, "keep", 0) for leaf in leaves(cache))


def nbytes(cache: PromptCache) -> int:
    """The bytes of all arrays, spare rows of the buffers included."""
    return sum(array.nbytes for leaf in leaves(cache) for array in arrays_in(leaf))


def evaluate(cache: PromptCache) -> None:
    mx.eval([array for leaf in leaves(cache) for array in arrays_in(leaf)])


def rows_of(leaf: Any) -> NamedArrays:
    """The key and value buffers of a full leaf or a window; none before its first update."""
    if leaf.keys is None:
        return []
    return list(tree_flatten({"keys": leaf.keys, "values": leaf.values}))


def _set_rows(leaf: Any, arrays: NamedArrays) -> None:
    tree = tree_unflatten(arrays)
    leaf.keys, leaf.values = tree["keys"], tree["values"]


def _concatenated(before: NamedArrays, after: NamedArrays) -> NamedArrays:
    old = dict(before)
    return [(name, mx.concatenate([old[name], new], axis=2) if old else new) for name, new in after]


# Windows


@dataclass(frozen=True)
class State:
    """The leaves without rows after `position` tokens: frozen, by their numbers, and their arrays."""

    position: int
    frozen: Mapping[str, Any]
    arrays: Arrays

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


class RowLog:
    """The windows' rows of the tokens of one segment, collected while these are run.

    `complete` is False once rows were dropped before they could be recorded. `nbytes` is what the log holds.
    Of a reply `states` are the last two of the places that it can go on from.
    """

    def __init__(self) -> None:
        self.complete = True
        self.nbytes = 0
        self.states: list[State] = []
        self._pieces: dict[str, list[mx.array]] = {}

    def keep_state(self, cache: PromptCache, position: int) -> None:
        """Keep the state that the cache has now, after `position` tokens."""
        self.states = [*self.states[-1:], state_at(cache, position)]

    def record(self, cache: PromptCache, count: int, *, reorder: bool = True) -> None:
        """Keep the windows' rows of the last `count` tokens, before a later update drops them.

        `reorder` also reorders the windows as those of a restored cache are, so that both give the
        same bits from here on.
        """
        for index, leaf in enumerate(leaves(cache)):
            if type(leaf) in WINDOW_CACHES and leaf.keys is not None:
                ordered = _in_temporal_order(leaf)
                self.complete &= all(rows.shape[2] >= count for _, rows in ordered)
                self.add(index, [(name, rows[..., -count:, :]) for name, rows in ordered])
        if reorder:
            reorder_windows(cache)

    def add(self, index: int, rows: NamedArrays) -> None:
        """Keep rows of leaf `index`, copied, so that the buffers that they lie in can be freed."""
        copies = [(name, mx.contiguous(part)) for name, part in rows]
        mx.async_eval([part for _, part in copies])  # type: ignore[no-untyped-call]
        for name, part in copies:
            self.nbytes += part.nbytes
            self._pieces.setdefault(f"{index}.{name}", []).append(part)

    def discard(self) -> None:
        """Free the rows. The segment can no longer be completed."""
        self.complete, self.nbytes, self.states, self._pieces = False, 0, [], {}

    def copy(self) -> RowLog:
        """A log that goes on from here on its own; the rows so far are shared."""
        other = RowLog()
        other.states = self.states
        other._pieces = {name: list(pieces) for name, pieces in self._pieces.items()}
        other.nbytes, other.complete = self.nbytes, self.complete
        return other

    @classmethod
    def joined(cls, logs: Sequence[RowLog]) -> RowLog:
        """The rows of all of these, one after the other; they are shared."""
        whole = cls()
        for log in logs:
            whole.complete &= log.complete
            whole.nbytes += log.nbytes
            for name, pieces in log._pieces.items():
                whole._pieces.setdefault(name, []).extend(pieces)
        return whole

    def split(self, count: int) -> tuple[RowLog, RowLog]:
        """A log of the rows of the first `count` tokens, and one of those after them, with the states.

        This one is the first if there are no more, and empty if there are.
        """
        rest = RowLog()
        if all(sum(rows.shape[2] for rows in pieces) <= count for pieces in self._pieces.values()):
            return self, rest
        first, rows = RowLog(), self.take()
        first._pieces = {name: [part[..., :count, :]] for name, part in rows.items()}
        rest._pieces = {name: [part[..., count:, :]] for name, part in rows.items()}
        for log in (first, rest):
            log.complete = self.complete
            log.nbytes = sum(part.nbytes for pieces in log._pieces.values() for part in pieces)
        rest.states = self.states
        return first, rest

    def cut(self, count: int) -> None:
        """Keep the rows of the first `count` tokens only."""
        self._pieces = {name: [rows[..., :count, :]] for name, rows in self.take().items()}
        self.nbytes = sum(rows.nbytes for pieces in self._pieces.values() for rows in pieces)

    def take(self) -> Arrays:
        """The rows, an array of shape (batch, heads, tokens, ...) per name; the log is empty then."""
        pieces, self._pieces = self._pieces, {}
        return {name: mx.concatenate(parts, axis=2) for name, parts in pieces.items()}


def shortest_window(cache: PromptCache) -> int | None:
    """How many of the newest tokens every window has rows of at least; None without windows."""
    return min(
        (
            int(leaf.max_size - leaf.keep if type(leaf) is RotatingKVCache else leaf.chunk_size)
            for leaf in leaves(cache)
            if type(leaf) in WINDOW_CACHES
        ),
        default=None,
    )


def reorder_windows(cache: PromptCache) -> None:
    """Put the windows' rows in temporal order, as those of a restored cache are."""
    for leaf in leaves(cache):
        if type(leaf) in WINDOW_CACHES and leaf.keys is not None:
            _set_window(leaf, _in_temporal_order(leaf), leaf.offset)


def _in_temporal_order(leaf: Any) -> NamedArrays:
    """A window's rows, oldest first."""
    if type(leaf) is RotatingKVCache:
        return [(name, leaf._temporal_order(rows)[..., : leaf.offset, :]) for name, rows in rows_of(leaf)]
    return [(name, rows[..., : leaf.offset - leaf.start_position, :]) for name, rows in rows_of(leaf)]


def _set_window(leaf: Any, ordered: NamedArrays, end: int) -> None:
    """Give a window rows in temporal order, of which the newest is that of token `end` - 1."""
    is_rotating = type(leaf) is RotatingKVCache
    size, keep = (leaf.max_size, leaf.keep) if is_rotating else (leaf.chunk_size, 0)
    surplus = max(ordered[0][1].shape[2] - size, 0)
    if surplus:
        ordered = [
            (name, mx.concatenate([rows[..., :keep, :], rows[..., keep + surplus :, :]], axis=2))
            for name, rows in ordered
        ]
    _set_rows(leaf, ordered)
    leaf.offset = end
    if is_rotating:
        leaf._idx = leaf.keys.shape[2]
    else:
        leaf.start_position = end - leaf.keys.shape[2]


# To and from disk


def segment_rows(cache: PromptCache, log: RowLog, start: int, end: int) -> dict[str, Tensor]:
    """The rows of tokens [start, end) as bytes, each of shape (batch, heads, end - start, ...).

    Those of the windows come from `log`, which begins with `start` and is empty then.
    """
    rows = {name: logged[..., : end - start, :] for name, logged in log.take().items()}
    for index, leaf in enumerate(leaves(cache)):
        if type(leaf) in FULL_CACHES:
            rows |= {f"{index}.{name}": buffer[..., start:end, :] for name, buffer in rows_of(leaf)}
    return _as_tensors(rows)


def state_at(cache: PromptCache, position: int) -> State:
    """The state of a cache that holds `position` tokens now. Arrays are shared, not copied."""
    arrays: Arrays = {}
    frozen = {
        str(index): freeze(leaf, arrays, str(index))
        for index, leaf in enumerate(leaves(cache))
        if not has_rows(leaf)
    }
    return State(position, frozen, arrays)


def state_of(cache: PromptCache, kept: Snapshot) -> State:
    """The state in a snapshot of this cache."""
    parts = {
        str(index): part
        for index, (leaf, part) in enumerate(zip(leaves(cache), kept.parts, strict=True))
        if not has_rows(leaf)
    }
    arrays = {name: array for _, own in parts.values() for name, array in own.items()}
    return State(kept.position, {index: frozen for index, (frozen, _) in parts.items()}, arrays)


def state(cache: PromptCache, kept: State | None = None) -> tuple[dict[str, Tensor], str]:
    """The leaves without rows, as they are or as they were `kept`: their arrays as bytes, the rest as JSON.

    Raises `TypeError` if a leaf holds something that cannot be written.
    """
    kept = kept or state_at(cache, 0)
    return _as_tensors(kept.arrays), json.dumps(kept.frozen, sort_keys=True)


def _as_tensors(arrays: Arrays) -> dict[str, Tensor]:
    """The arrays' bytes, evaluated and not copied again: a CUDA device's are copied where they are read."""
    contiguous: dict[str, Any] = {name: mx.contiguous(array) for name, array in arrays.items()}
    mx.eval(list(contiguous.values()))
    return {
        name: Tensor(str(array.dtype).removeprefix("mlx.core."), tuple(array.shape), array)
        for name, array in contiguous.items()
    }


def fill(cache: PromptCache, rows: Rows, state: Mapping[str, Tensor], scalars: str) -> None:
    """Fill an empty cache, or one that `move_rows` has given rows of the same tokens, to the end of `rows`.

    `state` and `scalars` are what the function `state` returned there. Raises `SegmentDamaged` or `OSError`
    as reading does, and what MLX raises where the arrays do not fit.
    """
    lengths = {index: _restored_length(leaf, rows.count) for index, leaf in enumerate(leaves(cache))}
    arrays = _read(rows, lengths)
    for index, leaf in enumerate(leaves(cache)):
        if index in arrays:
            _add_rows(leaf, arrays[index], rows.count)
    _set_state(cache, state, scalars)
    evaluate(cache)


def append(cache: PromptCache, log: RowLog, rows: Rows, state: Mapping[str, Tensor], scalars: str) -> None:
    """Add rows from disk as if their tokens had been prefilled; those of the windows to `log` too.

    `state` and `scalars` are those at the end of `rows`. Raises as `fill` does.
    """
    arrays = _read(rows, {})
    for index, leaf in enumerate(leaves(cache)):
        if index in arrays:
            if type(leaf) in WINDOW_CACHES:
                log.add(index, arrays[index])
            _add_rows(leaf, arrays[index], leaf.offset + rows.count)
    _set_state(cache, state, scalars)
    evaluate(cache)


def _set_state(cache: PromptCache, state: Mapping[str, Tensor], scalars: str) -> None:
    arrays = {name: loader.to_device(tensor) for name, tensor in state.items()}
    frozen = json.loads(scalars)
    for index, leaf in enumerate(leaves(cache)):
        if not has_rows(leaf):
            thaw(frozen[str(index)], arrays, leaf)


def move_rows(cache: PromptCache, into: PromptCache, position: int) -> PromptCache:
    """Give the rows of the first `position` tokens to an empty cache, where an offset suffices for that.

    `cache` must not be used any more. Returns `into`.
    """
    for leaf, empty in zip(leaves(cache), leaves(into), strict=True):
        if type(leaf) in OFFSET_CACHES and leaf.keys is not None:
            empty.keys, empty.values, empty.offset = leaf.keys, leaf.values, position
            leaf.keys = leaf.values = None
    return into


def reserve(cache: PromptCache, *, planned: bool) -> None:
    """Give the plain buffers room for more rows, so that the next token's attention is `planned` or not.

    MLX's CUDA build plans the attention of a single token for the length of its buffer, if that is in whole
    steps. A plan takes as long as several tokens and is kept; without one, attention to many rows is slower.
    """
    for leaf in leaves(cache):
        if type(leaf) is not KVCache or leaf.keys is None:
            continue
        rows = leaf.keys.shape[2]
        if rows > leaf.offset and (rows % leaf.step == 0) == planned:
            continue
        room = _buffer_length(leaf, leaf.offset, planned=planned) - leaf.offset
        _set_rows(
            leaf,
            [
                (name, mx.concatenate([buffer[..., : leaf.offset, :], _zeros(buffer, room)], axis=2))
                for name, buffer in rows_of(leaf)
            ],
        )


def _zeros(like: mx.array, rows: int) -> mx.array:
    return mx.zeros((*like.shape[:2], rows, *like.shape[3:]), like.dtype)


def _buffer_length(leaf: Any, count: int, *, planned: bool) -> int:
    """Rows for `count` tokens and at least two steps more; whole steps where they are to be `planned`."""
    return int(count + -count % leaf.step + (2 if planned else 2.5) * leaf.step)


def _restored_length(leaf: Any, count: int) -> int | None:
    """The rows to read for a leaf of which `count` are on disk; None: exactly these.

    Fewer are the newest ones. More leave room in the buffer, so that the next update does not copy it.
    """
    if type(leaf) in OFFSET_CACHES:
        if leaf.keys is not None:
            return count - int(leaf.offset)
        return _buffer_length(leaf, count, planned=not loader.copies_to_device())
    if type(leaf) is RotatingKVCache and not leaf.keep:
        return min(int(leaf.max_size), count)
    if type(leaf) is ChunkedKVCache:
        return min(int(leaf.chunk_size), count)
    return None


def _read(rows: Rows, lengths: Mapping[int, int | None]) -> dict[int, NamedArrays]:
    """The arrays of each leaf, of `lengths` rows (None: all; 0: the leaf is left out)."""
    wanted = {name: lengths.get(int(name.partition(".")[0])) for name in rows.names}
    wanted = {name: length for name, length in wanted.items() if length != 0}
    return _by_leaf(loader.read(rows, wanted))


def _by_leaf(arrays: Mapping[str, mx.array]) -> dict[int, NamedArrays]:
    """Each leaf's arrays, by its number."""
    by_leaf: dict[int, NamedArrays] = {}
    for name, array in arrays.items():
        index, _, name_in_leaf = name.partition(".")
        by_leaf.setdefault(int(index), []).append((name_in_leaf, array))
    return by_leaf


def _add_rows(leaf: Any, new: NamedArrays, end: int) -> None:
    """Put rows behind those that a leaf has; the last is that of token `end` - 1."""
    if type(leaf) in WINDOW_CACHES:
        _set_window(leaf, _concatenated(_in_temporal_order(leaf), new), end)
        return
    buffers, start = rows_of(leaf), leaf.offset
    if buffers and buffers[0][1].shape[2] >= end:
        rows = dict(new)
        for name, buffer in buffers:
            buffer[..., start:end, :] = rows[name]
    else:
        buffers = _concatenated([(name, buffer[..., :start, :]) for name, buffer in buffers], new)
    _set_rows(leaf, buffers)
    leaf.offset = end


# Back to an earlier token


def fork(cache: PromptCache) -> PromptCache:
    """A second cache with the same content. Arrays are shared until one of the two writes to them."""
    return copy.deepcopy(cache)


@dataclass(frozen=True)
class Snapshot:
    """What it takes to rewind a live cache to `position`: an offset, or the arrays, for each leaf."""

    position: int
    parts: tuple[Any, ...]


def snapshot(cache: PromptCache, position: int) -> Snapshot:
    """The cache as it is now, after `position` tokens. Arrays are shared, not copied."""
    parts: list[Any] = []
    for index, leaf in enumerate(leaves(cache)):
        arrays: Arrays = {}
        is_offset = type(leaf) in OFFSET_CACHES
        parts.append(leaf.offset if is_offset else (freeze(leaf, arrays, str(index)), arrays))
    return Snapshot(position, tuple(parts))


def snapshot_at(cache: PromptCache, position: int) -> Snapshot:
    """The snapshot of an earlier position of a cache that `rewinds_by_offset`."""
    return Snapshot(position, tuple(min(leaf.offset, position) for leaf in leaves(cache)))


def rewind(cache: PromptCache, to: Snapshot) -> None:
    """Bring the cache back to a snapshot of its own past. Rows before it must be untouched."""
    for leaf, part in zip(leaves(cache), to.parts, strict=True):
        if type(leaf) in OFFSET_CACHES:
            leaf.offset = part
        else:
            frozen, arrays = part
            thaw(frozen, arrays, leaf)


def rewinds_within_runs(cache: PromptCache) -> bool:
    """Whether `rewind_run` can bring a cache of these classes back."""
    return all(type(leaf) in OFFSET_CACHES for leaf in leaves(cache) if type(leaf) in FULL_CACHES)


def rewind_run(cache: PromptCache, log: RowLog, start: Snapshot, position: int, state: State | None) -> None:
    """Bring the cache back to `position`, between a snapshot and what was run from there.

    `log` has the windows' rows of what was run, and is cut too; `state` is that at `position`, where there
    are leaves without rows.
    """
    rewind(cache, start)
    log.cut(position - start.position)
    logged = _by_leaf(log.copy().take())
    for index, leaf in enumerate(leaves(cache)):
        if type(leaf) in OFFSET_CACHES:
            leaf.offset = position
        elif index in logged:
            _add_rows(leaf, logged[index], position)
        elif state is not None and not has_rows(leaf):
            thaw(state.frozen[str(index)], state.arrays, leaf)


def untrimmable(cache: PromptCache) -> list[str]:
    """The classes of the leaves that mlx-lm's `trim_prompt_cache` cannot trim, whatever they say."""
    classes = {type(leaf) for leaf in leaves(cache)} - {*OFFSET_CACHES, *WINDOW_CACHES}
    return sorted(leaf_class.__name__ for leaf_class in classes)


def max_trimmable_offset(cache: PromptCache) -> int | None:
    """The most tokens that a cache may have been given to be trimmed still; None: any number.

    A full window has dropped rows that a trim would have to bring back.
    """
    limits = []
    for leaf in leaves(cache):
        if type(leaf) is RotatingKVCache:
            limits.append(int(leaf.max_size) - 1)
        elif type(leaf) is ChunkedKVCache:
            # What was trimmed stays in the last piece of the buffer, which some versions count.
            limits.append(int(leaf.chunk_size - leaf.step))
    return min(limits, default=None)


def offset(cache: PromptCache) -> int:
    """How many tokens a cache without state has been given."""
    return max(int(leaf.offset) for leaf in leaves(cache))
