"""Draws several replies to one question, side by side if the terminal is wide enough."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chatcli.conversation import finish
from chatcli.events import Alternatives, TurnRecord
from chatcli.text import count
from chatcli.tui.saved import layout_console
from chatcli.tui.text.console import ACCENT, DIM, INDENT
from chatcli.tui.text.fit import portable

# The least columns of a terminal that shows replies side by side, and of each reply.
SIDE_BY_SIDE_WIDTH = 100
MIN_WIDTH = 30
GAP = 3
STOPPED = "(stopped: nothing came)"


def renderable(event: Alternatives, width: int) -> RenderableType:
    """The replies with their numbers, and how to choose one."""
    count = len(event.records)
    if not count:
        return Text(STOPPED, DIM)
    columns = 1
    if width >= SIDE_BY_SIDE_WIDTH:
        # As few rows as possible, with about the same number of replies in each.
        rows = -(-count // min(count, width // (MIN_WIDTH + GAP)))
        columns = -(-count // rows)
    table = Table.grid(padding=(0, GAP, 1, 0))
    cell_width = (width - len(INDENT)) // columns - GAP
    for _ in range(columns):
        table.add_column(width=cell_width)
    cells = [_cell(number, record, cell_width) for number, record in enumerate(event.records, start=1)]
    for start in range(0, count, columns):
        table.add_row(*cells[start : start + columns])
    return Group(table, Text(_hint(count), DIM))


def _cell(number: int, record: TurnRecord, width: int) -> RenderableType:
    from chatcli.tui.markdown.stream import rendered

    facts = count("token", len(record.tokens))
    if record.thinking:
        facts += " · thought first"
    if cut := finish.word(record.finish_reason):
        facts += f" · {cut}"
    head = Text(str(number), f"bold {ACCENT}").append(f"  {facts}", f"not bold {DIM}")
    # Every terminal must draw the text in the same columns; one more column stays free.
    return Group(head, *rendered(portable(record.text), layout_console(width + 1), indent=""))


def lines(event: Alternatives) -> str:
    """The replies one after the other, as plain text."""
    if not event.records:
        return f"{STOPPED}\n"
    replies = [f"[{number}] {record.text}\n" for number, record in enumerate(event.records, start=1)]
    return "\n".join([*replies, f"{_hint(len(replies))}\n"])


def _hint(count: int) -> str:
    if count == 1:
        return "Only one reply came."
    others = "2 and Enter chooses the other" if count == 2 else f"2 to {count} and Enter chooses another"
    return f"1 is chosen; {others}."
