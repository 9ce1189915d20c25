"""Many questions about one document: in batches, one by one, and in mlx-lm's batch without reuse.

    python -m benchmarks.batch [--quick]

Every method gets a new folder in each round, so that nothing is cached yet.
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
from typing import Any

from mlx_lm.generate import batch_generate

from benchmarks.measure import options, progress
from chatcli.bench import run, workloads
from chatcli.bench.race import Progress, Spread, rotated
from chatcli.bench.report import number_text, seconds_text, spread_text
from chatcli.bench.run import BenchSetup
from chatcli.bench.scripted import render
from chatcli.chat_format.template import Template
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.cli.bench import show
from chatcli.commands.results import Table
from chatcli.events import Answered, Notice
from chatcli.settings.values import Sampling
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFolder
from chatcli.turn import batch
from chatcli.turn.prompt import TurnContext

ONE_BY_ONE, PEER = "chatcli, one by one", "mlx-lm's batch_generate"
BATCH_SIZES = (4, 16)
# Rates with a smaller relative difference count as equal.
MARGIN = 0.05
# By plan size: the number of questions, the document's tokens, and a reply's tokens.
SIZES = ((4, 200, 16), (16, 1000, 32), (50, 8000, 64))


@dataclass(frozen=True)
class Throughput:
    """The cost of answering questions: prompt tokens, prefilled tokens, and total seconds.

    `replies` has each reply's tokens. `notice` says why they were not batched, if so.
    """

    replies: tuple[tuple[int, ...], ...]
    prompt_tokens: int
    prefilled_tokens: int
    seconds: float
    notice: str | None = None

    @property
    def generated_tokens(self) -> int:
        return sum(map(len, self.replies))

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens divided by the whole time, including prefilling and saving."""
        return self.generated_tokens / self.seconds


@dataclass(frozen=True)
class Questions:
    """A document, questions about it, and the maximum reply length in tokens."""

    document: str
    texts: Sequence[str]
    reply_tokens: int


@dataclass(frozen=True)
class BatchComparison:
    """Every round of every method. The first method is the reference."""

    model: str
    questions: Questions
    rounds: dict[str, list[Throughput]]

    def tokens_per_second(self, name: str) -> float:
        """The median of the rounds."""
        return statistics.median(throughput.tokens_per_second for throughput in self.rounds[name])

    def speedup(self, name: str) -> Spread:
        """Tokens per second relative to one by one, in the same round."""
        pairs = zip(self.rounds[name], self.rounds[ONE_BY_ONE], strict=True)
        return Spread.of([mine.tokens_per_second / reference.tokens_per_second for mine, reference in pairs])

    def differing(self, name: str) -> int:
        """How many replies of the first round differ from those generated one by one."""
        pairs = zip(self.rounds[name][0].replies, self.rounds[ONE_BY_ONE][0].replies, strict=True)
        return sum(mine != reference for mine, reference in pairs)


Method = Callable[[], Throughput]


def compare(plan: run.Plan, progress: Progress) -> BatchComparison:
    """Run every method in every round, in rotating order. Raises `ModelError`."""
    with run.opened(plan) as setup:
        count, document_tokens, reply_tokens = SIZES[plan.size]
        texts = [f"What of day {number}?" + " And then?" * (number % 4) for number in range(count)]
        document = workloads.long_text(int(document_tokens * run.letters_per_token(setup.loaded.tokenizer)))
        questions = Questions(document, texts, reply_tokens)
        # Not counted, so that no method pays for one-time compilation or the trial of a batch.
        for _, method in methods(setup, Questions("Good morning.", ["Who?", "Where?"], 4)):
            method()
        by_name = dict(methods(setup, questions))
        rounds: dict[str, list[Throughput]] = {name: [] for name in by_name}
        for number in range(plan.repeats):
            for name in rotated(list(by_name), number):
                rounds[name].append(by_name[name]())
                done = sum(map(len, rounds.values()))
                progress(done, plan.repeats * len(by_name), name)
        return BatchComparison(setup.loaded.name, questions, rounds)


def methods(setup: BenchSetup, questions: Questions) -> Iterator[tuple[str, Method]]:
    """The methods by name, one by one first."""
    count = len(questions.texts)

    def ours(batch_size: int | None) -> Method:
        def answer() -> Throughput:
            with opened(setup, questions) as context:
                return measure(context, questions.texts, batch_size)

        return answer

    yield ONE_BY_ONE, ours(1)
    for size in BATCH_SIZES:
        if size < count:
            yield f"chatcli, {size} at once", ours(size)
    yield f"chatcli, all {count} at once", ours(None)
    yield PEER, lambda: _peer(setup, questions)


