"""Plain strings in terminal columns: cut, padded and wrapped.

prompt_toolkit, which draws them, adds up the widths of characters, wcwidth those of graphemes. They agree on
portable text, except for some scripts of India.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import wcwidth

from chatcli.text import clean, clean_line

# Characters of a message that may fit into a row.
MAX_ROW_CHARS = 600
# Terminals draw these in different widths: emoji joiners and modifiers, and flags (here drawn as letters).
NOT_PORTABLE: dict[int, str | None] = {
    **dict.fromkeys((0x200D, 0xFE0E, 0xFE0F, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080))),
    **{0x1F1E6 + letter: chr(ord("A") + letter) for letter in range(26)},
}
ANY_NOT_PORTABLE = re.compile(f"[{''.join(map(chr, NOT_PORTABLE))}]")


def is_portable(text: str) -> bool:
    """Whether every terminal draws `text` in the same width."""
    return ANY_NOT_PORTABLE.search(text) is None


def portable(text: str) -> str:
    """`text` cleaned, and of the same width in every terminal."""
    return clean(text.translate(NOT_PORTABLE))


def first_words(text: str) -> str:
    """The beginning of a message on one portable line."""
    return clean_line(text.lstrip()[:MAX_ROW_CHARS].translate(NOT_PORTABLE))


def fit(text: str, width: int) -> str:
    """Portable text, cut to `width` columns if it is longer."""
    if wcwidth.width(text) <= width:
        return text
    return wcwidth.clip(text, 0, width - 1) + "…" if width > 0 else ""


def fit_name(text: str, width: int) -> str:
    """`fit`, but a number at the end stays, as in the names of branches."""
    stem, dash, number = text.rpartition("-")
    if not number.isdecimal() or wcwidth.width(text) <= width or len(dash + number) + 1 >= width:
        return fit(text, width)
    return fit(stem, width - len(dash + number)) + dash + number


def padded(text: str, width: int) -> str:
    """Portable text in exactly `width` columns."""
    return wcwidth.ljust(fit(text, width), width)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a message at `width` columns, portable, broken at spaces where there are any.

    Lazily, as a list shows a few lines of a message of any length. (`wcwidth.wrap` wraps all of it, in
    quadratic time where there are no spaces, as in Chinese.)
    """
    for paragraph in text.split("\n"):
        line = paragraph.rstrip("\r").expandtabs(4).translate(NOT_PORTABLE)
        start = 0
        while start < len(line) or not start:
            # Twice the width leaves room for characters that take no column.
            piece = clean(line[start : start + 2 * width + 1])
            end = columns = 0
            for grapheme in wcwidth.iter_graphemes(piece):
                columns += wcwidth.width(grapheme)
                if columns > width:
                    # At least one character, however narrow the screen is.
                    end = piece.rfind(" ", 1, end + 1) + 1 or end or len(grapheme)
                    break
                end += len(grapheme)
            yield piece[:end].rstrip()
            start += max(end, 1)
