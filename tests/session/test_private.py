"""Private conversations: reuse in memory as always, and no trace on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import chatcli.commands.handlers  # noqa: F401  (registers what a line may run)
from chatcli.api import Chat
from chatcli.commands import registry
from chatcli.commands.results import PlainText
from chatcli.errors import UsageError
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling, Settings
from chatcli.store.sessions.folder import SessionFolder
from tests.support.harness import MESSAGES
from tests.support.program import folder_contents
from tests.support.sight import write_picture
from tests.support.waiting import wait_until

SECRETS = ("heliotrope is my word", "ultramarine is another")


def tokens_of(chat: Chat) -> list[bytes]:
    """The tokens of each segment of the live path, as a rows file holds them."""
    path = chat._chat.model.wait().checkpoints.live.position.path
    return [np.asarray(path.tokens_of(segment), "<i4").tobytes() for segment in path]


def found(folder: Path, *needles: str | bytes) -> list[str]:
    """The files whose names or bytes hold one of these."""
    wanted = [each.encode() if isinstance(each, str) else each for each in needles]
    return [
        name
        for name, data in folder_contents(folder).items()
        if any(each in data or each in name.encode() for each in wanted)
    ]


def test_a_private_conversation_is_the_same_and_leaves_no_file(model: Path, tmp_path: Path) -> None:
    replies = []
    for private in (False, True):
        folder = tmp_path / str(private)
        with Chat(model=str(model), sessions=folder, private=private, max_tokens=8) as chat:
            for text in MESSAGES[:3]:
                chat.send(text).text()
                record = chat.stats
            replies.append((record["tokens"], record["logprobs"], record["reused_tokens"]))
            assert (None if private else "my-dog-is-called-biscuit") == chat.name
    assert replies[0] == replies[1] and replies[1][2] > 0
    assert not (tmp_path / "True").exists()


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5", "gpt_oss"])
def test_what_was_private_is_not_written_by_what_follows(family: str, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    chat = Chat(model=str(models / family), sessions=folder, max_tokens=8, recompute_seconds=0.0)
    with chat:
        chat.send(MESSAGES[0]).text()
        registry.run(chat._chat, "/private")
        for secret in SECRETS:
            chat.send(secret).text()
        secrets = tokens_of(chat)
        registry.run(chat._chat, "/private off")
        chat.send(MESSAGES[0]).text()
        assert chat.stats["reused_tokens"] > 0
        shared = tokens_of(chat)
    assert [] == found(folder, *SECRETS, *(each for each in secrets if each not in shared))
    assert 2 == len(SessionFolder(folder).names())


def test_a_saved_session_goes_on_privately_and_stays_as_it_is(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    with Chat("talk", model=str(models / "qwen3_5"), sessions=folder, max_tokens=8) as chat:
        chat.send(MESSAGES[0]).text()
    before = folder_contents(folder)
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with Chat("talk", sessions=folder, model=str(models / "qwen3_5"), private=True, max_tokens=8) as chat:
        chat.send(SECRETS[0]).text()
        assert 2 == len(chat.turns) and chat.stats["reused_tokens"] > 0
    assert before == folder_contents(folder)
    assert times == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5"])
def test_save_keeps_it_with_its_checkpoints(family: str, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    with Chat(model=str(models / family), sessions=folder, private=True, max_tokens=8) as chat:
        for text in MESSAGES[:2]:
            chat.send(text).text()
        if family == "qwen3":
            assert "the trip" == chat.save("the trip")
        else:
            result = registry.run(chat._chat, "/save the trip")
            assert PlainText("Saved as 'the trip'. What you say is saved from now on.") == result
        in_memory = chat._chat.session.conversation.entries
        with pytest.raises(UsageError, match="Every message is saved already"):
            registry.run(chat._chat, "/save again")
    assert ["the trip"] == SessionFolder(folder).names()
    saved = SessionFolder(folder).read("the trip").conversation.entries
    assert [each.message for each in in_memory.values()] == [each.message for each in saved.values()]
    with Chat("the trip", model=str(models / family), sessions=folder, max_tokens=8) as chat:
        chat.send(MESSAGES[2]).text()
        assert chat.stats["reused_tokens"] > 0 and chat.stats["miss_reason"] is None


def test_images_of_a_private_conversation_are_in_memory(vision_model: Path, tmp_path: Path) -> None:
    folder, image = tmp_path / "saved", write_picture(tmp_path / "cat.png", 7)
    with Chat(
        model=str(vision_model), sessions=folder, private=True, max_tokens=4, trust_remote_code=True
    ) as chat:
        chat.send("What is this?", images=[image]).text()
        chat.send("And now?").text()
        assert chat.stats["reused_tokens"] > 0 and not folder.exists()
        registry.run(chat._chat, "/save")
    assert [image.read_bytes()] == [path.read_bytes() for path in folder.glob("images/??/*")]


def test_a_draft_model_writes_nothing_either(models: Path, tmp_path: Path) -> None:
    model = str(models / "qwen3")
    options = {"draft_model": model, "max_tokens": 8}
    with Chat(model=model, sessions=tmp_path / "saved", private=True, **options) as chat:
        for text in MESSAGES[:2]:
            chat.send(text).text()
    assert not (tmp_path / "saved").exists()


@pytest.fixture
def chat(models: Path, tmp_path: Path) -> Iterator[LiveChat]:
    settings = Settings(sessions=tmp_path / "saved", sampling=Sampling(max_tokens=4))
    chat = LiveChat(settings, SessionRequest(private=True), str(models / "qwen3"))
    yield chat
    chat.close()


def test_commands_that_make_files_are_refused_and_new_stays_private(chat: LiveChat, tmp_path: Path) -> None:
    wait_until(lambda: not chat.model.loading)
    with pytest.raises(UsageError, match="There is no conversation yet"):
        registry.run(chat, "/save")
    for _ in chat.take(SECRETS[0], threading.Event()):
        pass
    for line in ("/branch", "/rename other", "/compact"):
        with pytest.raises(UsageError, match="this one is private: /save keeps it first"):
            result = registry.run(chat, line)
            list(result.events(threading.Event()))  # type: ignore[union-attr]
    for line in ("/tree", "/stats", "/label here", "/system Be brief.", "/set temp 0.5", "/undo", "/new"):
        registry.run(chat, line)
    assert chat.session.log.is_private and "private conversation" == chat.session.title
    assert not (tmp_path / "saved").exists()
