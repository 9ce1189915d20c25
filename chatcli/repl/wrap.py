"""Words that arrive in pieces, wrapped at a width; refuses to know where they go."""

from __future__ import annotations

import re
from collections.abc import Callable

from wcwidth import wcswidth

PIECES = re.compile(r"\n|[^\S\n]+|[^\s]+")


class Wrapper:
    """Writes indented lines of at most `width` columns; a word is held back until it is whole."""

    def __init__(self, write: Callable[[str], None], width: int, indent: str) -> None:
        self._write = write
        self._indent = indent
        self._room = max(width - columns(indent) - 1, 8)
        self._column = 0
        self._pending = ""
        self._open = False

    def feed(self, text: str) -> None:
        self._pending += text
        last = re.search(r"\S*\Z", self._pending)
        held = last.group() if last else ""
        # A run without spaces must not stop the stream for ever.
        if columns(held) > self._room:
            held = ""
        whole = self._pending[: len(self._pending) - len(held)]
        self._pending = held
        self._emit(whole)

    def close(self) -> None:
        """Write what is held back and end the line."""
        self._emit(self._pending)
        self._pending = ""
        if self._open:
            self._write("\n")
        self._open = False

    def _emit(self, text: str) -> None:
        out = "".join(self._place(piece) for piece in PIECES.findall(text))
        if out:
            self._write(out)

    def _place(self, piece: str) -> str:
        if piece == "\n":
            return self._end_line()
        if piece.isspace():
            return self._space(piece)
        return self._word(piece)

    def _end_line(self) -> str:
        start = "" if self._open else self._indent.rstrip()
        self._open, self._column = False, 0
        return f"{start}\n"

    def _space(self, piece: str) -> str:
        wide = piece.expandtabs(4)
        if self._column + len(wide) >= self._room:
            # The space that ends a line is not shown, but the next word must not touch this one.
            self._column = self._room if self._column else 0
            return ""
        start = self._start_line()
        self._column += len(wide)
        return start + wide

    def _word(self, word: str) -> str:
        out = ""
        if self._column and self._column + columns(word) > self._room:
            out += self._end_line()
        while columns(word) > self._room - self._column:
            part = _fitting(word, self._room - self._column)
            out += self._start_line() + part + self._end_line()
            word = word[len(part) :]
        out += self._start_line() + word
        self._column += columns(word)
        return out

    def _start_line(self) -> str:
        start, self._open = ("" if self._open else self._indent), True
        return start


def columns(text: str) -> int:
    """The terminal columns that `text` takes."""
    width = wcswidth(text)
    return width if width >= 0 else len(text)


def _fitting(word: str, room: int) -> str:
    end = len(word)
    while end > 1 and columns(word[:end]) > room:
        end -= 1
    return word[:end]
