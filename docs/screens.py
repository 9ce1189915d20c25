"""Draws the pictures of the documentation: the real program's screens as SVG, one of them moving.

Run it from the repository: python docs/screens.py [SCENE…]
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

from pyte.screens import Char

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tests.support import terminal as tty  # noqa: E402

CHATCLI = [sys.executable, "-m", "chatcli"]
PANEL = r"[\d.]+ % reused\b"
TIMEOUT_SECONDS = 180.0
# From the last letter to Enter, so that the typeahead is done.
TYPING_SECONDS = 1.0
# Before a picture.
STILL_SECONDS = 2.0
# Between two looks at a thinking.
GLANCE_SECONDS = 0.1
MESSAGES = ("My dog is called Biscuit and I live in Lisbon.", "What is my dog's name?", "47 + 38?")
SESSIONS = {
    "trip-to-porto": ("Our train leaves at seven.", "My sister is called Clara.", "Who is Clara?"),
    "sums": ("38 + 27?", "90 - 46?"),
    "how-chatcli-works": ("What is a checkpoint?", "What can you do?"),
    "guest-room": ("Our wifi password is marigold.", "What is our wifi password?"),
    "biscuit": MESSAGES[:2],
}
# In the film: from key to key, the longest that a frame stands, and the last one.
KEY_SECONDS, MAX_FRAME_SECONDS, LAST_FRAME_SECONDS = 0.05, 1.6, 5.0
# In pixels.
CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, MARGIN = 8.4, 19, 14, 16
FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
BACKGROUND, FOREGROUND = "#171a21", "#d6dae2"
COLOURS = {
    "default": FOREGROUND,
    "brightblack": "#858d9a",
    "cyan": "#6fc6d3",
    "green": "#8fca8c",
    "brown": "#dcbb72",
    "red": "#e5847f",
}
DIM_AS_BLINK = {2: (5,), 22: (22, 25)}
Frame = list[list[Char]]


class DimScreen(tty.Answering):
    """pyte does not know dim letters: they are kept as blinking, which nothing here does."""

    def select_graphic_rendition(self, *attrs: int) -> None:
        if not {38, 48} & set(attrs):
            attrs = tuple(kept for attr in attrs for kept in DIM_AS_BLINK.get(attr, (attr,)))
        super().select_graphic_rendition(*attrs)


class FilmedTerminal(tty.Terminal):
    """chatcli in a terminal with a home of its own, and what to do there as a person does it."""

    def __init__(self, home: Path, *args: str) -> None:
        super().__init__([*CHATCLI, *args], environment(home), home)
        self.see_dim_letters()

    def see_dim_letters(self) -> None:
        self.screen = DimScreen(tty.COLUMNS, tty.LINES, history=2000, ratio=0.5)
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
        """Continue reading for `seconds`."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(left)

    def still(self) -> Frame:
        self.rest(STILL_SECONDS)
        return self.frame()

    def ready(self) -> bool:
        return "\n›" in self.text() and "Esc stops" not in self.text()

    def type(self, text: str) -> None:
        self.wait_for(self.ready, TIMEOUT_SECONDS)
        self.send(text)
        self.rest(TYPING_SECONDS)
        self.send(tty.ENTER)

    def say(self, message: str) -> Frame | None:
        """One turn; the last sight of its thinking, if there was any."""
        seen, panels, begun = None, self.count(PANEL), time.monotonic()
        self.type(message)
        while self.count(PANEL) == panels and time.monotonic() < begun + TIMEOUT_SECONDS:
            self.rest(GLANCE_SECONDS)
            if "┊" in self.text() and not self.read(0):
                seen = self.frame()
        self.wait_for(lambda: self.count(PANEL) > panels and self.ready(), TIMEOUT_SECONDS)
        return seen


