"""Tests of what tells that a reply goes round in circles, and of the random messages."""

from __future__ import annotations

import pytest

from training.pocket.loops import messages, repeated


@pytest.mark.parametrize(
    "text",
    [
        "what you have not told me what you have not told me what you have not told me",
        "Yes. a b c a b c a b c",
        "no no no no no no no no no",
        "😂" * 40,
        "abcdefghijkl" * 3,
        "one line of text\none line of text\none line of text\n",
        "Fine. 豆豆的猫叫什么名字我不知道" + "豆豆的猫叫什么名字我不知道" * 2,
    ],
)
def test_a_circle_is_found(text: str) -> None:
    assert repeated(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You live in Lisbon, and your sister lives in Lisbon, and your dog lives with you.",
        "what you have not told me what you have not told me",
        "ha ha ha ha ha ha ha ha",
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
        "Ones: 2+9=11, write 1, carry 1. Tens: 1+0+1=2. Ones: 2+9=11, write 1, carry 1.",
        "Your gate code is 7777777777.",
    ],
)
def test_no_circle_is_found_where_there_is_none(text: str) -> None:
    assert repeated(text) is None


def test_a_quotation_is_no_circle_but_going_on_with_it_is() -> None:
    heard = "my password is " + "ha" * 30
    assert repeated("Your password is " + "HA" * 30 + ".", heard) is None
    assert repeated("Your password is " + "ha" * 40 + ".", heard) is not None


def test_a_circle_is_found_after_a_quotation() -> None:
    heard = "na na na na na na na na na"
    assert repeated(heard + "! " + "and so it goes on, " * 3, heard) is not None


def test_random_messages_are_the_same_for_the_same_seed() -> None:
    assert list(messages(1, 50)) == list(messages(1, 50))
    assert list(messages(1, 50)) != list(messages(2, 50))


def test_random_messages_are_many_and_of_every_kind() -> None:
    sent = list(messages(7, 2000))
    assert [] == [text for text in sent if not text]
    assert 1500 < len(set(sent))
    assert any(len(text) >= 1900 for text in sent)
    assert any(not text.isascii() for text in sent)
