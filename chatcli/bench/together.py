"""Many questions in one batch beside the same one after the other; refuses to know how it is shown."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from chatcli import batch
from chatcli.events import Answered
from chatcli.turn import Chat


@dataclass(frozen=True)
class Throughput:
    """What answering some questions took: generated and prefilled tokens, and seconds in all.

    `said` has each question's tokens.
    """

    said: tuple[tuple[int, ...], ...]
    prefilled: int
    seconds: float

    @property
    def generated(self) -> int:
        return sum(map(len, self.said))

    @property
    def speed(self) -> float:
        """Generated tokens a second, prefilling and saving included."""
        return self.generated / self.seconds


def measure(chat: Chat, questions: Sequence[str], most: int | None = None) -> Throughput:
    """Answer `questions` beside each other, `most` at once (1: one after the other; None: a batch).

    They are kept in the session, whose head stays. Ask what was not asked before: else its
    checkpoints are there already.
    """
    began = time.perf_counter()
    events = list(batch.answer_each(chat, questions, threading.Event(), most))
    seconds = time.perf_counter() - began
    answers = sorted(
        (one for one in events if isinstance(one, Answered)), key=lambda one: one.number
    )
    records = [one.record for one in answers]
    said = tuple(tuple(record.tokens) for record in records)
    return Throughput(said, sum(record.prefilled_tokens for record in records), seconds)
