"""Numbers as the cells of a race's tables, few letters each; refuses to know what was measured."""

from __future__ import annotations

import math
import textwrap
from bisect import bisect_right
from collections.abc import Callable

from chatcli.bench.measure import Spread
from chatcli.bench.standing import Share
from chatcli.text import file_size

NONE = "–"
# Wider headings would take a table beyond 80 columns.
HEADING = 10

Show = Callable[[float], str]


def told(value: float | None, show: Show) -> str:
    return NONE if value is None else show(value)


def share(one: Share) -> str:
    return f"{told(one.ratio, percent)} ({one.reused:,}/{one.prompt:,})" if one.prompt else NONE


def bare_percent(ratio: float) -> str:
    return f"{100 * ratio:.1f}"


def percent(ratio: float) -> str:
    return NONE if math.isnan(ratio) else f"{bare_percent(ratio)} %"


def number(value: float) -> str:
    """About three digits that count, at most four behind the point."""
    return f"{value:,.{4 - bisect_right((0.1, 1, 10, 100), value)}f}"


def seconds(value: float) -> str:
    return f"{number(value)} s"


def times(value: float) -> str:
    return f"{value:,.{2 - bisect_right((10, 100), value)}f}"


def spread(of: Spread | None) -> str:
    """The median (least…most)."""
    return NONE if of is None else f"{times(of.median)} ({times(of.least)}…{times(of.most)})"


def tokens(value: float) -> str:
    return f"{value:,.1f}"


def size(value: float) -> str:
    return file_size(round(value))


def heading(text: str) -> str:
    """In lines, so that the cells below set the width of a column."""
    return "\n".join(textwrap.wrap(text, HEADING, break_long_words=False))
