"""A draft model: the model says what it says without one, open as reopened, and both caches are kept."""

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
from chatcli.engine.generate import Request, Token
from chatcli.engine.speculative import (
    SpeculationLimits,
    Speculator,
    _DraftModel,
    _TargetModel,
    generate_with_draft,
    speculation_limits,
)
from chatcli.errors import DraftModelRefused, MemoryFull, ModelNotFound
from chatcli.events import Notice, TurnRecord
from chatcli.kv import growth, prompt_cache
from chatcli.kv.prompt_cache import PromptCache, RowLog
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

NEVER = threading.Event()
PROMPT = [30 + 7 * number % 300 for number in range(40)]
STABLE = 29
# The model itself, one that mostly says the same, and one that does not.
DRAFTS = ("open", "kindred", "stranger")
BY_DAY = [at_night("open"), "kindred", at_night("stranger")]


def write_kindred(folder: Path, of: Path, noise: float = 0.05) -> Path:
    """A model with almost the weights of another."""
    shutil.copytree(of, folder)
    path = str(folder / "model.safetensors")
    mx.random.seed(3)
    weights = tree_map(
        lambda one: one + noise * mx.std(one) * mx.random.normal(one.shape), dict(mx.load(path))
    )
    mx.eval(weights)
    mx.save_safetensors(path, weights, {"format": "mlx"})
    return folder


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of one vocabulary: `open` thinks at once, `plain` says in history what it said."""
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
    """A model and its draft model, loaded."""

    model: LoadedModel
    drafting: LoadedModel
    num_draft_tokens: int = 3

    def caches(self, stable: Sequence[int]) -> list[PromptCache]:
        made = []
        for loaded in (self.model, self.drafting):
            cache = prompt_cache.new(loaded.model, loaded.model_options)
            for _ in generate.prefill(loaded, cache, stable, RowLog()):
                pass
            made.append(cache)
        return made

    def speculated(
        self,
        caches: Sequence[PromptCache],
        tail: Sequence[int],
        sampling: Sampling,
        *,
        stop: int | None = None,
        **more: Any,
    ) -> list[Token]:
        limits = speculation_limits(self.model, self.drafting)
        own, drafted = caches
        speculator = Speculator(self.drafting, drafted, RowLog(), self.num_draft_tokens, limits)
        cancelled = threading.Event()
        tokens = generate_with_draft(
            speculator, self.model, own, Request(tail, sampling, 64, **more), cancelled, RowLog()
        )
        return list(cancelling(tokens, cancelled, stop))

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
        request = Request(tail, sampling, 64, **more)
        tokens = generate.generate(self.model, cache, request, cancelled, RowLog())
        return list(cancelling(tokens, cancelled, stop))


def cancelling(tokens: Iterator[Token], cancelled: threading.Event, stop: int | None) -> Iterator[Token]:
    for number, token in enumerate(tokens, start=1):
        if number == stop:
            cancelled.set()
        yield token


@pytest.fixture(scope="module")
def pairs(family: Path) -> dict[str, Pair]:
    loaded = {name: models_.load(str(family / name), needs_chat_template=False) for name in DRAFTS}
    return {name: Pair(loaded["open"], loaded[name]) for name in DRAFTS}


def told(tokens: Sequence[Token]) -> list[tuple[int, str, str | None]]:
    return [(token.id, token.text, token.finish_reason) for token in tokens]


def rows(cache: PromptCache) -> list[Any]:
    end = prompt_cache.offset(cache)
    return [array[..., :end, :] for leaf in cache for _, array in prompt_cache.rows_of(leaf)]


def same_rows(left: PromptCache, right: PromptCache) -> bool:
    pairs = zip(rows(left), rows(right), strict=True)
    return all(a.shape == b.shape and mx.allclose(a, b, atol=1e-4).item() for a, b in pairs)


@pytest.mark.parametrize("name", [at_night("open"), "kindred", at_night("stranger")])
def test_it_says_what_the_model_says_and_both_caches_hold_every_token(
    pairs: dict[str, Pair], name: str
) -> None:
    pair = pairs[name]
    stable, tail = PROMPT[:STABLE], PROMPT[STABLE:]
    for count in range(1, 10):
        sampling = Sampling(max_tokens=count)
        caches, (alone, _) = pair.caches(stable), pair.caches(stable)
        expected = pair.alone(alone, tail, sampling)
        tokens = pair.speculated(caches, tail, sampling)
        assert told(expected) == told(tokens) and "length" == tokens[-1].finish_reason
        ran = [*PROMPT, *(token.id for token in tokens)]
        for cache, cold in zip(caches, pair.caches(ran), strict=True):
            assert len(ran) == prompt_cache.offset(cache)
            assert same_rows(cache, cold), count


def test_a_likely_draft_is_accepted_and_an_unlikely_one_is_not(pairs: dict[str, Pair]) -> None:
    def accepted(name: str) -> int:
        pair = pairs[name]
        caches = pair.caches(PROMPT[:STABLE])
        tokens = pair.speculated(caches, PROMPT[STABLE:], Sampling(max_tokens=24))
        assert 20 == len(tokens)
        return sum(token.from_draft for token in tokens)

    # Three of four are proposed, the fourth is the model's own.
    assert 15 == accepted("open") > accepted("kindred") > accepted("stranger")


@pytest.mark.parametrize("name", BY_DAY)
def test_stopped_at_any_token_both_caches_hold_every_token(pairs: dict[str, Pair], name: str) -> None:
    pair = pairs[name]
    for stop in range(1, 7):
        caches = pair.caches(PROMPT[:STABLE])
        tokens = pair.speculated(caches, PROMPT[STABLE:], NEUTRAL, stop=stop)
        assert stop == len(tokens) and tokens[-1].finish_reason is None
        ran = [*PROMPT, *(token.id for token in tokens)]
        for cache, cold in zip(caches, pair.caches(ran), strict=True):
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
def test_what_changes_the_logits_does_as_without_a_draft_model(
    pairs: dict[str, Pair], name: str, what: str
) -> None:
    pair = pairs[name]
    stable, tail = PROMPT[:STABLE], PROMPT[STABLE:]
    sampling = replace(SAMPLED[what], max_tokens=20)
    more = {"opening": "<think>\n", "prefix": stable}
    caches, (alone, _) = pair.caches(stable), pair.caches(stable)
    expected = pair.alone(alone, tail, sampling, **more)
    assert told(expected) == told(pair.speculated(caches, tail, sampling, **more))
    ids = [token.id for token in expected]
    if sampling.think_budget is not None:
        assert SPECIAL.index("</think>") == ids[sampling.think_budget]
    # A reply that goes on from its first tokens says the same.
    said = ids[:3]
    caches = pair.caches(stable)
    rest = pair.speculated(caches, [*tail, *said], replace(sampling, max_tokens=17), reply_start=said, **more)
    assert ids[3:] == [token.id for token in rest]


def test_logprobs_are_those_of_the_model(pairs: dict[str, Pair]) -> None:
    pair = pairs["kindred"]
    sampling = Sampling(max_tokens=16, temp=1.2, seed=5, top_p=0.9, top_k=50, min_p=0.01)
    caches = pair.caches(PROMPT[:STABLE])
    tokens = pair.speculated(caches, PROMPT[STABLE:], sampling)
    ran = [*PROMPT, *(token.id for token in tokens)]
    cache = prompt_cache.new(pair.model.model)
    logits = pair.model.model(mx.array(ran[:-1])[None], cache=cache)[0, len(PROMPT) - 1 :]
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    expected = [logprobs[place, token.id].item() for place, token in enumerate(tokens)]
    assert expected == pytest.approx(generate.floats([token.logprob for token in tokens]), abs=1e-4)


def test_the_same_seed_samples_the_same(pairs: dict[str, Pair]) -> None:
    pair = pairs["kindred"]
    sampling = Sampling(max_tokens=16, temp=1.5, seed=5, xtc_probability=0.5, xtc_threshold=0.05, min_p=0.01)
    first, second = (
        pair.speculated(pair.caches(PROMPT[:STABLE]), PROMPT[STABLE:], sampling) for _ in range(2)
    )
    assert told(first) == told(second)
    other = pair.speculated(pair.caches(PROMPT[:STABLE]), PROMPT[STABLE:], replace(sampling, seed=6))
    assert told(first) != told(other)


@pytest.mark.slow
def test_samples_are_spread_as_the_model_spreads_them(pairs: dict[str, Pair]) -> None:
    """Of many seeds, the first token of a temperature has the frequencies that its logits say."""
    pair = pairs["kindred"]
    stable, tail = PROMPT[:STABLE], PROMPT[STABLE:]
    sampling = Sampling(max_tokens=1, temp=1.0, top_k=2)
    counts: dict[int, int] = {}
    caches = pair.caches(PROMPT[:-1])
    for seed in range(60):
        (token,) = pair.speculated(caches, PROMPT[-1:], replace(sampling, seed=seed))
        counts[token.id] = counts.get(token.id, 0) + 1
        for cache in caches:
            trim_prompt_cache(cache, 2)
    cache = prompt_cache.new(pair.model.model)
    logits = pair.model.model(mx.array([*stable, *tail])[None], cache=cache)[0, -1]
    best = mx.argsort(-logits)[:2]
    shares = mx.softmax(logits[best]).tolist()
    assert set(counts) <= set(best.tolist())
    found = [counts.get(token, 0) / 60 for token in best.tolist()]
    assert shares == pytest.approx(found, abs=0.25)


@pytest.mark.parametrize("place", [at_night(0), 1, at_night(4), 7])
def test_an_end_token_ends_the_reply_wherever_it_is_from(family: Path, tmp_path: Path, place: int) -> None:
    shutil.copytree(family / "open", tmp_path / "model")
    loaded = models_.load(str(family / "open"))
    pair = Pair(loaded, loaded)
    caches = pair.caches(PROMPT[:STABLE])
    ids = [token.id for token in pair.speculated(caches, PROMPT[STABLE:], Sampling(max_tokens=9))]
    last = ids[place]
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "eos_token_id": last}))
    ending = models_.load(str(tmp_path / "model"))
    pair = Pair(ending, loaded)
    caches, (alone, _) = pair.caches(PROMPT[:STABLE]), pair.caches(PROMPT[:STABLE])
    expected = pair.alone(alone, PROMPT[STABLE:], NEUTRAL)
    tokens = pair.speculated(caches, PROMPT[STABLE:], NEUTRAL)
    assert told(expected) == told(tokens) and "stop" == tokens[-1].finish_reason
    assert all(len(PROMPT) + len(tokens) == prompt_cache.offset(cache) for cache in caches)


@pytest.mark.parametrize("own", [5, 6, 8])
def test_a_draft_model_may_have_more_logits_or_fewer(own: int) -> None:
    """Vocabularies are padded, and a larger model's more."""

    def draft_model(tokens: Any, cache: Any) -> Any:
        return mx.ones((1, tokens.shape[1], own))

    proposing = _DraftModel(draft_model, _TargetModel(None), 6)
    logits = proposing(mx.zeros((1, 2), mx.int32), [])
    assert (1, 2, 6) == logits.shape
    assert [1.0] * 5 == logits[0, 1, :5].tolist()
    assert (1.0 if own > 5 else float("-inf")) == logits[0, 1, 5].item()


