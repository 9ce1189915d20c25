"""A finished race as tables and as JSON."""

from __future__ import annotations

import math
import statistics
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

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
from chatcli.text import file_size, percent

REPORTED_TURNS = (1, 5, 10, 15, 20, 30, 40)
REPORTED_PERCENTILES = (50, 90, 99)
# So many contenders' columns fit beside a label.
MAX_CONTENDER_COLUMNS = 5
# Wider headings would take a table beyond 80 columns.
HEADING_WIDTH = 10
NO_VALUE = "–"
ALL_BUT_FIRST = "all but the first"
OPENING_NOTE = (
    "Time to open: what was done before the request was known. A server over HTTP loads its weights "
    "then, the others have theirs."
)

T = TypeVar("T")
Values = Mapping[str, float | None]
Format = Callable[[float], str]


@dataclass(frozen=True)
class Outcome:
    """A race that was run, over what and with which model. `notes` are about the whole run."""

    workload: Workload
    model: str
    race: Race
    notes: Sequence[str] = ()

    def titled(self, what: str) -> str:
        """The title of a table about `what`."""
        return f"{self.workload.name}, {self.model}: {what}"


@dataclass(frozen=True)
class Measure:
    """A number of an answer and how it is shown. `more`: a larger one is better."""

    name: str
    of: Callable[[Answer], float]
    text: Format
    more: bool = False


# Cells


def optional_text(value: float | None, text: Format) -> str:
    return NO_VALUE if value is None else text(value)


def share_text(share: Share) -> str:
    if not share.prompt_tokens:
        return NO_VALUE
    ratio = optional_text(share.hit_ratio, percent_text)
    return f"{ratio} ({share.reused_tokens:,}/{share.prompt_tokens:,})"


def percent_text(ratio: float) -> str:
    # As a ratio of whole numbers, lest 0.57 be cut to 56.9 %.
    return NO_VALUE if math.isnan(ratio) else percent(round(ratio * 10**9), 10**9, decimals=1)


def bare_percent_text(ratio: float) -> str:
    return percent_text(ratio).removesuffix(" %")


def number_text(value: float) -> str:
    """About three significant digits, at most four decimals."""
    return f"{value:,.{4 - bisect_right((0.1, 1, 10, 100), value)}f}"


def seconds_text(value: float) -> str:
    return f"{number_text(value)} s"


def factor_text(value: float) -> str:
    return f"{value:,.{2 - bisect_right((10, 100), value)}f}"


def spread_text(spread: Spread | None) -> str:
    """The median (least…most)."""
    if spread is None:
        return NO_VALUE
    return f"{factor_text(spread.median)} ({factor_text(spread.least)}…{factor_text(spread.most)})"


def tokens_text(value: float) -> str:
    return f"{value:,.1f}"


def size_text(value: float) -> str:
    return file_size(round(value))


def wrapped_heading(text: str) -> str:
    """Wrapped, so that the cells below set the width of a column."""
    return "\n".join(textwrap.wrap(text, HEADING_WIDTH, break_long_words=False))


# The whole report


def tables(outcome: Outcome) -> list[Table]:
    """Reuse, time and cost of every contender, then the tables of this workload."""
    by_name = standings(outcome.race)
    common = [_reuse(outcome, by_name), _time(outcome, by_name), _cost(outcome, by_name)]
    detail = DETAILS.get(outcome.workload.name)
    return common + (detail(outcome) if detail else [])


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
                {"label": step.label, "reopened": step.reopened, "typed": step.typed} for step in race.steps
            ],
        },
        "model": outcome.model,
        "reference": race.reference,
        "notes": list(outcome.notes),
        "contenders": [
            {
                "name": name,
                "summary": {
                    **asdict(standing),
                    "last_request": _share_json(standing.last_request),
                    "all_but_first": _share_json(standing.all_but_first),
                },
                "repeats": [[_answer_json(answer) for answer in repeat] for repeat in race.answers[name]],
            }
            for name, standing in standings(race).items()
        ],
    }


def _share_json(share: Share) -> dict[str, Any]:
    return {**asdict(share), "hit_ratio": share.hit_ratio}


def _answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "reused_tokens": answer.reused_tokens,
        "typeahead_tokens": answer.typeahead_tokens,
        "hit_ratio": answer.hit_ratio if answer.reports_reuse else None,
        "time_to_first_token": answer.time_to_first_token,
        "gaps": list(answer.gaps),
        "generation_seconds": answer.generation_seconds,
        "after_seconds": answer.after_seconds,
        "ahead_tokens": answer.ahead_tokens,
        "memory_bytes": answer.memory_bytes,
        "disk_bytes": answer.disk_bytes,
        "written_bytes": answer.written_bytes,
        "opening_seconds": answer.opening_seconds,
    }


# The tables of every workload


