"""Tests of the statements that are composed from a vocabulary, and of the questions for them."""

from __future__ import annotations

from random import Random

import pytest

from training.pocket.clauses import Clause, Composer, Noun, Part, composed
from training.pocket.values import Source
from training.pocket.written import rendered

LENT = Clause(
    Noun("my landlord", person=True),
    ("lend", "lent", "lent", "lending"),
    "past",
    (
        Part("object", "a rusty ladder", ("what",), True),
        Part("recipient", "to my aunt", ("who",), True, tail="to"),
        Part("time", "on Sunday", ("when",)),
    ),
)


def test_a_statement_is_said_back_to_its_user() -> None:
    assert LENT.states() == "your landlord lent a rusty ladder to your aunt on Sunday"


@pytest.mark.parametrize(
    ("role", "direct", "topic"),
    [
        ("object", "what did my landlord lend to my aunt", "what your landlord lent to your aunt"),
        (
            "recipient",
            "who did my landlord lend the rusty ladder to",
            "who your landlord lent the rusty ladder to",
        ),
        ("who", "who lent the rusty ladder to my aunt", "who lent the rusty ladder to your aunt"),
    ],
)
def test_each_part_is_asked_for(role: str, direct: str, topic: str) -> None:
    assert LENT.asking(role)[0] == direct
    assert LENT.topic(role) == topic


def test_an_answer_was_told_and_is_in_the_reply() -> None:
    for seed in range(300):
        source = Source(Random(seed))
        told = ""
        for exchange, turn in rendered(source, composed(source.rng), 0.0):
            if not exchange.asks:
                told += turn.reply.lower()
                continue
            answer = turn.thinking.partition(" Told: ")[2].rstrip(".").lower()
            if answer and answer not in ("yes", "no"):
                answer = answer.removesuffix(". so no")
                assert answer in turn.reply.lower(), turn
                assert answer.removeprefix("that ") in told or answer in ("me", "you"), turn


def test_no_question_has_two_answers() -> None:
    for seed in range(300):
        asked: dict[str, str] = {}
        for exchange in composed(Random(seed)).exchanges:
            if exchange.asks:
                assert asked.setdefault(exchange.thinking.split(". ")[0], exchange.reply) == exchange.reply


def test_every_kind_of_statement_is_made() -> None:
    rng = Random(1)
    roles = {part.role for _ in range(2000) for part in Composer(rng).clause().parts}
    assert roles >= {
        "object",
        "person",
        "recipient",
        "content",
        "task",
        "deed",
        "quality",
        "agent",
        "from",
        "to",
    }
    assert roles >= {"place", "time", "manner", "company", "why", "goal", "when"}
