"""A finished race as tables and as JSON: reuse, time and cost of each contender, and where chatcli loses.

"All but the first" leaves out the first request of each repeat, for which nothing is cached yet.
"""

from __future__ import annotations

import statistics
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chatcli.bench.contender import Answer, Spread
from chatcli.bench.race import Race
from chatcli.bench.workloads import Workload
from chatcli.commands.results import Table
from chatcli.text import file_size, percent

OURS = "chatcli"
# Values that differ by a smaller part than this count as equal.
MARGIN = 0.05
REPORTED_TURNS = (1, 5, 10, 15, 20, 30, 40)
# Wider headings would take a table beyond 80 columns.
HEADING_WIDTH = 10
NO_VALUE = "–"
OPENING_NOTE = "Time to open: what was done before the request was known."

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Outcome:
    """A race that was run, over what and with which model."""

    workload: Workload
    model: str
    race: Race


@dataclass(frozen=True)
class Share:
    """Prompt tokens that were reused, and of how many."""

    reused_tokens: int
    prompt_tokens: int

    @classmethod
    def of(cls, repeats: Sequence[Sequence[Answer]]) -> Share:
        """The sums over a repeat's answers, of the repeat that reused least."""
        shares = [
            cls(sum(each.reused_tokens for each in answers), sum(each.prompt_tokens for each in answers))
            for answers in repeats
        ]
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


# Cells


def share_text(share: Share) -> str:
    ratio = share.hit_ratio
    if ratio is None:
        return NO_VALUE
    return f"{percent_text(ratio)} ({share.reused_tokens:,}/{share.prompt_tokens:,})"


def percent_text(ratio: float) -> str:
    # As a ratio of whole numbers, lest 0.57 be cut to 56.9 %.
    return percent(round(ratio * 10**9), 10**9, decimals=1)


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


def size_text(value: float) -> str:
    return file_size(round(value))


# Tables


@dataclass(frozen=True)
class Column:
    """A number of each contender. `loss` says in what chatcli loses where another's is better.

    `more`: a larger one is better. `cell` shows more than the number.
    """

    heading: str
    loss: str
    of: Callable[[Standing], float | None]
    text: Callable[[float], str]
    more: bool = False
    cell: Callable[[Standing], str] | None = None

    def shown(self, standing: Standing) -> str:
        value = self.of(standing)
        return self.cell(standing) if self.cell else NO_VALUE if value is None else self.text(value)


def tables(outcome: Outcome) -> list[Table]:
    """Reuse, time and cost of every contender, then each turn or step."""
    race, workload, reference = outcome.race, outcome.workload, outcome.race.reference
    titled = f"{workload.name}, {outcome.model}: "
    is_conversation = len(race.steps) > 1 and all(step.label.startswith("turn ") for step in race.steps)
    rest = f"turns 2–{len(race.steps)}" if is_conversation else "all but the first"
    repeats = len(race.answers[reference])
    notes = [f"{repeats} repeats: tokens are those of the one that reused least, bytes the median."]
    reuse = _compared(
        race,
        f"{workload.title}, {outcome.model}: prompt tokens reused",
        [
            Column(
                "last request",
                "reuse, last request",
                lambda one: one.last_request.hit_ratio,
                percent_text,
                True,
                lambda one: share_text(one.last_request),
            ),
            Column(
                rest,
                f"reuse, {rest}",
                lambda one: one.all_but_first.hit_ratio,
                percent_text,
                True,
                lambda one: share_text(one.all_but_first),
            ),
        ],
        notes[: repeats > 1] + ([f"Published: {workload.published}."] if workload.published else []),
    )
    time = _compared(
        race,
        f"{titled}time",
        [
            Column("first token", "time to first token", lambda one: one.time_to_first_token, seconds_text),
            Column(
                "times as fast",
                "",
                lambda _: None,
                factor_text,
                cell=lambda one: spread_text(one.time_to_first_token_speedup),
            ),
            Column(
                "generation",
                "speed of generation",
                lambda one: one.generation_speedup.median if one.generation_speedup else None,
                factor_text,
                more=True,
            ),
            Column("after", "time after the reply", lambda one: one.after_seconds, seconds_text),
        ],
        [
            "First token: median over all but the first, and how many times as fast it is as "
            f"{reference} for the same request (median, least…most). Generation, first token to last: "
            "likewise.",
            "After: mean time from the last token until the next request could be taken.",
        ],
    )
    cost = _compared(
        race,
        f"{titled}work ahead, memory, disk, greedy tokens",
        [
            Column("ahead", "tokens run ahead", lambda one: one.ahead_tokens, lambda value: f"{value:,.1f}"),
            Column("memory", "memory", lambda one: one.memory_bytes, size_text),
            Column("disk", "disk", lambda one: one.disk_bytes, size_text),
            Column("written", "bytes written", lambda one: one.written_bytes, size_text),
            Column("differ", "", lambda _: None, number_text, cell=_differing),
        ],
        [
            "Ahead: tokens run after a reply, before the next request, per reply. They are work, too.",
            f"Differ: greedy tokens that are not those of {reference}.",
        ],
    )
    return [reuse, time, cost, *(_by_turn if workload.name == "turns" else _by_step)(race, titled)]


