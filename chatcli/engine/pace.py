"""How many tokens to guess: what a pass of so many costs here, and how likely guesses are right."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

# Passes are measured by their length in tokens: each counts for the nearest of these.
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# The newest measurements, whose median counts, and how many make a length a known one: the first pass of a
# length may compile or plan something.
MEASURED, KNOWN = 7, 2
# After so many passes of one token a longer one's cost is doubted, and measured once more.
DOUBTED_AFTER = 2048
DOUBT_EVERY = 64
# What a guess must promise: less is lost in the noise.
MARGIN = 1.1


class PassCosts:
    """Seconds that a pass of the model takes by its number of tokens, as the newest ones took."""

    def __init__(self) -> None:
        self._measured: dict[int, deque[float]] = {length: deque(maxlen=MEASURED) for length in LENGTHS}
        # The lengths that are known, in order, with the medians of their seconds.
        self._lengths: list[int] = []
        self._medians: list[float] = []
        # The number of passes of one token when a length was measured last.
        self._measured_at = dict.fromkeys(LENGTHS, 0)
        self._singles = 0

    def add(self, tokens: int, seconds: float) -> None:
        """Note a pass."""
        self._singles += tokens == 1
        nearest = 1 if tokens == 1 else min(LENGTHS, key=lambda length: abs(length - tokens))
        self._measured[nearest].append(seconds)
        self._measured_at[nearest] = self._singles
        if self._singles % DOUBT_EVERY == 0:
            self._doubt()
        known = [length for length in LENGTHS if len(self._measured[length]) >= KNOWN]
        if known != self._lengths:
            self._lengths = known
            self._medians = [statistics.median_low(self._measured[length]) for length in known]
        elif nearest in known:
            self._medians[known.index(nearest)] = statistics.median_low(self._measured[nearest])

    def _doubt(self) -> None:
        """Have what was not measured for long measured once more."""
        for length, measured in self._measured.items():
            if len(measured) >= KNOWN and self._singles - self._measured_at[length] > DOUBTED_AFTER:
                self._measured[length] = deque([measured[-1]], maxlen=MEASURED)

    def seconds(self, tokens: int) -> float | None:
        """What a pass of so many tokens will take.

        Between known lengths it is interpolated. Up to twice the longest known one it is taken to go on as
        between the last two, and with one of them to cost the same. None: it is longer, or nothing is known.
        """
        lengths, medians = self._lengths, self._medians
        place = bisect_left(lengths, tokens)
        if place < len(lengths) and lengths[place] == tokens:
            return medians[place]
        if place == 0 or (place == len(lengths) and tokens > 2 * lengths[-1]):
            return None
        if len(lengths) == 1:
            return medians[0]
        place = min(place, len(lengths) - 1)
        shorter, longer = lengths[place - 1], lengths[place]
        slope = (medians[place] - medians[place - 1]) / (longer - shorter)
        return medians[place] + (tokens - longer) * (slope if tokens < longer else max(slope, 0.0))


def guesses_worth(
    costs: PassCosts, chances: Sequence[float], waiting: int = 1, *, is_rerun: bool = False
) -> int:
    """How many guessed tokens to run with the `waiting` known ones, so that most tokens come a second.

    `chances[i]` is how likely it is that the guesses up to number i are all right. `is_rerun`: what was right
    is run again in the next pass if something was wrong. 0: a pass for each token is as fast.
    """
    alone = costs.seconds(1)
    if alone is None:
        return 0
    best, best_rate = 0, MARGIN / (costs.seconds(waiting) or alone)
    counts = {length - waiting for length in LENGTHS if 0 < length - waiting < len(chances)}
    for count in sorted({*counts, len(chances)} - {0}):
        seconds = costs.seconds(waiting + count)
        if seconds is None:
            continue
        tokens = 1 + sum(chances[:count])
        if is_rerun:
            again = costs.seconds(round(waiting + tokens)) or seconds
            seconds += (1 - chances[count - 1]) * max(again - alone, 0.0)
        if tokens / seconds > best_rate:
            best, best_rate = count, tokens / seconds
    return best
