"""Rich text wrapped at words to a width. Text that is added later changes only the last row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rich.text import Text

# From a line and a width to the offsets at which the line is broken.
Breaks = Callable[[str, int], list[int]]

# A line breaks at spaces and around wide characters, but not before closing punctuation.
CLOSING = "、。，．！？：；）」』】》〉％…ー"
OPENING = "（「『【《〈"
WIDE = "\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60\U0001f300-\U0001faff\U00020000-\U0003fffd"
JOINED = f"(?:[{CLOSING}\u0300-\u036f\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]|\u200d.)*"
UNIT = re.compile(f"((?:[{OPENING}]*[{WIDE}]|[^ {WIDE}]+|){JOINED}) *")


def cells(text: str) -> int:
    """The most columns that `text` takes in any terminal: those of one that joins no emoji and no flags."""
    if text.isascii():
        return len(text)
    # Slow to import, and rarely needed.
    from wcwidth import wcwidth

    return sum(max(wcwidth(char), 0) for char in text) + text.count("\ufe0f")


def wrap(text: Text, width: int) -> list[Text]:
    """`text` broken at words. All rows but the last stay the same when more text follows."""
    rows: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        rows += line.divide(word_breaks(line.plain, width))
    for row in rows:
        row.rstrip()
    return rows


def breaks_from(breaks: Breaks, plain: str, width: int, start: int) -> list[int]:
    """As `breaks`, but a row begins at offset `start`, where another width broke the line (0: nowhere).

    Everything before `start` is one row.
    """
    offsets = breaks(plain, width)
    if start in offsets or not 0 < start < len(plain):
        return offsets
    return [start, *(start + offset for offset in breaks(plain[start:], width))]


def rows(lines: Iterable[Text], indent: str, width: int) -> list[Text]:
    """Indented rows that leave the last column free: a full one would wrap."""
    width = max(width - 1, 1)
    indented: list[Text] = []
    for line in lines:
        row = Text(indent, end="") + line if line.plain else line.copy()
        row.end = ""
        if cells(row.plain) <= width:
            indented.append(row)
            continue
        # It was laid out for another width: its bars and its indentation go before each piece.
        edge = len(row.plain) - len(row.plain.lstrip(" ▎"))
        edge = edge if edge * 2 <= width else 0
        indented += [row[:edge] + piece for piece in wrap(row[edge:], width - edge)]
    return indented


def last_unit(plain: str) -> int:
    """The offset of the last word or wide character."""
    start = max(plain.rfind(" "), plain.rfind("\n")) + 1
    units = [unit.start() for unit in UNIT.finditer(plain, start) if unit[1]]
    return units[-1] if units else start


def full_rows(plain: str, width: int) -> int:
    """The offset up to which an unfinished word fills its rows; 0 if it takes one row, or is not one word."""
    word = UNIT.fullmatch(plain)
    if word is None or cells(word[1]) <= width:
        return 0
    return full_breaks(word[1], width)[-1]


def word_breaks(plain: str, width: int) -> list[int]:
    """The offsets at which a line is broken at words, or within those that are too long."""
    offsets: list[int] = []
    used = 0
    for unit in UNIT.finditer(plain):
        size = cells(unit[1])
        if used and unit[1] and used + size > width:
            offsets.append(unit.start())
            used = 0
        if size > width:
            inside = full_breaks(unit[1], width)
            offsets += [unit.start() + offset for offset in inside]
            size = cells(unit[1][inside[-1] :]) if inside else size
        used += size + len(unit[0]) - len(unit[1])
    return offsets


def full_breaks(plain: str, width: int) -> list[int]:
    """The offsets at which a line is broken wherever `width` is full."""
    if plain.isascii():
        return list(range(width, len(plain), width))
    offsets, used = [], 0
    for offset, char in enumerate(plain):
        size = cells(char)
        if used + size > width and used:
            offsets.append(offset)
            used = 0
        used += size
    return offsets
