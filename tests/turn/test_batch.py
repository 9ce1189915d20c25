"""Batched replies: the tokens of single turns, one prefill of the shared prefix, every reply saved."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.conversation.tree import Entry
from chatcli.errors import NothingToRepeat, UsageError
from chatcli.events import Alternatives, Answered, Batched, Notice, Refused, TurnRecord
from chatcli.kv.memory_limit import MemoryLimit
from chatcli.settings.values import Sampling
from chatcli.turn import batch, regenerate, turn
from tests.support.architectures import build
from tests.support.harness import MESSAGES, Harness, finish, outcome
from tests.support.scripted import ScriptedHarness

QUESTIONS = (
    "What is my dog's name?",
    "7 and 5?",
    "And where do I live?\n\nSay it twice, by the river, and remember what you were told.",
    "Answer briefly.",
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog.",
)
SAMPLED = Sampling(1.0, seed=5, max_tokens=12)


def answer_each(
    chat: turn.TurnContext, texts: Sequence[str], max_rows: int | None = None
) -> list[TurnRecord]:
    """The records of the answers, in the order of the questions."""
    events = batch.answer_each(chat, texts, threading.Event(), max_rows)
    answers = sorted(
        (event for event in events if isinstance(event, Answered)), key=lambda event: event.number
    )
    assert list(range(1, len(texts) + 1)) == [answer.number for answer in answers]
    return [answer.record for answer in answers]


def alternatives(chat: turn.TurnContext, count: int) -> Alternatives:
    *_, last = batch.alternatives(chat, count, threading.Event())
    assert isinstance(last, Alternatives)
    return last


DOCUMENT = "\n".join(f"{number}. My dog is called Biscuit." for number in range(30))


def replies_to_last(chat: turn.TurnContext) -> list[Entry]:
    """The replies to the last user message."""
    return chat.conversation.children(chat.conversation.turns()[-1].user.id)


def alone(harness: Harness, chat: turn.TurnContext, text: str) -> TurnRecord:
    """The record of `text` as a turn of its own; the head is put back."""
    head = chat.conversation.head
    record = harness.say(chat, text, settle=False)
    chat.session.move_head(head)
    return record


def reply_of(record: TurnRecord) -> tuple[list[int], str, str, str]:
    return record.tokens, record.text, record.thinking, record.finish_reason


def reuse_of(record: TurnRecord) -> tuple[int, int, int]:
    return record.turn, record.reused_tokens, record.prefilled_tokens


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(Sampling(max_tokens=24), id="greedy"),
        pytest.param(
            Sampling(max_tokens=24, repetition_penalty=1.3, think_budget=6),
            id="penalized",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_batch_gives_each_question_the_reply_it_gets_alone(
    model: Path, tmp_path: Path, sampling: Sampling
) -> None:
    runs = []
    for name in ("alone", "batch"):
        with Harness(model, tmp_path / name) as harness:
            chat = harness.chat("talk")
            harness.say(chat, DOCUMENT)
            chat = replace(chat, sampling=sampling)
            if name == "alone":
                runs.append([alone(harness, chat, text) for text in QUESTIONS])
            else:
                runs.append(answer_each(chat, QUESTIONS, max_rows=3))
    for single, batched in zip(*runs, strict=True):
        assert (reply_of(single), reuse_of(single)) == (reply_of(batched), reuse_of(batched))
        assert single.logprobs == pytest.approx(batched.logprobs, abs=1e-3)


def test_a_stop_text_ends_the_replies_of_a_batch_as_it_does_alone(recurrent: Path, tmp_path: Path) -> None:
    with ScriptedHarness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        words = harness.script.reply.split(" ")
        stop = f"{words[9][1:]} {words[10][:1]}"
        chat = replace(chat, sampling=Sampling(stop=(stop,)))
        records = answer_each(chat, QUESTIONS, max_rows=3)
        cut = harness.script.reply.partition(stop)[0]
        assert [(cut, "stop")] * len(QUESTIONS) == [(record.text, record.finish_reason) for record in records]
        assert all(len(record.tokens) == len(record.logprobs) < len(harness.script.ids) for record in records)


def test_a_seed_draws_the_same_in_a_batch_as_alone(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = replace(harness.chat("talk"), sampling=SAMPLED)
        expected = [alone(harness, chat, text).tokens for text in QUESTIONS]
        assert expected == [record.tokens for record in answer_each(chat, QUESTIONS)]


def test_the_document_is_prefilled_once_and_every_answer_is_saved(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk", system=DOCUMENT)
        first, *others = answer_each(chat, QUESTIONS)
        assert first.prefilled_tokens == first.prompt_tokens > 200
        assert all(record.prefilled_tokens < 80 for record in others)
        assert all(record.reused_tokens > 200 for record in others)
        assert None is chat.conversation.head
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        questions = chat.conversation.children(None)
        assert list(QUESTIONS) == [question.message.content for question in questions]
        replies = [chat.conversation.children(question.id) for question in questions]
        assert [record.text for record in (first, *others)] == [reply.message.content for (reply,) in replies]
        assert None is chat.conversation.head
        # Its checkpoint is saved too: only the generation prompt is prefilled.
        for text, before in zip(QUESTIONS, (first, *others), strict=True):
            again = alone(harness, chat, text)
            assert again.prefilled_tokens < 8
            assert 0 == before.unrun_tokens
            assert before.tokens == again.tokens


@pytest.mark.slow
def test_a_turn_after_a_batch_is_the_same_to_the_bit_as_without_one(model: Path, tmp_path: Path) -> None:
    outcomes = []
    for name in ("none", "open", "reopened"):
        with Harness(model, tmp_path / name) as harness:
            chat = harness.chat("talk")
            harness.say(chat, MESSAGES[0])
            if name != "none":
                answer_each(chat, QUESTIONS)
            if name != "reopened":
                outcomes.append(outcome(harness.say(chat, MESSAGES[1])))
    with Harness(model, tmp_path / "reopened") as harness:
        outcomes.append(outcome(harness.say(harness.chat("talk"), MESSAGES[1])))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.slow
def test_the_conversation_continues_from_any_answer(recurrent: Path, tmp_path: Path) -> None:
    records = []
    for name in ("alone", "batch"):
        with Harness(recurrent, tmp_path / name) as harness:
            chat = harness.chat("talk")
            harness.say(chat, MESSAGES[0])
            if name == "batch":
                answer_each(chat, QUESTIONS[:3])
                third = chat.conversation.children(chat.conversation.head)[2]
                chat.session.move_head(chat.conversation.children(third.id)[0].id)
            else:
                harness.say(chat, QUESTIONS[2])
            records.append(harness.say(chat, MESSAGES[2]))
    assert outcome(records[0]) == outcome(records[1])
    assert 3 == records[1].turn


def test_a_question_that_does_not_fit_leaves_the_others_alone(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        texts = [QUESTIONS[0], "word " * 5000, QUESTIONS[1]]
        events = list(batch.answer_each(chat, texts, threading.Event()))
        answers = [event.number for event in events if isinstance(event, Answered)]
        (refused,) = [event for event in events if isinstance(event, Refused)]
        assert [1, 3] == sorted(answers)
        assert (2, True) == (refused.number, "does not fit" in refused.why)
        assert None is chat.conversation.head


def test_a_stopped_batch_keeps_the_tokens_so_far(recurrent: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    with Harness(recurrent, tmp_path, tokens=200) as harness:
        chat = harness.chat("talk")
        answers = []
        for event in batch.answer_each(chat, QUESTIONS, stop, max_at_once=2):
            if isinstance(event, Batched) and event.tokens > 8:
                stop.set()
            answers += [event] if isinstance(event, Answered) else []
        assert {1, 2} >= {answer.number for answer in answers} and answers
    with Harness(recurrent, tmp_path) as harness:
        conversation = harness.chat("talk").conversation
        questions = conversation.children(None)
        # Questions that were not begun are not saved.
        assert 2 == len(questions)
        assert None is conversation.head
        cut = [reply for question in questions for reply in conversation.children(question.id)]
        assert ["cancelled"] * len(answers) == [reply.finish_reason for reply in cut]


def test_a_lost_reply_comes_before_every_question(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        lost = turn.append(chat, MESSAGES[0], (), chat.conversation.head)
        answer_each(chat, QUESTIONS[:3])
        assert lost.id == chat.conversation.head
        (empty,) = chat.conversation.children(lost.id)
        assert 3 == len(chat.conversation.children(empty.id))


@pytest.mark.parametrize(("architecture", "why"), [("llama4", batch.CANNOT_MERGE), ("gemma2", batch.DIFFERS)])
def test_a_model_that_cannot_batch_answers_one_by_one_with_one_notice(
    models: Path, tmp_path: Path, architecture: str, why: str
) -> None:
    with Harness(models / "qwen3", tmp_path) as harness:
        chat = harness.chat("talk")
        loaded = chat.checkpoints.loaded
        size = len(loaded.tokenizer.get_vocab())
        other = harness.worker.call(build, architecture, vocab_size=size)
        checkpoints = Checkpoints(harness.worker, replace(loaded, model=other), None)
        chat = replace(chat, checkpoints=checkpoints)
        events = list(batch.answer_each(chat, QUESTIONS[:3], threading.Event()))
        assert [why] == [event.text for event in events if isinstance(event, Notice)]
        tokens = [event.record.tokens for event in events if isinstance(event, Answered)]
        assert tokens == [alone(harness, chat, text).tokens for text in QUESTIONS[:3]]


def test_the_memory_limit_bounds_the_batch(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path, tokens=4, memory_limit=1 << 30) as harness:
        chat = harness.chat("talk")
        harness.say(chat, DOCUMENT)
        memory = chat.checkpoints.memory
        assert isinstance(memory, MemoryLimit)
        max_bytes = max(mx.get_active_memory(), memory.needed_bytes(1000, 1000))
        chat.checkpoints.memory = replace(memory, max_bytes=max_bytes)
        events = list(batch.answer_each(chat, QUESTIONS[:3], threading.Event()))
    assert [batch.NO_ROOM] == [event.text for event in events if isinstance(event, Notice)]
    assert 3 == sum(isinstance(event, Answered) for event in events)


def test_alternatives_equal_repeated_regeneration(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one by one") as harness:
        chat = replace(harness.chat("talk"), sampling=SAMPLED)
        harness.say(chat, MESSAGES[0])
        stop = threading.Event()
        expected = [finish(regenerate.regenerate(chat, stop)).tokens for _ in range(3)]
    with Harness(model, tmp_path / "batch") as harness:
        chat = replace(harness.chat("talk"), sampling=SAMPLED)
        first = harness.say(chat, MESSAGES[0])
        batched = alternatives(chat, 3)
        assert expected == [record.tokens for record in batched.records]
        assert 3 == len({tuple(tokens) for tokens in expected})
        assert all(record.prefilled_tokens < 8 and 1 == record.turn for record in batched.records)
        replies = replies_to_last(chat)
        assert {first.text, *(record.text for record in batched.records)} == {
            reply.message.content for reply in replies
        }
        assert batched.entries[0] == chat.conversation.head
    with Harness(model, tmp_path / "batch") as harness:
        assert batched.entries[0] == harness.chat("talk").conversation.head


def test_replies_that_would_all_be_the_same_are_refused(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        with pytest.raises(NothingToRepeat):
            alternatives(chat, 2)
        harness.say(chat, MESSAGES[0])
        with pytest.raises(UsageError, match="/set temp"):
            alternatives(chat, 2)


def test_replies_that_never_began_leave_the_old_one_in_place(recurrent: Path, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with Harness(recurrent, tmp_path) as harness:
        chat = replace(harness.chat("talk"), sampling=SAMPLED)
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        *_, last = batch.alternatives(chat, 2, stopped)
        assert Alternatives((), ()) == last
        assert (before, 1) == (chat.conversation.head, len(replies_to_last(chat)))
