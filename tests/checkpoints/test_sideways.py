"""Going to another branch of an open session does not read again what the live cache shares with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chatcli.turn.turn import TurnContext
from tests.support.families import at_night
from tests.support.harness import MESSAGES, Harness, outcome

OTHER_QUESTION = "Now something else."
LAST_QUESTION = "And once more?"


def reply_to(chat: TurnContext, text: str) -> str:
    """The id of the reply to a message."""
    entries = chat.conversation.entries.values()
    (question,) = [entry for entry in entries if entry.message.content == text]
    return chat.conversation.children(question.id)[0].id


def flush(chat: TurnContext) -> None:
    store = chat.checkpoints.store
    assert store is not None
    store.flush()


def flip_first_row_byte(file: Path) -> None:
    """Change the first byte of the first array in `file`."""
    data = bytearray(file.read_bytes())
    data[8 + int.from_bytes(data[:8], "little")] ^= 1
    file.write_bytes(data)


def rows_files(folder: Path) -> list[Path]:
    """The rows files, oldest first."""
    return sorted(folder.rglob("*.rows.safetensors"), key=lambda path: path.stat().st_mtime_ns)


def test_a_branch_in_an_open_session_equals_one_in_a_new_process(model: Path, tmp_path: Path) -> None:
    visits = [(None, text) for text in MESSAGES[:3]]
    visits += [
        (MESSAGES[0], OTHER_QUESTION),
        (MESSAGES[2], LAST_QUESTION),
        (OTHER_QUESTION, LAST_QUESTION + "?"),
    ]
    records = []
    with Harness(model, tmp_path / "open") as harness:
        chat = harness.chat("talk")
        for after, text in visits:
            if after:
                chat.session.move_head(reply_to(chat, after))
            records.append(harness.say(chat, text))
    for number, (after, text) in enumerate(visits):
        with Harness(model, tmp_path / "closed") as harness:
            chat = harness.chat("talk")
            if after:
                chat.session.move_head(reply_to(chat, after))
            record = harness.say(chat, text)
        assert outcome(records[number]) == outcome(record)
        assert (records[number].reused_tokens, None) == (record.reused_tokens, record.miss_reason)


def test_going_back_reads_nothing_where_every_layer_can_be_trimmed(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3", tmp_path) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES[:4]:
            harness.say(chat, text)
        boundary = chat.conversation.path()[1].record["boundaries"]["reply"]
        flush(chat)
        shutil.rmtree(tmp_path / "kv")
        chat.session.move_head(reply_to(chat, MESSAGES[0]))
        record = harness.say(chat, OTHER_QUESTION)
    assert (boundary, None) == (record.reused_tokens, record.miss_reason)


@pytest.mark.parametrize("family", [at_night("qwen3"), at_night("gpt_oss"), "qwen3_5"])
def test_only_segments_that_the_branches_do_not_share_are_read(
    models: Path, family: str, tmp_path: Path
) -> None:
    with Harness(models / family, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        flush(chat)
        shared = rows_files(tmp_path)
        for text in MESSAGES[1:3]:
            harness.say(chat, text)
        chat.session.move_head(reply_to(chat, MESSAGES[0]))
        harness.say(chat, OTHER_QUESTION)
        boundary = chat.conversation.path()[-3].record["boundaries"]["reply"]
        flush(chat)
        if family != "gpt_oss":
            for file in shared:
                flip_first_row_byte(file)
        chat.session.move_head(reply_to(chat, MESSAGES[2]))
        record = harness.say(chat, LAST_QUESTION)
        assert record.miss_reason is None
        assert boundary < record.reused_tokens
    with Harness(models / family, tmp_path / "cold", cache=False) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES[:3]:
            harness.say(chat, text)
        assert outcome(harness.say(chat, LAST_QUESTION)) == outcome(record)
