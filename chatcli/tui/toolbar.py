"""The line below the box: where the person is, how full the context is, what runs; refuses to know how."""

from __future__ import annotations

from pathlib import Path

from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.utils import get_cwidth

from chatcli.events import Event, PrefixMatched, TextDelta, ThinkingDelta
from chatcli.session.live_chat import LiveChat
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


def text(chat: LiveChat, busy: bool, running: int | None, columns: int) -> FormattedText:
    """Name, turn, model, context and activity, as many of them as fit.

    `running` is how many tokens the turn that runs takes.
    """
    name = shorten(steady(chat.session.name or "new conversation"), max(min(NAME, columns // SHARE), 1))
    room = columns - len(INDENT) - get_cwidth(name) - 1
    shown: dict[int, tuple[str, str]] = {}
    parts = _parts(chat, busy, running, columns)
    for place, (_, style, told) in sorted(enumerate(parts), key=lambda part: part[1][0]):
        left = room - len(BETWEEN)
        if get_cwidth(told) <= left or left >= LEAST:
            shown[place] = style, shorten(told, left)
            room = left - get_cwidth(shown[place][1])
    made: list[tuple[str, str]] = [("class:toolbar.name", f"{INDENT}{name}")]
    for place in sorted(shown):
        made += [("", BETWEEN), shown[place]]
    return FormattedText(made)


def _parts(chat: LiveChat, busy: bool, running: int | None, columns: int) -> Parts:
    parts: Parts = []
    if busy and not chat.model.loading:
        parts.append((0, "", "Esc stops"))
    if images := len(chat.session.images):
        parts.append((1, "", f"{images} image{'s' * (images > 1)} to show"))
    if place := _place(chat):
        parts.append((2, "", place))
    model = [(3, "", clean_line(Path(chat.model.name).name)), *_context(chat, running, columns)]
    # What one waits for is told before what fits else.
    background = chat.background
    activity = [(0 if background.catching_up else 4, "", background.activity)] if background.activity else []
    return [*parts, *activity, *model] if background.catching_up else [*parts, *model, *activity]


def _place(chat: LiveChat) -> str:
    """The turn, and how many ways on there are in the session; or the message that is changed."""
    session = chat.session
    if (edit := session.editing) is not None:
        return f"changing turn {edit.turn}, Ctrl-C calls it off"
    if session.file is None or not (turns := len(session.conversation.turns())):
        return ""
    entries = session.conversation.entries
    ends = len(entries) - len({one.parent for one in entries.values()} - {None})
    return f"turn {turns}" if ends < 2 else f"turn {turns}, {ends} branches"


def _context(chat: LiveChat, running: int | None, columns: int) -> Parts:
    limit = chat.model.context_size()
    used = running if running is not None else chat.session.used_tokens()
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