def _reuse(outcome: Outcome, by_name: Mapping[str, Standing]) -> Table:
    workload, race = outcome.workload, outcome.race
    is_conversation = len(race.steps) > 1 and all(step.label.startswith("turn ") for step in race.steps)
    rest = f"turns 2–{len(race.steps)}" if is_conversation else ALL_BUT_FIRST
    rows = [
        (name, share_text(standing.last_request), share_text(standing.all_but_first))
        for name, standing in by_name.items()
    ]
    last_ratios = _pick(by_name, lambda standing: standing.last_request.hit_ratio)
    rest_ratios = _pick(by_name, lambda standing: standing.all_but_first.hit_ratio)
    notes = list(outcome.notes)
    if (repeats := len(race.answers[race.reference])) > 1:
        notes.append(f"{repeats} repeats: tokens are those of the one that reused least, bytes the median.")
    if workload.published:
        notes.append(f"Published: {workload.published}.")
    notes += _losses("reuse, last request", last_ratios, percent_text, more=True)
    notes += _losses(f"reuse, {rest}", rest_ratios, percent_text, more=True)
    title = f"{workload.title}, {outcome.model}: prompt tokens reused"
    return Table(title, ("", "last request", rest), rows, notes)


def _time(outcome: Outcome, by_name: Mapping[str, Standing]) -> Table:
    reference = outcome.race.reference
    firsts = _pick(by_name, lambda standing: standing.time_to_first_token)
    afters = _pick(by_name, lambda standing: standing.after_seconds)
    generations = _pick(
        by_name, lambda standing: standing.generation_speedup.median if standing.generation_speedup else None
    )
    rows = [
        (
            name,
            optional_text(firsts[name], seconds_text),
            spread_text(standing.time_to_first_token_speedup),
            optional_text(generations[name], factor_text),
            optional_text(afters[name], seconds_text),
        )
        for name, standing in by_name.items()
    ]
    notes = [
        f"First token: median over {ALL_BUT_FIRST}, and how many times as fast it is as {reference} for the "
        "same request (median, least…most). Generation, first token to last: likewise.",
        "After: mean time from the last token until the next request could be taken.",
        *_losses("time to first token", firsts, seconds_text),
        *_losses("speed of generation", generations, factor_text, more=True),
        *_losses("time after the reply", _without(afters, reference), seconds_text),
    ]
    headings = ("", wrapped_heading("first token"), "times as fast", "generation", "after")
    return Table(outcome.titled("time"), headings, rows, notes)


def _cost(outcome: Outcome, by_name: Mapping[str, Standing]) -> Table:
    reference = outcome.race.reference
    rows = [
        (
            name,
            tokens_text(standing.ahead_tokens),
            size_text(standing.memory_bytes),
            size_text(standing.disk_bytes),
            size_text(standing.written_bytes),
            f"{standing.greedy_differing:,} of {standing.greedy_compared:,}"
            if standing.greedy_compared
            else NO_VALUE,
        )
        for name, standing in by_name.items()
    ]
    others = _without(by_name, reference)
    notes = [
        "Ahead: tokens run after a reply, before the next request, per reply. They are work, too.",
        f"Differ: greedy tokens that are not those of {reference}.",
        *_losses("tokens run ahead", _pick(others, lambda standing: standing.ahead_tokens), tokens_text),
        *_losses("memory", _pick(others, lambda standing: standing.memory_bytes), size_text),
        *_losses("disk", _pick(others, lambda standing: standing.disk_bytes), size_text),
        *_losses("bytes written", _pick(others, lambda standing: standing.written_bytes), size_text),
    ]
    notes += [
        f"{name} differs from {reference} in {standing.greedy_differing:,} of "
        f"{standing.greedy_compared:,} greedy tokens."
        for name, standing in by_name.items()
        if standing.greedy_differing
    ]
    title = outcome.titled("work ahead, memory, disk, greedy tokens")
    return Table(title, ("", "ahead", "memory", "disk", "written", "differ"), rows, notes)


def _without(values: Mapping[str, T], reference: str) -> dict[str, T]:
    """All but those of the reference, which reuses nothing and so has none of reuse's costs."""
    return {name: value for name, value in values.items() if name != reference}


# The tables of one workload


def _by_turn(outcome: Outcome) -> list[Table]:
    """Hit ratios along the conversation."""
    count = len(outcome.race.steps)
    by_turn = _shares(outcome.race, {str(turn): [turn - 1] for turn in REPORTED_TURNS if turn <= count})
    rows = [
        (name, *(optional_text(shares[name].hit_ratio, bare_percent_text) for shares in by_turn.values()))
        for name in outcome.race.answers
    ]
    notes = [note for turn, shares in by_turn.items() for note in _reuse_losses(f"turn {turn}", shares)]
    return [Table(outcome.titled("hit ratio in % at turn"), ("", *by_turn), rows, notes)]


def _by_kind(outcome: Outcome) -> list[Table]:
    """Hit ratio of each kind of request."""
    shares_by_kind = _shares(outcome.race, by_kind(outcome.race))
    rows = [
        (name, *(share_text(shares[name]) for shares in shares_by_kind.values()))
        for name in outcome.race.answers
    ]
    notes = [note for kind, shares in shares_by_kind.items() for note in _reuse_losses(kind, shares)]
    title = outcome.titled("prompt tokens reused by kind of request")
    return [Table(title, ("", *shares_by_kind), rows, notes)]


