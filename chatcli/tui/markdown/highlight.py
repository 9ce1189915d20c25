"""Syntax highlighting of code that arrives line by line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from chatcli.text import clean
from chatcli.tui.markdown.inline import CODE

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

# Closes a comment that is still open: some lexers know comments only as a whole.
COMMENT_ENDS = "\n*/\n-->"


# The lines of context that are kept: the short ones if they colour the last lines in the same way, which is
# tried from TRY_CONTEXT lines on, and in any case from MAX_CONTEXT on.
SHORT_CONTEXT, TRY_CONTEXT, MAX_CONTEXT = 4, 16, 160


class Highlighter:
    """Highlights code line by line. A line's colours depend only on the lines before it."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._syntax = Syntax("", language, theme=THEME)
        # The lines so far with their renderings, and the last lines: the context of the next one.
        self._done: list[tuple[str, Text]] = []
        self._context: list[str] = []

    def lines(self, source: Sequence[str], start: int, complete: int, ended: bool) -> list[Text]:
        """Highlight `source`, the lines after the first `start`; all but `complete` of it may still grow.

        Code that has `ended` before any of it was highlighted takes one run of the lexer.
        """
        if ended and not start and not self._done:
            return self._highlight([clean(line).expandtabs(4) for line in source])
        rows: list[Text] = []
        for number, raw in enumerate(source):
            line = clean(raw).expandtabs(4)
            done = self._done[start + number : start + number + 1]
            if done and done[0][0] == line:
                rows.append(done[0][1])
                continue
            rows.append(self._highlight([*self._context, line])[-1])
            if number < complete:
                del self._done[start + number :]
                self._done.append((line, rows[-1]))
                self._context.append(line)
                self._shorten_context()
        return rows

    def _shorten_context(self) -> None:
        """Keep only the last lines if they are coloured in the same way without the others."""
        count = len(self._context)
        if count <= TRY_CONTEXT or count % SHORT_CONTEXT:
            return
        recent = self._context[-SHORT_CONTEXT:]
        rows = [row for _, row in self._done[-SHORT_CONTEXT:]]
        if count > MAX_CONTEXT or self._highlight(recent) == rows:
            self._context = recent

    def _highlight(self, lines: Sequence[str]) -> list[Text]:
        if not self.language or self._syntax.lexer is None:
            return [Text(line, CODE) for line in lines]
        rows = self._syntax.highlight("\n".join(lines) + COMMENT_ENDS).split("\n", allow_blank=True)
        plain = [Text(row.plain, spans=row.spans) for row in rows]
        return [row if row.plain == line else Text(line) for row, line in zip(plain, lines, strict=False)]