# Windows


WINDOWED = {
    "windows": ("windows", "kindred-windows", ModelOptions(), 63),
    "a cache of limited size": ("open", "kindred", ModelOptions(max_kv_size=49), 48),
}


@pytest.mark.parametrize("what", ["windows", at_night("a cache of limited size")])
def test_a_full_window_ends_the_speculation_and_not_the_reply(
    family: Path, tmp_path: Path, what: str
) -> None:
    name, drafting, model_options, most = WINDOWED[what]
    options: dict[str, Any] = {"model_options": model_options, "tokens": 30}
    plain = open_all_along(family / name, tmp_path / "plain", **options)
    options["draft_model"] = family / drafting
    notices = []
    with Harness(family / name, tmp_path / "open", **options) as harness:
        chat = harness.chat("talk")
        whole = []
        for message in MESSAGES:
            events = list(turn.take(chat, message, NEVER))
            notices.append([event.text for event in events if isinstance(event, Notice)])
            whole.append(finish(iter(events)))
            for _ in turn.settle(chat, NEVER):
                pass
    assert [one.tokens for one in plain] == [one.tokens for one in whole]
    (notice,) = [text for texts in notices for text in texts]
    assert "sliding window is full" in notice
    # What is proposed has to fit beside the next token.
    room = most - whole[0].prompt_tokens - 4
    assert notices[0] and 0 < whole[0].draft_accepted_tokens < room < whole[0].generated_tokens
    assert all(one.draft_accepted_tokens == 0 for one in whole[1:])
    closed = reopened(family / name, tmp_path / "closed", **options)
    assert list(map(outcome, whole)) == list(map(outcome, closed))


