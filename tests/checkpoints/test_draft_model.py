"""Speculative decoding: the same tokens as without a draft model, and checkpoints for both caches."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_map
from mlx_lm.models.cache import trim_prompt_cache

from chatcli.api import Chat
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.checkpoints.draft_model import Speculation
from chatcli.commands import handlers as _commands  # noqa: F401  (registers what is looked up)
from chatcli.commands.registry import find
from chatcli.commands.results import PlainText
from chatcli.engine import generate
from chatcli.engine.generate import GenerationRequest, Token
from chatcli.engine.speculative import (
    SpeculationLimits,
    Speculator,
    generate_with_draft,
    speculation_limits,
)
from chatcli.errors import DraftModelRefused, MemoryFull, ModelNotFound
from chatcli.events import Notice, TurnRecord
from chatcli.kv import growth, prompt_cache
from chatcli.kv.leaf import rows_in
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model import fingerprint
from chatcli.model import load as models_
from chatcli.model.load import LoadedModel
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.session.runtime import Runtime
from chatcli.settings.values import ModelOptions, Sampling, Settings
from chatcli.store import maintenance
from chatcli.store.segments.segments import SegmentStore
from chatcli.threads.mlx_thread import Worker
from chatcli.tui.render import panel
from chatcli.turn import regenerate, turn, typeahead
from chatcli.turn.prompt import render, render_history
from tests.support.families import at_night
from tests.support.harness import MESSAGES, NEUTRAL, Harness, finish, open_all_along, outcome, reopened
from tests.support.program import Program
from tests.support.scripted import PLAIN, RecordingModel, ScriptedHarness, until
from tests.support.tiny import OPEN_THINK, SPECIAL, write_model

NOT_CANCELLED = threading.Event()
PROMPT = [30 + 7 * number % 300 for number in range(40)]
STABLE = 29
# The target model itself, one with similar weights, and one with unrelated weights.
DRAFTS = ("open", "kindred", "stranger")
BY_DAY = [at_night("open"), "kindred", at_night("stranger")]


def write_kindred(folder: Path, of: Path, noise: float = 0.05) -> Path:
    """A copy of the model in `of` with noise added to its weights."""
    shutil.copytree(of, folder)
    path = str(folder / "model.safetensors")
    mx.random.seed(3)
    weights = tree_map(
        lambda weight: weight + noise * mx.std(weight) * mx.random.normal(weight.shape), dict(mx.load(path))
    )
    mx.eval(weights)
    mx.save_safetensors(path, weights, {"format": "mlx"})
    return folder


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of one vocabulary: `open` begins in its thinking, `plain` keeps replies unchanged in history."""
    folder = tmp_path_factory.mktemp("family")
    write_model(folder / "open", "qwen3", template=OPEN_THINK)
    write_model(folder / "plain", "qwen3", template=PLAIN)
    write_model(folder / "stranger", "qwen3", seed=8, num_hidden_layers=1, template=None)
    write_model(folder / "windows", "gemma3_text", sliding_window=64)
    write_kindred(folder / "kindred", folder / "open")
    write_kindred(folder / "kindred-windows", folder / "windows")
    return folder


# Generating


@dataclass(frozen=True)
class Pair:
    """A loaded target model and its draft model."""

    model: LoadedModel
    draft: LoadedModel
    num_draft_tokens: int = 3

    def caches(self, stable: Sequence[int]) -> list[PromptCache]:
        caches = []
        for loaded in (self.model, self.draft):
            cache = prompt_cache.new(loaded.model, loaded.model_options)
            for _ in generate.prefill(loaded, cache, stable, RowLog()):
                pass
            caches.append(cache)
        return caches

    def speculative(
        self,
        caches: Sequence[PromptCache],
        tail: Sequence[int],
        sampling: Sampling,
        *,
        stop: int | None = None,
        **more: Any,
    ) -> list[Token]:
        limits = speculation_limits(self.model, self.draft)
        cache, draft_cache = caches
        speculator = Speculator(self.draft, draft_cache, RowLog(), self.num_draft_tokens, limits)
        cancelled = threading.Event()
        tokens = generate_with_draft(
            speculator, self.model, cache, GenerationRequest(tail, sampling, 64, **more), cancelled, RowLog()
        )
        return list(cancel_at(tokens, cancelled, stop))

    def alone(
        self,
        cache: PromptCache,
        tail: Sequence[int],
        sampling: Sampling,
        *,
        stop: int | None = None,
        **more: Any,
    ) -> list[Token]:
        cancelled = threading.Event()
        request = GenerationRequest(tail, sampling, 64, **more)
        tokens = generate.generate(self.model, cache, request, cancelled, RowLog())
        return list(cancel_at(tokens, cancelled, stop))


