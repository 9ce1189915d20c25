"""Finished races as a picture: reuse and time to first token by request; refuses to measure.

matplotlib is an extra, so it is imported when something is drawn.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chatcli.bench.contender import Answer
from chatcli.bench.race import Race
from chatcli.bench.report import Outcome
from chatcli.bench.standing import OURS
from chatcli.errors import UsageError

SUFFIXES = (".svg", ".png")
# Inches: the whole width, and the height of one outcome's two panels.
WIDTH, HEIGHT = 10.0, 3.7
# Okabe and Ito's colours: apart for colour-blind eyes too, and dark enough on white. The others'
# marks are hollow and larger, so that they are seen around chatcli's where values are the same.
OURS_STYLE = {
    "color": "#0072B2",
    "marker": "o",
    "linewidth": 2.4,
    "markersize": 4,
    "zorder": 3,
    "markerfacecolor": "#0072B2",
}
STYLES = (
    {"color": "#555555", "marker": "s", "linestyle": "--", "markersize": 7},
    {"color": "#D55E00", "marker": "^", "linestyle": "-.", "markersize": 8},
    {"color": "#009E73", "marker": "D", "linestyle": ":", "markersize": 5},
    {"color": "#CC79A7", "marker": "v", "linestyle": "--", "markersize": 8},
    {"color": "#000000", "marker": "x", "linestyle": "-.", "markersize": 5},
    {"color": "#56B4E9", "marker": "p", "linestyle": ":", "markersize": 8},
    {"color": "#B8860B", "marker": "+", "linestyle": "--", "markersize": 7},
)
LOOKS = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markerfacecolor": "none",
    # The same picture is the same file.
    "svg.hashsalt": "chatcli",
}
# More labels than this under a panel, or longer lines of them, would run into each other.
MOST_LABELS = 7
LABEL, SMALL = 10, 7.5
MOST_MARKS = 20
# Names beside each other in the legend.
LEGEND = 4
# A range of this or less has 1, 2, 5 on its axis, a wider one powers of ten.
NARROW = 1000


def check(path: Path) -> None:
    """Raise `UsageError` where `draw` would: another suffix, no such folder, no matplotlib."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"A plot is a {' or '.join(SUFFIXES)} file, not '{path.name}'.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}: make it, or choose another place.")
    _matplotlib()


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write two panels per outcome to `path`, as its suffix says: .svg or .png.

    The same outcomes are the same bytes. Raises `UsageError`: see `check`; and for a file that
    cannot be written.
    """
    check(path)
    matplotlib = _matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(LOOKS)
        size = WIDTH, HEIGHT * len(outcomes)
        figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
        rows = figure.subfigures(len(outcomes), 1, squeeze=False)[:, 0]
        for row, outcome in zip(rows, outcomes, strict=True):
            _outcome(row, outcome)
        _save(figure, path)


def _matplotlib() -> Any:
    try:
        import matplotlib.figure
    except ImportError:
        raise UsageError("Drawing needs matplotlib: pip install 'chatcli[plot]'.") from None
    return matplotlib


def _save(figure: Any, path: Path) -> None:
    # A date or a version would make another file of the same picture.
    unsaid = ("Date", "Creator") if path.suffix == ".svg" else ("Software",)
    try:
        figure.savefig(path, dpi=150, metadata=dict.fromkeys(unsaid))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"Cannot write {path}: {reason}. Choose another place.") from error


def _outcome(row: Any, outcome: Outcome) -> None:
    row.suptitle(f"{outcome.workload.title}, {outcome.model}", fontweight="bold")
    reuse, first = row.subplots(1, 2)
    _lines(reuse, outcome.race, lambda one: 100 * one.hit_ratio)
    reuse.set(ylabel="prompt tokens reused (%)", ylim=(-4, 104))
    _lines(first, outcome.race, lambda one: one.first)
    first.set(ylabel="time to first token (s, log scale)", yscale="log")
    _logarithmic(first.yaxis)
    handles, labels = reuse.get_legend_handles_labels()
    columns = min(len(labels), LEGEND)
    row.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def _logarithmic(axis: Any) -> None:
    low, high = axis.get_view_interval()
    axis.get_major_locator().set_params(subs=(1, 2, 5) if high <= NARROW * low else (1,))
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_formatter(lambda value, _: "")


def _lines(panel: Any, race: Race, pick: Callable[[Answer], float]) -> None:
    """A line per contender through what `pick` takes of each request; the median of the repeats."""
    count = len(race.steps)
    for name, style in styles(list(race.answers)).items():
        values = [
            statistics.median(pick(one) for one in repeats)
            for repeats in zip(*race.answers[name], strict=True)
        ]
        panel.plot(range(1, count + 1), values, label=name, markevery=_every(count), **style)
    _number(panel, [step.label for step in race.steps])


def _every(count: int) -> int:
    """Every how many requests have a mark."""
    return max(count // MOST_MARKS, 1)


def _number(panel: Any, labels: Sequence[str]) -> None:
    """Requests by number, or by label where these are few and say more than a number."""
    count = len(labels)
    word = labels[0].partition(" ")[0]
    numbered = list(labels) == [f"{word} {number}" for number in range(1, count + 1)]
    beside = max(count / 50, 0.5)
    panel.set(xlabel=word if numbered else "request", xlim=(1 - beside, count + beside))
    panel.xaxis.get_major_locator().set_params(integer=True)
    if not numbered and count <= MOST_LABELS:
        lines = ["\n".join(textwrap.wrap(label, LABEL)) for label in labels]
        panel.set_xticks(range(1, count + 1), lines, fontsize=SMALL)


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How each contender's line looks: chatcli's always the same, the others' by their order."""
    others = iter(range(len(names)))
    return {name: OURS_STYLE if name == OURS else STYLES[next(others) % len(STYLES)] for name in names}
