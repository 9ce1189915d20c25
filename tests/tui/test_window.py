"""The shell in windows of other sizes: a narrow one, and one that changes while a reply comes."""

from __future__ import annotations

import io
import re
from pathlib import Path

import mlx.core as mx
import pytest
from rich.console import Console

from chatcli.events import TurnRecord
from chatcli.text import duration, percent
from chatcli.tui.render.panel import hit_line
from tests.support.families import at_night
from tests.support.program import Program
from tests.support.shell import BUSY, CLOSED_ONCE, PANEL, ready, turns_of
from tests.support.terminal import ESCAPE
from tests.support.tiny import OPEN_THINK, restrict_to_tokens, write_model
from tests.support.window import Window, command_output, leave_window, send_line


def typist(folder: Path, space: int | str = 0x20) -> Path:
    """A model that thinks, then says words of a, b and c; one word if it has no `space`."""
    model = write_model(folder, "gpt_oss", template=OPEN_THINK)
    restrict_to_tokens(model, ["a", space, "b", "</think>", "c", space])
    path = model / "model.safetensors"
    weights = dict(mx.load(str(path)))
    weights["lm_head.weight"] = weights["lm_head.weight"] * 9
    mx.eval(weights)
    mx.save_safetensors(str(path), weights, {"format": "mlx"})
    return model


def transcript(window: Window) -> str:
    """The letters of the reply's rows, between its thinking and its numbers."""
    text = window.all_text()
    _, _, after = text.partition("Thought for")
    return own_letters(
        re.split(r"\n *(?:╭─ turn|[█░]|\((?:stopped|cut)|\d+ % reused)", after.partition("\n")[2])[0]
    )


def own_letters(text: str) -> str:
    """The typist's own letters: it slips now and then."""
    return re.sub("[^abc]", "", text)


SIZES = [(50, 24), (120, 12), (80, 24)]
MORE_SIZES = [(120, 24), (50, 24), (50, 12), (120, 12), (40, 30), (80, 24)]


def at_rest(window: Window) -> bool:
    """Whether the cursor is at the prompt, and the toolbar alone below it."""
    row = window.prompt_row()
    below = window.text().split("\n")[row + 1 :]
    cursor = window.screen.cursor.y, window.screen.cursor.x
    toolbar = below[0].lstrip().startswith("talk · turn 1") if below else False
    return toolbar and (row, 2) == cursor and not "".join(below[1:])


def resized(program: Program, sizes: list[tuple[int, int]]) -> None:
    args = ("-m", program.model, "-S", "talk", "-n", "4000", "--temp", "1", "--seed", "2", *CLOSED_ONCE)
    with Window(program, "chat", *args) as window:
        window.wait_for(lambda: ready(window))
        window.line("tell me everything")
        window.wait_for(lambda: "Thought for" in window.text() and transcript(window))
        for columns, lines in sizes:
            enough = len(transcript(window)) + columns
            window.resize(columns, lines)
            window.wait_for(lambda enough=enough: len(transcript(window)) > enough)
            # A frame may be read half-way: the toolbar comes last.
            window.wait_for(lambda: BUSY in window.text())
            assert not window.count(PANEL)
        window.send(ESCAPE)
        window.wait_for(lambda: window.count(PANEL) == 1 and ready(window))
        (turn,) = turns_of(program, "talk")
        assert own_letters(turn["text"]) == transcript(window)
        assert 1 == window.count("› tell me everything") == window.count("Thought for")
        # Settling redraws the toolbar.
        window.wait_for(lambda: at_rest(window))
        leave_window(window)


@pytest.mark.slow
def test_a_window_that_is_resized_while_a_reply_comes_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    resized(Program(tmp_path / "home", typist(tmp_path / "typist")), SIZES)


@pytest.mark.slow
def test_nor_does_one_with_unbroken_text(tmp_path: Path) -> None:
    resized(Program(tmp_path / "home", typist(tmp_path / "typist", space="b")), [*SIZES, *MORE_SIZES])