def cancel_at(tokens: Iterator[Token], cancelled: threading.Event, stop: int | None) -> Iterator[Token]:
    """The tokens; `cancelled` is set at number `stop`."""
    for number, token in enumerate(tokens, start=1):
        if number == stop:
            cancelled.set()
        yield token


@pytest.fixture(scope="module")
def pairs(family: Path) -> dict[str, Pair]:
    loaded = {name: models_.load(str(family / name), needs_chat_template=False) for name in DRAFTS}
    return {name: Pair(loaded["open"], loaded[name]) for name in DRAFTS}


def fields(tokens: Sequence[Token]) -> list[tuple[int, str, str | None]]:
    return [(token.id, token.text, token.finish_reason) for token in tokens]


def offset(cache: PromptCache) -> int:
    return max(int(leaf.cache.offset) for leaf in rows_in(cache))


def rows(cache: PromptCache) -> list[Any]:
    end = offset(cache)
    return [array[..., :end, :] for leaf in rows_in(cache) for _, array in leaf.buffers]


def same_rows(left: PromptCache, right: PromptCache) -> bool:
    pairs = zip(rows(left), rows(right), strict=True)
    return all(a.shape == b.shape and mx.allclose(a, b, atol=1e-4).item() for a, b in pairs)


@pytest.mark.parametrize("name", [at_night("open"), "kindred", at_night("stranger")])
def test_tokens_are_those_of_the_model_and_both_caches_hold_them(pairs: dict[str, Pair], name: str) -> None:
    pair = pairs[name]
    stable, tail = PROMPT[:STABLE], PROMPT[STABLE:]
    for count in range(1, 10):
        sampling = Sampling(max_tokens=count)
        caches, (plain_cache, _) = pair.caches(stable), pair.caches(stable)
        expected = pair.alone(plain_cache, tail, sampling)
        tokens = pair.speculative(caches, tail, sampling)
        assert fields(expected) == fields(tokens) and "length" == tokens[-1].finish_reason
        tokens_run = [*PROMPT, *(token.id for token in tokens)]
        for cache, cold in zip(caches, pair.caches(tokens_run), strict=True):
            assert len(tokens_run) == offset(cache)
            assert same_rows(cache, cold), count


def test_a_likely_draft_is_accepted_and_an_unlikely_one_is_not(pairs: dict[str, Pair]) -> None:
    def accepted(name: str) -> int:
        pair = pairs[name]
        caches = pair.caches(PROMPT[:STABLE])
        tokens = pair.speculative(caches, PROMPT[STABLE:], Sampling(max_tokens=24))
        assert 20 == len(tokens)
        return sum(token.from_draft for token in tokens)

    # Three of four tokens are drafted, the fourth is the target model's.
    assert 15 == accepted("open") > accepted("kindred") > accepted("stranger")


@pytest.mark.parametrize("name", BY_DAY)
def test_stopped_at_any_token_both_caches_hold_every_token(pairs: dict[str, Pair], name: str) -> None:
    pair = pairs[name]
    for stop in range(1, 7):
        caches = pair.caches(PROMPT[:STABLE])
        tokens = pair.speculative(caches, PROMPT[STABLE:], NEUTRAL, stop=stop)
        assert stop == len(tokens) and tokens[-1].finish_reason is None
        tokens_run = [*PROMPT, *(token.id for token in tokens)]
        for cache, cold in zip(caches, pair.caches(tokens_run), strict=True):
            assert same_rows(cache, cold), stop


SAMPLED = {
    "penalties": Sampling(repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.3),
    "the whole prompt": Sampling(repetition_penalty=1.3, repetition_context_size=0),
    "bias": Sampling(logit_bias=((45, 30.0), (46, 29.5)), repetition_penalty=1.2),
    "budget": Sampling(think_budget=5),
    "no thinking": Sampling(think_budget=0, frequency_penalty=0.5),
}


@pytest.mark.parametrize("what", SAMPLED)
@pytest.mark.parametrize("name", BY_DAY)
def test_logits_processors_act_as_without_a_draft_model(pairs: dict[str, Pair], name: str, what: str) -> None:
    pair = pairs[name]
    stable, tail = PROMPT[:STABLE], PROMPT[STABLE:]
    sampling = replace(SAMPLED[what], max_tokens=20)
    more = {"generation_prompt": "<think>\n", "prefix": stable}
    caches, (plain_cache, _) = pair.caches(stable), pair.caches(stable)
    expected = pair.alone(plain_cache, tail, sampling, **more)
    assert fields(expected) == fields(pair.speculative(caches, tail, sampling, **more))
    ids = [token.id for token in expected]
    if sampling.think_budget is not None:
        assert SPECIAL.index("</think>") == ids[sampling.think_budget]
    # A reply that continues from its first tokens is the same.
    reply_start = ids[:3]
    caches = pair.caches(stable)
    rest = pair.speculative(
        caches, [*tail, *reply_start], replace(sampling, max_tokens=17), reply_start=reply_start, **more
    )
    assert ids[3:] == [token.id for token in rest]


