"""The growth benchmark: real turns without a model, whose counts add up at every point of the curves."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from benchmarks import scale
from benchmarks.scale import FolderPoint, GrowthPlan, Point, Turn


def test_conversations_and_folders_grow_to_what_was_asked_for(models: Path) -> None:
    plan = GrowthPlan(str(models / "qwen3")).quick()
    measured = scale.run(plan, lambda _: None, lambda _: None).as_json()
    long, wide, folders = measured["long"], measured["wide"], measured["folders"]
    assert [1, 4, 8, 16] == [point["turns"] for point in long]
    assert [1, 2, 4] == [point["turns"] for point in wide]
    steps = {
        (after["tokens"] - before["tokens"]) // (after["turns"] - before["turns"])
        for before, after in pairwise(long)
    }
    assert all(80 <= step <= 400 for step in steps), steps
    # Every branch is as long as the others.
    assert 1 == len({point["tokens"] for point in wide})
    assert [(1, 2), (2, 10), (20, 100)] == [(point["sessions"], point["segments"]) for point in folders]
    times = [point["turn"] for point in (*long, *wide)] + [{**point, "sessions": 1} for point in folders]
    assert all(value > 0 for each in times for value in each.values())


def test_the_tables_have_a_row_or_a_column_for_each_point() -> None:
    point = Point(2, 200, Turn(0.04, 0.01, 0.001, 0.02, 0.03), 0.1, 0.002, 1 << 20)
    folders = scale.folder_table([FolderPoint(10, 100, *[0.01] * 7)] * 3)
    long = scale.conversation_table("Long", "turns", [point] * 4)
    assert 4 == len(long.rows)
    row = ("2", "200", "40 ms", "10 ms", "1 ms", "20 ms", "30 ms", "100 ms", "2 ms", "1.0 MB")
    assert row == long.rows[0]
    for table in (long, folders):
        assert {len(table.columns)} == {len(row) for row in table.rows}


def test_each_table_is_shown_as_soon_as_it_is_there(models: Path) -> None:
    told: list[str] = []
    plan = GrowthPlan(str(models / "qwen3"), turns=2, branches=2, sessions=1, segments=2)
    scale.run(plan, told.append, lambda table: told.append(table.title))
    folder = "1 sessions and 2 segments in one folder …"
    assert [
        "2 turns of one session …",
        "One session that grows long",
        "2 branches at one place …",
        "Branches at one place",
        *[folder] * 3,
        "A folder that fills",
    ] == told


def test_quick_is_small() -> None:
    plan = GrowthPlan("pocket").quick()
    assert plan.turns <= 16 and plan.segments <= 100
