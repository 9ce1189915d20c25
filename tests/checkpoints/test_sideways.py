"""Going to another branch in an open session: what the live cache shares with it is not read again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chatcli.turn.turn import TurnContext
from tests.support.families import at_night
from tests.support.harness import MESSAGES, Harness, outcome

ELSEWHERE = "Now something else."
AGAIN = "And once more?"


def reply_to(chat: TurnContext, text: str) -> str:
    """The id of the reply to a message."""
    said = chat.conversation.entries.values()
    (asked,) = [entry for entry in said if entry.message.content == text]
    return chat.conversation.children(asked.id)[0].id


def flushed(chat: TurnContext) -> None:
    store = chat.checkpoints.store
    assert store is not None
    store.flush()


def spoil(file: Path) -> None:
    """Change the first byte of its first array."""
    data = bytearray(file.read_bytes())
    data[8 + int.from_bytes(data[:8], "little")] ^= 1
    file.write_bytes(data)


def rows_files(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.rglob("*.rows.safetensors"), key=lambda path: path.stat().st_mtime_ns)


def test_a_branch_in_an_open_session_is_what_it_is_in_a_new_process(model: Path, tmp_path: Path) -> None:
    path = [(None, text) for text in MESSAGES[:3]]
    path += [(MESSAGES[0], ELSEWHERE), (MESSAGES[2], AGAIN), (ELSEWHERE, AGAIN + "?")]
    records = []
    with Harness(model, tmp_path / "open") as harness:
        chat = harness.chat("talk")
        for after, text in path:
            if after:
                chat.saved.move_head(reply_to(chat, after))
            records.append(harness.say(chat, text))
    for number, (after, text) in enumerate(path):
        with Harness(model, tmp_path / "closed") as harness:
            chat = harness.chat("talk")
            if after:
                chat.saved.move_head(reply_to(chat, after))
            record = harness.say(chat, text)
        assert outcome(records[number]) == outcome(record)
        assert (records[number].reused_tokens, None) == (record.reused_tokens, record.miss_reason)


def test_going_back_reads_nothing_where_a_cache_is_cut_anywhere(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3", tmp_path) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES[:4]:
            harness.say(chat, text)
        boundary = chat.conversation.path()[1].record["boundaries"]["reply"]
        flushed(chat)
        shutil.rmtree(tmp_path / "kv")
        chat.saved.move_head(reply_to(chat, MESSAGES[0]))
        record = harness.say(chat, ELSEWHERE)
    assert (boundary, None) == (record.reused_tokens, record.miss_reason)


@pytest.mark.parametrize("family", [at_night("qwen3"), at_night("gpt_oss"), "qwen3_5"])
def test_only_what_the_branches_do_not_share_is_read(models: Path, family: str, tmp_path: Path) -> None:
    with Harness(models / family, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        flushed(chat)
        shared = rows_files(tmp_path)
        for text in MESSAGES[1:3]:
            harness.say(chat, text)
        chat.saved.move_head(reply_to(chat, MESSAGES[0]))
        harness.say(chat, ELSEWHERE)
        boundary = chat.conversation.path()[-3].record["boundaries"]["reply"]
        flushed(chat)
        if family != "gpt_oss":
            for file in shared:
                spoil(file)
        chat.saved.move_head(reply_to(chat, MESSAGES[2]))
        record = harness.say(chat, AGAIN)
        assert record.miss_reason is None
        assert boundary < record.reused_tokens
    with Harness(models / family, tmp_path / "cold", cache=False) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES[:3]:
            harness.say(chat, text)
        assert outcome(harness.say(chat, AGAIN)) == outcome(record)
