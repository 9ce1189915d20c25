"""Each contender's numbers in a race: reuse, times, sizes, and where it is ahead of chatcli.

"All but the first" leaves out the first request of each repeat, for which nothing is cached yet.
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
# Values that differ by a smaller part than this count as equal.
MARGIN = 0.05


@dataclass(frozen=True)
class Share:
    """Prompt tokens that were reused, and of how many: those of answers that report it."""

    reused_tokens: int
    prompt_tokens: int

    @classmethod
    def of(cls, repeats: Sequence[Sequence[Answer]]) -> Share:
        """The sums over a repeat's answers, of the repeat that reused least."""
        shares = []
        for answers in repeats:
            reporting = [answer for answer in answers if answer.reports_reuse]
            reused = sum(answer.reused_tokens for answer in reporting)
            shares.append(cls(reused, sum(answer.prompt_tokens for answer in reporting)))
        return min(shares, key=lambda share: share.hit_ratio or 0.0)

    @property
    def hit_ratio(self) -> float | None:
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else None


@dataclass(frozen=True)
class Standing:
    """One contender's numbers, in seconds, bytes and tokens. None: no request to take it from.

    `time_to_first_token` is the median over all but the first request; a speedup is the reference's time
    divided by this contender's for the same request. `after_seconds` and `ahead_tokens` are means per
    request. `memory_bytes` and `disk_bytes` are those at the end of a repeat, `written_bytes` the sum over
    it; each is the median of the repeats. `greedy_differing` of `greedy_compared` tokens are not the
    reference's.
    """

    last_request: Share
    all_but_first: Share
    time_to_first_token: float | None
    time_to_first_token_speedup: Spread | None
    generation_speedup: Spread | None
    after_seconds: float
    ahead_tokens: float
    memory_bytes: float
    disk_bytes: float
    written_bytes: float
    greedy_differing: int
    greedy_compared: int


def standings(race: Race) -> dict[str, Standing]:
    """Every contender's, in the race's order."""
    return {name: standing(race, name) for name in race.answers}


def standing(race: Race, name: str) -> Standing:
    repeats, answers = race.answers[name], race.of(name)
    last = [repeat[-1] for repeat in repeats]
    firsts = [answer.time_to_first_token for repeat in repeats for answer in repeat[1:]]
    differing, compared = race.differing(name)
    return Standing(
        last_request=Share.of([repeat[-1:] for repeat in repeats]),
        all_but_first=Share.of([repeat[1:] for repeat in repeats]),
        time_to_first_token=statistics.median(firsts) if firsts else None,
        time_to_first_token_speedup=_speedup(race, name, lambda answer: answer.time_to_first_token),
        generation_speedup=_speedup(race, name, lambda answer: answer.generation_seconds),
        after_seconds=statistics.mean(answer.after_seconds for answer in answers),
        ahead_tokens=statistics.mean(answer.ahead_tokens for answer in answers),
        memory_bytes=statistics.median(answer.memory_bytes for answer in last),
        disk_bytes=statistics.median(answer.disk_bytes for answer in last),
        written_bytes=statistics.median(sum(answer.written_bytes for answer in repeat) for repeat in repeats),
        greedy_differing=differing,
        greedy_compared=compared,
    )


def _speedup(race: Race, name: str, seconds: Callable[[Answer], float]) -> Spread | None:
    """Request by request, so that a long one does not outweigh the others."""
    speedups = [
        seconds(reference) / seconds(answer)
        for mine, theirs in zip(race.answers[name], race.answers[race.reference], strict=True)
        for answer, reference in zip(mine[1:], theirs[1:], strict=True)
        if seconds(answer)
    ]
    return Spread.of(speedups) if speedups else None


def by_label(race: Race) -> dict[str, list[int]]:
    """The indices of the steps with the same label."""
    indices: dict[str, list[int]] = {}
    for index, step in enumerate(race.steps):
        indices.setdefault(step.label, []).append(index)
    return indices


def by_kind(race: Race) -> dict[str, list[int]]:
    """The indices of the steps whose labels begin with the same word, such as cold and warm."""
    indices: dict[str, list[int]] = {}
    for label, same_label in by_label(race).items():
        indices.setdefault(label.partition(" ")[0], []).extend(same_label)
    return indices


def at(race: Race, name: str, indices: Sequence[int]) -> list[list[Answer]]:
    """A contender's answers to the steps at `indices`, by repeat."""
    return [[answers[index] for index in indices] for answers in race.answers[name]]


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Linearly interpolated."""
    return float(numpy.percentile(values, percent)) if values else None


def ahead_of_ours(values: Mapping[str, float | None], *, more: bool = False) -> list[str]:
    """Whose value beats chatcli's by more than the margin: a smaller one, or a larger one with `more`.

    Other variants of chatcli are left out.
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
