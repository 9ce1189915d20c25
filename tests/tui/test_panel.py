"""A turn's numbers as they are drawn: the same three parts, whatever the width, and a bar that is true."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from chatcli.commands import results
from chatcli.events import TurnRecord
from chatcli.tui.render.panel import bar, hit_line, hit_panel
from chatcli.tui.render.results import renderable

USUAL = TurnRecord(
    "talk",
    3,
    prompt_tokens=90,
    reused_tokens=85,
    typeahead_tokens=4,
    prefilled_tokens=1,
    reused_settled_tokens=43,
    time_to_first_token=0.026,
    avoided_seconds=1.2,
    generation_tps=87,
    checkpoint_bytes=84_000,
)
CHANGED = "the prompt changed at token 41: 'Monday' → 'Tuesday'"


def drawn(result: Any, width: int) -> list[str]:
    """The rows of a renderable in a console of this width, without colours."""
    console = Console(file=io.StringIO(), width=width)
    console.print(result)
    rows = str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]
    assert all(cell_len(row) <= width for row in rows), rows
    return rows


def panel(width: int = 80, **numbers: Any) -> list[str]:
    return drawn(hit_panel(TurnRecord("talk", 3, **numbers), width), width)


def test_the_panel_has_two_lines_at_eighty_columns() -> None:
    top, parts, times, bottom = drawn(hit_panel(USUAL), 80)
    assert top.startswith("  ╭─ turn 3 · hit ratio 94 % ─")
    assert parts == "  │ ██████████████████████▓░  94 % reused · 4 % prepared · 1 new             │"
    assert times == "  │ first token 26 ms · saved 1.2 s · 87 tok/s                               │"
    assert bottom.startswith("  ╰──") and bottom.endswith("──╯")


@pytest.mark.parametrize("width", [60, 79, 120])
def test_the_panel_leaves_out_what_does_not_fit(width: int) -> None:
    rows = drawn(hit_panel(USUAL, width), width)
    assert 4 == len(rows) and 1 == len({len(row) for row in rows})
    assert "94 % reused · 4 % prepared · 1 new" in rows[1] and "first token 26 ms" in rows[2]


def test_a_narrow_terminal_gets_one_line_without_a_frame() -> None:
    assert drawn(hit_panel(USUAL, 59), 59) == drawn(hit_line(USUAL, 59), 59)
    assert ["  ████████▓░ 94 % reused · 4 % prepared · 1 new"] == drawn(hit_panel(USUAL, 59), 59)
    assert ["  94 % reused · 4 % prepared · 1 new"] == drawn(hit_panel(USUAL, 40), 40)


@pytest.mark.parametrize("width", [20, 31, 40, 60, 80])
def test_every_turn_has_the_same_three_parts(width: int) -> None:
    for record in (
        TurnRecord("talk", 1, prompt_tokens=29, prefilled_tokens=29),
        TurnRecord(
            "talk", 2, prompt_tokens=64_444, reused_tokens=64_210, typeahead_tokens=232, prefilled_tokens=2
        ),
        TurnRecord("talk", 3, prompt_tokens=1000, prefilled_tokens=1000, unrun_tokens=744),
    ):
        text = " ".join(" ".join(drawn(hit_panel(record, width), width)).split())
        for part in ("% reused", "% prepared", " new"):
            assert 1 == text.count(part), text


def test_what_was_stopped_says_how_much_was_run() -> None:
    assert "1,000 new, 256 run" in panel(prompt_tokens=1000, prefilled_tokens=1000, unrun_tokens=744)[1]


def test_reasons_have_a_line_each_and_stand_whole_in_the_stats() -> None:
    numbers = {"prompt_tokens": 90, "reused_tokens": 80, "prefilled_tokens": 10}
    rows = panel(
        **numbers, miss_reason="the checkpoints are gone", reused_settled_tokens=70, settle_reason=CHANGED
    )
    assert 7 == len(rows)
    assert "11 % reused · 77 % prepared · 10 new" in rows[1]
    assert rows[3].startswith("  │ why: the checkpoints are gone ")
    assert rows[4].startswith("  │ 70 tokens prepared while you read: the prompt changed at token 41:")
    assert "'Monday' → 'Tuesday'" in rows[5]
    record = TurnRecord("talk", 3, **numbers, reused_settled_tokens=1, settle_reason=CHANGED)
    shown = " ".join(drawn(renderable(results.Stats("talk", [(3, record.numbers())])), 80)[2:])
    assert " ".join(shown.split()) == f"turn 3 · 1 token prepared while you read: {CHANGED}"


@pytest.mark.parametrize("width", [6, 10, 24, 77])
@pytest.mark.parametrize(
    "parts",
    [(0, 0, 0), (0, 0, 9), (9, 0, 0), (64_000, 0, 1), (1, 0, 64_000), (64_000, 1, 1), (1, 1, 1), (5, 7, 0)],
)
def test_the_bar_shows_every_part_that_there_is(parts: tuple[int, int, int], width: int) -> None:
    text = bar(parts, width).plain
    assert width == len(text)
    assert [bool(part) for part in parts] == [glyph in text for glyph in "█▓░"] or not any(parts)
    assert text == "".join(sorted(text, key="█▓░".index))


def test_the_context_bars_are_neither_empty_nor_full() -> None:
    context = results.Context([("system prompt", 1), ("your messages", 32_766)], 32_768)
    first, second, *_ = drawn(renderable(context), 60)
    assert "1  █░" in first and second.endswith("█░")
