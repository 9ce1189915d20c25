"""A turn's numbers as a panel and as a table; refuses to know where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import (
    Console,
    ConsoleOptions,
    Group,
    JustifyMethod,
    RenderableType,
    RenderResult,
)
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chatcli.commands import results
from chatcli.events import TurnRecord
from chatcli.text import clean_line, file_size
from chatcli.tui.text.styles import ACCENT, DIM, INDENT
from chatcli.tui.text.wrap import wrap

BAR_WIDTH = 28
LINE_BAR, NARROW_LINE_BAR = 10, 6
# A terminal of fewer columns than this has no room to spare for bars.
NARROW = 60
# Less time than this (seconds) is not worth telling that it was saved.
LEAST_SAVED = 0.05
# From this many columns on, a table of turns has all its columns and a longer bar.
WIDE = 110
STATS_BAR, NARROW_STATS_BAR = 20, 6
GAP = 2
# What a table of turns tells, in the order in which a narrow one has room for it.
BY_WEIGHT = (
    "prompt",
    "prefilled",
    "first",
    "reused",
    "drafted",
    "saved",
    "written",
    "tok/s",
    "settled",
)
CONTEXT_BAR, LEAST_CONTEXT_BAR = 40, 4
# A table's column: its name and its cells.
Column = tuple[str, list[Text]]
# What the frame of a panel takes, on both sides.
FRAME = 4


def hit_line(record: TurnRecord, width: int) -> RenderableType:
    """The turn in one line; what matters least is left out where the line is too short."""
    shares = (record.reused_tokens - record.drafted_tokens, record.drafted_tokens)
    drawn = bar(shares, record.prompt_tokens, LINE_BAR if width >= NARROW else NARROW_LINE_BAR)
    line = Text(_hit(record), "green" if shares[0] else ACCENT if shares[1] else DIM)
    room = width - len(INDENT)
    if drawn.cell_len + 1 + line.cell_len <= room:
        line = Text.assemble(drawn, " ", line)
    for part in _line_parts(record):
        if line.cell_len + len(part) + 3 >= room:
            break
        line.append(f" · {part}", DIM)
    if not record.miss_reason:
        return _indented(line, room)
    why = Text(f"why: {clean_line(record.miss_reason)}", style="yellow")
    return Group(_indented(line, room), _indented(why, room))


def _indented(line: Text, room: int) -> Text:
    """A line in rows of so many columns, each of them behind an indent."""
    return Text("\n").join(Text(INDENT) + row for row in wrap(line, max(room, 1)))


def _hit(record: TurnRecord) -> str:
    """Drafted tokens were run ahead of time, so what they are part of was not all reused."""
    return f"{record.hit_ratio:.1%} {'ready' if record.drafted_tokens else 'reused'}"


def _line_parts(record: TurnRecord) -> list[str]:
    """What the line may tell, the most important first."""
    drafted = [f"{record.drafted_tokens:,} drafted"] if record.drafted_tokens else []
    return [*drafted, _prefilled(record), *_times(record)]


def hit_panel(record: TurnRecord, width: int = 80) -> RenderableType:
    """The turn in one glance: what was reused, what was run, how long it took, what was written."""
    shares = (record.reused_tokens - record.drafted_tokens, record.drafted_tokens)
    short = record.drafted_tokens or width < NARROW
    first = Text.assemble(
        bar(shares, record.prompt_tokens, BAR_WIDTH // 2 if short else BAR_WIDTH),
        (f" {_hit(record)}", "bold green" if record.reused_tokens else "bold"),
    )
    counts = Text(" · ".join(_counts(record)))
    if first.cell_len + GAP + counts.cell_len <= width - FRAME:
        first, lines = Text.assemble(first, " " * GAP, counts), []
    else:
        lines = [Text(line) for line in flow(_counts(record), width - FRAME)]
    lines += [Text(line, DIM) for line in flow(_times(record), width - FRAME)]
    lines += [Text(line, DIM) for line in speculation([record.numbers()])]
    if record.miss_reason:
        lines.append(Text(f"why: {clean_line(record.miss_reason)}", style="yellow"))
    return Panel(
        Group(first, *lines),
        title=Text(f"turn {record.turn}", style=DIM),
        title_align="left",
        box=box.ROUNDED,
        border_style=DIM,
        expand=False,
    )


def _counts(record: TurnRecord) -> list[str]:
    """Drafted tokens are told apart: they were run ahead of time, not found."""
    counts = [f"{record.reused_tokens - record.drafted_tokens:,} reused"]
    counts += [f"{record.drafted_tokens:,} drafted"] if record.drafted_tokens else []
    return [*counts, _prefilled(record)]


def _prefilled(record: TurnRecord) -> str:
    """What was run, and of how much where it was stopped."""
    run, wanted = record.prefilled_tokens - record.unrun_tokens, record.prefilled_tokens
    return f"{wanted:,} prefilled" if run == wanted else f"{run:,} of {wanted:,} prefilled"


def flow(parts: Sequence[str], width: int) -> list[str]:
    """The parts in lines that are broken between them only."""
    lines = list(parts[:1])
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines


def bar(shares: Sequence[int], whole: int, width: int) -> Text:
    """Reused, drafted and prefilled parts of a prompt as a bar of one line."""
    ends = [round(sum(shares[:end]) / max(whole, 1) * width) for end in (1, 2)]
    reused, drafted = ends[0], ends[1] - ends[0]
    return Text.assemble(
        ("━" * reused, "green"), ("━" * drafted, ACCENT), ("━" * (width - ends[1]), "bright_black")
    )


def _times(record: TurnRecord) -> list[str]:
    first = record.time_to_first_token
    saved = record.avoided_seconds
    return [
        f"first token {seconds(first)}" if first is not None else "no token",
        *([f"saved {seconds(saved)}"] if saved >= LEAST_SAVED else []),
        f"{record.generation_tps:.0f} tok/s",
        f"{file_size(record.checkpoint_bytes)} written",
    ]


def seconds(value: float) -> str:
    """A duration as a person reads it: 3 ms, 210 ms, 1.2 s, 12 s, 3 min."""
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


@dataclass(frozen=True)
class StatsTable:
    """A bar and the numbers of each turn; a narrow terminal gets a short bar and fewer columns."""

    turns: Sequence[tuple[int, Mapping[str, Any]]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = STATS_BAR if options.max_width >= WIDE else NARROW_STATS_BAR
        fixed = [
            ("turn", [Text(str(number)) for number, _ in self.turns]),
            ("hit ratio", [_stat_bar(record, width) for _, record in self.turns]),
        ]
        rows = [_stat_cells(record) for _, record in self.turns]
        numbers = [(name, [Text(row[name]) for row in rows]) for name in rows[0]]
        table = Table(box=None, header_style=DIM, padding=(0, GAP, 0, 0), pad_edge=False)
        shown = [*fixed, *_fitting(numbers, options.max_width - _width(fixed))]
        for name, _ in shown:
            side: JustifyMethod = "left" if name == "hit ratio" else "right"
            table.add_column(name, justify=side, no_wrap=True)
        for row in zip(*(cells for _, cells in shown), strict=True):
            table.add_row(*row)
        yield table


def _fitting(columns: Sequence[Column], room: int) -> list[Column]:
    """The columns that have a place behind others, in their order; the most important have it first."""
    kept = set()
    for column in sorted(columns, key=lambda column: BY_WEIGHT.index(column[0])):
        if (room := room - GAP - _width([column])) < 0:
            break
        kept.add(column[0])
    return [column for column in columns if column[0] in kept]


def _width(columns: Sequence[Column]) -> int:
    widths = [max(len(name), *(cell.cell_len for cell in cells)) for name, cells in columns]
    return sum(widths) + GAP * (len(columns) - 1)


@dataclass(frozen=True)
class ContextTable:
    """Where the tokens are, as bars of the whole context."""

    result: results.Context

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        limit, parts = self.result.limit, self.result.parts
        used = sum(tokens for _, tokens in parts)
        rows = [*parts, ("free", max(limit - used, 0))]
        names = [("", [Text(what) for what, _ in rows]), ("", [Text(f"{n:,}") for _, n in rows])]
        room = options.max_width - _width(names) - GAP
        bar_width = max(min(CONTEXT_BAR, room), LEAST_CONTEXT_BAR)
        table = Table.grid(padding=(0, GAP, 0, 0))
        for what, tokens in rows:
            style = "bright_black" if what == "free" else "green"
            full = round(tokens / max(limit, 1) * bar_width)
            ratio = Text("━" * max(full, 1 if tokens else 0), style)
            table.add_row(Text(what), Text(f"{tokens:,}", no_wrap=True), ratio)
        table.columns[1].justify = "right"
        yield table
        share = used / max(limit, 1)
        yield Text(f"{used:,} of {limit:,} tokens, {share:.1%}", style=DIM)


def speculation(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """For each draft model that turns had, how many of their tokens it proposed rightly."""
    found: dict[str, list[int]] = {}
    for record in records:
        if (name := record.get("draft_model")) and (made := record.get("generated_tokens", 0)):
            counts = found.setdefault(Path(name).name, [0, 0])
            counts[0] += record.get("draft_accepted_tokens", 0)
            counts[1] += made
    return [
        f"speculation: {right / made:.0%} of tokens from {clean_line(name)}"
        for name, (right, made) in found.items()
    ]


def _stat_bar(record: Mapping[str, Any], width: int) -> Text:
    drafted = record.get("drafted_tokens", 0)
    shares = (record.get("reused_tokens", 0) - drafted, drafted)
    ratio = float(record.get("hit_ratio", 0))
    return Text.assemble(bar(shares, record.get("prompt_tokens", 0), width), f" {ratio:.1%}")


def _stat_cells(record: Mapping[str, Any]) -> dict[str, str]:
    drafted, first = record.get("drafted_tokens", 0), record.get("time_to_first_token")
    return {
        "prompt": f"{record.get('prompt_tokens', 0):,}",
        "reused": f"{record.get('reused_tokens', 0) - drafted:,}",
        "drafted": f"{drafted:,}",
        "prefilled": f"{record.get('prefilled_tokens', 0) - record.get('unrun_tokens', 0):,}",
        "settled": f"{record.get('settled_tokens', 0):,}",
        "saved": seconds(record.get("avoided_seconds", 0)),
        "first": seconds(first) if first is not None else "–",
        "tok/s": f"{record.get('generation_tps', 0):.0f}",
        "written": file_size(record.get("checkpoint_bytes", 0)),
    }
