"""A turn's numbers: a panel, a line, and the tables of /stats and /context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chatcli.commands import results
from chatcli.events import TurnRecord
from chatcli.records import ReplyRecord
from chatcli.text import clean_line, count, duration, file_size, percent
from chatcli.tui.text.console import ACCENT, DIM, INDENT
from chatcli.tui.text.wrap import wrap

# The least columns of a terminal for a frame.
NARROW_WIDTH = 60
MAX_PANEL_COLUMNS = 76
# Columns of a panel's frame, on both sides together.
FRAME_COLUMNS = 4
PANEL_BAR, LINE_BAR = 24, 10
# The least columns in which the parts of a bar can be told apart.
MIN_BAR = 6
# The fills of a bar. The characters differ, so that it can be read without colours too.
REUSED, PREPARED, NEW = ("█", "green"), ("▓", ACCENT), ("░", "bright_black")
BAR_FILLS = (REUSED, PREPARED, NEW)
# The least saved seconds that are shown.
MIN_SAVED_SECONDS = 0.05
STATS_BAR = 20
# The columns of the table of turns; a narrow terminal shows the first ones.
STATS_PRIORITY = (
    "prompt",
    "new",
    "first",
    "reused",
    "prepared",
    "saved",
    "written",
    "tok/s",
)
CONTEXT_BAR, MIN_CONTEXT_BAR = 40, 4
GAP = 2

# A table's column: its name and its cells.
Column = tuple[str, list[Text]]


def hit_panel(record: TurnRecord, width: int = 80) -> RenderableType:
    """The turn in a frame: the parts of its prompt, and its times. A narrow terminal gets a line."""
    if width < NARROW_WIDTH:
        return hit_line(record, width)
    columns = min(width - 2 * len(INDENT), MAX_PANEL_COLUMNS)
    room = columns - FRAME_COLUMNS
    numbers = record.numbers()
    lines = _prompt_lines(numbers, room, PANEL_BAR, " " * GAP)
    lines.append(Text(fitting(_times(record), room), DIM))
    lines += [row for reason in reasons(numbers) for row in wrap(Text(reason, "yellow"), room)]
    framed = Panel(
        Group(*lines),
        title=Text(f"turn {record.turn} · hit ratio {hit_ratio(numbers)}", DIM),
        title_align="left",
        box=box.ROUNDED,
        border_style=DIM,
        width=columns,
    )
    return Padding(framed, (0, 0, 0, len(INDENT)), expand=False)


def hit_line(record: TurnRecord, width: int) -> RenderableType:
    """The turn in one line; if that is too short, the least important parts are left out."""
    room = max(width - len(INDENT), 1)
    numbers = record.numbers()
    lines = _prompt_lines(numbers, room, LINE_BAR, " ")
    head = lines[-1].plain
    lines[-1].append(fitting([head, *_times(record)], room)[len(head) :], DIM)
    lines += [Text(reason, "yellow") for reason in reasons(numbers)]
    rows = [row for line in lines for row in wrap(line, room)]
    return Text("\n").join(Text(INDENT) + row for row in rows)


def hit_ratio(record: ReplyRecord) -> str:
    """The reused share of the prompt: 94 %. Unlike `--json`, it excludes tokens prepared after a change."""
    return percent(prompt_counts(record)[0], record.get("prompt_tokens", 0))


def prompt_counts(record: ReplyRecord) -> tuple[int, int, int]:
    """The tokens of a prompt that were reused, prepared and new.

    Prepared tokens were computed while nobody waited: typed ahead, or settled again after a change of the
    prompt. The last reply, which is settled after every turn, counts as reused.
    """
    reused = record.get("reused_tokens", 0)
    again = min(record.get("reused_settled_tokens", 0), reused) if record.get("settle_reason") else 0
    return reused - again, record.get("typeahead_tokens", 0) + again, record.get("prefilled_tokens", 0)


def prompt_parts(record: ReplyRecord) -> list[str]:
    """The three parts of every prompt: 94 % reused, 4 % prepared, 2 new."""
    prompt, unrun = record.get("prompt_tokens", 0), record.get("unrun_tokens", 0)
    _, prepared, new = prompt_counts(record)
    return [
        f"{hit_ratio(record)} reused",
        f"{percent(prepared, prompt)} prepared",
        # A prompt that was stopped has not run all of its new tokens.
        f"{new:,} new" + (f", {new - unrun:,} run" if unrun else ""),
    ]


def _prompt_lines(record: ReplyRecord, width: int, bar_columns: int, gap: str) -> list[Text]:
    """The bar, if there is room for it, and the parts in the bar's colours."""
    parts = prompt_parts(record)
    lines = [Text(line) for line in flow(parts, width)]
    for line in lines:
        for part, (_, style) in zip(parts, BAR_FILLS, strict=True):
            line.highlight_words([part], style)
    bar_columns = min(width - len(gap) - lines[0].cell_len, bar_columns)
    if len(lines) == 1 and bar_columns >= MIN_BAR:
        lines = [Text.assemble(prompt_bar(record, bar_columns), gap, lines[0])]
    return lines


