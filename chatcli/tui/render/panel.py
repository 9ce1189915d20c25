"""A turn's numbers: a line, a panel, and the tables of /stats and /context."""

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

# A terminal of fewer columns has no room to spare for bars.
NARROW_WIDTH = 60
PANEL_BAR = 28
LINE_BAR, NARROW_LINE_BAR = 10, 6
# Columns that the frame of a panel takes, on both sides.
FRAME_COLUMNS = 4
# Seconds that must have been saved to be worth telling.
MIN_SAVED_SECONDS = 0.05
# Columns from which on a table of turns has all its columns and a longer bar.
WIDE_STATS_WIDTH = 110
STATS_BAR, NARROW_STATS_BAR = 20, 6
# The columns of a table of turns, in the order in which a narrow one has room for them.
STATS_PRIORITY = (
    "prompt",
    "prefilled",
    "first",
    "reused",
    "typed ahead",
    "saved",
    "written",
    "tok/s",
    "settled",
)
CONTEXT_BAR, MIN_CONTEXT_BAR = 40, 4
GAP = 2

# A table's column: its name and its cells.
Column = tuple[str, list[Text]]


def hit_line(record: TurnRecord, width: int) -> RenderableType:
    """The turn in one line; what matters least is left out where the line is too short."""
    room = width - len(INDENT)
    shares = (record.reused_tokens, record.typeahead_tokens)
    line = Text(_hit_ratio(record), "green" if shares[0] else ACCENT if shares[1] else DIM)
    drawn_bar = bar(shares, record.prompt_tokens, LINE_BAR if width >= NARROW_WIDTH else NARROW_LINE_BAR)
    if drawn_bar.cell_len + 1 + line.cell_len <= room:
        line = Text.assemble(drawn_bar, " ", line)
    parts = [f"{record.typeahead_tokens:,} typed ahead"] if record.typeahead_tokens else []
    for part in [*parts, _prefilled(record), *_times(record)]:
        if line.cell_len + len(part) + 3 >= room:
            break
        line.append(f" · {part}", DIM)
    lines = [line]
    if record.miss_reason:
        lines.append(Text(f"why: {clean_line(record.miss_reason)}", style="yellow"))
    rows = [row for line in lines for row in wrap(line, max(room, 1))]
    return Text("\n").join(Text(INDENT) + row for row in rows)


def hit_panel(record: TurnRecord, width: int = 80) -> RenderableType:
    """The turn in one glance: what was reused, what was run, how long it took, what was written."""
    room = width - FRAME_COLUMNS
    shares = (record.reused_tokens, record.typeahead_tokens)
    # Typeahead is counted apart: its tokens were run ahead of time, not found.
    counts = [f"{shares[0]:,} reused"]
    if record.typeahead_tokens:
        counts.append(f"{record.typeahead_tokens:,} typed ahead")
    counts.append(_prefilled(record))
    bar_width = PANEL_BAR // 2 if record.typeahead_tokens or width < NARROW_WIDTH else PANEL_BAR
    first = Text.assemble(
        bar(shares, record.prompt_tokens, bar_width),
        (f" {_hit_ratio(record)}", "bold green" if record.reused_tokens else "bold"),
    )
    count_line = Text(" · ".join(counts))
    if first.cell_len + GAP + count_line.cell_len <= room:
        lines = [Text.assemble(first, " " * GAP, count_line)]
    else:
        lines = [first, *(Text(line) for line in flow(counts, room))]
    lines += [Text(line, DIM) for line in flow(_times(record), room)]
    lines += [Text(line, DIM) for line in speculation([record.numbers()])]
    if record.miss_reason:
        lines.append(Text(f"why: {clean_line(record.miss_reason)}", style="yellow"))
    return Panel(
        Group(*lines),
        title=Text(f"turn {record.turn}", style=DIM),
        title_align="left",
        box=box.ROUNDED,
        border_style=DIM,
        expand=False,
    )


def _hit_ratio(record: TurnRecord) -> str:
    return f"{record.hit_ratio:.1%} reused"


def _prefilled(record: TurnRecord) -> str:
    """How much was run, and of how much where it was stopped."""
    run, needed = record.prefilled_tokens - record.unrun_tokens, record.prefilled_tokens
    return f"{needed:,} prefilled" if run == needed else f"{run:,} of {needed:,} prefilled"


def _times(record: TurnRecord) -> list[str]:
    first, saved = record.time_to_first_token, record.avoided_seconds
    return [
        f"first token {duration(first)}" if first is not None else "no token",
        *([f"saved {duration(saved)}"] if saved >= MIN_SAVED_SECONDS else []),
        f"{record.generation_tps:.0f} tok/s",
        f"{file_size(record.checkpoint_bytes)} written",
    ]


def flow(parts: Sequence[str], width: int) -> list[str]:
    """The parts in lines that are broken between them only."""
    lines = list(parts[:1])
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines


