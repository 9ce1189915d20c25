"""What is typed is prefilled before it is sent: the same bits, less to wait for, nothing on disk."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chatcli.conversation.tree import Conversation
from chatcli.turn import turn, typeahead
from tests.support.families import at_night
from tests.support.harness import MESSAGES, SYSTEM, Harness, finish, outcome

LONG = " ".join(MESSAGES) * 7


def drafted(chat: turn.TurnContext, text: str, *, chunks: int | None = None) -> int:
    """Draft `text`, as a whole or its first chunks; the tokens that are ahead then."""
    stop, done = threading.Event(), 0
    for number, event in enumerate(typeahead.typeahead(chat, text, stop), start=1):
        done = event.tokens
        if number == chunks:
            stop.set()
    return done


def sent(harness: Harness, chat: turn.TurnContext, text: str) -> turn.TurnRecord:
    return finish(turn.take(chat, text, threading.Event()))


def cold(model: Path, folder: Path, texts: list[str]) -> turn.TurnRecord:
    """The last of these turns, without any cache."""
    with Harness(model, folder, cache=False) as harness:
        chat = harness.chat("talk")
        return [harness.say(chat, text) for text in texts][-1]


def test_a_drafted_message_leaves_the_generation_prompt_alone(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        ahead = drafted(chat, LONG)
        record = sent(harness, chat, LONG)
        assert record.prefilled_tokens <= 16
        assert ahead == record.drafted_tokens > 300
        assert record.prompt_tokens == record.reused_tokens + record.prefilled_tokens
    expected = outcome(cold(model, tmp_path / "two", [MESSAGES[0], LONG]))
    assert expected == outcome(record)


def test_a_partly_drafted_message_leaves_the_rest(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        ahead = drafted(chat, LONG, chunks=3)
        record = sent(harness, chat, LONG)
        assert 3 * harness.runtime.loaded.prefill_step == ahead == record.drafted_tokens
    assert outcome(cold(model, tmp_path / "two", [MESSAGES[0], LONG])) == outcome(record)


@pytest.mark.parametrize(
    "first", [f"{LONG} And", at_night(LONG[:400]), at_night("Something else."), f"x{LONG}"]
)
def test_another_message_than_the_drafted_one_is_answered_as_if_there_had_been_none(
    model: Path, tmp_path: Path, first: str
) -> None:
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        drafted(chat, first)
        record = sent(harness, chat, LONG)
    assert outcome(cold(model, tmp_path / "two", [MESSAGES[0], LONG])) == outcome(record)


def test_typing_on_goes_on_from_the_last_whole_chunk(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        first = drafted(chat, LONG)
        events = list(typeahead.typeahead(chat, f"{LONG} And more.", threading.Event()))
        step = harness.runtime.loaded.prefill_step
    assert events[0].tokens > first - 2 * step
    assert len(events) <= 2


def test_a_change_in_the_middle_keeps_what_stands_before_it(model: Path, tmp_path: Path) -> None:
    middle = LONG.index(" ", len(LONG) * 3 // 4)
    changed = f"{LONG[:middle]} indeed{LONG[middle:]}"
    with Harness(model, tmp_path / "one") as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        whole = drafted(chat, LONG)
        events = list(typeahead.typeahead(chat, changed, threading.Event()))
        record = sent(harness, chat, changed)
    # The places to go back to are further apart where each takes memory.
    assert events[0].tokens > whole // 3
    assert record.prefilled_tokens <= 16
    assert outcome(cold(model, tmp_path / "two", [MESSAGES[0], changed])) == outcome(record)


def test_a_draft_that_is_not_sent_is_not_written(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
    before = files(tmp_path)
    with Harness(model, tmp_path) as harness:
        assert 300 < drafted(harness.chat("talk", system=None), LONG)
    assert before == files(tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_drafted_message_is_written_when_it_is_sent(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        drafted(chat, LONG)
        sent(harness, chat, LONG)
    with Harness(model, tmp_path) as harness:
        again = harness.say(harness.chat("talk", at=1), LONG)
    assert again.prefilled_tokens <= 16


def test_the_first_message_of_a_conversation_is_drafted_too(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path / "one") as harness:
        before = Conversation("2026-01-01", SYSTEM)
        ahead = drafted(harness.runtime.unsaved_context(before, None), LONG)
        chat = harness.chat("talk")
        record = sent(harness, chat, LONG)
        assert record.prefilled_tokens <= 16
        assert 300 < record.drafted_tokens <= ahead
    assert outcome(cold(model, tmp_path / "two", [LONG])) == outcome(record)
