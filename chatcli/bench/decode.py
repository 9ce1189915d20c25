"""Decoding speed of replies that repeat earlier text, and of one that does not, compared with mlx-lm's loop.

The model runs on real caches, but its reply is scripted: at each position the intended token is made far
likelier than all others, whatever was guessed before it.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import stream_generate

from chatcli.bench import run, workloads
from chatcli.bench.race import Progress
from chatcli.bench.report import factor_text
from chatcli.commands.results import Table
from chatcli.engine import generate
from chatcli.engine.decode import decode
from chatcli.engine.known_costs import KnownCosts
from chatcli.engine.lookup import Lookup
from chatcli.engine.sampling import sampler_for
from chatcli.errors import ModelBroken
from chatcli.kv import prompt_cache
from chatcli.kv.leaf import leaves
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model.load import UNLIMITED, LoadedModel
from chatcli.settings.values import Sampling

# Tokens of a reply, and of a long text before the question, by the plan's size.
REPLY_TOKENS, TEXT_TOKENS = (100, 200, 400), (0, 1000, 26_000)
TEMPERATURES = (0.0, 0.7)
# How much the intended token's logit exceeds the largest other.
LEAD = 50.0

CODE = """\
def total(orders, rate):
    net = 0
    for order in orders:
        if order.state == "paid":
            net = net + order.count * order.price
    return net + net * rate

def report(orders, rate, currency):
    lines = []
    for order in orders:
        lines.append(f"{order.name}: {order.count} x {order.price} {currency}")
    lines.append(f"total: {total(orders, rate)} {currency}")
    return "\\n".join(lines)

def write(path, orders, rate, currency):
    with open(path, "w") as file:
        file.write(report(orders, rate, currency))
