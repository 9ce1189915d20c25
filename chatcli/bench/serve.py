"""Compares `chatcli serve` with mlx-lm's server over HTTP, in one run.

Each server is a process with the same model at temperature 0 and scripted replies, as in the other
benchmarks: 12 tokens of thinking, a reply, and the end. A conversation continues with what the server itself
replied. `least` is the number of tokens that no earlier prompt contained, which must be run whatever is
cached.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy
from mlx_lm.utils import load_tokenizer

from chatcli.bench import run, workloads
from chatcli.bench.http_server import HOST, Event, Server
from chatcli.bench.race import Progress, Query, gaps
from chatcli.bench.report import percent_text, seconds_text
from chatcli.bench.scripted import Script, render, script, write_code
from chatcli.commands.results import Table
from chatcli.model.locate import resolve
from chatcli.store.segments.token_path import common_prefix
from chatcli.text import count
from chatcli.threads.mlx_thread import Worker

CHAT_PATH, HEALTH_PATH = "/v1/chat/completions", "/health"
OURS, UNCACHED, PEER = "chatcli serve", "chatcli serve --no-cache", "mlx-lm's server"
KILLED = "chatcli serve, killed after each reply"
CONCURRENCIES = (1, 5, 16)
# The pause that a tool or a person makes, in which a server may work ahead.
PAUSE_SECONDS = 0.3
SETTLE_SECONDS = 60.0
SHARED_TOKENS, PROMPT_TOKENS = 512, 128
PERCENTS = (50, 90, 99)
Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Size:
    """The sizes of the workloads: tokens and rounds of an agent's prompt, prompts with a shared prefix,
    turns.

    `reply` is the length of a reply in tokens, without thinking; `shared_reply` is that of prompts with a
    shared prefix.
    """

    agentic: tuple[int, int]
    prompts: int
    turns: int
    reply: int = 64
    shared_reply: int = 32


SIZES = (Size((700, 4), 4, 6, 16, 8), Size((2800, 20), 20, 40), Size((28_000, 20), 50, 40, shared_reply=100))


@dataclass(frozen=True)
class Asked:
    """The result of one request: tokens, seconds, and the reply's text without thinking."""

    prompt: int
    reused: int
    least: int
    first: float
    gaps: Sequence[float]
    text: str

    @property
    def prefilled(self) -> int:
        return self.prompt - self.reused


@dataclass(frozen=True)
class Pass:
    """The requests to one server, and the seconds that they took together."""

    way: str
    asked: Sequence[Asked]
    seconds: float

    @property
    def hit_ratio(self) -> float:
        return sum(each.reused for each in self.asked) / sum(each.prompt for each in self.asked)

    @property
    def above_least(self) -> float:
        """Tokens prefilled, as a multiple of the least possible."""
        return sum(each.prefilled for each in self.asked) / sum(each.least for each in self.asked)


@dataclass
class Outcome:
    """What was measured, by workload."""

    model: str
    agentic: list[Pass] = field(default_factory=list)
    turns: list[Pass] = field(default_factory=list)
    # By concurrency; each has cold and warm.
    shared: dict[int, list[tuple[Pass, Pass]]] = field(default_factory=dict)


class Serving:
    """One server for a model: started at once, restarted with its files, ended on exit."""

    def __init__(self, way: str, model: Path, folder: Path) -> None:
        self.way, self._model, self._folder = way, str(model), folder
        self._server = self._started()

    def _started(self) -> Server:
        def command(port: int) -> list[str]:
            command = [sys.executable, "-m"]
            if self.way == PEER:
                command += ["mlx_lm", "server"]
            else:
                command += ["chatcli", "serve", "--host", HOST, "--sessions", str(self._folder)]
                command += ["--no-cache"] if self.way == UNCACHED else []
            return [*command, "--model", self._model, "--port", str(port), "--trust-remote-code"]

        server = Server(self.way, command, HEALTH_PATH, grace=0 if self.way == KILLED else 20)
        # Loading and compiling must not count as part of a request.
        _ask(server, [{"role": "user", "content": "."}], 4, 0)
        return server

    def ask(self, messages: Messages, reply_tokens: int, least: int) -> Asked:
        return _ask(self._server, messages, reply_tokens, least)

    def rest(self) -> None:
        """Pause; if the server is to be killed, once the reply is settled and on disk."""
        time.sleep(PAUSE_SECONDS)
        if self.way != KILLED:
            return
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            status = self._server.get("/v1/status")
            if not status["unsettled"] and not status["unwritten"]:
                break
            time.sleep(0.02)
        self._server.close()
        self._server = self._started()

    def close(self) -> None:
        self._server.close()


