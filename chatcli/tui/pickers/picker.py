"""A full-screen list to pick from, filtered as one types; refuses to know what its rows stand for.

Only the rows in sight are drawn, and only while they are: ten thousand cost no more than ten.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
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
from prompt_toolkit.utils import get_cwidth

from chatcli.errors import ChatcliError
from chatcli.text import clean_line
from chatcli.tui.text.fit import fit, padded, wrapped

T = TypeVar("T")
Draw = Callable[[int, int], list[StyleAndTextTuples]]

# From these sizes on the selected row's text has a place beside the list, or below it, and then
# there is room for empty lines.
WIDE, TALL, ROOMY = 110, 14, 30
# Rows kept in sight above and below the selected one.
MARGIN = 2
# Seconds to wait for the rest of a key's escape sequence.
ESCAPE_DELAY = 0.05
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
    """A key of a list: prompt_toolkit's names for it, and what the footer says, if anything.

    A key that `edits` a line means that instead once there is a filter.
    """

    keys: Sequence[str]
    shown: str
    does: str
    run: Callable[[], None]
    edits: bool = False


@dataclass(frozen=True)
class Question:
    """A line to type, or a yes. `accept` may raise `ChatcliError`, whose sentence is then shown."""

    text: str
    accept: Callable[[str], None]
    given: str = ""
    yes_or_no: bool = False


class Rows(ABC, Generic[T]):
    """What there is to pick from. All text that it hands out is clean and fits."""

    title: str
    enter: str
    scrolls = True

    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def line(self, index: int, width: int) -> StyleAndTextTuples:
        """A row of exactly `width` columns."""

    @abstractmethod
    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        """The lines of what a row stands for, as many as are asked for."""

    @abstractmethod
    def filter(self, query: str, selected: int) -> int:
        """Keep what matches; the row to select then."""

    @abstractmethod
    def choose(self, index: int) -> T:
        """What picking a row gives. Raises `ChatcliError` if it cannot be picked."""

    @abstractmethod
    def tally(self) -> str:
        """How many there are."""

    @abstractmethod
    def nothing(self, query: str) -> str:
        """What an empty list says."""

    def headings(self, width: int) -> str:
        """Names for the columns at the right of the rows."""
        return ""

    def actions(self, picker: Picker[T]) -> Sequence[Action]:
        return ()

    def rest_on(self, index: int) -> None:
        """The row at `index` is selected now."""


class Picker(Generic[T]):
    """What is selected, what is in sight and what is being asked."""

    def __init__(self, rows: Rows[T], selected: int = 0) -> None:
        self.rows = rows
        self.selected = selected
        self.question: Question | None = None
        self.notice = ""
        self.query = Buffer(multiline=False, on_text_changed=lambda _: self._filter())
        self.answer = Buffer(multiline=False)
        self.actions = rows.actions(self)
        self._top = -1
        self._page = 1
        self._scroll = 0
        self.app: Application[T | None] = _application(self)

    async def run(self) -> T | None:
        """What was picked, or None. The terminal is as before when this returns."""
        return await self.app.run_async(pre_run=lambda: self.select(self.selected))

    @property
    def width(self) -> int:
        """The screen's columns."""
        return self.app.output.get_size().columns

    def refresh(self) -> None:
        self.app.invalidate()

    def select(self, index: int) -> None:
        self.selected = max(0, min(index, self.rows.count() - 1))
        self._scroll = 0
        if self.rows.count():
            self.rows.rest_on(self.selected)
        self.refresh()

    def move(self, rows: int = 0, pages: int = 0) -> None:
        self.select(self.selected + rows + pages * max(self._page - 1, 1))

    def scroll(self, lines: int) -> None:
        """Move the selected row's text."""
        self._scroll = max(self._scroll + lines, 0)

    def pick(self) -> None:
        if self.rows.count():
            with self._told():
                self.app.exit(result=self.rows.choose(self.selected))

    def leave(self) -> None:
        self.app.exit(result=None)

    def back(self) -> None:
        """One step: the question, then the filter, then the list itself."""
        if self.question is not None:
            self.finish()
        elif self.query.text:
            self.query.reset()
            self._filter()
        else:
            self.leave()

    def ask(self, question: Question) -> None:
        self.question = question
        self.answer.text = question.given
        self.answer.cursor_position = len(question.given)
        if not question.yes_or_no:
            self.app.layout.focus(self.answer)

    def reply(self, answer: str) -> None:
        """The answer to the question; one that is refused can be mended."""
        question = self.question
        with self._told():
            if question is not None:
                question.accept(answer)
            self.finish()
            return
        if question is not None and question.yes_or_no:
            self.finish()

    def finish(self) -> None:
        self.question = None
        self.app.layout.focus(self.query)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except ChatcliError as error:
            self.notice = clean_line(str(error))

    def _filter(self) -> None:
        self.select(self.rows.filter(self.query.text, self.selected))

    def drawn(self, width: int, height: int) -> list[StyleAndTextTuples]:
        """The rows in sight."""
        count = self.rows.count()
        if not count:
            text = clean_line(self.rows.nothing(self.query.text))
            return [[("class:dim", f"  {line}")] for line in wrapped(text, max(width - 2, 2))]
        self._keep_in_sight(count, height)
        return [self._row(index, width) for index in range(self._top, min(self._top + height, count))]

    def _keep_in_sight(self, count: int, height: int) -> None:
        self._page = height
        if self._top < 0:
            self._top = self.selected - height // 2
        margin = min(MARGIN, (height - 1) // 2)
        top = max(min(self._top, self.selected - margin), self.selected + margin + 1 - height)
        self._top = max(0, min(top, count - height))

    def _row(self, index: int, width: int) -> StyleAndTextTuples:
        line = [*self.rows.line(index, max(width - 3, 0)), ("", " ")]
        if index != self.selected:
            return [("", "  "), *line]
        # Colours on a reversed line would be bars of colour.
        bold = [("bold " if "strong" in part[0] else "") + "class:selected" for part in line]
        plain = [(style, part[1]) for style, part in zip(bold, line, strict=True)]
        return [("bold class:selected", "❯ "), *plain]

    def previewed(self, width: int, height: int) -> list[StyleAndTextTuples]:
        """The lines in sight of what the selected row stands for."""
        if not self.rows.count() or width < 8:
            return []
        lines = self.rows.preview(self.selected, width - 3, height)
        found = list(islice(lines, self._scroll + height))
        self._scroll = max(0, min(self._scroll, len(found) - height))
        return [[("", "  "), *line] for line in found[self._scroll :]]


class Lines(UIControl):
    """Lines that are made for the size that there is."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def create_content(self, width: int, height: int) -> UIContent:
        lines = self._draw(width, height)
        return UIContent(lines.__getitem__, len(lines), show_cursor=False)


def _application(picker: Picker[T]) -> Application[T | None]:
    app: Application[T | None] = Application(
        layout=Layout(_layout(picker), focused_element=picker.query),
        key_bindings=_keys(picker),
        style=STYLE,
        full_screen=True,
        erase_when_done=True,
    )
    # Escape alone is a key here.
    app.ttimeoutlen = app.timeoutlen = ESCAPE_DELAY

    def forget_notice(_: object) -> None:
        picker.notice = ""

    app.key_processor.before_key_press += forget_notice
    return app


def _layout(picker: Picker[T]) -> Container:
    beside = ConditionalContainer(VSplit([_rule(width=1), _preview(picker)], width=_beside_width), _wide)
    below = ConditionalContainer(
        HSplit([_rule(height=1), _preview(picker)], height=_below_height), ~_wide & _tall
    )
    listed = Window(Lines(picker.drawn))
    return HSplit(
        [
            _line(lambda width: _header(picker, width)),
            ConditionalContainer(Window(height=1), _roomy),
            VSplit([HSplit([_input_line(picker), listed, below]), beside]),
            ConditionalContainer(Window(height=1), _roomy),
            _foot(picker),
        ]
    )


@Condition
def _wide() -> bool:
    return get_app().output.get_size().columns >= WIDE


@Condition
def _tall() -> bool:
    return get_app().output.get_size().rows >= TALL


@Condition
def _roomy() -> bool:
    return get_app().output.get_size().rows >= ROOMY


def _beside_width() -> int:
    return get_app().output.get_size().columns * 2 // 5


def _below_height() -> int:
    return min(max(get_app().output.get_size().rows // 3, 5), 14)


def _rule(width: int | None = None, height: int | None = None) -> Window:
    return Window(width=width, height=height, char="│" if width else "─", style="class:dim")


def _preview(picker: Picker[T]) -> Window:
    return Window(Lines(picker.previewed))


def _line(draw: Callable[[int], StyleAndTextTuples]) -> Window:
    return Window(Lines(lambda width, _: [draw(width)]), height=1)


def _foot(picker: Picker[T]) -> Window:
    def height() -> int:
        return len(_footer(picker, get_app().output.get_size().columns))

    return Window(Lines(lambda width, _: _footer(picker, width)), height=height)


def _input_line(picker: Picker[T]) -> Container:
    """The filter; while a line is asked for, that line."""
    asking = Condition(lambda: picker.question is not None and not picker.question.yes_or_no)
    empty = Condition(lambda: not picker.query.text)
    hint = ConditionalProcessor(AfterInput("type to filter", style="class:dim"), empty)
    question = BeforeInput(
        lambda: f"  {picker.question.text} " if picker.question else "", style="class:strong"
    )
    query = BufferControl(picker.query, [BeforeInput("/ ", style="class:name"), hint])
    filtering = VSplit([Window(query), _headings(picker)], height=1)
    answer = Window(BufferControl(picker.answer, [question]), height=1)
    return HSplit([ConditionalContainer(filtering, ~asking), ConditionalContainer(answer, asking)])


def _headings(picker: Picker[T]) -> Window:
    def text() -> StyleAndTextTuples:
        columns = get_app().output.get_size().columns
        width = columns - _beside_width() if _wide() else columns
        return [("class:dim", picker.rows.headings(width - 3) + " ")]

    return Window(FormattedTextControl(text), dont_extend_width=True)


def _header(picker: Picker[T], width: int) -> StyleAndTextTuples:
    title, tally = f"  {picker.rows.title}", f"{picker.rows.tally()} "
    room = width - get_cwidth(tally)
    if room < get_cwidth(title) + 2:
        return [("class:strong", fit(title, width))]
    return [("class:strong", padded(title, room)), ("class:dim", tally)]


def _footer(picker: Picker[T], width: int) -> list[StyleAndTextTuples]:
    """A notice, whole; a question; or the keys, as many as fit."""
    question = picker.question
    if picker.notice:
        return [[("class:bad", f"  {line}")] for line in wrapped(picker.notice, max(width - 3, 2))]
    if question is not None and question.yes_or_no:
        return [[("class:strong", fit(f"  {question.text}", width))]]
    return [_keys_of(picker, width)]


def _keys_of(picker: Picker[T], width: int) -> StyleAndTextTuples:
    question = picker.question
    keys = [("Enter", picker.rows.enter), ("Esc", "clear" if picker.query.text else "leave")]
    filtered = bool(picker.query.text)
    usable = [one for one in picker.actions if one.shown and not (one.edits and filtered)]
    keys += [(action.shown, action.does) for action in usable]
    if question is not None:
        keys = [("Enter", "keep"), ("Esc", "never mind")]
    elif picker.rows.scrolls and (_wide() or _tall()):
        keys.append(("Shift-↑↓", "scroll the text"))
    return _key_list(keys, width)


def _key_list(keys: Sequence[tuple[str, str]], width: int) -> StyleAndTextTuples:
    line: StyleAndTextTuples = []
    for key, does in keys:
        width -= get_cwidth(key + does) + 3
        if width < 0:
            break
        line += [("", f"  {key}"), ("class:dim", f" {does}")]
    return line


def _keys(picker: Picker[T]) -> KeyBindings:
    keys = KeyBindings()
    listing = Condition(lambda: picker.question is None)
    confirming = Condition(lambda: picker.question is not None and picker.question.yes_or_no)
    _bind(keys, ("c-c", "c-d", "<sigint>"), picker.leave)
    _bind(keys, ("escape",), picker.back)
    _bind(keys, ("enter",), picker.pick, listing)
    _bind(keys, ("enter",), lambda: picker.reply(picker.answer.text), ~listing)
    for names, move in _moves(picker).items():
        _bind(keys, names, move, listing)
    empty = Condition(lambda: not picker.query.text)
    for action in picker.actions:
        when = listing & empty if action.edits else listing
        for name in action.keys:
            keys.add(name, filter=when, eager=True)(_handler(action.run))

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
            picker.reply("y")
        else:
            picker.finish()

    return keys


def _moves(picker: Picker[T]) -> dict[tuple[str, ...], Callable[[], None]]:
    return {
        ("up", "c-p"): lambda: picker.move(-1),
        ("down", "c-n"): lambda: picker.move(1),
        ("pageup",): lambda: picker.move(pages=-1),
        ("pagedown",): lambda: picker.move(pages=1),
        ("home",): lambda: picker.select(0),
        ("end",): lambda: picker.select(picker.rows.count() - 1),
        ("s-up",): lambda: picker.scroll(-1),
        ("s-down",): lambda: picker.scroll(1),
    }


def _bind(keys: KeyBindings, names: Iterable[str], run: Callable[[], None], when: object = True) -> None:
    for name in names:
        keys.add(name, filter=when)(_handler(run))  # type: ignore[arg-type]


def _handler(run: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda _: run()
