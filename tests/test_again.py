"""Another reply to the same question: beside the first, and with nothing but the generation prompt to run."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from chatcli import turn
from chatcli.errors import NothingToRepeat
from chatcli.events import TurnRecord
from chatcli.settings import Sampling
from tests.house import MESSAGES, House, finish, outcome


def regenerated(chat: turn.Chat) -> TurnRecord:
    return finish(turn.again(chat, threading.Event()))


def tail(chat: turn.Chat) -> int:
    """The tokens of the generation prompt."""
    return len(chat.template.encode(chat.template.opening(turn.history(chat, question(chat)))))


def question(chat: turn.Chat) -> turn.Entry:
    return chat.conversation.turns()[-1].user


@pytest.mark.parametrize("settle", [True, False], ids=["settled", "at once"])
def test_another_reply_runs_the_generation_prompt_only(
    model: Path, tmp_path: Path, settle: bool
) -> None:
    with House(model, tmp_path) as house:
        chat = house.chat("talk")
        house.say(chat, MESSAGES[0])
        first = house.say(chat, MESSAGES[1], settle=settle)
        second, third = regenerated(chat), regenerated(chat)
    with House(model, tmp_path) as house:
        chat = house.chat("talk")
        reopened = regenerated(chat)
        most = tail(chat)
    assert [outcome(first)] * 3 == [outcome(one) for one in (second, third, reopened)]
    assert all(1 <= one.prefilled_tokens <= most for one in (second, third, reopened))


def test_every_reply_is_kept_beside_the_others(model: Path, tmp_path: Path) -> None:
    with House(model, tmp_path) as house:
        chat = house.chat("talk")
        house.say(chat, MESSAGES[0])
        before = chat.conversation.head
        record = regenerated(chat)
        assert 1 == record.turn
    with House(model, tmp_path) as house:
        conversation = house.chat("talk").conversation
        replies = conversation.children(conversation.turns()[0].user.id)
        assert [before, conversation.head] == [reply.id for reply in replies]


def test_a_seed_gives_each_reply_another_chance_and_the_same_one_every_time(
    model: Path, tmp_path: Path
) -> None:
    said = []
    for name in ("one", "two"):
        with House(model, tmp_path / name) as house:
            chat = replace(house.chat("talk"), sampling=Sampling(1.0, seed=5, max_tokens=24))
            said.append([house.say(chat, MESSAGES[0]).tokens, regenerated(chat).tokens])
    assert said[0] == said[1]
    assert said[0][0] != said[0][1]


def test_a_reply_that_never_began_leaves_the_old_one_in_place(model: Path, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with House(model, tmp_path) as house:
        chat = house.chat("talk")
        house.say(chat, MESSAGES[0])
        before = chat.conversation.head
        assert "cancelled" == finish(turn.again(chat, stopped)).finish_reason
        assert before == chat.conversation.head
        assert 2 == house.say(chat, MESSAGES[1]).turn
    with House(model, tmp_path) as house:
        path = house.chat("talk").conversation.path()
        assert 4 == len(path) and before == path[1].id


def test_a_message_whose_reply_was_lost_gets_one(model: Path, tmp_path: Path) -> None:
    with House(model, tmp_path) as house:
        chat = house.chat("talk")
        turn.append(chat, MESSAGES[0])
        regenerated(chat)
        assert chat.conversation.turns()[0].reply is not None
        assert None is chat.conversation.unanswered()


def test_without_a_question_there_is_nothing_to_repeat(model: Path, tmp_path: Path) -> None:
    with House(model, tmp_path) as house, pytest.raises(NothingToRepeat):
        regenerated(house.chat("talk"))


def test_what_is_saved_is_what_it_took_when_it_was_run(model: Path, tmp_path: Path) -> None:
    with House(model, tmp_path) as house:
        chat = house.chat("talk")
        first, second = house.say(chat, MESSAGES[0]), house.say(chat, MESSAGES[1])
    with House(model, tmp_path) as house:
        reopened = regenerated(house.chat("talk"))
    assert 0.0 == first.avoided_seconds
    # Before the second turn no more had been run than the whole first turn took to prefill.
    assert 0 < second.avoided_seconds < reopened.avoided_seconds
    with House(model, tmp_path, cache=False) as house:
        assert 0.0 == regenerated(house.chat("talk")).avoided_seconds
