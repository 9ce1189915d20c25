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
        ("cool. my brother visits on Saturday", "your brother visits on Saturday"),
        ("no milk in my fridge", "no milk in your fridge"),
        ("A friend of mine is ill", "a friend of yours is ill"),
        ("Know what? My cat had kittens", "your cat had kittens"),
        ("my sister is a vet, you know", "your sister is a vet"),
        ("you see, my bike got stolen", "your bike got stolen"),
        ("believe me, my bike is new", "your bike is new"),
        ("my bike, you know, is red", "your bike is red"),
        ("so far I own two boats", "so far you own two boats"),
        ("and that was my last day", "that was your last day"),
        ("my mail is [u]", "your mail is [u]"),
        ("I love chocolate. Keep that in mind!", "you love chocolate"),
        ("my cat is called Paella jajaja", "your cat is called Paella"),
        ("my dog ate my shoe hahah", "your dog ate your shoe"),
    ],
)
def test_a_message_is_said_to_who_typed_it(typed: str, said: str) -> None:
    assert said_back(typed) == said


@pytest.mark.parametrize(
    "typed",
    [
        "how is my dog?",
        "at work you see me being a butcher",
        "I told you that my dog is ill",
        "hello!",
        "x " * (MOST + 1),
    ],
)
def test_what_asks_addresses_or_goes_on_is_not_said_back(typed: str) -> None:
    assert said_back(typed) is None


def test_a_kind_word_stays_before_it() -> None:
    given = "Congratulations! Got it: you have become a mother."
    thinking, reply = acknowledged("guess what, I have a son!", "New: your son.", given)
    assert (thinking, reply) == (THINKING, "Congratulations! Got it: you have a son.")


def test_what_cannot_be_said_back_is_kept_in_mind() -> None:
    told = "I told you that my dog is ill"
    assert acknowledged(told, "New: a dog.", "Got it: your dog is ill.") == (
        THINKING,
        "Got it, I keep that in mind.",
    )