def test_a_reply_that_went_on_alone_leaves_a_draft_cache_that_is_given_up(family: Path) -> None:
    """It does not hold what came then, so nothing may go on from it."""
    windows = models_.load(str(family / "windows"))
    pair = Pair(windows, windows)
    limits = speculation_limits(windows, windows)
    for count, whole in ((4, True), (40, False)):
        own, drafted = pair.caches(PROMPT[:STABLE])
        speculator = Speculator(windows, drafted, RowLog(), 3, limits)
        tokens = generate_with_draft(
            speculator,
            windows,
            own,
            Request(PROMPT[STABLE:], Sampling(max_tokens=count), 64),
            NEVER,
            RowLog(),
        )
        assert count == len(list(tokens)) and whole == speculator.log.complete


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
def test_reopened_it_says_the_same_to_the_bit(
    family: Path, tmp_path: Path, name: str, model_options: ModelOptions
) -> None:
    options: dict[str, Any] = {"draft_model": family / "kindred", "model_options": model_options}
    whole = open_all_along(family / name, tmp_path / "open", **options)
    closed = reopened(family / name, tmp_path / "closed", **options)
    assert list(map(outcome, whole)) == list(map(outcome, closed))
    accepted = [one.draft_accepted_tokens for one in whole]
    assert accepted == [one.draft_accepted_tokens for one in closed] and all(accepted)
    plain = open_all_along(family / name, tmp_path / "plain", model_options=model_options)
    assert [one.tokens for one in plain] == [one.tokens for one in whole]
    counts = [(one.prompt_tokens, one.reused_tokens, one.settled_tokens) for one in plain]
    assert counts == [(one.prompt_tokens, one.reused_tokens, one.settled_tokens) for one in closed]


