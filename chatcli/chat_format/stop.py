"""Finds stop texts, before which a reply ends, in a stream of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


class StopTexts:
    """Holds back what may be the beginning of a stop text until that is certain.

    `characters` counts those that were fed, and `end` how many of them come before the first stop text,
    which is `found_text` (None: there was none yet).
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._pending = ""
        self.characters = 0
        self.end: int | None = None
        self.found_text: str | None = None

    @property
    def found(self) -> bool:
        return self.end is not None

    def feed(self, text: str) -> str:
        """The text that is certain now to come before any stop text; nothing after one was found."""
        if self.found:
            return ""
        self._pending += text
        self.characters += len(text)
        places = [(at + len(stop), at, stop) for stop in self._texts if (at := self._pending.find(stop)) >= 0]
        if places:
            # The first that is complete, so that it does not matter in what pieces the text comes.
            _, at, self.found_text = min(places)
            self.end = self.characters - len(self._pending) + at
            return self._release(at)
        return self._release(len(self._pending) - partial_length(self._pending, self._texts))

    def finish(self) -> str:
        """The text that was held back when the reply ended by itself."""
        return "" if self.found else self._release(len(self._pending))

    def _release(self, count: int) -> str:
        released, self._pending = self._pending[:count], self._pending[count:]
        return released


def partial_length(text: str, marks: Collection[str]) -> int:
    """How many last characters of `text` may be the beginning of one of `marks`."""
    longest = min(len(text), max(map(len, marks), default=1) - 1)
    ends = (text[-size:] for size in range(longest, 0, -1))
    return len(next((end for end in ends if any(mark.startswith(end) for mark in marks)), ""))
