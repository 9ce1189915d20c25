"""A long conversation of short messages: each turn prefills exactly what no earlier turn could know."""

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
BY_DAY = 15
FEW = 6
FEWER = 3
CONTEXT = 16384
# Five to nine tokens each.
SAYINGS = (
    "My dog is called Biscuit.",
    "You live in Lisbon, my fox.",
    "What is my dog's name?",
    "What were you told, dog?",
    "Is the brown fox over 7?",
    "Answer what you remember.",
    "You are quick and helpful.",
    "What is 7 and 5?",
)
# What a next message may begin with: letters, digits, spaces, line breaks, marks, other scripts.
NEXT = ("Yes", "x", "7", " 1", "  a", "\n\nno", "'s", "é", "犬")


@dataclass(frozen=True)
class Turn:
    """A turn's numbers, what the model was run on, the whole prompt and the least of it to run."""

    record: TurnRecord
    run: list[int]
    prompt: list[int]
    limit: int
    script: Script


def shared(left: Sequence[int], right: Sequence[int]) -> Sequence[int]:
    """The tokens that two prompts begin with alike."""
    pairs = zip(left, right, strict=False)
    end = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    return left[: min(len(left), len(right)) if end is None else end]


def limit(harness: ScriptedHarness, texts: list[str], prompt: list[int]) -> int:
    """The tokens of a prompt past what it shares with every other next message; found by trying."""
    if len(texts) == 1:
        return len(prompt)
    others = [harness.prompt([*texts[:-1], other]) for other in NEXT]
    return len(prompt) - len(reduce(shared, others, prompt))


def say(harness: ScriptedHarness, chat: turn.TurnContext, texts: list[str]) -> Turn:
    """The turn that ends `texts`, settled."""
    record, run = harness.take(chat, texts[-1])
    harness.settle(chat, record)
    prompt = harness.prompt(texts)
    return Turn(record, run, prompt, limit(harness, texts, prompt), harness.script)


def sayings(turns: int) -> list[list[str]]:
    """The user's messages up to each turn."""
    said = [SAYINGS[number % len(SAYINGS)] for number in range(turns)]
    return [said[: number + 1] for number in range(turns)]


def open_all_along(model: Path, sessions: Path, turns: int, think: bool | None = None) -> list[Turn]:
    """The conversation in one process."""
    with ScriptedHarness(model, sessions, think=think) as harness:
        chat = harness.chat("talk")
        return [say(harness, chat, texts) for texts in sayings(turns)]


def reopened(model: Path, sessions: Path, turns: int, think: bool | None = None) -> list[Turn]:
    """The conversation with everything closed after every turn."""
    made = []
    for texts in sayings(turns):
        with ScriptedHarness(model, sessions, think=think) as harness:
            made.append(say(harness, harness.chat("talk"), texts))
    return made


def check_the_limit(turns: list[Turn]) -> None:
    """Each turn ran what the template writes after the settled prefix, and the reply."""
    for one in turns:
        assert one.limit == one.record.prefilled_tokens
        assert one.prompt[-one.limit :] + one.script.ids == one.run
        assert len(one.prompt) == one.record.prompt_tokens
        assert one.script.reply == one.record.text


def check_the_same(left: list[Turn], right: list[Turn]) -> None:
    for one, other in zip(left, right, strict=True):
        assert outcome(one.record) == outcome(other.record)
        assert counts(one.record) == counts(other.record)


def counts(record: TurnRecord) -> tuple[int, ...]:
    ahead = record.settled_tokens, record.drafted_tokens
    return record.prompt_tokens, record.reused_tokens, record.prefilled_tokens, *ahead


def ratio(turns: list[Turn]) -> float:
    reused = sum(one.record.reused_tokens for one in turns)
    return reused / sum(one.record.prompt_tokens for one in turns)


@dataclass(frozen=True)
class Talk:
    """The whole conversation in one process, and the model that it was held with."""

    model: Path
    turns: list[Turn]


@pytest.fixture(
    scope="module",
    params=[
        ("qwen3_5", BY_DAY),
        *(pytest.param((family, TURNS), marks=pytest.mark.slow) for family in FAMILIES),
    ],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def talk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Talk:
    """Many turns of a model that thinks: full attention, recurrent, sliding window."""
    family, turns = request.param
    folder = tmp_path_factory.mktemp(family)
    made = model_of(family, folder / "model")
    return Talk(made, open_all_along(made, folder / "sessions", turns))


def model_of(family: str, folder: Path, template: str = "") -> Path:
    """A model of `family` whose context takes the whole conversation."""
    return write_model(folder, family, template=template, max_position_embeddings=CONTEXT)


def test_every_turn_prefills_what_the_template_writes_after_the_settled_prefix_open_or_reopened(
    talk: Talk, tmp_path: Path
) -> None:
    """One test, because each process that runs one of several would hold the conversation anew."""
    check_the_limit(talk.turns)
    forty = len(talk.turns) == TURNS
    assert (0.988 if forty else 0.971) <= ratio(talk.turns[1:])
    assert (0.994 if forty else 0.985) <= ratio(talk.turns[-1:])
    fresh = reopened(talk.model, tmp_path, FEW)
    check_the_limit(fresh)
    check_the_same(talk.turns[:FEW], fresh)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_without_thinking_it_is_no_different(family: str, tmp_path: Path) -> None:
    model = model_of(family, tmp_path / "model")
    live = open_all_along(model, tmp_path / "open", FEWER, think=False)
    fresh = reopened(model, tmp_path / "reopened", FEWER, think=False)
    check_the_limit(live)
    check_the_same(live, fresh)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_does_not_think_is_no_different(family: str, tmp_path: Path) -> None:
    model = model_of(family, tmp_path / "model", PLAIN)
    live = open_all_along(model, tmp_path / "open", FEWER)
    fresh = reopened(model, tmp_path / "reopened", FEWER)
    check_the_limit(live)
    check_the_same(live, fresh)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_messages_are_short(family: str, models: Path, tmp_path: Path) -> None:
    with ScriptedHarness(models / family, tmp_path) as harness:
        encode = harness.loaded.tokenizer.encode
        lengths = [len(encode(text, add_special_tokens=False)) for text in SAYINGS]
    assert 5 <= min(lengths) <= max(lengths) <= 9
