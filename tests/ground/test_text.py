"""Text for a terminal: control characters have no effect, wherever the text is cut."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest

from chatcli.text import clean, clean_line, count, decodable, percent, shorten

ATTACKS = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x1b\\",
    "\x9b2J\x9c",
    "\x1bP$q\x1b\\",
    "a\rb\x08\x08\x7f",
    "\x0e\x0f\x05\0",
    "\u202egpj.exe\u202c \u2066x\u2069",
    "\udc9b\ud800",
]


def dangerous(char: str) -> bool:
    reorders = unicodedata.bidirectional(char) in {
        "LRE",
        "RLE",
        "LRO",
        "RLO",
        "PDF",
        "LRI",
        "RLI",
        "FSI",
        "PDI",
    }
    return reorders or (unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t")


@pytest.mark.parametrize("text", ATTACKS, ids=ascii)
def test_no_control_character_survives_however_the_text_is_cut(text: str) -> None:
    for at in range(len(text) + 1):
        parts = clean(text[:at]) + clean(text[at:])
        assert not any(map(dangerous, parts))
        assert clean(text) == parts
        assert len(text) == len(parts)


def test_no_dangerous_character_of_unicode_survives() -> None:
    special = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    chars = [chr(code) for code in range(sys.maxunicode + 1)]
    tried = [char for char in chars if unicodedata.category(char) in special] + chars[::97]
    shown = clean("".join(tried))
    assert [] == [hex(ord(char)) for char in shown if dangerous(char)]
    changed = [before for before, after in zip(tried, shown, strict=True) if before != after]
    assert [] == [hex(ord(char)) for char in changed if not dangerous(char)]


def test_a_control_character_is_shown_as_a_visible_sign() -> None:
    assert "␛[31m ␀ ␇ ␍ ␡ � �" == clean("\x1b[31m \0 \x07 \r \x7f \x9b \u202e")


@pytest.mark.parametrize(
    "text",
    ["", "plain", "two\nlines\tand a tab", "日本語 e\u0301 👩\u200d👩\u200d👧", "\xa0", "\ufffd"],
)
def test_harmless_text_is_left_as_it_is(text: str) -> None:
    assert text == clean(text)


def test_cleaning_twice_is_cleaning_once() -> None:
    for text in ATTACKS:
        assert clean(text) == clean(clean(text))


def test_a_clean_line_is_one_line() -> None:
    assert "a b c ␛[1m" == clean_line("  a\n\nb\t c \u2028\x1b[1m\n")


def test_surrogates_of_undecodable_bytes_become_question_marks() -> None:
    broken = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    assert "caf? ?" == decodable(broken)
    assert "café 👍" == decodable("café 👍")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("two\nlines", 20, "two lines"),
        ("\x1b[2J", 20, "␛[2J"),
        ("ab", 1, "…"),
        ("", 5, ""),
    ],
)
def test_a_shortened_text_is_one_clean_line_of_that_width(text: str, width: int, shown: str) -> None:
    assert shown == shorten(text, width)


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (2502, "2,502 tokens")]
)
def test_a_count_has_its_noun_and_commas(number: int, shown: str) -> None:
    assert shown == count("token", number)


def test_a_count_knows_other_plurals() -> None:
    assert ["1 reply", "3 replies"] == [count("reply", number, "replies") for number in (1, 3)]


@pytest.mark.parametrize(
    ("part", "whole", "shown", "with_decimal"),
    [
        (0, 0, "0 %", "0 %"),
        (0, 80, "0 %", "0 %"),
        (80, 80, "100 %", "100 %"),
        (85, 90, "94 %", "94.4 %"),
        (94, 100, "94 %", "94.0 %"),
        (2499, 2500, "99.9 %", "99.9 %"),
        (99_999, 100_000, "99.9 %", "99.9 %"),
        (199, 10_000, "1 %", "1.9 %"),
        (99, 10_000, "0.9 %", "0.9 %"),
        (1, 10_000, "<0.1 %", "<0.1 %"),
    ],
)
def test_percentages_are_cut(part: int, whole: int, shown: str, with_decimal: str) -> None:
    assert (shown, with_decimal) == (percent(part, whole), percent(part, whole, 1))


@pytest.mark.parametrize("piece", ["The quick brown fox.\n", "é\n"])
def test_a_long_text_is_cleaned_in_little_time(piece: str) -> None:
    text = piece * (10_000_000 // len(piece))
    began = time.process_time()
    assert len(text) == len(clean(text))
    assert time.process_time() - began < 0.6
