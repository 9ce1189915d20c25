"""Many requests at once, `chatcli serve` beside mlx-lm's server in one run: `python -m benchmarks.many`.

Without `--model` a model of random weights in the shape of a published one is made on the spot. Prompts share
512 tokens and have 128 of their own. Each server is started once; each concurrency has prompts of its own,
which it gets twice: cold and warm. With few clients there are fewer prompts, so that all takes minutes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy

from benchmarks import shapes
from chatcli.bench import run, serve
from chatcli.bench.serve import OURS, PEER, Asked, Messages, Pass, Serving
from chatcli.cli.output import show_result
from chatcli.commands.results import Table
from chatcli.errors import ChatcliError

# mlx-lm's server takes five connections at a time and breaks off others: they ask again, as clients do.
MAX_TRIES, RETRY_SECONDS = 100, 0.1
PROMPTS_PER_CLIENT, LEAST_PROMPTS = 6, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", help="a folder, a hub name or pocket")
    parser.add_argument("--shape", choices=shapes.SHAPES, default="qwen3-1.7b")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--prompts", type=int, default=50, help="the most at a time")
    parser.add_argument("--reply", type=int, default=100, help="tokens of a reply")
    given = parser.parse_args()
    with run.temporary_folder() as folder:
        if given.model is None:
            began = time.perf_counter()
            shapes.write(given.shape, folder)
            print(f"{given.shape}, random weights, made in {time.perf_counter() - began:.0f} s", flush=True)
        for table in measure(given.model or str(folder), given.at_once, given.prompts, given.reply):
            show_result(table)


def measure(model: str, at_once: Sequence[int], prompts: int, reply: int) -> Iterator[Table]:
    """A table for each concurrency, once all is measured."""
    passes: dict[int, list[tuple[Pass, Pass]]] = {clients: [] for clients in at_once}
    with serve.written_model(run.Plan(model), reply) as (folder, _, tokenizer):
        letters = run.letters_per_token(tokenizer)
        for way in (OURS, PEER):
            with serve.serving(way, folder) as server:
                for variant, clients in enumerate(at_once, start=1):
                    count = min(prompts, max(PROMPTS_PER_CLIENT * clients, LEAST_PROMPTS))
                    asked = serve.sharing_prompts(count, letters, variant)
                    cold, warm = (together(server, asked, clients, reply) for _ in range(2))
                    passes[clients].append((cold, warm))
                    print(f"{way}, {clients} at once: {cold.seconds:.1f} s, {warm.seconds:.1f} s", flush=True)
    for clients, pairs in passes.items():
        yield serve.shared_table(Path(model).name, clients, pairs)
        yield ratios(clients, *pairs)


def together(server: Serving, prompts: Sequence[Messages], clients: int, reply: int) -> Pass:
    """`serve.together` with clients that ask again where a connection is broken off."""

    def ask(messages: Messages) -> Asked:
        for tries in range(1, MAX_TRIES + 1):
            try:
                return server.ask(messages, reply, 0)
            except ChatcliError:
                if tries == MAX_TRIES:
                    raise
                time.sleep(RETRY_SECONDS)
        raise AssertionError

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        asked = list(pool.map(ask, prompts))
    return Pass(server.way, asked, time.perf_counter() - began)


def ratios(clients: int, ours: tuple[Pass, Pass], peer: tuple[Pass, Pass]) -> Table:
    """What ours is of theirs: more tokens a second is better, less time to the first token too."""
    rows = []
    for name, own, other in zip(("cold", "warm"), ours, peer, strict=True):
        speed = texts_per_second(own) / texts_per_second(other)
        first = [first_token(own, percent) / first_token(other, percent) for percent in (50, 90)]
        gaps = [gap for asked in own.asked for gap in asked.gaps]
        longest = numpy.percentile(gaps, 99) / numpy.median(gaps)
        rows.append((name, f"{speed:.2f}", *(f"{each:.2f}" for each in first), f"{longest:.1f}"))
    return Table(
        f"chatcli serve ÷ mlx-lm's server, {clients} at once",
        ("", "texts/s", "first token, half", "90 %", "own gaps, 99 % ÷ half"),
        rows,
        ["Goals: texts/s at least 1.0 cold and 1.2 warm, first token at most 1.0."],
    )


def texts_per_second(each: Pass) -> float:
    return sum(len(asked.gaps) + 1 for asked in each.asked) / each.seconds


def first_token(each: Pass, percent: int) -> float:
    return float(numpy.percentile([asked.first for asked in each.asked], percent))


if __name__ == "__main__":
    main()
