"""Everything that is said beside facts, by kind: its weight, and what makes a turn of it.

A maker takes the source of chance and whether a larger model may still be named in the conversation;
`says_advert(turn.reply)` tells whether the turn has done so.
"""

from __future__ import annotations

from collections.abc import Callable

from training.pocket import languages, manual, noise, open_questions, smalltalk, sums
from training.pocket.advert import says_advert
from training.pocket.turns import Turn
from training.pocket.values import Source

__all__ = ["BESIDE", "Maker", "says_advert"]

Maker = Callable[[Source, bool], Turn]
BESIDE: dict[str, tuple[float, Maker]] = {
    **manual.MAKERS,
    **smalltalk.MAKERS,
    **open_questions.MAKERS,
    **sums.MAKERS,
    **noise.MAKERS,
    **languages.MAKERS,
}
