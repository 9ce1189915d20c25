"""Times two ways of doing one thing in turn, so that a noisy machine is noisy to both; refuses to know what.

What is told of a number of rounds is their median, the least and the most.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

# Entering prepares a round, what it gives is timed, leaving cleans up.
Contender = Callable[[], AbstractContextManager[Callable[[], object]]]


@dataclass(frozen=True)
class Spread:
    """The median of some numbers, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Contest:
    """Seconds of ours and of the peer's, and the ratio of the two in the same round."""

    rounds: int
    ours: Spread
    peer: Spread
    ratio: Spread


def contest(
    ours: Contender, peer: Contender, rounds: int, before: Callable[[], object] = lambda: None
) -> Contest:
    """Each round runs both, and every other round the other one first; `before` runs before each.

    One round ahead of all is not counted.
    """
    taken: dict[Contender, list[float]] = {ours: [], peer: []}
    for number in range(rounds + 1):
        for contender in (ours, peer) if number % 2 else (peer, ours):
            before()
            taken[contender].append(seconds(contender))
    mine, theirs = taken[ours][1:], taken[peer][1:]
    ratios = [one / other for one, other in zip(mine, theirs, strict=True)]
    return Contest(rounds, Spread.of(mine), Spread.of(theirs), Spread.of(ratios))


def seconds(contender: Contender) -> float:
    """One round. What it made is let go after the clock has stopped."""
    with contender() as work:
        began = time.perf_counter()
        made = work()
        taken = time.perf_counter() - began
        del made
    return taken


def give_memory_back() -> bool:
    """Make memory as it is in a process that has just begun. Returns whether this system can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    return trim is not None and trim(0) >= 0


def timed(work: Callable[[], object], rounds: int) -> Spread:
    """The same work again and again."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return Spread.of(taken)
