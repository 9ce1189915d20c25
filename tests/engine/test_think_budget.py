"""A thinking budget is exact to the token, for markers of one or several tokens, cut off and reopened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from chatcli.chat_format.markers import closing_tokens
from chatcli.engine.think_budget import ThinkBudget
from chatcli.events import ThinkingDelta
from chatcli.turn import regenerate, turn
from tests.support.harness import MESSAGES, Harness, finish, outcome
from tests.support.tiny import OPEN_THINK, SPECIAL, write_model

XTML = [*SPECIAL, "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"]
XTML = [mark for mark in XTML if mark not in ("<think>", "</think>")]
HARMONY = [*SPECIAL, "<|channel|>", "<|message|>", "<|start|>", "<|end|>"]
BUDGET = 5


def marked(start: str, end: str) -> str:
    template = OPEN_THINK.replace("</think>", end).replace("<think>", start)
    assert template != OPEN_THINK
    return template


# Of each kind: the family, the template, the special tokens and how many tokens close the thinking.
KINDS: dict[str, tuple[str, str, list[str], int]] = {
    "one": ("qwen3_5", OPEN_THINK, SPECIAL, 1),
    "several": ("qwen3", marked("<|open|>think<|sep|>", "<|close|>think<|sep|>"), XTML, 5),
    "channels": (
        "gpt_oss",
        marked(
            "<|start|>assistant<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
        HARMONY,
        10,
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, template, special, _ = KINDS[kind]
    path = tmp_path_factory.mktemp(kind) / "m"
    return write_model(path, family, template=template, special=special)


def talk(
    harness: Harness, budget: int | None = BUDGET, tokens: int = 16, name: str = "a"
) -> turn.TurnContext:
    chat = harness.chat(name)
    return replace(chat, sampling=replace(chat.sampling, think_budget=budget, max_tokens=tokens))


def closing_of(harness: Harness) -> list[int]:
    return closing_tokens(harness.runtime.loaded.tokenizer)


@pytest.mark.parametrize("budget", [0, 1, BUDGET])
def test_thinking_ends_after_so_many_tokens(folder: Path, tmp_path: Path, budget: int) -> None:
    with Harness(folder, tmp_path) as harness:
        closing = closing_of(harness)
        free = harness.say(talk(harness, None), MESSAGES[0])
        bounded = harness.say(talk(harness, budget, name="b"), MESSAGES[0])
        thought = harness.runtime.loaded.tokenizer.decode(free.tokens[:budget])
    end = budget + len(closing)
    assert free.thinking and not free.text
    assert free.tokens[:budget] + closing == bounded.tokens[:end]
    assert free.logprobs[:budget] + [0.0] * len(closing) == bounded.logprobs[:end]
    # It may think again after that.
    assert bounded.thinking.startswith(thought.strip()) and bounded.text


def test_the_markers_have_as_many_tokens_as_they_are_meant_to(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    with Harness(folder, tmp_path) as harness:
        assert KINDS[kind][3] == len(closing_of(harness))


def test_a_budget_that_is_not_used_up_changes_nothing(folder: Path, tmp_path: Path) -> None:
    with Harness(folder, tmp_path) as harness:
        free = harness.say(talk(harness, None), MESSAGES[0])
        bounded = harness.say(talk(harness, 16, name="b"), MESSAGES[0])
    assert outcome(free) == outcome(bounded)


def test_reopened_and_open_are_the_same(folder: Path, tmp_path: Path) -> None:
    with Harness(folder, tmp_path / "open") as harness:
        chat = talk(harness)
        open_all_along = [harness.say(chat, text) for text in MESSAGES[:3]]
    reopened = []
    for text in MESSAGES[:3]:
        with Harness(folder, tmp_path / "closed") as harness:
            reopened.append(harness.say(talk(harness), text))
    with Harness(folder, tmp_path / "cold", cache=False) as harness:
        chat = talk(harness)
        cold = [harness.say(chat, text) for text in MESSAGES[:3]]
    assert list(map(outcome, open_all_along)) == list(map(outcome, reopened))
    assert list(map(outcome, open_all_along)) == list(map(outcome, cold))
    assert all(record.text for record in reopened)
    assert all(record.reused_tokens for record in reopened[1:])


@pytest.mark.slow
def test_a_reply_cut_in_its_thinking_or_its_marker_goes_on_as_if_it_had_not_been(
    folder: Path, tmp_path: Path
) -> None:
    with Harness(folder, tmp_path) as harness:
        whole = harness.say(talk(harness), MESSAGES[0], settle=False)
        for cut in (1, BUDGET - 1, BUDGET, *range(BUDGET + 1, BUDGET + 1 + len(closing_of(harness)))):
            chat = talk(harness, tokens=cut, name=f"cut {cut}")
            part = harness.say(chat, MESSAGES[0])
            assert ("length", whole.tokens[:cut]) == (part.finish_reason, part.tokens)
            rest = replace(chat, sampling=replace(chat.sampling, max_tokens=16 - cut))
            more = finish(regenerate.continue_reply(rest, threading.Event()))
            assert (whole.tokens, whole.text, whole.thinking) == (
                more.tokens,
                more.text,
                more.thinking,
            )


@pytest.mark.slow
def test_after_a_cut_in_the_thinking_the_conversation_goes_on(folder: Path, tmp_path: Path) -> None:
    with Harness(folder, tmp_path) as harness:
        chat = talk(harness)
        stop = threading.Event()
        cut = finish(stopped(turn.take(chat, MESSAGES[0], stop), stop))
        assert ("cancelled", "") == (cut.finish_reason, cut.text)
        after = harness.say(chat, MESSAGES[1])
    with Harness(folder, tmp_path) as harness:
        more = finish(regenerate.regenerate(talk(harness), threading.Event()))
    assert after.text
    assert outcome(after) == outcome(more)


def stopped(events: Iterator[Any], stop: threading.Event) -> Iterator[Any]:
    """The events; it is stopped at the first word of the thinking."""
    for event in events:
        if isinstance(event, ThinkingDelta):
            stop.set()
        yield event


# The processor alone, with a model that follows a script


def generated(harness: Harness, budget: int, script: str, count: int, generation_prompt: str = "") -> str:
    """The text of a model that would generate `script`, then full stops for ever."""
    tokenizer = harness.runtime.loaded.tokenizer
    vocabulary = len(tokenizer)
    processor = ThinkBudget(tokenizer, budget, closing_tokens(tokenizer), generation_prompt)
    scripted = iter(tokenizer.encode(script, add_special_tokens=False))
    (stop,) = tokenizer.encode(".", add_special_tokens=False)
    tokens: list[int] = [0]
    likely = next(scripted)
    while len(tokens) <= count:
        logits = mx.where(mx.arange(vocabulary) == likely, 1.0, 0.0)[None]
        tokens.append(int(mx.argmax(processor(mx.array(tokens), logits)).item()))
        if tokens[-1] == likely:
            likely = next(scripted, stop)
    return str(tokenizer.decode(tokens[1:]))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    path = tmp_path_factory.mktemp("several")
    template = marked("<|open|>think<|sep|>", "<|close|>think<|sep|>")
    with Harness(write_model(path / "m", "qwen3", template=template, special=XTML), path / "s") as harness:
        yield harness


OPEN, CLOSE = "<|open|>think<|sep|>", "<|close|>think<|sep|>"


@pytest.mark.parametrize(
    ("budget", "generation_prompt", "script", "expected"),
    [
        # The model opens its own thinking.
        (3, "", f"{OPEN}88888", f"{OPEN}888{CLOSE}88..."),
        (0, "", f"{OPEN}88", f"{OPEN}{CLOSE}88..."),
        # After text the mark is one that the text speaks of.
        (3, "", f"7777{OPEN}88888", f"7777{OPEN}88888..."),
        # It has begun to close it itself.
        (3, OPEN, f"88{CLOSE}7", f"88{CLOSE}7..."),
        (4, OPEN, f"888{CLOSE}7", f"888{CLOSE}7..."),
        (2, OPEN, "8<|close|>99", f"8{CLOSE}99..."),
        # It closes it in time.
        (9, OPEN, f"88{CLOSE}777777777777", f"88{CLOSE}777777777777..."),
        # Thinking closes once.
        (3, OPEN, f"8{CLOSE}7{OPEN}8888", f"8{CLOSE}7{OPEN}8888..."),
        (2, OPEN, f"888{OPEN}8888", f"88{CLOSE}8{OPEN}8888..."),
    ],
)
def test_only_thinking_counts(
    budget: int, generation_prompt: str, script: str, expected: str, harness: Harness
) -> None:
    tokenizer = harness.runtime.loaded.tokenizer
    count = len(tokenizer.encode(expected, add_special_tokens=False))
    assert expected == generated(harness, budget, script, count, generation_prompt)