def test_logprobs_are_those_of_the_model(pairs: dict[str, Pair]) -> None:
    pair = pairs["kindred"]
    sampling = Sampling(max_tokens=16, temp=1.2, seed=5, top_p=0.9, top_k=50, min_p=0.01)
    caches = pair.caches(PROMPT[:STABLE])
    tokens = pair.speculative(caches, PROMPT[STABLE:], sampling)
    tokens_run = [*PROMPT, *(token.id for token in tokens)]
    cache = prompt_cache.new(pair.model.model)
    logits = pair.model.model(mx.array(tokens_run[:-1])[None], cache=cache)[0, len(PROMPT) - 1 :]
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    expected = [logprobs[index, token.id].item() for index, token in enumerate(tokens)]
    assert expected == pytest.approx(generate.floats([token.logprob for token in tokens]), abs=1e-4)


def test_the_same_seed_samples_the_same(pairs: dict[str, Pair]) -> None:
    pair = pairs["kindred"]
    sampling = Sampling(max_tokens=16, temp=1.5, seed=5, xtc_probability=0.5, xtc_threshold=0.05, min_p=0.01)
    first, second = (
        pair.speculative(pair.caches(PROMPT[:STABLE]), PROMPT[STABLE:], sampling) for _ in range(2)
    )
    assert fields(first) == fields(second)
    other = pair.speculative(pair.caches(PROMPT[:STABLE]), PROMPT[STABLE:], replace(sampling, seed=6))
    assert fields(first) != fields(other)


@pytest.mark.slow
def test_samples_follow_the_distribution_of_the_model(pairs: dict[str, Pair]) -> None:
    """Over many seeds, the sampled tokens have the frequencies that the logits give."""
    pair = pairs["kindred"]
    stable, tail = PROMPT[:STABLE], PROMPT[STABLE:]
    sampling = Sampling(max_tokens=1, temp=1.0, top_k=2)
    counts: dict[int, int] = {}
    caches = pair.caches(PROMPT[:-1])
    for seed in range(60):
        (token,) = pair.speculative(caches, PROMPT[-1:], replace(sampling, seed=seed))
        counts[token.id] = counts.get(token.id, 0) + 1
        for cache in caches:
            trim_prompt_cache(cache, 2)
    cache = prompt_cache.new(pair.model.model)
    logits = pair.model.model(mx.array([*stable, *tail])[None], cache=cache)[0, -1]
    best = mx.argsort(-logits)[:2]
    shares = mx.softmax(logits[best]).tolist()
    assert set(counts) <= set(best.tolist())
    frequencies = [counts.get(token, 0) / 60 for token in best.tolist()]
    assert shares == pytest.approx(frequencies, abs=0.25)


@pytest.mark.parametrize("place", [at_night(0), 1, at_night(4), 7])
def test_an_end_token_ends_the_reply_whether_drafted_or_not(family: Path, tmp_path: Path, place: int) -> None:
    shutil.copytree(family / "open", tmp_path / "model")
    loaded = models_.load(str(family / "open"))
    pair = Pair(loaded, loaded)
    caches = pair.caches(PROMPT[:STABLE])
    ids = [token.id for token in pair.speculative(caches, PROMPT[STABLE:], Sampling(max_tokens=9))]
    last = ids[place]
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "eos_token_id": last}))
    ending = models_.load(str(tmp_path / "model"))
    pair = Pair(ending, loaded)
    caches, (plain_cache, _) = pair.caches(PROMPT[:STABLE]), pair.caches(PROMPT[:STABLE])
    expected = pair.alone(plain_cache, PROMPT[STABLE:], NEUTRAL)
    tokens = pair.speculative(caches, PROMPT[STABLE:], NEUTRAL)
    assert fields(expected) == fields(tokens) and "stop" == tokens[-1].finish_reason
    assert all(len(PROMPT) + len(tokens) == offset(cache) for cache in caches)


@pytest.mark.parametrize("padding", [-2, 3])
def test_a_draft_model_may_have_more_logits_or_fewer(pairs: dict[str, Pair], padding: int) -> None:
    """Models of one vocabulary pad their logits to different sizes."""
    pair = pairs["kindred"]

    def padded(tokens: Any, cache: Any) -> Any:
        logits = pair.draft.model(tokens, cache=cache)
        if padding < 0:
            return logits[..., :padding]
        # What is no token of the model is likeliest.
        return mx.pad(logits, [(0, 0), (0, 0), (0, padding)], constant_values=1000.0)

    expected = pair.speculative(pair.caches(PROMPT[:STABLE]), PROMPT[STABLE:], Sampling(max_tokens=12))
    draft = replace(pair.draft, model=padded)
    limits = speculation_limits(pair.model, pair.draft)
    cache, draft_cache = pair.caches(PROMPT[:STABLE])
    speculator = Speculator(draft, draft_cache, RowLog(), 3, limits)
    request = GenerationRequest(PROMPT[STABLE:], Sampling(max_tokens=12), 64)
    tokens = list(generate_with_draft(speculator, pair.model, cache, request, NOT_CANCELLED, RowLog()))
    assert fields(expected) == fields(tokens) and any(token.from_draft for token in tokens)


