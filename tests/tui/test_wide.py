"""Wide characters, joined emoji, flags and accents on the screen: what is where, counted in columns."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pyte
import pytest
from tokenizers.pre_tokenizers import ByteLevel
from wcwidth import wcwidth

from chatcli.conversation.tree import Message
from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import clean
from tests.support.program import Program
from tests.support.shell import ready, turns_of
from tests.support.terminal import CTRL_C, ENTER, ESCAPE, Answering
from tests.support.tiny import OPEN_THINK, restrict_to_tokens, write_model
from tests.support.window import Window, flat, leave_window, send_line

FLAG, FAMILY = "🇫🇷", "👩\u200d👩\u200d👧"
HEART, THUMB, ACCENT = "❤\ufe0f", "👍🏽", "cafe\u0301"
SAMPLES = ["日本語", "한국어", FLAG, FAMILY, HEART, THUMB, ACCENT, "a日b"]
MESSAGE = f"東京都千代田区丸の内一丁目 {FAMILY} {FLAG}{FLAG} {HEART} {THUMB} {ACCENT} 日本語の長い文章です"
NAME = f"日本語 {FLAG} {ACCENT}"
COLUMNS = 80


class Steady(Answering):
    """A screen that leaves out what joins and colours emoji (pyte would leave out what follows)."""

    def draw(self, data: str) -> None:
        super().draw(bare(data))


class Wide(Window):
    def __init__(self, program: Program, *args: object) -> None:
        super().__init__(program, *args, columns=COLUMNS)
        self.screen = Steady(COLUMNS, self.screen.lines, history=2000, ratio=0.5)
        self.screen.answer = self.send
        self._stream = pyte.ByteStream(self.screen)

    def drawn(self, text: str) -> str:
        return flat(bare(text))

    def line(self, text: str) -> None:
        self.send(text)
        self.wait_for(lambda: flat(boxed(text))[-30:] in flat(self.text()))
        self.send(ENTER)


def bare(text: str) -> str:
    """Without what takes no column, but for accents, composed."""
    kept = "".join(char for char in text if wcwidth(char) or unicodedata.combining(char))
    return unicodedata.normalize("NFC", kept)


def boxed(text: str) -> str:
    """As the box and the line below it show it: without what terminals draw in different widths."""
    return bare(text).replace(FLAG, "FR").replace(THUMB, THUMB[0])


def cells(text: str) -> int:
    return sum(map(wcwidth, text))


def polyglot(folder: Path) -> Path:
    """A model that says the samples and nothing else: they take the last merged words' places."""
    write_model(folder, "gpt_oss", template=OPEN_THINK)
    path = folder / "tokenizer.json"
    read: dict[str, Any] = json.loads(path.read_text())
    merges, vocabulary = read["model"]["merges"], read["model"]["vocab"]
    spelled = [ByteLevel(False, use_regex=False).pre_tokenize_str(s)[0][0] for s in SAMPLES[:7]]
    for word in spelled:
        vocabulary[word] = vocabulary.pop("".join(merges.pop()))
    path.write_text(json.dumps(read))
    return restrict_to_tokens(folder, [*spelled, "</think>", 0x20, 0x20])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("wide")
    return Program(folder / "home", polyglot(folder / "polyglot"))


@pytest.mark.slow
def test_what_is_wide_stands_where_it_should(program: Program) -> None:
    folder = SessionFolder(program.sessions)
    for number, name in enumerate(["plain", "한국어 세션", f"{FLAG} x", ACCENT]):
        with folder.create(name, model=None, system=None) as session:
            session.append(Message("user", MESSAGE), None)
        os.utime(session.path, (1e9 - 4e7 * number, 1e9 - 4e7 * number))
    args = ("-m", program.model, "-S", NAME, "-n", "300", "--temp", "1", "--seed", "4")
    with Wide(program, *args) as window:
        window.wait_for(lambda: ready(window))
        for sample in SAMPLES:
            window.send(sample)
            at = 2 + cells(boxed(sample))
            window.wait_for(lambda at=at: window.screen.cursor.x == at)
            assert f"› {boxed(sample)}" in window.text()
            window.send(CTRL_C)
            window.wait_for("› Say something")
        shown = send_line(window, MESSAGE)
        window.wait_for(f" {boxed(NAME)} · ")
        (turn,) = turns_of(program, NAME)
        reply = window.drawn(clean(turn["text"]))
        assert len(reply) > 100 and reply in flat(shown)
        asked = shown.partition("✻")[0]
        assert window.drawn(MESSAGE) in flat(asked)
        # What a row is too long for would begin at the edge of the screen.
        rows = shown.partition("╭─ turn")[0].split("\n")
        assert all(row.startswith("  ") or row.startswith("› ") for row in rows if row), shown
        check_list(window, "/tree", "age", ["now", "now"])
        check_list(window, "/resume", "last used", ["now", "25 y ago", "26 y ago", "27 y ago"])
        leave_window(window)
    # In a pipe of 80 columns; how wide a flag is, nobody agrees.
    head, *rows = program.run("list").text.splitlines()
    flagless = [head.replace("begins", "東京"), *(row for row in rows if FLAG[0] not in row[:16])]
    assert 4 == len(flagless) and 1 == len({cells(row[: row.index("東京")]) for row in flagless})
    for name in (NAME, "plain", "한국어 세션", ACCENT):
        assert 1 == [row.startswith(f"{name} ") for row in rows].count(True), rows


def check_list(window: Wide, line: str, heading: str, ages: list[str]) -> None:
    """The ages end below their heading, whatever stands before them."""
    window.line(line)
    window.wait_for("Esc leave")
    for last in ages:
        window.wait_for(last)
    head, *rows = window.text().split("\n")[1:]
    ends = [behind(row, age) for age in set(ages) for row in rows if behind(row, age)]
    assert len(ages) <= len(ends) and {behind(head, heading)} == set(ends), window.text()
    window.send(ESCAPE)
    window.wait_for(lambda: "Esc leave" not in window.text() and ready(window))


def behind(row: str, word: str) -> int:
    """The column behind a word, 0 if it is not there."""
    before, match, _ = row.rpartition(f" {word}")
    return cells(before + match)
