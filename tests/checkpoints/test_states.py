"""Recurrent states that can be recomputed fast stay in memory only; the last one is written to disk."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from chatcli.store.segments.segments import NEWEST_STATES
from chatcli.turn import typeahead
from tests.checkpoints.test_sideways import flush, reply_to
from tests.support.harness import MESSAGES, Harness, open_all_along, outcome, reopened

# No tiny model takes so long.
SECONDS = 1000.0
OTHER_QUESTION = "Now something else."
LONG_TALK = [*MESSAGES[:4], "Say it again.", "And once more."]


@pytest.fixture
def model(models: Path) -> Path:
    return models / "qwen3_5"


def states(folder: Path) -> int:
    return len(list(folder.rglob("*.state.safetensors")))


def test_a_conversation_has_a_state_for_each_of_its_newest_settled_replies(
    model: Path, tmp_path: Path
) -> None:
    with Harness(model, tmp_path, recompute_seconds=SECONDS) as harness:
        chat = harness.chat("talk")
        for number, text in enumerate(LONG_TALK, start=1):
            harness.say(chat, text)
            flush(chat)
            # And the system prompt's, which other conversations share.
            assert 1 + min(number, NEWEST_STATES) == states(tmp_path)


def test_a_reply_that_was_not_settled_is_where_its_conversation_was_left(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path, recompute_seconds=SECONDS) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0], settle=False)
        flush(chat)
        assert 1 == states(tmp_path)
        harness.say(harness.chat("other"), "Hello.", settle=False)
        flush(chat)
        assert 2 == states(tmp_path)
    assert 3 == states(tmp_path)


def test_after_a_kill_everything_that_was_settled_is_reused(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "killed", recompute_seconds=SECONDS) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES[:3]:
            harness.say(chat, text)
        flush(chat)
        # What a process leaves that ends here and now.
        shutil.copytree(tmp_path / "killed", tmp_path / "left")
    with Harness(model, tmp_path / "left", recompute_seconds=SECONDS) as harness:
        chat = harness.chat("talk")
        boundary = chat.conversation.path()[-1].record["boundaries"]["reply"]
        record = harness.say(chat, MESSAGES[3])
        assert (boundary, None) == (record.reused_tokens, record.miss_reason)


@pytest.mark.slow
def test_reopened_conversations_have_the_same_bits_with_fewer_states(model: Path, tmp_path: Path) -> None:
    every_state = open_all_along(model, tmp_path / "all")
    few_states = reopened(model, tmp_path / "few", recompute_seconds=SECONDS)
    for record, expected in zip(few_states, every_state, strict=True):
        assert outcome(record) == outcome(expected)
        assert (expected.reused_tokens, None) == (record.reused_tokens, record.miss_reason)


def test_a_message_that_is_not_sent_leaves_no_state(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path, recompute_seconds=SECONDS) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        first, *_, settled = chat.checkpoints.live_ids
        for _ in typeahead.typeahead(chat, MESSAGES[1] * 4, threading.Event()):
            pass
        *_, unsent = chat.checkpoints.live_ids
        assert settled != unsent
    states_on_disk = {path.name.partition(".")[0] for path in tmp_path.rglob("*.state.safetensors")}
    assert {first, settled} == states_on_disk


def test_going_back_computes_nothing_where_it_is_open_and_says_why_where_it_is_not(
    model: Path, tmp_path: Path
) -> None:
    with Harness(model, tmp_path, recompute_seconds=SECONDS) as harness:
        chat = harness.chat("talk")
        for text in LONG_TALK:
            harness.say(chat, text)
        first = reply_to(chat, MESSAGES[0])
        boundary = chat.conversation.path()[1].record["boundaries"]["reply"]
        chat.session.move_head(first)
        in_memory = harness.say(chat, OTHER_QUESTION)
        # The other branch has been left: its rows come from disk, its state from memory.
        chat.session.move_head(reply_to(chat, LONG_TALK[-1]))
        back = harness.say(chat, "And now?")
        assert (None, None) == (back.miss_reason, in_memory.miss_reason)
        assert (boundary, True) == (in_memory.reused_tokens, back.reused_tokens > boundary)
    with Harness(model, tmp_path, recompute_seconds=SECONDS) as harness:
        chat = harness.chat("talk")
        chat.session.move_head(first)
        computed = harness.say(chat, OTHER_QUESTION)
        assert 0 < computed.reused_tokens < boundary
        assert f"the state at token {boundary} was not kept" in (computed.miss_reason or "")
    assert outcome(in_memory) == outcome(computed)