@pytest.mark.slow
def test_a_quantized_cache_reopened_says_the_same_to_the_bit(tmp_path: Path) -> None:
    write_model(tmp_path / "wide", "qwen3", head_dim=32)
    write_kindred(tmp_path / "kindred", tmp_path / "wide")
    options: dict[str, Any] = {
        "draft_model": tmp_path / "kindred",
        "model_options": ModelOptions(kv_bits=8, kv_group_size=32),
    }
    whole = open_all_along(tmp_path / "wide", tmp_path / "open", **options)
    closed = reopened(tmp_path / "wide", tmp_path / "closed", **options)
    assert list(map(outcome, whole)) == list(map(outcome, closed))
    assert all(one.draft_accepted_tokens for one in whole)


def test_with_and_without_it_the_model_has_the_same_checkpoints(family: Path, tmp_path: Path) -> None:
    """On and off and on again: nothing of the model's is prefilled twice."""
    steady, records = [], []
    for message in MESSAGES[:3]:
        with Harness(family / "open", tmp_path / "steady") as harness:
            steady.append(harness.say(harness.chat("talk"), message))
    for number, message in enumerate(MESSAGES[:3]):
        drafting = family / "kindred" if number % 2 else None
        with Harness(family / "open", tmp_path / "switched", draft_model=drafting) as harness:
            records.append(harness.say(harness.chat("talk"), message))
            fingerprint = harness.runtime.loaded.fingerprint
    assert [one.reused_tokens for one in steady] == [one.reused_tokens for one in records]
    assert [one.tokens for one in steady] == [one.tokens for one in records]
    assert [None, str(family / "kindred")] == [one.draft_model for one in records[:2]]

    def names(folder: str) -> set[str]:
        return {path.name for path in (tmp_path / folder / "kv" / fingerprint).rglob("*.safe*")}

    assert names("steady") == names("switched") and names("steady")


class Noted:
    """A harness whose draft model notes every token that it is run on."""

    def __init__(self, family: Path, sessions: Path, name: str = "open") -> None:
        self.harness = Harness(family / name, sessions)
        worker, runtime = self.harness.worker, self.harness.runtime
        drafting = worker.call(models_.load, str(family / "kindred"), needs_chat_template=False)
        vocabulary = len(drafting.tokenizer.get_vocab())
        self.model = worker.call(RecordingModel, drafting.model, vocabulary, [1])
        limits = worker.call(speculation_limits, runtime.loaded, drafting)
        self.store = SegmentStore(sessions, drafting.fingerprint)
        drafting = replace(drafting, model=self.model)
        kept = Checkpoints(worker, drafting, self.store)
        self.speculation = Speculation(runtime.loaded, kept, 3, limits)

    def __enter__(self) -> Noted:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self.harness.__exit__()

    def chat(self, name: str = "talk") -> turn.TurnContext:
        return replace(self.harness.chat(name), speculation=self.speculation)

    def ran(self) -> list[int]:
        return list(self.harness.worker.call(self.model.take_run_ids))


