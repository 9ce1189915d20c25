"""The kinds of leaf in a prompt cache: rows, windows and states. Everything specific to mlx-lm's classes.

A leaf is a cache object that holds arrays; `CacheList` nests them. There are three kinds:

- Rows (`KVCache`, `QuantizedKVCache`, `ConcatenateKVCache`): keys and values of every token. A segment is
  a slice, and the leaf can be restored at any token.
- Window (`RotatingKVCache`, `ChunkedKVCache`): rows too, but of the newest tokens only. They are logged
  before they are dropped, so a window can be restored at any token as well.
- State (`ArraysCache` and any other class): arrays that cannot be cut, such as recurrent and convolution
  state. They are kept whole and restored only at their own position.

`KINDS` maps classes to kinds. Keys and values have mlx-lm's shape (batch, heads, tokens,
head_dim) and keep their dtype. Quantized ones are (packed, scales, biases) of shape (batch, heads, tokens,
...), so rows lie along axis 2 everywhere. An array is named by its leaf's number and its place there:
`0.keys`, `3.values.1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
)

from chatcli.kv import loader, memory_limit
from chatcli.kv.freeze import Arrays, arrays_in, freeze, thaw
from chatcli.kv.memory_limit import Growth

# A leaf's arrays with their names inside it, such as `values.1`.
NamedArrays = list[tuple[str, mx.array]]


class Leaf:
    """A cache object and its `number` in its prompt cache: a state of its whole contents, of any class."""

    # Whether its growth is known: by rows, or none. False for an unknown class, which may grow in any way.
    is_known = False
    # Whether generated tokens have the same rows as prefilled ones, except for rounding.
    decodes_as_prefilled = True

    def __init__(self, number: int, cache: Any) -> None:
        self.number, self.cache = number, cache

    def snapshot(self) -> Any:
        """What is needed to rewind to the present content. Arrays are shared, not copied."""
        arrays: Arrays = {}
        return freeze(self.cache, arrays, str(self.number)), arrays

    def rewind(self, snapshot: Any) -> None:
        """Go back to a snapshot. Rows before it must be untouched."""
        frozen, arrays = snapshot
        thaw(frozen, arrays, self.cache)

    def can_drop(self, run: int, *, in_one_pass: bool) -> bool:
        """Whether the newest of the last `run` tokens can be dropped, run `in_one_pass` or singly."""
        return False

    def drop(self, count: int) -> None:
        """Drop the newest `count` tokens, if it `can_drop` them."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays, including spare rows of the buffers."""
        return sum(array.nbytes for array in arrays_in(self.cache))

    def growth(self) -> Growth:
        """How it grows, from its arrays after a token."""
        return Growth(self.nbytes, 0)

    def reserve(self, *, planned: bool) -> None:
        """Make room for more rows: see `prompt_cache.reserve`."""


class State(Leaf):
    """A state of a class whose contents keep their size."""

    is_known = True


