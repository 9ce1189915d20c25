"""Plots of finished races: reuse and time to first token by request.

matplotlib is an optional dependency, so it is imported when something is drawn.
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
# Of the whole picture, and of one outcome's two panels.
WIDTH_INCHES, HEIGHT_INCHES = 10.0, 3.7
# Okabe and Ito's colours: distinct for colour-blind readers too, and dark enough on white. The others'
# markers are hollow and larger, so that they show around chatcli's where values are the same.
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
RC_PARAMS = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markerfacecolor": "none",
    # Makes the file reproducible.
    "svg.hashsalt": "chatcli",
}
# More labels than this under a panel, or longer lines of them, would run into each other.
MAX_LABELS = 7
LABEL_WIDTH, LABEL_POINTS = 10, 7.5
MAX_MARKERS = 20
LEGEND_COLUMNS = 4
# A smaller ratio of an axis' ends has 1, 2, 5 on it, a wider one powers of ten.
NARROW_RANGE = 1000


def check(path: Path) -> None:
    """Raise `UsageError` as `draw` would: for another suffix, a missing folder or no matplotlib."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"A plot is a {' or '.join(SUFFIXES)} file, not '{path.name}'.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}: make it, or choose another place.")
    _matplotlib()


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write two panels per outcome to `path`, in the format of its suffix: .svg or .png.

    The same outcomes give the same bytes. Raises `UsageError` as `check` does, and for a file that
    cannot be written.
    """
    check(path)
    matplotlib = _matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC_PARAMS)
        size = WIDTH_INCHES, HEIGHT_INCHES * len(outcomes)
        figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
        rows = figure.subfigures(len(outcomes), 1, squeeze=False)[:, 0]
        for row, outcome in zip(rows, outcomes, strict=True):
            _outcome(row, outcome)
        # A date or a version would make another file of the same picture.
        omitted = ("Date", "Creator") if path.suffix == ".svg" else ("Software",)
        try:
            figure.savefig(path, dpi=150, metadata=dict.fromkeys(omitted))
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"Cannot write {path}: {reason}. Choose another place.") from error


def _matplotlib() -> Any:
    try:
        import matplotlib.figure
    except ImportError:
        raise UsageError("Drawing needs matplotlib: pip install 'chatcli[plot]'.") from None
    return matplotlib


def _outcome(row: Any, outcome: Outcome) -> None:
    row.suptitle(f"{outcome.workload.title}, {outcome.model}", fontweight="bold")
    reuse, first = row.subplots(1, 2)
    _lines(reuse, outcome.race, lambda answer: 100 * answer.hit_ratio)
    reuse.set(ylabel="prompt tokens reused (%)", ylim=(-4, 104))
    _lines(first, outcome.race, lambda answer: answer.time_to_first_token)
    first.set(ylabel="time to first token (s, log scale)", yscale="log")
    low, high = first.yaxis.get_view_interval()
    first.yaxis.get_major_locator().set_params(subs=(1, 2, 5) if high <= NARROW_RANGE * low else (1,))
    first.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    first.yaxis.set_minor_formatter(lambda value, _: "")
    handles, labels = reuse.get_legend_handles_labels()
    columns = min(len(labels), LEGEND_COLUMNS)
    row.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def _lines(panel: Any, race: Race, value: Callable[[Answer], float]) -> None:
    """A line per contender through each request's `value`, the median of the repeats."""
    count = len(race.steps)
    for name, style in styles(list(race.answers)).items():
        medians = [
            statistics.median(value(answer) for answer in repeats)
            for repeats in zip(*race.answers[name], strict=True)
        ]
        markevery = max(count // MAX_MARKERS, 1)
        panel.plot(range(1, count + 1), medians, label=name, markevery=markevery, **style)
    _label_requests(panel, [step.label for step in race.steps])


def _label_requests(panel: Any, labels: Sequence[str]) -> None:
    """Requests by number, or by label where these are few and say more than a number."""
    count = len(labels)
    word = labels[0].partition(" ")[0]
    numbered = list(labels) == [f"{word} {number}" for number in range(1, count + 1)]
    margin = max(count / 50, 0.5)
    panel.set(xlabel=word if numbered else "request", xlim=(1 - margin, count + margin))
    panel.xaxis.get_major_locator().set_params(integer=True)
    if not numbered and count <= MAX_LABELS:
        lines = ["\n".join(textwrap.wrap(label, LABEL_WIDTH)) for label in labels]
        panel.set_xticks(range(1, count + 1), lines, fontsize=LABEL_POINTS)


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each contender's line style: chatcli's always the same, the others' by their order."""
    others = iter(range(len(names)))
    return {name: OURS_STYLE if name == OURS else STYLES[next(others) % len(STYLES)] for name in names}
