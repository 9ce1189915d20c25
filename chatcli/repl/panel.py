"""A turn's numbers as a panel and as a table; refuses to know where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chatcli.events import TurnRecord
from chatcli.plain import clean_line, file_size
from chatcli.repl import results

ACCENT = "cyan"
DIM = "dim"
BAR_WIDTH = 28
LINE_BAR = 10
# Less time than this (seconds) is not worth telling that it was saved.
LEAST_SAVED = 0.05
# A table of turns in a terminal of this many columns has them all, and a longer bar.
WIDE = 110
WIDE_ONLY = ("settled", "tok/s")
STATS_BAR = 24
CONTEXT_BAR = 40


def hit_line(record: TurnRecord, width: int) -> RenderableType:
    """The turn in one line; what matters least is left out where the line is too short."""
    shares = (record.reused_tokens - record.drafted_tokens, record.drafted_tokens)
    line = Text.assemble(
        "  ", bar(shares, record.prompt_tokens, LINE_BAR),
        (f" {record.hit_ratio:.1%} reused", "green" if shares[0] else ACCENT if shares[1] else DIM),
    )  # fmt: skip
    for part in _line_parts(record):
        if line.cell_len + len(part) + 3 < width:
            line.append(f" · {part}", DIM)
    if not record.miss_reason:
        return line
    return Group(line, Text(f"  why: {clean_line(record.miss_reason)}", style="yellow"))


def _line_parts(record: TurnRecord) -> list[str]:
    drafted = [f"{record.drafted_tokens:,} drafted"] if record.drafted_tokens else []
    return [*drafted, f"{record.prefilled_tokens:,} prefilled", *_times(record)]


def hit_panel(record: TurnRecord, width: int = 80) -> RenderableType:
    """The turn in one glance: what was reused, what was run, how long it took, what was written."""
    shares = (record.reused_tokens - record.drafted_tokens, record.drafted_tokens)
    first = Text.assemble(
        bar(shares, record.prompt_tokens, BAR_WIDTH // 2 if record.drafted_tokens else BAR_WIDTH),
        (f" {record.hit_ratio:.1%} reused", "bold green" if record.reused_tokens else "bold"),
        f"  {_counts(record)}",
    )
    lines = [first, Text(" · ".join(_times(record)), style=DIM)]
    if record.miss_reason:
        lines.append(Text(f"why: {clean_line(record.miss_reason)}", style="yellow"))
    title = Text(f"turn {record.turn}", style=DIM)
    return Panel(
        Group(*lines),
        title=title,
        title_align="left",
        box=box.ROUNDED,
        border_style=DIM,
        expand=False,
    )


def _counts(record: TurnRecord) -> str:
    """Drafted tokens are told apart: they were run ahead of time, not found."""
    counts = [f"{record.reused_tokens - record.drafted_tokens:,} reused"]
    counts += [f"{record.drafted_tokens:,} drafted"] if record.drafted_tokens else []
    return " · ".join([*counts, f"{record.prefilled_tokens:,} prefilled"])


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
        *([f"saved {seconds(saved)}"] if saved >= LEAST_SAVED else []),
        f"first token {seconds(first)}" if first is not None else "no token",
        f"{record.generation_tps:.0f} tok/s",
        f"{file_size(record.checkpoint_bytes)} written",
    ]


def seconds(value: float) -> str:
    """A duration as a person reads it: 3 ms, 0.21 s, 12 s, 3 min."""
    if value < 0.0995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.2g} s"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


@dataclass(frozen=True)
class StatsTable:
    """A bar and the numbers of each turn; a narrow terminal gets a short bar and fewer columns."""

    turns: Sequence[tuple[int, Mapping[str, Any]]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        table = Table(box=None, header_style=DIM, padding=(0, 2, 0, 0))
        table.add_column("turn", justify="right")
        table.add_column("hit ratio", no_wrap=True)
        cells = [_stat_cells(record) for _, record in self.turns]
        columns = [name for name in cells[0] if wide or name not in WIDE_ONLY]
        for name in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for (number, record), row in zip(self.turns, cells, strict=True):
            ratio = _stat_bar(record, STATS_BAR if wide else STATS_BAR // 4)
            table.add_row(str(number), ratio, *(row[name] for name in columns))
        yield table


def context_table(result: results.Context) -> RenderableType:
    """Where the tokens are, as bars of the whole context."""
    table = Table.grid(padding=(0, 2, 0, 0))
    used = sum(tokens for _, tokens in result.parts)
    for what, tokens in [*result.parts, ("free", max(result.limit - used, 0))]:
        style = "bright_black" if what == "free" else "green"
        full = round(tokens / max(result.limit, 1) * CONTEXT_BAR)
        table.add_row(Text(what), f"{tokens:,}", Text("━" * max(full, 1 if tokens else 0), style))
    table.columns[1].justify = "right"
    share = used / max(result.limit, 1)
    return Group(table, Text(f"{used:,} of {result.limit:,} tokens, {share:.1%}", style=DIM))


def stats(result: results.Stats) -> RenderableType:
    return StatsTable(result.turns) if result.turns else Text("No turns yet.")


def _stat_bar(record: Mapping[str, Any], width: int) -> Text:
    drafted = record.get("drafted_tokens", 0)
    shares = (record.get("reused_tokens", 0) - drafted, drafted)
    ratio = float(record.get("hit_ratio", 0))
    return Text.assemble(bar(shares, record.get("prompt_tokens", 0), width), f" {ratio:.1%}")


def _stat_cells(record: Mapping[str, Any]) -> dict[str, str]:
    drafted, first = record.get("drafted_tokens", 0), record.get("time_to_first_token")
    return {
        "reused": f"{record.get('reused_tokens', 0) - drafted:,}",
        "drafted": f"{drafted:,}",
        "prefilled": f"{record.get('prefilled_tokens', 0):,}",
        "settled": f"{record.get('settled_tokens', 0):,}",
        "saved": seconds(record.get("avoided_seconds", 0)),
        "first": seconds(first) if first is not None else "–",
        "tok/s": f"{record.get('generation_tps', 0):.0f}",
        "written": file_size(record.get("checkpoint_bytes", 0)),
    }
