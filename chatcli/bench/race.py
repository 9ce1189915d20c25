"""Puts the same requests to every contender in turn; refuses to know what they are about."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from chatcli.bench.contender import Answer, Contender, Request
from chatcli.bench.scripted import Script

T = TypeVar("T")
WARMING = Request("You are a helpful assistant.", ("Good morning.",))

# Told which of how many requests was answered, and by whom.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Step:
    """A request, and what it is called.

    `reopened`: a new process takes it, that knows only the disk. `typed`: it had time before, while
    the message was being typed.
    """

    label: str
    request: Request
    reopened: bool = False
    typed: bool = True


@dataclass(frozen=True)
class Race:
    """The answers of each contender, by repeat and step. `reference` is whom others are compared with."""

    steps: Sequence[Step]
    answers: Mapping[str, Sequence[Sequence[Answer]]]
    reference: str

    def of(self, name: str) -> list[Answer]:
        """Every answer of one contender, repeat after repeat."""
        return [answer for answers in self.answers[name] for answer in answers]

    def differing(self, name: str) -> tuple[int, int]:
        """How many greedy tokens differ from the reference's, and of how many.

        Who says nothing of them is not compared.
        """
        pairs = [
            (one, other)
            for mine, theirs in zip(self.of(name), self.of(self.reference), strict=True)
            if mine.greedy
            for one, other in itertools.zip_longest(mine.greedy, theirs.greedy)
        ]
        return sum(one != other for one, other in pairs), len(pairs)


def race(
    contenders: Sequence[Contender],
    steps: Sequence[Step],
    script: Script,
    repeats: int,
    progress: Progress,
) -> Race:
    """Every step by every contender, each time another one first; the first contender is the reference.

    A request that is not counted comes before, so that nobody pays for what is compiled once.
    """
    answers: dict[str, list[list[Answer]]] = {one.name: [] for one in contenders}
    for one in contenders:
        one.ask(WARMING, script)
    count = 0
    for _ in range(repeats):
        for one in contenders:
            one.forget()
            answers[one.name].append([])
        for number, step in enumerate(steps):
            for one in rotated(contenders, number):
                answers[one.name][-1].append(taken(one, step, script))
                count += 1
                progress(count, repeats * len(steps) * len(contenders), f"{step.label}: {one.name}")
    return Race(steps, answers, contenders[0].name)


def taken(contender: Contender, step: Step, script: Script) -> Answer:
    """One step of one contender."""
    if not step.reopened:
        return contender.ask(step.request, script)
    began = time.perf_counter()
    contender.reopen(step.typed)
    opening = time.perf_counter() - began
    return replace(contender.ask(step.request, script), opening=opening)


def rotated(every: Sequence[T], by: int) -> list[T]:
    """The same ones, beginning with another."""
    first = by % len(every)
    return [*every[first:], *every[:first]]
