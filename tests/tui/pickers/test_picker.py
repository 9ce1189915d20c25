"""The full-screen lists as a person meets them: a real pseudo-terminal, keys, and what is on the screen."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import (
    BRACKETED_PASTE,
    CTRL_C,
    CTRL_L,
    CURSOR_SHOWN,
    DELETE,
    DOWN,
    END,
    ENTER,
    ESCAPE,
    HOME,
    LEFT,
    PAGE_DOWN,
    PAGE_UP,
    RIGHT,
    UP,
    Terminal,
)

SHIFT_DOWN = "\x1b[1;2B"
F2 = "\x1bOQ"
HERE = "◀ here"

# What every program begins with; `keep` writes down what the list had done.
START = """
import asyncio, json, sys, time
from pathlib import Path
from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.errors import SessionExists, SessionLocked, SessionUnreadable
from chatcli.store.sessions.listing import Summary
from chatcli.tui.pickers.sessions import SessionActions, pick_session
from chatcli.tui.pickers.tree import choose_entry

NOW = time.time()
conversation = Conversation("2025-03-01")

def say(identifier, parent, text, reply, tokens=100, age=7200):
    conversation.add(Entry(identifier, parent, Message("user", text), NOW - age))
    record = {"prompt_tokens": tokens}
    answer = Message("assistant", reply)
    conversation.add(Entry(identifier + "r", identifier, answer, NOW - age, record=record))
    return identifier + "r"

def keep(*facts):
    with open("kept", "a") as file:
        file.write(json.dumps(facts) + "\\n")

def pick(cost, labels, set_label=lambda *_: None):
    return asyncio.run(choose_entry(conversation, cost, labels, set_label))

def finish(result):
    Path("result").write_text(json.dumps(result))
"""
FORKED = """
a = say("u1", None, "How do I start a sourdough?", "Flour and water, equal parts.\\nThen wait.", 118)
b = say("tap", a, "Can I use tap water?", "If it stands overnight.", 390)
say("bottle", b, "And bottled water?", "Also fine.", 460)
c = say("u2", a, "Which flour is best?", "Rye \\x1b]0;evil\\x07 ferments fastest.", 1402)
wide = "日本の小麦粉でも大丈夫ですか。パンの作り方を教えてください。"
say("u3", c, wide, "はい、大丈夫です。", 1655, 300)
def set_label(identifier, text):
    if text == "no":
        raise SessionUnreadable("The label cannot be kept: the disk is full.")
    keep(identifier, text)
costs = {"u3r": 0, "u2r": 1234, "u1": None}
chosen = pick(lambda one: costs.get(one, 77), {"u1r": "start"}, set_label)
finish(chosen)
"""
LINEAR = """
parent = None
more = "".join(f"\\nline {n}" for n in range(60))
for turn in range(1, 41):
    parent = say(f"u{turn}", parent, f"Question {turn}", f"Answer {turn}{more}")
chosen = pick(lambda one: 0, {})
finish(chosen)
"""
SESSIONS = """
sessions = [
    Summary("sourdough", 12, "How do I start a sourdough?", None, NOW - 300),
    Summary("taxes", 4, "Which receipts can I deduct?", None, NOW - 7200),
    Summary("damaged", problem="The session 'damaged' cannot be read: no header."),
    Summary("日本語", 31, "こんにちは、日本語で話しましょう。今日は天気がいいです。", None, NOW - 9e5),
    Summary("borrow-checker", 7, "Why \\x1b]0;evil\\x07 does this not compile?", None, NOW - 9e6),
]
def load(name):
    keep("load", name)
    if name == "borrow-checker":
        raise SessionUnreadable("It has just been damaged.")
    last = None
    for turn in (1, 2, 3):
        last = say(f"{name}{turn}", last, f"asked {turn} of {name}", f"told {turn} of {name}")
    conversation.head = last
    return conversation
def rename(old, new):
    if new == "taken":
        raise SessionExists("There is a session 'taken' already.")
    keep("rename", old, new)
    return new
