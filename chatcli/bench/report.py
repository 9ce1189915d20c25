"""Presents a finished race as tables and JSON: reuse, time and cost of each contender.

"All but the first" omits the first request of each repeat, for which nothing is cached yet.
"""

from __future__ import annotations

import statistics
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chatcli.bench.race import Answer, Race, Spread, Workload
from chatcli.commands.results import Table
from chatcli.text import file_size, percent

REPORTED_TURNS = (1, 5, 10, 15, 20, 30, 40)
# Wider headings would make a table wider than 80 columns.
HEADING_WIDTH = 10
NO_VALUE = "–"


@dataclass(frozen=True)
class Outcome:
    """A finished race, its workload and its model."""

    workload: Workload
    model: str
    race: Race


@dataclass(frozen=True)
class Share:
    """How many of a number of prompt tokens were reused, and their ratio (None: no tokens)."""

    reused_tokens: int
    prompt_tokens: int
    hit_ratio: float | None

    @classmethod
    def of(cls, repeats: Sequence[Sequence[Answer]]) -> Share:
        """The sums over the answers of the repeat that reused least."""
        shares = []
        for answers in repeats:
            reused = sum(each.reused_tokens for each in answers)
            prompt = sum(each.prompt_tokens for each in answers)
            shares.append(cls(reused, prompt, reused / prompt if prompt else None))
        return min(shares, key=lambda share: share.hit_ratio or 0.0)

    def __str__(self) -> str:
        if self.hit_ratio is None:
            return NO_VALUE
        return f"{percent_text(self.hit_ratio)} ({self.reused_tokens:,}/{self.prompt_tokens:,})"


