"""Many replies at once: the tokens that each would have alone, the document run once, all of it kept."""

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
WARM = Sampling(1.0, seed=5, max_tokens=12)


def asked(chat: turn.TurnContext, texts: Sequence[str], most: int | None = None) -> list[TurnRecord]:
    """Every answer, in the order of the questions."""
    events = list(batch.answer_each(chat, texts, threading.Event(), most))
    answers = sorted((one for one in events if isinstance(one, Answered)), key=lambda one: one.number)
    assert list(range(1, len(texts) + 1)) == [one.number for one in answers]
    return [one.record for one in answers]


def several(chat: turn.TurnContext, count: int) -> Alternatives:
    *_, last = batch.alternatives(chat, count, threading.Event())
    assert isinstance(last, Alternatives)
    return last


DOCUMENT = "\n".join(f"{number}. My dog is called Biscuit." for number in range(30))


def siblings(chat: turn.TurnContext) -> list[Entry]:
    """The replies to the last question."""
    return chat.conversation.children(chat.conversation.turns()[-1].user.id)


def alone(harness: Harness, chat: turn.TurnContext, text: str) -> TurnRecord:
    """A question's answer without the others; the head goes back."""
    head = chat.conversation.head
    record = harness.say(chat, text, settle=False)
    chat.saved.move_head(head)
    return record


def words(record: TurnRecord) -> tuple[list[int], str, str, str]:
    return record.tokens, record.text, record.thinking, record.finish_reason


def reuse(record: TurnRecord) -> tuple[int, int, int]:
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
def test_a_batch_says_what_each_question_would_be_told_alone(
    model: Path, tmp_path: Path, sampling: Sampling
) -> None:
    said = []
    for name in ("alone", "batch"):
        with Harness(model, tmp_path / name) as harness:
            chat = harness.chat("talk")
            harness.say(chat, DOCUMENT)
            chat = replace(chat, sampling=sampling)
            if name == "alone":
                said.append([alone(harness, chat, text) for text in QUESTIONS])
            else:
                said.append(asked(chat, QUESTIONS, most=3))
    for one, other in zip(*said, strict=True):
        assert (words(one), reuse(one)) == (words(other), reuse(other))
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def test_a_stop_text_ends_the_replies_of_a_batch_as_it_does_alone(recurrent: Path, tmp_path: Path) -> None:
    with ScriptedHarness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        words = harness.script.reply.split(" ")
        stop = f"{words[9][1:]} {words[10][:1]}"
        chat = replace(chat, sampling=Sampling(stop=(stop,)))
        found = asked(chat, QUESTIONS, most=3)
        cut = harness.script.reply.partition(stop)[0]
        assert [(cut, "stop")] * len(QUESTIONS) == [(r.text, r.finish_reason) for r in found]
        assert all(len(r.tokens) == len(r.logprobs) < len(harness.script.ids) for r in found)


