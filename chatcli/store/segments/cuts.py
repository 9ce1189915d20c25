"""Decides where a long segment is cut, and at which cuts a recurrent model keeps a state.

Cuts follow from the tokens alone, so cold, cached and interrupted runs have the same ones. They are at fixed
distances from the boundary before, not content-defined as in rsync: two prompts share a checkpoint only if
they agree on everything before it, and then fixed distances agree too. A cut is a whole number of prefill
chunks from its boundary, so the chunks, and therefore the bits, are those of an uncut segment.
"""

from __future__ import annotations

from collections.abc import Sequence

# The least distance between two cuts, in tokens.
CUT_TOKENS = 1024


def distance(prefill_step: int) -> int:
    """The tokens between two cuts, a whole number of prefill chunks of `prefill_step`."""
    return max(CUT_TOKENS // prefill_step, 1) * prefill_step


def places(start: int, end: int, distance: int, tokens: Sequence[int]) -> list[int]:
    """Where a segment [start, end) of a prompt is cut; `distance` 0: nowhere.

    Never within an image, whose tokens are negative.
    """
    if not distance:
        return []
    multiples = range(start + distance, end, distance)
    return [place for place in multiples if not (tokens[place - 1] < 0 and tokens[place] < 0)]


def keeps_state(number: int, last: int) -> bool:
    """Whether to keep a state at cut `number` (from 1 to `last`) of a long segment.

    Each such cut is at most a quarter further than the one before, so wherever another prompt diverges after
    the fourth, at least 80 % of what they share is reused, and the number of states grows only with the
    logarithm of the length. The last cut keeps one too, because similar prompts often diverge near their
    ends.
    """
    place = 1
    while place < number:
        place = max(place + 1, place * 5 // 4)
    return number in (place, last)
