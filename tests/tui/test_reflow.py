"""A window that becomes narrower where the terminal lays out its lines anew: nothing stays twice."""

from __future__ import annotations

import fcntl
import io
import re
import struct
import termios
from typing import Any

import pyte
import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import FormattedTextControl, Layout
from prompt_toolkit.layout import Window as Area
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from pyte.screens import Char

from chatcli.tui.reflow import RESIZE_SECONDS, TMUX_RESIZE_SECONDS, ReflowRenderer, reflows
from tests.support.families import at_night
from tests.support.program import Program
from tests.support.shell import ready
from tests.support.window import Window, flat, leave_window, send_line

LONG = "a draft of several rows that is written here and will be laid out anew, once, " * 2 + "done"


class Reflowing(Window):
    """A terminal that breaks rows that have become too long, and joins them again, as tmux does.

    The cursor stays in its row of the screen, and what is above goes up.
    """

    def resize(self, columns: int, lines: int) -> None:
        while self.read(0):
            pass
        screen = self.screen
        above = list(screen.history.top)
        rows = [*above, *(screen.buffer[y] for y in range(lines))]
        whole, place = _joined(rows, len(above) + screen.cursor.y, screen.cursor.x)
        broken, (row, column) = _broken(whole, place, columns)
        top = max(row - screen.cursor.y, 0)
        screen.history.top.clear()
        screen.history.top.extend(broken[:top])
        for y in range(lines):
            cells = broken[top + y] if top + y < len(broken) else {}
            screen.buffer[y].clear()
            screen.buffer[y].update(cells)
            screen.buffer[y].goes_on = getattr(cells, "goes_on", False)  # type: ignore[attr-defined]
        screen.columns = columns
        screen.cursor.y, screen.cursor.x = row - top, column
        screen.set_margins()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


class Row(dict[int, Any]):
    """Cells of a row; whether it goes on what the row above began."""

    goes_on = False

    def __missing__(self, column: int) -> Char:
        return Char(" ")


def _joined(rows: list[Any], y: int, x: int) -> tuple[list[list[Any]], tuple[int, int]]:
    """Whole lines as lists of cells, and the cursor as (line, place in it)."""
    lines: list[list[Any]] = []
    place = (0, 0)
    for number, row in enumerate(rows):
        if not (getattr(row, "goes_on", False) and lines):
            lines.append([])
        if number == y:
            place = (len(lines) - 1, len(lines[-1]) + x)
        end = max((at for at, cell in row.items() if cell.data != " "), default=-1) + 1
        lines[-1] += [row.get(at, Char(" ")) for at in range(end)]
    return lines, place


def _broken(
    lines: list[list[Any]], place: tuple[int, int], columns: int
) -> tuple[list[Row], tuple[int, int]]:
    """Rows of so many columns, and the cursor as (row, column)."""
    rows: list[Row] = []
    cursor = (0, 0)
    for number, line in enumerate(lines):
        if number == place[0]:
            cursor = (len(rows) + place[1] // columns, place[1] % columns)
        for start in range(0, max(len(line), 1), columns):
            rows.append(Row(enumerate(line[start : start + columns])))
            rows[-1].goes_on = start > 0
    return rows, cursor


@pytest.mark.slow
@pytest.mark.parametrize("step", [at_night(30), 3])
def test_a_draft_is_there_once_however_narrow_the_window_was_made(chatcli: Program, step: int) -> None:
    with Reflowing(chatcli, "-S", "dogs", "--temp", "0", TERM_PROGRAM="WezTerm") as window:
        window.wait_for(lambda: ready(window))
        send_line(window, "My dog is called Biscuit and I live in Lisbon.")
        window.send(LONG)
        window.wait_for(lambda: flat(LONG) in flat(window.text()))
        window.wait_for(lambda: "settling" not in window.text())
        for columns in range(80 - step, 49, -step):
            window.resize(columns, 24)
            window.read(0.02)
        # The shell's own rows begin below each other, those that the terminal broke do not.
        drawn = re.compile(r"› a draft( .*)\n((  \S.*)\n)+ *\Z")
        window.wait_for(lambda: drawn.search(f"{window.text().rstrip()}\n"))
        text = flat(window.all_text())
        for once in ("› a draft of several", "› My dog is called Biscuit", "first token"):
            assert 1 == text.count(flat(once)), window.all_text()
        leave_window(window)


class Keeping(pyte.Screen):
    """As tmux: what is erased from the screen's first cell on is kept above the screen."""

    kept = 0

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 0 and (0, 0) == (self.cursor.x, self.cursor.y):
            self.kept += len("".join(self.display).split())
        super().erase_in_display(how, *args, **kwargs)


def test_what_fills_the_screen_is_erased_and_not_kept_above_it() -> None:
    written, size = io.StringIO(), Size(5, 20)
    output = Vt100_Output(written, lambda: size)
    text = Area(FormattedTextControl("one\ntwo\nthree\nfour\nfive"), height=5)
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=output):
        app: Application[None] = Application(Layout(text))
        renderer = ReflowRenderer(app.renderer.style, output, {"TMUX": "x"})
        renderer.render(app, app.layout)
        screen = Keeping(size.columns, size.rows)
        stream = pyte.Stream(screen)
        stream.feed(written.getvalue())
        assert "five" in screen.display[-1]
        written.truncate(0)
        renderer.erase()
        stream.feed(written.getvalue().lstrip("\0"))
    assert [" " * 20] * 5 == screen.display
    assert 0 == screen.kept


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [({"TERM": "xterm"}, RESIZE_SECONDS), ({"TMUX": "/tmp/x,1,0"}, TMUX_RESIZE_SECONDS)],
)
def test_nothing_is_drawn_while_a_window_is_dragged(environment: dict[str, str], seconds: float) -> None:
    clock, output, sizes = Clock(), DummyOutput(), [Size(24, 80)]
    output.get_size = lambda: sizes[-1]  # type: ignore[method-assign]
    renderer = ReflowRenderer(Style([]), output, environment, clock)
    assert renderer.ready()
    for columns in (78, 70, 60):
        sizes.append(Size(24, columns))
        assert not renderer.ready()
        assert Size(24, 80) == output.get_size()
        clock.now += seconds * 0.9
    assert not renderer.ready()
    clock.now += seconds * 0.2
    assert renderer.ready()
    assert Size(24, 60) == output.get_size()


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, True),
        ({"TERM": "screen-256color", "TMUX": "/tmp/tmux-0/default,1,0"}, True),
        ({"TERM": "screen-256color", "STY": "1.pts", "TERM_PROGRAM": "iTerm.app"}, False),
        ({}, False),
    ],
)
def test_terminals_that_lay_out_lines_anew_are_known_by_what_they_say_of_themselves(
    environment: dict[str, str], wanted: bool
) -> None:
    assert wanted == reflows(environment)
