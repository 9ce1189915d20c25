"""A conversation on the whole screen with its thinking, to read in; refuses to know how it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.styles import Style

from chatcli.conversation.tree import Conversation, Turn
from chatcli.text import clean
from chatcli.tui.text.fit import wrapped

STYLE = {"asked": "ansicyan bold", "thinking": "ansibrightblack italic", "dim": "ansibrightblack"}
THINKING = "class:thinking"
WIDEST = 100
KEYS = (
    "  ↑↓ PgUp PgDn Home End · Ctrl-T, q or Esc closes",
    "  Ctrl-T, q or Esc closes · ↑↓ PgUp PgDn",
)
LEAST_ROWS = 1


class Pager:
    """Lines of a conversation, the last thinking first in sight."""

    def __init__(self, conversation: Conversation) -> None:
        self._turns = conversation.turns()
        self._width = 0
        self._lines: list[StyleAndTextTuples] = []
        self._top = -1
        body = Window(FormattedTextControl(self.visible), wrap_lines=False)
        foot = Window(FormattedTextControl(_keys_shown), height=1)
        self.app: Application[None] = Application(
            Layout(HSplit([body, foot])),
            Style.from_dict(STYLE),
            key_bindings=self._keys(),
            full_screen=True,
            erase_when_done=True,
        )
        self.app.ttimeoutlen = 0.05

    def _rows(self) -> int:
        return max(get_app().output.get_size().rows - 1, LEAST_ROWS)

    def visible(self) -> StyleAndTextTuples:
        width = get_app().output.get_size().columns
        if width != self._width:
            self._width = width
            self._lines = [line for turn in self._turns for line in lines_of(turn, width)]
        if self._top < 0:
            self._top = _last_thinking(self._lines)
        self._scroll(0)
        shown: StyleAndTextTuples = []
        for line in self._lines[self._top : self._top + self._rows()]:
            shown += [*line, ("", "\n")]
        return shown[:-1]

    def _scroll(self, rows: int) -> None:
        last = max(len(self._lines) - self._rows(), 0)
        self._top = min(max(self._top + rows, 0), last)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        moves = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "home": -(1 << 30),
            "g": -(1 << 30),
            "end": 1 << 30,
            "G": 1 << 30,
        }
        for key, rows in moves.items():
            keys.add(key)(lambda _, rows=rows: self._scroll(rows))
        for key, pages in {"pageup": -1, "b": -1, "pagedown": 1, " ": 1}.items():
            keys.add(key)(lambda _, pages=pages: self._scroll(pages * self._rows()))
        for key in ("q", "escape", "c-t", "c-c", "c-d"):
            keys.add(key, eager=True)(lambda event: event.app.exit())
        return keys


def _last_thinking(lines: Sequence[StyleAndTextTuples]) -> int:
    """The line at which the last thinking begins; the last line if nobody thought."""
    at = len(lines) - 1
    while at >= 0 and not _is_thinking(lines[at]):
        at -= 1
    while at > 0 and _is_thinking(lines[at - 1]):
        at -= 1
    return at if at >= 0 else len(lines)


def _is_thinking(line: StyleAndTextTuples) -> bool:
    return line[0][0] == THINKING


def lines_of(turn: Turn, width: int) -> Iterator[StyleAndTextTuples]:
    """A turn as lines that fit."""
    yield from _block(f"{turn.number} › ", turn.user.message.shown, "class:asked", width)
    if turn.reply is not None:
        if turn.reply.message.thinking:
            yield from _block("  ┊ ", turn.reply.message.thinking, THINKING, width, every=True)
        yield from _block("  ", turn.reply.message.content, "", width)
    yield [("", "")]


def _block(
    mark: str, text: str, style: str, width: int, *, every: bool = False
) -> Iterator[StyleAndTextTuples]:
    room = max(min(width, WIDEST) - len(mark) - 1, 8)
    for number, line in enumerate(wrapped(clean(text).strip("\n"), room)):
        lead = mark if every or number == 0 else " " * len(mark)
        yield [(style or "class:dim", lead), (style, line)]


def _keys_shown() -> StyleAndTextTuples:
    width = get_app().output.get_size().columns
    return [("class:dim", next((keys for keys in KEYS if len(keys) <= width), KEYS[-1]))]


async def show_transcript(conversation: Conversation) -> None:
    """Let the person read until they close it."""
    await Pager(conversation).app.run_async()
