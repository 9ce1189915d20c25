"""What was settled between the last reply and a message is reported in that message's turn."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from chatcli.events import TurnRecord
from chatcli.session import opening
from chatcli.turn import regenerate, settled, turn
from chatcli.turn.misses import STOPPED
from tests.support.harness import MESSAGES, finish
from tests.support.scripted import REPLY_TOKENS, ScriptedHarness
from tests.support.tiny import write_model

OTHER_SYSTEM = "Be brief, and remember what you were told."
CHANGED = "the prompt changed at token "
NEVER = threading.Event()


def talk(harness: ScriptedHarness, turns: int = 2) -> turn.TurnContext:
    """A session whose turns are settled."""
    chat = harness.chat("talk")
    for text in MESSAGES[:turns]:
        harness.settle(chat, harness.take(chat, text).record)
    return chat


def settle(harness: ScriptedHarness, chat: turn.TurnContext, events: int | None = None) -> int:
    """Settle the last reply; returns the tokens that were run."""
    return len(harness.settle(chat, TurnRecord("talk", 0), events))


def check(record: TurnRecord, settled_tokens: int) -> None:
    """Assert that so many of the reused tokens were run again, and that the reason is a changed prompt."""
    assert settled_tokens == record.reused_settled_tokens <= record.reused_tokens
    assert record.settle_reason is not None and record.settle_reason.startswith(CHANGED)


def test_of_the_reply_alone_there_is_a_count_and_no_reason(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat, tokens = harness.chat("talk"), 0
        for text in MESSAGES[:3]:
            record = harness.take(chat, text).record
            assert (tokens, None) == (record.reused_settled_tokens, record.settle_reason)
            tokens = settle(harness, chat)
            assert tokens > REPLY_TOKENS


def test_an_unsettled_turn_has_none(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.take(chat, MESSAGES[0])
        record = harness.take(chat, MESSAGES[1]).record
    assert record.reused_tokens > 0 == record.reused_settled_tokens


@pytest.mark.parametrize("reopened", [False, True])
def test_after_another_system_prompt_the_whole_conversation_counts(
    model: Path, tmp_path: Path, reopened: bool
) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = talk(harness)
        chat.session.set_system(OTHER_SYSTEM)
        tokens = settle(harness, chat)
        if not reopened:
            check(harness.take(chat, MESSAGES[2]).record, tokens)
    if reopened:
        with ScriptedHarness(model, tmp_path) as harness:
            record = harness.take(harness.chat("talk"), MESSAGES[2]).record
            check(record, tokens)
            assert record.reused_tokens == tokens > 2 * REPLY_TOKENS


@pytest.mark.slow
def test_it_is_told_once(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = talk(harness)
        chat.session.set_system(OTHER_SYSTEM)
        settle(harness, chat)
        harness.take(chat, MESSAGES[2])
        tokens = settle(harness, chat)
        record = harness.take(chat, MESSAGES[3]).record
    assert (tokens, None) == (record.reused_settled_tokens, record.settle_reason)


def test_after_going_back_to_the_first_system_prompt_nothing_was_run_again(
    model: Path, tmp_path: Path
) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.take(chat, MESSAGES[0])
        first, system = settle(harness, chat), chat.conversation.system
        chat.session.set_system(OTHER_SYSTEM)
        assert settle(harness, chat) > first
        chat.session.set_system(system)
        assert 0 == settle(harness, chat)
        record = harness.take(chat, MESSAGES[1]).record
    assert first == record.reused_settled_tokens


@pytest.mark.slow
def test_a_branch_and_a_rewind_count_what_they_have_of_it(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = talk(harness)
        chat.session.set_system(OTHER_SYSTEM)
        tokens = settle(harness, chat)
        opening.branch(harness.folder, chat.session, None, "branch").close()
        check(harness.take(harness.chat("branch"), MESSAGES[2]).record, tokens)
        chat.session.move_head(chat.conversation.end_of_turn(1))
        record = harness.take(chat, MESSAGES[3]).record
    check(record, record.reused_tokens)
    assert REPLY_TOKENS < record.reused_tokens < tokens


@pytest.mark.slow
def test_another_reply_counts_what_its_prompt_has_of_it(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = talk(harness)
        chat.session.set_system(OTHER_SYSTEM)
        tokens = settle(harness, chat)
        record = finish(regenerate.regenerate(chat, NEVER))
    check(record, record.reused_tokens)
    assert record.reused_tokens < tokens


def test_after_a_stopped_turn_the_reason_is_that(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = talk(harness, 1)
        assert harness.take(chat, " ".join(MESSAGES) * 9, stop=2).record.unrun_tokens
        tokens = settle(harness, chat)
        record = harness.take(chat, MESSAGES[1]).record
    assert (tokens, STOPPED) == (record.reused_settled_tokens, record.settle_reason)
    assert record.miss_reason is None


@pytest.mark.slow
def test_a_settle_that_goes_on_adds_to_what_it_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = talk(harness)
        chat.session.set_system(OTHER_SYSTEM)
        begun, rest = settle(harness, chat, events=3), settle(harness, chat)
        assert 0 < begun and 0 < rest
        record = harness.take(chat, MESSAGES[2]).record
    check(record, begun + rest)
    assert record.reused_tokens == begun + rest


@pytest.mark.slow
def test_a_turn_that_cuts_a_settle_counts_what_it_ran(model: Path, tmp_path: Path) -> None:
    with ScriptedHarness(model, tmp_path) as harness:
        chat = talk(harness)
        chat.session.set_system(OTHER_SYSTEM)
        begun = settle(harness, chat, events=3)
        record = harness.take(chat, MESSAGES[2]).record
    check(record, begun)
    assert record.reused_tokens == begun


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3_5"])
def test_a_settle_that_is_killed_has_told_what_it_ran(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "NOTE_SECONDS", -1.0)
    model = write_model(tmp_path / "model", family)
    with ScriptedHarness(model, tmp_path / "sessions") as harness:
        chat = talk(harness, 3)
        chat.session.set_system(OTHER_SYSTEM)
        assert harness.store is not None
        with contextlib.closing(turn.settle(chat, NEVER)) as events:
            for _ in range(6):
                next(events)
            harness.store.flush()
    with ScriptedHarness(model, tmp_path / "sessions") as harness:
        chat = harness.chat("talk")
        assert 0 < settle(harness, chat)
        record = harness.take(chat, MESSAGES[3]).record
    check(record, record.reused_tokens)
