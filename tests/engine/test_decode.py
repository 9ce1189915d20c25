"""Guess and check: whatever is guessed, the reply and the caches are those of a pass for each token."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from chatcli.engine import generate
from chatcli.engine.decode import decode
from chatcli.engine.generate import GenerationRequest, Token
from chatcli.engine.known_costs import KnownCosts, Measure
from chatcli.engine.lookup import Lookup
from chatcli.engine.pace import LENGTHS, PassCosts
from chatcli.kv import prompt_cache
from chatcli.kv.freeze import arrays_in
from chatcli.kv.leaf import Rows, leaves, windows_in
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model.load import LoadedModel, load
from chatcli.settings.values import ModelOptions, Sampling
from tests.support.families import at_night
from tests.support.tiny import CONFIGS, write_model

PROMPT = [30 + 7 * number % 300 for number in range(40)]
STABLE = 29
# Twice as long as the windows of the tiny models, and not a multiple of the places of states.
LONG = 70


@dataclass
class Oracle:
    """Guesses `count` tokens of a reply that it knows; `wrong` says of how many of ten each is right."""

    reply: Sequence[int]
    count: int
    right_of_ten: int = 10
    is_draft = False
    done: int = 0
    passes: list[int] = field(default_factory=list)
    random: random.Random = field(default_factory=lambda: random.Random(1))

    def begin(self, prompt: Sequence[int], elsewhere: Sequence[str], measure: Measure) -> None:
        pass

    def waits(self) -> bool:
        return self.done % 11 < 9

    def guess(self, most: int, waiting: int, *, is_rerun: bool) -> list[int]:
        guess = self.reply[self.done : self.done + min(most, self.random.randint(0, self.count))]
        self.passes.append(waiting + len(guess))
        return [
            token if self.random.randrange(10) < self.right_of_ten else (token + 1) % 300 for token in guess
        ]

    def took(self, tokens: Sequence[int]) -> None:
        assert list(self.reply[self.done : self.done + len(tokens)]) == list(tokens)
        self.done += len(tokens)

    def finish(self) -> None:
        pass


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("models")
    kept: dict[str, LoadedModel] = {}

    def of(family: str) -> LoadedModel:
        if family not in kept:
            kept[family] = load(str(write_model(folder / family, family)), needs_chat_template=False)
        return kept[family]

    return of


def prefilled(loaded: LoadedModel, tokens: Sequence[int]) -> PromptCache:
    cache = prompt_cache.new(loaded.model, loaded.model_options)
    for _ in generate.prefill(loaded, cache, tokens, RowLog()):
        pass
    return cache


def until(tokens: Iterator[Token], cancelled: threading.Event, stop: int | None) -> Iterator[Token]:
    for number, token in enumerate(tokens, start=1):
        if number == stop:
            cancelled.set()
        yield token


@dataclass
class Outcome:
    tokens: list[Token]
    cache: PromptCache
    log: RowLog

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    @property
    def fields(self) -> list[Any]:
        return [(token.id, token.text, token.finish_reason) for token in self.tokens]


def run(
    loaded: LoadedModel, sampling: Sampling, guesser: Any = None, stop: int | None = None, **more: Any
) -> Outcome:
    cache, log, cancelled = prefilled(loaded, PROMPT[:STABLE]), RowLog(), threading.Event()
    request = GenerationRequest(PROMPT[STABLE:], sampling, 400, prefix=PROMPT[:STABLE], **more)
    if guesser is None:
        tokens = generate.generate(loaded, cache, request, cancelled, log)
    else:
        tokens = decode(guesser, loaded, cache, request, cancelled, log)
    return Outcome(list(until(tokens, cancelled, stop)), cache, log)


def offset(cache: PromptCache) -> int:
    return max(int(leaf.cache.offset) for leaf in leaves(cache))


def same(left: Any, right: Any) -> bool:
    return left.shape == right.shape and bool(mx.allclose(left, right, atol=1e-4).item())


def assert_same_cache(loaded: LoadedModel, expected: Outcome, found: Outcome) -> None:
    """Offsets are equal, rows and states within rounding, and so is what follows."""
    position = len(PROMPT) + len(expected.tokens)
    for outcome in (expected, found):
        for window in windows_in(outcome.cache):
            window.reorder()
    pairs = zip(leaves(expected.cache), leaves(found.cache), strict=True)
    for left, right in pairs:
        assert getattr(left.cache, "offset", None) == getattr(right.cache, "offset", None)
        if isinstance(left, Rows) and isinstance(right, Rows):
            rows = zip(left.buffers, right.buffers, strict=True)
            for (_, ours), (_, theirs) in rows:
                count = min(ours.shape[2], theirs.shape[2], position)
                assert same(ours[..., :count, :], theirs[..., :count, :])
        else:
            for ours, theirs in zip(arrays_in(left.cache), arrays_in(right.cache), strict=True):
                assert same(ours, theirs)
    assert expected.log.complete == found.log.complete
    rows_of_logs = expected.log.copy().take(), found.log.copy().take()
    assert rows_of_logs[0].keys() == rows_of_logs[1].keys()
    assert all(same(rows_of_logs[0][name], rows_of_logs[1][name]) for name in rows_of_logs[0])
    states, others = expected.log.states, found.log.states
    assert [state.position for state in states] == [state.position for state in others]
    for state, other in zip(states, others, strict=True):
        for number, (_, arrays) in state.parts.items():
            assert all(same(array, other.parts[number][1][name]) for name, array in arrays.items())
    logits = [loaded.model(mx.array([[35, 36]]), cache=outcome.cache) for outcome in (expected, found)]
    assert same(*logits)


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("right_of_ten", [at_night(0), 7, at_night(10)])
def test_a_greedy_reply_and_its_cache_are_those_of_single_passes(
    loaded: Any, family: str, right_of_ten: int
) -> None:
    model = loaded(family)
    sampling = Sampling(max_tokens=LONG, logit_bias=((2, -100.0),))
    expected = run(model, sampling)
    oracle = Oracle(expected.ids, 9, right_of_ten)
    found = run(model, sampling, oracle)
    assert expected.fields == found.fields and LONG == len(found.tokens)
    logprobs = [generate.floats([token.logprob for token in each.tokens]) for each in (expected, found)]
    assert logprobs[0] == pytest.approx(logprobs[1], abs=1e-4)
    assert sum(token.accepted for token in found.tokens) <= sum(token.guessed for token in found.tokens)
    if right_of_ten:
        assert sum(token.accepted for token in found.tokens) > LONG / 4
    assert_same_cache(model, expected, found)


@pytest.mark.parametrize("family", CONFIGS)
def test_stopped_at_any_token_the_cache_holds_every_token(loaded: Any, family: str) -> None:
    model = loaded(family)
    sampling = Sampling(max_tokens=LONG, logit_bias=((2, -100.0),))
    reply = run(model, sampling).ids
    for stop in range(1, 9):
        found = run(model, sampling, Oracle(reply, 5, 8), stop=stop)
        assert stop == len(found.tokens)
        assert_same_cache(model, run(model, replace(sampling, max_tokens=stop)), found)


SAMPLED = {
    "a seed": Sampling(temp=1.2, seed=5, top_p=0.9, top_k=50, min_p=0.01),
    "xtc": Sampling(temp=1.5, seed=6, xtc_probability=0.5, xtc_threshold=0.05),
    "penalties": Sampling(repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.3),
    "the whole prompt": Sampling(repetition_penalty=1.3, repetition_context_size=0),
    "a bias and a seed": Sampling(
        logit_bias=((45, 30.0), (46, 29.5)), repetition_penalty=1.2, temp=1, seed=3
    ),
    "budget": Sampling(think_budget=5),
    "no thinking": Sampling(think_budget=0, frequency_penalty=0.5, temp=0.7, seed=9),
}


@pytest.mark.parametrize("what", SAMPLED)
@pytest.mark.parametrize("family", ["qwen3_5", at_night("qwen3"), at_night("gpt_oss")])
def test_a_reply_is_the_same_whatever_is_guessed(loaded: Any, family: str, what: str) -> None:
    model, sampling = loaded(family), replace(SAMPLED[what], max_tokens=30)
    more = {"generation_prompt": "<think>\n", "likeliest": 3}
    expected = run(model, sampling, **more)
    for right_of_ten in (10, 8):
        found = run(model, sampling, Oracle(expected.ids, 6, right_of_ten), **more)
        assert expected.fields == found.fields and any(token.accepted for token in found.tokens)
        for left, right in zip(expected.tokens, found.tokens, strict=True):
            assert [token for token, _ in left.likeliest] == [token for token, _ in right.likeliest]
            assert [value for _, value in left.likeliest] == pytest.approx(
                [value for _, value in right.likeliest], abs=1e-4
            )


@pytest.mark.slow
def test_samples_follow_the_distribution_of_the_model(loaded: Any) -> None:
    """Without a seed, whatever is guessed: the shares of all replies of two tokens are the model's."""
    model, count = loaded("qwen3_5"), 300
    sampling = Sampling(max_tokens=2, temp=1.0, top_k=2)
    cache = prompt_cache.new(model.model)
    first = mx.argsort(-model.model(mx.array(PROMPT)[None], cache=cache)[0, -1])[:2].tolist()
    expected: dict[tuple[int, int], float] = {}
    for token in first:
        logits = model.model(mx.array([*PROMPT, token])[None], cache=prompt_cache.new(model.model))[0, -2:]
        second = mx.argsort(-logits[1])[:2].tolist()
        share = mx.softmax(logits[0, mx.array(first)])[first.index(token)].item()
        for other, rest in zip(second, mx.softmax(logits[1, mx.array(second)]).tolist(), strict=True):
            expected[token, other] = share * rest

    @dataclass
    class Always(Oracle):
        def took(self, tokens: Sequence[int]) -> None:
            self.done += len(tokens)

        def guess(self, most: int, waiting: int, *, is_rerun: bool) -> list[int]:
            return list(self.reply[self.done : self.done + most])

    likeliest = max(expected, key=lambda pair: expected[pair])
    mx.random.seed(1)
    counts: dict[tuple[int, ...], int] = {}
    accepted = 0
    for _ in range(count):
        found = run(model, sampling, Always(likeliest, 2))
        accepted += sum(token.accepted for token in found.tokens)
        if len(found.ids) == 2:
            counts[tuple(found.ids)] = counts.get(tuple(found.ids), 0) + 1
    assert accepted and set(counts) <= set(expected)
    # Some four standard deviations.
    for pair, share in expected.items():
        deviation = (share * (1 - share) / count) ** 0.5
        assert share == pytest.approx(counts.get(pair, 0) / count, abs=4 * deviation + 0.01)


