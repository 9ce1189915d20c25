"""A command's result on a screen of its own, while a reply goes on behind it."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.styles import Style

from chatcli.tui.text.fit import fit

STYLE = Style.from_dict({"dim": "ansibrightblack"})
# The first that fits.
KEY_HINTS = ("  Esc closes · ↑↓ PgUp PgDn · the reply goes on meanwhile", "  Esc closes · ↑↓ PgUp PgDn")
ESCAPE_DELAY = 0.05
# More rows than any result has.
ALL_ROWS = 1 << 30


class Page:
    """Text with ANSI styles, made by `draw` for a number of columns."""

    def __init__(self, draw: Callable[[int], str]) -> None:
        self._draw = draw
        self._width = 0
        self._lines: list[str] = []
        self._top = 0
        text = Window(FormattedTextControl(self._visible), wrap_lines=False)
        footer = Window(FormattedTextControl(_key_hint), height=1, style="class:dim")
        self.app: Application[None] = Application(
            Layout(HSplit([text, footer])),
            STYLE,
            key_bindings=self._keys(),
            full_screen=True,
            erase_when_done=True,
        )
        self.app.ttimeoutlen = ESCAPE_DELAY

    def _visible(self) -> AnyFormattedText:
        if (width := get_app().output.get_size().columns) != self._width:
            self._width, self._lines = width, self._draw(width).split("\n")
        self._scroll(0)
        return ANSI("\n".join(self._lines[self._top : self._top + self._height()]))

    def _height(self) -> int:
        return max(get_app().output.get_size().rows - 1, 1)

    def _scroll(self, rows: int) -> None:
        self._top = max(0, min(self._top + rows, len(self._lines) - self._height()))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        rows = {"up": -1, "k": -1, "down": 1, "j": 1}
        rows |= {"home": -ALL_ROWS, "g": -ALL_ROWS, "end": ALL_ROWS, "G": ALL_ROWS}
        for key, step in rows.items():
            keys.add(key)(lambda _, step=step: self._scroll(step))
        for key, pages in {"pageup": -1, "b": -1, "pagedown": 1, " ": 1}.items():
            keys.add(key)(lambda _, pages=pages: self._scroll(pages * self._height()))
        for key in ("escape", "enter", "q", "c-c", "c-d"):
            keys.add(key, eager=True)(lambda event: event.app.exit())
        return keys


def _key_hint() -> str:
    width = get_app().output.get_size().columns
    return next((hint for hint in KEY_HINTS if len(hint) <= width), fit(KEY_HINTS[-1], width))


async def show_page(draw: Callable[[int], str]) -> None:
    """Let the person read until they close it."""
    await Page(draw).app.run_async()
