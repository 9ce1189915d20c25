"""Words that arrive in pieces: no line is too wide, no word is lost, however they are cut."""

from __future__ import annotations

import itertools

import pytest
from wcwidth import wcswidth

from chatcli.repl.wrap import Wrapper, columns

SAMPLES = [
    "The quick brown fox jumps over the lazy dog.",
    "One.\n\nTwo: a paragraph that wraps, and\nthree lines.\n",
    "日本語のとても長い文章は空白なしで続きます and then English words follow",
    "word 日本 word 👍👍👍 e\u0301e\u0301e\u0301 naïve",
    "a" * 50 + " end",
    "    indented code\n\tand a tab\n  - list item that is long enough to wrap",
    "trailing spaces   \nand   inner   ones",
    "\n\n\nleading",
    "x",
    "",
    "   ",
]
INDENT = "  "


def wrapped(pieces: list[str], width: int, indent: str = INDENT) -> str:
    out: list[str] = []
    wrapper = Wrapper(out.append, width, indent)
    for piece in pieces:
        wrapper.feed(piece)
    wrapper.close()
    return "".join(out)


def visible(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")]


def letters(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("text", SAMPLES, ids=lambda text: ascii(text[:20]))
@pytest.mark.parametrize("width", [12, 20, 33, 80])
def test_no_line_is_wider_than_the_width(text: str, width: int) -> None:
    for pieces in ([text], list(text)):
        for line in wrapped(pieces, width).split("\n"):
            assert wcswidth(line.expandtabs()) <= width


@pytest.mark.parametrize("text", SAMPLES, ids=lambda text: ascii(text[:20]))
@pytest.mark.parametrize("width", [12, 20, 33, 80])
def test_no_letter_is_lost_or_moved(text: str, width: int) -> None:
    for pieces in ([text], list(text)):
        assert letters(text) == letters(wrapped(pieces, width))


@pytest.mark.parametrize("text", SAMPLES, ids=lambda text: ascii(text[:20]))
def test_every_cut_in_two_or_three_gives_the_same_words_on_lines_that_fit(text: str) -> None:
    width, words = 20, letters(text)
    cuts = list(itertools.combinations_with_replacement(range(len(text) + 1), 2))
    for first, second in cuts:
        out = wrapped([text[:first], text[first:second], text[second:]], width)
        assert words == letters(out)
        assert all(wcswidth(line) <= width for line in out.split("\n"))


@pytest.mark.parametrize(
    "text", [one for one in SAMPLES if max(map(len, one.split() or [""])) <= 9], ids=ascii
)
def test_words_that_fit_look_the_same_however_they_were_cut(text: str) -> None:
    whole = visible(wrapped([text], 20))
    for at in range(len(text) + 1):
        assert whole == visible(wrapped([text[:at], text[at:]], 20))
    assert whole == visible(wrapped(list(text), 20))


def test_words_that_fit_are_never_broken() -> None:
    text = "The quick brown fox jumps over the lazy dog."
    out = wrapped(list(text), 16)
    assert text.split() == out.split()
    assert 4 <= len(out.splitlines())
    assert all(line.startswith(INDENT) for line in out.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog and says nothing about it.",
        "I am a dog: a b c d e f g h I said, x + y = z, or 1 2 3 4 5 6 7 8 9 to a t.",
        "日本 語 a 犬 b 名前 は C 何 か 1 2 と 言う a 犬",
    ],
)
def test_unwrapping_gives_the_text_again(text: str) -> None:
    for width in range(14, 80):
        lines = wrapped(list(text), width).splitlines()
        assert text == " ".join(line.strip() for line in lines)


@pytest.mark.parametrize("spaces", [1, 2, 3, 8])
def test_words_with_any_spaces_between_them_are_never_joined(spaces: int) -> None:
    words = ["I", "am", "a", "dog", "and", "x", "is", "of", "y", "so", "ab", "c", "def", "g"]
    for width in range(12, 60):
        assert words == wrapped([(" " * spaces).join(words)], width).split()
        assert words == wrapped(list((" " * spaces).join(words)), width).split()


def test_paragraphs_are_kept() -> None:
    assert "  One.\n\n  Two.\n" == wrapped(["One.\n", "\nTwo."], 40)


def test_a_line_is_filled_before_the_next_begins() -> None:
    lines = wrapped(["aaa " * 20], 21).splitlines()
    assert all(wcswidth(line.rstrip()) + 4 > 21 - 2 for line in lines[:-1])


def test_leading_spaces_of_code_are_kept() -> None:
    assert "  def f():\n      return 1\n" == wrapped(["def f():\n    return 1"], 40)


def test_a_word_without_end_does_not_stop_the_stream() -> None:
    out: list[str] = []
    wrapper = Wrapper(out.append, 20, INDENT)
    for _ in range(100):
        wrapper.feed("x")
    assert 80 < letters("".join(out)).count("x")
    wrapper.close()
    assert "x" * 100 == letters("".join(out))


def test_a_word_is_held_back_until_it_is_whole() -> None:
    out: list[str] = []
    wrapper = Wrapper(out.append, 20, INDENT)
    wrapper.feed("one tw")
    assert "one" == "".join(out).strip()
    wrapper.feed("o ")
    assert ["one", "two"] == "".join(out).split()


def test_nothing_makes_no_line() -> None:
    assert "" == wrapped([], 20)
    assert "" == wrapped([""], 20)


def test_a_closed_wrapper_ends_its_line_once() -> None:
    out: list[str] = []
    wrapper = Wrapper(out.append, 20, INDENT)
    wrapper.feed("word")
    wrapper.close()
    wrapper.close()
    assert "  word\n" == "".join(out)


def test_a_wide_character_counts_two_columns() -> None:
    assert (4, 3, 1) == (columns("日本"), columns("abc"), columns("e\u0301"))


@pytest.mark.parametrize("indent", ["", "  ", "│ "])
def test_any_indent_counts_towards_the_width(indent: str) -> None:
    for line in wrapped(list("some words 日本語 " * 5), 24, indent).splitlines():
        assert wcswidth(line) <= 24
        assert line.startswith(indent.rstrip())
