"""The line below the box: where the person is, how full the context is, what runs; refuses to know how."""

from __future__ import annotations

from pathlib import Path

from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.utils import get_cwidth

from chatcli.events import Event, PrefixMatched, TextDelta, ThinkingDelta
from chatcli.session import editing
from chatcli.session.state import State
from chatcli.text import clean_line, shorten
from chatcli.tui.text.fit import steady

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
# Columns for a name, and as a share of a narrow terminal.
NAME, SHARE = 32, 3
# Columns in which the beginning of something is worth showing.
LEAST = 24
# As the text behind the prompt begins.
INDENT, BETWEEN = "  ", " · "
# From so many columns on there is room for how many tokens there are.
NARROW = 60

# In their order: how early each gets a place (0: first), its style and text.
Parts = list[tuple[int, str, str]]


class Meter:
    """How many tokens the running turn has of the context, by its events; None between turns.

    Replies are counted by what is shown of them, which may miss a token that shows nothing.
    """

    def __init__(self) -> None:
        self.tokens: int | None = None
        self._prompt = 0

    def event(self, event: Event) -> None:
        if isinstance(event, PrefixMatched):
            self.tokens = self._prompt = event.prompt_tokens
        elif isinstance(event, ThinkingDelta):
            self.tokens = self._prompt + event.tokens
        elif isinstance(event, TextDelta) and self.tokens is not None:
            self.tokens += 1

    def reset(self) -> None:
        self.tokens = None


def text(state: State, busy: bool, running: int | None, columns: int) -> FormattedText:
    """Name, turn, model, context and activity, as many of them as fit.

    `running` is how many tokens the turn that runs takes.
    """
    name = shorten(steady(state.name or "new conversation"), max(min(NAME, columns // SHARE), 1))
    room = columns - len(INDENT) - get_cwidth(name) - 1
    shown: dict[int, tuple[str, str]] = {}
    parts = _parts(state, busy, running, columns)
    for place, (_, style, told) in sorted(enumerate(parts), key=lambda part: part[1][0]):
        left = room - len(BETWEEN)
        if get_cwidth(told) <= left or left >= LEAST:
            shown[place] = style, shorten(told, left)
            room = left - get_cwidth(shown[place][1])
    made: list[tuple[str, str]] = [("class:toolbar.name", f"{INDENT}{name}")]
    for place in sorted(shown):
        made += [("", BETWEEN), shown[place]]
    return FormattedText(made)


def _parts(state: State, busy: bool, running: int | None, columns: int) -> Parts:
    parts: Parts = []
    if busy and not state.loading:
        parts.append((0, "", "Esc stops"))
    if state.images:
        parts.append((1, "", f"{len(state.images)} image{'s' * (len(state.images) > 1)} to show"))
    if place := _place(state):
        parts.append((2, "", place))
    model = [(3, "", clean_line(Path(state.model).name)), *_context(state, running, columns)]
    # What one waits for is told before what fits else.
    activity = [(0 if state.catching_up else 4, "", state.activity)] if state.activity else []
    return [*parts, *activity, *model] if state.catching_up else [*parts, *model, *activity]


def _place(state: State) -> str:
    """The turn, and how many ways on there are in the session; or the message that is changed."""
    if (changed := editing.current(state)) is not None:
        return f"changing turn {changed.turn}, Ctrl-C calls it off"
    if state.session is None or not (turns := len(state.conversation.turns())):
        return ""
    entries = state.conversation.entries
    ends = len(entries) - len({one.parent for one in entries.values()} - {None})
    return f"turn {turns}" if ends < 2 else f"turn {turns}, {ends} branches"


def _context(state: State, running: int | None, columns: int) -> Parts:
    limit = state.limit()
    used = running if running is not None else state.used()
    if used is None or limit is None:
        return []
    share = used / limit
    style = "class:toolbar.red" if share >= RED else "class:toolbar.amber" if share >= AMBER else ""
    if limit >= UNLIMITED:
        return [(1, style, f"{used:,} tokens")]
    if columns < NARROW:
        return [(1, style, f"{share:.0%} full")]
    hint = ", /compact makes room" if share >= AMBER else ""
    return [(1, style, f"{used:,} of {limit:,} tokens{hint}")]
