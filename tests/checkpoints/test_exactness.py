"""Open, reopened and uncached: the same numbers, also where the live cache continues after a reply."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.events import TurnRecord
from chatcli.settings.values import DEFAULTS, ModelOptions
from chatcli.turn.prompt import TurnContext
from tests.support.families import FAMILIES, at_night
from tests.support.harness import outcome
from tests.support.scripted import PLAIN, ScriptedHarness
from tests.support.tiny import write_model
from tests.turn.test_workload import MESSAGES

TURNS = 5
# Logprobs of one reply, run one by one and in a chunk, in float32.
ROUNDING = 1e-5
THINKING = ""  # the family's own template
FOUR_BITS = ModelOptions(kv_bits=4, kv_group_size=32)
EIGHT_BITS = ModelOptions(kv_bits=8, kv_group_size=32)
# The window wraps in the first reply, or in the third turn.
SHORT, LONG = ModelOptions(max_kv_size=48), ModelOptions(max_kv_size=200)


def talk(model: Path, sessions: Path, options: ModelOptions, *, cache: bool = True) -> list[TurnRecord]:
    """The records of a conversation in one process."""
    with ScriptedHarness(model, sessions, model_options=options, cache=cache) as harness:
        chat = harness.chat("talk")
        return [_turn(harness, chat, text) for text in MESSAGES[:TURNS]]


def reopened(model: Path, sessions: Path, options: ModelOptions) -> list[TurnRecord]:
    """The same, with everything closed after every turn."""
    records = []
    for text in MESSAGES[:TURNS]:
        with ScriptedHarness(model, sessions, model_options=options) as harness:
            records.append(_turn(harness, harness.chat("talk"), text))
    return records


def _turn(harness: ScriptedHarness, chat: TurnContext, text: str) -> TurnRecord:
    record = harness.take(chat, text).record
    harness.settle(chat, record)
    return record


@pytest.mark.parametrize(
    ("family", "template", "options"),
    [
        ("qwen3", PLAIN, FOUR_BITS),
        at_night("qwen3", PLAIN, SHORT),
        at_night("qwen3", PLAIN, LONG),
        at_night("qwen3", PLAIN, EIGHT_BITS),
        at_night("qwen3_5", PLAIN, FOUR_BITS),
        at_night("qwen3_5", PLAIN, EIGHT_BITS),
        at_night("qwen3", THINKING, FOUR_BITS),
        at_night("qwen3", THINKING, SHORT),
        at_night("qwen3_5", THINKING, FOUR_BITS),
    ],
)
def test_quantized_and_limited_caches_give_the_same_bits_open_reopened_and_uncached(
    family: str, template: str, options: ModelOptions, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", family, template=template, head_dim=32)
    uncached = list(map(outcome, talk(model, tmp_path / "cold", options, cache=False)))
    live = talk(model, tmp_path / "open", options)
    assert uncached == list(map(outcome, live))
    assert uncached == list(map(outcome, reopened(model, tmp_path / "closed", options)))
    assert all(record.reused_tokens for record in live[1:])


@pytest.mark.parametrize("family", ["gpt_oss", *(at_night(name) for name in FAMILIES if name != "gpt_oss")])
def test_a_reply_that_goes_on_from_the_live_cache_differs_from_an_uncached_one_by_rounding_only(
    family: str, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", family, template=PLAIN)
    uncached = talk(model, tmp_path / "cold", DEFAULTS, cache=False)
    live = talk(model, tmp_path / "open", DEFAULTS)
    assert list(map(outcome, live)) == list(map(outcome, reopened(model, tmp_path / "closed", DEFAULTS)))
    for record, cold in zip(live, uncached, strict=True):
        assert cold.tokens == record.tokens
        assert record.logprobs == pytest.approx(cold.logprobs, rel=0, abs=ROUNDING)
