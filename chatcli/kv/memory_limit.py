"""Predicts how many bytes of memory a conversation will take.

A prompt cache grows in three ways: full attention by one row per token, a sliding window until it is full,
and recurrent state not at all. This module only calculates; `kv.growth` finds a model's numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Protocol

from chatcli.errors import MemoryFull
from chatcli.text import file_size

# How many snapshots of windows and states are always kept beside the live ones.
MAX_SNAPSHOTS = 2
# More snapshots may take this fraction of the remaining memory: an eighth.
SPARE_PARTS = 8


@dataclass(frozen=True)
class Window:
    """A sliding window of at most `max_tokens` rows of `row_bytes` each."""

    row_bytes: int
    max_tokens: int


@dataclass(frozen=True)
class Growth:
    """How a cache grows: `state_bytes` once, `row_bytes` with every token, windows until they are full.

    Rows come in buffers of `step` tokens.
    """

    state_bytes: int
    row_bytes: int
    windows: tuple[Window, ...] = ()
    step: int = 1

    def __add__(self, other: Growth) -> Growth:
        """Two caches that grow together, such as a model's and its draft model's."""
        return Growth(
            self.state_bytes + other.state_bytes,
            self.row_bytes + other.row_bytes,
            (*self.windows, *other.windows),
            max(self.step, other.step),
        )

    def cache_bytes(self, tokens: int) -> int:
        """The bytes of the live cache after `tokens` tokens."""
        buffered = tokens + -tokens % self.step
        return self._bounded_bytes(tokens) + self.row_bytes * buffered

    def snapshot_bytes(self, tokens: int) -> int:
        """The bytes of the snapshots of windows and states after `tokens` tokens."""
        return MAX_SNAPSHOTS * self._bounded_bytes(tokens)

    def _bounded_bytes(self, tokens: int) -> int:
        """The windows and states."""
        windows = sum(window.row_bytes * min(tokens, window.max_tokens) for window in self.windows)
        return self.state_bytes * bool(tokens) + windows

    def checkpoint_bytes(self, tokens: int, *, written: bool) -> int:
        """The bytes besides the cache that a segment of `tokens` tokens takes while it is run and `written`.

        Its windows' rows are logged and then joined, its other rows are copied.
        """
        logged = sum(window.row_bytes for window in self.windows)
        return tokens * (self.row_bytes + 2 * logged if written else logged)


class Limit(Protocol):
    """Says whether a number of tokens fits in memory."""

    def max_tokens(self, up_to: int) -> int: ...

    def max_snapshots(self, tokens: int) -> int: ...

    def check(self, tokens: int, segment: int = 0, *, written: bool = True) -> None: ...


@dataclass(frozen=True)
class MemoryLimit:
    """A model's limit: `max_bytes` for its weights and its cache."""

    max_bytes: int
    weight_bytes: int
    growth: Growth

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> MemoryLimit:
        """The inverse of `dataclasses.asdict`."""
        growth = fields["growth"]
        windows = tuple(Window(**window) for window in growth["windows"])
        return cls(fields["max_bytes"], fields["weight_bytes"], Growth(**{**growth, "windows": windows}))

    def needed_bytes(self, tokens: int, segment: int = 0, *, written: bool = True) -> int:
        """The most bytes that a prompt takes if the longest segment to run has `segment` tokens."""
        growth = self.growth
        cache = growth.cache_bytes(tokens) + growth.snapshot_bytes(tokens)
        return self.weight_bytes + cache + growth.checkpoint_bytes(segment, written=written)

    def max_tokens(self, up_to: int) -> int:
        """How many tokens the cache can hold, at most `up_to`."""
        return max(bisect_right(range(up_to + 1), self.max_bytes, key=self.needed_bytes) - 1, 0)

    def max_snapshots(self, tokens: int) -> int:
        """How many snapshots may be kept beside a cache of `tokens` tokens; at least `MAX_SNAPSHOTS`."""
        spare = max(self.max_bytes - self.needed_bytes(tokens), 0) // SPARE_PARTS
        return MAX_SNAPSHOTS + MAX_SNAPSHOTS * spare // max(self.growth.snapshot_bytes(tokens), 1)

    def check(self, tokens: int, segment: int = 0, *, written: bool = True) -> None:
        """Raises `MemoryFull` if the prompt and one token of its reply do not fit."""
        needed = self.needed_bytes(tokens + 1, segment, written=written)
        if needed <= self.max_bytes:
            return
        raise MemoryFull(
            f"This does not fit in memory: {tokens:,} tokens need {file_size(needed - self.weight_bytes)} "
            f"beside the model's {file_size(self.weight_bytes)}: {needed:,} bytes in all, and "
            f"the limit is {self.max_bytes:,}.",
            "Allow more with --memory-limit, choose a smaller model with -m, branch from an earlier turn or "
            "start a new session; in a chat, /compact continues from a summary.",
        )


@dataclass(frozen=True)
class TightestLimit:
    """The limits of several machines that share a cache: the first to be full decides."""

    limits: tuple[MemoryLimit, ...]

    def max_tokens(self, up_to: int) -> int:
        return min(limit.max_tokens(up_to) for limit in self.limits)

    def max_snapshots(self, tokens: int) -> int:
        return min(limit.max_snapshots(tokens) for limit in self.limits)

    def check(self, tokens: int, segment: int = 0, *, written: bool = True) -> None:
        """Raises `MemoryFull` as `MemoryLimit.check` does."""
        for limit in self.limits:
            limit.check(tokens, segment, written=written)