class Film(FilmedTerminal):
    """A shell in which chatcli is started, ended and started again, with every change of its screen."""

    def __init__(self, home: Path) -> None:
        program = home / "bin" / "chatcli"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {" ".join(map(shlex.quote, CHATCLI))} "$@"\n')
        program.chmod(0o755)
        env = {**environment(home), "PS1": "$ ", "PATH": f"{program.parent}:{os.environ['PATH']}"}
        tty.Terminal.__init__(self, ["bash", "--norc", "--noprofile"], env, home)
        self.see_dim_letters()
        # When each frame came, and the frame.
        self.frames: list[tuple[float, Frame]] = []

    def read(self, seconds: float) -> bool:
        something = super().read(seconds)
        if something and not self._half_drawn():
            frame = self.frame()
            if not self.frames or self.frames[-1][1] != frame:
                self.frames.append((time.monotonic(), frame))
        return something

    def press(self, text: str) -> None:
        """Type as a person does."""
        for letter in text:
            self.send(letter)
            self.rest(KEY_SECONDS)
        self.rest(TYPING_SECONDS)
        self.send(tty.ENTER)

    def type(self, text: str) -> None:
        self.wait_for(self.ready, TIMEOUT_SECONDS)
        self.rest(MAX_FRAME_SECONDS)
        self.press(text)

    def command(self, line: str) -> None:
        """Start the program, at the shell's prompt."""
        self.wait_for(lambda: self.text().rstrip().endswith("$"), TIMEOUT_SECONDS)
        self.rest(MAX_FRAME_SECONDS)
        self.press(line)
        self.wait_for(self.ready, TIMEOUT_SECONDS)

    def timed(self) -> list[tuple[float, Frame]]:
        """The frames, each with the second at which it ends; what stands still is shortened."""
        ends, second = [], 0.0
        for (begun, frame), (ended, _) in pairwise(self.frames):
            second += min(ended - begun, MAX_FRAME_SECONDS)
            ends.append((second, frame))
        return [*ends, (second + LAST_FRAME_SECONDS, self.frames[-1][1])]


def environment(home: Path) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("CHATCLI")}
    folders = {f"XDG_{name}_HOME": str(home / name) for name in ("STATE", "DATA", "CONFIG")}
    sessions = {"HOME": str(home), "CHATCLI_SESSIONS": str(home / "saved")}
    return {**inherited, **folders, **sessions, "PYTHONPATH": str(HERE.parent), "PYTHONUTF8": "1"}


def conversation(home: Path) -> Iterator[tuple[str, Frame]]:
    """The first screen, three turns, and the thinking of the last while it came."""
    with FilmedTerminal(home, "--temp", "0") as terminal:
        terminal.wait_for(terminal.ready, TIMEOUT_SECONDS)
        yield "start", terminal.still()
        *_, thinking = [terminal.say(message) for message in MESSAGES]
        if thinking is not None:  # Faster than a glance: the old picture stays.
            yield "thinking", thinking
        yield "turns", terminal.still()


def branches(home: Path) -> Iterator[tuple[str, Frame]]:
    with FilmedTerminal(home, "--temp", "0") as terminal:
        for message in MESSAGES:
            terminal.say(message)
        terminal.type("/rewind 1")
        terminal.wait_for("after turn 1", TIMEOUT_SECONDS)
        terminal.say("Where do I live?")
        terminal.type("/tree")
        terminal.wait_for("Enter go there", TIMEOUT_SECONDS)
        yield "tree", terminal.still()


def session_list(home: Path) -> Iterator[tuple[str, Frame]]:
    for name, messages in SESSIONS.items():
        for message in messages:
            command = [*CHATCLI, "ask", message, "-S", name, "--temp", "0"]
            subprocess.run(command, env=environment(home), cwd=home, check=True, capture_output=True)
    with FilmedTerminal(home, "resume") as terminal:
        terminal.wait_for("Enter resume", TIMEOUT_SECONDS)
        terminal.send("\x1b[B")
        yield "resume", terminal.still()


def minute(home: Path) -> str:
    """Chat, quit, resume, branch: a moving picture."""
    with Film(home) as film:
        film.command("chatcli -S biscuit --temp 0")
        for message in MESSAGES[:2]:
            film.say(message)
        film.wait_for(film.ready, TIMEOUT_SECONDS)
        film.rest(MAX_FRAME_SECONDS)
        film.send(tty.CTRL_D)
        film.command("chatcli resume biscuit")
        film.say(MESSAGES[2])
        film.type("/branch 1 lisbon")
        film.wait_for("lisbon", TIMEOUT_SECONDS)
        film.say("Where do I live?")
        film.type("/tree")
        film.wait_for("Enter go there", TIMEOUT_SECONDS)
        film.still()
        return moving_svg(film.timed(), "chatcli: chat, quit, resume, branch")


