"""What was sent while something else runs: kept in order, taken back; refuses to know the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chatcli.conversation.images import Image
from chatcli.tui.text.fit import first_words, fit

STYLE = {"waiting": "ansiyellow", "waiting.hint": "ansibrightblack"}
# Messages that are shown by their first words; of more than these, the newest.
SHOWN = 3
INDENT = "  "
HINTS = ("↑ takes the newest back · Esc stops and brings all back", "↑ takes back · Esc stops")


@dataclass(frozen=True)
class Sent:
    """What was written, the same with the files that it names, and as it is shown.

    `is_command` is whether it runs a command rather than being said to the model, `images` are
    those that it names.
    """

    text: str
    whole: str
    shown: str
    is_command: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class Unsent:
    """What failed or was stopped, and the message, if it was one, that comes back to the box."""

    line: Sent | None = None


class Waiting:
    """The messages and commands that wait for their turn, oldest first."""

    def __init__(self) -> None:
        self._lines: list[Sent] = []

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def rows(self) -> int:
        """The rows that they take on the screen."""
        return min(len(self._lines), SHOWN) + 1 if self._lines else 0

    def add(self, line: Sent, *, first: bool = False) -> None:
        self._lines.insert(0 if first else len(self._lines), line)

    def next(self) -> Sent:
        """The one whose turn it is. Raises `IndexError` if none waits."""
        return self._lines.pop(0)

    def newest(self) -> Sent:
        """The one that was sent last, which waits no more. Raises `IndexError` if none waits."""
        return self._lines.pop()

    def all(self) -> list[Sent]:
        """Every one, oldest first; none waits any more."""
        lines, self._lines = self._lines, []
        return lines

    def drawn(self, columns: int) -> list[tuple[str, str]]:
        """The newest of them and the keys, as styles and texts."""
        width = columns - len(INDENT) - 1
        more = len(self._lines) - SHOWN
        drawn: list[tuple[str, str]] = []
        for line in self._lines[-SHOWN:]:
            words = f"waits: {first_words(line.shown)}"
            drawn.append(("class:waiting", f"{INDENT}{fit(words, width)}\n"))
        told = [f"{more} more · {hint}" for hint in HINTS] if more > 0 else HINTS
        fitting = next((hint for hint in told if len(hint) <= width), fit(told[-1], width))
        return [*drawn, ("class:waiting.hint", INDENT + fitting)]


def together(lines: Sequence[Sent], after: str = "") -> tuple[str, list[Sent]]:
    """Texts for the box, a blank line between them, and the commands that have no place among them.

    A command is one only in a box of its own.
    """
    if len(lines) == 1 and not after.strip():
        return lines[0].text, []
    said = [line.text for line in lines if not line.is_command]
    kept = [text for text in (*said, after) if text.strip()]
    return "\n\n".join(kept), [line for line in lines if line.is_command]