def search(words):
    keep("search", words)
    return ["taxes", "sourdough"] if words == "kilometres" else []
def check_closed(name):
    if name == "borrow-checker":
        raise SessionLocked("It is open.")
actions = SessionActions(load, rename, lambda name: keep("delete", name), search, check_closed)
finish(pick_session(sessions, actions))
"""


class List:
    """A program that shows a list on a terminal of its own."""

    def __init__(self, folder: Path, source: str, size: tuple[int, int] | None = None, **more: str) -> None:
        self.folder = folder
        program = folder / "program.py"
        program.write_text(START + source)
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **more}
        self.terminal = Terminal([sys.executable, str(program)], env, folder)
        if size is not None:
            self.resize(*size)

    def __enter__(self) -> List:
        self.terminal.__enter__()
        self.wait_for("type to filter")
        return self

    def __exit__(self, *problem: object) -> None:
        self.terminal.__exit__(*problem)

    def resize(self, columns: int, lines: int) -> None:
        self.terminal.screen.resize(lines, columns)
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.terminal._slave, termios.TIOCSWINSZ, size)

    def press(self, keys: str, wanted: str | Callable[[], Any]) -> None:
        self.terminal.send(keys)
        self.wait_for(wanted)

    def wait_for(self, wanted: str | Callable[[], Any]) -> None:
        """Wait for this, and for the rest of the screen that it is a part of."""
        self.terminal.wait_for(wanted, seconds=20)
        while self.terminal.process.poll() is None and self.terminal.read(0.05):
            pass

    def rows(self) -> list[str]:
        return [line.rstrip() for line in self.terminal.screen.display]

    def selected(self) -> str:
        return next((row for row in self.rows() if row.startswith("❯")), "")

    def row(self, text: str) -> str:
        return next(row for row in self.rows() if text in row)

    def is_on(self, text: str) -> Callable[[], bool]:
        return lambda: text in self.selected()

    def result(self) -> Any:
        assert 0 == self.terminal.wait_for_exit(), self.terminal.all_text()
        assert self.terminal.modes_before == self.terminal.modes_now
        assert CURSOR_SHOWN in self.terminal.screen.mode
        assert BRACKETED_PASTE not in self.terminal.screen.mode
        assert b"\x1b[?1049h" in self.terminal.raw and b"\x1b[?1049l" in self.terminal.raw
        assert b"\x1b]0;evil" not in self.terminal.raw and b"\x07" not in self.terminal.raw
        return json.loads((self.folder / "result").read_text())

    def kept(self) -> list[list[str]]:
        path = self.folder / "kept"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_tree_is_drawn_with_its_branches_and_the_head_is_selected(tmp_path: Path) -> None:
    with List(tmp_path, FORKED) as tree:
        tree.wait_for(tree.is_on(HERE))
        assert "10 messages · 2 branches" in tree.rows()[0]
        assert tree.rows()[2].startswith("  ● 1 › How do I start a sourdough?")
        assert tree.rows()[3].startswith("  ●     [start] Flour and water, equal parts…")
        assert tree.rows()[4].startswith("  ├─○ 2 › Can I use tap water?")
        assert tree.rows()[5].startswith("  │ ○     If it stands overnight.")
        assert tree.rows()[7].startswith("  │ ○     Also fine.")
        assert tree.rows()[8].startswith("  ● 2 › Which flour is best?")
        assert tree.row("Rye").endswith("2 h ago    1,402   ~1,234 tok")
        assert tree.selected().endswith("5 min ago    1,655            0")
        assert tree.rows()[2].endswith("2 h ago                     –")
        assert "reply · turn 3" in tree.row("reply ·")
        assert "はい、大丈夫です。" in "".join(tree.rows()[17:]).replace(" ", "")
        tree.press(ENTER, lambda: tree.terminal.process.poll() is not None)
        assert "u3r" == tree.result()


def test_questions_and_replies_are_chosen_apart_and_wide_letters_keep_the_columns(
    tmp_path: Path,
) -> None:
    with List(tmp_path, FORKED) as tree:
        tree.press(UP, tree.is_on("3 ›"))
        # A wide letter takes two cells: the one after it is empty.
        line = tree.terminal.screen.buffer[10]
        assert "77 tok" == "".join(line[column].data for column in range(73, 79))
        assert "パンの…" == "".join(line[column].data for column in range(37, 45))
        tree.press(UP * 2, tree.is_on("2 › Which flour"))
        tree.press(ENTER, lambda: tree.terminal.process.poll() is not None)
        assert "u2" == tree.result()


def test_typing_filters_the_messages_and_leads_to_them_by_their_forks(tmp_path: Path) -> None:
    with List(tmp_path, FORKED) as tree:
        tree.press("/BOTTLED wat", tree.is_on("And bottled water?"))
        assert "1 of 10 messages match" in tree.rows()[0]
        listed = [row for row in tree.rows()[2:14] if row]
        assert listed[0].startswith("  ●     [start] Flour")
        assert listed[1].startswith("  └─○ 2 › Can I use tap water?")
        assert listed[2].startswith("❯   ○ 3 › And bottled water?")
        assert 3 == len(listed)
        assert "brightblack" == tree.terminal.screen.buffer[2][6].fg
        tree.press("zzz", "No messages match 'BOTTLED watzzz'. Esc clears the filter.")
        tree.press(ESCAPE, "type to filter")
        assert "10 messages" in tree.rows()[0]
        tree.press("rye", tree.is_on("Rye"))
        tree.press(ESCAPE, "type to filter")
        assert "Rye" in tree.selected()
        tree.press(ESCAPE, lambda: tree.terminal.process.poll() is not None)
        assert None is tree.result()


def test_a_branch_is_folded_into_its_first_message(tmp_path: Path) -> None:
    with List(tmp_path, FORKED) as tree:
        tree.press(HOME + DOWN * 4, tree.is_on("And bottled water?"))
        tree.press(LEFT, tree.is_on("Can I use tap water?  ▸ 3 more"))
        assert not any("bottled" in row for row in tree.rows())
        tree.press(LEFT, tree.is_on("Flour and water"))
        tree.press(RIGHT, "And bottled water?")
        tree.press(LEFT, "▸ 3 more")
        tree.press(CTRL_C, lambda: tree.terminal.process.poll() is not None)
        assert None is tree.result()


def test_a_label_is_typed_kept_and_found(tmp_path: Path) -> None:
    with List(tmp_path, FORKED) as tree:
        tree.press(CTRL_L, "Label:")
        tree.press("no" + ENTER, "The label cannot be kept: the disk is full.")
        tree.press("\x7f\x7foven" + ENTER, tree.is_on("[oven]"))
        assert [["u3r", "oven"]] == tree.kept()
        tree.press("oven", "1 of 10 messages match")
        tree.press(F2, "Label: oven")
        tree.press(ESCAPE, lambda: "Label:" not in tree.terminal.text())
        tree.press("\x15" + UP, tree.is_on("3 ›"))
        tree.press(ENTER, lambda: tree.terminal.process.poll() is not None)
        assert "u3" == tree.result()


def test_a_long_conversation_stays_at_one_depth_and_is_walked_by_pages(tmp_path: Path) -> None:
    with List(tmp_path, LINEAR) as tree:
        tree.wait_for(tree.is_on(HERE))
        assert "  ● 40 › Question 40" in tree.row("Question 40")
        tree.press(PAGE_UP, tree.is_on("Answer 34"))
        tree.press(HOME, tree.is_on("Question 1 "))
        assert "●  1 › Question 1 " in tree.selected()
        tree.press(PAGE_DOWN, tree.is_on("Question 7 "))
        tree.press(END, tree.is_on("Answer 40"))
        tree.press(SHIFT_DOWN * 3, "  line 7\n")
        assert "  Answer 40" not in tree.rows()
        tree.press(ESCAPE, lambda: tree.terminal.process.poll() is not None)
        assert None is tree.result()


@pytest.mark.parametrize("size", [(40, 10), (130, 40)])
def test_the_tree_fits_other_sizes(tmp_path: Path, size: tuple[int, int]) -> None:
    with List(tmp_path, FORKED, size) as tree:
        columns, lines = size
        tree.wait_for(lambda: "Enter go there" in tree.rows()[lines - 1])
        tree.wait_for(tree.is_on(HERE))
        assert "Go to a message" in tree.rows()[0]
        assert "  ~1,234 tok" in tree.row("Rye") and "tok" not in tree.selected()
        is_wide = columns >= 110
        assert is_wide == any("│  reply · turn 3" in row for row in tree.rows())
        assert is_wide == any("1,402" in row for row in tree.rows())
        tree.press(ESCAPE, lambda: tree.terminal.process.poll() is not None)
        assert None is tree.result()


def test_a_screen_that_changes_its_size_is_drawn_anew(tmp_path: Path) -> None:
    with List(tmp_path, FORKED, (40, 10)) as tree:
        tree.wait_for(lambda: "Enter go there" in tree.rows()[9])
        tree.resize(80, 24)
        tree.wait_for(lambda: "Enter go there" in tree.rows()[23])
        assert "1,655" in tree.selected()
        tree.press(ESCAPE, lambda: tree.terminal.process.poll() is not None)
        assert None is tree.result()


@pytest.mark.parametrize("source", [FORKED, SESSIONS])
def test_without_colours_no_colour_is_written(tmp_path: Path, source: str) -> None:
    with List(tmp_path, source, NO_COLOR="1") as shown:
        screen = shown.terminal.screen
        cells = [screen.buffer[line][column] for line in range(24) for column in range(80)]
        assert {"default"} == {cell.fg for cell in cells} == {cell.bg for cell in cells}
        assert any(cell.reverse for cell in cells)
        shown.press(ESCAPE, lambda: shown.terminal.process.poll() is not None)
        assert None is shown.result()


def test_an_empty_tree_says_what_to_do(tmp_path: Path) -> None:
    with List(tmp_path, "finish(pick(lambda one: 0, {}))") as tree:
        assert "say something, and /tree shows it here." in " ".join(tree.rows()[2:5])
        tree.terminal.send(ENTER + DOWN + LEFT + CTRL_L + PAGE_UP)
        tree.press("a", "No messages match 'a'")
        tree.press(CTRL_C, lambda: tree.terminal.process.poll() is not None)
        assert None is tree.result()


def test_sessions_are_listed_and_shown_and_one_is_chosen(tmp_path: Path) -> None:
    with List(tmp_path, SESSIONS) as sessions:
        assert "5 sessions" in sessions.rows()[0]
        assert sessions.is_on("sourdough")()
        assert sessions.selected().endswith("12   5 min ago")
        assert "damaged" in sessions.row("cannot be read")
        assert "red" == sessions.terminal.screen.buffer[4][2].fg
        assert sessions.row("日").endswith("31    10 d ago")
        sessions.wait_for("  3 › asked 3 of sourdough")
        assert "    told 2 of sourdough" in sessions.rows()
        assert not any("asked 1" in row for row in sessions.rows())
        sessions.press(DOWN, "told 3 of taxes")
        sessions.press(DOWN + ENTER, "  The session 'damaged' cannot be read: no header.")
        assert sessions.terminal.process.poll() is None
        sessions.press(END, "It has just been damaged.")
        sessions.press(UP, sessions.is_on("日"))
        sessions.press(ENTER, lambda: sessions.terminal.process.poll() is not None)
        assert "日本語" == sessions.result()


def test_sessions_are_filtered_by_name_first_words_and_messages(tmp_path: Path) -> None:
    with List(tmp_path, SESSIONS) as sessions:
        sessions.press("DEDUCT rec", "1 of 5 sessions")
        assert sessions.is_on("taxes")()
        sessions.press(ESCAPE, "type to filter")
        assert sessions.is_on("taxes")()
        sessions.press("kilometres", "2 of 5 sessions")
        assert [True, True] == [sessions.row(name) != "" for name in ("sourdough", "taxes")]
        sessions.press("zzz", "No sessions match 'kilometreszzz'. Esc clears the filter.")
        searched = [fact[1] for fact in sessions.kept() if fact[0] == "search"]
        assert {"kilometres", "kilometreszzz"} <= set(searched)
        sessions.press(ESCAPE, "5 sessions")
        sessions.press(ESCAPE, lambda: sessions.terminal.process.poll() is not None)
        assert None is sessions.result()


def test_a_session_is_renamed_and_a_refusal_can_be_mended(tmp_path: Path) -> None:
    with List(tmp_path, SESSIONS) as sessions:
        sessions.press(DOWN + F2, "New name: taxes")
        sessions.press("\x15taken" + ENTER, "There is a session 'taken' already.")
        sessions.press("\x15money" + ENTER, sessions.is_on("money"))
        assert ["rename", "taxes", "money"] in sessions.kept()
        sessions.press(F2, "New name: money")
        sessions.press(ESCAPE, lambda: "New name" not in sessions.terminal.text())
        sessions.press(ENTER, lambda: sessions.terminal.process.poll() is not None)
        assert "money" == sessions.result()


def test_a_session_is_deleted_only_after_a_yes(tmp_path: Path) -> None:
    with List(tmp_path, SESSIONS, (40, 10)) as sessions:
        sessions.wait_for(lambda: "Enter resume" in sessions.rows()[9])
        for no in ("n", ENTER, ESCAPE, "\x18"):
            sessions.press(DELETE, "Delete 'sourdough' for good? y/N")
            sessions.press(no, "Enter resume")
        assert not any(fact[0] == "delete" for fact in sessions.kept())
        sessions.press("\x18", "Delete 'sourdough' for good? y/N")
        sessions.press("y", "4 sessions")
        assert ["delete", "sourdough"] in sessions.kept()
        assert sessions.is_on("taxes")()
        sessions.press(ESCAPE, lambda: sessions.terminal.process.poll() is not None)
        assert None is sessions.result()


def test_it_is_not_asked_whether_to_delete_a_session_that_is_open(tmp_path: Path) -> None:
    with List(tmp_path, SESSIONS, (40, 10)) as sessions:
        sessions.press("borrow", sessions.is_on("borrow-checker"))
        sessions.press("\x18", "It is open.")
        assert "Delete" not in sessions.terminal.text()


def test_no_sessions_say_what_to_do(tmp_path: Path) -> None:
    with List(
        tmp_path, "finish(pick_session([], SessionActions(print, print, print, print, print)))"
    ) as sessions:
        assert "No saved sessions yet." in sessions.rows()[2]
        sessions.terminal.send(ENTER + F2 + DELETE + DOWN)
        sessions.press(CTRL_C, lambda: sessions.terminal.process.poll() is not None)
        assert None is sessions.result()


def test_a_slow_search_and_a_slow_disk_never_hold_up_typing_or_leaving(tmp_path: Path) -> None:
    source = """
def rename(old, new):
    return new
def slow(words):
    time.sleep(30)
    return []
many = [Summary(f"chat-{n}", 1, f"topic {n}", None, NOW) for n in range(10_000)]
finish(pick_session(many, SessionActions(slow, rename, print, slow, print)))
"""
    with List(tmp_path, source) as sessions:
        sessions.press("topic", "searching…")
        started = time.monotonic()
        sessions.press(" 4321", "1 of 10,000 sessions")
        sessions.press(ENTER, lambda: sessions.terminal.process.poll() is not None)
        assert time.monotonic() - started < 5
        assert "chat-4321" == sessions.result()