# Windows


@pytest.mark.slow
def test_a_full_window_is_no_end_of_the_speculation(family: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"tokens": 30}
    plain = open_all_along(family / "windows", tmp_path / "plain", **options)
    options["draft_model"] = family / "kindred-windows"
    live = open_all_along(family / "windows", tmp_path / "open", **options)
    assert [record.tokens for record in plain] == [record.tokens for record in live]
    assert all(record.prompt_tokens > 20 and record.draft_accepted_tokens for record in live)
    fresh = reopened(family / "windows", tmp_path / "closed", **options)
    assert list(map(outcome, live)) == list(map(outcome, fresh))


@pytest.mark.slow
def test_a_full_cache_that_keeps_its_start_ends_the_speculation_and_not_the_reply(
    family: Path, tmp_path: Path
) -> None:
    """Within a pass of several tokens mlx-lm shows the start to the first ones only."""
    name, window = "open", 48
    options: dict[str, Any] = {"model_options": ModelOptions(max_kv_size=49), "tokens": 30}
    plain = open_all_along(family / name, tmp_path / "plain", **options)
    options["draft_model"] = family / "kindred"
    notices = []
    with Harness(family / name, tmp_path / "open", **options) as harness:
        chat = harness.chat("talk")
        records = []
        for message in MESSAGES:
            events = list(turn.take(chat, message, NOT_CANCELLED))
            notices.append([event.text for event in events if isinstance(event, Notice)])
            records.append(finish(iter(events)))
            for _ in turn.settle(chat, NOT_CANCELLED):
                pass
    assert [record.tokens for record in plain] == [record.tokens for record in records]
    (notice,) = [text for texts in notices for text in texts]
    assert "sliding window is full" in notice
    room = window - records[0].prompt_tokens
    assert notices[0] and 0 < records[0].draft_accepted_tokens < room < records[0].generated_tokens
    assert all(record.draft_accepted_tokens == 0 for record in records[1:])
    reopened_records = reopened(family / name, tmp_path / "closed", **options)
    assert list(map(outcome, records)) == list(map(outcome, reopened_records))


def test_a_reply_that_outgrows_the_window_leaves_an_incomplete_draft_cache(family: Path) -> None:
    """It lacks the rows of the later tokens, so its log is incomplete."""
    model = models_.load(str(family / "open"), model_options=ModelOptions(max_kv_size=49))
    pair = Pair(model, model)
    limits = speculation_limits(model, model)
    for count, complete in ((4, True), (40, False)):
        cache, draft_cache = pair.caches(PROMPT[:STABLE])
        speculator = Speculator(model, draft_cache, RowLog(), 3, limits)
        tokens = generate_with_draft(
            speculator,
            model,
            cache,
            GenerationRequest(
                PROMPT[STABLE:],
                Sampling(max_tokens=count, logit_bias=((SPECIAL.index("<|im_end|>"), -100.0),)),
                64,
            ),
            NOT_CANCELLED,
            RowLog(),
        )
        assert count == len(list(tokens)) and complete == speculator.log.complete


# Recurrent models


@pytest.mark.slow
def test_recurrent_models_have_draft_models_and_are_such(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "qwen3_5")
    write_kindred(tmp_path / "kindred", tmp_path / "model")
    options: dict[str, Any] = {"draft_model": tmp_path / "kindred"}
    plain = open_all_along(tmp_path / "model", tmp_path / "plain")
    live = open_all_along(tmp_path / "model", tmp_path / "open", **options)
    fresh = reopened(tmp_path / "model", tmp_path / "closed", **options)
    assert [record.tokens for record in plain] == [record.tokens for record in live]
    assert list(map(outcome, live)) == list(map(outcome, fresh))
    counts = [(record.prompt_tokens, record.reused_tokens, record.settled_tokens) for record in plain]
    assert counts == [(record.prompt_tokens, record.reused_tokens, record.settled_tokens) for record in fresh]
    assert all(record.draft_accepted_tokens for record in live)


