"""A conversation with its thinking, or a command's result, on the whole screen, to read in and to search."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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

from chatcli.conversation.tree import Conversation, Turn
from chatcli.text import clean_line
from chatcli.tui.saved import layout_console, portable_entry, question_rows, turn_rows
from chatcli.tui.text.fit import fit, portable
from chatcli.tui.text.fragments import fragments

STYLE = {"dim": "ansibrightblack", "bad": "ansired"}
# What was searched for, where it was found, and where it was found first: readable without colours.
MATCH, CURRENT_MATCH = "underline bold", "reverse"
# The first that fits.
MEANWHILE_HINTS = ("  Esc closes · ↑↓ PgUp PgDn · the reply goes on meanwhile", "  Esc closes · ↑↓ PgUp PgDn")
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
# More rows than there are.
ALL_ROWS = 1 << 30


class Place(NamedTuple):
    """A row of a turn, both counted from 0."""

    turn: int
    row: int


class Match(NamedTuple):
    """Where a text was found in a turn: (row, first column, column after the last), one for each row."""

    turn: int
    spans: tuple[tuple[int, int, int], ...]


class Block(NamedTuple):
    """A part of what is shown: its rows at a width, its name, and the text that it has to be searched for."""

    rows: Callable[[int], list[Text]]
    name: str = ""
    text: str | None = None


class Pager:
    """Blocks of rows, such as turns. A block is laid out when it is needed."""

    def __init__(
        self,
        blocks: Sequence[Block],
        start: Callable[[int], Place | None] = lambda _: Place(0, 0),
        hints: Sequence[str] = KEY_HINTS,
    ) -> None:
        """`start` is the first place in sight at a width; None: the end."""
        self._blocks, self._start, self._hints = blocks, start, hints
        self._width = 0
        self._rows: dict[int, list[Text]] = {}
        self._top: Place | None = None
        self._query = ""
        # The matches of each turn that was searched, and the one that was gone to.
        self._matches: dict[int, list[Match]] = {}
        self._current: Match | None = None
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

    # What is in sight

    def visible_lines(self) -> StyleAndTextTuples:
        self._fit()
        console = layout_console(self._width)
        drawn: StyleAndTextTuples = []
        for place, row in self._visible():
            drawn += [*fragments(self._marked(place, row), console), ("", "\n")]
        return drawn[:-1]

    def _fit(self) -> None:
        """Follow the window's size."""
        width = self.app.output.get_size().columns
        if width != self._width:
            top, before = self._top, dict(self._rows)
            self._width, self._rows = width, {}
            if top is not None and top.turn in before:
                share = top.row / max(len(before[top.turn]), 1)
                self._top = Place(top.turn, int(share * len(self._block_rows(top.turn))))
            self._matches, self._current = {}, None
        if self._top is None:
            self._top = self._start(width) or self._last_top()
        self._scroll(0)

    def _block_rows(self, index: int) -> list[Text]:
        if index not in self._rows:
            self._rows[index] = self._blocks[index].rows(self._width)
        return self._rows[index]

    def _visible(self) -> Iterator[tuple[Place, Text]]:
        place, left = self._top or Place(0, 0), self._height()
        for index in range(place.turn, len(self._blocks)):
            rows = self._block_rows(index)
            first = place.row if index == place.turn else 0
            for number, row in enumerate(rows[first : first + left], first):
                yield Place(index, number), row
            left -= max(len(rows) - first, 0)
            if left <= 0:
                return

    def _height(self) -> int:
        return max(self.app.output.get_size().rows - 1, 1)

    def _last_top(self) -> Place:
        """The first row in sight when the last one is."""
        left = self._height()
        for index in range(len(self._blocks) - 1, -1, -1):
            left -= len(self._block_rows(index))
            if left <= 0:
                return Place(index, -left)
        return Place(0, 0)

    def _scroll(self, rows: int) -> None:
        if abs(rows) == ALL_ROWS:
            self._top = self._last_top() if rows > 0 else Place(0, 0)
            return
        turn, row = self._top or Place(0, 0)
        row += rows
        while row < 0 < turn:
            turn -= 1
            row += len(self._block_rows(turn))
        while turn < len(self._blocks) - 1 and row >= len(self._block_rows(turn)):
            row -= len(self._block_rows(turn))
            turn += 1
        self._top = min(Place(turn, max(row, 0)), self._last_top())

    # Searching

    def search(self, query: str) -> None:
        """Go to the first match from the row at the top on; after the last turn comes the first."""
        self._query, self._notice = clean_line(portable(query)) or self._query, ""
        if self._query:
            self._matches, self._current = {}, None
            self.next_match(1)

    def next_match(self, step: int) -> None:
        """Go to the next or the previous match."""
        if not self._query:
            return
        self._current = next(self._matches_from(self._current, step), None)
        if self._current is None:
            self._notice = NO_MATCHES
            return
        place = Place(self._current.turn, self._current.spans[0][0])
        if place not in [visible for visible, _ in self._visible()]:
            self._top = place
            self._scroll(-ROWS_ABOVE_MATCH)

    def _matches_from(self, current: Match | None, step: int) -> Iterator[Match]:
        """The matches after `current`, or before it; without one from the row at the top on, all around."""
        top, count = self._top or Place(0, 0), len(self._blocks)
        start = Match(top.turn, ((top.row, -1, -1),)) if current is None else current
        for offset in range(count + 1):
            matches = self._matches_of((start.turn + step * offset) % count)[::step]
            if offset in (0, count):
                # The turn that it begins in comes first and last, a part of it each time.
                is_later = offset == 0
                matches = [match for match in matches if ((match > start) is (step > 0)) is is_later]
                matches = [match for match in matches if match != start] if is_later else matches
            yield from matches

    def _matches_of(self, turn: int) -> list[Match]:
        """Where a turn's rows say what is searched, whatever the case and wherever they are broken."""
        if turn not in self._matches:
            # Only what may hold it is laid out.
            text = self._blocks[turn].text
            may_match = text is None or _letters(self._query) in _letters(html.unescape(text))
            spans = _spans(self._block_rows(turn), _folded(self._query)) if may_match else ()
            self._matches[turn] = [Match(turn, span) for span in spans]
        return self._matches[turn]

    def _marked(self, place: Place, row: Text) -> Text:
        """A row with the matches in it."""
        if not self._query:
            return row
        marked = row.copy()
        for match in self._matches_of(place.turn):
            for number, start, end in match.spans:
                if number == place.row:
                    marked.stylize(CURRENT_MATCH if match == self._current else MATCH, start, end)
        return marked

    # Keys

    def footer(self) -> StyleAndTextTuples:
        """The keys, below a search what came of it."""
        width = self.app.output.get_size().columns
        if self._notice:
            query = fit(self._query, max(width - len(self._notice) - 8, 1))
            return [("class:bad", fit(f"  {self._notice}: {query}", width - 1))]
        if self._current is None:
            return [("class:dim", _first_fitting("", self._hints, width))]
        where = f"  {self._blocks[self._current.turn].name}".rstrip()
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
        rows = {"up": -1, "k": -1, "down": 1, "j": 1}
        rows |= {"home": -ALL_ROWS, "g": -ALL_ROWS, "end": ALL_ROWS, "G": ALL_ROWS}
        for key, step in rows.items():
            keys.add(key, filter=~asking)(lambda _, step=step: self._scroll(step))
        for key, pages in {"pageup": -1, "b": -1, "pagedown": 1, " ": 1}.items():
            keys.add(key, filter=~asking)(lambda _, pages=pages: self._scroll(pages * self._height()))
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