@pytest.mark.slow
def test_more_sizes_lose_and_double_nothing_either(tmp_path: Path) -> None:
    resized(Program(tmp_path / "home", typist(tmp_path / "typist")), MORE_SIZES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "box", "numbers"),
    [
        at_night(33, "› Say something, or /", "  0 % reused · 0 % prepared"),
        (18, "› Say something", "  0 % reused"),
    ],
)
def test_the_box_and_a_turns_numbers_break_no_row_in_a_narrow_window(
    chatcli: Program, columns: int, box: str, numbers: str
) -> None:
    with Window(chatcli, "-m", chatcli.model, "-n", "4", "--no-typeahead", columns=columns) as window:
        window.wait_for(lambda: ready(window))
        shown = send_line(window, "hello", "% reused").split("\n")
        assert numbers in shown and box in shown, shown
        assert all(row.startswith(("› ", "  ")) for row in shown if row), shown
        leave_window(window)


@pytest.mark.parametrize("columns", [12, 18, 40, 80])
def test_why_a_turn_was_computed_again_is_indented_row_by_row(columns: int) -> None:
    why = "the system prompt is not what it was in the turn before, so nothing of it can be reused"
    drawn = io.StringIO()
    console = Console(file=drawn, width=columns)
    console.print(hit_line(TurnRecord("talk", 1, prompt_tokens=9, miss_reason=why), columns))
    rows = drawn.getvalue().splitlines()
    assert all(row.startswith("  ") and row.strip() and len(row) <= columns for row in rows), rows
    assert " ".join(" ".join(rows).split()).endswith(f"why: {why}")


def unbroken(shown: str) -> str:
    """`shown`, in which no number is cut or goes on in the next row."""
    assert not re.search(r"\d[ │]*\n(?:│ | {0,2})[\d,]", shown), shown
    assert not re.search(r"\d…|…\d", shown), shown
    assert all(len(row) <= 40 for row in shown.split("\n")), shown
    return shown


@pytest.mark.slow
def test_everything_can_be_read_in_forty_columns(chatcli: Program) -> None:
    with Window(chatcli, "-S", "dogs", "--temp", "0", columns=40, lines=30) as window:
        window.wait_for(lambda: ready(window))
        start = " ".join(window.text().split())
        assert "Type a message and press Enter. /help shows the commands, Ctrl-D leaves." in start
        send_line(window, "My dog is called Biscuit and I live in Lisbon.")
        shown = unbroken(send_line(window, "What is my dog called?"))
        first, second = turns_of(chatcli, "dogs")
        reused = percent(second["reused_tokens"], second["prompt_tokens"])
        assert f"  {reused} reused · 0 % prepared · {second['prefilled_tokens']} new" in shown
        assert first["text"] in " ".join(window.text().split()) and len(first["text"]) > 40
        shown = unbroken(command_output(window, "/stats"))
        heading = shown.split("\n")[1].split()
        # How wide the times are decides whether there is room for one.
        assert ["turn", "hit", "ratio", "prompt", "new"] == [name for name in heading if name != "first"]
        for turn, row in zip((first, second), shown.split("\n")[2:], strict=True):
            ratio = percent(turn["reused_tokens"], turn["prompt_tokens"])
            number, bar, *numbers = row.split()
            assert str(turn["turn"]) == number and 6 <= len(bar.rstrip("░")) + bar.count("░")
            counts = [str(turn["prompt_tokens"]), str(turn["prefilled_tokens"])]
            times = duration(turn["time_to_first_token"]).split() if "first" in heading else []
            assert [*ratio.split(), *counts, *times] == numbers
        shown = unbroken(command_output(window, "/context"))
        counts = re.findall(r"^[a-z ]+ ([\d,]+)", shown, re.MULTILINE)
        *_, used, free = [int(count.replace(",", "")) for count in ["0", *counts]]
        assert sum(int(count.replace(",", "")) for count in counts[:4]) + free == 32768 and used
        assert "of 32,768 tokens" in shown and "…" not in shown
        shown = unbroken(command_output(window, "/help"))
        assert "/stats" in shown and "the numbers of all turns" in shown
        for line, rows in {"/tree": "● 2 › What is my dog ca", "/resume": "❯ dogs"}.items():
            window.wait_for(lambda: ready(window))
            window.line(line)
            window.wait_for("Esc leave")
            assert rows in unbroken(window.text())
            window.send(ESCAPE)
            window.wait_for(lambda: "Esc leave" not in window.text() and ready(window))
        leave_window(window)