@contextmanager
def opened(setup: BenchSetup, questions: Questions) -> Iterator[TurnContext]:
    """A session with the document as its system prompt, in a separate folder."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=setup.folder)))
        store = SegmentStore(folder, setup.loaded.fingerprint)
        stack.callback(store.close)
        sessions = SessionFolder(folder)
        session = sessions.create("questions", model=setup.loaded.name, system=questions.document)
        stack.callback(session.close)
        template = Template(setup.loaded.tokenizer, session.conversation.date, None)
        checkpoints = Checkpoints(setup.worker, setup.loaded, store)
        sampling = Sampling(temp=0.0, max_tokens=questions.reply_tokens)
        yield TurnContext(session, template, checkpoints, sampling)


def measure(context: TurnContext, questions: Sequence[str], batch_size: int | None) -> Throughput:
    """Answer `questions`, `batch_size` at once (1: one after the other; None: all in a batch)."""
    began = time.perf_counter()
    events = list(batch.answer_each(context, questions, threading.Event(), batch_size))
    seconds = time.perf_counter() - began
    answers = sorted(
        (event for event in events if isinstance(event, Answered)), key=lambda event: event.number
    )
    records = [answer.record for answer in answers]
    return Throughput(
        tuple(tuple(record.tokens) for record in records),
        sum(record.prompt_tokens for record in records),
        sum(record.prefilled_tokens for record in records),
        seconds,
        next((event.text for event in events if isinstance(event, Notice)), None),
    )


def _peer(setup: BenchSetup, questions: Questions) -> Throughput:
    """mlx-lm's own batch of whole prompts, each of which includes the document."""
    began = time.perf_counter()
    loaded, system = setup.loaded, {"role": "system", "content": questions.document}
    prompts = [
        render(loaded.tokenizer, [system, {"role": "user", "content": text}]) for text in questions.texts
    ]
    response = setup.worker.call(
        batch_generate,
        loaded.model,
        loaded.tokenizer,
        prompts,
        max_tokens=questions.reply_tokens,
        return_token_ids=True,
        prefill_step_size=loaded.prefill_step,
    )
    seconds = time.perf_counter() - began
    tokens = sum(map(len, prompts))
    return Throughput(tuple(map(tuple, response.token_ids)), tokens, tokens, seconds)


def table(comparison: BatchComparison) -> Table:
    """A row per method, then where we lose and what was not batched."""
    count = len(comparison.questions.texts)
    prompt = comparison.rounds[ONE_BY_ONE][0].prompt_tokens
    rows = [
        (
            name,
            f"{rounds[0].prefilled_tokens:,}",
            f"{rounds[0].generated_tokens:,}",
            seconds_text(statistics.median(throughput.seconds for throughput in rounds)),
            number_text(comparison.tokens_per_second(name)),
            spread_text(comparison.speedup(name)),
            f"{comparison.differing(name)} of {count}",
        )
        for name, rounds in comparison.rounds.items()
    ]
    notes = [
        "Time: from the first question to the last answer on disk; mlx-lm keeps nothing.",
        "Differ: greedy answers that are not those the question got alone.",
    ]
    every_round = [throughput for rounds in comparison.rounds.values() for throughput in rounds]
    notes += dict.fromkeys(throughput.notice for throughput in every_round if throughput.notice)
    best = max((name for name in comparison.rounds if name != PEER), key=comparison.tokens_per_second)
    ratio = comparison.tokens_per_second(PEER) / comparison.tokens_per_second(best)
    if ratio > 1 + MARGIN:
        notes.append(f"{PEER} is {ratio:.2f} times as fast as the best of ours, {best}.")
    title = f"batch, {comparison.model}: {count} questions on one document, {prompt:,} prompt tokens"
    columns = ("", "prefilled", "generated", "time", "tokens/s", "times one by one", "differ")
    return Table(title, columns, rows, notes)


def as_json(comparison: BatchComparison) -> dict[str, Any]:
    """Every round of every method: seconds, tokens. No answers."""
    return {
        "model": comparison.model,
        "questions": len(comparison.questions.texts),
        "reply_tokens": comparison.questions.reply_tokens,
        "ways": [
            {
                "name": name,
                "times_one_by_one": vars(comparison.speedup(name)),
                "differing": comparison.differing(name),
                "rounds": [
                    {
                        "prompt_tokens": throughput.prompt_tokens,
                        "prefilled_tokens": throughput.prefilled_tokens,
                        "generated_tokens": throughput.generated_tokens,
                        "seconds": throughput.seconds,
                        "notice": throughput.notice,
                    }
                    for throughput in rounds
                ],
            }
            for name, rounds in comparison.rounds.items()
        ],
    }


if __name__ == "__main__":
    chosen = options(__doc__).parse_args()
    compared = compare(run.Plan(chosen.model, run.QUICK if chosen.quick else run.USUAL), progress)
    show(chosen.json, {"batch": as_json(compared)}, [table(compared)])
