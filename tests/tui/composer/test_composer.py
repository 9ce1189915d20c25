"""The box for a message: what keys and pastes do to it, in a real terminal and through a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import get_cwidth

from chatcli.errors import UsageError
from chatcli.tui.composer.composer import Composer
from chatcli.tui.composer.editor import find_editor
from chatcli.tui.composer.escape import ESCAPE_DELAY, make_final
from chatcli.tui.composer.paste import FIRST_CHIP
from chatcli.tui.composer.rows import LineWrapper
from tests import ROOT
from tests.support.terminal import (
    ALT_ENTER,
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    DELETE,
    DOWN,
    ENTER,
    ESCAPE,
    LEFT,
    TAB,
    UP,
    Terminal,
    pasted,
)

UNDO, EXPAND, EDIT, SEARCH = "\x1f", "\x0f", "\x07", "\x12"
CTRL_A, CTRL_E, CTRL_J, CTRL_W, CTRL_Y = "\x01", "\x05", "\n", "\x17", "\x19"
# No key: long enough for what follows to be none of the same.
PAUSE = "pause"
LONG = "".join(f"line {number} of a log\n" for number in range(214))
WIDE = "x" * 2345
WORDS = ["/help", "/history", "/quit", "/resume ", "/rename "]
# Less than a pipe holds.
CHUNK = 30_000

PROGRAM = """
import json, sys
from pathlib import Path
from prompt_toolkit.application import Application
from prompt_toolkit.filters import has_focus
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style
from chatcli.commands import mentions
from chatcli.files import Location
from chatcli.tui.composer.composer import STYLE, Composer
from chatcli.tui.composer.history import SessionHistory

WORDS = ["/help", "/history", "/quit", "/resume ", "/rename "]
log, editor = Path(sys.argv[1]), sys.argv[2] or None

def log_event(kind, **values):
    with log.open("a") as file:
        file.write(json.dumps({"kind": kind, **values}) + "\\n")

notices = []

def complete_command(line):
    return [(word, -len(line), "") for word in WORDS if word.startswith(line)]

def notify(text):
    notices[:] = [text]
    log_event("notified", text=text)

def accept(text):
    expanded = mentions.expand(text, Path(), composer.paste_texts)
    log_event("accepted", text=text, expanded=expanded.text)

history = SessionHistory(Location.of(Path()), lambda: "talk")
composer = Composer(
    on_accept=accept,
    on_change=lambda text, at_once: log_event("changed", length=len(text), at_once=at_once),
    on_clear=lambda: None,
    on_escape=lambda: log_event("escaped"),
    notify=notify,
    history=history,
    pastes=history.pastes,
    complete_command=complete_command,
    editor=editor,
)
keys = KeyBindings()

@keys.add("c-d")
def _(event):
    event.app.exit()

@keys.add("c-c")
def _(event):
    log_event("interrupted")

