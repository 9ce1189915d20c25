"""Markdown in a window whose width changes while it comes: the next row has the new width."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from chatcli.events import TextDelta
from chatcli.tui.markdown.stream import MarkdownStream
from chatcli.tui.render.reply import Reply
from chatcli.tui.text.wrap import cells
from tests.support.markdown import FRAGMENTS, REPLY, chunks

WORDS = "Some words of a long paragraph, which goes on for a while and then some more. " * 6
INDENTED = WORDS.strip()
KINDS = {
    "prose": WORDS + "\n\n" + WORDS,
    "marks": "A **strong and** `code words` [link text](http://x.y/z) ~~gone~~ *it is* one. " * 9,
    "breaks": ("Two lines  \nof one<br>paragraph, <br><br>" + WORDS) * 2,
    "long words": f"word {'x' * 300} and {'long-' * 60} words",
    "wide": "日本語の文章、「漢字かな」。" * 30 + "cafe\u0301 🎉 👩‍👩‍👧 nai\u0308ve 🇵🇹 👍🏽 " * 20,
    "bullets": f"- {INDENTED}\n  - {INDENTED}\n    - {INDENTED}\n\n      {INDENTED}\n- {INDENTED}\n" * 2,
    "numbers": f"9. {INDENTED}\n\n   {INDENTED}\n10. {INDENTED}\n    1. {INDENTED}\n" * 2,
    "tasks": f"- [x] {INDENTED}\n- [ ] {INDENTED}\n  - [ ] {INDENTED}\n",
    "fence": "```python\n" + f"def f(x):\n\treturn '{'x' * 150}'\n\n# {INDENTED}\n" * 9 + "```\n",
    "nested fence": f"- {INDENTED}\n  ```py\n  print('{'x' * 99}')\n\n  # {INDENTED}\n  ```\n  {WORDS}\n" * 3,
    "quote": f"> {INDENTED}\n>\n> - {INDENTED}\n> > {INDENTED}\n> ```\n> {INDENTED}\n>\n> end\n> ```\n\n" * 2,
    "table": f"{WORDS}\n\n| a | 漢字 |\n|--|--|\n| `b` | c |\n\n- {INDENTED}\n\n  | a |\n  |---|\n  | b |\n",
    "others": f"# {WORDS}\n\n---\n\n    {INDENTED}\n\n<div>\n{INDENTED}\n</div>\n\n-\n- {WORDS}",
    "formula": f"{WORDS}\n$$\n{INDENTED}\n$$\n\n{WORDS} $x$\n",
    "all": REPLY,
}
NARROWEST, WIDEST = 24, 130


class Window:
    """Where a stream prints; a row must fit the width that the window has at this moment."""

    def __init__(self, width: int, console: type[Console] = Console) -> None:
        self.console = console(file=io.StringIO(), width=width, height=24, color_system=None)
        self.rows: list[str] = []
        self.widths: list[int] = []
        self.live: list[str] = []
        self.now = 0.0
        self.stream = MarkdownStream(self.console, self, clock=lambda: self.now)

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        self.live = [row.plain for row in live]
        for row in [*settled, *live]:
            self.fits(row.plain)
        self.rows += [row.plain for row in settled]
        self.widths += [self.console.width] * len(settled)

    def fits(self, row: str) -> None:
        assert cells(row) <= self.console.width - 1

    def feed(self, pieces: Iterable[str], widths: Iterable[int | None] = ()) -> None:
        """Before each piece the width may change."""
        given = iter(widths)
        for piece in pieces:
            self.console.width = next(given, None) or self.console.width
            self.stream.feed(piece)
            self.now += 1


class Restless(Console):
    """A console that is as wide as it likes each time it is asked."""

    looks = random.Random(0)

    @property
    def width(self) -> int:
        return self.looks.randint(NARROWEST, WIDEST)

    @width.setter
    def width(self, width: int) -> None:
        pass


class Unsteady(Window):
    """A window that changes at any moment: what fitted a moment ago may not fit now."""

    def fits(self, row: str) -> None:
        assert cells(row) <= WIDEST - 1


def content(rows: Iterable[str]) -> str:
    """What rows say, whatever their width; a sign for each blank one."""
    bare = [re.sub(r"[\s▎─]", "", row) or "¶" * ("─" not in row) for row in rows]
    return "".join(bare)


def pieces_of(text: str, chance: random.Random) -> list[str]:
    pieces = []
    while text:
        size = chance.choice([1, 5, 30, 200])
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@cache
def unchanged(text: str) -> str:
    window = Window(80)
    window.feed([text])
    window.stream.finish()
    return content(window.rows)


def says_the_same(text: str, window: Window, chance: random.Random) -> None:
    pieces = pieces_of(text, chance)
    widths = [chance.choice([None, None, chance.randint(NARROWEST, WIDEST)]) for _ in pieces]
    window.feed(pieces, widths)
    window.stream.finish()
    assert unchanged(text) == content(window.rows)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_no_change_of_the_width_loses_or_doubles_anything(kind: str, seed: int) -> None:
    says_the_same(KINDS[kind], Window(100), random.Random(f"{kind} {seed}"))


@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_one_in_the_middle_of_a_drawing(kind: str) -> None:
    says_the_same(KINDS[kind], Unsteady(100, Restless), random.Random(kind))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_no_change_among_many_loses_or_doubles_anything(seed: int) -> None:
    chance = random.Random(seed)
    for kind, text in KINDS.items():
        other = chance.choice(list(KINDS.values()))
        says_the_same(f"{text}\n\n{other}", Window(100), chance)
        says_the_same(KINDS[kind], Unsteady(100, Restless), chance)


def keeps_its_characters(text: str, size: int, widths: list[int | None]) -> None:
    # A table's head is repeated if it began as prose.
    assume(not re.search(r"^[^|\n]{20,}\|.*\n\|---", text, re.MULTILINE))
    window = Window(80)
    window.feed(chunks(text, size), widths)
    window.stream.finish()
    # A cell of a table that takes several rows changes the order; a space alone may be a row.
    expected, actual = Counter(unchanged(text)), Counter(content(window.rows))
    del expected["¶"], actual["¶"]
    assert expected == actual


ANY_TEXT = given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join),
    st.integers(1, 30),
    st.lists(st.none() | st.integers(40, WIDEST), max_size=40),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@ANY_TEXT
def test_no_text_loses_characters(text: str, size: int, widths: list[int | None]) -> None:
    keeps_its_characters(text, size, widths)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@ANY_TEXT
def test_more_texts_lose_none(text: str, size: int, widths: list[int | None]) -> None:
    keeps_its_characters(text, size, widths)


@pytest.mark.parametrize("sizes", [(100, 60), (60, 100), (100, 40, 90, 30)])
@pytest.mark.parametrize("marker", ["", "- ", "> ", "10. ", "- [ ] ", "- > "])
def test_every_row_is_as_full_as_its_width_allows(marker: str, sizes: tuple[int, ...]) -> None:
    words = [f"word{number} " for number in range(160)]
    window = Window(sizes[0])
    window.feed([marker])
    for number, width in enumerate(sizes):
        window.feed(words[number * 40 : number * 40 + 40], [width])
    window.stream.finish()
    assert set(sizes) == set(window.widths)
    for row, width, after in zip(window.rows, window.widths, window.rows[1:], strict=False):
        (word,) = re.findall(r"word\d+", after)[:1]
        assert cells(f"{row} {word}") > width - 1 >= cells(row)
    edges = {row[: row.index("w")] for row in window.rows[1:]}
    assert 1 == len(edges) and not edges.pop().strip(" ▎")


def test_a_row_after_a_change_keeps_the_indentation_of_its_block() -> None:
    text = "- > 1. " + "several words of it " * 5
    window = Window(70)
    window.feed(chunks(text, 3))
    window.feed(chunks("and of more " * 4, 3), [40])
    window.stream.finish()
    assert [
        "  • ▎ 1. several words of it several words of it several words of it",
        "    ▎    several words of it several",
        "    ▎    words of it and of more and of",
        "    ▎    more and of more and of more",
    ] == window.rows


def test_a_line_of_code_goes_on_in_the_new_width() -> None:
    window = Window(29)
    window.feed(["```\n", "0123456789" * 5 + "\n"])
    window.feed(["0123456789" * 5 + "\n", "```"], [19])
    window.stream.finish()
    assert ["0123456789012345678901234567", "8901234567890123456789"] == window.rows[:2]
    assert ["012345678901234567", "890123456789012345", "67890123456789"] == window.rows[2:]


def test_what_is_left_at_the_end_has_the_new_width() -> None:
    window = Window(100)
    window.feed(["Words that are live " * 4])
    window.console.width = 40
    window.stream.finish()
    assert 3 == len(window.rows)


def test_what_is_live_has_the_new_width_with_the_next_piece() -> None:
    window = Window(60)
    window.feed(["A **mark that is not closed " + "and goes on " * 9])
    window.feed(["for long"], [30])
    assert 5 < len(window.live) and all(22 < cells(row) <= 29 for row in window.live[:-1])


def test_live_rows_of_the_old_width_are_broken_at_words_until_then() -> None:
    console = Console(file=io.StringIO(), width=70, color_system=None)
    reply = Reply(console)
    reply.begin(str)
    reply.event(TextDelta("> **an open mark " + "and words that go on " * 8))
    console.width = 30
    rows = [row.plain for row in reply.live(20)]
    assert all(row.startswith("  ▎ ") and cells(row) < 30 for row in rows)
    assert {"**an", "open", "mark", "and", "words", "that", "go", "on", "▎"} == set(" ".join(rows).split())
