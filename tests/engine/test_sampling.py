"""Sampling: mlx-lm's own samplers and penalties, independent of what was cached."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import stream_generate
from mlx_lm.sample_utils import make_logits_processors

import chatcli.commands.handlers  # noqa: F401  (registers what a line may run)
from chatcli.commands import registry
from chatcli.commands.results import PlainText
from chatcli.engine.sampling import logits_processors_for, sampler_for
from chatcli.errors import TokenUnknown, UsageError
from chatcli.model.load import default_sampling, load
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling, Settings
from chatcli.turn.prompt import render
from tests.support.families import all_but_one_at_night, in_turn_by_day
from tests.support.harness import MESSAGES, Harness, open_all_along, outcome, reopened
from tests.support.program import Program

PENALTIES = {
    "repetition": Sampling(repetition_penalty=1.6, repetition_context_size=90),
    "presence": Sampling(presence_penalty=4.0, repetition_context_size=90),
    "frequency": Sampling(frequency_penalty=3.0, repetition_context_size=90),
}
EVERYTHING = Sampling(
    lookup=True,
    temp=0.9,
    top_p=0.95,
    top_k=50,
    min_p=0.02,
    seed=5,
    repetition_penalty=1.2,
    min_tokens_to_keep=3,
    xtc_probability=0.5,
    xtc_threshold=0.05,
    presence_penalty=0.5,
    frequency_penalty=0.3,
    repetition_context_size=64,
    logit_bias=((70, 2.0), (71, -100.0)),
    stop=("zz", "qq"),
    think_budget=6,
)
# Every token that a model of the tests has, each less likely than the one before.
LOGPROBS = mx.log(mx.array([[0.4, 0.3, 0.2, 0.06, 0.04]]))


class StubTokenizer:
    """A tokenizer with what a sampler uses."""

    eos_token_ids = (2,)

    def encode(self, text: str, **_: object) -> list[int]:
        return [3]


def chosen(sampling: Sampling, logprobs: mx.array = LOGPROBS, count: int = 60) -> set[int]:
    mx.random.seed(1)
    sample = sampler_for(StubTokenizer(), replace(sampling, temp=sampling.temp or 1.0))
    return {sample(logprobs).item() for _ in range(count)}


# Samplers


def test_more_likely_tokens_than_there_are_is_all_of_them() -> None:
    assert {0, 1} == chosen(Sampling(top_k=2))
    assert chosen(Sampling(top_k=5)) == chosen(Sampling(top_k=1 << 40)) == chosen(Sampling())
    assert chosen(Sampling(min_p=0.9, min_tokens_to_keep=9)) == chosen(Sampling())


def test_min_p_leaves_as_many_tokens_as_are_to_be_kept() -> None:
    assert {0} == chosen(Sampling(min_p=0.9))
    assert {0, 1, 2} == chosen(Sampling(min_p=0.9, min_tokens_to_keep=3))


def test_xtc_leaves_out_the_likeliest_but_never_the_end_of_a_reply() -> None:
    """Of 0, 1, 2, which are likely, only the last stays; 2 ends a reply and 3 breaks a line."""
    assert {2, 3, 4} == chosen(Sampling(xtc_probability=1.0))
    assert {1, 2, 3, 4} == chosen(Sampling(xtc_probability=1.0, xtc_threshold=0.25))
    swapped = LOGPROBS[:, mx.array([2, 1, 0, 3, 4])]
    assert {0, 2, 3, 4} == chosen(Sampling(xtc_probability=1.0), swapped)
    assert chosen(Sampling()) == chosen(Sampling(xtc_probability=0.0))


def test_a_sampler_without_a_temperature_takes_the_likeliest() -> None:
    sample = sampler_for(StubTokenizer(), Sampling(top_k=9, xtc_probability=1.0))
    assert 0 == sample(LOGPROBS).item()


def test_nothing_touches_the_logits_where_nothing_is_asked_for() -> None:
    assert [] == logits_processors_for(Sampling(), [1, 2])
    neutral = Sampling(repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0)
    assert [] == logits_processors_for(neutral, [1, 2])


# Penalties look back over the whole prompt


def by_mlx_lm(harness: Harness, prompt: list[int], sampling: Sampling, count: int) -> list[int]:
    """What mlx-lm itself generates after a whole prompt, greedily."""
    size = sampling.repetition_context_size

    def run() -> list[int]:
        loaded = harness.runtime.loaded
        processors = make_logits_processors(
            None,
            sampling.repetition_penalty,
            size,
            sampling.presence_penalty,
            size,
            sampling.frequency_penalty,
            size,
        )
        responses = stream_generate(
            loaded.model, loaded.tokenizer, prompt, count, logits_processors=processors
        )
        return [response.token for response in responses]

    return harness.worker.call(run)


@pytest.mark.parametrize(("family", "name"), in_turn_by_day(PENALTIES))
def test_a_penalty_is_the_same_whatever_was_cached_and_as_mlx_lm_has_it(
    models: Path, tmp_path: Path, family: str, name: str
) -> None:
    model, sampling = models / family, PENALTIES[name]
    whole = open_all_along(model, tmp_path / "open", sampling=sampling)
    closed = reopened(model, tmp_path / "closed", sampling=sampling)
    assert list(map(outcome, whole)) == list(map(outcome, closed))
    with Harness(model, tmp_path / "cold", sampling=sampling, cache=False) as harness:
        chat = harness.chat("talk")
        cold = [harness.say(chat, message, settle=False).tokens for message in MESSAGES]
        assert [record.tokens for record in whole] == cold
        user = chat.conversation.turns()[1].user
        prompt = render(chat, user).tokens
        assert by_mlx_lm(harness, prompt, sampling, 24) == cold[1]
        near = replace(sampling, repetition_context_size=2)
        assert by_mlx_lm(harness, prompt, near, 24) != cold[1]


@pytest.mark.slow
@pytest.mark.parametrize("family", all_but_one_at_night("qwen3_5"))
def test_all_ways_at_once_reopened_say_the_same(models: Path, tmp_path: Path, family: str) -> None:
    model = models / family
    assert all(
        getattr(EVERYTHING, field.name) is not None
        for field in fields(Sampling)
        if field.name != "max_tokens"
    )
    whole = open_all_along(model, tmp_path / "open", sampling=EVERYTHING)
    closed = reopened(model, tmp_path / "closed", sampling=EVERYTHING)
    assert list(map(outcome, whole)) == list(map(outcome, closed))
    plain = open_all_along(model, tmp_path / "plain")
    assert [record.tokens for record in plain] != [record.tokens for record in whole]


# Biases


def test_a_bias_forces_a_token_and_forbids_another(models: Path, tmp_path: Path) -> None:
    def tokens(*bias: tuple[int, float]) -> list[int]:
        with Harness(
            models / "qwen3", tmp_path / str(bias), cache=False, tokens=6, sampling=Sampling(logit_bias=bias)
        ) as harness:
            return harness.say(harness.chat("talk"), "Tell me.", settle=False).tokens

    plain = tokens()
    assert [90] * 6 == tokens((90, 1000.0))
    assert plain[0] not in tokens((plain[0], -1000.0))


def test_a_bias_of_a_token_that_is_not_there_is_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(TokenUnknown, match=r"no token 5000: --logit-bias takes the ids 0 to \d+"):
        Harness(models / "qwen3", tmp_path, sampling=Sampling(logit_bias=((5000, 1.0),)))


# What the makers say


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"presence_penalty": 1.5}, Sampling(presence_penalty=1.5)),
        ({"frequency_penalty": -1}, Sampling(frequency_penalty=-1.0)),
        ({"presence_penalty": "much", "frequency_penalty": float("nan")}, Sampling()),
        ({"stop_strings": "END"}, Sampling(stop=("END",))),
        ({"stop_strings": ["END", "", 5, "\n\n"]}, Sampling(stop=("END", "\n\n"))),
        ({"stop_strings": [], "presence_penalty": True}, Sampling()),
    ],
)
def test_the_makers_penalties_and_stop_texts_are_taken(config: dict[str, Any], expected: Sampling) -> None:
    assert expected == default_sampling(config)


@pytest.mark.parametrize(("longest", "expected"), [(7, 7), ("7", None), (0, None), (True, None)])
def test_a_longest_reply_of_the_makers_is_heard_if_it_makes_sense(
    models: Path, tmp_path: Path, longest: object, expected: int | None
) -> None:
    folder = Path(shutil.copytree(models / "qwen3", tmp_path / "model"))
    (folder / "generation_config.json").write_text(json.dumps({"max_new_tokens": longest}))
    assert expected == load(str(folder)).sampling.max_tokens


def test_a_reply_without_a_limit_goes_on_until_the_context_is_full(models: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(models / "speaker", tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 200}))
    with Harness(folder, tmp_path / "saved", cache=False) as harness:
        chat = harness.chat("talk")
        chat.sampling = Sampling()
        record = harness.say(chat, "Tell me.", settle=False)
        context = harness.runtime.loaded.context
    assert ("length", 200) == (record.finish_reason, context)
    assert context == record.prompt_tokens + len(record.tokens)


# In the shell and on the command line


@pytest.fixture
def shell(models: Path, tmp_path: Path) -> Any:
    folder = Path(shutil.copytree(models / "qwen3", tmp_path / "model"))
    own = {"do_sample": True, "temperature": 1.3, "presence_penalty": 0.5}
    (folder / "generation_config.json").write_text(json.dumps(own))
    chat = LiveChat(Settings(sessions=tmp_path / "saved"), SessionRequest(), str(folder))
    chat.model.wait()
    yield chat
    chat.close()


def say(chat: LiveChat, line: str) -> str:
    result = registry.run(chat, line)
    assert isinstance(result, PlainText)
    return result.text


def test_off_goes_back_to_the_models_own(shell: LiveChat) -> None:
    assert "temp is 0.2." == say(shell, "/set temp 0.2")
    assert "temp is 1.3." == say(shell, "/set temp off")
    assert "presence_penalty is -2.0." == say(shell, "/set presence_penalty=-2")
    assert "presence_penalty is 0.5." == say(shell, "/set presence_penalty off")
    assert "top_k is 2000." == say(shell, "/set top_k 2000")
    assert "top_k is off." == say(shell, "/set top_k off")
    assert "repetition_context_size is 20, as in mlx-lm." == say(shell, "/set repetition_context_size off")


def test_a_stop_text_is_set_and_unset(shell: LiveChat) -> None:
    assert "stop is 'a = b'." == say(shell, "/set stop a = b")
    assert ("a = b",) == shell.model.sampling.stop
    assert "stop is off." == say(shell, "/set stop off")
    assert "xtc_threshold" in say(shell, "/set")


@pytest.mark.parametrize(
    "line",
    [
        "/set xtc_threshold 0.6",
        "/set min_tokens_to_keep 0",
        "/set presence_penalty inf",
        "/set logit_bias 1:2",
    ],
)
def test_what_makes_no_sense_is_refused(shell: LiveChat, line: str) -> None:
    with pytest.raises(UsageError):
        say(shell, line)


@pytest.mark.slow
def test_biases_of_the_command_line_add_up(chatcli: Program) -> None:
    few = ["-n", 3, "--no-cache"]
    reply = chatcli.ask("Tell me.", *few, "--logit-bias", "90:1000", "--logit-bias", "91:-5")
    assert [90] * 3 == reply["tokens"]
    refused = chatcli.run("ask", "Hello", "--logit-bias", "much:5", expect=2)
    assert "--logit-bias must be TOKEN_ID:BIAS" in refused.errors
    unknown = chatcli.run("ask", "Hello", "--logit-bias", "99999:5", expect=1)
    assert "no token 99999" in unknown.errors


@pytest.mark.slow
def test_what_is_remembered_holds_and_a_flag_wins(chatcli: Program) -> None:
    chatcli.run("config", "logit_bias", "90:1000,91:-5")
    few = ["Tell me.", "-n", 3, "--no-cache"]
    assert [90] * 3 == chatcli.ask(*few)["tokens"]
    assert [92] * 3 == chatcli.ask(*few, "--logit-bias", "92:1000")["tokens"]