@dataclass(frozen=True)
class Standing:
    """One contender's numbers, in seconds, bytes and tokens. None: there was no such request.

    `time_to_first_token` is the median over all but the first request; a speedup is the reference's time
    divided by this contender's for the same request. `after_seconds` and `ahead_tokens` are means per
    request. `memory_bytes` and `disk_bytes` are measured at the end of a repeat, `written_bytes` is the sum
    over it; each is the median of the repeats. `greedy_differing` of `greedy_compared` tokens differ from the
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


def standing(race: Race, name: str) -> Standing:
    repeats, answers = race.answers[name], race.of(name)
    last = [repeat[-1] for repeat in repeats]
    firsts = [answer.time_to_first_token for repeat in repeats for answer in repeat[1:]]

    def speedup(seconds: Callable[[Answer], float]) -> Spread | None:
        """The speedup per request, so that a long one does not outweigh the others."""
        speedups = [
            seconds(reference) / seconds(answer)
            for mine, theirs in zip(repeats, race.answers[race.reference], strict=True)
            for answer, reference in zip(mine[1:], theirs[1:], strict=True)
            if seconds(answer)
        ]
        return Spread.of(speedups) if speedups else None

    return Standing(
        Share.of([repeat[-1:] for repeat in repeats]),
        Share.of([repeat[1:] for repeat in repeats]),
        statistics.median(firsts) if firsts else None,
        speedup(lambda answer: answer.time_to_first_token),
        speedup(lambda answer: answer.generation_seconds),
        statistics.mean(answer.after_seconds for answer in answers),
        statistics.mean(answer.ahead_tokens for answer in answers),
        statistics.median(answer.memory_bytes for answer in last),
        statistics.median(answer.disk_bytes for answer in last),
        statistics.median(sum(answer.written_bytes for answer in repeat) for repeat in repeats),
        *race.differing(name),
    )


# Cells


def percent_text(ratio: float) -> str:
    # Computed with whole numbers, so that 0.57 does not become 56.9 %.
    return percent(round(ratio * 10**9), 10**9, decimals=1)


def number_text(value: float) -> str:
    """About three significant digits, at most four decimals."""
    return f"{value:,.{4 - bisect_right((0.1, 1, 10, 100), value)}f}"


def seconds_text(value: float | None) -> str:
    return NO_VALUE if value is None else f"{number_text(value)} s"


def factor_text(value: float) -> str:
    return f"{value:,.{2 - bisect_right((10, 100), value)}f}"


def spread_text(spread: Spread | None) -> str:
    """The median (least…most)."""
    if spread is None:
        return NO_VALUE
    return f"{factor_text(spread.median)} ({factor_text(spread.least)}…{factor_text(spread.most)})"


# Tables


def tables(outcome: Outcome) -> list[Table]:
    """Tables of reuse, time and cost of every contender, then of each step."""
    race, workload, reference = outcome.race, outcome.workload, outcome.race.reference
    titled = f"{workload.name}, {outcome.model}: "
    by_name = {name: standing(race, name) for name in race.answers}
    repeats = len(race.answers[reference])
    notes = [f"{repeats} repeats: tokens are those of the one that reused least, bytes the median."]

    def compared(title: str, columns: Mapping[str, Callable[[Standing], str]], *notes: str) -> Table:
        """A row for each contender."""
        rows = [(name, *(cell(one) for cell in columns.values())) for name, one in by_name.items()]
        return Table(title, ("", *columns), rows, notes)

    reuse = compared(
        f"{workload.title}, {outcome.model}: prompt tokens reused",
        {
            "last request": lambda one: str(one.last_request),
            "all but the first": lambda one: str(one.all_but_first),
        },
        *notes[: repeats > 1],
        *([f"Published: {workload.published}."] if workload.published else ()),
    )
    time = compared(
        f"{titled}time",
        {
            "first token": lambda one: seconds_text(one.time_to_first_token),
            "times as fast": lambda one: spread_text(one.time_to_first_token_speedup),
            "generation": lambda one: (
                factor_text(one.generation_speedup.median) if one.generation_speedup else NO_VALUE
            ),
            "after": lambda one: seconds_text(one.after_seconds),
        },
        "First token: median over all but the first, and how many times as fast it is as "
        f"{reference} for the same request (median, least…most). Generation, first token to last: likewise.",
        "After: mean time from the last token until the next request could be taken.",
    )
    cost = compared(
        f"{titled}work ahead, memory, disk, greedy tokens",
        {
            "ahead": lambda one: f"{one.ahead_tokens:,.1f}",
            "memory": lambda one: file_size(round(one.memory_bytes)),
            "disk": lambda one: file_size(round(one.disk_bytes)),
            "written": lambda one: file_size(round(one.written_bytes)),
            "differ": lambda one: (
                f"{one.greedy_differing:,} of {one.greedy_compared:,}" if one.greedy_compared else NO_VALUE
            ),
        },
        "Ahead: tokens run between a reply and the next request, per reply. They are work, too.",
        f"Differ: greedy tokens that differ from those of {reference}.",
    )

    def by_step(
        title: str, value: Callable[[Answer], float], text: Callable[[float], str], *, reopened: bool = False
    ) -> Table:
        """A table with a row per label and a column per contender; cells are the medians of that label's
        steps.
        """
        indices: dict[str, list[int]] = {}
        for index, step in enumerate(race.steps):
            is_shown = workload.name != "turns" or index + 1 in REPORTED_TURNS
            if is_shown and (step.reopened or not reopened):
                indices.setdefault(step.label, []).append(index)
        rows = []
        for label, steps in indices.items():
            values = (
                [value(answers[index]) for answers in repeats for index in steps]
                for repeats in race.answers.values()
            )
            rows.append((label, *(text(statistics.median(each)) for each in values)))
        # Wrapped, so that the cells determine the width of a column.
        names = (
            "\n".join(textwrap.wrap(name, HEADING_WIDTH, break_long_words=False)) for name in race.answers
        )
        return Table(f"{titled}{title}", ("", *names), rows)

    steps = [
        by_step("time to first token", lambda answer: answer.time_to_first_token, seconds_text),
        by_step("hit ratio", lambda answer: answer.hit_ratio, percent_text),
    ]
    if any(step.reopened for step in race.steps):
        title = "time to open, before the request was known"
        steps.append(by_step(title, lambda answer: answer.opening_seconds, seconds_text, reopened=True))
    return [reuse, time, cost, *steps]


# JSON


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Every answer and summary as plain data: seconds, bytes, tokens. Without greedy tokens."""
    workload, race = outcome.workload, outcome.race

    def answer_json(answer: Answer) -> dict[str, Any]:
        properties = {"hit_ratio": answer.hit_ratio, "generation_seconds": answer.generation_seconds}
        fields = {**asdict(answer), **properties, "gaps": list(answer.gaps)}
        del fields["greedy"]
        return fields

    return {
        "workload": {
            "name": workload.name,
            "title": workload.title,
            "reply_tokens": workload.reply,
            "published": workload.published,
            "steps": [
                {"label": step.label, "reopened": step.reopened, "typed": step.typed} for step in race.steps
            ],
        },
        "model": outcome.model,
        "reference": race.reference,
        "contenders": [
            {
                "name": name,
                "summary": asdict(standing(race, name)),
                "repeats": [[answer_json(answer) for answer in repeat] for repeat in repeats],
            }
            for name, repeats in race.answers.items()
        ],
    }
