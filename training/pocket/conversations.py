"""Generates whole conversations from turns, reproducibly from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from training.pocket import words as w
from training.pocket.facts import noun
from training.pocket.phrases import capital
from training.pocket.turns import MAKERS, Desk, Turn
from training.pocket.values import Source, thing

DURING = {
    "tell": 34,
    "ask": 26,
    "unknown": 7,
    "half": 0.5,
    "correct": 4,
    "who": 1.5,
    "know": 1,
    "both": 1.5,
    "sum": 7,
    "beyond": 6,
    "talk": 9,
    "self": 2,
    "command": 6,
    "limit": 1,
}
LAST = {
    "tell": 17,
    "ask": 34,
    "unknown": 8,
    "half": 1,
    "correct": 2,
    "who": 2,
    "know": 5,
    "both": 1.5,
    "sum": 11,
    "beyond": 7,
    "talk": 5,
    "self": 2.5,
    "command": 6,
    "limit": 2,
}
SHORT = (
    "You are a helpful assistant.",
    "Be brief.",
    "Answer in short sentences.",
    "You are kind.",
    "You are a friendly chat bot.",
    "Answer politely.",
    "Think before you answer.",
    "Be honest.",
    "You are pocket.",
    "Keep answers short and clear.",
    "Use plain English.",
    "Never lie.",
)
RULES = (
    "Always {verb} the {thing} before you {verb} the {other}.",
    "The {thing} must not {verb}.",
    "If the user talks about the {thing}, {verb} politely.",
    "Never {verb} the {thing} without the {other}.",
    "Rule {number}: {verb} every {thing} and {other}.",
    "You may {verb} a {thing} when it is ready.",
    "The handbook says that a {thing} is better than a {other}.",
    "Answers should {verb} the {thing}.",
    "Our {thing} opens at nine and the {other} closes at five.",
    "Use the {thing} to {verb} the {other}.",
    "Most people {verb} a {thing} twice a day.",
    "Keep the {thing} away from the {other}.",
)
VERBS = """
check open close read write bring carry clean move count watch mention describe greet polish sort
fold measure mark pack repair return send sign start stop test update wash weigh wrap
""".split()


@dataclass
class Conversation:
    """A system prompt, or none, and turns in order."""

    system: str | None
    turns: list[Turn]


@dataclass(frozen=True)
class Difficulty:
    """How long conversations may get."""

    turns: int = 24
    facts: int = 30


def system_prompt(rng: Random) -> str | None:
    """None mostly, else a short one, else a long one that has nothing to do with the talk."""
    chance = rng.random()
    if chance < 0.6:
        return None
    if chance < 0.8:
        return " ".join(rng.sample(SHORT, rng.randint(1, 3)))
    return rules(rng, rng.choice([2, 4, 8, 8, 16, 30]))


def rules(rng: Random, count: int) -> str:
    """Sentences of rules that mean nothing."""
    lines = [rng.choice(SHORT)]
    for i in range(count):
        line = rng.choice(RULES)
        lines.append(
            line.format(verb=rng.choice(VERBS), thing=thing(rng), other=rng.choice(w.NOUNS), number=i + 1)
        )
        if rng.random() < 0.05:
            lines.append(capital(f"{noun(rng).replace('my ', 'the ')} is old."))
    return rng.choice([" ", " ", "\n"]).join(lines)


def pick(rng: Random, weights: dict[str, float]) -> str:
    """A kind of turn."""
    return rng.choices(list(weights), list(weights.values()))[0]


def conversation(source: Source, difficulty: Difficulty, last: str | None = None) -> Conversation:
    """A conversation whose last turn is of the wanted kind, or of any."""
    rng = source.rng
    desk = Desk(source)
    turns: list[Turn] = []
    last = last or pick(rng, LAST)
    early = last in ("ask", "correct", "half", "both")
    most = difficulty.turns if last in ("ask", "unknown", "half", "tell") else min(8, difficulty.turns)
    length = min(rng.randint(1, most), rng.randint(1, most) + 2)
    for number in range(length - 1):
        begin = early and number < rng.choice([1, 1, 2, 3])
        full = len(desk.told) >= difficulty.facts
        kind = "tell" if begin else pick(rng, DURING)
        turn = MAKERS["ask" if full and kind in ("tell", "both") else kind](desk)
        turns.append(cut(rng, turn))
    if last in ("ask", "correct", "half") and not desk.told:
        turns.append(desk.tell(min(4, difficulty.facts)))
    turns.append(MAKERS[last](desk))
    return Conversation(system_prompt(rng) if difficulty.turns > 4 else None, turns)


def cut(rng: Random, turn: Turn) -> Turn:
    """The turn, its reply now and then empty or broken off."""
    if rng.random() > 0.025:
        return turn
    reply = turn.reply[: rng.choice([0, rng.randrange(len(turn.reply))])].rstrip()
    return Turn(turn.user, turn.thinking, reply, turn.sort, cut=True)
