"""How many tokens to guess, from the measured cost of passes and the probability that guesses are right."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

# Passes are measured at these lengths in tokens.
LENGTHS = (1, 2, 4, 8, 16, 32)
# Ratios are rounded to half powers of two, so that two measurements agree despite noise.
STEPS = 2
# What a guess must promise: less is lost in the noise and in the rounding.
MARGIN = 1.2


class PassCosts:
    """The time of passes by their length, as multiples of a one-token pass without guesses."""

    def __init__(self, ratios: Mapping[int, float]) -> None:
        """`ratios` by length in tokens, ascending; empty if guessing never pays."""
        self.ratios = dict(ratios)
        self._lengths = list(self.ratios)

    @classmethod
    def from_seconds(cls, seconds: Mapping[int, float]) -> PassCosts:
        """From measured seconds by length, including length 1."""
        ratios = [_rounded(each / seconds[1]) for each in seconds.values()]
        # A longer pass cannot be cheaper: that is noise.
        return cls(dict(zip(seconds, accumulate(ratios, max), strict=True)))

    def ratio(self, tokens: int) -> float | None:
        """The cost of a pass, interpolated between measured lengths; None if it is longer than all."""
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
    """How many guesses to run with the `waiting` known tokens for the most tokens per second; 0 if none pays.

    `chances[i]` is the probability that the guesses up to number i are all right. `is_rerun`: after a wrong
    guess, the accepted ones are run again in the next pass.
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