def _ask(server: Server, messages: Messages, reply_tokens: int, least: int) -> Asked:
    body = {
        "model": "default_model",
        "messages": messages,
        "max_tokens": reply_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    times: list[float] = []
    usage: Event = {}
    text = ""
    began = time.perf_counter()
    for event in server.stream(CHAT_PATH, body):
        if has_text(event):
            times.append(time.perf_counter())
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            text += (choice.get("delta") or {}).get("content") or ""
    times = times or [time.perf_counter()]
    prompt: int = usage.get("prompt_tokens", 0)
    reused: int = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Asked(prompt, reused, least or prompt, times[0] - began, gaps(times), text)


def has_text(event: Event) -> bool:
    """Whether an event has text, including thinking."""
    return any(
        (choice.get("delta") or {}).get(name)
        for choice in event.get("choices") or ()
        for name in ("content", "reasoning", "reasoning_content")
    )


def measure(
    plan: run.Plan,
    progress: Progress,
    show: Callable[[Table], None],
    size: Size | None = None,
    concurrencies: Sequence[int] = CONCURRENCIES,
) -> Outcome:
    """Run every workload with every server, one after the other; `size` None: the plan's.

    `show` gets each table as soon as it is ready. Raises `ModelError`, `UsageError` and `ChatcliError`.
    """
    size = size or SIZES[plan.size]
    done, total = 0, 5 + 3 * len(concurrencies)

    def step(what: str) -> None:
        nonlocal done
        done += 1
        progress(done, total, what)

    with written_model(plan, size.reply) as (model, script, tokenizer):
        outcome = Outcome(Path(plan.model).name)
        letters = run.letters_per_token(tokenizer)
        tokens, rounds = size.agentic
        agentic = workloads.agentic(tokens, rounds, letters).steps[-1].request
        turns = workloads.turns(size.turns).steps[-1].request
        for title, passes, request, ways in (
            ("an agent's rounds", outcome.agentic, agentic, (OURS, KILLED, PEER)),
            ("short turns", outcome.turns, turns, (OURS, PEER)),
        ):
            for way in ways:
                with serving(way, model) as server:
                    passes.append(conversation(server, tokenizer, request, len(script) + 1))
                step(way)
            show(conversation_table(f"{title}, {outcome.model}", passes))
        prompts = sharing_prompts(size.prompts, letters)
        for concurrency in concurrencies:
            pairs = outcome.shared.setdefault(concurrency, [])
            for way in (OURS, UNCACHED, PEER):
                with serving(way, model) as server:
                    cold, warm = (together(server, prompts, concurrency, size.shared_reply) for _ in range(2))
                pairs.append((cold, warm))
                step(f"{way}, {concurrency} at once")
            show(shared_table(outcome.model, concurrency, pairs))
    return outcome


@contextlib.contextmanager
def written_model(plan: run.Plan, reply_tokens: int) -> Iterator[tuple[Path, Script, Any]]:
    """The plan's model in a temporary folder, following a script; the script; and the tokenizer.

    Raises `ModelError` and `UsageError`.
    """
    worker = Worker()
    with run.temporary_folder() as folder:
        try:
            for path in resolve(plan.model).iterdir():
                (folder / path.name).symlink_to(path.resolve())
            config = (folder / "config.json").read_bytes()
            (folder / "config.json").unlink()
            (folder / "config.json").write_bytes(config)
            # Only the tokenizer: no model stays in this process.
            tokenizer = worker.call(load_tokenizer, folder)
            reply = worker.call(script, tokenizer, reply_tokens)
            write_code(folder, len(tokenizer.get_vocab()), reply.ids)
            worker.call(mx.clear_cache)
        finally:
            worker.close()
        yield folder, reply, tokenizer


@contextlib.contextmanager
def serving(way: str, model: Path) -> Iterator[Serving]:
    """A server with its own folder."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(run.temporary_folder())
        yield stack.enter_context(contextlib.closing(Serving(way, model, folder)))


def _messages(system: str, history: Sequence[dict[str, str]], text: str) -> Messages:
    return [{"role": "system", "content": system}, *history, {"role": "user", "content": text}]


def conversation(server: Serving, tokenizer: Any, request: Query, reply_tokens: int) -> Pass:
    """Send the request's user messages one after the other, each after the server's own replies."""
    asked: list[Asked] = []
    history: Messages = []
    began = time.perf_counter()
    for text in request.user_messages:
        messages = _messages(request.system, history, text)
        prompt = render(tokenizer, messages)
        before = render(tokenizer, _messages(request.system, history, "*")) if history else []
        least = len(prompt) - common_prefix(before, prompt)
        asked.append(server.ask(messages, reply_tokens, least))
        history += [messages[-1], {"role": "assistant", "content": asked[-1].text}]
        server.rest()
    return Pass(server.way, asked, time.perf_counter() - began)


def sharing_prompts(count: int, letters_per_token: float, variant: int = 0) -> list[Messages]:
    """Prompts that share their first 512 tokens; those of another `variant` share nothing with them."""
    first = 1_000_000 * variant
    prefix = workloads.long_text(int(SHARED_TOKENS * letters_per_token), first)
    length = int(PROMPT_TOKENS * letters_per_token)
    texts = (workloads.long_text(length, first + 1000 * number) for number in range(1, count + 1))
    return [_messages(prefix, (), text) for text in texts]


def together(server: Serving, prompts: Sequence[Messages], concurrency: int, reply_tokens: int) -> Pass:
    """Send all prompts, `concurrency` at a time."""
    began = time.perf_counter()
    with ThreadPoolExecutor(concurrency) as clients:
        asked = list(clients.map(lambda messages: server.ask(messages, reply_tokens, 0), prompts))
    return Pass(server.way, asked, time.perf_counter() - began)


def conversation_table(title: str, passes: Sequence[Pass]) -> Table:
    rows = [
        (
            each.way,
            percent_text(each.hit_ratio),
            percent_text(each.asked[-1].reused / each.asked[-1].prompt),
            f"{sum(asked.prefilled for asked in each.asked):,}",
            f"{each.above_least:.3f}",
            seconds_text(statistics.median(asked.first for asked in each.asked[1:])),
        )
        for each in passes
    ]
    last = passes[0].asked[-1].prompt
    return Table(
        f"serve: {title}, {count('request', len(passes[0].asked))}, the last of {last:,} tokens",
        ("", "reused", "of the last", "prefilled", "times the least", "first token"),
        rows,
        ["First token: the median of all but the first."],
    )


def shared_table(model: str, concurrency: int, ways: Sequence[tuple[Pass, Pass]]) -> Table:
    def percentiles(values: Sequence[float]) -> str:
        return " ".join(f"{numpy.percentile(values or [0.0], percent) * 1000:,.0f}" for percent in PERCENTS)

    rows = []
    for cold, warm in ways:
        for name, each in (("cold", cold), ("warm", warm)):
            generated = sum(len(asked.gaps) + 1 for asked in each.asked)
            rows.append(
                (
                    f"{each.way}, {name}",
                    percent_text(each.hit_ratio),
                    percentiles([asked.first for asked in each.asked]),
                    percentiles([gap for asked in each.asked for gap in asked.gaps]),
                    f"{generated / each.seconds:,.0f}",
                )
            )
    prompts = len(ways[0][0].asked)
    return Table(
        f"serve: {prompts} prompts with a shared prefix, {model}, {concurrency} at once",
        ("", "reused", "first token, ms", "between, ms", "texts/s"),
        rows,
        ["Milliseconds at 50, 90 and 99 %."],
    )


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Every request to every server, without texts."""

    def pass_json(each: Pass) -> dict[str, Any]:
        requests = [
            {name: value for name, value in vars(asked).items() if name != "text"} for asked in each.asked
        ]
        return {"way": each.way, "seconds": each.seconds, "hit_ratio": each.hit_ratio, "requests": requests}

    return {
        "model": outcome.model,
        "agentic": list(map(pass_json, outcome.agentic)),
        "turns": list(map(pass_json, outcome.turns)),
        "shared": {
            str(concurrency): [{"cold": pass_json(cold), "warm": pass_json(warm)} for cold, warm in ways]
            for concurrency, ways in outcome.shared.items()
        },
    }