def _differing(one: Standing) -> str:
    return f"{one.greedy_differing:,} of {one.greedy_compared:,}" if one.greedy_compared else NO_VALUE


def _compared(race: Race, title: str, columns: Sequence[Column], notes: Sequence[str]) -> Table:
    """A row per contender; below it in what another beats chatcli by more than the margin."""
    by_name = {name: standing(race, name) for name in race.answers}
    losses = []
    for column in columns:
        values = {name: column.of(one) for name, one in by_name.items()}
        if better := ahead_of_ours(values, more=column.more):
            ours = column.text(values[OURS] or 0.0)
            theirs = ", ".join(f"{column.text(values[name] or 0.0)} ({name})" for name in better)
            losses.append(f"{OURS} loses in {column.loss}: {ours} against {theirs}.")
    rows = [(name, *(column.shown(one) for column in columns)) for name, one in by_name.items()]
    return Table(title, ("", *(column.heading for column in columns)), rows, [*notes, *losses])


def ahead_of_ours(values: Values, *, more: bool = False) -> list[str]:
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


def _by_turn(race: Race, titled: str) -> list[Table]:
    """Hit ratios along the conversation."""
    turns = [turn for turn in REPORTED_TURNS if turn <= len(race.steps)]
    rows = []
    for name, repeats in race.answers.items():
        ratios = (Share.of([[answers[turn - 1]] for answers in repeats]).hit_ratio for turn in turns)
        rows.append((name, *(percent_text(ratio or 0.0).removesuffix(" %") for ratio in ratios)))
    return [Table(f"{titled}hit ratio in % at turn", ("", *map(str, turns)), rows)]


def _by_step(race: Race, titled: str) -> list[Table]:
    """Time to first token and hit ratio of each step, and how long it took to open where it was reopened."""
    tables = [
        _grid(race, f"{titled}time to first token", lambda answer: answer.time_to_first_token, seconds_text),
        _grid(race, f"{titled}hit ratio", lambda answer: answer.hit_ratio, percent_text),
    ]
    if any(step.reopened for step in race.steps):
        title = f"{titled}time to open"
        tables.append(_grid(race, title, lambda answer: answer.opening_seconds, seconds_text, reopened=True))
    return tables


def _grid(
    race: Race,
    title: str,
    value: Callable[[Answer], float],
    text: Callable[[float], str],
    *,
    reopened: bool = False,
) -> Table:
    """A row per label, a column per contender, in the cells the medians of the steps with that label.

    `reopened`: of these steps only.
    """
    indices: dict[str, list[int]] = {}
    for index, step in enumerate(race.steps):
        if step.reopened or not reopened:
            indices.setdefault(step.label, []).append(index)
    rows = [
        (
            label,
            *(
                text(statistics.median(value(answers[index]) for answers in repeats for index in same_label))
                for repeats in race.answers.values()
            ),
        )
        for label, same_label in indices.items()
    ]
    # Wrapped, so that the cells below set the width of a column.
    names = ("\n".join(textwrap.wrap(name, HEADING_WIDTH, break_long_words=False)) for name in race.answers)
    return Table(title, ("", *names), rows, [OPENING_NOTE] if reopened else [])


# JSON


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
        "contenders": [
            {
                "name": name,
                "summary": _standing_json(standing(race, name)),
                "repeats": [[_answer_json(answer) for answer in repeat] for repeat in repeats],
            }
            for name, repeats in race.answers.items()
        ],
    }


def _standing_json(one: Standing) -> dict[str, Any]:
    shares = {"last_request": one.last_request, "all_but_first": one.all_but_first}
    with_ratio = {name: {**asdict(share), "hit_ratio": share.hit_ratio} for name, share in shares.items()}
    return {**asdict(one), **with_ratio}


def _answer_json(answer: Answer) -> dict[str, Any]:
    properties = {"hit_ratio": answer.hit_ratio, "generation_seconds": answer.generation_seconds}
    fields = {**asdict(answer), **properties, "gaps": list(answer.gaps)}
    del fields["greedy"]
    return fields
