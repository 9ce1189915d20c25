"""Race reports as tables and JSON: every number comes from the answers."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from chatcli.bench import ours, peers, race, report, scripted, workloads
from chatcli.bench.race import Answer, Query, Race, Step, Workload
from chatcli.bench.report import Outcome, standing
from chatcli.model.load import load
from chatcli.settings.values import POCKET
from chatcli.threads.mlx_thread import Worker
from chatcli.tui.render.screen import Screen

COLD, PEER, OURS = "no reuse", "a peer", "chatcli"
NAMES = (COLD, "mlx-lm's server", "mlx-lm, a file each turn", OURS)


def make_outcome(
    name: str, labels: Sequence[str], answers: dict[str, list[list[Answer]]], **more: str
) -> Outcome:
    """`answers` by contender, repeat and step; the first contender is the reference."""
    steps = [Step(label, Query("", (label,))) for label in labels]
    workload = Workload(name, f"{name} at length", steps, 64, **more)
    return Outcome(workload, "tiny", Race(steps, answers, next(iter(answers))))


def same(count: int, **differing: Answer) -> dict[str, list[list[Answer]]]:
    """`count` equal answers of every contender in one repeat, but for the contenders in `differing`."""
    usual = Answer(prompt_tokens=100, reused_tokens=50, time_to_first_token=1.0)
    answers = {COLD: usual, PEER: usual, OURS: usual} | {
        {"peer": PEER, "ours": OURS}[key]: answer for key, answer in differing.items()
    }
    return {name: [[answer] * count] for name, answer in answers.items()}


# Numbers of every contender


def test_reuse_is_of_the_last_request_and_of_all_but_the_first() -> None:
    answers = [Answer(10, 9, 1.0), Answer(1000, 400, 1.0), Answer(2000, 1900, 1.0)]
    table = report.tables(make_outcome("exact", "abc", {OURS: [answers]}))[0]
    assert ("", "last request", "all but the first") == tuple(table.columns)
    assert [(OURS, "95.0 % (1,900/2,000)", "76.6 % (2,300/3,000)")] == table.rows


def test_tokens_are_those_of_the_repeat_that_reused_least() -> None:
    repeats = [[Answer(10, 0, 1.0), Answer(100, reused, 1.0)] for reused in (90, 80, 95)]
    table = report.tables(make_outcome("exact", "ab", {OURS: repeats}))[0]
    assert [(OURS, "80.0 % (80/100)", "80.0 % (80/100)")] == table.rows
    assert table.notes[0].startswith("3 repeats: ")


def test_time_is_compared_request_by_request() -> None:
    """The slow first request is left out; the speedups are 8 s / 2 s, 9 s / 1 s and 30 s / 3 s."""
    cold = [Answer(9, 0, first, (0.3, 0.3)) for first in (99.0, 8.0, 9.0, 30.0)]
    mine = [Answer(9, 0, seconds, (0.1, 0.2), after_seconds=0.5) for seconds in (99.0, 2.0, 1.0, 3.0)]
    table = report.tables(make_outcome("exact", "abcd", {COLD: [cold], OURS: [mine]}))[1]
    expected = [
        (COLD, "9.00 s", "1.00 (1.00…1.00)", "1.00", "0.0000 s"),
        (OURS, "2.00 s", "9.00 (4.00…10.0)", "2.00", "0.500 s"),
    ]
    assert expected == table.rows


def test_cost_is_memory_and_disk_at_the_end_and_all_bytes_written() -> None:
    cold = [Answer(9, 0, 1.0, greedy=(1, 2, 3))] * 2
    mine = [
        Answer(
            9, 0, 1.0, ahead_tokens=64, greedy=(1, 2, 3), memory_bytes=10, disk_bytes=2000, written_bytes=2000
        ),
        Answer(
            9, 0, 1.0, ahead_tokens=32, greedy=(1, 2, 4), memory_bytes=20, disk_bytes=3000, written_bytes=2500
        ),
    ]
    table = report.tables(make_outcome("exact", "ab", {COLD: [cold], OURS: [mine]}))[2]
    assert (OURS, "48.0", "20 B", "3.0 kB", "4.5 kB", "1 of 6") == table.rows[1]


def test_a_single_request_has_no_figures_for_later_requests() -> None:
    alone = make_outcome("exact", "a", {COLD: [[Answer(9, 0, 1.0)]]})
    rows = [list(table.rows[0]) for table in report.tables(alone)[:2]]
    assert [[COLD, "0 % (0/9)", "–"], [COLD, "–", "–", "–", "0.0000 s"]] == rows


def test_published_figures_stand_under_the_first_table() -> None:
    outcome = make_outcome("exact", "ab", same(2), published="PR 7: 26 times")
    assert ["Published: PR 7: 26 times."] == list(report.tables(outcome)[0].notes)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.00004, "0.0000 s"),
        (0.0123, "0.0123 s"),
        (0.5, "0.500 s"),
        (1.234, "1.23 s"),
        (27.06, "27.1 s"),
        (1234.0, "1,234 s"),
    ],
)
def test_seconds_have_about_three_digits(seconds: float, expected: str) -> None:
    cold = [Answer(9, 0, seconds)] * 2
    assert expected == report.tables(make_outcome("exact", "ab", {COLD: [cold]}))[1].rows[0][1]


# One workload's own tables


def test_of_many_turns_a_few_are_shown() -> None:
    answers = [Answer(100, turn, 1.0) for turn in range(1, 13)]
    outcome = make_outcome("turns", [f"turn {turn}" for turn in range(1, 13)], {OURS: [answers]})
    expected = [("turn 1", "1.0 %"), ("turn 5", "5.0 %"), ("turn 10", "10.0 %")]
    assert expected == report.tables(outcome)[4].rows


@pytest.mark.parametrize("name", ["reopen", "agentic"])
def test_steps_have_the_median_of_their_repeats(name: str) -> None:
    cold = [[Answer(10, 0, 4.0), Answer(20, 0, seconds)] for seconds in (7.0, 5.0, 6.0)]
    mine = [[Answer(10, 0, 4.0), Answer(20, reused, 1.0)] for reused in (19, 18, 15)]
    tables = report.tables(make_outcome(name, ("first", "again"), {COLD: cold, OURS: mine}))
    assert [("", "no reuse", "chatcli")] * 2 == [table.columns for table in tables[3:5]]
    assert [("first", "4.00 s", "4.00 s"), ("again", "6.00 s", "1.00 s")] == tables[3].rows
    assert [("first", "0 %", "0 %"), ("again", "0 %", "90.0 %")] == tables[4].rows


def test_steps_with_one_label_are_one_row() -> None:
    cold = [Answer(10, 5, seconds) for seconds in (1.0, 2.0, 9.0)]
    table = report.tables(make_outcome("paste", ("sent", "sent", "sent"), {COLD: [cold]}))[3]
    assert [("sent", "2.00 s")] == table.rows


def test_a_reopened_step_shows_its_opening_time() -> None:
    steps = [Step("open", Query("", ("a",))), Step("reopened", Query("", ("b",)), True)]
    mine = [Answer(10, 5, 1.0, opening_seconds=0.001), Answer(10, 5, 1.0, opening_seconds=0.25)]
    workload = Workload("reopen", "quit and come back", steps, 64)
    tables = report.tables(Outcome(workload, "tiny", Race(steps, {OURS: [mine]}, OURS)))
    assert "reopen, tiny: time to open, before the request was known" == tables[-1].title
    assert [("reopened", "0.250 s")] == tables[-1].rows


# JSON


def test_the_data_has_every_answer_and_the_summary() -> None:
    cold = [Answer(10, 0, 2.0, (0.5,), greedy=(1,)), Answer(20, 0, 4.0, (0.5,), greedy=(2,))]
    mine = [
        Answer(10, 0, 2.0, (0.25,), 0.5, 64, (1,), 100, 200, 300),
        Answer(20, 15, 1.0, (0.25, 0.75), 1.5, 32, (3,), 110, 220, 330, 0.5),
    ]
    outcome = make_outcome("exact", ("first", "again"), {COLD: [cold], OURS: [mine]}, published="PR 7")
    data = report.as_json(outcome)
    last = {"reused_tokens": 15, "prompt_tokens": 20, "hit_ratio": 0.75}
    expected = {
        "name": OURS,
        "summary": {
            "last_request": last,
            "all_but_first": last,
            "time_to_first_token": 1.0,
            "time_to_first_token_speedup": {"median": 4.0, "least": 4.0, "most": 4.0},
            "generation_speedup": {"median": 0.5, "least": 0.5, "most": 0.5},
            "after_seconds": 1.0,
            "ahead_tokens": 48,
            "memory_bytes": 110,
            "disk_bytes": 220,
            "written_bytes": 630,
            "greedy_differing": 1,
            "greedy_compared": 2,
        },
        "repeats": [
            [
                {
                    "prompt_tokens": 10,
                    "reused_tokens": 0,
                    "typeahead_tokens": 0,
                    "hit_ratio": 0.0,
                    "time_to_first_token": 2.0,
                    "gaps": [0.25],
                    "generation_seconds": 0.25,
                    "after_seconds": 0.5,
                    "ahead_tokens": 64,
                    "memory_bytes": 100,
                    "disk_bytes": 200,
                    "written_bytes": 300,
                    "opening_seconds": 0.0,
                },
                {
                    "prompt_tokens": 20,
                    "reused_tokens": 15,
                    "typeahead_tokens": 0,
                    "hit_ratio": 0.75,
                    "time_to_first_token": 1.0,
                    "gaps": [0.25, 0.75],
                    "generation_seconds": 1.0,
                    "after_seconds": 1.5,
                    "ahead_tokens": 32,
                    "memory_bytes": 110,
                    "disk_bytes": 220,
                    "written_bytes": 330,
                    "opening_seconds": 0.5,
                },
            ]
        ],
    }
    assert expected == data["contenders"][1]
    del data["contenders"]
    assert {
        "workload": {
            "name": "exact",
            "title": "exact at length",
            "reply_tokens": 64,
            "published": "PR 7",
            "steps": [
                {"label": "first", "reopened": False, "typed": True},
                {"label": "again", "reopened": False, "typed": True},
            ],
        },
        "model": "tiny",
        "reference": COLD,
    } == data


def test_the_data_survives_json() -> None:
    data = report.as_json(make_outcome("exact", "ab", same(2)))
    assert data == json.loads(json.dumps(data))


# On a terminal


def long_race(workload: Workload) -> Outcome:
    """An outcome whose numbers are as wide as those of a large model."""
    answer = Answer(28_123, 27_990, 12.34, (0.0123,) * 3, 1.234, 120, (1,) * 64, 10**9, 10**9, 10**9)
    answers = {name: [[answer] * len(workload.steps)] for name in NAMES}
    return Outcome(workload, "qwen3.5-9b", Race(workload.steps, answers, COLD))


@pytest.mark.parametrize(
    "workload",
    [
        workloads.turns(40),
        workloads.agentic(28_000, 6, 4.0),
        workloads.reopen((1, 10)),
    ],
    ids=lambda workload: workload.name,
)
def test_no_cell_wraps_at_80_columns(workload: Workload) -> None:
    for table in report.tables(long_race(workload)):
        out = io.StringIO()
        Screen(Console(file=out, width=80, highlight=False)).result(table)
        lines = [line.split() for line in out.getvalue().splitlines()]
        for row in table.rows:
            assert " ".join(row).split() in lines


# A real race


def test_a_real_race_is_reported(tmp_path: Path) -> None:
    worker = Worker()
    loaded = worker.call(load, POCKET)
    script = worker.call(scripted.script, loaded.tokenizer, 4, 2)
    vocabulary = len(loaded.tokenizer.get_vocab())
    loaded = replace(loaded, model=scripted.Scripted(loaded.model, vocabulary, script.ids))
    contenders = [peers.NoReuse(worker, loaded), ours.Chatcli(worker, loaded, tmp_path)]
    workload = workloads.turns(2, 4)
    run = race.race(contenders, workload.steps, script, 1, lambda *_: None)
    outcome = Outcome(workload, "pocket", run)
    for contender in contenders:
        contender.close()
    worker.close()
    mine = standing(run, OURS)
    assert 0 < mine.last_request.reused_tokens < mine.last_request.prompt_tokens
    assert (0, 2 * len(script)) == (mine.greedy_differing, mine.greedy_compared)
    assert [COLD, OURS] == [row[0] for row in report.tables(outcome)[0].rows]
    assert [COLD, OURS] == [contender["name"] for contender in report.as_json(outcome)["contenders"]]
