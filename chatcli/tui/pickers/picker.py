"""A full-screen list to pick from, which filters as you type and previews the selected row.

Only the rows in sight are drawn, so ten thousand cost no more than ten.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import wcwidth
from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    FormattedTextControl,
    HSplit,
    Layout,
    UIContent,
    UIControl,
    VSplit,
    Window,
)
from prompt_toolkit.layout.processors import AfterInput, BeforeInput, ConditionalProcessor
from prompt_toolkit.styles import Style

from chatcli.errors import ChatcliError
from chatcli.text import UNITS, clean_line, since
from chatcli.tui.text.fit import fit, padded, wrapped

T = TypeVar("T")

# The least columns for a preview beside the list, the least rows for one below it, and for empty lines.
WIDE_COLUMNS, TALL_ROWS, ROOMY_ROWS = 110, 14, 30
# Rows kept in sight above and below the selected one.
SCROLL_MARGIN = 2
# Seconds to wait for the rest of a key's escape sequence.
ESCAPE_DELAY = 0.05
# Columns between two columns of the list.
GAP = 2
AGE_UNITS = (("y", 31_536_000), ("mo", 2_592_000), *UNITS)
STYLE = Style.from_dict(
    {
        "name": "ansicyan",
        "dim": "ansibrightblack",
        "strong": "bold",
        "here": "ansicyan bold",
        "bad": "ansired",
        "selected": "reverse",
    }
)


@dataclass(frozen=True)
class Action:
    """The action of some keys (prompt_toolkit's names); the footer shows `label` and `description`, if any.

    A key that `edits` a line keeps that meaning once there is a filter.
    """

    keys: Sequence[str]
    label: str
    description: str
    run: Callable[[], None]
    edits: bool = False


@dataclass(frozen=True)
class Question:
    """A line to type, or a yes. `accept` may raise `ChatcliError`, whose sentence is then shown."""

    text: str
    accept: Callable[[str], None]
    default: str = ""
    yes_or_no: bool = False


class PickerRows(ABC, Generic[T]):
    """The rows to pick from. All text that it returns is clean and fits."""

    title: str
    enter_label: str
    filter_hint = "type to filter"
    preview_scrolls = True
    # The columns at the right of the rows: name, width, and the least width of a row that shows it.
    COLUMNS: Sequence[tuple[str, int, int]] = ()
    # The picker that shows the rows, once there is one.
    picker: Picker[T] | None = None

    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def line(self, index: int, width: int) -> StyleAndTextTuples:
        """A row of exactly `width` columns."""

    @abstractmethod
    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        """Yield the lines of a row's preview."""

    @abstractmethod
    def filter(self, query: str, selected: int) -> int:
        """Keep the rows that match. Returns the row to select then."""

    @abstractmethod
    def choose(self, index: int) -> T:
        """The result of picking a row. Raises `ChatcliError` if it cannot be picked."""

    @abstractmethod
    def tally(self) -> str:
        """How many rows there are, in words."""

    @abstractmethod
    def empty_text(self, query: str) -> str:
        """The text of an empty list."""

    def columns(self, width: int) -> list[tuple[str, int]]:
        """The names and widths of the columns that a row of this width has room for."""
        return [(name, columns) for name, columns, min_width in self.COLUMNS if width >= min_width]

    def headings(self, width: int) -> str:
        return "".join(" " * GAP + name.rjust(columns) for name, columns in self.columns(width))

    @abstractmethod
    def actions(self, picker: Picker[T]) -> Sequence[Action]: ...

    def on_select(self, index: int) -> None:
        """Called after the row at `index` was selected."""


class Picker(Generic[T]):
    """The state of a list: the selected row, the rows in sight, the question that is asked."""

    def __init__(self, rows: PickerRows[T], selected: int = 0, query: str = "") -> None:
        """`query` is the filter to begin with, to which Esc goes back before it leaves."""
        self.rows, self.first_query = rows, query
        self.selected = selected
        self.question: Question | None = None
        self.notice = ""
        self.query = Buffer(multiline=False, on_text_changed=lambda _: self._filter())
        self.answer = Buffer(multiline=False)
        self.actions, rows.picker = rows.actions(self), self
        self._top = -1
        self._page = 1
        self._preview_top = 0
        self.app: Application[T | None] = _application(self)

    async def run(self) -> T | None:
        """The result of the row that was picked, or None. The terminal is as before when this returns."""

        def begin() -> None:
            self.select(self.selected)
            self.query.document = Document(self.first_query)

        return await self.app.run_async(pre_run=begin)

    @property
    def width(self) -> int:
        """The screen's columns."""
        return self.app.output.get_size().columns

    def refresh(self) -> None:
        self.app.invalidate()

    def select(self, index: int) -> None:
        self.selected = max(0, min(index, self.rows.count() - 1))
        self._preview_top = 0
        if self.rows.count():
            self.rows.on_select(self.selected)
        self.refresh()

    def move(self, rows: int = 0, pages: int = 0) -> None:
        self.select(self.selected + rows + pages * max(self._page - 1, 1))

    def scroll_preview(self, lines: int) -> None:
        self._preview_top = max(self._preview_top + lines, 0)

    def pick(self) -> None:
        if self.rows.count():
            with self.errors_as_notice():
                self.app.exit(result=self.rows.choose(self.selected))

    def leave(self) -> None:
        self.app.exit(result=None)

    def back(self) -> None:
        """Close the question, else go back to the first filter, else leave."""
        if self.question is not None:
            self.close_question()
        elif self.query.text != self.first_query:
            self.query.document = Document(self.first_query)
        else:
            self.leave()

    def ask(self, question: Question) -> None:
        self.question = question
        self.answer.text = question.default
        self.answer.cursor_position = len(question.default)
        if not question.yes_or_no:
            self.app.layout.focus(self.answer)

    def accept_answer(self, answer: str) -> None:
        """Close the question, unless its answer was refused and can be corrected."""
        question = self.question
        with self.errors_as_notice():
            if question is not None:
                question.accept(answer)
            self.close_question()
            return
        if question is not None and question.yes_or_no:
            self.close_question()

    def close_question(self) -> None:
        self.question = None
        self.app.layout.focus(self.query)

    @contextlib.contextmanager
    def errors_as_notice(self) -> Iterator[None]:
        try:
            yield
        except ChatcliError as error:
            self.notice = clean_line(str(error))

    def _filter(self) -> None:
        self.select(self.rows.filter(self.query.text, self.selected))

    def visible_rows(self, width: int, height: int) -> list[StyleAndTextTuples]:
        """The rows in sight, the selected one reversed and at least `SCROLL_MARGIN` from the edges."""
        count = self.rows.count()
        if not count:
            text = clean_line(self.rows.empty_text(self.query.text))
            return [[("class:dim", f"  {line}")] for line in wrapped(text, max(width - 2, 2))]
        self._page = height
        if self._top < 0:
            self._top = self.selected - height // 2
        margin = min(SCROLL_MARGIN, (height - 1) // 2)
        top = max(min(self._top, self.selected - margin), self.selected + margin + 1 - height)
        self._top = max(0, min(top, count - height))
        drawn: list[StyleAndTextTuples] = []
        for index in range(self._top, min(self._top + height, count)):
            line = [*self.rows.line(index, max(width - 3, 0)), ("", " ")]
            if index == self.selected:
                # Without colours, which would become bars when reversed.
                bold = [("bold " if "strong" in part[0] else "") + "class:selected" for part in line]
                plain = [(style, part[1]) for style, part in zip(bold, line, strict=True)]
                drawn.append([("bold class:selected", "❯ "), *plain])
            else:
                drawn.append([("", "  "), *line])
        return drawn

    def visible_preview(self, width: int, height: int) -> list[StyleAndTextTuples]:
        """The lines in sight of the selected row's preview."""
        if not self.rows.count() or width < 8:
            return []
        lines = list(islice(self.rows.preview(self.selected, width - 3, height), self._preview_top + height))
        self._preview_top = max(0, min(self._preview_top, len(lines) - height))
        return [[("", "  "), *line] for line in lines[self._preview_top :]]


class Matcher:
    """Finds the texts that contain every word of a query. They are read at the first query."""

    def __init__(self, texts: Callable[[], Iterable[str]]) -> None:
        self._texts = texts
        self._folded: list[str] | None = None

    def find(self, query: str) -> list[int]:
        """The indices of the texts that match, in order."""
        if self._folded is None:
            self._folded = [text.casefold() for text in self._texts()]
        words = query.casefold().split()
        return [index for index, text in enumerate(self._folded) if all(word in text for word in words)]


def ago(when: float, now: float) -> str:
    """How long ago, in one unit and at most 10 columns; empty if it is not known."""
    if when <= 0:
        return ""
    return since(now - when, AGE_UNITS) or "now"


# The layout, from top to bottom: title, filter, list and preview, footer


class LinesControl(UIControl):
    """Lines that are drawn for the size of their window."""

    def __init__(self, draw: Callable[[int, int], list[StyleAndTextTuples]]) -> None:
        self._draw = draw

    def create_content(self, width: int, height: int) -> UIContent:
        lines = self._draw(width, height)
        return UIContent(lines.__getitem__, len(lines), show_cursor=False)


def _columns() -> int:
    return get_app().output.get_size().columns


def _rows() -> int:
    return get_app().output.get_size().rows


def _beside_width() -> int:
    return _columns() * 2 // 5


def _below_height() -> int:
    return min(max(_rows() // 3, 5), 14)


_is_wide = Condition(lambda: _columns() >= WIDE_COLUMNS)
_is_tall = Condition(lambda: _rows() >= TALL_ROWS)
_is_roomy = Condition(lambda: _rows() >= ROOMY_ROWS)


def _application(picker: Picker[T]) -> Application[T | None]:
    preview = LinesControl(picker.visible_preview)
    beside = [Window(width=1, char="│", style="class:dim"), Window(preview)]
    below = [Window(height=1, char="─", style="class:dim"), Window(preview)]
    rows = [
        _filter_line(picker),
        Window(LinesControl(picker.visible_rows)),
        ConditionalContainer(HSplit(below, height=_below_height), ~_is_wide & _is_tall),
    ]
    root = HSplit(
        [
            Window(LinesControl(lambda width, _: [_header(picker, width)]), height=1),
            ConditionalContainer(Window(height=1), _is_roomy),
            VSplit([HSplit(rows), ConditionalContainer(VSplit(beside, width=_beside_width), _is_wide)]),
            ConditionalContainer(Window(height=1), _is_roomy),
            Window(
                LinesControl(lambda width, _: _footer(picker, width)),
                height=lambda: len(_footer(picker, _columns())),
            ),
        ]
    )
    app: Application[T | None] = Application(
        layout=Layout(root, focused_element=picker.query),
        key_bindings=_keys(picker),
        style=STYLE,
        full_screen=True,
        erase_when_done=True,
    )
    # Escape alone is a key here.
    app.ttimeoutlen = app.timeoutlen = ESCAPE_DELAY

    app.key_processor.before_key_press += lambda _: setattr(picker, "notice", "")
    return app


def _header(picker: Picker[T], width: int) -> StyleAndTextTuples:
    title, tally = f"  {picker.rows.title}", f"{picker.rows.tally()} "
    room = width - wcwidth.width(tally)
    if room < wcwidth.width(title) + 2:
        return [("class:strong", fit(title, width))]
    return [("class:strong", padded(title, room)), ("class:dim", tally)]


def _filter_line(picker: Picker[T]) -> Container:
    """The filter and the headings, or the line that a question asks for."""
    asking = Condition(lambda: picker.question is not None and not picker.question.yes_or_no)
    empty = Condition(lambda: not picker.query.text)
    hint = ConditionalProcessor(AfterInput(picker.rows.filter_hint, style="class:dim"), empty)
    query = BufferControl(picker.query, [BeforeInput("/ ", style="class:name"), hint])

    def headings() -> StyleAndTextTuples:
        width = _columns() - (_beside_width() if _is_wide() else 0)
        return [("class:dim", picker.rows.headings(width - 3) + " ")]

    filtering = VSplit(
        [Window(query), Window(FormattedTextControl(headings), dont_extend_width=True)], height=1
    )
    question = BeforeInput(
        lambda: f"  {picker.question.text} " if picker.question else "", style="class:strong"
    )
    answer = Window(BufferControl(picker.answer, [question]), height=1)
    return HSplit([ConditionalContainer(filtering, ~asking), ConditionalContainer(answer, asking)])


def _footer(picker: Picker[T], width: int) -> list[StyleAndTextTuples]:
    """A whole notice, a question, or as many keys as fit."""
    question, is_filtered = picker.question, bool(picker.query.text)
    if picker.notice:
        return [[("class:bad", f"  {line}")] for line in wrapped(picker.notice, max(width - 3, 2))]
    if question is not None and question.yes_or_no:
        return [[("class:strong", fit(f"  {question.text}", width))]]
    if question is not None:
        keys = [("Enter", "save"), ("Esc", "cancel")]
    else:
        is_first = picker.query.text == picker.first_query
        keys = [("Enter", picker.rows.enter_label), ("Esc", "leave" if is_first else "clear")]
        keys += [
            (action.label, action.description)
            for action in picker.actions
            if action.label and not (action.edits and is_filtered)
        ]
        if picker.rows.preview_scrolls and (_is_wide() or _is_tall()):
            keys.append(("Shift-↑↓", "scroll the text"))
    line: StyleAndTextTuples = []
    for key, description in keys:
        width -= wcwidth.width(key + description) + 3
        if width < 0:
            break
        line += [("", f"  {key}"), ("class:dim", f" {description}")]
    return [line]


def _keys(picker: Picker[T]) -> KeyBindings:
    keys = KeyBindings()
    listing = Condition(lambda: picker.question is None)
    confirming = Condition(lambda: picker.question is not None and picker.question.yes_or_no)
    empty = Condition(lambda: not picker.query.text)

    def bind(
        names: Iterable[str], run: Callable[[], None], when: FilterOrBool = True, eager: bool = False
    ) -> None:
        for name in names:
            keys.add(name, filter=when, eager=eager)(lambda _: run())

    bind(("c-c", "c-d", "<sigint>"), picker.leave)
    bind(("escape",), picker.back)
    bind(("enter",), picker.pick, listing)
    bind(("enter",), lambda: picker.accept_answer(picker.answer.text), ~listing)
    bind(("up", "c-p"), lambda: picker.move(-1), listing)
    bind(("down", "c-n"), lambda: picker.move(1), listing)
    bind(("pageup",), lambda: picker.move(pages=-1), listing)
    bind(("pagedown",), lambda: picker.move(pages=1), listing)
    bind(("home",), lambda: picker.select(0), listing)
    bind(("end",), lambda: picker.select(picker.rows.count() - 1), listing)
    bind(("s-up",), lambda: picker.scroll_preview(-1), listing)
    bind(("s-down",), lambda: picker.scroll_preview(1), listing)
    for action in picker.actions:
        bind(action.keys, action.run, listing & empty if action.edits else listing, eager=True)

    @keys.add("/", filter=listing & empty)
    @keys.add("backspace", filter=listing & empty)
    @keys.add("delete", filter=listing & empty)
    @keys.add("escape", Keys.Any)
    def _(event: KeyPressEvent) -> None:
        """Filtering is always on; nothing to erase rings no bell, and Alt leaves nothing behind."""

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(clean_line(event.data))

    @keys.add(Keys.Any, filter=confirming, eager=True)
    def _(event: KeyPressEvent) -> None:
        if event.data in ("y", "Y"):
            picker.accept_answer("y")
        else:
            picker.close_question()

    return keys