def test_a_seed_draws_the_same_in_a_batch_as_alone(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = replace(harness.chat("talk"), sampling=WARM)
        apart = [alone(harness, chat, text).tokens for text in QUESTIONS]
        assert apart == [one.tokens for one in asked(chat, QUESTIONS)]


def test_the_document_is_run_once_and_every_question_is_kept(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk", system=DOCUMENT)
        first, *others = asked(chat, QUESTIONS)
        assert first.prefilled_tokens == first.prompt_tokens > 200
        assert all(one.prefilled_tokens < 80 for one in others)
        assert all(one.reused_tokens > 200 for one in others)
        assert None is chat.conversation.head
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        asked_for = chat.conversation.children(None)
        assert list(QUESTIONS) == [one.message.content for one in asked_for]
        replies = [chat.conversation.children(one.id) for one in asked_for]
        assert [one.text for one in (first, *others)] == [one.message.content for (one,) in replies]
        assert None is chat.conversation.head
        # Its checkpoint too: only the generation prompt is run.
        for text, before in zip(QUESTIONS, (first, *others), strict=True):
            again = alone(harness, chat, text)
            assert again.prefilled_tokens < 8
            assert 0 == before.unrun_tokens
            assert before.tokens == again.tokens


def test_a_conversation_goes_on_after_a_batch_with_the_bits_of_one_that_had_none(
    model: Path, tmp_path: Path
) -> None:
    said = []
    for name in ("none", "open", "reopened"):
        with Harness(model, tmp_path / name) as harness:
            chat = harness.chat("talk")
            harness.say(chat, MESSAGES[0])
            if name != "none":
                asked(chat, QUESTIONS)
            if name != "reopened":
                said.append(outcome(harness.say(chat, MESSAGES[1])))
    with Harness(model, tmp_path / "reopened") as harness:
        said.append(outcome(harness.say(harness.chat("talk"), MESSAGES[1])))
    assert said[0] == said[1] == said[2]


def test_any_answer_can_be_gone_on_from(recurrent: Path, tmp_path: Path) -> None:
    said = []
    for name in ("alone", "batch"):
        with Harness(recurrent, tmp_path / name) as harness:
            chat = harness.chat("talk")
            harness.say(chat, MESSAGES[0])
            if name == "batch":
                asked(chat, QUESTIONS[:3])
                third = chat.conversation.children(chat.conversation.head)[2]
                chat.saved.move_head(chat.conversation.children(third.id)[0].id)
            else:
                harness.say(chat, QUESTIONS[2])
            said.append(harness.say(chat, MESSAGES[2]))
    assert outcome(said[0]) == outcome(said[1])
    assert 3 == said[1].turn


def test_a_question_that_does_not_fit_leaves_the_others_alone(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        texts = [QUESTIONS[0], "word " * 5000, QUESTIONS[1]]
        events = list(batch.answer_each(chat, texts, threading.Event()))
        answers = [one.number for one in events if isinstance(one, Answered)]
        (refused,) = [one for one in events if isinstance(one, Refused)]
        assert [1, 3] == sorted(answers)
        assert (2, True) == (refused.number, "does not fit" in refused.why)
        assert None is chat.conversation.head


def test_what_came_is_kept_when_it_is_stopped(recurrent: Path, tmp_path: Path) -> None:
    stop = threading.Event()
    with Harness(recurrent, tmp_path, tokens=200) as harness:
        chat = harness.chat("talk")
        answers = []
        for event in batch.answer_each(chat, QUESTIONS, stop, most=2):
            if isinstance(event, Batched) and event.tokens > 8:
                stop.set()
            answers += [event] if isinstance(event, Answered) else []
        assert {1, 2} >= {one.number for one in answers} and answers
    with Harness(recurrent, tmp_path) as harness:
        conversation = harness.chat("talk").conversation
        questions = conversation.children(None)
        # What was not begun is not there.
        assert 2 == len(questions)
        assert None is conversation.head
        cut = [one for question in questions for one in conversation.children(question.id)]
        assert ["cancelled"] * len(answers) == [one.finish_reason for one in cut]


def test_a_lost_reply_comes_before_every_question(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        lost = turn.append(chat, MESSAGES[0], (), chat.conversation.head)
        asked(chat, QUESTIONS[:3])
        assert lost.id == chat.conversation.head
        (empty,) = chat.conversation.children(lost.id)
        assert 3 == len(chat.conversation.children(empty.id))


@pytest.mark.parametrize(("architecture", "why"), [("llama4", batch.CANNOT_MERGE), ("gemma2", batch.DIFFERS)])
def test_what_cannot_be_batched_is_run_one_by_one_and_it_is_said_once(
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
        assert [why] == [one.text for one in events if isinstance(one, Notice)]
        said = [one.record.tokens for one in events if isinstance(one, Answered)]
        assert said == [alone(harness, chat, text).tokens for text in QUESTIONS[:3]]


def test_no_more_at_once_than_the_memory_limit_has_room_for(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path, tokens=4, memory_limit=1 << 30) as harness:
        chat = harness.chat("talk")
        harness.say(chat, DOCUMENT)
        memory = chat.checkpoints.memory
        assert isinstance(memory, MemoryLimit)
        enough = max(mx.get_active_memory(), memory.needed_bytes(1000, 1000))
        chat.checkpoints.memory = replace(memory, max_bytes=enough)
        events = list(batch.answer_each(chat, QUESTIONS[:3], threading.Event()))
    assert [batch.NO_ROOM] == [one.text for one in events if isinstance(one, Notice)]
    assert 3 == sum(isinstance(one, Answered) for one in events)


def test_several_replies_are_the_ones_that_would_come_one_by_one(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one by one") as harness:
        chat = replace(harness.chat("talk"), sampling=WARM)
        harness.say(chat, MESSAGES[0])
        stop = threading.Event()
        single = [finish(regenerate.regenerate(chat, stop)).tokens for _ in range(3)]
    with Harness(model, tmp_path / "batch") as harness:
        chat = replace(harness.chat("talk"), sampling=WARM)
        first = harness.say(chat, MESSAGES[0])
        made = several(chat, 3)
        assert single == [one.tokens for one in made.records]
        assert 3 == len({tuple(one) for one in single})
        assert all(one.prefilled_tokens < 8 and 1 == one.turn for one in made.records)
        kept = siblings(chat)
        assert {first.text, *(one.text for one in made.records)} == {one.message.content for one in kept}
        assert made.entries[0] == chat.conversation.head
    with Harness(model, tmp_path / "batch") as harness:
        assert made.entries[0] == harness.chat("talk").conversation.head


def test_replies_that_would_all_be_the_same_are_refused(recurrent: Path, tmp_path: Path) -> None:
    with Harness(recurrent, tmp_path) as harness:
        chat = harness.chat("talk")
        with pytest.raises(NothingToRepeat):
            several(chat, 2)
        harness.say(chat, MESSAGES[0])
        with pytest.raises(UsageError, match="/set temp"):
            several(chat, 2)


def test_replies_that_never_began_leave_the_old_one_in_place(recurrent: Path, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with Harness(recurrent, tmp_path) as harness:
        chat = replace(harness.chat("talk"), sampling=WARM)
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        *_, last = batch.alternatives(chat, 2, stopped)
        assert Alternatives((), ()) == last
        assert (before, 1) == (chat.conversation.head, len(siblings(chat)))