@pytest.mark.parametrize(("name", "draft"), [("qwen3_5", "gpt_oss"), at_night("gpt_oss", "qwen3_5")])
def test_a_draft_model_may_be_of_another_kind(models: Path, name: str, draft: str) -> None:
    model, other = (models_.load(str(models / each), needs_chat_template=False) for each in (name, draft))
    pair, sampling = Pair(model, other), Sampling(max_tokens=40)
    limits = SpeculationLimits(len(model.tokenizer.get_vocab()), None)
    cache, draft_cache = pair.caches(PROMPT[:STABLE])
    expected = pair.alone(pair.caches(PROMPT[:STABLE])[0], PROMPT[STABLE:], sampling)
    speculator = Speculator(other, draft_cache, RowLog(), 3, limits)
    request = GenerationRequest(PROMPT[STABLE:], sampling, 64)
    tokens = list(generate_with_draft(speculator, model, cache, request, NOT_CANCELLED, RowLog()))
    assert fields(expected) == fields(tokens)
    run = [*PROMPT, *(token.id for token in tokens)]
    for each, held, cold in zip((model, other), (cache, draft_cache), pair.caches(run), strict=True):
        logits = (each.model(mx.array([[5]]), cache=one)[0, -1] for one in (held, cold))
        assert mx.allclose(*logits, atol=1e-3).item()


# Conversations


@pytest.mark.parametrize(
    ("name", "model_options"),
    [
        ("open", ModelOptions()),
        at_night("plain", ModelOptions()),
        at_night("open", ModelOptions(prefill_step_size=7)),
        at_night("plain", ModelOptions(prefill_step_size=9)),
    ],
)
def test_a_reopened_session_is_the_same_to_the_bit(
    family: Path, tmp_path: Path, name: str, model_options: ModelOptions
) -> None:
    options: dict[str, Any] = {"draft_model": family / "kindred", "model_options": model_options}
    live = open_all_along(family / name, tmp_path / "open", **options)
    fresh = reopened(family / name, tmp_path / "closed", **options)
    assert list(map(outcome, live)) == list(map(outcome, fresh))
    accepted = [record.draft_accepted_tokens for record in live]
    assert accepted == [record.draft_accepted_tokens for record in fresh] and all(accepted)
    plain = open_all_along(family / name, tmp_path / "plain", model_options=model_options)
    assert [record.tokens for record in plain] == [record.tokens for record in live]
    counts = [(record.prompt_tokens, record.reused_tokens, record.settled_tokens) for record in plain]
    assert counts == [(record.prompt_tokens, record.reused_tokens, record.settled_tokens) for record in fresh]


@pytest.mark.slow
def test_a_reopened_quantized_cache_is_the_same_to_the_bit(tmp_path: Path) -> None:
    write_model(tmp_path / "wide", "qwen3", head_dim=32)
    write_kindred(tmp_path / "kindred", tmp_path / "wide")
    options: dict[str, Any] = {
        "draft_model": tmp_path / "kindred",
        "model_options": ModelOptions(kv_bits=8, kv_group_size=32),
    }
    live = open_all_along(tmp_path / "wide", tmp_path / "open", **options)
    fresh = reopened(tmp_path / "wide", tmp_path / "closed", **options)
    assert list(map(outcome, live)) == list(map(outcome, fresh))
    assert all(record.draft_accepted_tokens for record in live)


def test_a_draft_model_changes_no_checkpoint_of_the_target_model(family: Path, tmp_path: Path) -> None:
    """Turning the draft model on and off prefills nothing of the target model twice."""
    plain, records = [], []
    for message in MESSAGES[:3]:
        with Harness(family / "open", tmp_path / "plain") as harness:
            plain.append(harness.say(harness.chat("talk"), message))
    for number, message in enumerate(MESSAGES[:3]):
        draft = family / "kindred" if number % 2 else None
        with Harness(family / "open", tmp_path / "switched", draft_model=draft) as harness:
            records.append(harness.say(harness.chat("talk"), message))
            fingerprint = harness.runtime.loaded.fingerprint
    assert [record.reused_tokens for record in plain] == [record.reused_tokens for record in records]
    assert [record.tokens for record in plain] == [record.tokens for record in records]
    assert [None, str(family / "kindred")] == [record.draft_model for record in records[:2]]

    def names(folder: str) -> set[str]:
        return {path.name for path in (tmp_path / folder / "kv" / fingerprint).rglob("*.safe*")}

    assert names("plain") == names("switched") and names("plain")


class RecordedDraft:
    """A harness whose draft model records the tokens that it is run on."""

    def __init__(self, family: Path, sessions: Path, name: str = "open") -> None:
        self.harness = Harness(family / name, sessions)
        worker, runtime = self.harness.worker, self.harness.runtime
        draft = worker.call(models_.load, str(family / "kindred"), needs_chat_template=False)
        vocabulary = len(draft.tokenizer.get_vocab())
        self.model = worker.call(RecordingModel, draft.model, vocabulary, [1])
        limits = worker.call(speculation_limits, runtime.loaded, draft)
        self.store = SegmentStore(sessions, draft.fingerprint)
        draft = replace(draft, model=self.model)
        checkpoints = Checkpoints(worker, draft, self.store)
        self.speculation = Speculation(runtime.loaded, checkpoints, 3, limits)

    def __enter__(self) -> RecordedDraft:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self.harness.__exit__()

    def chat(self, name: str = "talk") -> turn.TurnContext:
        return replace(self.harness.chat(name), speculation=self.speculation)

    def take_run_ids(self) -> list[int]:
        """The tokens that the draft model was run on since the last call."""
        return list(self.harness.worker.call(self.model.take_run_ids))


