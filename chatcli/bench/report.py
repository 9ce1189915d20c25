"""A finished race as tables and as plain data; refuses to measure and to know the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from chatcli.bench import cells
from chatcli.bench.contender import Answer
from chatcli.bench.measure import Spread
from chatcli.bench.race import Race
from chatcli.bench.standing import (
    OURS,
    Share,
    Standing,
    ahead_of_ours,
    at,
    by_kind,
    by_label,
    percentile,
    standings,
)
from chatcli.bench.workloads import Workload
from chatcli.commands.results import Table

TURNS = (1, 5, 10, 15, 20, 30, 40)
PERCENTS = (50, 90, 99)
# So many contenders' columns fit beside a label.
WIDE = 5
REST = "all but the first"
OPENED = (
    "Time to open: what was done before the request was known. A server over HTTP loads its weights "
    "then, the others have theirs."
)

T = TypeVar("T")
Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Outcome:
    """A race that was run, over what and with which model. `notes` are about the whole run."""

    workload: Workload
    model: str
    race: Race
    notes: Sequence[str] = ()

    def titled(self, what: str) -> str:
        """A table's title, which says what of this outcome it is."""
        return f"{self.workload.name}, {self.model}: {what}"


@dataclass(frozen=True)
class Measure:
    """What is taken of an answer and how it is shown. `more`: a larger one is better."""

    name: str
    of: Callable[[Answer], float]
    show: cells.Show
    more: bool = False


def tables(outcome: Outcome) -> list[Table]:
    """Reuse, time and cost of every contender, then what this workload is about."""
    found = standings(outcome.race)
    every = [_reuse(outcome, found), _time(outcome, found), _cost(outcome, found)]
    if detail := DETAILS.get(outcome.workload.name):
        every += detail(outcome)
    return every


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Every answer and every summary as plain data: seconds, bytes, tokens. No greedy tokens."""
    workload, race = outcome.workload, outcome.race
    return {
        "workload": {
            "name": workload.name,
            "title": workload.title,
            "reply_tokens": workload.reply,
            "published": workload.published,
            "steps": [
                {"label": one.label, "reopened": one.reopened, "typed": one.typed} for one in race.steps
            ],
        },
        "model": outcome.model,
        "reference": race.reference,
        "notes": list(outcome.notes),
        "contenders": [
            {
                "name": name,
                "summary": _summary_json(one),
                "repeats": [[_answer_json(answer) for answer in r] for r in race.answers[name]],
            }
            for name, one in standings(race).items()
        ],
    }


def _summary_json(one: Standing) -> dict[str, Any]:
    return {
        "last_request": _share_json(one.last),
        "all_but_first": _share_json(one.rest),
        "time_to_first_token": one.first,
        "time_to_first_token_speedup": one.first_speedup and asdict(one.first_speedup),
        "generation_speedup": one.generation_speedup and asdict(one.generation_speedup),
        "after_seconds": one.after,
        "ahead_tokens": one.ahead,
        "memory_bytes": one.memory,
        "disk_bytes": one.disk,
        "written_bytes": one.written,
        "greedy_differing": one.differing,
        "greedy_compared": one.compared,
    }


def _share_json(one: Share) -> dict[str, Any]:
    return {"reused_tokens": one.reused, "prompt_tokens": one.prompt, "hit_ratio": one.ratio}


def _answer_json(one: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": one.prompt,
        "reused_tokens": one.reused,
        "hit_ratio": one.hit_ratio if one.tells else None,
        "time_to_first_token": one.first,
        "gaps": list(one.gaps),
        "generation_seconds": one.generation,
        "after_seconds": one.after,
        "ahead_tokens": one.ahead,
        "memory_bytes": one.memory,
        "disk_bytes": one.disk,
        "written_bytes": one.written,
        "opening_seconds": one.opening,
    }


# What every workload has


def _reuse(outcome: Outcome, found: Mapping[str, Standing]) -> Table:
    workload, steps = outcome.workload, outcome.race.steps
    talk = len(steps) > 1 and all(one.label.startswith("turn ") for one in steps)
    rest = f"turns 2–{len(steps)}" if talk else REST
    rows = [(name, cells.share(one.last), cells.share(one.rest)) for name, one in found.items()]
    last_ratio = _of(found, lambda one: one.last.ratio)
    rest_ratio = _of(found, lambda one: one.rest.ratio)
    notes = [
        *outcome.notes,
        *_repeated(outcome),
        *([f"Published: {workload.published}."] if workload.published else []),
        *_lost("reuse, last request", last_ratio, cells.percent, more=True),
        *_lost(f"reuse, {rest}", rest_ratio, cells.percent, more=True),
    ]
    title = f"{workload.title}, {outcome.model}: prompt tokens reused"
    return Table(title, ("", "last request", rest), rows, notes)


def _repeated(outcome: Outcome) -> list[str]:
    repeats = len(outcome.race.answers[outcome.race.reference])
    if repeats == 1:
        return []
    return [f"{repeats} repeats: tokens are those of the one that reused least, bytes the median."]


def _time(outcome: Outcome, found: Mapping[str, Standing]) -> Table:
    reference = outcome.race.reference
    first, after = _of(found, lambda one: one.first), _of(found, lambda one: one.after)
    generation = _of(found, lambda one: _middle(one.generation_speedup))
    rows = [
        (
            name,
            cells.told(first[name], cells.seconds),
            cells.spread(one.first_speedup),
            cells.told(generation[name], cells.times),
            cells.told(after[name], cells.seconds),
        )
        for name, one in found.items()
    ]
    notes = [
        f"First token: median over {REST}, and how many times as fast it is as {reference} for the "
        "same request (median, least…most). Generation, first token to last: likewise.",
        "After: mean time from the last token until the next request could be taken.",
        *_lost("time to first token", first, cells.seconds),
        *_lost("speed of generation", generation, cells.times, more=True),
        *_lost("time after the reply", _but(after, reference), cells.seconds),
    ]
    headings = ("", cells.heading("first token"), "times as fast", "generation", "after")
    return Table(outcome.titled("time"), headings, rows, notes)


def _cost(outcome: Outcome, found: Mapping[str, Standing]) -> Table:
    rows = [
        (
            name,
            cells.tokens(one.ahead),
            *(cells.size(size) for size in (one.memory, one.disk, one.written)),
            f"{one.differing:,} of {one.compared:,}" if one.compared else cells.NONE,
        )
        for name, one in found.items()
    ]
    notes = [
        "Ahead: tokens run after a reply, before the next request, per reply. They are work, too.",
        f"Differ: greedy tokens that are not those of {outcome.race.reference}.",
        *_costs(found, outcome.race.reference),
        *_differing(outcome, found),
    ]
    title = outcome.titled("work ahead, memory, disk, greedy tokens")
    return Table(title, ("", "ahead", "memory", "disk", "written", "differ"), rows, notes)


def _but(values: Mapping[str, T], reference: str) -> dict[str, T]:
    """All but those of the reference, which reuses nothing and so has none of reuse's costs."""
    return {name: one for name, one in values.items() if name != reference}


