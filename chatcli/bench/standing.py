"""What a race says of each contender, in numbers; refuses to know how they are shown.

All requests but the first means: without the first of each repeat, at which nobody holds anything.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy

from chatcli.bench.contender import Answer
from chatcli.bench.measure import Spread
from chatcli.bench.race import Race

OURS = "chatcli"
# Nearer than this to each other, two values are called the same.
MARGIN = 0.05


@dataclass(frozen=True)
class Share:
    """Prompt tokens that were reused, and of how many: those of answers that tell it."""

    reused: int
    prompt: int

    @classmethod
    def of(cls, repeats: Sequence[Sequence[Answer]]) -> Share:
        """Of all of a repeat's answers together; of the repeat that reused least."""
        shares = [
            cls(sum(one.reused for one in told), sum(one.prompt for one in told))
            for told in ([one for one in answers if one.tells] for answers in repeats)
        ]
        return min(shares, key=lambda one: one.ratio or 0.0)

    @property
    def ratio(self) -> float | None:
        return self.reused / self.prompt if self.prompt else None


@dataclass(frozen=True)
class Standing:
    """One contender's numbers, in seconds, bytes and tokens. None: nothing to take it from.

    `last` is of the last request, `rest` of all but the first. `first` is the median time to the
    first token over the rest; the speedups are the reference's time for the same request by this
    one's. `after` and `ahead` are means per request. `memory` and `disk` are those at the end of a
    repeat and `written` what it wrote in all, each the median of the repeats. `differing` of
    `compared` greedy tokens are not the reference's.
    """

    last: Share
    rest: Share
    first: float | None
    first_speedup: Spread | None
    generation_speedup: Spread | None
    after: float
    ahead: float
    memory: float
    disk: float
    written: float
    differing: int
    compared: int


def standings(race: Race) -> dict[str, Standing]:
    """Every contender's, in the race's order."""
    return {name: standing(race, name) for name in race.answers}


def standing(race: Race, name: str) -> Standing:
    repeats, every = race.answers[name], race.of(name)
    last = [answers[-1] for answers in repeats]
    rest = [one for answers in repeats for one in answers[1:]]
    differing, compared = race.differing(name)
    return Standing(
        last=Share.of([answers[-1:] for answers in repeats]),
        rest=Share.of([answers[1:] for answers in repeats]),
        first=statistics.median(one.first for one in rest) if rest else None,
        first_speedup=_speedup(race, name, lambda one: one.first),
        generation_speedup=_speedup(race, name, lambda one: one.generation),
        after=statistics.mean(one.after for one in every),
        ahead=statistics.mean(one.ahead for one in every),
        memory=statistics.median(one.memory for one in last),
        disk=statistics.median(one.disk for one in last),
        written=statistics.median(sum(one.written for one in answers) for answers in repeats),
        differing=differing,
        compared=compared,
    )


def _speedup(race: Race, name: str, seconds: Callable[[Answer], float]) -> Spread | None:
    """Request by request, so that a long one does not outweigh the others."""
    speedups = [
        seconds(other) / seconds(one)
        for mine, theirs in zip(race.answers[name], race.answers[race.reference], strict=True)
        for one, other in zip(mine[1:], theirs[1:], strict=True)
        if seconds(one)
    ]
    return Spread.of(speedups) if speedups else None


def by_label(race: Race) -> dict[str, list[int]]:
    """The places of the steps with the same label."""
    found: dict[str, list[int]] = {}
    for place, step in enumerate(race.steps):
        found.setdefault(step.label, []).append(place)
    return found


def by_kind(race: Race) -> dict[str, list[int]]:
    """The places of the steps whose labels begin with the same word, such as cold and warm."""
    found: dict[str, list[int]] = {}
    for label, places in by_label(race).items():
        found.setdefault(label.partition(" ")[0], []).extend(places)
    return found


def at(race: Race, name: str, places: Sequence[int]) -> list[list[Answer]]:
    """A contender's answers at these places, by repeat."""
    return [[answers[place] for place in places] for answers in race.answers[name]]


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Between two values it is as far from each as `percent` lies from theirs."""
    return float(numpy.percentile(values, percent)) if values else None


def ahead_of_ours(values: Mapping[str, float | None], *, more: bool = False) -> list[str]:
    """Who has a value better than chatcli's by more than the margin: a smaller one, unless `more`.

    chatcli in another way is not among them.
    """
    ours = values.get(OURS)
    if ours is None:
        return []
    at_least, at_most = ours * (1 + MARGIN), ours * (1 - MARGIN)
    return [
        name
        for name, value in values.items()
        if value is not None and not name.startswith(OURS) and (value > at_least if more else value < at_most)
    ]
