"""Finds the texts before which a reply ends, in a stream; refuses to know tokens and thinking."""

from __future__ import annotations

from collections.abc import Collection, Sequence


class StopTexts:
    """Holds back what may be the beginning of a stop text until it is sure.

    `found` is set once one was there. `heard` counts the characters that were fed, and `end` is how
    many of them come before the stop text (None: it was not found).
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._pending = ""
        self.heard = 0
        self.end: int | None = None

    @property
    def found(self) -> bool:
        return self.end is not None

    def feed(self, text: str) -> str:
        """What is known now to come before any stop text; nothing after one was found."""
        if self.found:
            return ""
        self._pending += text
        self.heard += len(text)
        if places := [(at + len(stop), at) for stop in self._texts if (at := self._pending.find(stop)) >= 0]:
            # The first that is whole, so that it does not matter in what pieces the text comes.
            _, at = min(places)
            self.end = self.heard - len(self._pending) + at
            return self._let_go(at)
        return self._let_go(len(self._pending) - begun(self._pending, self._texts))

    def finish(self) -> str:
        """What was held back when the reply ended by itself."""
        return "" if self.found else self._let_go(len(self._pending))

    def _let_go(self, count: int) -> str:
        told, self._pending = self._pending[:count], self._pending[count:]
        return told


def begun(text: str, marks: Collection[str]) -> int:
    """How many last characters of `text` may be the beginning of one of `marks`."""
    longest = min(len(text), max(map(len, marks), default=1) - 1)
    ends = (text[-size:] for size in range(longest, 0, -1))
    return len(next((end for end in ends if any(mark.startswith(end) for mark in marks)), ""))