def _folded(text: str) -> str:
    """In lower case, of the same length."""
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _letters(text: str) -> str:
    """Letters and digits only: Markdown's marks and line breaks may stand between them."""
    return "".join(filter(str.isalnum, _folded(text)))


def _spans(rows: Sequence[Text], words: str) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Where rows say `words`: any white space, and what stands at the edges of rows, is one space."""
    text: list[str] = []
    places: list[Place] = []
    for number, row in enumerate(rows):
        plain = _folded(row.plain)
        edge = len(plain) - len(plain.lstrip(" ┊▎"))
        for column, char in [(edge, " "), *enumerate(plain[edge:], edge)]:
            if char.isspace() and text[-1:] == [" "]:
                continue
            text.append(" " if char.isspace() else char)
            places.append(Place(number, column))
    joined, at = "".join(text), -1
    while (at := joined.find(words, at + 1)) >= 0:
        columns: dict[int, list[int]] = {}
        for row_number, column in places[at : at + len(words)]:
            columns.setdefault(row_number, []).append(column)
        yield tuple((row_number, held[0], held[-1] + 1) for row_number, held in columns.items())
        at += len(words) - 1


def _first_fitting(start: str, hints: Sequence[str], width: int) -> str:
    """`start` and the first of `hints` that fits behind it, without the last column."""
    lines = [start + hint for hint in hints]
    return next((line for line in lines if len(line) < width), start or lines[-1])


def transcript(conversation: Conversation) -> Pager:
    """A conversation, the last thinking in sight first."""
    turns = [
        replace(
            turn,
            user=portable_entry(turn.user),
            reply=None if turn.reply is None else portable_entry(turn.reply),
        )
        for turn in conversation.turns()
    ]

    def last_thinking(width: int) -> Place | None:
        for index in range(len(turns) - 1, -1, -1):
            turn = turns[index]
            if turn.reply is not None and turn.reply.message.thinking:
                question = turn.user.message.shown
                return Place(index, len(question_rows(question, width, f"{turn.number} › ")))
        return None

    return Pager([_block(turn) for turn in turns], last_thinking)


def _block(turn: Turn) -> Block:
    reply = "" if turn.reply is None else f"{turn.reply.message.thinking}\n{turn.reply.message.content}"

    def rows(width: int) -> list[Text]:
        return [*turn_rows(turn, layout_console(width), thinking_shown_by=None), Text()]

    return Block(rows, f"turn {turn.number:,}", f"{turn.number}{turn.user.message.shown}\n{reply}")


async def show_transcript(conversation: Conversation) -> None:
    """Let the person read until they close it."""
    await transcript(conversation).app.run_async()


def result_pager(draw: Callable[[int], str]) -> Pager:
    """A command's result, as `draw` makes it for a number of columns with escape sequences."""

    def rows(width: int) -> list[Text]:
        return [Text.from_ansi(line) for line in draw(width).split("\n")]

    return Pager([Block(rows)], hints=MEANWHILE_HINTS)


async def show_result(draw: Callable[[int], str]) -> None:
    """Let the person read it, while a reply goes on behind it."""
    await result_pager(draw).app.run_async()
