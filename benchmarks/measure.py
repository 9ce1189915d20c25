"""Times two ways of doing one thing in alternation, so that noise affects both equally; common options."""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from chatcli.bench.race import Spread
from chatcli.settings.values import POCKET

# Entering prepares a round, the callable it yields is timed, leaving cleans up.
TimedTask = Callable[[], AbstractContextManager[Callable[[], object]]]
# Called with a description of the next measurement.
Announce = Callable[[str], None]


def options(doc: str | None, *, model: bool = True) -> argparse.ArgumentParser:
    """The options of most benchmarks; `doc` is the module's."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    if model:
        parser.add_argument("-m", "--model", default=POCKET, help="a folder, a hub name, or pocket")
        parser.add_argument("--quick", action="store_true", help="a smaller workload")
    return parser


def announce(what: str) -> None:
    """Print to standard error what is measured next."""
    print(what, file=sys.stderr, flush=True)


def progress(done: int, total: int, what: str) -> None:
    """Print to standard error what was measured."""
    announce(f"{done}/{total} {what}")


@dataclass(frozen=True)
class Contest:
    """The seconds of ours and of the peer's, and their ratio in each round."""

    rounds: int
    ours: Spread
    peer: Spread
    ratio: Spread


def contest(
    ours: TimedTask, peer: TimedTask, rounds: int, before: Callable[[], object] = lambda: None
) -> Contest:
    """Run both tasks in each round, in alternating order; `before` runs before each of them.

    The first round warms up and is not counted.
    """
    times: dict[TimedTask, list[float]] = {ours: [], peer: []}
    for number in range(rounds + 1):
        for task in (ours, peer) if number % 2 else (peer, ours):
            before()
            times[task].append(seconds(task))
    our_times, peer_times = times[ours][1:], times[peer][1:]
    ratios = [mine / theirs for mine, theirs in zip(our_times, peer_times, strict=True)]
    return Contest(rounds, Spread.of(our_times), Spread.of(peer_times), Spread.of(ratios))


def seconds(task: TimedTask) -> float:
    """Time one task. The result is freed after the clock has stopped."""
    with task() as work:
        began = time.perf_counter()
        result = work()
        elapsed = time.perf_counter() - began
        del result
    return elapsed


def trim_heap() -> bool:
    """Return freed memory to the system, as in a new process. False if unsupported."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    return malloc_trim is not None and malloc_trim(0) >= 0


def timed(work: Callable[[], object], rounds: int) -> Spread:
    """The seconds of each of `rounds` repetitions."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return Spread.of(times)


def milliseconds(seconds: float) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds:,.0f} ms" if milliseconds >= 9.95 else f"{milliseconds:.2g} ms"
