"""Stop sequences: a reply and its history end before the first one, however tokens divide the text."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatcli.chat_format.stop import StopTexts
from chatcli.events import TextDelta, TurnDone, TurnRecord
from chatcli.settings.values import Sampling
from chatcli.turn import turn
from tests.support.families import in_turn_by_day
from tests.support.harness import Harness
from tests.support.program import Program
from tests.support.scripted import PLAIN, ScriptedHarness
from tests.support.tiny import write_model

QUESTIONS = ("My dog is called Biscuit.", "What is my dog's name?", "And where do I live?")
LETTERS = st.text("ab\n", max_size=12)


def feed_all(texts: list[str], pieces: list[str]) -> tuple[str, StopTexts]:
    stop = StopTexts(texts)
    return "".join([*map(stop.feed, pieces), stop.finish()]), stop


@given(
    texts=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3), pieces=st.lists(LETTERS, max_size=8)
)
def test_text_in_any_pieces_ends_before_the_first_stop_sequence(texts: list[str], pieces: list[str]) -> None:
    whole = "".join(pieces)
    output, stop = feed_all(texts, pieces)
    # The first complete one counts: a longer one might begin earlier and never be completed.
    places = [(start + len(text), start) for text in texts if (start := whole.find(text)) >= 0]
    end = min(places)[1] if places else None
    assert (whole[:end], end) == (output, stop.end)
    assert stop.found == bool(places)


def test_a_possible_beginning_of_a_stop_sequence_is_held_back() -> None:
    stop = StopTexts(["END", "\n\n"])
    assert ["a", "", "", "ENx", "\ny", ""] == [
        stop.feed(text) for text in ("aE", "N", "", "x\n", "y\n", "\n")
    ]
    assert (True, 6) == (stop.found, stop.end)
    assert "" == stop.feed("more") == stop.finish()


# In a conversation


def take(harness: ScriptedHarness, chat: turn.TurnContext, text: str) -> tuple[TurnRecord, str]:
    """A turn's record, and the text that was streamed."""
    streamed, records = "", []
    for event in turn.take(chat, text, threading.Event()):
        streamed += event.text if isinstance(event, TextDelta) else ""
        records += [event.record] if isinstance(event, TurnDone) else []
    (record,) = records
    return record, streamed


def before_stop(harness: ScriptedHarness) -> tuple[str, str]:
    """A stop sequence that begins inside one token and ends in another, and the text before it."""
    words = harness.script.reply.split(" ")
    stop = f"{words[9][1:]} {words[10][:1]}"
    assert len(words[9]) > 1 and 1 == harness.script.reply.count(stop)
    return stop, harness.script.reply.partition(stop)[0]


def model_of(models: Path, folder: Path, family: str, template: str) -> Path:
    """The family's model, with another template if one is given."""
    if template:
        return write_model(folder / "model", family, template=template)
    return models / family


@pytest.mark.parametrize(("family", "template"), in_turn_by_day(["", PLAIN]))
def test_a_reply_and_its_history_end_before_a_stop_sequence(
    models: Path, tmp_path: Path, family: str, template: str
) -> None:
    """The next prompt contains the truncated reply as the tokenizer encodes it, all of it settled."""
    folder = model_of(models, tmp_path, family, template)
    with ScriptedHarness(folder, tmp_path / "s") as harness:
        stop, cut = before_stop(harness)
        chat = harness.chat("talk")
        chat.sampling = Sampling(stop=("never said", stop))
        record, streamed = take(harness, chat, QUESTIONS[0])
        assert cut == streamed == record.text == chat.conversation.path()[-1].message.content
        assert "stop" == record.finish_reason
        assert harness.script.ids[: len(record.tokens)] == record.tokens
        decoded = harness.loaded.tokenizer.decode(record.tokens)
        assert decoded.endswith(f"{cut}{stop.partition(' ')[0]}")
        assert len(record.tokens) == len(record.logprobs)
        harness.settle(chat, record)
        next_turn = harness.take(chat, QUESTIONS[1])
        prompt = harness.prompt(QUESTIONS[:2], [cut])
        assert len(prompt) == next_turn.record.prompt_tokens
        tail = prompt[next_turn.record.reused_tokens :]
        assert tail == next_turn.tokens[: len(tail)]
        assert stop not in harness.loaded.tokenizer.decode(prompt)
        # The reply was settled: at most the question is prefilled.
        assert len(tail) < len(harness.prompt(QUESTIONS[1:2]))