class Rows(Leaf):
    """Rows of all tokens. mlx-lm concatenates them again for each update."""

    is_known = True

    @property
    def buffers(self) -> NamedArrays:
        """The key and value buffers; none before the first update."""
        if self.cache.keys is None:
            return []
        return list(tree_flatten({"keys": self.cache.keys, "values": self.cache.values}))

    def set_buffers(self, arrays: NamedArrays) -> None:
        tree = tree_unflatten(arrays)
        self.cache.keys, self.cache.values = tree["keys"], tree["values"]

    @property
    def row_bytes(self) -> int:
        """The bytes of one token's keys and values; 0 if this leaf is not used."""
        return sum(array.nbytes // array.shape[2] for _, array in self.buffers)

    def growth(self) -> Growth:
        return Growth(0, self.row_bytes, step=getattr(self.cache, "step", 1))

    def slice(self, start: int, end: int) -> NamedArrays:
        """The rows of tokens [start, end)."""
        return [(name, buffer[..., start:end, :]) for name, buffer in self.buffers]

    def append(self, rows: NamedArrays, end: int) -> None:
        """Append rows; the last is that of token `end` - 1."""
        start, buffers = self.cache.offset, self.buffers
        if buffers and buffers[0][1].shape[2] >= end:
            new = dict(rows)
            for name, buffer in buffers:
                buffer[..., start:end, :] = new[name]
        else:
            buffers = concatenated(self.slice(0, start), rows)
        self.set_buffers(buffers)
        self.cache.offset = end

    def can_drop(self, run: int, *, in_one_pass: bool) -> bool:
        return True

    def drop(self, count: int) -> None:
        self.set_buffers(self.slice(0, self.cache.offset - count))
        self.cache.offset -= count

    def length_to_read(self, count: int) -> int | None:
        """How many rows to read if `count` are on disk; None: exactly these.

        Fewer means the newest ones. More leaves room in the buffer, so that the next update does not copy it.
        """
        return None


class OffsetRows(Rows):
    """Rows in buffers that mlx-lm writes only past the offset, so rewinding only sets the offset."""

    def snapshot(self) -> Any:
        return self.cache.offset

    def rewind(self, snapshot: Any) -> None:
        self.cache.offset = snapshot

    def drop(self, count: int) -> None:
        self.cache.offset -= count

    def length_to_read(self, count: int) -> int | None:
        if self.cache.keys is not None:
            return count - int(self.cache.offset)
        return self._buffer_length(count, planned=not loader.copies_to_device())

    def move_to(self, other: Leaf, count: int) -> None:
        """Give the rows of the first `count` tokens to an empty leaf of the same class."""
        if self.cache.keys is not None:
            other.cache.keys, other.cache.values = self.cache.keys, self.cache.values
            other.cache.offset = count
            self.cache.keys = self.cache.values = None

    def _buffer_length(self, count: int, *, planned: bool) -> int:
        """Rows for `count` tokens and at least two steps more; whole steps if they must be `planned`."""
        step = self.cache.step
        return int(count + -count % step + (2 if planned else 2.5) * step)


class PlainRows(OffsetRows):
    """Keys and values as they are."""

    def reserve(self, *, planned: bool) -> None:
        if self.cache.keys is None:
            return
        length, offset = self.cache.keys.shape[2], self.cache.offset
        if length > offset and (length % self.cache.step == 0) == planned:
            return
        self._lengthen(self._buffer_length(offset, planned=planned))

    def widen(self, count: int, step: int) -> None:
        """Make room for `count` more rows, by `step` rows at a time; a single token stays planned or not."""
        length = self.cache.keys.shape[2] if self.cache.keys is not None else 0
        end = self.cache.offset + count
        if 0 < length < end:
            own = self.cache.step
            self._lengthen(end + -end % step + (own // 2 if length % own else 0))

    def _lengthen(self, length: int) -> None:
        offset = self.cache.offset
        zeros = [
            (name, mx.zeros((*buffer.shape[:2], length - offset, *buffer.shape[3:]), buffer.dtype))
            for name, buffer in self.buffers
        ]
        self.set_buffers(concatenated(self.slice(0, offset), zeros))


class QuantizedRows(OffsetRows):
    """Quantized rows: a rounding difference before quantizing can be a whole step after it."""

    decodes_as_prefilled = False


class Window(Rows):
    """Rows of the newest tokens; older ones are dropped. The first `kept` tokens stay."""

    size: int
    kept = 0

    def growth(self) -> Growth:
        return Growth(0, 0, (memory_limit.Window(self.row_bytes, self.size),))

    def in_order(self) -> NamedArrays:
        """The rows, oldest first."""
        raise NotImplementedError

    def set_in_order(self, rows: NamedArrays, end: int) -> None:
        """Set its rows, in temporal order; the last is that of token `end` - 1."""
        surplus = max(rows[0][1].shape[2] - self.size, 0)
        if surplus:
            kept = self.kept
            rows = [
                (name, mx.concatenate([part[..., :kept, :], part[..., kept + surplus :, :]], axis=2))
                for name, part in rows
            ]
        self.set_buffers(rows)
        self.cache.offset = end

    def reorder(self) -> None:
        """Put the rows in temporal order, like those of a restored window."""
        if self.cache.keys is not None:
            self.set_in_order(self.in_order(), self.cache.offset)

    def append(self, rows: NamedArrays, end: int) -> None:
        self.set_in_order(concatenated(self.in_order(), rows), end)

    def length_to_read(self, count: int) -> int | None:
        return None if self.kept else min(self.size, count)


class Rotating(Window):
    """A ring of rows: in temporal order after an update of several tokens, and rotated by single ones."""

    def __init__(self, number: int, cache: Any) -> None:
        super().__init__(number, cache)
        self.size, self.kept = int(cache.max_size), int(cache.keep)
        # With keep, a token decoded alone attends to the kept first tokens. In a prefill chunk mlx-lm's mask
        # is a plain window's, so only the chunk's first tokens do: the rows differ by more than rounding.
        self.decodes_as_prefilled = not self.kept

    def in_order(self) -> NamedArrays:
        leaf = self.cache
        return [(name, leaf._temporal_order(rows)[..., : leaf.offset, :]) for name, rows in self.buffers]

    def set_in_order(self, rows: NamedArrays, end: int) -> None:
        super().set_in_order(rows, end)
        self.cache._idx = self.cache.keys.shape[2]

    def can_drop(self, run: int, *, in_one_pass: bool) -> bool:
        # One pass of several tokens puts the rows in temporal order and the new ones behind them. A token
        # that is run alone is written over the oldest one.
        return self.cache.offset < self.size or (in_one_pass and run > 1)

    def drop(self, count: int) -> None:
        leaf = self.cache
        if leaf.offset >= self.size:
            self.set_buffers([(name, rows[..., :-count, :]) for name, rows in self.buffers])
            leaf._idx = leaf.keys.shape[2]
        else:
            leaf._idx -= count
        leaf.offset -= count


class Chunked(Window):
    """Rows that are cut at the front whenever a chunk is full."""

    def __init__(self, number: int, cache: Any) -> None:
        super().__init__(number, cache)
        self.size = int(cache.chunk_size)

    def in_order(self) -> NamedArrays:
        length = self.cache.offset - self.cache.start_position
        return [(name, rows[..., :length, :]) for name, rows in self.buffers]

    def set_in_order(self, rows: NamedArrays, end: int) -> None:
        super().set_in_order(rows, end)
        self.cache.start_position = end - self.cache.keys.shape[2]

    def drop(self, count: int) -> None:
        self.cache.offset -= count


# Any other class is a state of its whole contents, which may grow.
KINDS: dict[type, type[Leaf]] = {
    KVCache: PlainRows,
    QuantizedKVCache: QuantizedRows,
    ConcatenateKVCache: Rows,
    RotatingKVCache: Rotating,
    ChunkedKVCache: Chunked,
    ArraysCache: State,
}


def leaves(cache: Sequence[Any]) -> list[Leaf]:
    """The leaves of a prompt cache, through any nesting, in order."""
    return [KINDS.get(type(each), Leaf)(number, each) for number, each in enumerate(_flat(cache))]


def rows_in(cache: Sequence[Any]) -> list[Rows]:
    """The leaves that have rows."""
    return [leaf for leaf in leaves(cache) if isinstance(leaf, Rows)]


def windows_in(cache: Sequence[Any]) -> list[Window]:
    """The leaves that are windows."""
    return [leaf for leaf in leaves(cache) if isinstance(leaf, Window)]


def states_in(cache: Sequence[Any]) -> list[Leaf]:
    """The leaves without rows."""
    return [leaf for leaf in leaves(cache) if not isinstance(leaf, Rows)]


def _flat(cache: Sequence[Any]) -> Iterator[Any]:
    for part in cache:
        if isinstance(part, CacheList):
            yield from _flat(part.caches)
        else:
            yield part


def concatenated(before: NamedArrays, after: NamedArrays) -> NamedArrays:
    """The rows of both, concatenated."""
    old = dict(before)
    return [(name, mx.concatenate([old[name], new], axis=2) if old else new) for name, new in after]