@pytest.mark.parametrize(
    "options", [ModelOptions(kv_bits=8, kv_group_size=32), ModelOptions(max_kv_size=64)], ids=str
)
def test_of_caches_that_options_make_no_token_is_lost(tmp_path: Path, options: ModelOptions) -> None:
    """A window that keeps its start is guessed for until it is full."""
    folder = write_model(tmp_path / "model", "qwen3", head_dim=32)
    model = load(str(folder), model_options=options)
    sampling = Sampling(max_tokens=LONG, logit_bias=((2, -100.0),))
    expected = run(model, sampling)
    oracle = Oracle(expected.ids, 7, 8)
    found = run(model, sampling, oracle)
    assert expected.ids == found.ids and any(length > 2 for length in oracle.passes)
    assert offset(expected.cache) == offset(found.cache) == len(PROMPT) + LONG


@pytest.mark.parametrize("place", [0, 1, 4, 7])
def test_an_end_token_ends_the_reply_whether_guessed_or_not(loaded: Any, place: int) -> None:
    model = loaded("qwen3_5")
    reply = run(model, Sampling(max_tokens=12)).ids
    place = reply.index(reply[place])
    tokenizer, before = model.tokenizer, model.tokenizer.eos_token_ids
    try:
        tokenizer._eos_token_ids = {reply[place]}
        expected = run(model, Sampling(max_tokens=12))
        found = run(model, Sampling(max_tokens=12), Oracle(reply, 8))
    finally:
        tokenizer._eos_token_ids = before
    assert expected.fields == found.fields and place + 1 == len(found.tokens)
    assert_same_cache(model, expected, found)


