"""The toolbar below the box: session, turn, model, how full the context is, background activity."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import wcwidth
from prompt_toolkit.formatted_text import FormattedText

from chatcli.events import Event, PrefixMatched, TextDelta, ThinkingDelta
from chatcli.session.live_chat import LiveChat
from chatcli.text import clean_line, count, percent, shorten
from chatcli.tui.text.console import INDENT
from chatcli.tui.text.fit import fit_name, portable

STYLE = {
    "toolbar": "noreverse ansibrightblack",
    "toolbar.name": "ansicyan",
    "toolbar.amber": "ansiyellow",
    "toolbar.red": "ansired bold",
}
# Shares of the context from which on it is amber, with a hint, and red.
AMBER, RED = 0.7, 0.9
# Tokens from which on a context counts as unlimited.
UNLIMITED_CONTEXT = 1 << 20
# The most columns of a name, its share of a narrow terminal (one of 3), and the least that it keeps.
MAX_NAME_COLUMNS, NAME_SHARE, MIN_NAME_COLUMNS = 32, 3, 14
# The least columns in which the beginning of a longer part is worth showing.
MIN_CUT_COLUMNS = 24
SEPARATOR = " · "
# Columns from which on there is room for numbers of tokens.
TOKENS_COLUMNS = 60


class Part(NamedTuple):
    """A part of the toolbar. Parts with a lower `priority` get room first."""

    priority: int
    text: str
    style: str = ""


class TokenMeter:
    """Counts by its events how many tokens of the context the running turn takes; None between turns.

    A reply's tokens are counted as they are shown, so tokens that show nothing are missed.
    """

    def __init__(self) -> None:
        self.tokens: int | None = None
        self._prompt_tokens = 0

    def event(self, event: Event) -> None:
        if isinstance(event, PrefixMatched):
            self.tokens = self._prompt_tokens = event.prompt_tokens
        elif isinstance(event, ThinkingDelta):
            self.tokens = self._prompt_tokens + event.tokens
        elif isinstance(event, TextDelta) and self.tokens is not None:
            self.tokens += 1

    def reset(self) -> None:
        self.tokens = None


def text(chat: LiveChat, busy: bool, turn_tokens: int | None, columns: int) -> FormattedText:
    """Name, turn, model, context and activity, as many of them as fit.

    `turn_tokens` is how much of the context the running turn takes, None without one.
    """
    parts = _parts(chat, busy, turn_tokens, columns)
    name_columns = max(min(MAX_NAME_COLUMNS, columns // NAME_SHARE), 1)
    beside = sum(len(SEPARATOR) + wcwidth.width(part.text) for part in parts)
    left = max(columns - len(INDENT) - 1 - beside, MIN_NAME_COLUMNS)
    name = fit_name(portable(clean_line(chat.session.title)), min(name_columns, left))
    room = columns - len(INDENT) - wcwidth.width(name) - 1
    shown: dict[int, Part] = {}
    for place, part in sorted(enumerate(parts), key=lambda item: item[1].priority):
        part_room = room - len(SEPARATOR)
        if wcwidth.width(part.text) <= part_room or part_room >= MIN_CUT_COLUMNS:
            shown[place] = part._replace(text=shorten(part.text, part_room))
            room = part_room - wcwidth.width(shown[place].text)
    fragments: list[tuple[str, str]] = [("class:toolbar.name", f"{INDENT}{name}")]
    for _, part in sorted(shown.items()):
        fragments += [("", SEPARATOR), (part.style, part.text)]
    return FormattedText(fragments)


def _parts(chat: LiveChat, busy: bool, turn_tokens: int | None, columns: int) -> list[Part]:
    """The parts from left to right."""
    parts: list[Part] = []
    if busy and not chat.model.loading:
        parts.append(Part(0, "Esc stops"))
    session, background = chat.session, chat.background
    if images := len(session.images):
        parts.append(Part(1, f"{count('image', images)} attached"))
    if (edit := session.editing) is not None:
        parts.append(Part(2, f"editing turn {edit.turn}, Esc cancels"))
    # Read once: a command on another thread may open another session meanwhile.
    elif turns := (conversation := session.log.conversation).turn_count():
        branches = conversation.branch_count()
        parts.append(Part(2, f"turn {turns}" + (f", {branches} branches" if branches > 1 else "")))
    model = [Part(3, portable(clean_line(Path(chat.model.name).name))), *_context(chat, turn_tokens, columns)]
    # A settle that the next message will wait for comes first.
    activity = [Part(0 if background.catching_up else 4, background.activity)] if background.activity else []
    return [*parts, *activity, *model] if background.catching_up else [*parts, *model, *activity]


def _context(chat: LiveChat, turn_tokens: int | None, columns: int) -> list[Part]:
    limit = chat.model.context_size()
    used = turn_tokens if turn_tokens is not None else chat.session.used_tokens()
    if used is None or limit is None:
        return []
    share = used / limit
    style = "class:toolbar.red" if share >= RED else "class:toolbar.amber" if share >= AMBER else ""
    if limit >= UNLIMITED_CONTEXT:
        return [Part(1, count("token", used), style)]
    if columns < TOKENS_COLUMNS:
        return [Part(1, f"{percent(used, limit)} full", style)]
    hint = ", /compact makes room" if share >= AMBER else ""
    return [Part(1, f"{used:,} of {limit:,} tokens{hint}", style)]
