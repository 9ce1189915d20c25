"""A long conversation of short messages: each turn prefills only the tokens after the settled prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pytest

from chatcli.bench.scripted import Script
from chatcli.events import TurnRecord
from chatcli.turn import turn
from tests.support.families import FAMILIES
from tests.support.harness import outcome
from tests.support.scripted import PLAIN, ScriptedHarness
from tests.support.tiny import write_model

TURNS = 40
TURNS_BY_DAY = 15
TURNS_REOPENED = 6
TURNS_BY_FAMILY = 3
CONTEXT = 16384
# Five to nine tokens each.
MESSAGES = (
    "My dog is called Biscuit.",
    "You live in Lisbon, my fox.",
    "What is my dog's name?",
    "What were you told, dog?",
    "Is the brown fox over 7?",
    "Answer what you remember.",
    "You are quick and helpful.",
    "What is 7 and 5?",
)
# Beginnings of a next message: letters, digits, spaces, line breaks, punctuation, other scripts.
NEXT = ("Yes", "x", "7", " 1", "  a", "\n\nno", "'s", "é", "犬")


@dataclass(frozen=True)
class Turn:
    """A turn's record, the tokens that were run, the prompt, and the fewest prompt tokens to prefill."""

    record: TurnRecord
    run: list[int]
    prompt: list[int]
    min_prefill: int
    script: Script


def common_prefix(left: Sequence[int], right: Sequence[int]) -> Sequence[int]:
    """The tokens that two prompts have in common at their start."""
    pairs = zip(left, right, strict=False)
    end = next((at for at, (left_token, right_token) in enumerate(pairs) if left_token != right_token), None)
    return left[: min(len(left), len(right)) if end is None else end]


def tokens_after_shared(harness: ScriptedHarness, texts: list[str], prompt: list[int]) -> int:
    """The number of prompt tokens after those that it shares with every other next message."""
    if len(texts) == 1:
        return len(prompt)
    others = [harness.prompt([*texts[:-1], other]) for other in NEXT]
    return len(prompt) - len(reduce(common_prefix, others, prompt))


def say(harness: ScriptedHarness, chat: turn.TurnContext, texts: list[str]) -> Turn:
    """The turn that ends `texts`, settled."""
    record, run = harness.take(chat, texts[-1])
    harness.settle(chat, record)
    prompt = harness.prompt(texts)
    return Turn(record, run, prompt, tokens_after_shared(harness, texts, prompt), harness.script)


def messages_by_turn(turns: int) -> list[list[str]]:
    """The user's messages up to each turn."""
    texts = [MESSAGES[number % len(MESSAGES)] for number in range(turns)]
    return [texts[: number + 1] for number in range(turns)]


def open_all_along(model: Path, sessions: Path, turns: int, think: bool | None = None) -> list[Turn]:
    """The conversation in one process."""
    with ScriptedHarness(model, sessions, think=think) as harness:
        chat = harness.chat("talk")
        return [say(harness, chat, texts) for texts in messages_by_turn(turns)]


def reopened(model: Path, sessions: Path, turns: int, think: bool | None = None) -> list[Turn]:
    """The conversation with everything closed after every turn."""
    turns_taken = []
    for texts in messages_by_turn(turns):
        with ScriptedHarness(model, sessions, think=think) as harness:
            turns_taken.append(say(harness, harness.chat("talk"), texts))
    return turns_taken


def assert_minimal_prefill(turns: list[Turn]) -> None:
    """Each turn ran what the template writes after the settled prefix, and the reply."""
    for turn_ in turns:
        assert turn_.min_prefill == turn_.record.prefilled_tokens
        assert turn_.prompt[-turn_.min_prefill :] + turn_.script.ids == turn_.run
        assert len(turn_.prompt) == turn_.record.prompt_tokens
        assert turn_.script.reply == turn_.record.text


def assert_same(left: list[Turn], right: list[Turn]) -> None:
    for left_turn, right_turn in zip(left, right, strict=True):
        assert outcome(left_turn.record) == outcome(right_turn.record)
        assert counts(left_turn.record) == counts(right_turn.record)


def counts(record: TurnRecord) -> tuple[int, ...]:
    ahead = record.settled_tokens, record.typeahead_tokens
    return record.prompt_tokens, record.reused_tokens, record.prefilled_tokens, *ahead


def ratio(turns: list[Turn]) -> float:
    records = [turn.record for turn in turns]
    return sum(record.reused_tokens for record in records) / sum(record.prompt_tokens for record in records)


@dataclass(frozen=True)
class LongConversation:
    """A conversation in one process, and its model."""

    model: Path
    turns: list[Turn]


@pytest.fixture(
    scope="module",
    params=[
        ("qwen3_5", TURNS_BY_DAY),
        *(pytest.param((family, TURNS), marks=pytest.mark.slow) for family in FAMILIES),
    ],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def conversation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LongConversation:
    """Many turns of a model that thinks: full attention, recurrent, sliding window."""
    family, turns = request.param
    folder = tmp_path_factory.mktemp(family)
    model = model_of(family, folder / "model")
    return LongConversation(model, open_all_along(model, folder / "sessions", turns))


def model_of(family: str, folder: Path, template: str = "") -> Path:
    """A model of `family` whose context takes the whole conversation."""
    return write_model(folder, family, template=template, max_position_embeddings=CONTEXT)


def test_every_turn_prefills_only_the_tokens_after_the_settled_prefix(
    conversation: LongConversation, tmp_path: Path
) -> None:
    """One test, because pytest-xdist would build the conversation in every process that runs a part of it."""
    assert_minimal_prefill(conversation.turns)
    forty = len(conversation.turns) == TURNS
    assert (0.988 if forty else 0.971) <= ratio(conversation.turns[1:])
    assert (0.994 if forty else 0.985) <= ratio(conversation.turns[-1:])
    fresh = reopened(conversation.model, tmp_path, TURNS_REOPENED)
    assert_minimal_prefill(fresh)
    assert_same(conversation.turns[:TURNS_REOPENED], fresh)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_without_thinking_it_is_no_different(family: str, tmp_path: Path) -> None:
    model = model_of(family, tmp_path / "model")
    live = open_all_along(model, tmp_path / "open", TURNS_BY_FAMILY, think=False)
    fresh = reopened(model, tmp_path / "reopened", TURNS_BY_FAMILY, think=False)
    assert_minimal_prefill(live)
    assert_same(live, fresh)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_does_not_think_is_no_different(family: str, tmp_path: Path) -> None:
    model = model_of(family, tmp_path / "model", PLAIN)
    live = open_all_along(model, tmp_path / "open", TURNS_BY_FAMILY)
    fresh = reopened(model, tmp_path / "reopened", TURNS_BY_FAMILY)
    assert_minimal_prefill(live)
    assert_same(live, fresh)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_messages_are_short(family: str, models: Path, tmp_path: Path) -> None:
    with ScriptedHarness(models / family, tmp_path) as harness:
        encode = harness.loaded.tokenizer.encode
        lengths = [len(encode(text, add_special_tokens=False)) for text in MESSAGES]
    assert 5 <= min(lengths) <= max(lengths) <= 9
