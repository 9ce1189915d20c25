"""A conversation with its thinking on the whole screen, to read in."""

from __future__ import annotations

from collections.abc import Iterator

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.styles import Style

from chatcli.conversation.tree import Conversation, Turn
from chatcli.text import clean
from chatcli.tui.text.fit import wrapped

STYLE = {"question": "ansicyan bold", "thinking": "ansibrightblack italic", "dim": "ansibrightblack"}
THINKING = "class:thinking"
MAX_COLUMNS = 100
# The first that fits.
KEY_HINTS = (
    "  ↑↓ PgUp PgDn Home End · Ctrl-T, q or Esc closes",
    "  Ctrl-T, q or Esc closes · ↑↓ PgUp PgDn",
)
# More rows than any conversation has.
ALL_ROWS = 1 << 30


class Pager:
    """A conversation in lines, with the last thinking in sight first."""

    def __init__(self, conversation: Conversation) -> None:
        self._turns = conversation.turns()
        self._width = 0
        self._lines: list[StyleAndTextTuples] = []
        self._top: int | None = None
        text = Window(FormattedTextControl(self.visible_lines), wrap_lines=False)
        footer = Window(FormattedTextControl(_key_hint), height=1)
        self.app: Application[None] = Application(
            Layout(HSplit([text, footer])),
            Style.from_dict(STYLE),
            key_bindings=self._keys(),
            full_screen=True,
            erase_when_done=True,
        )
        self.app.ttimeoutlen = 0.05

    def visible_lines(self) -> StyleAndTextTuples:
        width = get_app().output.get_size().columns
        if width != self._width:
            self._width = width
            self._lines = [line for turn in self._turns for line in _turn_lines(turn, width)]
        if self._top is None:
            self._top = self._last_thinking()
        self._scroll(0)
        fragments: StyleAndTextTuples = []
        for line in self._lines[self._top : self._top + self._height()]:
            fragments += [*line, ("", "\n")]
        return fragments[:-1]

    def _last_thinking(self) -> int:
        """The line at which the last thinking begins; behind the last line if there is none."""
        is_thinking = [line[0][0] == THINKING for line in self._lines]
        if not any(is_thinking):
            return len(self._lines)
        start = len(is_thinking) - 1 - is_thinking[::-1].index(True)
        while start and is_thinking[start - 1]:
            start -= 1
        return start

    def _height(self) -> int:
        return max(get_app().output.get_size().rows - 1, 1)

    def _scroll(self, rows: int) -> None:
        last_top = max(len(self._lines) - self._height(), 0)
        self._top = min(max((self._top or 0) + rows, 0), last_top)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        rows = {"up": -1, "k": -1, "down": 1, "j": 1}
        rows |= {"home": -ALL_ROWS, "g": -ALL_ROWS, "end": ALL_ROWS, "G": ALL_ROWS}
        for key, step in rows.items():
            keys.add(key)(lambda _, step=step: self._scroll(step))
        for key, pages in {"pageup": -1, "b": -1, "pagedown": 1, " ": 1}.items():
            keys.add(key)(lambda _, pages=pages: self._scroll(pages * self._height()))
        for key in ("q", "escape", "c-t", "c-c", "c-d"):
            keys.add(key, eager=True)(lambda event: event.app.exit())
        return keys


def _turn_lines(turn: Turn, width: int) -> Iterator[StyleAndTextTuples]:
    """A turn in lines of less than `width` columns."""

    def message(mark: str, text: str, style: str, mark_all: bool = False) -> Iterator[StyleAndTextTuples]:
        room = max(min(width, MAX_COLUMNS) - len(mark) - 1, 8)
        for number, line in enumerate(wrapped(clean(text).strip("\n"), room)):
            yield [(style or "class:dim", mark if mark_all or not number else " " * len(mark)), (style, line)]

    yield from message(f"{turn.number} › ", turn.user.message.shown, "class:question")
    if turn.reply is not None:
        if turn.reply.message.thinking:
            yield from message("  ┊ ", turn.reply.message.thinking, THINKING, mark_all=True)
        yield from message("  ", turn.reply.message.content, "")
    yield [("", "")]


def _key_hint() -> StyleAndTextTuples:
    width = get_app().output.get_size().columns
    return [("class:dim", next((hint for hint in KEY_HINTS if len(hint) <= width), KEY_HINTS[-1]))]


async def show_transcript(conversation: Conversation) -> None:
    """Let the person read until they close it."""
    await Pager(conversation).app.run_async()