def test_its_own_tokens_are_run_once_too(family: Path, tmp_path: Path) -> None:
    """Settled, reopened, regenerated: only what is new is prefilled."""
    with Noted(family, tmp_path) as noted:
        chat = noted.chat()
        first = noted.harness.say(chat, MESSAGES[0], settle=False)
        ran = noted.ran()
        prompt = render(chat, chat.conversation.turns()[-1].user)
        assert prompt.tokens == ran[: len(prompt.tokens)]
        for _ in turn.settle(chat, NEVER):
            pass
        path = render_history(chat, chat.conversation.path()[-1]).path
        assert path.tokens[prompt.path.end : path.end] == noted.ran()
        assert first.draft_accepted_tokens is not None
    with Noted(family, tmp_path) as noted:
        chat = noted.chat()
        noted.harness.say(chat, MESSAGES[1], settle=False)
        prompt = render(chat, chat.conversation.turns()[-1].user)
        new = prompt.tokens[path.end :]
        assert new == noted.ran()[: len(new)]
        list(regenerate.regenerate(chat, NEVER))
        assert prompt.tail == noted.ran()[: len(prompt.tail)]


def test_it_drafts_a_message_that_is_typed_too(family: Path, tmp_path: Path) -> None:
    with Noted(family, tmp_path) as noted:
        chat = noted.chat()
        for _ in typeahead.typeahead(chat, MESSAGES[1], NEVER):
            pass
        drafted = noted.ran()
        record = noted.harness.say(chat, MESSAGES[1], settle=False)
        prompt = render(chat, chat.conversation.turns()[-1].user)
        assert prompt.stable == drafted and record.drafted_tokens
        assert prompt.tail == noted.ran()[: len(prompt.tail)]
    # What was drafted is on disk, now that it is sent.
    with Noted(family, tmp_path) as noted:
        list(regenerate.regenerate(noted.chat(), NEVER))
        assert prompt.tail == noted.ran()[: len(prompt.tail)]


class Told(ScriptedHarness):
    """A model and a draft model that are both told what to say, which history keeps as it is."""

    def __init__(self, family: Path, sessions: Path) -> None:
        super().__init__(family / "plain", sessions)
        drafting = self.worker.call(models_.load, str(family / "kindred"), needs_chat_template=False)
        vocabulary = len(drafting.tokenizer.get_vocab())
        self.drafting = self.worker.call(RecordingModel, drafting.model, vocabulary, self.script.ids)
        self.drafts = SegmentStore(sessions, drafting.fingerprint)
        kept = Checkpoints(self.worker, replace(drafting, model=self.drafting), self.drafts)
        limits = self.worker.call(speculation_limits, self.loaded, drafting)
        self.worker.call(self.model.take_run_ids)
        self.speculation = Speculation(self.loaded, kept, 3, limits)

    def __exit__(self, *_: object) -> None:
        self.drafts.close()
        super().__exit__()

    def say(self, text: str) -> tuple[TurnRecord, list[int]]:
        """A turn that is settled, and the tokens that the draft model was run on for that."""
        chat = replace(self.chat("talk"), speculation=self.speculation)
        record = self.take(chat, text).record
        self.worker.call(self.drafting.take_run_ids)
        settled = self.settle(chat, record)
        drafted = self.worker.call(self.drafting.take_run_ids)
        assert settled == drafted
        self._opened.pop().close()
        return record, drafted


@pytest.mark.slow
def test_where_history_keeps_what_was_said_both_go_on_from_there(family: Path, tmp_path: Path) -> None:
    """Nothing that was generated is run again, and reopened it is the same to the bit."""
    whole = []
    with Told(family, tmp_path / "open") as harness:
        for message in MESSAGES[:3]:
            record, settled = harness.say(message)
            assert 0 < len(settled) < 8 and record.draft_accepted_tokens > 40
            whole.append(record)
    for expected, message in zip(whole, MESSAGES, strict=False):
        with Told(family, tmp_path / "closed") as harness:
            record, _ = harness.say(message)
        assert outcome(expected) == outcome(record)
        assert expected.reused_tokens == record.reused_tokens


