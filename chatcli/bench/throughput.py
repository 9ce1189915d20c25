"""What answering many questions took, as a table and as plain data; refuses to measure."""

from __future__ import annotations

import statistics
from typing import Any

from chatcli.bench import cells
from chatcli.bench.together import ALONE, PEER, Found, Throughput
from chatcli.commands.results import Table

COLUMNS = ("", "prefilled", "generated", "time", "tokens/s", "times one by one", "differ")


def table(found: Found) -> Table:
    """A row a way, then where we lose and what was not batched."""
    count = len(found.questions.asked)
    prompt = found.rounds[ALONE][0].prompt
    title = f"batch, {found.model}: {count} questions on one document, {prompt:,} prompt tokens"
    rows = [_row(found, name, one) for name, one in found.rounds.items()]
    return Table(title, COLUMNS, rows, list(_notes(found)))


def _row(found: Found, name: str, rounds: list[Throughput]) -> tuple[str, ...]:
    return (
        name,
        f"{rounds[0].prefilled:,}",
        f"{rounds[0].generated:,}",
        cells.seconds(statistics.median(one.seconds for one in rounds)),
        cells.number(found.speed(name)),
        cells.spread(found.speedup(name)),
        f"{found.differing(name)} of {len(found.questions.asked)}",
    )


def _notes(found: Found) -> list[str]:
    """What a reader should know of these numbers."""
    told = [
        "Time: from the first question to the last answer on disk; mlx-lm keeps nothing.",
        "Differ: greedy answers that are not those the question got alone.",
    ]
    told += dict.fromkeys(one.notice for rounds in found.rounds.values() for one in rounds if one.notice)
    best = max((name for name in found.rounds if name != PEER), key=found.speed)
    ours, theirs = found.speed(best), found.speed(PEER)
    if theirs > 1.05 * ours:
        told.append(f"{PEER} is {theirs / ours:.2f} times as fast as the best of ours, {best}.")
    return told


def as_json(found: Found) -> dict[str, Any]:
    """Every round of every way: seconds, tokens. No answers."""
    return {
        "model": found.model,
        "questions": len(found.questions.asked),
        "reply_tokens": found.questions.reply,
        "ways": [
            {
                "name": name,
                "times_one_by_one": vars(found.speedup(name)),
                "differing": found.differing(name),
                "rounds": [
                    {
                        "prompt_tokens": one.prompt,
                        "prefilled_tokens": one.prefilled,
                        "generated_tokens": one.generated,
                        "seconds": one.seconds,
                        "notice": one.notice,
                    }
                    for one in rounds
                ],
            }
            for name, rounds in found.rounds.items()
        ],
    }