def bar(shares: Sequence[int], total: int, width: int) -> Text:
    """A prompt's reused, typed-ahead and prefilled parts as a bar of `width` columns."""
    ends = [round(sum(shares[:end]) / max(total, 1) * width) for end in (1, 2)]
    reused, typed_ahead = ends[0], ends[1] - ends[0]
    return Text.assemble(
        ("━" * reused, "green"), ("━" * typed_ahead, ACCENT), ("━" * (width - ends[1]), "bright_black")
    )


def duration(seconds: float) -> str:
    """As a person reads it: 3 ms, 210 ms, 1.2 s, 12 s, 3 min."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@dataclass(frozen=True)
class StatsTable:
    """A bar and the numbers of each turn; a narrow terminal gets a short bar and fewer columns."""

    turns: Sequence[tuple[int, Mapping[str, Any]]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar_width = STATS_BAR if options.max_width >= WIDE_STATS_WIDTH else NARROW_STATS_BAR
        columns: list[Column] = [
            ("turn", [Text(str(number)) for number, _ in self.turns]),
            ("hit ratio", [_stats_bar(record, bar_width) for _, record in self.turns]),
        ]
        rows = [_stats_cells(record) for _, record in self.turns]
        numbers = {name: [Text(row[name]) for row in rows] for name in rows[0]}
        room, fitting = options.max_width - _width(columns), set()
        for name in STATS_PRIORITY:
            if (room := room - GAP - _width([(name, numbers[name])])) < 0:
                break
            fitting.add(name)
        columns += [column for column in numbers.items() if column[0] in fitting]
        table = Table(box=None, header_style=DIM, padding=(0, GAP, 0, 0), pad_edge=False)
        for name, _ in columns:
            side: JustifyMethod = "left" if name == "hit ratio" else "right"
            table.add_column(name, justify=side, no_wrap=True)
        for row in zip(*(cells for _, cells in columns), strict=True):
            table.add_row(*row)
        yield table


def _width(columns: Sequence[Column]) -> int:
    widths = [max(len(name), *(cell.cell_len for cell in cells)) for name, cells in columns]
    return sum(widths) + GAP * (len(columns) - 1)


def _stats_bar(record: Mapping[str, Any], width: int) -> Text:
    shares = (record.get("reused_tokens", 0), record.get("typeahead_tokens", 0))
    ratio = float(record.get("hit_ratio", 0))
    return Text.assemble(bar(shares, record.get("prompt_tokens", 0), width), f" {ratio:.1%}")


def _stats_cells(record: Mapping[str, Any]) -> dict[str, str]:
    first = record.get("time_to_first_token")
    return {
        "prompt": f"{record.get('prompt_tokens', 0):,}",
        "reused": f"{record.get('reused_tokens', 0):,}",
        "typed ahead": f"{record.get('typeahead_tokens', 0):,}",
        "prefilled": f"{record.get('prefilled_tokens', 0) - record.get('unrun_tokens', 0):,}",
        "settled": f"{record.get('settled_tokens', 0):,}",
        "saved": duration(record.get("avoided_seconds", 0)),
        "first": duration(first) if first is not None else "–",
        "tok/s": f"{record.get('generation_tps', 0):.0f}",
        "written": file_size(record.get("checkpoint_bytes", 0)),
    }


def speculation(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """For each draft model that turns had, the share of their tokens that it proposed."""
    counts: dict[str, list[int]] = {}
    for record in records:
        if (model := record.get("draft_model")) and (generated := record.get("generated_tokens", 0)):
            count = counts.setdefault(Path(model).name, [0, 0])
            count[0] += record.get("draft_accepted_tokens", 0)
            count[1] += generated
    return [
        f"speculation: {accepted / generated:.0%} of tokens from {clean_line(name)}"
        for name, (accepted, generated) in counts.items()
    ]


@dataclass(frozen=True)
class ContextTable:
    """Where the tokens are, as bars of the whole context."""

    result: results.Context

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        limit, parts = self.result.limit, self.result.parts
        used = sum(tokens for _, tokens in parts)
        rows = [*parts, ("free", max(limit - used, 0))]
        labels = [("", [Text(name) for name, _ in rows]), ("", [Text(f"{n:,}") for _, n in rows])]
        bar_width = max(min(CONTEXT_BAR, options.max_width - _width(labels) - GAP), MIN_CONTEXT_BAR)
        table = Table.grid(padding=(0, GAP, 0, 0))
        for name, tokens in rows:
            style = "bright_black" if name == "free" else "green"
            length = round(tokens / max(limit, 1) * bar_width)
            ratio = Text("━" * max(length, 1 if tokens else 0), style)
            table.add_row(Text(name), Text(f"{tokens:,}", no_wrap=True), ratio)
        table.columns[1].justify = "right"
        yield table
        yield Text(f"{used:,} of {limit:,} tokens, {used / max(limit, 1):.1%}", style=DIM)