def svg(frame: Frame, title: str) -> str:
    """A frame as SVG, without the empty rows at its end."""
    filled = [y for y, row in enumerate(frame, 1) if any(cell.data.strip() for cell in row)]
    rows = frame[: filled[-1]]
    body = (part for y, row in enumerate(rows) for part in line(row, y))
    return "\n".join([*head(len(rows), title), *body, "</g>", "</svg>\n"])


def moving_svg(frames: list[tuple[float, Frame]], title: str) -> str:
    """Frames, each with the second at which it ends, as an SVG that repeats.

    They lie below each other on a strip that jumps up; a row that several frames show is drawn once.
    """
    length, height = frames[-1][0], tty.LINES * CELL_HEIGHT + 2 * MARGIN
    drawn: dict[tuple[Char, ...], str] = {}
    strip, jumps, begun = [], [], 0.0
    for number, (end, frame) in enumerate(frames):
        jumps.append(f"{begun / length:.4%} {{ transform: translateY({-number * height}px) }}")
        for y, row in enumerate(frame):
            if any(cell.data.strip() or cell.reverse for cell in row):
                name = drawn.setdefault(tuple(row), f"r{len(drawn)}")
                strip.append(f'<use href="#{name}" y="{number * height + y * CELL_HEIGHT}"/>')
        begun = end
    jumps.append(f"100% {{ transform: translateY({-(len(frames) - 1) * height}px) }}")
    rows = (f'<g id="{name}">{"".join(line(list(row), 0))}</g>' for row, name in drawn.items())
    style = (
        f"<style>.strip {{ animation: film {length:.1f}s steps(1, end) infinite }}"
        f" @keyframes film {{ {' '.join(jumps)} }}</style>"
    )
    body = ["<defs>", *rows, "</defs>", style, '<g class="strip">', *strip, "</g>"]
    return "\n".join([*head(tty.LINES, title), *body, "</g>", "</svg>\n"])


def head(rows: int, title: str) -> list[str]:
    """The opening of a picture with this many rows."""
    width, height = round(tty.COLUMNS * CELL_WIDTH + 2 * MARGIN), rows * CELL_HEIGHT + 2 * MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-size="{FONT_SIZE}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" xml:space="preserve">',
        f"<title>{escape(title)}</title>",
        f"<style>text {{ font-family: {FONT}; white-space: pre }}</style>",
        f'<rect width="100%" height="100%" rx="9" fill="{BACKGROUND}" stroke="#3a404c"/>',
        '<g shape-rendering="crispEdges">',
    ]


def line(row: list[Char], y: int) -> Iterator[str]:
    """Words begin at their own cell and are as long as their cells; no letter here takes two."""
    x = 0
    for look, cells in groupby(row, key=lambda cell: cell._replace(data="")):
        text = "".join(cell.data for cell in cells)
        foreground, background = COLOURS[look.fg], BACKGROUND if look.bg == "default" else COLOURS[look.bg]
        if look.reverse:
            foreground, background = background, foreground
        marks = ' font-weight="bold"' * look.bold + ' font-style="italic"' * look.italics
        marks += ' fill-opacity=".6"' * look.blink
        if background != BACKGROUND:
            size = f'width="{len(text) * CELL_WIDTH:.1f}" height="{CELL_HEIGHT}"'
            yield f'<rect {place(x, y)} {size} fill="{background}"/>'
        for words in re.finditer(r"\S+(?: \S+)*", text):
            length = f'textLength="{len(words[0]) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
            where = place(x + words.start(), y + 0.74)
            yield f'<text {where} {length} fill="{foreground}"{marks}>{escape(words[0])}</text>'
        x += len(text)


def place(x: float, y: float) -> str:
    return f'x="{MARGIN + x * CELL_WIDTH:.1f}" y="{MARGIN + y * CELL_HEIGHT:.1f}"'


def main(*names: str) -> None:
    for scene in (conversation, branches, session_list):
        if not names or scene.__name__ in names:
            with tempfile.TemporaryDirectory() as home:
                for name, frame in scene(Path(home)):
                    (HERE / f"{name}.svg").write_text(svg(frame, f"chatcli: {name}"), encoding="utf-8")
    if not names or minute.__name__ in names:
        with tempfile.TemporaryDirectory() as home:
            (HERE / "minute.svg").write_text(minute(Path(home)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
