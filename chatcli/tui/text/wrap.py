"""Styled text broken into lines of a width; knows nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rich.text import Text
from wcwidth import wcwidth

# From a line and a width to the offsets where the line is broken.
Breaks = Callable[[str, int], list[int]]

# A line breaks at spaces and around wide characters, but not before a closing sign.
CLOSING = "、。，．！？：；）」』】》〉％…ー"
OPENING = "（「『【《〈"
WIDE = "\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60\U0001f300-\U0001faff\U00020000-\U0003fffd"
JOINED = f"(?:[{CLOSING}\u0300-\u036f\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]|\u200d.)*"
UNIT = re.compile(f"((?:[{OPENING}]*[{WIDE}]|[^ {WIDE}]+|){JOINED}) *")


def cells(text: str) -> int:
    """Columns of `text` in a terminal that joins no emoji and no flags: the most that it takes in any."""
    if text.isascii():
        return len(text)
    return sum(max(wcwidth(char), 0) for char in text) + text.count("\ufe0f")


def wrap(text: Text, width: int) -> list[Text]:
    """`text` broken at words. Its lines but the last stay the same when more text follows."""
    rows: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        rows += line.divide(word_breaks(line.plain, width))
    for row in rows:
        row.rstrip()
    return rows


def breaks_from(breaks: Breaks, plain: str, width: int, begin: int) -> list[int]:
    """Where `breaks` breaks `plain` if a row has to begin at offset `begin`; 0 asks for nothing.

    What comes before `begin` is one row where another width broke it.
    """
    found = breaks(plain, width)
    if begin in found or not 0 < begin < len(plain):
        return found
    return [begin, *(begin + offset for offset in breaks(plain[begin:], width))]


def rows(lines: Iterable[Text], indent: str, width: int) -> list[Text]:
    """Indented rows that leave the last column free: a full one would wrap."""
    made: list[Text] = []
    for line in lines:
        row = Text(indent, end="") + line if line.plain else line.copy()
        row.end = ""
        made += _within(row, max(width - 1, 1))
    return made


def _within(row: Text, width: int) -> list[Text]:
    """A row of another width, with its bars and its indentation before each piece."""
    if cells(row.plain) <= width:
        return [row]
    edge = len(row.plain) - len(row.plain.lstrip(" │▎"))
    edge = edge if edge * 2 <= width else 0
    return [row[:edge] + piece for piece in wrap(row[edge:], width - edge)]


def last_unit(plain: str) -> int:
    """Where the last word begins, or the last wide character."""
    begin = max(plain.rfind(" "), plain.rfind("\n")) + 1
    units = [unit.start() for unit in UNIT.finditer(plain, begin) if unit[1]]
    return units[-1] if units else begin


def word_breaks(plain: str, width: int) -> list[int]:
    """Where a line is broken at words, or within those that are too long."""
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
    """Where a line is broken wherever `width` is full."""
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
