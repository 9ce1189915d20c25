"""Code coloured line by line as it arrives; refuses to know Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from chatcli.text import clean

# Only colours that are readable on white and on black.
COLOURS = {
    "Keyword": "magenta",
    "Name.Tag": "magenta",
    "Name.Builtin": "cyan",
    "Name.Decorator": "cyan",
    "Name.Attribute": "cyan",
    "Name.Function": "bold",
    "Name.Class": "bold",
    "Literal.Number": "cyan",
    "Literal.String": "green",
    "Comment": "dim italic",
    "Generic.Deleted": "red",
    "Generic.Inserted": "green",
    "Generic.Heading": "bold",
    "Generic.Prompt": "dim",
}
THEME = ANSISyntaxTheme({tuple(name.split(".")): Style.parse(style) for name, style in COLOURS.items()})

# What closes a comment that is still open, where a language knows comments only as a whole.
CLOSERS = "\n*/\n-->"


class Highlighter:
    """Colours code line by line, each from the lines before it only."""

    RECENT, MOST, FAR = 4, 16, 160

    def __init__(self, language: str) -> None:
        self.language = language
        self._syntax = Syntax("", language, theme=THEME)
        self._known: list[tuple[str, Text]] = []
        self._window: list[str] = []

    def lines(self, source: Sequence[str], done: int, whole: int) -> list[Text]:
        """`source` are the lines after the first `done`; from `whole` on they may still grow."""
        rows: list[Text] = []
        for number, raw in enumerate(source):
            line = clean(raw).expandtabs(4)
            known = self._known[done + number : done + number + 1]
            if known and known[0][0] == line:
                rows.append(known[0][1])
                continue
            rows.append(self._coloured([*self._window, line])[-1])
            if number < whole:
                del self._known[done + number :]
                self._learn(line, rows[-1])
        return rows

    def _learn(self, line: str, row: Text) -> None:
        """Forget old lines when the recent ones look the same without them."""
        self._known.append((line, row))
        self._window.append(line)
        count = len(self._window)
        if count <= self.MOST or count % self.RECENT:
            return
        recent = self._window[-self.RECENT :]
        rows = [row for _, row in self._known[-self.RECENT :]]
        if count > self.FAR or self._coloured(recent) == rows:
            self._window = recent

    def _coloured(self, lines: Sequence[str]) -> list[Text]:
        if not self.language or self._syntax.lexer is None:
            return [Text(line) for line in lines]
        rows = self._syntax.highlight("\n".join(lines) + CLOSERS).split("\n", allow_blank=True)
        drawn = [Text(row.plain, spans=row.spans) for row in rows]
        return [row if row.plain == line else Text(line) for row, line in zip(drawn, lines, strict=False)]
