"""Many questions on one document: in batches, one after the other, and mlx-lm's batch without reuse.

Refuses to know how it is shown. Every way has a new folder each round, so that nothing is there yet.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlx_lm.generate import batch_generate

from chatcli.bench import run, workloads
from chatcli.bench.measure import Spread
from chatcli.bench.race import Progress, rotated
from chatcli.bench.run import House
from chatcli.bench.scripted import render
from chatcli.chat_format.template import Template
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.events import Answered, Notice
from chatcli.session import opening
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFolder
from chatcli.turn import batch
from chatcli.turn.prompt import TurnContext

ALONE, PEER = "chatcli, one by one", "mlx-lm's batch_generate"
WIDTHS = (4, 16)
# Questions, tokens of the document, tokens of a reply.
SIZES = ((4, 200, 16), (16, 1000, 32), (50, 8000, 64))


@dataclass(frozen=True)
class Throughput:
    """What answering some questions took: prompt and prefilled tokens, and seconds in all.

    `said` has each question's tokens. `notice` says why they were not batched, if so.
    """

    said: tuple[tuple[int, ...], ...]
    prompt: int
    prefilled: int
    seconds: float
    notice: str | None = None

    @property
    def generated(self) -> int:
        return sum(map(len, self.said))

    @property
    def speed(self) -> float:
        """Generated tokens a second, prefilling and saving included."""
        return self.generated / self.seconds


@dataclass(frozen=True)
class Questions:
    """What is asked: a document, so many questions on it, and the longest reply in tokens."""

    document: str
    asked: Sequence[str]
    reply: int


@dataclass(frozen=True)
class Found:
    """Every round of every way. The first way is the reference."""

    model: str
    questions: Questions
    rounds: dict[str, list[Throughput]]

    def speed(self, name: str) -> float:
        """Generated tokens a second, the median of the rounds."""
        return statistics.median(one.speed for one in self.rounds[name])

    def speedup(self, name: str) -> Spread:
        """How many times as many tokens a second as one by one, in the same round."""
        pairs = zip(self.rounds[name], self.rounds[ALONE], strict=True)
        return Spread.of([one.speed / alone.speed for one, alone in pairs])

    def differing(self, name: str) -> int:
        """Answers whose tokens are not those that the question got alone, of the first round."""
        pairs = zip(self.rounds[name][0].said, self.rounds[ALONE][0].said, strict=True)
        return sum(one != alone for one, alone in pairs)


Way = Callable[[], Throughput]


def measure(chat: TurnContext, questions: Sequence[str], most: int | None = None) -> Throughput:
    """Answer `questions` beside each other, `most` at once (1: one after the other; None: a batch).

    They are kept in the session, whose head stays. Ask what was not asked before: else its
    checkpoints are there already.
    """
    began = time.perf_counter()
    events = list(batch.answer_each(chat, questions, threading.Event(), most))
    seconds = time.perf_counter() - began
    answers = sorted((one for one in events if isinstance(one, Answered)), key=lambda one: one.number)
    records = [one.record for one in answers]
    return Throughput(
        tuple(tuple(record.tokens) for record in records),
        sum(record.prompt_tokens for record in records),
        sum(record.prefilled_tokens for record in records),
        seconds,
        next((one.text for one in events if isinstance(one, Notice)), None),
    )


def compare(plan: run.Plan, progress: Progress) -> Found:
    """Every way in every round, each time another one first. Raises `ModelError`."""
    with run.opened(plan) as house:
        questions = made(plan.size, run.per_token(house))
        every = dict(ways(house, questions))
        rounds: dict[str, list[Throughput]] = {name: [] for name in every}
        _warm(house)
        for number in range(plan.repeats):
            for name in rotated(list(every), number):
                rounds[name].append(every[name]())
                done = sum(map(len, rounds.values()))
                progress(done, plan.repeats * len(every), name)
        return Found(house.loaded.name, questions, rounds)


def made(size: int, per_token: float) -> Questions:
    """A document of plain sentences and questions of different lengths on it."""
    count, document, reply = SIZES[size]
    asked = [f"What of day {number}?" + " And then?" * (number % 4) for number in range(count)]
    return Questions(workloads.long_text(int(document * per_token)), asked, reply)


def ways(house: House, questions: Questions) -> Iterator[tuple[str, Way]]:
    """Each with its name, one by one first."""
    count = len(questions.asked)

    def ours(most: int | None) -> Way:
        def way() -> Throughput:
            with opened(house, questions) as chat:
                return measure(chat, questions.asked, most)

        return way

    yield ALONE, ours(1)
    for width in WIDTHS:
        if width < count:
            yield f"chatcli, {width} at once", ours(width)
    yield f"chatcli, all {count} at once", ours(None)
    yield PEER, lambda: _peer(house, questions)


@contextmanager
def opened(house: House, questions: Questions) -> Iterator[TurnContext]:
    """A session that has the document as its system prompt, in a folder of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=house.folder)))
        store = SegmentStore(folder, house.loaded.fingerprint)
        stack.callback(store.close)
        wanted = SessionRequest(system=questions.document)
        session = opening.begin(SessionFolder(folder), wanted, "questions", house.loaded.name)
        stack.callback(session.close)
        template = Template(house.loaded.tokenizer, session.conversation.date, None)
        checkpoints = Checkpoints(house.worker, house.loaded, store)
        sampling = Sampling(temp=0.0, max_tokens=questions.reply)
        yield TurnContext(session, session.conversation, template, checkpoints, sampling)


def _warm(house: House) -> None:
    """Not counted: nobody pays for what is compiled once, or for the trial of a batch."""
    for way in dict(ways(house, Questions("Good morning.", ["Who?", "Where?"], 4))).values():
        way()


def _peer(house: House, questions: Questions) -> Throughput:
    """mlx-lm's own batch of whole prompts: the document is prefilled for each of them."""
    began = time.perf_counter()
    loaded, system = house.loaded, {"role": "system", "content": questions.document}
    prompts = [
        render(loaded.tokenizer, [system, {"role": "user", "content": text}]) for text in questions.asked
    ]
    told = house.worker.call(
        batch_generate,
        loaded.model,
        loaded.tokenizer,
        prompts,
        max_tokens=questions.reply,
        return_token_ids=True,
        prefill_step_size=loaded.prefill_step,
    )
    seconds = time.perf_counter() - began
    tokens = sum(map(len, prompts))
    return Throughput(tuple(map(tuple, told.token_ids)), tokens, tokens, seconds)
