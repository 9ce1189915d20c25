"""mlx-lm's prompt caches: split into rows and state, filled, appended to, forked, rewound and trimmed.

A prompt cache is mlx-lm's list with a cache object per layer. `leaf` has what depends on their classes; this
module works on all leaves. Call anything that evaluates arrays on the thread that owns MLX.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from chatcli.errors import CacheRefused
from chatcli.kv import loader
from chatcli.kv.freeze import Arrays, arrays_in
from chatcli.kv.leaf import (
    NamedArrays,
    OffsetRows,
    Window,
    leaves,
    rows_in,
    states_in,
    windows_in,
)
from chatcli.settings.values import DEFAULTS, ModelOptions
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.rows import Rows

UNQUANTIZED = (
    "leave out --kv-bits (kv_bits in the settings), and name the model with -m where a session keeps it."
)
# MLX's error for rows whose length the group size does not divide; it names the length.
INDIVISIBLE = re.compile(r"divisible by the quantization group size.*,\s*(\d+)\)")
PromptCache = list[Any]
# From this many rows on, decoding is faster in buffers for which MLX's CUDA build plans its attention.
PLANNED_ROWS = 4096
# With several tokens in one pass, mlx-lm's masks of these show one token more than their windows hold.
OTHER_MASKS = {"plamo3"}


def new(model: Any, options: ModelOptions = DEFAULTS) -> PromptCache:
    """An empty cache for `model`, with the size and precision in `options`.

    Raises `CacheRefused` if mlx-lm has no such cache for this model.
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
    # While it is empty, so that all of its rows have the same type.
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
    """Run three tokens on a quantized cache: not every model's code supports one.

    Raises `CacheRefused`, also if the head dimension is not a multiple of the group size.
    """
    cache = new(model, options)
    try:
        for tokens in ([0, 0], [0]):
            model(mx.array(tokens)[None], cache=cache)
            evaluate(cache)
    except (ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        if indivisible := INDIVISIBLE.search(reason):
            reason = f"its keys and values are {indivisible[1]} numbers long, which is not a multiple of that"
        elif "[broadcast_shapes]" in reason:
            reason = "mlx-lm cannot store rows of this length in this many bits"
        raise CacheRefused(
            f"This model cannot use a cache of {options.kv_bits} bits in groups of "
            f"{options.kv_group_size}: {reason}. Try another --kv-group-size or --kv-bits, or "
            f"{UNQUANTIZED}"
        ) from error


# What a cache is


def layout(cache: PromptCache) -> str:
    """The leaves' classes and sizes. Checkpoints can be exchanged between caches of one layout."""
    positions = {"offset", "_idx", "start_position"}
    descriptions = []
    for leaf in leaves(cache):
        sizes = {
            name: len(value) if isinstance(value, list) else value
            for name, value in vars(leaf.cache).items()
            if isinstance(value, (int, list)) and name not in positions
        }
        descriptions.append(f"{type(leaf.cache).__name__}{json.dumps(sizes, sort_keys=True)}")
    return " ".join(descriptions)


def is_stateful(cache: PromptCache) -> bool:
    """Whether some leaf can be restored only at the position of a checkpoint."""
    return bool(states_in(cache))


def rewinds_by_offset(cache: PromptCache) -> bool:
    """Whether a snapshot takes no memory, because every leaf rewinds by setting its offset."""
    return all(isinstance(leaf, OffsetRows) for leaf in leaves(cache))


def can_merge(cache: PromptCache) -> bool:
    """Whether mlx-lm merges caches of this kind into a batch, by the test of its own server.

    A window that keeps its first tokens would lose them there.
    """
    return all(hasattr(leaf.cache, "merge") and not getattr(leaf.cache, "keep", 0) for leaf in leaves(cache))


def nbytes(cache: PromptCache) -> int:
    """The bytes of all arrays, spare rows of the buffers included."""
    return sum(leaf.nbytes for leaf in leaves(cache))


def evaluate(cache: PromptCache) -> None:
    mx.eval([array for leaf in leaves(cache) for array in arrays_in(leaf.cache)])


def shortest_window(cache: PromptCache) -> int | None:
    """The number of newest tokens whose rows every window has; None without windows."""
    return min((window.size - window.kept for window in windows_in(cache)), default=None)


# Windows


class RowLog:
    """The windows' rows of the tokens of one segment, collected while these are run.

    `complete` is False once rows were dropped before they could be recorded. `states` has the last two states
    of a reply, from which it can be continued.
    """

    def __init__(self, pieces: Mapping[str, Sequence[mx.array]] | None = None) -> None:
        self.complete = True
        self.states: list[Snapshot] = []
        self._pieces = {name: list(parts) for name, parts in (pieces or {}).items()}

    @property
    def nbytes(self) -> int:
        """The bytes of the rows."""
        return sum(part.nbytes for parts in self._pieces.values() for part in parts)

    def keep_state(self, cache: PromptCache, position: int) -> None:
        """Keep the cache's present state, after `position` tokens."""
        self.states = [*self.states[-1:], state_at(cache, position)]

    def record(self, cache: PromptCache, count: int, *, reorder: bool = True) -> None:
        """Keep the windows' rows of the last `count` tokens, before a later update drops them.

        `reorder` also puts the windows in the order of a restored cache, so that both give the same bits from
        here on.
        """
        for window in windows_in(cache):
            if window.cache.keys is not None:
                ordered = window.in_order()
                self.complete &= all(rows.shape[2] >= count for _, rows in ordered)
                self.add(window.number, [(name, rows[..., -count:, :]) for name, rows in ordered])
            if reorder:
                window.reorder()

    def add(self, number: int, rows: NamedArrays) -> None:
        """Keep a copy of a leaf's rows, so that their buffers can be freed."""
        copies = [(name, mx.contiguous(part)) for name, part in rows]
        mx.async_eval([part for _, part in copies])  # type: ignore[no-untyped-call]
        for name, part in copies:
            self._pieces.setdefault(f"{number}.{name}", []).append(part)

    def discard(self) -> None:
        """Free the rows. The segment can no longer be completed."""
        self.complete, self.states, self._pieces = False, [], {}

    def copy(self) -> RowLog:
        """An independent log that continues from here; the rows so far are shared."""
        other = RowLog(self._pieces)
        other.states, other.complete = self.states, self.complete
        return other

    @classmethod
    def joined(cls, logs: Iterable[RowLog]) -> RowLog:
        """The rows of all of these in order; they are shared."""
        whole = cls()
        for log in logs:
            whole.complete &= log.complete
            for name, pieces in log._pieces.items():
                whole._pieces.setdefault(name, []).extend(pieces)
        return whole

    def split(self, count: int) -> tuple[RowLog, RowLog]:
        """A log of the rows of the first `count` tokens, and a log of the later rows, with the states.

        If there are no later rows, the first is this log; otherwise this log is empty afterwards.
        """
        if all(sum(rows.shape[2] for rows in pieces) <= count for pieces in self._pieces.values()):
            return self, RowLog()
        rows = self.take()
        first = RowLog({name: [part[..., :count, :]] for name, part in rows.items()})
        rest = RowLog({name: [part[..., count:, :]] for name, part in rows.items()})
        first.complete = rest.complete = self.complete
        rest.states = self.states
        return first, rest

    def cut(self, count: int) -> None:
        """Keep the rows of the first `count` tokens only."""
        self._pieces = {name: [rows[..., :count, :]] for name, rows in self.take().items()}

    def take(self) -> Arrays:
        """The rows, an array of shape (batch, heads, tokens, ...) per name. Empties the log."""
        pieces, self._pieces = self._pieces, {}
        return {name: mx.concatenate(parts, axis=2) for name, parts in pieces.items()}


# To and from disk


def segment_rows(cache: PromptCache, log: RowLog, start: int, end: int) -> dict[str, Tensor]:
    """The rows of tokens [start, end) as bytes, each of shape (batch, heads, end - start, ...).

    Those of the windows come from `log`, which begins with `start` and is emptied.
    """
    rows = {name: logged[..., : end - start, :] for name, logged in log.take().items()}
    for leaf in rows_in(cache):
        if not isinstance(leaf, Window):
            rows |= {f"{leaf.number}.{name}": part for name, part in leaf.slice(start, end)}
    return _as_tensors(rows)


def state(cache: PromptCache, kept: Snapshot | None = None) -> tuple[dict[str, Tensor], str]:
    """The leaves without rows, as they are now or as `kept`: their arrays as bytes, the rest as JSON.

    Raises `TypeError` if a leaf holds something that cannot be written.
    """
    parts = (kept or state_at(cache, 0)).parts
    arrays = {name: array for _, own in parts.values() for name, array in own.items()}
    frozen = {str(number): value for number, (value, _) in parts.items()}
    return _as_tensors(arrays), json.dumps(frozen, sort_keys=True)


def _as_tensors(arrays: Arrays) -> dict[str, Tensor]:
    """The arrays' bytes, evaluated and not copied again: a CUDA device's are copied when they are read."""
    contiguous: dict[str, Any] = {name: mx.contiguous(array) for name, array in arrays.items()}
    mx.eval(list(contiguous.values()))
    return {
        name: Tensor(str(array.dtype).removeprefix("mlx.core."), tuple(array.shape), array)
        for name, array in contiguous.items()
    }


def fill(cache: PromptCache, rows: Rows, state: Mapping[str, Tensor], scalars: str) -> None:
    """Fill a cache that is empty, or that has rows of the same tokens from `move_rows`, to the end of `rows`.

    `state` and `scalars` are what the function `state` returned there. Raises `SegmentDamaged` or `OSError`
    as reading does, and MLX's errors if the arrays do not fit.
    """
    by_number = {leaf.number: leaf for leaf in rows_in(cache)}
    lengths = {number: leaf.length_to_read(rows.count) for number, leaf in by_number.items()}
    for number, arrays in _read(rows, lengths).items():
        by_number[number].append(arrays, rows.count)
    _set_state(cache, state, scalars)
    evaluate(cache)


def append(cache: PromptCache, log: RowLog, rows: Rows, state: Mapping[str, Tensor], scalars: str) -> None:
    """Add rows from disk as if their tokens had been prefilled, and the windows' rows to `log`.

    `state` and `scalars` are those at the end of `rows`. Raises as `fill` does.
    """
    by_number = {leaf.number: leaf for leaf in rows_in(cache)}
    for number, arrays in _read(rows, {}).items():
        leaf = by_number[number]
        if isinstance(leaf, Window):
            log.add(number, arrays)
        leaf.append(arrays, leaf.cache.offset + rows.count)
    _set_state(cache, state, scalars)
    evaluate(cache)


def _set_state(cache: PromptCache, state: Mapping[str, Tensor], scalars: str) -> None:
    arrays = {name: loader.to_device(tensor) for name, tensor in state.items()}
    frozen = json.loads(scalars)
    for leaf in states_in(cache):
        leaf.rewind((frozen[str(leaf.number)], arrays))


def _read(rows: Rows, lengths: Mapping[int, int | None]) -> dict[int, NamedArrays]:
    """The arrays of each leaf, with `lengths` rows (None: all; 0: omit the leaf)."""
    wanted = {name: lengths.get(int(name.partition(".")[0])) for name in rows.names}
    return _by_leaf(loader.read(rows, {name: length for name, length in wanted.items() if length != 0}))


def _by_leaf(arrays: Mapping[str, mx.array]) -> dict[int, NamedArrays]:
    """Each leaf's arrays, by its number."""
    by_leaf: dict[int, NamedArrays] = {}
    for name, array in arrays.items():
        number, _, name_in_leaf = name.partition(".")
        by_leaf.setdefault(int(number), []).append((name_in_leaf, array))
    return by_leaf


def move_rows(cache: PromptCache, into: PromptCache, position: int) -> None:
    """Give the rows of the first `position` tokens to an empty cache, if setting an offset suffices.

    `cache` must not be used afterwards.
    """
    for leaf, empty in zip(leaves(cache), leaves(into), strict=True):
        if isinstance(leaf, OffsetRows):
            leaf.move_to(empty, position)


def reserve(cache: PromptCache, *, planned: bool) -> None:
    """Give the plain buffers room for more rows, so that the next token's attention is `planned` or not.

    MLX's CUDA build plans the attention of a single token for the length of its buffer, if that is in whole
    steps. A plan takes as long as several tokens and is kept; without one, attention to many rows is slower.
    """
    for leaf in leaves(cache):
        leaf.reserve(planned=planned)


# Back to an earlier token


def fork(cache: PromptCache) -> PromptCache:
    """A second cache with the same content. Arrays are shared until one of them writes."""
    return copy.deepcopy(cache)


@dataclass(frozen=True)
class Snapshot:
    """A cache after `position` tokens: what each leaf, by its number, rewinds to.

    That is an offset, or the frozen leaf with its arrays. The snapshot of a state has only the leaves without
    rows.
    """

    position: int
    parts: Mapping[int, Any]

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays of a state."""
        return sum(array.nbytes for _, arrays in self.parts.values() for array in arrays.values())


def snapshot(cache: PromptCache, position: int) -> Snapshot:
    """The cache as it is now, after `position` tokens. Arrays are shared, not copied."""
    return Snapshot(position, {leaf.number: leaf.snapshot() for leaf in leaves(cache)})


def snapshot_at(cache: PromptCache, position: int) -> Snapshot:
    """The snapshot of an earlier position of a cache that `rewinds_by_offset`."""
    return Snapshot(position, {leaf.number: min(leaf.cache.offset, position) for leaf in leaves(cache)})


def state_at(cache: PromptCache, position: int) -> Snapshot:
    """The state of a cache that holds `position` tokens now."""
    return Snapshot(position, {leaf.number: leaf.snapshot() for leaf in states_in(cache)})


def state_of(cache: PromptCache, kept: Snapshot) -> Snapshot:
    """The state in a snapshot of this cache."""
    return Snapshot(kept.position, {leaf.number: kept.parts[leaf.number] for leaf in states_in(cache)})


def rewind(cache: PromptCache, to: Snapshot) -> None:
    """Rewind the cache, or its state, to an earlier snapshot of it. Rows before it must be untouched."""
    for leaf in leaves(cache):
        if leaf.number in to.parts:
            leaf.rewind(to.parts[leaf.number])


def rewind_run(
    cache: PromptCache, log: RowLog, start: Snapshot, position: int, state: Snapshot | None
) -> None:
    """Rewind the cache to `position`, which lies after a snapshot.

    `log` has the windows' rows of the tokens run since, and is cut too. `state` is the state at `position`,
    if there are leaves without rows.
    """
    rewind(cache, start)
    log.cut(position - start.position)
    logged = _by_leaf(log.copy().take())
    for leaf in rows_in(cache):
        if isinstance(leaf, OffsetRows):
            leaf.rewind(position)
        elif leaf.number in logged:
            leaf.append(logged[leaf.number], position)
    if state is not None:
        rewind(cache, state)


def take_back(cache: PromptCache, before: Snapshot, run: int, kept: int, *, in_one_pass: bool = True) -> int:
    """Take back all but the first `kept` of the `run` tokens that the cache was given since `before`.

    Returns how many of them it still holds: `kept`, or 0 if some leaf cannot be cut there. Every pass
    replaces such a state and never writes into it, so the reference in `before` restores it.
    """
    if kept == run:
        return kept
    # A full window that drops all of a pass would be a row too short.
    if not (kept and all(leaf.can_drop(run, in_one_pass=in_one_pass) for leaf in leaves(cache))):
        rewind(cache, before)
        return 0
    for leaf in leaves(cache):
        leaf.drop(run - kept)
    return kept


def most_in_one_pass(model: Any, cache: PromptCache) -> int | None:
    """The most tokens that can run in one pass with the same result as singly; None: any number.

    Once a window that keeps its first tokens is full, it shows them only to a token that is run alone.
    """
    windows = windows_in(cache)
    if getattr(model, "model_type", None) not in OTHER_MASKS:
        windows = [window for window in windows if window.kept]
    return min((window.size - int(window.cache.offset) for window in windows), default=None)