def test_without_its_checkpoints_it_prefills_alone(family: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"draft_model": family / "kindred"}
    with Harness(family / "open", tmp_path / "whole", **options) as harness:
        chat = harness.chat("talk")
        whole = [harness.say(chat, message) for message in MESSAGES[:3]]
    with Harness(family / "open", tmp_path / "saved", **options) as harness:
        chat = harness.chat("talk")
        for message in MESSAGES[:2]:
            harness.say(chat, message)
        own = harness.runtime.loaded.fingerprint
    for folder in (tmp_path / "saved" / "kv").iterdir():
        if folder.name != own:
            shutil.rmtree(folder)
    with Harness(family / "open", tmp_path / "saved", **options) as harness:
        last = harness.say(harness.chat("talk"), MESSAGES[2])
    assert outcome(whole[-1]) == outcome(last)
    assert whole[-1].reused_tokens == last.reused_tokens and last.miss_reason is None


def test_a_stopped_reply_goes_on_and_a_stop_text_cuts(family: Path, tmp_path: Path) -> None:
    def talk(sessions: str, **options: Any) -> tuple[list[int], list[int], TurnRecord]:
        with Harness(family / "open", tmp_path / sessions, **options) as harness:
            chat = harness.chat("talk")
            begun = finish(until(turn.take, chat, MESSAGES[0], 9))
            whole = finish(regenerate.go_on(chat, NEVER))
            for _ in turn.settle(chat, NEVER):
                pass
            chat.sampling = replace(chat.sampling, think_budget=0)
            answer = finish(turn.take(chat, MESSAGES[1], NEVER))
            chat.sampling = replace(chat.sampling, stop=(answer.text[4:6],))
            return begun.tokens, whole.tokens, finish(turn.take(chat, MESSAGES[1], NEVER))

    begun, whole, cut = talk("with", draft_model=family / "kindred")
    assert begun == whole[: len(begun)] and len(begun) < len(whole)
    _, plain, expected = talk("without")
    assert plain == whole
    assert (expected.text, expected.tokens) == (cut.text, cut.tokens)
    assert "stop" == cut.finish_reason and cut.generated_tokens == len(cut.tokens)
    assert cut.draft_accepted_tokens <= cut.generated_tokens


def test_collecting_keeps_what_a_session_needs_of_both(family: Path, tmp_path: Path) -> None:
    with Harness(family / "open", tmp_path, draft_model=family / "kindred") as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
        harness.say(harness.chat("other"), MESSAGES[1], settle=False)
        folder = harness.folder
    kept = {path.parent.parent for path in tmp_path.glob("kv/*/*/*.safetensors")}
    assert 2 == len(kept)
    assert [] == [one for one in maintenance.collectable(folder, 1 << 40) if "limit" not in one.reason]
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
    both = [growth.predict(one.model) for one in loaded]
    assert both[0].cache_bytes(300) * 2 == (both[0] + both[1]).cache_bytes(300)
    size = models_.weight_bytes(loaded[0].model)
    limit = int(1.9 * size)
    with Harness(family / "open", tmp_path / "alone", memory_limit=limit) as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
    options: dict[str, Any] = {"memory_limit": limit, "draft_model": family / "kindred"}
    with Harness(family / "open", tmp_path / "both", **options) as harness, pytest.raises(MemoryFull):
        harness.say(harness.chat("talk"), MESSAGES[0])


# What cannot be


def refused(model: Path, sessions: Path, drafting: Path) -> None:
    """Try to open a model with a draft model."""
    settings = Settings(sessions=sessions, draft_model=str(drafting))
    with contextlib.closing(Worker()) as worker:
        worker.call(Runtime, worker, settings, str(model))


def test_caches_that_cannot_be_trimmed_are_refused(family: Path, models: Path, tmp_path: Path) -> None:
    for own, drafting, named in (
        (models / "qwen3_5", family / "open", models / "qwen3_5"),
        (family / "open", models / "qwen3_5", models / "qwen3_5"),
    ):
        said = rf"the model '{named}' cannot \(ArraysCache keeps no row .*or leave out --draft-model"
        with pytest.raises(DraftModelRefused, match=said):
            refused(own, tmp_path, drafting)