style = Style.from_dict({
    **STYLE,
    "completion-menu": "bg:default default",
    "completion-menu.completion": "bg:default ansicyan",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "bg:default ansibrightblack",
    "completion-menu.meta.completion.current": "bg:default ansibrightblack",
    "bottom": "ansibrightblack",
})
root = HSplit([
    Window(FormattedTextControl(lambda: notices[0] if notices else "No one has said a thing."), height=1),
    composer.container,
    CompletionsMenu(max_height=6, extra_filter=has_focus(composer.buffer)),
    Window(FormattedTextControl(" a session · a model"), height=1, style="class:bottom"),
])
app = Application(Layout(root, composer.window), key_bindings=keys, style=style, refresh_interval=0.2)
app.ttimeoutlen = app.timeoutlen = 0.05
app.run()
"""


class Program:
    """A little program around a box, in a terminal of 80 by 24."""

    def __init__(self, folder: Path, editor: str = "") -> None:
        self.log = folder / "log.jsonl"
        script = folder / "program.py"
        script.write_text(PROGRAM)
        (folder / "here").mkdir(exist_ok=True)
        command = [sys.executable, str(script), str(self.log), editor]
        root = ROOT
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(root)}
        self.terminal = Terminal(command, env, folder / "here")

    def __enter__(self) -> Program:
        self.terminal.__enter__()
        self.shows("a session · a model")
        return self

    def __exit__(self, *_: object) -> None:
        self.terminal.__exit__()

    def keys(self, *keys: str) -> None:
        self.terminal.send("".join(keys))

    def paste(self, text: str) -> None:
        self.terminal.send(pasted(text.replace("\n", "\r")))

    def shows(self, *texts: str) -> None:
        self.terminal.wait_for(lambda: all(text in self.terminal.text() for text in texts))

    def lines(self, kind: str) -> list[dict[str, object]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in map(json.loads, lines) if line["kind"] == kind]

    def accepted(self, count: int = 1) -> str:
        """The text of the `count`-th message, once it is there."""
        self.terminal.wait_for(lambda: len(self.lines("accepted")) >= count)
        assert count == len(self.lines("accepted"))
        return str(self.lines("accepted")[-1]["text"])


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with Program(tmp_path) as started:
        yield started


@dataclass
class PipedComposer:
    """A box that keys reach through a pipe, and what came out of it."""

    pipe: PipeInput
    composer: Composer
    history: InMemoryHistory
    sent: list[str] = field(default_factory=list)
    changes: list[tuple[str, bool]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    escapes: int = 0

    def escape(self) -> None:
        self.escapes += 1

    def has_history(self) -> bool:
        """prompt_toolkit reads the history on a task, and anew once the box was emptied."""
        return len(self.composer.buffer._working_lines) > len(self.history.get_strings())

    def is_emptied(self) -> bool:
        return not self.composer.text and self.has_history()

    async def keys(self, *keys: str) -> None:
        for key in keys:
            for start in range(0, len(key), CHUNK):
                self.pipe.send_text(key[start : start + CHUNK])
                await asyncio.sleep(0.01)

    async def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not holds():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


@contextmanager
def piped_composer(folder: Path, *entries: str, editor: str | None = None) -> Iterator[PipedComposer]:
    history = InMemoryHistory(list(entries))
    with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):

        def accept(text: str) -> None:
            if text == "refuse":
                raise UsageError("It is refused.")
            if text == "edit":
                composer.set_text("the message before")
            box.sent.append(text)

        composer = Composer(
            on_accept=accept,
            on_change=lambda text, at_once: box.changes.append((text, at_once)),
            on_clear=lambda: None,
            on_escape=lambda: box.escape(),
            notify=lambda text: box.notices.append(text),
            history=history,
            complete_command=lambda line: [(word, -len(line), "") for word in WORDS if word.startswith(line)],
            folder=folder,
            editor=editor,
        )
        box = PipedComposer(pipe, composer, history)
        yield box


def run(box: PipedComposer, *steps: str | Callable[[], object]) -> None:
    """Press keys one after another; a callable is waited for until it holds."""

    async def act() -> None:
        app: Application[None] = Application(Layout(box.composer.container, box.composer.window))
        make_final(app)
        task = asyncio.ensure_future(app.run_async())
        await box.until(lambda: app.render_counter and box.has_history())
        for step in steps:
            if step == PAUSE:
                await asyncio.sleep(2 * ESCAPE_DELAY)
            elif callable(step):
                await box.until(step)
            else:
                await box.keys(step)
        await asyncio.sleep(0.02)
        if not app.is_done:
            app.exit()
        await task

    asyncio.run(act())


@pytest.mark.parametrize(
    "keys",
    [
        ["one", ALT_ENTER, "two"],
        ["one", CTRL_J, "two"],
        ["one\\", ENTER, "two"],
        ["one", "\x1b[13;2u", "two"],
        ["one", "\x1b[27;2;13~", "two"],
        ['"""one', ENTER, 'two"""'],
        ['"""', ENTER, "one", ENTER, "two", ENTER, '"""'],
    ],
)
def test_every_way_to_write_two_lines_and_enter_sends_them(tmp_path: Path, keys: list[str]) -> None:
    with piped_composer(tmp_path) as box:
        run(box, *keys, ENTER)
        assert ["one\ntwo"] == box.sent
        assert box.composer.is_empty


@pytest.mark.parametrize(
    ("keys", "escapes", "left"),
    [
        ([ESCAPE, PAUSE, "different"], 1, "different"),
        ([f"{ESCAPE}different"], 1, "different"),  # a slow line joins what came apart
        ([f"{ESCAPE}3 lines"], 1, "3 lines"),
        ([f"{ESCAPE}/continue"], 1, "/continue"),
        ([ESCAPE + ESCAPE + "bad"], 2, "bad"),
        ([f"{ESCAPE}{pasted('pasted')}"], 1, "pasted"),
        (["one two", ESCAPE, PAUSE, "before"], 1, "one twobefore"),
        (["one two", f"{ESCAPE}/"], 1, "one two/"),
    ],
)
def test_no_letter_typed_after_escape_is_lost(
    tmp_path: Path, keys: list[str], escapes: int, left: str
) -> None:
    with piped_composer(tmp_path) as box:
        run(box, *keys)
    assert (escapes, left) == (box.escapes, box.composer.text)


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (["one two", f"{ESCAPE}b", "X"], "one Xtwo"),
        (["one two", f"{ESCAPE}[1;3D", "X"], "one Xtwo"),
        (["one two", CTRL_A, f"{ESCAPE}f", "X"], "oneX two"),
        (["one two", CTRL_A, f"{ESCAPE}d"], " two"),
        (["one-two", ESCAPE + BACKSPACE], "one-"),
        (["one", ALT_ENTER, "two"], "one\ntwo"),
        ([f"{ESCAPE}[1;3D", f"{ESCAPE}[1;3A", "text"], "text"),
        (["one", LEFT, UP, "X"], "onXe"),
    ],
)
def test_alt_and_arrows_that_come_in_one_piece_are_no_escape(
    tmp_path: Path, keys: list[str], left: str
) -> None:
    with piped_composer(tmp_path) as box:
        run(box, *keys)
    assert (0, left) == (box.escapes, box.composer.text)


def test_a_backslash_that_the_cursor_is_not_behind_is_sent(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "a\\b", ENTER)
        assert ["a\\b"] == box.sent


def test_nothing_and_blanks_are_not_sent(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, ENTER, "  ", ENTER, CTRL_J, ENTER, CTRL_C, '""""""', ENTER)
        assert [] == box.sent


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (LONG, "[pasted 214 lines]"),
        (WIDE, "[pasted 2,345 characters]"),
        ("\n" * 9, "[pasted 9 lines]"),
        ("x\r\n" * 20, "[pasted 20 lines]"),
    ],
)
def test_a_long_paste_is_a_chip_that_is_sent_in_full_and_comes_back(
    tmp_path: Path, text: str, label: str
) -> None:
    def shown(wanted: str) -> Callable[[], bool]:
        return lambda: box.composer.display_text == wanted

    with piped_composer(tmp_path) as box:
        recalled = (box.is_emptied, UP, shown(f"see {label} ok"), ENTER)
        run(box, "see ", pasted(text), shown(f"see {label}"), " ok", ENTER, *recalled)
        whole = text.replace("\r\n", "\n")
        assert [f"see {whole} ok"] * 2 == box.sent
        assert 1 == len(box.history.get_strings())


def test_a_short_paste_is_text(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, pasted("one\ntwo\n" * 4))
        assert box.composer.display_text == "one\ntwo\n" * 4
        assert box.changes == [("one\ntwo\n" * 4, True)]


def test_what_changed_is_told_in_full_and_whether_it_came_at_once(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "a", pasted(LONG), "b")
        assert [("a", False), ("a" + LONG, True), ("a" + LONG + "b", False)] == box.changes


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ([BACKSPACE], "a[pasted 214 lines]"),
        ([LEFT, BACKSPACE], "ab"),
        ([LEFT, LEFT, DELETE], "ab"),
        ([LEFT, LEFT, "|"], "a|[pasted 214 lines]b"),
        ([LEFT, BACKSPACE, UNDO], "a[pasted 214 lines]b"),
        ([CTRL_W, CTRL_Y, "!"], "a[pasted 214 lines]b!"),
        ([CTRL_C, UNDO], "a[pasted 214 lines]b"),
    ],
)
def test_a_chip_is_one_unit(tmp_path: Path, keys: list[str], shown: str) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "a", pasted(LONG), "b", *keys)
        assert shown == box.composer.display_text
        assert box.composer.text == shown.replace("[pasted 214 lines]", LONG)


def test_several_chips_are_numbered(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, pasted(LONG), pasted(WIDE), lambda: "#2" in box.composer.display_text)
        assert "[pasted 214 lines][pasted 2,345 characters #2]" == box.composer.display_text


def test_the_key_that_opens_a_paste_folds_it_again(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "see ", pasted(LONG), " and ", pasted(WIDE), EXPAND)
        assert f"see [pasted 214 lines] and {WIDE}" == box.composer.display_text
        run(box, EXPAND)
        assert "see [pasted 214 lines] and [pasted 2,345 characters #2]" == box.composer.display_text
        run(box, CTRL_A, EXPAND)
        assert f"see {LONG} and [pasted 2,345 characters #2]" == box.composer.display_text
        run(box, EXPAND, UNDO)
        assert f"see {LONG} and {WIDE}" == box.composer.text


def test_a_chip_is_expanded_in_place_and_folded_again_by_undo(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "a", pasted(LONG), "b", pasted(WIDE), CTRL_A, EXPAND)
        assert f"a{LONG}b[pasted 2,345 characters #2]" == box.composer.display_text
        assert f"a{LONG}b{WIDE}" == box.composer.text
        run(box, UNDO)
        assert "a[pasted 214 lines]b[pasted 2,345 characters #2]" == box.composer.display_text


def test_text_that_looks_like_a_chip_is_none(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, pasted(LONG), FIRST_CHIP, pasted(f"{FIRST_CHIP}[pasted 214 lines]"), EXPAND)
        assert f"{LONG}[pasted 214 lines]" == box.composer.buffer.text


def test_a_refused_message_stays_with_its_chips(tmp_path: Path) -> None:
    with piped_composer(tmp_path, "earlier") as box:
        run(box, "refuse", ENTER)
        assert ("refuse", ["It is refused."]) == (box.composer.text, box.notices)
        assert ["earlier"] == box.history.get_strings()


def test_a_text_that_is_brought_back_has_its_chips_again(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "a", pasted(LONG), ENTER)
        box.composer.set_text(box.sent[0])
        assert "a[pasted 214 lines]" == box.composer.display_text
        assert ("a" + LONG, False) == box.changes[-1]
        assert "a[pasted 214 lines]" == box.composer.with_labels(box.sent[0])


def test_a_handler_may_put_a_text_into_the_box(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "edit", ENTER)
        assert "the message before" == box.composer.text


def test_up_and_down_go_through_the_rows_and_then_the_history(tmp_path: Path) -> None:
    with piped_composer(tmp_path, "first", "second\nmessage") as box:
        run(box, UP)
        assert "second\nmessage" == box.composer.text
        run(box, UP, "|")
        assert "second|\nmessage" == box.composer.text
        run(box, CTRL_C, box.is_emptied, UP, UP, UP)
        assert "first" == box.composer.text
        run(box, DOWN, DOWN, DOWN)
        assert "" == box.composer.text


def test_up_finds_what_begins_as_what_is_typed(tmp_path: Path) -> None:
    with piped_composer(tmp_path, "draw a cat", "name a dog", "draw a dog", "name a cat") as box:
        run(box, "draw", UP)
        assert "draw a dog" == box.composer.text
        run(box, UP, UP)
        assert "draw a cat" == box.composer.text
        run(box, DOWN, DOWN)
        assert "draw" == box.composer.text
        run(box, "n", UP)
        assert "drawn" == box.composer.text


def test_up_goes_up_a_row_of_a_wrapped_line(tmp_path: Path) -> None:
    words = "word " * 29  # 15 to a row of 78 columns
    with piped_composer(tmp_path, f"{words}earlier") as box:
        run(box, words, UP, "|")
        assert "word " * 14 + "|" + "word " * 15 == box.composer.text
        run(box, BACKSPACE, DOWN, "|")
        assert box.composer.text.endswith("|")
        run(box, BACKSPACE, UP, UP)
        assert f"{words}earlier" == box.composer.text


def test_ctrl_c_on_a_box_from_the_history_starts_at_the_newest_end_again(tmp_path: Path) -> None:
    with piped_composer(tmp_path, "first", "second") as box:
        run(box, UP, UP, CTRL_C, box.is_emptied, UP)
        assert "second" == box.composer.text


def test_a_text_that_is_cleared_to_be_kept_comes_back_with_up(tmp_path: Path) -> None:
    with piped_composer(tmp_path, "first") as box:
        run(box, "half a ", pasted(LONG), lambda: box.composer.clear(keep=True) or True, PAUSE, UP)
        assert f"half a {LONG}" == box.composer.text


def test_the_history_is_searched(tmp_path: Path) -> None:
    with piped_composer(tmp_path, "the needle is here", "something else") as box:
        run(box, "draft", SEARCH, "needle", ENTER)
        assert "the needle is here" == box.composer.text
        run(box, CTRL_C, "draft", SEARCH, "else", CTRL_C)
        assert "draft" == box.composer.text
        run(box, SEARCH, ENTER, "!", SEARCH, "nowhere", ENTER)
        assert "draft!" == box.composer.text


def test_tab_completes_commands_and_enter_runs_a_chosen_one_that_takes_no_argument(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        run(box, "/help", TAB, ENTER)
        assert ["/help"] == box.sent
        menu = box.composer.buffer
        run(box, "/h", lambda: menu.complete_state and menu.complete_state.completions)
        run(box, TAB, TAB, ENTER)
        assert ("", ["/help", "/history"]) == (box.composer.text, box.sent)


def test_a_chosen_command_that_takes_an_argument_waits_for_it(tmp_path: Path) -> None:
    with piped_composer(tmp_path) as box:
        menu = box.composer.buffer
        run(box, "/re", lambda: menu.complete_state and menu.complete_state.completions)
        run(box, DOWN, ENTER, "notes", ENTER)
        run(box, "/ren", TAB, "dogs", ENTER)
        assert ["/resume notes", "/rename dogs"] == box.sent


def test_files_are_completed_after_an_at_sign(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "my notes.txt").write_text("hello")
    (tmp_path / ".secret").write_text("x")
    with piped_composer(tmp_path) as box:
        run(box, "see @", TAB, TAB)
        assert 'see @"source/my notes.txt"' == box.composer.text
        run(box, CTRL_C, "me@so", TAB, " @.s", TAB)
        assert "me@so @.secret" == box.composer.text


def test_an_editor_gets_the_whole_text_and_gives_it_back(tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text("import sys; f = open(sys.argv[1], 'a'); f.write(' and more\\n')")
    with piped_composer(tmp_path, editor=f"{sys.executable} {script}") as box:
        run(box, pasted(LONG), "end", EDIT, lambda: "more" in box.composer.text)
        assert f"{LONG}end and more" == box.composer.text
        assert "[pasted 214 lines]end and more" == box.composer.display_text
        run(box, UNDO, "\x18\x05", lambda: "more" in box.composer.text)


@pytest.mark.parametrize(
    ("environment", "installed", "editor"),
    [
        ({"VISUAL": "code -w", "EDITOR": "vi"}, ["nano"], "code -w"),
        ({"EDITOR": "vi"}, ["nano"], "vi"),
        ({"EDITOR": ""}, ["vi", "nano"], "nano"),
        ({}, ["vi"], "vi"),
        ({}, [], None),
    ],
)
def test_without_a_choice_the_editor_is_one_that_is_installed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    installed: list[str],
    editor: str | None,
) -> None:
    for name in installed:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert editor == find_editor(environment)


@pytest.mark.parametrize(
    ("editor", "reason"),
    [
        (None, "No editor is set"),
        ("", "No editor is set"),
        ("/nowhere/editor", "cannot be started"),
        ("'unclosed", "cannot be started"),
        ("false", "ended with an error (1)"),
    ],
)
def test_an_editor_that_fails_loses_nothing(tmp_path: Path, editor: str | None, reason: str) -> None:
    with piped_composer(tmp_path, editor=editor) as box:
        run(box, "a", pasted(LONG), EDIT, lambda: box.notices)
        assert ["a[pasted 214 lines]", 1] == [box.composer.display_text, len(box.notices)]
        assert reason in box.notices[0]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("one two", ["one two"]),
        ("one two three", ["one two ", "three"]),
        ("12345678 x", ["12345678", "x"]),
        ("12345678901 x", ["12345678", "901 x"]),
        ("a 123456789", ["a 123456", "789"]),
        ("a\tbcde fg", ["a    ", "bcde fg"]),
        ("日本語文字列", ["日本語文", "字列"]),
        ("a日本語文", ["a日本語 ", "文"]),
        (f"see {FIRST_CHIP}, ok", ["see ", "[chip], ", "ok"]),
        ("a\x1bb", ["a␛b"]),
    ],
)
def test_a_line_is_laid_out_in_rows_of_whole_words(text: str, rows: list[str]) -> None:
    line = LineWrapper({FIRST_CHIP: "[chip]"}.get).wrap(text, 8)
    drawn = "".join(" " * blanks + look for blanks, look in line.cells)
    rest, cut_rows = drawn, []
    while get_cwidth(rest) > 8:
        end = next(i for i in range(len(rest)) if get_cwidth(rest[: i + 1]) > 8)
        cut_rows.append(rest[:end])
        rest = rest[end:]
    assert [row.rstrip() for row in rows] == [row.rstrip() for row in [*cut_rows, rest]]
    assert len(rows) == len(line.row_starts)


@pytest.mark.parametrize("width", range(-2, 4))
def test_a_line_is_laid_out_however_narrow_the_screen_is(width: int) -> None:
    line = LineWrapper({FIRST_CHIP: "[chip]"}.get).wrap(f"ab cd\t{FIRST_CHIP} 日本", width)
    assert 10 == len(line.cells)


def test_a_key_is_quick_behind_a_chip_of_a_hundred_thousand_characters(tmp_path: Path) -> None:
    paste = "some words of a log\n" * 5000
    with piped_composer(tmp_path) as box:
        run(box, pasted(paste), "x")
        began = time.perf_counter()
        for _ in range(100):
            box.composer.buffer.insert_text("y", fire_event=False)
        assert time.perf_counter() - began < 0.5
        assert box.changes[-1] == (f"{paste}x{'y' * 100}", False)


def test_enter_sends_and_the_box_is_empty_again(program: Program) -> None:
    program.shows("› Say something, or / for commands")
    program.keys("hello there", ENTER)
    assert "hello there" == program.accepted()
    program.shows("› Say something")


def test_keys_of_an_empty_box_are_the_shells(program: Program) -> None:
    program.keys("text", CTRL_C)
    program.shows("› Say something")
    program.keys(CTRL_C)
    program.terminal.wait_for(lambda: program.lines("interrupted"))
    program.keys("ab", CTRL_A, CTRL_D)
    program.shows("› b")
    program.keys(ESCAPE)
    program.terminal.wait_for(lambda: program.lines("escaped"))
    program.keys(CTRL_D, CTRL_D)
    assert 0 == program.terminal.wait_for_exit()
    assert 1 == len(program.lines("interrupted"))
    assert "Traceback" not in program.terminal.all_text()


def test_escape_closes_the_menu_and_only_then_is_the_shells(program: Program) -> None:
    program.keys("/h")
    program.shows("/help", "/history")
    program.keys(ESCAPE)
    program.terminal.wait_for(lambda: "/history" not in program.terminal.text())
    assert [] == program.lines("escaped")
    program.keys(ESCAPE)
    program.terminal.wait_for(lambda: program.lines("escaped"))
    program.shows("› /h")


def test_long_lines_are_broken_between_words_and_the_box_grows_to_a_third(program: Program) -> None:
    program.keys("Please read this log and tell me why the third build of the night failed, and what")
    program.shows("› Please read this", "failed, and\n  what")
    for number in range(10):
        program.keys(ALT_ENTER, f"line {number}")
    program.shows("line 9")
    rows = program.terminal.text().splitlines()
    assert [f"  line {number}" for number in range(2, 10)] == rows[1:9]
    assert " a session · a model" in rows[9:]


@pytest.mark.parametrize(
    ("typed", "shown", "left"),
    [
        ("ab🇫🇷cd", "› abFR", "ab🇫🇷"),
        ("👩\u200d👩\u200d👧ab", "› 👩👩👧", "👩\u200d👩\u200d👧"),
        ("👍🏽ab", "› 👍", "👍🏽"),
        ("❤\ufe0fab", "› ❤", "❤\ufe0f"),
    ],
)
def test_what_follows_an_emoji_is_erased_in_every_terminal(
    program: Program, typed: str, shown: str, left: str
) -> None:
    program.keys(typed)
    program.shows(shown + typed[-2:])
    program.keys(BACKSPACE, BACKSPACE)
    program.terminal.wait_for(lambda: shown in map(str.rstrip, program.terminal.text().split("\n")))
    program.keys(ENTER)
    assert left == program.accepted()
    # Terminals do not agree in how many columns these take, so none of them is drawn.
    drawn = program.terminal.raw.decode()
    assert not {*"🇫🇷🏽\u200d\ufe0f"} & {*drawn}


def test_a_paste_is_shown_as_a_chip(program: Program) -> None:
    program.keys("why? ")
    program.paste(LONG)
    program.shows("› why? [pasted 214 lines]")
    program.keys(ENTER)
    assert f"why? {LONG}" == program.accepted()


def test_a_named_file_is_completed_measured_and_attached(program: Program, tmp_path: Path) -> None:
    (tmp_path / "here" / "notes.txt").write_text("one two three\n")
    program.keys("read @n")
    program.shows("notes.txt  14 B")
    program.keys(TAB)
    program.shows("› read @notes.txt", "  @notes.txt 14 B")
    program.keys(ENTER)
    assert "read @notes.txt" == program.accepted()
    sent = program.lines("accepted")[0]["expanded"]
    assert "## notes.txt\n\n```text\none two three\n```\n\nread @notes.txt" == sent


def test_a_file_that_is_not_text_is_refused_and_nothing_is_lost(program: Program, tmp_path: Path) -> None:
    (tmp_path / "here" / "pic.png").write_bytes(b"\x89PNG\0")
    program.keys("look at @pic.png")
    program.shows("  @pic.png 5 B")
    program.keys(ENTER)
    program.shows("@pic.png is not text in UTF-8", "› look at @pic.png")
    assert [] == program.lines("accepted")


def test_the_history_is_there_in_the_next_session_with_its_pastes_folded(
    program: Program, tmp_path: Path
) -> None:
    program.keys("why? ")
    program.paste(LONG)
    program.shows("[pasted")
    program.keys(ENTER)
    program.accepted()
    program.keys(CTRL_D)
    assert 0 == program.terminal.wait_for_exit()
    with Program(tmp_path) as again:
        again.keys(UP)
        again.shows("› why? [pasted 214 lines]")
        again.keys(ENTER)
        assert f"why? {LONG}" == again.accepted(2)


def test_the_search_shows_what_it_finds(program: Program) -> None:
    program.keys("the needle is here", ENTER, "another thing", ENTER)
    program.accepted(2)
    program.keys(SEARCH, "need")
    program.shows("› the needle is here", "search back: need")
    assert "Say something" not in program.terminal.text()
    program.keys(ENTER)
    program.terminal.wait_for(lambda: "search back" not in program.terminal.text())
    program.keys("!", ENTER)
    program.accepted(3)


def test_an_editor_has_the_terminal_for_itself(tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text("import sys; open(sys.argv[1], 'a').write(' from ' + input('name? '))")
    with Program(tmp_path, f"{sys.executable} {script}") as program:
        program.keys("hello", EDIT)
        program.shows("name?")
        program.keys("me", ENTER)
        program.shows("› hello from me")
        program.keys(ENTER)
        assert "hello from me" == program.accepted()
