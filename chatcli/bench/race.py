"""Puts the same requests to every contender, taking turns at being first."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from chatcli.bench.contender import Answer, Contender, Request
from chatcli.bench.scripted import Script

T = TypeVar("T")
WARM_UP = Request("You are a helpful assistant.", ("Good morning.",))

# Called with the number of answers so far, the number of all, and what was answered by whom.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Step:
    """A labelled request.

    `reopened`: a new process takes it, which has only the disk. `typed`: the process had time to prepare
    while the message was being typed.
    """

    label: str
    request: Request
    reopened: bool = False
    typed: bool = True


@dataclass(frozen=True)
class Race:
    """The answers of each contender, by repeat and step. `reference`: whom the others are compared with."""

    steps: Sequence[Step]
    answers: Mapping[str, Sequence[Sequence[Answer]]]
    reference: str

    def of(self, name: str) -> list[Answer]:
        """Every answer of one contender, repeat after repeat."""
        return [answer for answers in self.answers[name] for answer in answers]

    def differing(self, name: str) -> tuple[int, int]:
        """How many greedy tokens differ from the reference's, and of how many.

        Answers without greedy tokens are not compared.
        """
        pairs = [
            pair
            for mine, theirs in zip(self.of(name), self.of(self.reference), strict=True)
            if mine.greedy
            for pair in itertools.zip_longest(mine.greedy, theirs.greedy)
        ]
        return sum(mine != theirs for mine, theirs in pairs), len(pairs)


def race(
    contenders: Sequence[Contender],
    steps: Sequence[Step],
    script: Script,
    repeats: int,
    progress: Progress,
) -> Race:
    """Every step by every contender, each time another one first; the first contender is the reference.

    An uncounted request comes before, so that nobody pays for one-time compilation.
    """
    answers: dict[str, list[list[Answer]]] = {contender.name: [] for contender in contenders}
    for contender in contenders:
        contender.ask(WARM_UP, script)
    count = 0
    for _ in range(repeats):
        for contender in contenders:
            contender.forget()
            answers[contender.name].append([])
        for number, step in enumerate(steps):
            for contender in rotated(contenders, number):
                opening_seconds = 0.0
                if step.reopened:
                    began = time.perf_counter()
                    contender.reopen(step.typed)
                    opening_seconds = time.perf_counter() - began
                answer = contender.ask(step.request, script)
                answers[contender.name][-1].append(replace(answer, opening_seconds=opening_seconds))
                count += 1
                progress(count, repeats * len(steps) * len(contenders), f"{step.label}: {contender.name}")
    return Race(steps, answers, contenders[0].name)


def rotated(items: Sequence[T], by: int) -> list[T]:
    """`items` beginning at another place."""
    first = by % len(items)
    return [*items[first:], *items[:first]]
