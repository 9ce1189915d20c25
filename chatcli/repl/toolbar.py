"""The line below the box: where the person is, how full the context is, what runs; refuses to know how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.utils import get_cwidth

from chatcli.plain import clean_line, shorten
from chatcli.repl.state import State

STYLE = {
    "toolbar": "noreverse ansibrightblack",
    "toolbar.name": "ansicyan",
    "toolbar.amber": "ansiyellow",
    "toolbar.red": "ansired bold",
}
# Shares of the context from which on it is told in colour.
AMBER, RED = 0.7, 0.9
# The share from which on there are words too, and an unlimited context.
UNLIMITED = 1 << 20
NAME = 32
# Columns in which the beginning of something is worth showing.
LEAST = 24

Parts = list[tuple[str, str]]


def text(state: State, busy: bool, waiting: Sequence[str], columns: int) -> FormattedText:
    """Name, turn, model, context and activity, as many of them as fit."""
    name = shorten(state.name or "new conversation", NAME)
    made: Parts = [("class:toolbar.name", f" {name}")]
    for style, told in _parts(state, busy, waiting):
        room = columns - sum(get_cwidth(part) for _, part in made) - 4
        if get_cwidth(told) <= room or room >= LEAST:
            made += [("", " · "), (style, shorten(told, room))]
    return FormattedText(made)


def _parts(state: State, busy: bool, waiting: Sequence[str]) -> Parts:
    parts: Parts = []
    if waiting:
        parts.append(("class:toolbar.amber", f"{len(waiting)} waiting: {shorten(waiting[0], 24)}"))
    if busy and not state.loading:
        parts.append(("", "Esc stops"))
    parts += [("", place)] if (place := _place(state)) else []
    # What one waits for is told before what fits else.
    activity = [("", state.activity)] if state.activity else []
    model = [("", clean_line(Path(state.model).name)), *_context(state)]
    return [*parts, *activity, *model] if state.catching_up else [*parts, *model, *activity]


def _place(state: State) -> str:
    """The turn, and how many ways on there are in the session."""
    if state.session is None or not (turns := len(state.conversation.turns())):
        return ""
    entries = state.conversation.entries
    ends = len(entries) - len({one.parent for one in entries.values()} - {None})
    return f"turn {turns}" if ends < 2 else f"turn {turns}, {ends} branches"


def _context(state: State) -> Parts:
    found = state.used()
    if found is None:
        return []
    used, limit = found
    share = used / limit
    style = "class:toolbar.red" if share >= RED else "class:toolbar.amber" if share >= AMBER else ""
    if limit >= UNLIMITED:
        return [(style, f"{used:,} tokens")]
    hint = ", /compact makes room" if share >= AMBER else ""
    return [(style, f"{used:,} of {limit:,} tokens{hint}")]
