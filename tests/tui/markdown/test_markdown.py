"""A reply's Markdown on a real terminal emulator: settled lines stay, live ones are redrawn."""

from __future__ import annotations

import io
import itertools
import re
import time
from collections.abc import Iterable, Sequence

import pyte
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from chatcli.tui.markdown.stream import MarkdownStream, rendered
from tests.support.live_part import LivePart
from tests.support.markdown import FRAGMENTS, REPLY, chunks

SCREEN = """\
  Sorting

  There are two ways to sort: list.sort() and the built-in sorted(iterable).
  Both are stable
  and fast, cost $5, and see the docs (https://docs.python.org/3/) or [1] for
  nothing more.

  1. Install it:
     bash
     pip install foo
  2. Run it
     • nested, with a long sentence that has to be wrapped because it is wider
       than the screen is
       • deeper

  3. Numbered by place

  [x] done
  [ ] open

  python
def quick(values):
    return sorted(values)

  Name   Stable
  ─────────────
  sort      yes
  漢字       no

  ▎ Quoted words that go on
  ▎ over two lines.

  ────────────────────────────────────────

  The formula \\(a_1 * b_2 * c\\) and $x*y*z$.

  $$
  a &= b
  + c
  $$

  <div>
  as it is
  </div>

  Last
  words & 2 * 3 * 4.
"""


class Terminal:
    """A screen with its scrollback, and a stream on it whose clock the test turns."""

    def __init__(self, width: int = 80, height: int = 24, **console: object) -> None:
        self.screen = pyte.HistoryScreen(width, height, history=100_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self.written: list[str] = []
        options = {"color_system": "truecolor", "_environ": {}} | console
        self.console = Console(file=_Tty(self), force_terminal=True, width=width, height=height, **options)
        self.now = 0.0
        self.stream = MarkdownStream(self.console, LivePart(self.console), clock=lambda: self.now)

    def write(self, text: str) -> None:
        self.written.append(text)
        self._stream.feed(text.replace("\n", "\r\n"))

    def feed(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self.stream.feed(piece)
            self.now += 1

    def scrolled_off(self) -> list[str]:
        columns = range(self.screen.columns)
        rows = self.screen.history.top
        return ["".join(row[column].data for column in columns).rstrip() for row in rows]

    def lines(self) -> list[str]:
        """Everything from the first line on, without empty lines at the end."""
        shown = [line.rstrip() for line in self.screen.display]
        return "\n".join(self.scrolled_off() + shown).rstrip("\n").split("\n")

    def style_of(self, word: str) -> pyte.screens.Char:
        for number, line in enumerate(self.screen.display):
            if word in line:
                return self.screen.buffer[number][line.index(word)]
        raise AssertionError(f"{word} is not on the screen")

    @property
    def output(self) -> str:
        return "".join(self.written)


class _Tty(io.StringIO):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        self._terminal.write(text)
        return len(text)


def settled(pieces: Iterable[str], width: int = 80, height: int = 24) -> list[str]:
    terminal = Terminal(width, height)
    terminal.feed(pieces)
    terminal.stream.finish()
    return terminal.lines()


def test_every_kind_of_block_is_readable() -> None:
    assert SCREEN.rstrip("\n").split("\n") == settled([REPLY])


@pytest.mark.parametrize("size", [1, 4, 17])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (130, 40), (30, 5)])
def test_the_settled_screen_does_not_depend_on_the_cuts(size: int, width: int, height: int) -> None:
    assert settled([REPLY], width, height) == settled(chunks(REPLY, size), width, height)


def chopped(text: str, sizes: Iterable[int]) -> list[str]:
    """`text` in pieces of these sizes, and one of what is left."""
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


ANY_TEXT_IN_ANY_PIECES = given(
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=25).map("".join),
    st.lists(st.integers(1, 30), max_size=60),
    st.sampled_from([(80, 24), (130, 40), (24, 6)]),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@ANY_TEXT_IN_ANY_PIECES
@example("a\r\r\nb", [1] * 5, (80, 24))
@example("de\n-   \n$$x `|-|\n|---|:-:|", [1] * 30, (80, 24))
def test_no_text_and_no_cuts_make_the_screen_differ(
    text: str, sizes: list[int], window: tuple[int, int]
) -> None:
    assert settled([text], *window) == settled(chopped(text, sizes), *window)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@ANY_TEXT_IN_ANY_PIECES