"""
LETTER = (
    "Dear Ana, the river were high this week and the market has been closed since Tuesday. Biscuit do "
    "not mind: he swims where the stalls stood, and comes home with whatever floats there. I have wrote"
    " to the harbour about the boat, but nobody answer before the water is back in its bed, so we wait,"
    " and read, and bake. Come when the road are open again; the spare room is yours, and the dog will "
    "be glad of the company."
)
CORRECTIONS = (
    ("were high", "was high"),
    ("do not", "does not"),
    ("wrote", "written"),
    ("are open", "is open"),
)
PROSE = (
    "Rain had been falling over the harbour since before anyone was awake, soft enough that gulls still"
    " argued on the roofs. Marta counted seven ships at anchor, none of them hers, then went below to "
    "wake the cook. Coffee first, she thought; questions could follow once his hands had stopped "
    "shaking. Somewhere behind the grey an engine coughed, caught, and carried its small noise away "
    "toward deeper water."
)


@dataclass(frozen=True)
class Said:
    """A prompt, and the scripted reply."""

    name: str
    prompt: str
    reply: str


@dataclass(frozen=True)
class Measured:
    """Tokens per second of mlx-lm and chatcli for a reply (medians of the plan's rounds), and its passes."""

    name: str
    temperature: float
    tokens: int
    peer_tps: float
    own_tps: float
    passes: int
    ratio: float


def said() -> list[Said]:
    """The workloads: a code edit, proofreading, quotes, thinking that drafts the answer, and prose."""
    proofread = LETTER
    for wrong, right in CORRECTIONS:
        proofread = proofread.replace(wrong, right)
    draft = PROSE[: PROSE.index(",")]
    sentences = LETTER.split(". ")
    quotes = f'It says: "{sentences[1]}." And later: "{sentences[2]}." It ends so: "{sentences[0]}."'
    return [
        Said("code edit", f"Rename net to amount.\n\n{CODE}", CODE.replace("net", "amount")),
        Said("proofreading", f"Correct the mistakes.\n\n{LETTER}", proofread),
        Said("quotes", f"What does the letter say of the river?\n\n{LETTER}", quotes),
        Said("drafted answer", "Write about the harbour.", f"A draft: {draft}\n</think>\n\n{draft}"),
        Said("prose", "Write about the harbour.", PROSE),
    ]


class Told(nn.Module):  # type: ignore[misc]
    """A model whose token after position p is `reply[p - start]`, whatever the input."""

    def __init__(self, inner: Any, start: int, reply: Sequence[int]) -> None:
        super().__init__()
        self.inner = inner
        self._start, self._reply = start, mx.array(list(reply))

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def __call__(self, inputs: Any, cache: PromptCache, **options: Any) -> Any:
        before = max(getattr(leaf.cache, "offset", 0) for leaf in leaves(cache))
        logits = self.inner(inputs, cache=cache, **options)
        places = mx.arange(inputs.shape[1]) + (before - self._start)
        told = self._reply[mx.clip(places, 0, self._reply.size - 1)]
        is_told = mx.arange(logits.shape[-1]) == told[None, :, None]
        return mx.where(is_told, logits.max(axis=-1, keepdims=True) + LEAD, logits)


def measure(plan: run.Plan, progress: Progress) -> tuple[str, list[Measured]]:
    """The model's name and the measurements. Raises `ModelError`."""
    with run.opened(plan) as setup:
        worker, loaded = setup.worker, setup.loaded
        measured: list[Measured] = []
        cases = [(each, temperature) for each in said() for temperature in TEMPERATURES]
        # Measure the costs once for all workloads, without the file.
        costs = KnownCosts(loaded.fingerprint)
        for each, temperature in cases:
            measured.append(worker.call(_measure, loaded, costs, each, temperature, plan))
            progress(len(measured), len(cases), each.name)
        return loaded.name, measured


def _measure(
    loaded: LoadedModel, costs: KnownCosts, each: Said, temperature: float, plan: run.Plan
) -> Measured:
    tokenizer = loaded.tokenizer
    letters = int(TEXT_TOKENS[plan.size] * run.letters_per_token(tokenizer))
    text = f"{workloads.long_text(letters)}\n\n" if letters else ""
    prompt = list(tokenizer.encode(f"{text}{each.prompt}\n\n"))
    reply = list(tokenizer.encode(each.reply, add_special_tokens=False))[: REPLY_TOKENS[plan.size]]
    cache = prompt_cache.new(loaded.model, loaded.model_options)
    if not any(hasattr(leaf.cache, "offset") for leaf in leaves(cache)):
        raise ModelBroken("This model's cache does not count its tokens, so its reply cannot be scripted.")
    for _ in generate.prefill(loaded, cache, prompt[:-1], RowLog()):
        pass
    told = replace(loaded, model=Told(loaded.model, len(prompt) - 1, reply))
    sampling = Sampling(temp=temperature, max_tokens=len(reply))
    request = generate.GenerationRequest(prompt[-1:], sampling, UNLIMITED, prefix=prompt[:-1])

    def mlx_lm() -> Iterator[int]:
        responses = stream_generate(
            told.model,
            tokenizer,
            prompt[-1:],
            max_tokens=len(reply),
            sampler=sampler_for(tokenizer, sampling),
            prompt_cache=prompt_cache.fork(cache),
        )
        return (response.token for response in responses)

    accepted = 0

    def ours() -> Iterator[int]:
        nonlocal accepted
        accepted = 0
        own = prompt_cache.fork(cache)
        # A new lookup each time, as for the first reply.
        lookup = Lookup(partial(tokenizer.encode, add_special_tokens=False), costs)
        for token in decode(lookup, told, own, request, threading.Event(), RowLog()):
            accepted += token.accepted
            yield token.id

    peer, own, passes = list[float](), list[float](), list[int]()
    for number in range(plan.repeats + 1):
        peer.append(_tokens_a_second(mlx_lm, reply))
        own.append(_tokens_a_second(ours, reply))
        passes.append(len(reply) - accepted)
        if not number:
            # The first round includes one-time compilation: drop it.
            peer, own, passes = [], [], []
    ratios = [mine / theirs for mine, theirs in zip(own, peer, strict=True)]
    return Measured(
        each.name,
        temperature,
        len(reply),
        statistics.median(peer),
        statistics.median(own),
        statistics.median_low(passes),
        statistics.median(ratios),
    )


def _tokens_a_second(generated: Callable[[], Iterator[int]], reply: Sequence[int]) -> float:
    """From the first token to the last. Raises `ModelBroken` if the reply is not the scripted one."""
    times, tokens = [], []
    for token in generated():
        times.append(time.perf_counter())
        tokens.append(token)
    if tokens != list(reply)[: len(tokens)]:
        raise ModelBroken("The model did not give the scripted reply.")
    return (len(times) - 1) / max(times[-1] - times[0], 1e-9)


def table(name: str, measured: Sequence[Measured]) -> Table:
    return Table(
        f"decode: {name}",
        ("", "temperature", "tokens", "passes", "mlx-lm tok/s", "chatcli tok/s", "ratio"),
        [
            (
                each.name,
                f"{each.temperature:g}",
                f"{each.tokens:,}",
                f"{each.passes:,}",
                f"{each.peer_tps:,.0f}",
                f"{each.own_tps:,.0f}",
                factor_text(each.ratio),
            )
            for each in measured
        ],
        ["Medians; each ratio compares consecutive runs."],
    )


def as_json(name: str, measured: Sequence[Measured]) -> dict[str, Any]:
    return {"model": name, "replies": [asdict(each) for each in measured]}
