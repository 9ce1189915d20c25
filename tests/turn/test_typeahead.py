"""Typeahead: prefilling a message while it is typed, to the same bits; written when the message is sent."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chatcli.conversation.tree import Conversation
from chatcli.kv import prompt_cache
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript
from chatcli.turn import turn, typeahead
from tests.support.families import at_night
from tests.support.harness import MESSAGES, SYSTEM, Harness, finish, outcome

LONG = " ".join(MESSAGES) * 7


def type_ahead(chat: turn.TurnContext, text: str, *, chunks: int | None = None) -> int:
    """Prefill `text` as if typed, or its first chunks; returns the tokens prefilled ahead."""
    stop, tokens = threading.Event(), 0
    for number, event in enumerate(typeahead.typeahead(chat, text, stop), start=1):
        tokens = event.tokens
        if number == chunks:
            stop.set()
    return tokens


def send(harness: Harness, chat: turn.TurnContext, text: str) -> turn.TurnRecord:
    return finish(turn.take(chat, text, threading.Event()))


def cold_record(model: Path, folder: Path, texts: list[str]) -> turn.TurnRecord:
    """The record of the last of these turns, without any cache."""
    with Harness(model, folder, cache=False) as harness:
        chat = harness.chat("talk")
        return [harness.say(chat, text) for text in texts][-1]


def test_a_message_typed_ahead_leaves_only_the_generation_prompt(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        ahead = type_ahead(chat, LONG)
        record = send(harness, chat, LONG)
        assert record.prefilled_tokens <= 16
        assert ahead == record.typeahead_tokens > 300
        assert (
            record.prompt_tokens == record.reused_tokens + record.typeahead_tokens + record.prefilled_tokens
        )
    expected = outcome(cold_record(model, tmp_path / "two", [MESSAGES[0], LONG]))
    assert expected == outcome(record)


def test_a_message_typed_ahead_in_part_leaves_the_rest(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        ahead = type_ahead(chat, LONG, chunks=3)
        record = send(harness, chat, LONG)
        assert 3 * harness.runtime.loaded.prefill_step == ahead == record.typeahead_tokens
    assert outcome(cold_record(model, tmp_path / "two", [MESSAGES[0], LONG])) == outcome(record)


@pytest.mark.parametrize(
    "first", [f"{LONG} And", at_night(LONG[:400]), at_night("Something else."), f"x{LONG}"]
)
def test_another_message_than_the_typed_one_is_answered_as_without_typeahead(
    model: Path, tmp_path: Path, first: str
) -> None:
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        type_ahead(chat, first)
        record = send(harness, chat, LONG)
    assert outcome(cold_record(model, tmp_path / "two", [MESSAGES[0], LONG])) == outcome(record)


def goes_back_by_offset(harness: Harness) -> bool:
    """Whether the cache can go back to any token; one with windows or states goes back to a checkpoint."""
    return prompt_cache.rewinds_by_offset(harness.runtime.checkpoints.fork())


def test_typing_on_continues_from_the_last_whole_chunk_or_the_checkpoint(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        first = type_ahead(chat, LONG)
        events = list(typeahead.typeahead(chat, f"{LONG} And more.", threading.Event()))
        step, by_offset = harness.runtime.loaded.prefill_step, goes_back_by_offset(harness)
    assert (events[0].tokens > first - 2 * step) == by_offset
    assert (len(events) <= 2) == by_offset


def test_a_change_in_the_middle_keeps_the_chunks_before_it_or_the_checkpoint(
    model: Path, tmp_path: Path
) -> None:
    middle = LONG.index(" ", len(LONG) * 3 // 4)
    changed = f"{LONG[:middle]} indeed{LONG[middle:]}"
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        whole = type_ahead(chat, LONG)
        events = list(typeahead.typeahead(chat, changed, threading.Event()))
        record = send(harness, chat, changed)
        by_offset = goes_back_by_offset(harness)
    assert (events[0].tokens > whole // 3) == by_offset
    assert record.prefilled_tokens <= 16
    assert outcome(cold_record(model, tmp_path / "two", [MESSAGES[0], changed])) == outcome(record)


def test_a_message_that_is_not_sent_is_not_written(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
    before = folder_bytes(tmp_path)
    with Harness(model, tmp_path) as harness:
        assert 300 < type_ahead(harness.chat("talk", system=None), LONG)
    assert before == folder_bytes(tmp_path)


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_message_typed_ahead_is_written_when_it_is_sent(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        type_ahead(chat, LONG)
        send(harness, chat, LONG)
    with Harness(model, tmp_path) as harness:
        again = harness.say(harness.chat("talk", at=1), LONG)
    assert again.prefilled_tokens <= 16


def test_the_first_message_of_a_conversation_is_typed_ahead_too(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one") as harness:
        before = SessionLog(Transcript("", Conversation("2026-01-01", SYSTEM)))
        ahead = type_ahead(harness.runtime.turn_context(before, None), LONG)
        chat = harness.chat("talk")
        record = send(harness, chat, LONG)
        assert record.prefilled_tokens <= 16
        assert 300 < record.typeahead_tokens <= ahead
    assert outcome(cold_record(model, tmp_path / "two", [LONG])) == outcome(record)