def test_the_draft_model_runs_its_tokens_once(family: Path, tmp_path: Path) -> None:
    """The draft model prefills new tokens only: settled, reopened, regenerated."""
    with RecordedDraft(family, tmp_path) as recorded:
        chat = recorded.chat()
        first = recorded.harness.say(chat, MESSAGES[0], settle=False)
        tokens_run = recorded.take_run_ids()
        prompt = render(chat, chat.conversation.turns()[-1].user)
        assert prompt.tokens == tokens_run[: len(prompt.tokens)]
        for _ in turn.settle(chat, NOT_CANCELLED):
            pass
        path = render_history(chat, chat.conversation.path()[-1]).path
        assert path.tokens[prompt.path.end : path.end] == recorded.take_run_ids()
        assert first.draft_accepted_tokens is not None
    with RecordedDraft(family, tmp_path) as recorded:
        chat = recorded.chat()
        recorded.harness.say(chat, MESSAGES[1], settle=False)
        prompt = render(chat, chat.conversation.turns()[-1].user)
        new_tokens = prompt.tokens[path.end :]
        assert new_tokens == recorded.take_run_ids()[: len(new_tokens)]
        list(regenerate.regenerate(chat, NOT_CANCELLED))
        assert prompt.tail == recorded.take_run_ids()[: len(prompt.tail)]


def test_typeahead_prefills_the_draft_model_too(family: Path, tmp_path: Path) -> None:
    with RecordedDraft(family, tmp_path) as recorded:
        chat = recorded.chat()
        for _ in typeahead.typeahead(chat, MESSAGES[1], NOT_CANCELLED):
            pass
        prefilled = recorded.take_run_ids()
        record = recorded.harness.say(chat, MESSAGES[1], settle=False)
        prompt = render(chat, chat.conversation.turns()[-1].user)
        assert prompt.stable == prefilled and record.typeahead_tokens
        assert prompt.tail == recorded.take_run_ids()[: len(prompt.tail)]
    # Its checkpoint is written when the message is sent.
    with RecordedDraft(family, tmp_path) as recorded:
        list(regenerate.regenerate(recorded.chat(), NOT_CANCELLED))
        assert prompt.tail == recorded.take_run_ids()[: len(prompt.tail)]


class ScriptedDraft(ScriptedHarness):
    """A scripted target and draft model, with a template that keeps replies unchanged in history."""

    def __init__(self, family: Path, sessions: Path) -> None:
        super().__init__(family / "plain", sessions)
        draft = self.worker.call(models_.load, str(family / "kindred"), needs_chat_template=False)
        vocabulary = len(draft.tokenizer.get_vocab())
        self.draft_model = self.worker.call(RecordingModel, draft.model, vocabulary, self.script.ids)
        self.draft_store = SegmentStore(sessions, draft.fingerprint)
        checkpoints = Checkpoints(self.worker, replace(draft, model=self.draft_model), self.draft_store)
        limits = self.worker.call(speculation_limits, self.loaded, draft)
        self.worker.call(self.model.take_run_ids)
        self.speculation = Speculation(self.loaded, checkpoints, 3, limits)

    def __exit__(self, *_: object) -> None:
        self.draft_store.close()
        super().__exit__()

    def say(self, text: str) -> tuple[TurnRecord, list[int]]:
        """The record of a settled turn, and the tokens that settling ran."""
        chat = replace(self.chat("talk"), speculation=self.speculation)
        record = self.take(chat, text).record
        self.worker.call(self.draft_model.take_run_ids)
        settled = self.settle(chat, record)
        draft_settled = self.worker.call(self.draft_model.take_run_ids)
        assert settled == draft_settled
        self._opened.pop().close()
        return record, settled


@pytest.mark.slow
def test_unchanged_replies_are_run_again_by_neither_model(family: Path, tmp_path: Path) -> None:
    """Generated tokens are not prefilled again, and a reopened session is the same to the bit."""
    records = []
    with ScriptedDraft(family, tmp_path / "open") as harness:
        for message in MESSAGES[:3]:
            record, settled = harness.say(message)
            assert 0 < len(settled) < 8 and record.draft_accepted_tokens > 40
            records.append(record)
    for expected, message in zip(records, MESSAGES, strict=False):
        with ScriptedDraft(family, tmp_path / "closed") as harness:
            record, _ = harness.say(message)
        assert outcome(expected) == outcome(record)
        assert expected.reused_tokens == record.reused_tokens


