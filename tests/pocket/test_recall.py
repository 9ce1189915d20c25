"""What is asked of what was said: other words for it, the right answer to it, and the first message."""

from __future__ import annotations

from random import Random

from training.pocket.conversations import (
    Difficulty,
    asked_otherwise,
    by_hand,
    told_beside,
    told_number,
    told_otherwise,
)
from training.pocket.deeds import SELF
from training.pocket.evaluate import expected, has
from training.pocket.grounding import grounded
from training.pocket.said_back import said_back
from training.pocket.turns import Desk, Turn, looking_back
from training.pocket.values import Source


def test_every_recalled_fact_can_be_answered_right() -> None:
    for seed in range(150):
        desk = Desk(Source(Random(seed), held=True))
        desk.tell(3)
        for fact in desk.told:
            turn = desk._asking([fact])
            assert has(turn.reply, expected(fact)), turn


def test_another_word_is_none_of_something_else_that_was_said() -> None:
    turn = Turn("Is my mother tall?", "", "", "ask")
    said = set()
    for seed in range(200):
        desk = Desk(Source(Random(seed)), said=["My mum is Ada", turn.user])
        other = asked_otherwise(desk, turn)
        assert other.meant == other.user == desk.said[-1]
        said.add(other.user)
    assert "Is my mama tall?" in said
    assert not any("mum" in user for user in said)


def test_the_first_message_and_the_last_are_quoted() -> None:
    said = ["my cat is Momo", "is it raining?"]
    quoted = {
        (turn.thinking, turn.reply)
        for seed in range(200)
        if (turn := looking_back(Source(Random(seed)), said, 0, lower=True))
    }
    assert quoted == {
        ("Asked: the first message.", "First you said: my cat is Momo"),
        ("Asked: the last message.", "Just before you said: is it raining?"),
        ("Asked: the last that they told.", "The last you told me: my cat is Momo"),
    }


def test_a_long_talk_may_end_with_a_look_back() -> None:
    source = Source(Random(4))
    talks = [by_hand(source, Difficulty()).turns for _ in range(200)]
    quotes = [turns for turns in talks if turns[-1].thinking == "Asked: the first message."]
    assert quotes
    assert all(turns[-1].reply == f"First you said: {turns[0].user.strip()}" for turns in quotes)


def test_a_number_that_was_told_is_reckoned_with() -> None:
    source = Source(Random(5))
    sums = [
        turns
        for turns in (by_hand(source, Difficulty()).turns for _ in range(900))
        if turns[-1].sort == "sum" and told_number(turns[:-1]) is not None
    ]
    assert sums
    for turns in sums:
        said, result = turns[-1].reply.rstrip(".").split(" = ")
        assert str(told_number(turns[:-1])) in said.split()
        first, sign, second = said.split()
        assert int(first) + int(sign + second) == int(result)


def test_what_is_told_beside_a_question_is_found_later() -> None:
    text = "I'm Ada, a nurse."
    asked = Turn(f"{text} What are you?", "About me.", "I am pocket.", "self", told=text)
    later = Turn("which trade is mine?", "Asked: your job. Told: nurse.", "You are a nurse.", "ask")
    everything = Turn("what do you know?", "Asked: all that I was told.", "You told me: nothing.", "know")
    _, found, summed = grounded([asked, later, everything], deep=3)
    assert found.thinking == "Asked: which trade is yours. Closest: you are Ada, a nurse. Told: nurse."
    assert summed.reply == "You told me: you are Ada, a nurse."


def test_a_message_that_tells_and_asks_something_else_is_one_message() -> None:
    for seed in range(200):
        desk = Desk(Source(Random(seed)))
        turn = told_beside(desk)
        assert turn.user.startswith(turn.told.rstrip(".!"))
        assert desk.said == [turn.user]
        assert desk.told


def test_what_is_told_in_other_words_is_said_back_in_them() -> None:
    user = "My mum is a nurse. I live in Rome."
    turn = Turn(user, "They tell me something: I say it back.", "Got it: your mum is a nurse.", "tell")
    turns = [told_otherwise(Desk(Source(Random(seed)), said=[user]), turn) for seed in range(200)]
    assert {each.user for each in turns} > {user, "My mother is a nurse. I dwell in Rome."}
    assert all(each.user == user or each.reply == f"Got it: {said_back(each.user)}." for each in turns)


def test_what_was_never_told_may_be_doubted_too() -> None:
    doubted = 0
    for seed in range(400):
        desk = Desk(Source(Random(seed)))
        desk.tell(3)
        turn = desk.unknown()
        claim = turn.thinking.removeprefix("Asked: whether ").removesuffix(". Not told.")
        if turn.thinking == f"Asked: whether {claim}. Not told." and " have a" not in claim:
            assert not any(fact.says() == claim for fact in desk.told)
            doubted += 1
    assert doubted > 20


def test_patterns_of_training_alone_are_never_examined() -> None:
    for kind in SELF:
        assert set(kind.tellings(held=True)) == set(kind.tell) < set(kind.tellings(held=False))
        assert set(kind.askings(held=True)) == set(kind.ask) < set(kind.askings(held=False))
        assert all(pattern.count("[v]") == 1 for pattern in kind.also[0])
        assert not any("[v]" in pattern for pattern in kind.also[1])