def test_what_was_said_before_is_looked_up(loaded: Any) -> None:
    """The same question again takes a fraction of the passes, and gives the same reply."""
    model, costs = loaded("qwen3_5"), KnownCosts("model")
    costs.after(len(PROMPT), lambda: PassCosts(dict.fromkeys(LENGTHS, 1.0)))
    sampling = Sampling(max_tokens=LONG, logit_bias=((2, -100.0),))
    expected = run(model, sampling)
    found = run(model, sampling, Lookup(lambda _: expected.ids, costs), elsewhere=["the first reply"])
    assert expected.fields == found.fields
    assert sum(token.accepted for token in found.tokens) > LONG / 2
    assert_same_cache(model, run(model, sampling), found)


@pytest.mark.parametrize("family", ["qwen3_5", "gpt_oss", at_night("qwen3"), at_night("gemma3_text")])
def test_measuring_what_passes_cost_leaves_the_cache_as_it_was(loaded: Any, family: str) -> None:
    """Between two tokens of a reply, once."""
    model, measured = loaded(family), list[PassCosts | None]()

    @dataclass
    class Measuring(Oracle):
        def begin(self, prompt: Sequence[int], elsewhere: Sequence[str], measure: Measure) -> None:
            self.measure = measure

        def waits(self) -> bool:
            if self.done == 5:
                measured.append(self.measure())
            return False

    sampling = Sampling(max_tokens=30, logit_bias=((2, -100.0),))
    expected = run(model, sampling)
    found = run(model, sampling, Measuring(expected.ids, 0))
    (costs,) = measured
    # It ends where longer passes give no more a second.
    assert costs is not None and LENGTHS[: len(costs.ratios)] == tuple(costs.ratios)
    assert len(costs.ratios) >= 3
    assert expected.fields == found.fields
    assert_same_cache(model, expected, found)


@pytest.mark.parametrize("family", ["qwen3", at_night("gpt_oss"), "qwen3_5"])
def test_whole_buffers_where_attention_is_planned_change_no_token(loaded: Any, family: str) -> None:
    model = replace(loaded(family), plans_attention=True)
    sampling = Sampling(max_tokens=LONG, logit_bias=((2, -100.0),))
    expected = run(loaded(family), sampling)
    found = run(model, sampling, Oracle(expected.ids, 9, 7))
    assert expected.fields == found.fields and any(token.accepted for token in found.tokens)
    logprobs = [generate.floats([token.logprob for token in each.tokens]) for each in (expected, found)]
    assert logprobs[0] == pytest.approx(logprobs[1], abs=1e-4)
    assert_same_cache(model, expected, found)