@pytest.mark.slow
def test_without_its_checkpoints_the_draft_model_alone_prefills(family: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"draft_model": family / "kindred"}
    with Harness(family / "open", tmp_path / "whole", **options) as harness:
        chat = harness.chat("talk")
        records = [harness.say(chat, message) for message in MESSAGES[:3]]
    with Harness(family / "open", tmp_path / "saved", **options) as harness:
        chat = harness.chat("talk")
        for message in MESSAGES[:2]:
            harness.say(chat, message)
        fingerprint = harness.runtime.loaded.fingerprint
    for folder in (tmp_path / "saved" / "kv").iterdir():
        if folder.name != fingerprint:
            shutil.rmtree(folder)
    with Harness(family / "open", tmp_path / "saved", **options) as harness:
        last = harness.say(harness.chat("talk"), MESSAGES[2])
    assert outcome(records[-1]) == outcome(last)
    assert records[-1].reused_tokens == last.reused_tokens and last.miss_reason is None


def test_a_stopped_reply_continues(family: Path, tmp_path: Path) -> None:
    def run(sessions: str, **options: Any) -> tuple[list[int], list[int]]:
        with Harness(family / "open", tmp_path / sessions, **options) as harness:
            chat = harness.chat("talk")
            chat.sampling = replace(chat.sampling, logit_bias=((SPECIAL.index("<|im_end|>"), -100.0),))
            # Generation runs ahead of its reader: a reply this long has not ended when it is stopped.
            patient = replace(chat, sampling=replace(chat.sampling, max_tokens=3000))
            stopped = finish(until(turn.take, patient, MESSAGES[0], 9))
            return stopped.tokens, finish(regenerate.continue_reply(chat, NOT_CANCELLED)).tokens

    stopped, continued = run("with", draft_model=family / "kindred")
    assert stopped == continued[: len(stopped)] and len(stopped) < len(continued)
    _, plain = run("without")
    # How far it ran before it was stopped is chance.
    shared = min(len(plain), len(continued))
    assert plain[:shared] == continued[:shared] and shared > 24


def test_a_stop_text_cuts(family: Path, tmp_path: Path) -> None:
    def run(sessions: str, **options: Any) -> TurnRecord:
        with Harness(family / "open", tmp_path / sessions, **options) as harness:
            chat = harness.chat("talk")
            chat.sampling = replace(chat.sampling, think_budget=0)
            answer = harness.say(chat, MESSAGES[0])
            chat.sampling = replace(chat.sampling, stop=(answer.text[4:6],))
            cut = finish(regenerate.regenerate(chat, NOT_CANCELLED))
            assert len(cut.text) < len(answer.text)
            return cut

    cut, expected = run("with", draft_model=family / "kindred"), run("without")
    assert (expected.text, expected.tokens) == (cut.text, cut.tokens)
    assert "stop" == cut.finish_reason and cut.generated_tokens == len(cut.tokens)
    assert cut.draft_accepted_tokens <= cut.generated_tokens


def test_collection_keeps_the_segments_of_both_models(family: Path, tmp_path: Path) -> None:
    with Harness(family / "open", tmp_path, draft_model=family / "kindred") as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
        harness.say(harness.chat("other"), MESSAGES[1], settle=False)
        folder = harness.folder
    stores = {path.parent.parent for path in tmp_path.glob("kv/*/*/*.safetensors")}
    assert 2 == len(stores)
    assert [] == [
        segment for segment in maintenance.collectable(folder, 1 << 40) if "limit" not in segment.reason
    ]
    assert [] == list(
        maintenance.eviction.unneeded(
            tmp_path, maintenance.eviction.named_ids(maintenance.transcripts(tmp_path)), grace=0
        )
    )
    maintenance.delete(folder, "talk")
    maintenance.delete(folder, "other")
    assert [] == list(tmp_path.glob("kv/*/*/*.safetensors"))


def test_its_weights_and_its_cache_count_as_memory(family: Path, tmp_path: Path) -> None:
    loaded = [models_.load(str(family / name), needs_chat_template=False) for name in ("open", "kindred")]
    growths = [growth.predict(model.model) for model in loaded]
    assert growths[0].cache_bytes(300) * 2 == (growths[0] + growths[1]).cache_bytes(300)
    size = fingerprint.weight_bytes(loaded[0].model)
    limit = int(1.9 * size)
    with Harness(family / "open", tmp_path / "alone", memory_limit=limit) as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
    options: dict[str, Any] = {"memory_limit": limit, "draft_model": family / "kindred"}
    with Harness(family / "open", tmp_path / "both", **options) as harness, pytest.raises(MemoryFull):
        harness.say(harness.chat("talk"), MESSAGES[0])


# Refusals