def _shares(race: Race, groups: Mapping[str, Sequence[int]]) -> dict[str, dict[str, Share]]:
    """By heading and contender."""
    return {
        heading: {name: Share.of(at(race, name, indices)) for name in race.answers}
        for heading, indices in groups.items()
    }


def _by_step(outcome: Outcome) -> list[Table]:
    """Time to first token and hit ratio of each step."""
    first = Measure("time to first token", lambda answer: answer.time_to_first_token, seconds_text)
    hits = Measure("hit ratio", lambda answer: answer.hit_ratio, percent_text, more=True)
    steps = by_label(outcome.race)
    return [*_grid(outcome, first, steps), *_grid(outcome, hits, steps)]


def _reopened(outcome: Outcome) -> list[Table]:
    """The tables of each step, and how long a new process took before it could take its request."""
    race = outcome.race
    reopened = {
        label: indices
        for label, indices in by_label(race).items()
        if any(race.steps[index].reopened for index in indices)
    }
    opening = Measure("time to open", lambda answer: answer.opening_seconds, seconds_text)
    # Contenders that keep nothing open at once, so nobody is compared.
    *others, last = _grid(outcome, opening, reopened)
    return [*_by_step(outcome), *others, replace(last, notes=[OPENING_NOTE])]


def _grid(outcome: Outcome, measure: Measure, groups: Mapping[str, Sequence[int]]) -> list[Table]:
    """A row per label, a column per contender, medians in the cells. Too many contenders: more tables."""
    race = outcome.race
    medians = {
        label: {
            name: statistics.median(measure.of(answer) for answer in _pooled(race, name, indices))
            for name in race.answers
        }
        for label, indices in groups.items()
    }
    names = list(race.answers)
    tables = []
    for first in range(0, len(names), MAX_CONTENDER_COLUMNS):
        part = names[first : first + MAX_CONTENDER_COLUMNS]
        rows = [(label, *(measure.text(values[name]) for name in part)) for label, values in medians.items()]
        tables.append(Table(outcome.titled(measure.name), ("", *map(wrapped_heading, part)), rows))
    notes = [
        note
        for label, values in medians.items()
        for note in _losses(f"{measure.name}, {label}", values, measure.text, more=measure.more)
    ]
    return [*tables[:-1], replace(tables[-1], notes=notes)]


def _shared_prefix(outcome: Outcome) -> list[Table]:
    """Hit ratio and percentiles, cold and warm where the labels begin with these words."""
    race = outcome.race
    firsts = {
        kind: {
            name: [answer.time_to_first_token for answer in _pooled(race, name, indices)]
            for name in race.answers
        }
        for kind, indices in by_kind(race).items()
    }
    gaps = {name: [gap for answer in race.of(name) for gap in answer.gaps] for name in race.answers}
    return [
        *_by_kind(outcome),
        _percentiles(outcome, "seconds to first token", firsts),
        _percentiles(outcome, "seconds between tokens", {"": gaps}),
    ]


def _pooled(race: Race, name: str, indices: Sequence[int]) -> list[Answer]:
    return [answer for answers in at(race, name, indices) for answer in answers]


def _percentiles(outcome: Outcome, what: str, by_kind: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """A row per contender, a column for each percentile of each kind."""
    columns: dict[str, Values] = {
        f"{kind} p{percent}".strip(): {name: percentile(times, percent) for name, times in by_name.items()}
        for kind, by_name in by_kind.items()
        for percent in REPORTED_PERCENTILES
    }
    rows = [
        (name, *(optional_text(values[name], number_text) for values in columns.values()))
        for name in outcome.race.answers
    ]
    notes = [
        note for key, values in columns.items() for note in _losses(f"{what}, {key}", values, number_text)
    ]
    headings = [key.replace(" ", "\n") for key in columns]
    return Table(outcome.titled(what), ("", *headings), rows, notes)


DETAILS: Mapping[str, Callable[[Outcome], list[Table]]] = {
    "turns": _by_turn,
    "models": _by_turn,
    "branch": _by_kind,
    "exact": _by_step,
    "reopen": _reopened,
    "paste": _by_step,
    "ways": _by_step,
    "agentic": _by_step,
    "shared-prefix": _shared_prefix,
}


# Where others are better


def _pick(by_name: Mapping[str, Standing], value: Callable[[Standing], float | None]) -> Values:
    return {name: value(standing) for name, standing in by_name.items()}


def _losses(what: str, values: Values, text: Format, *, more: bool = False) -> list[str]:
    """One sentence naming everyone who beats chatcli by more than the margin; none if nobody does."""
    better = ahead_of_ours(values, more=more)
    if not better:
        return []
    theirs = ", ".join(f"{optional_text(values[name], text)} ({name})" for name in better)
    return [f"{OURS} loses in {what}: {optional_text(values[OURS], text)} against {theirs}."]


def _reuse_losses(what: str, shares: Mapping[str, Share]) -> list[str]:
    ratios = {name: share.hit_ratio for name, share in shares.items()}
    return _losses(f"reuse, {what}", ratios, percent_text, more=True)