@pytest.mark.parametrize(("family", "template"), in_turn_by_day(["", PLAIN]))
def test_a_stopped_conversation_reopened_is_the_same(
    models: Path, tmp_path: Path, family: str, template: str
) -> None:
    folder = model_of(models, tmp_path, family, template)
    outcomes: dict[str, list[object]] = {"open": [], "closed": []}
    with ScriptedHarness(folder, tmp_path / "open") as harness:
        stop, _ = before_stop(harness)
        chat = harness.chat("talk")
        chat.sampling = Sampling(stop=(stop,))
        for text in QUESTIONS:
            record = harness.take(chat, text).record
            harness.settle(chat, record)
            outcomes["open"].append((record.tokens, record.logprobs, record.text, record.reused_tokens))
    for text in QUESTIONS:
        with ScriptedHarness(folder, tmp_path / "closed") as harness:
            chat = harness.chat("talk")
            chat.sampling = Sampling(stop=(stop,))
            record = harness.take(chat, text).record
            harness.settle(chat, record)
            outcomes["closed"].append((record.tokens, record.logprobs, record.text, record.reused_tokens))
    assert outcomes["open"] == outcomes["closed"]


def test_an_incomplete_stop_sequence_is_part_of_the_reply(models: Path, tmp_path: Path) -> None:
    with ScriptedHarness(models / "qwen3", tmp_path) as harness:
        chat = harness.chat("talk")
        chat.sampling = Sampling(stop=(f"{harness.script.reply[-3:]}?",))
        record, streamed = take(harness, chat, QUESTIONS[0])
        assert harness.script.reply == streamed == record.text
        assert harness.script.ids[: len(record.tokens)] == record.tokens


def test_thinking_is_not_searched(models: Path, tmp_path: Path) -> None:
    with ScriptedHarness(models / "qwen3_5", tmp_path) as harness:
        chat = harness.chat("talk")
        plain = harness.take(chat, QUESTIONS[0]).record
        chat.sampling = Sampling(stop=(plain.thinking[2:4],))
        assert plain.thinking[2:4] not in plain.text
        record = harness.take(chat, QUESTIONS[0]).record
        assert (plain.thinking, plain.text) == (record.thinking, record.text)


def test_a_reply_may_be_empty(models: Path, tmp_path: Path) -> None:
    with ScriptedHarness(models / "qwen3_5", tmp_path) as harness:
        chat = harness.chat("talk")
        chat.sampling = Sampling(stop=(harness.script.reply[:5],))
        record, streamed = take(harness, chat, QUESTIONS[0])
        assert ("", "", "stop") == (record.text, streamed, record.finish_reason)
        assert record.thinking and record.tokens
        harness.settle(chat, record)
        assert harness.take(chat, QUESTIONS[1]).record.reused_tokens > 0


def test_the_users_stop_sequences_replace_those_of_generation_config(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3", tmp_path, sampling=Sampling(stop=("x",))) as harness:
        generation_config = Sampling(stop=("y", "z"))
        assert ("x",) == harness.runtime.settings.sampling.over(generation_config).stop
        assert ("y", "z") == Sampling().over(generation_config).stop


@pytest.mark.slow
def test_all_stop_options_of_the_command_line_count(chatcli: Program) -> None:
    whole = chatcli.ask("Tell me.", "-n", 40, "--no-think", "--no-cache")["text"]
    middle = whole[8:10]
    arguments = ["-n", 40, "--no-think", "--no-cache", "--stop", "never said", "--stop", middle]
    reply = chatcli.ask("Tell me.", *arguments)
    assert (whole.partition(middle)[0].rstrip("\n"), "stop") == (reply["text"], reply["finish_reason"])
    refused = chatcli.run("ask", "Tell me.", "--stop", "", expect=2)
    assert "--stop must be text that is not empty" in refused.errors
