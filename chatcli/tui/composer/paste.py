"""Long pastes as chips, one character each in the box's text, and messages in triple quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

# A paste of more lines or characters than this becomes a chip.
MAX_LINES = 8
MAX_CHARS = 800
# The characters that are chips: the end of the last private-use plane, which no font draws.
FIRST_CHIP, LAST_CHIP = "\U0010f000", "\U0010fffd"
CHIP = re.compile(f"[{FIRST_CHIP}-{LAST_CHIP}]")
QUOTES = '"""'


@dataclass(frozen=True)
class Paste:
    """One long paste, the `number`-th of its message."""

    text: str
    number: int

    @property
    def label(self) -> str:
        lines = count_lines(self.text)
        size = f"{lines:,} lines" if lines > MAX_LINES else f"{len(self.text):,} characters"
        return f"[pasted {size}{f' #{self.number}' if self.number > 1 else ''}]"


class Pastes:
    """Every long paste so far, by its chip. They are kept: undo and the kill ring may bring a chip back.

    There are about four thousand chips; then the next paste takes the oldest one's.
    """

    def __init__(self) -> None:
        self._by_chip: dict[str, Paste] = {}
        self._chips = cycle(map(chr, range(ord(FIRST_CHIP), ord(LAST_CHIP) + 1)))

    def fold(self, text: str, box: str) -> str:
        """A chip for a paste into a box that holds `box`."""
        numbers = (self._by_chip[chip].number for chip in CHIP.findall(box) if chip in self._by_chip)
        chip = next(self._chips)
        self._by_chip[chip] = Paste(text, 1 + max(numbers, default=0))
        return chip

    def fold_again(self, text: str) -> str:
        """`text` with the chip of each known paste that is still whole in it."""
        for chip, paste in self._by_chip.items():
            text = text.replace(paste.text, chip)
        return text

    def folded(self, text: str, places: Iterable[tuple[int, int]]) -> str:
        """`text` with a chip for each paste in it, whose (start, end) are given in order."""
        folded, done = "", 0
        for start, end in places:
            folded += text[done:start]
            folded += self.fold(text[start:end], folded)
            done = end
        return folded + text[done:]

    def places(self, text: str) -> tuple[tuple[int, int], ...]:
        """(start, end) of each paste in `text` once that is unfolded."""
        places: list[tuple[int, int]] = []
        added = 0
        for chip in CHIP.finditer(text):
            start = chip.start() + added
            added += len(self.text(chip[0])) - 1
            places.append((start, chip.end() + added))
        return tuple(places)

    def whole_at(self, text: str, position: int) -> tuple[int, int, str] | None:
        """(start, end, chip) of the longest known paste that is whole in `text` and touches `position`."""
        touching = [
            (match.start(), match.start() + len(paste.text), chip)
            for chip, paste in self._by_chip.items()
            if paste.text in text
            for match in re.finditer(f"(?={re.escape(paste.text)})", text)
            if match.start() <= position <= match.start() + len(paste.text)
        ]
        return max(touching, key=lambda place: place[1] - place[0], default=None)

    def unfold(self, text: str) -> str:
        """`text` with each chip replaced by its paste."""
        return CHIP.sub(lambda match: self.text(match[0]), text)

    def labelled(self, text: str) -> str:
        """`text` with each chip replaced by its label."""
        return CHIP.sub(lambda match: self.label(match[0]) or "", text)

    def text(self, chip: str) -> str:
        paste = self._by_chip.get(chip)
        return paste.text if paste else ""

    def label(self, character: str) -> str | None:
        """A chip's label; None for every other character."""
        paste = self._by_chip.get(character)
        return paste.label if paste else None

    def texts(self) -> list[str]:
        return [paste.text for paste in self._by_chip.values()]


def is_long(text: str) -> bool:
    return len(text) > MAX_CHARS or count_lines(text) > MAX_LINES


def count_lines(text: str) -> int:
    """The number of lines of `text`; a line break at its end does not begin another."""
    return text.count("\n") + (not text.endswith("\n"))


def is_chip(character: str) -> bool:
    return FIRST_CHIP <= character <= LAST_CHIP


def without_chips(text: str, replacement: str = "") -> str:
    return CHIP.sub(replacement, text)


def normalized(text: str) -> str:
    r"""Foreign text as the box may hold it: `\n` for every line break, and no chips."""
    return without_chips(text.replace("\r\n", "\n").replace("\r", "\n"))


def has_open_quotes(text: str) -> bool:
    """Whether a message begins with triple quotes that are not closed yet."""
    body = text.strip()
    is_closed = body.endswith(QUOTES) and len(body) >= 2 * len(QUOTES)
    return body.startswith(QUOTES) and not is_closed


def unquoted(text: str) -> str:
    """A message without the triple quotes that it begins with, closed or not."""
    body = text.strip()
    if not body.startswith(QUOTES):
        return text
    return body.removeprefix(QUOTES).removesuffix(QUOTES).removeprefix("\n").removesuffix("\n")