def test_nor_do_more_texts_and_cuts(text: str, sizes: list[int], window: tuple[int, int]) -> None:
    assert settled([text], *window) == settled(chopped(text, sizes), *window)


POEM = "Roses are red,\n  violets *are* blue,\nsugar is sweet,\nand so are you.\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_are_broken_where_the_reply_breaks_them(size: int) -> None:
    verses = ["Roses are red,", "violets are blue,", "sugar is sweet,", "and so are you."]
    assert [f"  {verse}" for verse in verses] == settled(chunks(POEM, size))
    in_a_list = ["  • Roses are red,", *(f"    {verse}" for verse in verses[1:])]
    assert in_a_list == settled(chunks(f"- {POEM}", size))


def test_a_break_tag_at_the_end_of_a_line_breaks_it_once() -> None:
    assert ["  one", "  two"] == settled(["one<br>\ntwo"]) == settled(["one  \ntwo"])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_table_without_its_rule_stays_lines(size: int) -> None:
    assert ["  | a | b |", "  | 1 | 2 |"] == settled(chunks("| a | b |\n| 1 | 2 |\n", size))


@pytest.mark.parametrize("line", ["# a | b", "```py a | b", "$$ a | b", "1. a | b"])
def test_what_begins_another_block_heads_no_table(line: str) -> None:
    assert "────" not in "".join(settled([f"{line}\n|---|---|\n"]))


@pytest.mark.parametrize("marker", ["```", "~~~~", "    "])
def test_nothing_stands_before_a_line_of_code(marker: str) -> None:
    code = ["def f(x):", "    if x:", "        return 1", "", "    return 2"]
    if marker.strip():
        text = "\n".join([f"{marker}py", *code, marker])
    else:
        text = "\n".join(f"    {line}" for line in code)
    language = ["  py"] * bool(marker.strip())
    assert ["  Here:", "", *language, *code, "", "  There."] == settled(["Here:\n\n", text, "\n\nThere."])


def test_code_that_was_cut_looks_as_if_it_was_closed() -> None:
    assert ["  py", "x = 1"] == settled(["```py\nx = 1"]) == settled(["```py\nx = 1\n```"])


@pytest.mark.parametrize("height", [6, 24])
def test_what_has_scrolled_off_was_final(height: int) -> None:
    final = settled([REPLY], 80, height)
    terminal = Terminal(80, height)
    for piece in chunks(REPLY, 3):
        terminal.feed([piece])
        gone = terminal.scrolled_off()
        assert final[: len(gone)] == gone
    assert gone


