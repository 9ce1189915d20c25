"""Plots of a race: reproducible files, and an error sentence where none can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import pytest

from chatcli.bench import plot
from chatcli.bench.contender import Answer, Request
from chatcli.bench.race import Race, Step
from chatcli.bench.report import Outcome
from chatcli.bench.workloads import Workload
from chatcli.errors import UsageError

TURNS = ("turn 1", "turn 2", "turn 3")


def outcome(labels: Sequence[str] = TURNS, first_token_times: Sequence[float] = (1.0,)) -> Outcome:
    """Two contenders; `first_token_times` has one time in seconds for each repeat."""
    steps = [Step(label, Request("", (label,))) for label in labels]
    cold = [[Answer(100, 0, 9.0)] * len(labels)] * len(first_token_times)
    ours = [[Answer(100, 90, seconds)] * len(labels) for seconds in first_token_times]
    race = Race(steps, {"no reuse": cold, "chatcli": ours}, "no reuse")
    return Outcome(Workload("turns", "three turns", steps, 64), "tiny-3b", race)


def draw(path: Path, *outcomes: Outcome) -> bytes:
    plot.draw(outcomes or [outcome()], path)
    return path.read_bytes()


def texts(svg: bytes) -> list[str]:
    """The texts of a plot: matplotlib writes each as a comment before its outlines."""
    lines = [line.strip() for line in svg.decode().splitlines()]
    return [line[5:-4] for line in lines if line.startswith("<!-- ")]


def test_the_same_race_is_the_same_file(tmp_path: Path) -> None:
    assert draw(tmp_path / "a.svg") == draw(tmp_path / "b.svg")
    assert draw(tmp_path / "a.png") == draw(tmp_path / "b.png")


def test_another_race_is_another_file(tmp_path: Path) -> None:
    assert draw(tmp_path / "a.svg") != draw(tmp_path / "b.svg", outcome(first_token_times=[2.0]))


def test_no_date_and_no_version_is_in_the_file(tmp_path: Path) -> None:
    svg, png = draw(tmp_path / "a.svg"), draw(tmp_path / "a.png")
    assert not any(version in svg for version in (b"<dc:date>", matplotlib.__version__.encode()))
    assert matplotlib.__version__.encode() not in png


def test_the_suffix_says_what_is_written(tmp_path: Path) -> None:
    assert draw(tmp_path / "a.png").startswith(b"\x89PNG")
    assert b"<svg" in draw(tmp_path / "a.svg")


def test_a_line_goes_through_the_median_of_the_repeats(tmp_path: Path) -> None:
    single_repeat = draw(tmp_path / "one.svg", outcome(first_token_times=[2.0]))
    assert single_repeat == draw(tmp_path / "three.svg", outcome(first_token_times=[9.0, 1.0, 2.0]))


def test_title_axes_and_legend_name_what_is_drawn(tmp_path: Path) -> None:
    labels = texts(draw(tmp_path / "a.svg"))
    expected = {
        "three turns, tiny-3b",
        "prompt tokens reused (%)",
        "time to first token (s, log scale)",
        "turn",
        "no reuse",
        "chatcli",
    }
    assert expected <= set(labels)


def test_each_outcome_has_two_panels(tmp_path: Path) -> None:
    svg = draw(tmp_path / "a.svg", outcome(), outcome(), outcome())
    assert 6 == svg.count(b'<g id="axes_')


def test_few_requests_of_different_kinds_have_their_labels(tmp_path: Path) -> None:
    labels = texts(draw(tmp_path / "a.svg", outcome(("short, first", "short, again"))))
    assert {"request", "first", "again"} <= {word for text in labels for word in text.split()}


def test_many_requests_of_different_kinds_have_numbers(tmp_path: Path) -> None:
    labels = texts(draw(tmp_path / "a.svg", outcome([f"cold {n}" for n in range(2, 30)])))
    assert "request" in labels
    assert not any("cold" in text for text in labels)


def test_the_users_matplotlib_style_is_neither_used_nor_changed(tmp_path: Path) -> None:
    plain = draw(tmp_path / "plain.svg")
    with matplotlib.rc_context({"axes.facecolor": "red", "svg.hashsalt": "mine"}):
        assert plain == draw(tmp_path / "styled.svg")
        assert ("red", "mine") == tuple(
            matplotlib.rcParams[key] for key in ("axes.facecolor", "svg.hashsalt")
        )


def test_chatcli_always_has_the_same_style_and_all_styles_differ() -> None:
    few, many = plot.styles(["chatcli", "a"]), plot.styles([*"abcdefg", "chatcli"])
    assert few["chatcli"] == many["chatcli"]
    assert 8 == len({style["color"] for style in many.values()})
    assert 8 == len({style["marker"] for style in many.values()})


@pytest.mark.parametrize("name", ["a.pdf", "a", ".svg"])
def test_another_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        plot.draw([outcome()], tmp_path / name)
    assert f"A plot is a .svg or .png file, not '{name}'." == str(raised.value)
    assert [] == list(tmp_path.iterdir())


def test_a_missing_folder_is_an_error_before_anything_is_measured(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with pytest.raises(UsageError) as raised:
        plot.check(folder / "a.svg")
    expected = f"There is no folder {folder}: make it, or choose another place."
    assert expected == str(raised.value)


def test_checking_writes_nothing(tmp_path: Path) -> None:
    plot.check(tmp_path / "a.svg")
    assert [] == list(tmp_path.iterdir())


def test_an_unwritable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.mkdir()
    with pytest.raises(UsageError) as raised:
        plot.draw([outcome()], path)
    assert f"Cannot write {path}: Is a directory. Choose another place." == str(raised.value)


def test_without_matplotlib_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')")
    code = (
        "from pathlib import Path; from chatcli.bench import plot; from chatcli.errors import UsageError\n"
        "try: plot.check(Path('a.svg'))\n"
        "except UsageError as error: print(error)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    assert "Drawing needs matplotlib: pip install 'chatcli[plot]'.\n" == process.stdout
