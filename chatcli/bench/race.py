"""Sends the same requests to all contenders of a benchmark, each being first in turn.

All contenders get the same conversations: user messages to which the model replies as the script says.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from chatcli.bench.scripted import Script
from chatcli.model.load import LoadedModel
from chatcli.threads.mlx_thread import Worker

T = TypeVar("T")

# Called with the number of answers so far, their total, and a text about the last answer.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Spread:
    """The median, smallest and largest of some numbers."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Query:
    """A conversation up to the message to answer: its user messages, oldest first."""

    system: str
    user_messages: tuple[str, ...]

    def messages(self, script: Script) -> list[dict[str, str]]:
        """The chat template's input: the script's reply follows every user message except the last."""
        messages = [{"role": "system", "content": self.system}]
        for text in self.user_messages:
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": script.reply})
        return messages[:-1]


@dataclass(frozen=True)
class Answer:
    """The cost of a request in tokens, seconds and bytes.

    `time_to_first_token` counts from the request, `gaps` are the times between tokens, `after_seconds` is the
    time from the last token until the next request could be taken. `ahead_tokens` were run in that time.
    `greedy` is what the model itself would have generated at each token of the script. `opening_seconds` is
    the time from a new process's start until it could take this request. `memory_bytes` is the size of the
    caches afterwards, `disk_bytes` that of the files, `written_bytes` what this request wrote.
    `typeahead_tokens` were run while the message was typed, and do not count as reused.
    """

    prompt_tokens: int
    reused_tokens: int
    time_to_first_token: float
    gaps: Sequence[float] = ()
    after_seconds: float = 0.0
    ahead_tokens: int = 0
    greedy: Sequence[int] = ()
    memory_bytes: int = 0
    disk_bytes: int = 0
    written_bytes: int = 0
    opening_seconds: float = 0.0
    typeahead_tokens: int = 0

    @property
    def hit_ratio(self) -> float:
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def generation_seconds(self) -> float:
        """The time from the first token to the last."""
        return sum(self.gaps)


class Contender:
    """Answers requests, reusing earlier ones where it can."""

    name = ""

    def __init__(self, worker: Worker, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._worker = worker

    def ask(self, request: Query, script: Script) -> Answer:
        """Answer a request, and do the work that follows a reply."""
        raise NotImplementedError

    def reopen(self, ahead: bool) -> None:
        """Drop everything except the disk, as a new process would.

        `ahead`: also prepare as far as possible before the next request is known.
        """
        self.forget()

    def forget(self) -> None:
        """Drop everything, including the disk."""

    def close(self) -> None:
        """Release processes and files."""
        self.forget()


def gaps(times: Sequence[float]) -> tuple[float, ...]:
    """The differences between consecutive times."""
    return tuple(later - earlier for earlier, later in itertools.pairwise(times))


@dataclass(frozen=True)
class Step:
    """A labelled request.

    `reopened`: a new process takes it, with only the disk. `typed`: the process had time to prepare while the
    message was typed.
    """

    label: str
    request: Query
    reopened: bool = False
    typed: bool = True


@dataclass(frozen=True)
class Workload:
    """Requests in order. `reply` is the length of each reply in tokens, `published` are others' results."""

    name: str
    title: str
    steps: Sequence[Step]
    reply: int
    published: str = ""


@dataclass(frozen=True)
class Race:
    """The answers of each contender, by repeat and step. The others are compared with `reference`."""

    steps: Sequence[Step]
    answers: Mapping[str, Sequence[Sequence[Answer]]]
    reference: str

    def of(self, name: str) -> list[Answer]:
        """Every answer of one contender, repeat after repeat."""
        return [answer for answers in self.answers[name] for answer in answers]

    def differing(self, name: str) -> tuple[int, int]:
        """How many greedy tokens differ from the reference's, and how many were compared.

        Answers without greedy tokens are not compared.
        """
        pairs = [
            pair
            for mine, theirs in zip(self.of(name), self.of(self.reference), strict=True)
            if mine.greedy
            for pair in itertools.zip_longest(mine.greedy, theirs.greedy)
        ]
        return sum(mine != theirs for mine, theirs in pairs), len(pairs)


WARM_UP = Query("You are a helpful assistant.", ("Good morning.",))


def race(
    contenders: Sequence[Contender],
    steps: Sequence[Step],
    script: Script,
    repeats: int,
    progress: Progress,
) -> Race:
    """Run every step with every contender, in rotating order. The first contender is the reference.

    An uncounted request comes first, so that no contender pays for one-time compilation.
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
    """`items` rotated by `by` places."""
    first = by % len(items)
    return [*items[first:], *items[:first]]
