"""A full-screen reader with search, for a conversation with its thinking or for a command's result."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.styles import Style
from rich.text import Text

from chatcli.conversation.tree import Conversation
from chatcli.text import clean_line
from chatcli.tui.saved import layout_console, portable_entry, question_rows, turn_rows
from chatcli.tui.text.console import fragments
from chatcli.tui.text.fit import fit, portable

STYLE = {"dim": "ansibrightblack", "bad": "ansired"}
# The styles of matches, which are visible without colours.
MATCH, CURRENT_MATCH = "underline bold", "reverse"
# The first that fits.
MEANWHILE_HINTS = (
    "  Esc closes · ↑↓ PgUp PgDn · the reply continues meanwhile",
    "  Esc closes · ↑↓ PgUp PgDn",
)
KEY_HINTS = (
    "  ↑↓ PgUp PgDn Home End · / searches · Ctrl-T, q or Esc closes",
    "  ↑↓ PgUp PgDn · / searches · q closes",
    "  / searches · q closes",
)
SEARCH_HINTS = (
    " · n next, N previous · / searches · Ctrl-T, q or Esc closes",
    " · n next, N previous · q closes",
    " · n next, N back",
)
NO_MATCHES = "No matches"
# Rows that stay in sight above a match.
ROWS_ABOVE_MATCH = 3
# Regular expression for what may separate two words; characters that may begin a row.
BETWEEN_WORDS, EDGE = r"[\s┊▎]+", " ┊▎"


class Row(NamedTuple):
    """A row, and the name of the part that it is in, such as a turn's."""

    text: Text
    part: str = ""


# From a width to the rows, and the first one in sight; None: the end is in sight.
Draw = Callable[[int], tuple[list[Row], int | None]]


