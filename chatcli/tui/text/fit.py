"""Messages as rows and lines of so many columns, and which of them hold a query's words; draws nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.utils import get_cwidth

from chatcli.text import UNITS, clean, clean_line, since

# More of a message never fits into a row.
LONGEST = 600
# What terminals draw in different widths: joined emoji, their colours, flags (shown as letters).
UNSTEADY: dict[int, str | None] = {
    **dict.fromkeys((0x200D, 0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080))),
    **{0x1F1E6 + letter: chr(ord("A") + letter) for letter in range(26)},
}
ANY_UNSTEADY = re.compile(f"[{''.join(map(chr, UNSTEADY))}]")
AGES = (("y", 31_536_000), ("mo", 2_592_000), *UNITS)


def first_words(text: str) -> str:
    """The beginning of a message, harmless and on one line."""
    return clean_line(text.lstrip()[:LONGEST].translate(UNSTEADY))


def is_steady(text: str) -> bool:
    """Whether every terminal draws it in the same width."""
    return ANY_UNSTEADY.search(text) is None


def steady(text: str) -> str:
    """Harmless text, of the same width in every terminal."""
    return clean(text.translate(UNSTEADY))


def fit(text: str, width: int) -> str:
    """Clean text, cut to `width` columns if it is longer."""
    if get_cwidth(text) <= width:
        return text
    return text[: _fitting(text, width - 1)] + "…" if width > 0 else ""


def padded(text: str, width: int) -> str:
    """Clean text that takes exactly `width` columns."""
    cut = fit(text, width)
    return cut + " " * (width - get_cwidth(cut))


def wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of a message at `width` columns, harmless; made as they are asked for."""
    for paragraph in text.split("\n"):
        line = paragraph.rstrip("\r").expandtabs(4).translate(UNSTEADY)
        at = 0
        while at < len(line) or not at:
            # Twice the width leaves room for characters that take no column.
            piece = clean(line[at : at + 2 * width + 1])
            end = _line_end(piece, width)
            yield piece[:end].rstrip()
            at += max(end, 1)


def ago(when: float, now: float) -> str:
    """How long ago, in one unit and at most 10 columns; nothing if it is not known."""
    if when <= 0:
        return ""
    return since(now - when, AGES) or "now"


def _fitting(text: str, width: int) -> int:
    """How many characters fit."""
    for end, char in enumerate(text):
        width -= get_cwidth(char)
        if width < 0:
            return end
    return len(text)


def _line_end(piece: str, width: int) -> int:
    end = _fitting(piece, width)
    if end == len(piece):
        return end
    space = piece.rfind(" ", 1, end + 1)
    return space + 1 if space > 0 else max(end, 1)


class Matcher:
    """Which of many texts hold every word of a query; a longer query looks only where it must."""

    def __init__(self, texts: Callable[[], Iterable[str]]) -> None:
        self._texts = texts
        self._folded: list[str] | None = None
        self._query = ""
        self._found: list[int] = []

    def find(self, query: str) -> list[int]:
        """The indices of the texts that match, in order."""
        if self._folded is None:
            self._folded = [text.casefold() for text in self._texts()]
            self._found = list(range(len(self._folded)))
        folded, texts = query.casefold(), self._folded
        narrower = folded.startswith(self._query)
        among: Iterable[int] = self._found if narrower else range(len(texts))
        for word in folded.split():
            among = [index for index in among if word in texts[index]]
        self._query, self._found = folded, list(among)
        return self._found