@pytest.mark.parametrize(("width", "height"), [(80, 24), (130, 40)])
def test_a_fence_longer_than_the_screen_appears_once_and_line_by_line(width: int, height: int) -> None:
    code = [f"value_{number} = '{'x' * (number % 11 * 8)}'" for number in range(200)]
    terminal = Terminal(width, height)
    text = "```python\n" + "\n".join(code) + "\n```\n"
    terminal.feed(chunks(text[: len(text) // 2], 31))
    # What has come is on the screen before the fence ends.
    half = text[: len(text) // 2].count("\n") - 2
    assert any(f"value_{half} " in line for line in terminal.lines())
    terminal.feed(chunks(text[len(text) // 2 :], 31))
    terminal.stream.finish()
    assert "".join(code) == "".join(terminal.lines()[1:])
    assert most_rows_up(terminal) <= 2


def most_rows_up(terminal: Terminal) -> int:
    return max((int(rows) for rows in re.findall(r"\x1b\[(\d+)A", terminal.output)), default=0)


def test_a_long_list_keeps_its_numbers_and_is_not_redrawn() -> None:
    text = "".join(f"1. item {number}\n   - inner {number}\n" for number in range(1, 201))
    terminal = Terminal()
    terminal.feed(chunks(text, 9))
    terminal.stream.finish()
    expected = [[f"  {n}. item {n}", f"{' ' * (len(str(n)) + 4)}• inner {n}"] for n in range(1, 201)]
    assert [line for pair in expected for line in pair] == terminal.lines()
    assert most_rows_up(terminal) <= 3


@pytest.mark.parametrize("text", ["word " * 900, "**never closed " + "word " * 900, "漢字" * 900])
def test_a_paragraph_longer_than_the_screen_is_complete(text: str) -> None:
    terminal = Terminal()
    terminal.feed(chunks(text, 50))
    assert terminal.lines()[-1].rstrip().endswith(("word", "字"))
    terminal.stream.finish()
    assert text.replace(" ", "") == "".join(terminal.lines()).replace(" ", "")
    assert most_rows_up(terminal) < 8


@pytest.mark.parametrize("begin", ["", "see ", "- ", "> a ", "**bold** and "])
def test_of_a_word_longer_than_rows_only_the_last_ones_are_live(begin: str) -> None:
    # A window that is made narrower would push what is live off the screen, where it stays.
    part = _Collected()
    stream = MarkdownStream(Console(width=60), part, clock=itertools.count().__next__)
    for piece in [begin, *chunks("x" * 900, 7)]:
        stream.feed(piece)
        assert len(part.live) <= 3
    stream.finish()
    assert 900 == "".join(part.settled).count("x")


def test_the_screen_is_never_cleared_and_only_few_kinds_of_moves_are_made() -> None:
    terminal = Terminal()
    terminal.feed(chunks(REPLY, 4))
    terminal.stream.finish()
    # Up, to a column, erase to the end of the line, colours.
    assert set("AGKm") >= set(re.findall(r"\x1b\[[\d;]*(.)", terminal.output))
    assert terminal.output.count("\x1b") == len(re.findall(r"\x1b\[[\d;]*[AGKm]", terminal.output))


def test_a_table_waits_until_it_is_complete() -> None:
    terminal = Terminal()
    terminal.feed(["| a | b |\n", "|---|---|\n", "| one | two |\n", "| three"])
    assert ["  table… 3 rows"] == terminal.lines()
    terminal.feed([" | four |\n", "\n", "After"])
    assert ["  a       b", "  ────────────", "  one     two", "  three   four", "", "  After"] == (
        terminal.lines()
    )


def test_a_table_is_whole_even_if_its_first_line_began_as_prose() -> None:
    terminal = Terminal(40)
    terminal.feed(["Words of a head that is longer than ", "the window ", "| b\n", "---|---\n", "c | d\n"])
    terminal.stream.finish()
    assert "  Words of a head that is longer than" == terminal.lines()[0]
    assert "Words" in terminal.lines()[1] and ["c", "d"] == terminal.lines()[-1].split()


@pytest.mark.parametrize("text", ["|a|\n|-|\n|b|", "|a|\n|-|\n|b|\n", "- |a|\n  |-|\n  |b|\n"])
def test_a_reply_that_ends_in_a_table_shows_it(text: str) -> None:
    lines = [line.strip(" •") for line in settled(chunks(text, 4))]
    assert ["a", "─", "b"] == lines


def test_a_wide_table_fits_the_screen() -> None:
    row = "|" + " some words in a cell |" * 12 + "\n"
    lines = settled([row + "|" + "---|" * 12 + "\n" + row * 3])
    assert max(map(len, lines)) < 80


def test_marks_become_styles() -> None:
    terminal = Terminal()
    terminal.feed(["# Head\n\nA **strong** and *slanted* `code` word.\n\n- plain\n"])
    terminal.stream.finish()
    assert terminal.style_of("Head").bold
    assert terminal.style_of("strong").bold
    assert terminal.style_of("slanted").italics
    assert "cyan" == terminal.style_of("code").fg
    word = terminal.style_of("word")
    assert ("default", False, False) == (word.fg, word.bold, word.italics)
    assert "\x1b[2m• \x1b[0mplain" in terminal.output


def test_code_is_coloured_alike_however_long_it_is() -> None:
    doc = "\n".join(f"    words if {number}" for number in range(100))
    terminal = Terminal(80, 120)
    terminal.feed(chunks(f'```python\ndef f():\n    """\n{doc}\n    """\n    return 1\n```\n', 40))
    terminal.stream.finish()
    assert {"green"} == {terminal.style_of(f"words if {number}").fg for number in range(100)}
    assert "magenta" == terminal.style_of("return").fg


def test_an_open_comment_is_a_comment_already() -> None:
    terminal = Terminal()
    terminal.feed(["```js\n/* a\n", " * const b\n", " * c"])
    assert terminal.style_of("const b").italics


def test_only_the_sixteen_colours_and_no_background() -> None:
    terminal = Terminal()
    terminal.feed([REPLY])
    terminal.stream.finish()
    codes = {
        int(code) for codes in re.findall(r"\x1b\[([\d;]+)m", terminal.output) for code in codes.split(";")
    }
    # White, black, yellow and blue are hard to read somewhere; 38 and 48 begin other colours.
    assert codes <= {0, 1, 2, 3, 4, 9, 31, 32, 35, 36}


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J\x1b]0;title\x07 plain",
        "`\x1b[2Jcode`",
        "```\n\x1b[2J\r\x9b2J\n```\n",
        "&#27;[2J and &#x9b;2J &#8;",
        "[text](http://x/%1b[2J\x1b[2J)",
        "<b \x1b[2J>\n\n<div>\n\x1b[2J\n</div>",
        "| \x1b[2J |\n|---|\n| &#27;[2J |\n",
        "```\x1b[2J\nx\n```\n",
    ],
)
def test_no_sequence_of_the_model_reaches_the_terminal(text: str, size: int) -> None:
    terminal = Terminal()
    terminal.feed(chunks(text, size))
    terminal.stream.finish()
    own = re.sub(r"\x1b\[[\d;]*[AGKm]|\r", "", terminal.output)
    assert all(char == "\n" or char.isprintable() for char in own)
    assert "\x1b[2J" not in terminal.output


def test_prose_wraps_at_words_and_at_most_at_a_hundred_columns() -> None:
    words = "several words of some length " * 40
    for width, most in ((80, 79), (130, 102), (300, 102), (40, 39)):
        lines = settled([words], width, 40)
        assert words.split() == " ".join(lines).split()
        assert most - 8 < max(map(len, lines)) <= most


def test_signs_that_belong_to_the_one_before_are_broken_alike_however_they_come() -> None:
    text = "漢" + "…" * 53 + "letters and words " * 3
    assert settled([text], 23) == settled(text, 23)


def test_a_space_that_does_not_fit_makes_no_row() -> None:
    assert ["  " + "x" * 77, "  y"] == settled(["# " + "x" * 77 + " <br>y\n"])


@pytest.mark.parametrize("size", [2, 7, 1000])
def test_wide_and_combining_characters_keep_the_columns(size: int) -> None:
    text = "日本語の文章、" * 30 + "cafe\u0301 nai\u0308ve 🎉 " * 20
    terminal = Terminal(41, 60)
    terminal.feed(chunks(text, size))
    terminal.stream.finish()
    lines = terminal.lines()
    assert all(cell_len(line) < 41 for line in lines)
    assert not any(line.strip().startswith("、") for line in lines)
    assert "日本語の文章、" * 30 in "".join(line.strip() for line in lines)


def test_drawing_is_throttled_by_the_clock() -> None:
    terminal = Terminal()
    for _ in range(100):
        terminal.stream.feed("word ")
    assert 1 == len(terminal.written)
    terminal.now += 0.03
    terminal.stream.feed("not yet ")
    assert 1 == len(terminal.written)
    terminal.now += 0.03
    terminal.stream.feed("now ")
    assert 2 == len(terminal.written)


@pytest.mark.parametrize("width", [40, 79])
def test_a_window_that_gets_narrower_loses_nothing_above(width: int) -> None:
    terminal = Terminal()
    terminal.feed(["Settled paragraph.\n\nA **second, ", "open one that fills more than half of it "])
    terminal.console.width = width
    terminal.screen.resize(columns=width)
    terminal.feed(["and goes on** until it", " ends.\n\n", "third " * 20])
    terminal.stream.finish()
    lines = terminal.lines()
    assert ["  Settled paragraph.", ""] == lines[:2]
    words = "A second, open one that fills more than half of it and goes on until it ends. "
    assert (words + "third " * 20).split() == " ".join(lines[2:]).split()
    assert all(len(line) < width for line in lines)


def test_a_window_that_changes_within_a_paragraph_neither_repeats_nor_loses_words() -> None:
    words = [f"word{number} " for number in range(300)]
    terminal = Terminal()
    terminal.feed(words[:150])
    terminal.console.width = 100
    terminal.screen.resize(columns=100)
    terminal.feed(words[150:])
    terminal.stream.finish()
    assert "".join(words).split() == " ".join(terminal.lines()).split()


def test_an_interrupted_reply_leaves_the_screen_in_order() -> None:
    terminal = Terminal()
    terminal.feed(["Done.\n\nA half **sentence ", "without"])
    terminal.write("^C")
    terminal.stream.finish()
    terminal.stream.finish()
    terminal.write("next")
    assert ["  Done.", "", "  A half **sentence without", "next"] == terminal.lines()
    assert not terminal.screen.cursor.hidden


def test_a_console_without_colours_has_none() -> None:
    terminal = Terminal(_environ={"NO_COLOR": "1", "TERM": "xterm-256color"})
    terminal.feed(chunks("Some `code`.\n\n```py\nreturn 'x'\n```\n", 5))
    terminal.stream.finish()
    assert ["  Some `code`.", "", "  py", "return 'x'"] == terminal.lines()
    assert not re.findall(r"\x1b\[[\d;]*3\dm", terminal.output)


def test_lines_can_go_to_another_part_of_the_screen() -> None:
    part = _Collected()
    stream = MarkdownStream(Console(width=60), part, clock=lambda: 0.0)
    stream.feed("One.\n\nTwo **op")
    assert (["  One.", ""], ["  Two **op"]) == (part.settled, part.live)
    stream.feed("en**")
    stream.finish()
    assert (["  One.", "", "  Two open"], []) == (part.settled, part.live)


def test_a_line_that_the_text_breaks_is_settled_when_the_next_has_begun() -> None:
    part = _Collected()
    stream = MarkdownStream(Console(width=60), part, clock=lambda: 0.0)
    stream.feed("One<br>two<br>three fo")
    assert (["  One", "  two"], ["  three fo"]) == (part.settled, part.live)


class _Collected:
    def __init__(self) -> None:
        self.settled: list[str] = []
        self.live: list[str] = []

    def put(self, settled: Sequence[Text], live: Sequence[Text]) -> None:
        self.settled += [line.plain for line in settled]
        self.live = [line.plain for line in live]


@pytest.mark.parametrize("text", ["*<br>。**b", "*one b**c and", "_one b_c", "`one b``c`"])
def test_signs_right_after_a_mark_are_waited_for(text: str) -> None:
    for width in (24, 8):
        assert settled([text], width) == settled(text, width)


def test_a_dumb_terminal_gets_lines_as_they_become_final() -> None:
    terminal = Terminal(color_system=None, _environ={"TERM": "dumb"})
    terminal.feed(["One.\n\n", "- two **x**\n- three", "\n- fo", "ur"])
    assert ["  One.", "", "  • two x"] == terminal.lines()
    terminal.stream.finish()
    assert "  One.\n\n  • two x\n  • three\n  • four\n" == terminal.output


def test_a_long_reply_is_cheap() -> None:
    text = (REPLY * 20)[:20_000]
    terminal = Terminal()
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    stream = MarkdownStream(console, LivePart(console))
    began = time.process_time()
    for piece in chunks(text, 4):
        stream.feed(piece)
    stream.finish()
    assert time.process_time() - began < 2
    # As slow as a model writes: a drawing every few pieces.
    began = time.process_time()
    for piece in chunks(text, 64):
        terminal.stream.feed(piece)
        terminal.now += 0.1
    assert terminal.written and time.process_time() - began < 10


def continued(before: str, after: str, size: int) -> list[str]:
    """The rows of a reply that goes on where `before` was cut."""
    part = _Collected()
    stream = MarkdownStream(Console(width=60), part, before=before, clock=lambda: 0.0)
    for piece in chunks(after, size):
        stream.feed(piece)
    stream.finish()
    return part.settled


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_reply_that_goes_on_in_code_is_code_until_its_fence_ends(size: int) -> None:
    rows = ["    x = *a", "    return b*c", "", "  And prose."]
    fence = "Here:\n\n```py\ndef f():\n"
    assert rows == continued(fence, "    x = *a\n    return b*c\n```\n\nAnd *prose*.", size)
    # A line that was cut is there whole.
    assert rows == continued(fence + "    x = ", "*a\n    return b*c\n```\n\nAnd *prose*.", size)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("Done.\n\n", "And **more**.", ["  And more."]),
        ("```\na\n```\n", "More.", ["  More."]),
        ("1. one\n2. two\n3. thr", "ee\n4. four", ["  3. three", "  4. four"]),
        ("Words in **bo", "ld** and more.", ["  Words in bold and more."]),
        ("|a|\n|-|\n|", "b|\n", ["  a", "  ─", "  b"]),
    ],
)
def test_a_reply_goes_on_as_what_it_was_cut_in(before: str, after: str, rows: list[str], size: int) -> None:
    assert rows == continued(before, after, size)[-len(rows) :]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=14).map("".join),
    st.floats(0, 1),
    st.integers(1, 30),
)
def test_a_reply_that_goes_on_ends_as_if_it_had_never_been_cut(text: str, share: float, size: int) -> None:
    at = int(share * len(text))
    rows = continued(text[:at], text[at:], size)
    whole = [row.plain for row in rendered(text, Console(width=60))]
    assert rows == whole[len(whole) - len(rows) :]
