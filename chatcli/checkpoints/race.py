"""Says, while a checkpoint is being read, whether running its tokens would be sooner.

The pace of a disk is not known before it is read: a page cache, a network folder and a disk that is
asleep differ by a factor of a thousand. So reading begins, and is given up where it turns out that
what is left of it takes longer than the prefill did. At a steady pace that is known after a tenth of
the prefill's time, which is what a wrong guess costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

QUICKER = "quicker to compute than to read from this disk"
# The share of the prefill's time after which reading may be given up.
TRIAL_SHARE = 0.1
# Less than these are always read: a difference that nobody notices is not worth running tokens again.
MIN_BYTES = 16 << 20
MIN_SECONDS = 0.05


class ComputingIsSooner(Exception):
    """What is left to be read would take longer than to run its tokens."""


class ReadRace:
    """Called with the bytes read so far and in all. Raises `ComputingIsSooner`.

    `compute_seconds` is what the tokens' prefill took; 0: not known, so they are read.
    """

    def __init__(self, compute_seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._compute_seconds = compute_seconds
        self._clock = clock
        self._started = clock()

    def __call__(self, done: int, total: int) -> None:
        seconds = self._clock() - self._started
        if total < MIN_BYTES or seconds < max(TRIAL_SHARE * self._compute_seconds, MIN_SECONDS):
            return
        left = seconds * (total - done) / max(done, 1)
        if 0 < self._compute_seconds < left - MIN_SECONDS:
            raise ComputingIsSooner
