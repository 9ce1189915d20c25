"""Finds stop sequences in streamed text. A reply ends before the first one."""

from __future__ import annotations

from collections.abc import Sequence


class StopTexts:
    """Holds back text that may be the beginning of a stop sequence until that is certain.

    `characters` is how many were fed, and `end` how many of them precede the first stop sequence,
    `found_text` (both None until one is found).
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
        """Add text. Returns the text that certainly precedes any stop sequence; empty after one is found."""
        if self.found:
            return ""
        self._pending += text
        self.characters += len(text)
        places = [(at + len(stop), at, stop) for stop in self._texts if (at := self._pending.find(stop)) >= 0]
        if places:
            # The first complete one, so that the result does not depend on how the text was split.
            _, at, self.found_text = min(places)
            self.end = self.characters - len(self._pending) + at
            return self._release(at)
        # Hold back the longest end that may be the beginning of a stop sequence.
        longest = min(len(self._pending), max(map(len, self._texts), default=1) - 1)
        ends = (self._pending[-size:] for size in range(longest, 0, -1))
        held = next((end for end in ends if any(stop.startswith(end) for stop in self._texts)), "")
        return self._release(len(self._pending) - len(held))

    def finish(self) -> str:
        """The text that is still held back when the reply ends by itself."""
        return "" if self.found else self._release(len(self._pending))

    def _release(self, count: int) -> str:
        released, self._pending = self._pending[:count], self._pending[count:]
        return released