def test_another_vocabulary_is_refused(family: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "other", "qwen3", special=["<pad>", *SPECIAL])
    with pytest.raises(DraftModelRefused, match="has another vocabulary than the model"):
        refused(family / "open", tmp_path, tmp_path / "other")


def test_one_that_is_not_there_is_named(family: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="--draft-model: There is no model folder 'no/where/at'"):
        refused(family / "open", tmp_path, Path("no/where/at"))


# The program


@pytest.fixture
def program(family: Path, tmp_path: Path) -> Program:
    return Program(tmp_path / "home", family / "open")


def test_the_program_tells_what_was_accepted(program: Program, family: Path) -> None:
    told = program.ask(
        "My dog is called Biscuit.",
        "-n",
        12,
        "--draft-model",
        family / "kindred",
        "--num-draft-tokens",
        2,
    )
    # Two of three are proposed.
    assert str(family / "kindred") == told["draft_model"] and 0 < told["draft_accepted_tokens"] <= 8
    assert 12 == told["generated_tokens"] == len(told["tokens"])
    assert told["prompt_tokens"] == told["reused_tokens"] + told["prefilled_tokens"]


@pytest.mark.slow
def test_it_is_set_by_an_alias_the_environment_and_the_file(program: Program, family: Path) -> None:
    program.run("config", "models.quick", family / "kindred")
    program.run("config", "draft_model", "quick")
    name = str(family / "kindred")
    assert name == program.ask("Hello", "-n", 4)["draft_model"]
    assert program.ask("Hello", "-n", 4, "--draft-model", "none")["draft_model"] is None
    env = program.environment(CHATCLI_DRAFT_MODEL=str(family / "stranger"))
    assert str(family / "stranger") == program.ask("Hello", "-n", 4, env=env)["draft_model"]
    records = program.chat(["Hello", "And?"], "-n", 4)
    assert [name, name] == [one["draft_model"] for one in records]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        at_night(("--draft-model", "pocket", "-m", "pocket"), 1, "keeps no row for each token"),
        at_night(("--draft-model", "no/where/at"), 1, "--draft-model: There is no model folder"),
        at_night(("--num-draft-tokens", 0), 2, "--num-draft-tokens"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    program: Program, words: tuple[object, ...], code: int, says: str
) -> None:
    done = program.run("ask", "Hello", *words, expect=code)
    assert says in done.errors
    assert code == 2 or 1 == len(done.errors.splitlines())


@pytest.mark.slow
def test_from_python(family: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"sessions": tmp_path, "max_tokens": 8}
    name = str(family / "kindred")
    with Chat("talk", model=str(family / "open"), draft_model=name, **options) as chat:
        assert chat.send("Hello").text() == chat.text
        assert name == chat.stats["draft_model"] and chat.stats["draft_accepted_tokens"]


def test_the_panel_and_stats_say_whose_tokens_they_are() -> None:
    def record(**numbers: Any) -> dict[str, Any]:
        return {"draft_model": "org/Small-4bit", **numbers}

    assert ["speculation: 61% of tokens from Small-4bit"] == panel.speculation(
        [
            record(generated_tokens=60, draft_accepted_tokens=51),
            record(generated_tokens=40, draft_accepted_tokens=10),
            {"generated_tokens": 10, "draft_model": None},
            {},
            record(generated_tokens=0),
        ]
    )
    assert [] == panel.speculation([{}])
    assert SpeculationLimits(10, 8).room(4, 3) == 0


def test_a_chat_can_change_it(family: Path, tmp_path: Path) -> None:
    settings = Settings(sessions=tmp_path, sampling=Sampling(max_tokens=8), draft=False)
    chat = LiveChat(settings, SessionRequest("talk"), str(family / "open"))
    change = find("draft-model").handler

    def say() -> TurnRecord:
        return finish(chat.take("Hello", threading.Event()))

    try:
        assert PlainText("There is no draft model.") == change(chat, "")
        assert say().draft_model is None
        name = str(family / "kindred")
        assert PlainText(f"The draft model is {name}.") == change(chat, name)
        assert name == say().draft_model and chat.background.activity == ""
        with pytest.raises(DraftModelRefused, match="/draft-model none"):
            change(chat, "pocket")
        assert name == say().draft_model == chat.model.settings.draft_model
        assert PlainText("There is no draft model.") == change(chat, "none")
        assert say().draft_model is None
    finally:
        chat.close()
