"""Concurrent requests to `chatcli serve` and to mlx-lm's server, compared: `python -m benchmarks.many`.

Without `--model` it creates a model with random weights in the shape of a published one. Prompts share 512
tokens and have 128 of their own. Each server is started once. Each concurrency has its own prompts, sent
twice: cold and warm. Few clients send fewer prompts, so that a run takes minutes.
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

# mlx-lm's server accepts five connections at a time and drops others, which retry, as clients do.
MAX_TRIES, RETRY_SECONDS = 100, 0.1
PROMPTS_PER_CLIENT, LEAST_PROMPTS = 6, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", help="a folder, a hub name or pocket")
    parser.add_argument("--shape", choices=shapes.SHAPES, default="qwen3-1.7b")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--prompts", type=int, default=50, help="the highest concurrency")
    parser.add_argument("--reply", type=int, default=100, help="tokens per reply")
    given = parser.parse_args()
    with run.temporary_folder() as folder:
        if given.model is None:
            began = time.perf_counter()
            shapes.write(given.shape, folder)
            print(f"{given.shape}, random weights, made in {time.perf_counter() - began:.0f} s", flush=True)
        for table in measure(given.model or str(folder), given.at_once, given.prompts, given.reply):
            show_result(table)


def measure(model: str, at_once: Sequence[int], prompts: int, reply: int) -> Iterator[Table]:
    """A table for each concurrency, once everything is measured."""
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
    """`serve.together` with clients that retry dropped connections."""

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
    """Ratios of our numbers to theirs: higher is better for throughput, lower for time to first token."""
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