def _costs(found: Mapping[str, Standing], reference: str) -> list[str]:
    """Where reuse costs chatcli more than others."""
    others = _but(found, reference)
    return [
        *_lost("tokens run ahead", _of(others, lambda one: one.ahead), cells.tokens),
        *_lost("memory", _of(others, lambda one: one.memory), cells.size),
        *_lost("disk", _of(others, lambda one: one.disk), cells.size),
        *_lost("bytes written", _of(others, lambda one: one.written), cells.size),
    ]


def _differing(outcome: Outcome, found: Mapping[str, Standing]) -> list[str]:
    reference = outcome.race.reference
    return [
        f"{name} differs from {reference} in {one.differing:,} of {one.compared:,} greedy tokens."
        for name, one in found.items()
        if one.differing
    ]


# What one kind of workload has


def _by_turn(outcome: Outcome) -> list[Table]:
    """Hit ratios along the conversation."""
    count = len(outcome.race.steps)
    found = _shares(outcome.race, {str(turn): [turn - 1] for turn in TURNS if turn <= count})
    rows = [
        (name, *(cells.told(shares[name].ratio, cells.bare_percent) for shares in found.values()))
        for name in outcome.race.answers
    ]
    notes = [note for turn, one in found.items() for note in _lost_reuse(f"turn {turn}", one)]
    return [Table(outcome.titled("hit ratio in % at turn"), ("", *found), rows, notes)]


def _by_kind(outcome: Outcome) -> list[Table]:
    """Hit ratio of each kind of request."""
    found = _shares(outcome.race, by_kind(outcome.race))
    rows = [
        (name, *(cells.share(shares[name]) for shares in found.values())) for name in outcome.race.answers
    ]
    notes = [note for kind, one in found.items() for note in _lost_reuse(kind, one)]
    title = outcome.titled("prompt tokens reused by kind of request")
    return [Table(title, ("", *found), rows, notes)]


def _shares(race: Race, places: Mapping[str, Sequence[int]]) -> dict[str, dict[str, Share]]:
    """By heading and contender."""
    return {
        heading: {name: Share.of(at(race, name, group)) for name in race.answers}
        for heading, group in places.items()
    }


