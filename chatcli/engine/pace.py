"""How many tokens to guess: what a pass of so many costs here, and how likely guesses are right."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

# Passes are measured at these lengths in tokens.
LENGTHS = (1, 2, 4, 8, 16, 32)
# Ratios are rounded to halves of a doubling: less is noise, and two measurements shall agree.
STEPS = 2
# What a guess must promise: less is lost in the noise and in the rounding.
MARGIN = 1.2


class PassCosts:
    """How long a pass of so many tokens takes, as a multiple of one token's in the loop without guesses."""

    def __init__(self, ratios: Mapping[int, float]) -> None:
        """`ratios` by the length in tokens, in order; empty: no guess is worth it."""
        self.ratios = dict(ratios)
        self._lengths = list(self.ratios)

    @classmethod
    def from_seconds(cls, seconds: Mapping[int, float]) -> PassCosts:
        """From what passes took by their length, 1 among them."""
        ratios = [_rounded(each / seconds[1]) for each in seconds.values()]
        # A longer pass is not believed to be cheaper.
        return cls(dict(zip(seconds, accumulate(ratios, max), strict=True)))

    def ratio(self, tokens: int) -> float | None:
        """What a pass of so many tokens costs, interpolated between those measured; None: it is longer."""
        place = bisect_left(self._lengths, tokens)
        if place == len(self._lengths):
            return None
        longer = self._lengths[place]
        if longer == tokens or place == 0:
            return self.ratios[longer]
        shorter = self._lengths[place - 1]
        share = (tokens - shorter) / (longer - shorter)
        return self.ratios[shorter] + share * (self.ratios[longer] - self.ratios[shorter])


def _rounded(ratio: float) -> float:
    return float(2 ** (round(STEPS * math.log2(max(ratio, 1.0))) / STEPS))


def guesses_worth(
    costs: PassCosts, chances: Sequence[float], waiting: int = 1, *, is_rerun: bool = False
) -> int:
    """How many guessed tokens to run with the `waiting` known ones, so that most tokens come a second.

    `chances[i]` is how likely it is that the guesses up to number i are all right. `is_rerun`: what was right
    is run again in the next pass if something was wrong. 0: a pass for each token is as fast.
    """
    best, best_rate = 0, MARGIN / (costs.ratio(waiting) or 1.0)
    counts = {length - waiting for length in LENGTHS if 0 < length - waiting < len(chances)}
    for count in sorted({*counts, len(chances)} - {0}):
        cost = costs.ratio(waiting + count)
        if cost is None:
            break
        tokens = 1 + sum(chances[:count])
        if is_rerun:
            again = costs.ratio(round(waiting + tokens)) or cost
            cost += (1 - chances[count - 1]) * max(again - 1, 0.0)
        if tokens / cost > best_rate:
            best, best_rate = count, tokens / cost
    return best
