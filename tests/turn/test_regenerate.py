"""Another reply to the same question: beside the first, and with nothing but the generation prompt to run."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from chatcli.conversation.tree import Entry
from chatcli.errors import NothingToRepeat
from chatcli.events import TurnRecord
from chatcli.settings.values import Sampling
from chatcli.turn import regenerate, turn
from chatcli.turn.prompt import history
from tests.support.harness import MESSAGES, Harness, finish, outcome


def regenerated(chat: turn.TurnContext) -> TurnRecord:
    return finish(regenerate.regenerate(chat, threading.Event()))


def tail(chat: turn.TurnContext) -> int:
    """The tokens of the generation prompt."""
    return len(chat.template.encode(chat.template.opening(history(chat, question(chat)))))


def question(chat: turn.TurnContext) -> Entry:
    return chat.conversation.turns()[-1].user


@pytest.mark.parametrize("settle", [True, False], ids=["settled", "at once"])
def test_another_reply_runs_the_generation_prompt_only(model: Path, tmp_path: Path, settle: bool) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        first = harness.say(chat, MESSAGES[1], settle=settle)
        second, third = regenerated(chat), regenerated(chat)
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        reopened = regenerated(chat)
        most = tail(chat)
    assert [outcome(first)] * 3 == [outcome(one) for one in (second, third, reopened)]
    assert all(1 <= one.prefilled_tokens <= most for one in (second, third, reopened))


def test_every_reply_is_kept_beside_the_others(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        record = regenerated(chat)
        assert 1 == record.turn
    with Harness(model, tmp_path) as harness:
        conversation = harness.chat("talk").conversation
        replies = conversation.children(conversation.turns()[0].user.id)
        assert [before, conversation.head] == [reply.id for reply in replies]


def test_how_much_of_the_context_another_reply_takes_is_known(model: Path, tmp_path: Path) -> None:
    """Also where it has the first one's words, and so its checkpoints."""
    never = threading.Event()
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        regenerated(chat)
        list(turn.settle(chat, never))
        first, second = chat.conversation.children(question(chat).id)
        assert first.message == second.message
        assert first.record["boundaries"] == second.record["boundaries"]


def test_a_seed_gives_each_reply_another_chance_and_the_same_one_every_time(
    model: Path, tmp_path: Path
) -> None:
    said = []
    for name in ("one", "two"):
        with Harness(model, tmp_path / name) as harness:
            chat = replace(harness.chat("talk"), sampling=Sampling(1.0, seed=5, max_tokens=24))
            said.append([harness.say(chat, MESSAGES[0]).tokens, regenerated(chat).tokens])
    assert said[0] == said[1]
    assert said[0][0] != said[0][1]


def test_a_reply_that_never_began_leaves_the_old_one_in_place(model: Path, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        assert "cancelled" == finish(regenerate.regenerate(chat, stopped)).finish_reason
        assert before == chat.conversation.head
        assert 2 == harness.say(chat, MESSAGES[1]).turn
    with Harness(model, tmp_path) as harness:
        path = harness.chat("talk").conversation.path()
        assert 4 == len(path) and before == path[1].id


def test_a_message_whose_reply_was_lost_gets_one(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        turn.append(chat, MESSAGES[0], (), chat.conversation.head)
        regenerated(chat)
        assert chat.conversation.turns()[0].reply is not None
        assert None is chat.conversation.unanswered()


def test_without_a_question_there_is_nothing_to_repeat(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness, pytest.raises(NothingToRepeat):
        regenerated(harness.chat("talk"))


def test_what_is_saved_is_what_it_took_when_it_was_run(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        first, second = harness.say(chat, MESSAGES[0]), harness.say(chat, MESSAGES[1])
    with Harness(model, tmp_path) as harness:
        reopened = regenerated(harness.chat("talk"))
    assert 0.0 == first.avoided_seconds
    # Before the second turn no more had been run than the whole first turn took to prefill.
    assert 0 < second.avoided_seconds < reopened.avoided_seconds
    with Harness(model, tmp_path, cache=False) as harness:
        assert 0.0 == regenerated(harness.chat("talk")).avoided_seconds


def test_a_cut_reply_goes_on_exactly_where_it_stopped(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "whole", tokens=40) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        whole = harness.say(chat, MESSAGES[1], settle=False)
    with Harness(model, tmp_path / "cut", tokens=20) as harness:
        chat = harness.chat("talk")
        chat_of_40 = replace(chat, sampling=Sampling(max_tokens=40))
        harness.say(chat_of_40, MESSAGES[0])
        cut = harness.say(chat, MESSAGES[1])
    with Harness(model, tmp_path / "cut", tokens=20) as harness:
        chat = harness.chat("talk")
        more = finish(regenerate.go_on(chat, threading.Event()))
        reply = chat.conversation.path()[-1]
        assert ("length", 2) == (cut.finish_reason, len(chat.conversation.children(reply.parent)))
    assert whole.tokens == more.tokens
    assert (whole.text, whole.thinking) == (more.text, more.thinking)
    assert (more.text, more.thinking) == (reply.message.content, reply.message.thinking)
    assert len(more.logprobs) == len(whole.tokens) - len(cut.tokens)


def test_a_reply_that_was_not_cut_is_not_gone_on_with(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        user = turn.append(chat, MESSAGES[0], (), chat.conversation.head)
        chat.saved.append(turn.Message("assistant", "Yes."), user.id, finish_reason="stop")
        with pytest.raises(NothingToRepeat):
            list(regenerate.go_on(chat, threading.Event()))
        assert "Yes." == chat.conversation.path()[-1].message.content


def test_the_first_new_word_keeps_the_space_before_it(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3", tmp_path / "whole", tokens=24) as harness:
        whole = harness.say(harness.chat("talk"), MESSAGES[0])
    with Harness(models / "qwen3", tmp_path / "bit by bit", tokens=1) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0], settle=False)
        for _ in range(23):
            more = finish(regenerate.go_on(chat, threading.Event()))
    assert " " in whole.text.strip()
    assert (whole.tokens, whole.text) == (more.tokens, more.text)