def _by_step(outcome: Outcome) -> list[Table]:
    """Time to first token and hit ratio of each step."""
    places = by_label(outcome.race)
    return [
        *_grid(outcome, Measure("time to first token", lambda one: one.first, cells.seconds), places),
        *_grid(outcome, Measure("hit ratio", lambda one: one.hit_ratio, cells.percent, True), places),
    ]


def _reopened(outcome: Outcome) -> list[Table]:
    """The same, and what a new process took before it could be asked."""
    race = outcome.race
    places = {
        label: group
        for label, group in by_label(race).items()
        if any(race.steps[place].reopened for place in group)
    }
    opening = Measure("time to open", lambda one: one.opening, cells.seconds)
    # Who keeps nothing opens at once, so nobody is compared.
    *others, last = _grid(outcome, opening, places)
    return [*_by_step(outcome), *others, replace(last, notes=[OPENED])]


def _grid(outcome: Outcome, measure: Measure, places: Mapping[str, Sequence[int]]) -> list[Table]:
    """A row per label, a column per contender. Where these are more than fit, there are more tables."""
    found = {label: _medians(outcome.race, measure, group) for label, group in places.items()}
    names = list(outcome.race.answers)
    parts = [names[first : first + WIDE] for first in range(0, len(names), WIDE)]
    tables = [_part(outcome.titled(measure.name), measure, part, found) for part in parts]
    notes = [
        note
        for label, values in found.items()
        for note in _lost(f"{measure.name}, {label}", values, measure.show, more=measure.more)
    ]
    return [*tables[:-1], replace(tables[-1], notes=notes)]


def _medians(race: Race, measure: Measure, places: Sequence[int]) -> dict[str, float]:
    return {name: statistics.median(map(measure.of, _pooled(race, name, places))) for name in race.answers}


def _part(
    title: str, measure: Measure, names: Sequence[str], found: Mapping[str, Mapping[str, float]]
) -> Table:
    """The columns of some contenders."""
    rows = [(label, *(measure.show(values[name]) for name in names)) for label, values in found.items()]
    return Table(title, ("", *map(cells.heading, names)), rows)


def _shared(outcome: Outcome) -> list[Table]:
    """Hit ratio and percentiles, cold and warm where the labels begin with these words."""
    race = outcome.race
    firsts = {
        kind: {name: [one.first for one in _pooled(race, name, places)] for name in race.answers}
        for kind, places in by_kind(race).items()
    }
    gaps = {name: [gap for one in race.of(name) for gap in one.gaps] for name in race.answers}
    return [
        *_by_kind(outcome),
        _percentiles(outcome, "seconds to first token", firsts),
        _percentiles(outcome, "seconds between tokens", {"": gaps}),
    ]


def _pooled(race: Race, name: str, places: Sequence[int]) -> list[Answer]:
    return [one for answers in at(race, name, places) for one in answers]


def _percentiles(outcome: Outcome, what: str, found: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """A row per contender, a column for each percentile of each kind."""
    columns = {
        f"{kind} p{percent}".strip(): _percentile(taken, percent)
        for kind, taken in found.items()
        for percent in PERCENTS
    }
    rows = [
        (name, *(cells.told(values[name], cells.number) for values in columns.values()))
        for name in outcome.race.answers
    ]
    notes = [
        note for key, values in columns.items() for note in _lost(f"{what}, {key}", values, cells.number)
    ]
    headings = [key.replace(" ", "\n") for key in columns]
    return Table(outcome.titled(what), ("", *headings), rows, notes)


def _percentile(taken: Mapping[str, Sequence[float]], percent: int) -> Values:
    return {name: percentile(values, percent) for name, values in taken.items()}


DETAILS: Mapping[str, Callable[[Outcome], list[Table]]] = {
    "turns": _by_turn,
    "models": _by_turn,
    "branch": _by_kind,
    "exact": _by_step,
    "reopen": _reopened,
    "paste": _by_step,
    "agentic": _by_step,
    "shared-prefix": _shared,
}


# Where others are better


def _of(found: Mapping[str, Standing], pick: Callable[[Standing], float | None]) -> Values:
    return {name: pick(one) for name, one in found.items()}


def _middle(spread: Spread | None) -> float | None:
    return spread.median if spread else None


def _lost(what: str, values: Values, show: cells.Show, *, more: bool = False) -> list[str]:
    """One sentence with all who are better than chatcli by more than the margin, if any is."""
    better = ahead_of_ours(values, more=more)
    if not better:
        return []
    theirs = ", ".join(f"{cells.told(values[name], show)} ({name})" for name in better)
    return [f"{OURS} loses in {what}: {cells.told(values[OURS], show)} against {theirs}."]


def _lost_reuse(what: str, shares: Mapping[str, Share]) -> list[str]:
    ratios = {name: one.ratio for name, one in shares.items()}
    return _lost(f"reuse, {what}", ratios, cells.percent, more=True)
