"""Long pastes as one sign each, and messages in triple quotes; knows texts only, no terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

# A paste of more lines or characters than this becomes a chip.
LINES = 8
CHARACTERS = 800
# The signs that stand for chips: the end of the last private-use plane, which no font draws.
FIRST, LAST = "\U0010f000", "\U0010fffd"
SIGN = re.compile(f"[{FIRST}-{LAST}]")
QUOTES = '"""'


@dataclass(frozen=True)
class Paste:
    """One long paste, the `number`-th of its message."""

    text: str
    number: int

    @property
    def label(self) -> str:
        lines = count_lines(self.text)
        size = f"{lines:,} lines" if lines > LINES else f"{len(self.text):,} characters"
        return f"[pasted {size}{f' #{self.number}' if self.number > 1 else ''}]"


class Pastes:
    """Every long paste so far, by its sign. They stay: undo and what was cut may want them.

    There are some four thousand signs; the next one then takes the oldest's place.
    """

    def __init__(self) -> None:
        self._by_sign: dict[str, Paste] = {}
        self._signs = cycle(map(chr, range(ord(FIRST), ord(LAST) + 1)))

    def fold(self, text: str, beside: str) -> str:
        """A sign for a paste into a box that holds `beside`."""
        number = 1 + max((paste.number for paste in self._within(beside)), default=0)
        sign = next(self._signs)
        self._by_sign[sign] = Paste(text, number)
        return sign

    def fold_again(self, text: str) -> str:
        """`text` with each known paste that is still whole in it as its sign again."""
        for sign, paste in self._by_sign.items():
            text = text.replace(paste.text, sign)
        return text

    def unfold(self, text: str) -> str:
        """`text` with every sign as what was pasted."""
        return SIGN.sub(lambda match: self.text(match[0]), text)

    def labelled(self, text: str) -> str:
        """`text` with every sign as its label."""
        return SIGN.sub(lambda match: self.label(match[0]) or "", text)

    def text(self, sign: str) -> str:
        paste = self._by_sign.get(sign)
        return paste.text if paste else ""

    def label(self, sign: str) -> str | None:
        """What a sign looks like; None for every other character."""
        paste = self._by_sign.get(sign)
        return paste.label if paste else None

    def texts(self) -> list[str]:
        return [paste.text for paste in self._by_sign.values()]

    def _within(self, text: str) -> Iterator[Paste]:
        for sign in SIGN.findall(text):
            if sign in self._by_sign:
                yield self._by_sign[sign]


def is_long(text: str) -> bool:
    return len(text) > CHARACTERS or count_lines(text) > LINES


def count_lines(text: str) -> int:
    """A line break at the end begins no line."""
    return text.count("\n") + (not text.endswith("\n"))


def is_sign(character: str) -> bool:
    return FIRST <= character <= LAST


def without_signs(text: str) -> str:
    """Foreign text, which must not contain what stands for a chip."""
    return SIGN.sub("", text)


def blanked(text: str) -> str:
    """A box's text with a blank for each chip: what was typed."""
    return SIGN.sub(" ", text)


def with_line_breaks(text: str) -> str:
    r"""Pasted text with `\n` as its line break, whatever the terminal sends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_open(text: str) -> bool:
    """Whether a message begins with three quotes that are not closed yet."""
    body = text.strip()
    closed = body.endswith(QUOTES) and len(body) >= 2 * len(QUOTES)
    return body.startswith(QUOTES) and not closed


def unquoted(text: str) -> str:
    """A message without the three quotes around it, closed or not, if it begins with them."""
    body = text.strip()
    if not body.startswith(QUOTES):
        return text
    body = body.removeprefix(QUOTES).removesuffix(QUOTES)
    return body.removeprefix("\n").removesuffix("\n")