def prompt_bar(record: ReplyRecord, width: int) -> Text:
    """The same three parts as a bar of `width` columns."""
    return bar(prompt_counts(record), width)


def reasons(record: ReplyRecord) -> list[str]:
    """Why less was reused than possible, and what was computed again before this message."""
    missed, settled = record.get("miss_reason"), record.get("settle_reason")
    tokens = count("token", record.get("reused_settled_tokens", 0))
    lines = [f"why: {clean_line(missed)}"] if missed and missed != settled else []
    return lines + ([f"{tokens} prepared while you read: {clean_line(settled)}"] if settled else [])


def _times(record: TurnRecord) -> list[str]:
    """How long the turn took, the most important first."""
    first, saved = record.time_to_first_token, record.avoided_seconds
    accepted = percent(record.draft_accepted_tokens, record.generated_tokens)
    return [
        f"first token {duration(first)}" if first is not None else "no token",
        # Tokens that were settled again were computed a moment ago, and saved nothing.
        *([f"saved {duration(saved)}"] if saved >= MIN_SAVED_SECONDS and not record.settle_reason else []),
        *([f"{record.generation_tps:.0f} tok/s"] if record.generation_tps else []),
        *([f"{accepted} drafted"] if record.draft_model else []),
    ]


def fitting(parts: Sequence[str], width: int) -> str:
    """The first part, and as many of the following as fit, without skipping any."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + len(part) + 3 > width:
            break
        line += f" · {part}"
    return line


def flow(parts: Sequence[str], width: int) -> list[str]:
    """The parts in lines that are broken only between parts."""
    lines = list(parts[:1])
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(part)
    return lines


def bar(parts: Sequence[int], width: int, fills: Sequence[tuple[str, str]] = BAR_FILLS) -> Text:
    """`parts` of a whole as a bar of `width` columns, each drawn with its sign and style of `fills`.

    A part that is not zero has at least one column, so a part fills the bar only if it is the whole.
    """
    whole = max(sum(parts), 1)
    columns = [max(round(part / whole * width), 1) if part else 0 for part in parts]
    largest = columns.index(max(columns)) if any(columns) else len(columns) - 1
    columns[largest] += width - sum(columns)
    return Text.assemble(
        *((sign * length, style) for (sign, style), length in zip(fills, columns, strict=True))
    )


def stats_table(turns: Sequence[tuple[int, ReplyRecord]], width: int) -> Table:
    """A bar and the numbers of each turn; a narrow terminal gets fewer columns and a shorter bar."""
    rows = [_stats_cells(record) for _, record in turns]
    numbers = {name: [Text(row[name]) for row in rows] for name in rows[0]}
    turn_column: Column = ("turn", [Text(str(number)) for number, _ in turns])
    ratios = [hit_ratio(record) for _, record in turns]
    ratio_width = max(map(len, ratios))
    room = width - _width([turn_column]) - GAP - MIN_BAR - 1 - ratio_width
    fitting_columns = set()
    for name in STATS_PRIORITY:
        if (left := room - GAP - _width([(name, numbers[name])])) < 0:
            break
        fitting_columns.add(name)
        room = left
    bar_width = MIN_BAR + max(min(room, STATS_BAR - MIN_BAR), 0)
    bars = [
        Text.assemble(prompt_bar(record, bar_width), f" {ratio:>{ratio_width}}")
        for (_, record), ratio in zip(turns, ratios, strict=True)
    ]
    columns: list[Column] = [turn_column, ("hit ratio", bars)]
    columns += [column for column in numbers.items() if column[0] in fitting_columns]
    table = Table(box=None, header_style=DIM, padding=(0, GAP, 0, 0), pad_edge=False)
    for name, _ in columns:
        table.add_column(name, justify="left" if name == "hit ratio" else "right", no_wrap=True)
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row)
    return table


def stats_notes(turns: Iterable[tuple[int, ReplyRecord]]) -> Iterator[str]:
    """Notes that have no column in the table of turns."""
    for number, record in turns:
        yield from (f"turn {number} · {reason}" for reason in reasons(record))
    yield from speculation(record for _, record in turns)


def _width(columns: Sequence[Column]) -> int:
    widths = [max(len(name), *(cell.cell_len for cell in cells)) for name, cells in columns]
    return sum(widths) + GAP * (len(columns) - 1)


def _stats_cells(record: ReplyRecord) -> dict[str, str]:
    first, saved = record.get("time_to_first_token"), record.get("avoided_seconds", 0)
    reused, prepared, new = prompt_counts(record)
    return {
        "prompt": f"{record.get('prompt_tokens', 0):,}",
        "reused": f"{reused:,}",
        "prepared": f"{prepared:,}",
        "new": f"{new:,}",
        "saved": "–" if record.get("settle_reason") else duration(saved),
        "first": duration(first) if first is not None else "–",
        "tok/s": f"{tps:.0f}" if (tps := record.get("generation_tps", 0)) else "–",
        "written": file_size(record.get("checkpoint_bytes", 0)),
    }


def speculation(records: Iterable[ReplyRecord]) -> list[str]:
    """For each draft model, the share of tokens that it proposed; then how many lookup guesses were right."""
    counts: dict[str, list[int]] = {}
    guessed = right = 0
    for record in records:
        if not record.get("draft_model"):
            guessed += record.get("guessed_tokens", 0)
            right += record.get("accepted_tokens", 0)
        if (model := record.get("draft_model")) and (generated := record.get("generated_tokens", 0)):
            accepted = counts.setdefault(Path(model).name, [0, 0])
            accepted[0] += record.get("draft_accepted_tokens", 0)
            accepted[1] += generated
    return [
        *(
            f"{percent(accepted, generated)} drafted by {clean_line(name)}"
            for name, (accepted, generated) in counts.items()
        ),
        *([f"{right:,} of {guessed:,} guessed tokens were right"] if guessed else []),
    ]


def context_table(result: results.Context, width: int) -> Iterator[RenderableType]:
    """Where the tokens are, as bars of the whole context."""
    used = sum(tokens for _, tokens in result.parts)
    rows = [*result.parts, ("free", max(result.limit - used, 0))]
    labels = [("", [Text(name) for name, _ in rows]), ("", [Text(f"{n:,}") for _, n in rows])]
    bar_width = max(min(CONTEXT_BAR, width - _width(labels) - GAP), MIN_CONTEXT_BAR)
    table = Table.grid(padding=(0, GAP, 0, 0))
    for name, tokens in rows:
        share = Text() if name == "free" else bar([tokens, result.limit - tokens], bar_width, (REUSED, NEW))
        table.add_row(Text(name), Text(f"{tokens:,}", no_wrap=True), share)
    table.columns[1].justify = "right"
    yield table
    share_used = percent(used, result.limit, decimals=1)
    yield Text(f"used: {used:,} of {count('token', result.limit)}, {share_used}", style=DIM)
