"""The pictures of the README: the real program in a terminal, drawn as SVG. Refuses to know chatcli.

Run it from the repository: python docs/screens.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from pyte.screens import Char

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tests.support import terminal as tty  # noqa: E402

CHATCLI = [sys.executable, "-m", "chatcli"]
PANEL = r"━ [\d.]+% (?:reused|ready)"
PATIENCE = 180.0
# Seconds: from the last letter to Enter, before a picture, and from look to look at a thinking.
TYPING, STILL, GLANCE = 1.0, 2.0, 0.1
TALK = ("My dog is called Biscuit and I live in Lisbon.", "What is my dog's name?", "47 + 38?")
SAVED = {
    "trip-to-porto": ("Our train leaves at seven.", "My sister is called Clara.", "Who is Clara?"),
    "sums": ("38 + 27?", "90 - 46?"),
    "how-chatcli-works": ("What is a checkpoint?", "What can you do?"),
    "guest-room": ("Our wifi password is marigold.", "What is our wifi password?"),
    "biscuit": TALK[:2],
}
# A cell and the letters in it, in pixels; the room around all cells.
WIDE, HIGH, LETTER, ROOM = 8.4, 19, 14, 16
FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PAPER, INK = "#171a21", "#d6dae2"
COLOURS = {
    "default": INK,
    "brightblack": "#858d9a",
    "cyan": "#6fc6d3",
    "green": "#8fca8c",
    "brown": "#dcbb72",
    "red": "#e5847f",
}
DIM_AS_BLINK = {2: (5,), 22: (22, 25)}
Frame = list[list[Char]]


class Dimmed(tty.Answering):
    """pyte does not know dim letters: they are kept as blinking, which nothing here does."""

    def select_graphic_rendition(self, *attrs: int) -> None:
        if not {38, 48} & set(attrs):
            attrs = tuple(kept for one in attrs for kept in DIM_AS_BLINK.get(one, (one,)))
        super().select_graphic_rendition(*attrs)


class Filmed(tty.Terminal):
    """chatcli in a terminal with a home of its own, and what to do there as a person does it."""

    def __init__(self, home: Path, *args: str) -> None:
        super().__init__([*CHATCLI, *args], environment(home), home)
        self.screen = Dimmed(tty.COLUMNS, tty.LINES, history=2000, ratio=0.5)
        self.screen.answer = self.send
        self._stream.attach(self.screen)

    def frame(self) -> Frame:
        """The cells as they are now, the cursor's letter reversed where it is shown."""
        screen, x, y = self.screen, self.screen.cursor.x, self.screen.cursor.y
        rows = [[screen.buffer[y][x] for x in range(tty.COLUMNS)] for y in range(tty.LINES)]
        if tty.CURSOR_SHOWN in screen.mode:
            rows[y][x] = rows[y][x]._replace(reverse=True)
        return rows

    def rest(self, seconds: float) -> None:
        """Go on reading for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(left)

    def still(self) -> Frame:
        self.rest(STILL)
        return self.frame()

    def ready(self) -> bool:
        return "\n›" in self.text() and "Esc stops" not in self.text()

    def type(self, text: str) -> None:
        self.wait_for(self.ready, PATIENCE)
        self.send(text)
        self.rest(TYPING)
        self.send(tty.ENTER)

    def say(self, message: str) -> Frame | None:
        """One turn; the last sight of its thinking, if there was any."""
        seen, panels, begun = None, self.count(PANEL), time.monotonic()
        self.type(message)
        while self.count(PANEL) == panels and time.monotonic() < begun + PATIENCE:
            self.rest(GLANCE)
            if "┊" in self.text() and not self.read(0):
                seen = self.frame()
        self.wait_for(lambda: self.count(PANEL) > panels and self.ready(), PATIENCE)
        return seen


def environment(home: Path) -> dict[str, str]:
    ours = {name: text for name, text in os.environ.items() if not name.startswith("CHATCLI")}
    folders = {f"XDG_{name}_HOME": str(home / name) for name in ("STATE", "DATA", "CONFIG")}
    saved = {"HOME": str(home), "CHATCLI_SESSIONS": str(home / "saved")}
    return {**ours, **folders, **saved, "PYTHONPATH": str(HERE.parent), "PYTHONUTF8": "1"}


def talk(home: Path) -> Iterator[tuple[str, Frame]]:
    """The first screen, three turns, and the thinking of the last while it came."""
    with Filmed(home, "--temp", "0") as terminal:
        terminal.wait_for(terminal.ready, PATIENCE)
        yield "start", terminal.still()
        *_, thinking = [terminal.say(message) for message in TALK]
        if thinking is not None:  # Faster than a glance: the old picture stays.
            yield "thinking", thinking
        yield "turns", terminal.still()


def branches(home: Path) -> Iterator[tuple[str, Frame]]:
    with Filmed(home, "--temp", "0") as terminal:
        for message in TALK:
            terminal.say(message)
        terminal.type("/rewind 1")
        terminal.wait_for("after turn 1", PATIENCE)
        terminal.say("Where do I live?")
        terminal.type("/tree")
        terminal.wait_for("Enter go there", PATIENCE)
        yield "tree", terminal.still()


def saved(home: Path) -> Iterator[tuple[str, Frame]]:
    for name, messages in SAVED.items():
        for message in messages:
            asked = [*CHATCLI, "ask", message, "-S", name, "--temp", "0"]
            subprocess.run(asked, env=environment(home), cwd=home, check=True, capture_output=True)
    with Filmed(home, "resume") as terminal:
        terminal.wait_for("Enter resume", PATIENCE)
        terminal.send("\x1b[B")
        yield "resume", terminal.still()


def drawn(frame: Frame, title: str) -> str:
    """A frame as SVG, without the empty rows at its end."""
    filled = [y for y, row in enumerate(frame, 1) if any(cell.data.strip() for cell in row)]
    rows = frame[: filled[-1]]
    wide, high = round(tty.COLUMNS * WIDE + 2 * ROOM), len(rows) * HIGH + 2 * ROOM
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" font-size="{LETTER}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" xml:space="preserve">',
        f"<title>{escape(title)}</title>",
        f"<style>text {{ font-family: {FONT}; white-space: pre }}</style>",
        f'<rect width="100%" height="100%" rx="9" fill="{PAPER}" stroke="#3a404c"/>',
        '<g shape-rendering="crispEdges">',
    ]
    body = (part for y, row in enumerate(rows) for part in line(row, y))
    return "\n".join((*head, *body, "</g>", "</svg>\n"))


def line(row: list[Char], y: int) -> Iterator[str]:
    """Words begin at their own cell and are as long as their cells; no letter here takes two."""
    x = 0
    for look, cells in groupby(row, key=lambda cell: cell._replace(data="")):
        text = "".join(cell.data for cell in cells)
        ink, paper = COLOURS[look.fg], PAPER if look.bg == "default" else COLOURS[look.bg]
        if look.reverse:
            ink, paper = paper, ink
        marks = ' font-weight="bold"' * look.bold + ' font-style="italic"' * look.italics
        marks += ' fill-opacity=".6"' * look.blink
        if paper != PAPER:
            yield f'<rect {place(x, y)} width="{len(text) * WIDE:.1f}" height="{HIGH}" fill="{paper}"/>'
        for words in re.finditer(r"\S+(?: \S+)*", text):
            length = f'textLength="{len(words[0]) * WIDE:.1f}" lengthAdjust="spacingAndGlyphs"'
            where = place(x + words.start(), y + 0.74)
            yield f'<text {where} {length} fill="{ink}"{marks}>{escape(words[0])}</text>'
        x += len(text)


def place(x: float, y: float) -> str:
    return f'x="{ROOM + x * WIDE:.1f}" y="{ROOM + y * HIGH:.1f}"'


def main() -> None:
    for film in (talk, branches, saved):
        with tempfile.TemporaryDirectory() as home:
            for name, frame in film(Path(home)):
                picture = HERE / f"{name}.svg"
                picture.write_text(drawn(frame, f"chatcli: {name}"), encoding="utf-8")


if __name__ == "__main__":
    main()
