"""Where a long segment is cut on its way, and where a recurrent model keeps a state there.

All of it follows from the tokens alone, so a cold, a cached and an interrupted run have the same cuts.
They lie at fixed distances from the boundary before, not where the content says so as in rsync: two
prompts share a checkpoint only if they agree on everything before it, so all that fixed distances have
to do is to agree as far as the prompts do. And a cut is a whole number of prefill chunks from its
boundary, so the chunks, and with them the bits, are those of an uncut segment.
"""

from __future__ import annotations

from collections.abc import Sequence

# The least distance between two cuts, in tokens.
CUT_TOKENS = 1024


def distance(prefill_step: int) -> int:
    """The tokens between two cuts of a model that prefills in chunks of `prefill_step`: whole chunks."""
    return max(CUT_TOKENS // prefill_step, 1) * prefill_step


def places(start: int, end: int, distance: int, tokens: Sequence[int]) -> list[int]:
    """Where a segment [start, end) of a prompt is cut on its way; `distance` 0: nowhere.

    Not within an image, whose tokens are negative.
    """
    if not distance:
        return []
    multiples = range(start + distance, end, distance)
    return [place for place in multiples if not (tokens[place - 1] < 0 and tokens[place] < 0)]


def keeps_state(number: int, last: int) -> bool:
    """Whether there is to be a state at cut `number` of a long segment, from 1, of which `last` is the last.

    Each of these is at most a quarter further than the one before: wherever another prompt parts from this
    one after the fourth, at least 80 % of what they share is reused, with as few as the logarithm of the
    length. And there is one at the last cut, since prompts that are much alike part near their ends.
    """
    place = 1
    while place < number:
        place = max(place + 1, place * 5 // 4)
    return number in (place, last)