def open_with_draft(model: Path, sessions: Path, draft: Path) -> None:
    """Open a model with a draft model that it refuses."""
    settings = Settings(sessions=sessions, draft_model=str(draft))
    with contextlib.closing(Worker()) as worker:
        worker.call(Runtime, worker, settings, str(model))


def test_another_vocabulary_is_refused(family: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "other", "qwen3", special=["<pad>", *SPECIAL])
    with pytest.raises(DraftModelRefused, match="has a different vocabulary from the model"):
        open_with_draft(family / "open", tmp_path, tmp_path / "other")


def test_a_missing_draft_model_is_named(family: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="--draft-model: There is no model folder 'no/where/at'"):
        open_with_draft(family / "open", tmp_path, Path("no/where/at"))


# The program


@pytest.fixture
def program(family: Path, tmp_path: Path) -> Program:
    return Program(tmp_path / "home", family / "open")


def test_the_program_reports_accepted_tokens(program: Program, family: Path) -> None:
    reply = program.ask(
        "My dog is called Biscuit.",
        "-n",
        12,
        "--draft-model",
        family / "kindred",
        "--num-draft-tokens",
        2,
    )
    # At most two of three tokens are drafted.
    assert str(family / "kindred") == reply["draft_model"] and 0 < reply["draft_accepted_tokens"] <= 8
    assert 12 == reply["generated_tokens"] == len(reply["tokens"])
    assert reply["prompt_tokens"] == reply["reused_tokens"] + reply["prefilled_tokens"]


@pytest.mark.slow
def test_alias_environment_and_config_file_set_it(program: Program, family: Path) -> None:
    program.run("config", "models.quick", family / "kindred")
    program.run("config", "draft_model", "quick")
    name = str(family / "kindred")
    assert name == program.ask("Hello", "-n", 4)["draft_model"]
    assert program.ask("Hello", "-n", 4, "--draft-model", "none")["draft_model"] is None
    env = program.environment(CHATCLI_DRAFT_MODEL=str(family / "stranger"))
    assert str(family / "stranger") == program.ask("Hello", "-n", 4, env=env)["draft_model"]
    records = program.chat(["Hello", "And?"], "-n", 4)
    assert [name, name] == [record["draft_model"] for record in records]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        at_night(("--draft-model", "no/where/at"), 1, "--draft-model: There is no model folder"),
        at_night(("--num-draft-tokens", 0), 2, "--num-draft-tokens"),
    ],
)
def test_a_refusal_is_one_sentence(
    program: Program, words: tuple[object, ...], code: int, message: str
) -> None:
    result = program.run("ask", "Hello", *words, expect=code)
    assert message in result.errors
    assert code == 2 or 1 == len(result.errors.splitlines())


@pytest.mark.slow
def test_from_python(family: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"sessions": tmp_path, "max_tokens": 8}
    name = str(family / "kindred")
    with Chat("talk", model=str(family / "open"), draft_model=name, **options) as chat:
        assert chat.send("Hello").text() == chat.text
        assert name == chat.stats["draft_model"] and chat.stats["draft_accepted_tokens"]


def test_the_panel_shows_the_share_of_drafted_tokens() -> None:
    def record(**numbers: Any) -> dict[str, Any]:
        return {"draft_model": "org/Small-4bit", **numbers}

    assert ["61 % drafted by Small-4bit"] == panel.speculation(
        [
            record(generated_tokens=60, draft_accepted_tokens=51),
            record(generated_tokens=40, draft_accepted_tokens=10),
            {"generated_tokens": 10, "draft_model": None},
            {},
            record(generated_tokens=0),
        ]
    )
    assert [] == panel.speculation([{}])
    looked_up: Any = {"guessed_tokens": 1200, "accepted_tokens": 900}
    assert ["900 of 1,200 guessed tokens were right"] == panel.speculation([looked_up, {}])
    assert SpeculationLimits(10, 8).room(4, 3) == 0


def test_a_chat_can_change_it(family: Path, tmp_path: Path) -> None:
    settings = Settings(sessions=tmp_path, sampling=Sampling(max_tokens=8), typeahead=False)
    chat = LiveChat(settings, SessionRequest("talk"), str(family / "open"))
    change = find("draft-model").handler

    def say() -> TurnRecord:
        return finish(chat.take("Hello", threading.Event()))

    try:
        assert PlainText("No draft model.") == change(chat, "")
        assert say().draft_model is None
        name = str(family / "kindred")
        assert PlainText(f"The draft model is {name}.") == change(chat, name)
        assert name == say().draft_model and chat.background.activity == ""
        with pytest.raises(DraftModelRefused, match="or use no draft model"):
            change(chat, "pocket")
        assert name == say().draft_model == chat.model.settings.draft_model
        assert PlainText("No draft model.") == change(chat, "none")
        assert say().draft_model is None
    finally:
        chat.close()
