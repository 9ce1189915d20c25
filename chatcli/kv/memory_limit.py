"""How much memory a conversation will take, told before it takes it; arithmetic that refuses to know MLX.

A cache of mlx-lm's grows in three ways: full attention by a row a token, a sliding window until it
is full, and a recurrent state not at all.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Protocol

from chatcli.errors import MemoryFull
from chatcli.text import file_size

# Snapshots of windows and states that are kept to go back to, beside the live ones.
SNAPSHOTS = 2


@dataclass(frozen=True)
class Window:
    """`row` is the bytes of one token, `most` how many tokens stay."""

    row: int
    most: int


@dataclass(frozen=True)
class Growth:
    """How a cache grows, in bytes: `state` once, `row` with every token, windows until they are full.

    Rows come in buffers of `step` tokens.
    """

    state: int
    row: int
    windows: tuple[Window, ...] = ()
    step: int = 1

    def beside(self, other: Growth) -> Growth:
        """Two caches that grow together."""
        return Growth(
            self.state + other.state,
            self.row + other.row,
            (*self.windows, *other.windows),
            max(self.step, other.step),
        )

    def cache(self, tokens: int) -> int:
        """The cache's own arrays when so many tokens have been run."""
        buffered = tokens + -tokens % self.step
        return self._fixed(tokens) + self.row * buffered

    def kept(self, tokens: int) -> int:
        """What the snapshots of windows and states hold on to."""
        return SNAPSHOTS * self._fixed(tokens)

    def _fixed(self, tokens: int) -> int:
        windows = sum(one.row * min(tokens, one.most) for one in self.windows)
        return self.state * bool(tokens) + windows

    def checkpoint(self, tokens: int, *, written: bool) -> int:
        """What a segment of so many tokens takes beside the cache while it is run and `written`.

        Its windows' rows are logged as they pass and joined at the end, its other rows are copied.
        """
        logged = sum(one.row for one in self.windows)
        return tokens * (self.row + 2 * logged if written else logged)


class Limit(Protocol):
    """What says whether so many tokens fit."""

    def tokens(self, longest: int) -> int: ...

    def check(self, tokens: int, segment: int = 0, *, written: bool = True) -> None: ...


@dataclass(frozen=True)
class Tightest:
    """The limits of several machines that hold one cache together: the first to be full decides."""

    limits: tuple[MemoryLimit, ...]

    def tokens(self, longest: int) -> int:
        return min(limit.tokens(longest) for limit in self.limits)

    def check(self, tokens: int, segment: int = 0, *, written: bool = True) -> None:
        """Raises `MemoryFull` as one would."""
        for limit in self.limits:
            limit.check(tokens, segment, written=written)


def told(limit: dict[str, Any]) -> MemoryLimit:
    """A limit from what `dataclasses.asdict` made of it."""
    growth = limit["growth"]
    windows = tuple(Window(**window) for window in growth["windows"])
    return MemoryLimit(limit["most"], limit["weights"], Growth(**{**growth, "windows": windows}))


@dataclass(frozen=True)
class MemoryLimit:
    """What a model may take: `most` bytes for its `weights` and the cache that grows beside them."""

    most: int
    weights: int
    growth: Growth

    def needed(self, tokens: int, segment: int = 0, *, written: bool = True) -> int:
        """Bytes that a prompt takes at most, of which the longest piece to be run has `segment` tokens."""
        growth = self.growth
        cache = growth.cache(tokens) + growth.kept(tokens)
        return self.weights + cache + growth.checkpoint(segment, written=written)

    def tokens(self, longest: int) -> int:
        """How many tokens the cache can hold, up to `longest`."""
        return max(bisect_right(range(longest + 1), self.most, key=self.needed) - 1, 0)

    def check(self, tokens: int, segment: int = 0, *, written: bool = True) -> None:
        """Raises `MemoryFull` if such a prompt, and a token of its reply, does not fit."""
        needed = self.needed(tokens + 1, segment, written=written)
        if needed <= self.most:
            return
        raise MemoryFull(
            f"This does not fit in memory: {tokens:,} tokens need {file_size(needed - self.weights)} "
            f"beside the model's {file_size(self.weights)}, {needed:,} bytes of {self.most:,} "
            "that it may take. Allow more with --memory-limit, choose a smaller model with -m, "
            "branch from an earlier turn or start a new session; in a chat, /compact goes on from a summary."
        )
