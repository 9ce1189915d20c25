"""Several replies to one question, side by side where the terminal is wide; refuses to know the prompt."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chatcli.conversation import finish
from chatcli.events import Alternatives, TurnRecord
from chatcli.text import clean
from chatcli.tui.render.panel import ACCENT, DIM

# Columns of a terminal from which replies stand side by side, and those that each takes at least.
WIDE = 100
LEAST = 30
GAP = 3
INDENT = 2
STOPPED = "(stopped: nothing came)"


def drawn(event: Alternatives, width: int) -> RenderableType:
    """The replies with their numbers, and how to choose one."""
    if not event.records:
        return Text(STOPPED, DIM)
    columns = _columns(len(event.records), width)
    table = Table.grid(padding=(0, GAP, 1, 0))
    for _ in range(columns):
        table.add_column(width=(width - INDENT) // columns - GAP)
    cells = [_cell(number, record) for number, record in enumerate(event.records, start=1)]
    for first in range(0, len(cells), columns):
        table.add_row(*cells[first : first + columns])
    return Group(table, Text(_hint(len(cells)), DIM))


def lines(event: Alternatives) -> str:
    """The replies below each other, as plain text."""
    told = [f"[{number}] {record.text}\n" for number, record in enumerate(event.records, start=1)]
    return "\n".join([*told, f"{_hint(len(told))}\n"]) if told else f"{STOPPED}\n"


def _columns(count: int, width: int) -> int:
    """As many as fit, and about as many in each row."""
    if width < WIDE:
        return 1
    rows = -(-count // min(count, width // (LEAST + GAP)))
    return -(-count // rows)


def _cell(number: int, record: TurnRecord) -> RenderableType:
    head = Text(str(number), f"bold {ACCENT}").append(f"  {_facts(record)}", f"not bold {DIM}")
    return Group(head, Text(clean(record.text)))


def _facts(record: TurnRecord) -> str:
    thought = " · thought first" if record.thinking else ""
    cut = finish.word(record.finish_reason)
    return f"{len(record.tokens):,} tokens{thought}{f' · {cut}' if cut else ''}"


def _hint(count: int) -> str:
    if count == 1:
        return "Only one reply came: it goes on."
    return (
        f"1 goes on; 2 to {count} and Enter chooses another."
        if count > 2
        else ("1 goes on; 2 and Enter chooses the other.")
    )