class Pager:
    """Shows rows on the whole screen, and lays them out again when the width changes."""

    def __init__(self, draw: Draw, hints: Sequence[str] = KEY_HINTS) -> None:
        self._draw, self._hints = draw, hints
        self._width = self._top = 0
        self._rows: list[Row] = []
        # Where each row begins in the text of all rows.
        self._offsets: list[int] = []
        # The query, its matches in that text (start, end), and the current match.
        self._query = ""
        self._matches: list[tuple[int, int]] = []
        self._current: int | None = None
        self._notice = ""
        self._is_asking = False
        self._buffer = Buffer(multiline=False)
        self.app: Application[None] = self._application()

    def _application(self) -> Application[None]:
        asking = Condition(lambda: self._is_asking)
        text = Window(FormattedTextControl(self.visible_lines, focusable=True), wrap_lines=False)
        query = Window(BufferControl(self._buffer, [BeforeInput("  / ")]), height=1)
        footer = Window(FormattedTextControl(self.footer), height=1)
        root = HSplit([text, ConditionalContainer(query, asking), ConditionalContainer(footer, ~asking)])
        app: Application[None] = Application(
            Layout(root, focused_element=text),
            Style.from_dict(STYLE),
            key_bindings=self._keys(asking),
            full_screen=True,
            erase_when_done=True,
        )
        # Escape alone is a key here.
        app.ttimeoutlen = app.timeoutlen = 0.05
        self._text = text
        return app

    # Drawing

    def visible_lines(self) -> StyleAndTextTuples:
        self._fit()
        console = layout_console(self._width)
        drawn: StyleAndTextTuples = []
        for number in range(self._top, min(self._top + self._height(), len(self._rows))):
            drawn += [*fragments(self._marked(number), console), ("", "\n")]
        return drawn[:-1]

    def _fit(self) -> None:
        """Follow the window's size, and keep the part in sight."""
        width = self.app.output.get_size().columns
        if width != self._width:
            parts, top = [row.part for row in self._rows], self._top
            self._width, (self._rows, start) = width, self._draw(width)
            self._offsets = [0]
            for row in self._rows:
                self._offsets.append(self._offsets[-1] + len(row.text) + 1)
            if parts:
                part = parts[top]
                share = (top - parts.index(part)) / parts.count(part)
                new_parts = [row.part for row in self._rows]
                self._top = new_parts.index(part) + int(share * new_parts.count(part))
            else:
                self._top = len(self._rows) if start is None else start
            self._find()
        self._scroll(0)

    def _height(self) -> int:
        return max(self.app.output.get_size().rows - 1, 1)

    def _scroll(self, rows: int) -> None:
        self._top = max(min(self._top + rows, len(self._rows) - self._height()), 0)

    # Searching

    def search(self, query: str) -> None:
        """Go to the first match from the top row on, wrapping around at the end."""
        self._query, self._notice = clean_line(portable(query)) or self._query, ""
        if self._query:
            self._current = None
            self._find()
            self.next_match(1)

    def _find(self) -> None:
        """Find the query's words, whatever their case, across row breaks too."""
        words = BETWEEN_WORDS.join(map(re.escape, self._query.split()))
        text = "\n".join(row.text.plain for row in self._rows)
        self._matches = [match.span() for match in re.finditer(words, text, re.IGNORECASE)] if words else []
        if self._current is not None and self._current >= len(self._matches):
            self._current = None

    def next_match(self, step: int) -> None:
        """Go to the next match (1) or the previous one (-1)."""
        if not self._query:
            return
        if not self._matches:
            self._notice = NO_MATCHES
            return
        if self._current is None:
            below = bisect_left(self._matches, (self._offsets[self._top], 0))
            self._current = (below if step > 0 else below - 1) % len(self._matches)
        else:
            self._current = (self._current + step) % len(self._matches)
        row = self._row_of(self._current)
        if not self._top <= row < self._top + self._height():
            self._top = row
            self._scroll(-ROWS_ABOVE_MATCH)

    def _row_of(self, match: int) -> int:
        """The row in which a match begins."""
        return bisect_right(self._offsets, self._matches[match][0]) - 1

    def _marked(self, number: int) -> Text:
        """A row with its matches marked."""
        row, offset = self._rows[number].text.copy(), self._offsets[number]
        edge = len(row.plain) - len(row.plain.lstrip(EDGE))
        first = bisect_right(self._matches, offset, key=itemgetter(1))
        for match in range(first, bisect_left(self._matches, (offset + len(row), 0))):
            start, end = (place - offset for place in self._matches[match])
            row.stylize(CURRENT_MATCH if match == self._current else MATCH, max(start, edge), end)
        return row

    # Keys

    def footer(self) -> StyleAndTextTuples:
        """The keys; after a search its outcome too."""
        width = self.app.output.get_size().columns
        if self._notice:
            query = fit(self._query, max(width - len(self._notice) - 8, 1))
            return [("class:bad", fit(f"  {self._notice}: {query}", width - 1))]
        if self._current is None:
            return [("class:dim", _first_fitting("", self._hints, width))]
        where = f"  {self._rows[self._row_of(self._current)].part}".rstrip()
        return [("", where), ("class:dim", _first_fitting(where, SEARCH_HINTS, width)[len(where) :])]

    def _ask(self) -> None:
        self._is_asking, self._notice = True, ""
        self._buffer.reset()
        self.app.layout.focus(self._buffer)

    def _answer(self, search: bool) -> None:
        self._is_asking = False
        self.app.layout.focus(self._text)
        if search:
            self.search(self._buffer.text)

    def _keys(self, asking: Condition) -> KeyBindings:
        keys = KeyBindings()
        # How many rows each key scrolls.
        rows: dict[str, Callable[[], int]] = {
            **dict.fromkeys(("up", "k"), lambda: -1),
            **dict.fromkeys(("down", "j"), lambda: 1),
            **dict.fromkeys(("pageup", "b"), lambda: -self._height()),
            **dict.fromkeys(("pagedown", " "), self._height),
            **dict.fromkeys(("home", "g"), lambda: -len(self._rows)),
            **dict.fromkeys(("end", "G"), lambda: len(self._rows)),
        }
        for key, step in rows.items():
            keys.add(key, filter=~asking)(lambda _, step=step: self._scroll(step()))
        keys.add("/", filter=~asking)(lambda _: self._ask())
        keys.add("n", filter=~asking)(lambda _: self.next_match(1))
        keys.add("N", filter=~asking)(lambda _: self.next_match(-1))
        for key in ("q", "escape", "enter", "c-t", "c-c", "c-d"):
            keys.add(key, filter=~asking, eager=True)(lambda event: event.app.exit())
        keys.add("enter", filter=asking)(lambda _: self._answer(search=True))
        for key in ("escape", "c-c", "c-d", "c-t"):
            keys.add(key, filter=asking, eager=True)(lambda _: self._answer(search=False))
        no_query = asking & Condition(lambda: not self._buffer.text)
        keys.add("backspace", filter=no_query)(lambda _: self._answer(search=False))
        return keys


def _first_fitting(start: str, hints: Sequence[str], width: int) -> str:
    """`start` and the first of `hints` that fits after it. The last column stays free."""
    lines = [start + hint for hint in hints]
    return next((line for line in lines if len(line) < width), start or lines[-1])


def transcript(conversation: Conversation) -> Pager:
    """A reader of a conversation, which begins at the last thinking."""

    def draw(width: int) -> tuple[list[Row], int | None]:
        rows: list[Row] = []
        start = None
        for turn in conversation.turns():
            reply = None if turn.reply is None else portable_entry(turn.reply)
            portable_turn = replace(turn, user=portable_entry(turn.user), reply=reply)
            if reply is not None and reply.message.thinking:
                question = question_rows(portable_turn.user.message.shown, width, f"{turn.number} › ")
                start = len(rows) + len(question)
            drawn = turn_rows(portable_turn, layout_console(width), thinking_shown_by=None)
            rows += [Row(row, f"turn {turn.number:,}") for row in (*drawn, Text())]
        return rows, start

    return Pager(draw)


def result_pager(draw: Callable[[int], str]) -> Pager:
    """A reader of a command's result, which `draw` makes for a number of columns, with escape sequences."""
    return Pager(
        lambda width: ([Row(Text.from_ansi(line)) for line in draw(width).split("\n")], 0),
        MEANWHILE_HINTS,
    )
