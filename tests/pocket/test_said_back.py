"""Tests of how what a user tells is said back."""

from __future__ import annotations

import pytest

from training.pocket.said_back import MOST, THINKING, acknowledged, said_back


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("Hey, I'm Ada and I was in Oslo with my aunt.", "you are Ada and you were in Oslo with your aunt"),
        ("my boss says he likes me :(", "your boss says he likes you"),
        ("it was me, the dog was me too", "it was you, the dog was you too"),
        ("the one who called me was Ada", "the one who called you was Ada"),
        ("They left. I stayed!", "they left. You stayed"),
        ("my mail is me@home.example", "your mail is me@home.example"),
        ("I get up at 5 am, in the US that is late", "you get up at 5 am, in the US that is late"),
        ("Tuesday we paint our boat", "Tuesday you paint your boat"),
        ("so am I", "are you"),
    ],
)
def test_a_message_is_said_to_who_typed_it(typed: str, said: str) -> None:
    assert said_back(typed) == said


@pytest.mark.parametrize(
    "typed", ["how is my dog?", "I told you that my dog is ill", "hello!", "x " * (MOST + 1)]
)
def test_what_asks_addresses_or_goes_on_is_not_said_back(typed: str) -> None:
    assert said_back(typed) is None


def test_a_kind_word_stays_before_it() -> None:
    given = "Congratulations! Got it: you have become a mother."
    thinking, reply = acknowledged("guess what, I have a son!", "New: your son.", given)
    assert (thinking, reply) == (THINKING, "Congratulations! Got it: you have a son.")
