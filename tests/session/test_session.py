"""LiveChat without a terminal: changing sessions, cancelling a model change, compaction."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import chatcli.commands.handlers  # noqa: F401  (registers what a line may run)
from chatcli import pocket
from chatcli.commands import registry
from chatcli.commands.results import HeadMoved, Opened, PlainText, Stream
from chatcli.conversation import finish
from chatcli.conversation.images import Image
from chatcli.errors import ContextFull, FolderError, SessionNotFound, UsageError
from chatcli.events import Event, Notice, TurnDone
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import ModelOptions, Sampling, Settings
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from tests.support.harness import RecordedWork
from tests.support.program import folder_contents
from tests.support.tiny import SPECIAL, update_json, write_model
from tests.support.waiting import wait_until

TIMEOUT_SECONDS = 20.0
NOT_CANCELLED = threading.Event()


@pytest.fixture
def chat(models: Path, tmp_path: Path) -> Iterator[LiveChat]:
    live_chat_ = LiveChat(settings(tmp_path), SessionRequest(), str(models / "qwen3"))
    yield live_chat_
    live_chat_.close()


def settings(folder: Path, tokens: int | None = 4) -> Settings:
    return Settings(sessions=folder / "saved", sampling=Sampling(max_tokens=tokens))


def say(chat: LiveChat, text: str) -> None:
    for _ in chat.take(text, NOT_CANCELLED):
        pass


def messages(chat: LiveChat) -> list[str]:
    return [turn.user.message.content for turn in chat.session.conversation.turns()]


def stream(chat: LiveChat, line: str) -> list[Event]:
    result = registry.run(chat, line)
    assert isinstance(result, Stream)
    return list(result.events(NOT_CANCELLED))


# Sessions


def test_system_reports_a_change_only_where_there_is_one(chat: LiveChat) -> None:
    def answer(argument: str) -> str:
        result = registry.run(chat, f"/system {argument}")
        assert isinstance(result, PlainText)
        return result.text

    for _ in range(2):
        assert "There is no system prompt." == answer("off")
        assert answer("Be kind.").startswith("System prompt changed. ")
        assert "That is already the system prompt." == answer("Be kind.")
        assert "System prompt: Be kind." == answer("")
        assert answer("off").startswith("System prompt removed. ")
        assert "No system prompt." == answer("")
        say(chat, "Hello.")


def test_context_counts_what_the_toolbar_counts(chat: LiveChat) -> None:
    for text in MESSAGES[:2]:
        say(chat, text)
        for _ in chat.settle(NOT_CANCELLED):
            pass
        assert chat.session.used_tokens() == sum(tokens for _, tokens in chat.context_parts())


def test_a_missing_session_names_the_command_that_lists_sessions(chat: LiveChat) -> None:
    with pytest.raises(SessionNotFound, match="In a chat /resume lists them"):
        registry.run(chat, "/resume nosuch")


def test_the_system_prompt_of_an_unsaved_conversation_reaches_no_other(
    chat: LiveChat,
) -> None:
    say(chat, "The quick brown fox.")
    other = chat.session.log
    chat.session.new(None)
    chat.session.set_system("Answer in rhymes.")
    name = other.name
    registry.run(chat, f"/resume {name}")
    say(chat, "My dog is called Biscuit.")
    assert None is chat.session.folder.read(name).conversation.system


def test_a_session_is_there_before_its_first_message_and_on_disk_with_it(chat: LiveChat) -> None:
    chat.session.new("talk")
    for line in ("/system Answer in rhymes.", "/date 2026-01-02", "/set temp 0.3"):
        registry.run(chat, line)
    log = chat.session.log
    assert ("Answer in rhymes.", "2026-01-02", {"temp": 0.3}) == (
        log.conversation.system,
        log.conversation.date,
        log.conversation.settings,
    )
    assert [] == chat.session.folder.names()
    with pytest.raises(UsageError, match="say something first"):
        registry.run(chat, "/tree")
    say(chat, "My dog is called Biscuit.")
    saved = chat.session.folder.read("talk").conversation
    assert ("Answer in rhymes.", "2026-01-02", {"temp": 0.3}) == (saved.system, saved.date, saved.settings)


def test_what_is_asked_of_a_session_is_used_at_once_and_written_with_its_next_message(
    models: Path, tmp_path: Path
) -> None:
    SessionFolder(settings(tmp_path).sessions).create("talk", model=None, system="One.").close()
    request = SessionRequest("talk", system="Two.")
    chat = LiveChat(settings(tmp_path), request, str(models / "qwen3"))
    assert "Two." == chat.session.system
    assert "One." == chat.session.folder.read("talk").conversation.system
    say(chat, "My dog is called Biscuit.")
    assert "Two." == chat.session.folder.read("talk").conversation.system
    chat.close()


class FailingClose(SessionFile):
    """A session file whose last write fails when it is closed."""

    def close(self) -> None:
        super().close()
        raise FolderError("Cannot save to the session: the disk is full.")


@pytest.mark.parametrize("line", ["/new", "/fork", "/resume other"])
def test_an_error_while_closing_a_session_is_reported_and_the_chat_moves_on(
    chat: LiveChat, line: str
) -> None:
    chat.session.folder.create("other", model=None, system=None).close()
    say(chat, "one")
    name = str(chat.session.name)
    before = chat.session.log
    assert before.location is not None
    chat.session.new(None)
    chat.session.switch(FailingClose(before.location))
    result = registry.run(chat, line)
    assert isinstance(result, PlainText | Opened)
    note = result.text if isinstance(result, PlainText) else "".join(result.notes)
    assert note.endswith("Cannot save to the session: the disk is full.")
    say(chat, "two")
    assert "two" == messages(chat)[-1] and name != chat.session.name
    with SessionFolder(chat.model.settings.sessions).open(name) as session:
        assert 1 == len(session.conversation.turns())


# Models


def test_a_model_change_can_be_cancelled_and_stops_loading(models: Path, tmp_path: Path) -> None:
    work = RecordedWork()
    trusting = replace(settings(tmp_path), trust_remote_code=True)
    chat = LiveChat(trusting, SessionRequest(), str(models / "qwen3"), background=work)
    say(chat, "one")
    folder = slow_model(tmp_path / "slow")
    model, stop = chat.model.name, threading.Event()
    chat.model.cancel_on(stop)
    with ThreadPoolExecutor() as executor:
        changing = executor.submit(registry.run, chat, f"/model {folder}")
        wait_until((folder / "waits").exists)
        stop.set()
        with pytest.raises(KeyboardInterrupt):
            changing.result(TIMEOUT_SECONDS)
        assert "" == work.activity and model == chat.model.name
        (folder / "go").touch()
    say(chat, "two")
    assert ["one", "two"] == messages(chat)
    assert "loading slow…" in work.reports and "loading slow… 100 %" not in work.reports
    chat.model.cancel_on(threading.Event())
    registry.run(chat, f"/model {folder}")
    assert "loading slow… 100 %" in work.reports and model != chat.model.name
    chat.close()


def slow_model(folder: Path) -> Path:
    """A model whose own code waits, while it is loaded, until a file `go` is there."""
    write_model(folder, "qwen3")
    update_json(folder / "config.json", model_file="arch.py")
    code = """
import pathlib, time
here = pathlib.Path(__file__).parent
(here / "waits").touch()
while not (here / "go").exists():
    time.sleep(0.01)
from mlx_lm.models.qwen3 import Model, ModelArgs
"""
    (folder / "arch.py").write_text(code)
    return folder


# Compaction


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model with a context that a short conversation fills."""
    folder = tmp_path_factory.mktemp("small") / "pocket"
    shutil.copytree(pocket.FOLDER, folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 600
    (folder / "config.json").write_text(json.dumps(config))
    return folder


MESSAGES = (
    "My dog is called Biscuit.",
    "I live in Lisbon.",
    "My sister is called Clara. " + "Remember it well. " * 20,
    "Our train leaves at seven. " + "Remember it well. " * 20,
)


@pytest.fixture
def full(small: Path, tmp_path: Path) -> Iterator[LiveChat]:
    """A conversation whose next message does not fit."""
    chat = LiveChat(settings(tmp_path, None), SessionRequest("talk"), str(small))
    for message in MESSAGES:
        say(chat, message)
    with pytest.raises(ContextFull):
        say(chat, MESSAGES[-1] * 2)
    yield chat
    chat.close()


@pytest.mark.slow
def test_compaction_summarizes_what_fits_and_keeps_the_last_turns(
    full: LiveChat,
) -> None:
    before = folder_contents(full.model.settings.sessions)["talk.jsonl"]
    events = stream(full, "/compact")
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert "talk-2" == full.session.name
    assert notices == [
        "Kept word for word after it: turn 4.",
        "'talk-2' continues from this summary. /undo goes back to 'talk'.",
    ]
    assert [MESSAGES[3]] == messages(full)
    assert "Summary of the conversation so far:" in str(full.session.system)
    say(full, "Hello again.")
    assert "Hello again." == messages(full)[-1]
    assert before == folder_contents(full.model.settings.sessions)["talk.jsonl"]
    with SessionFolder(full.model.settings.sessions).open("talk") as original:
        assert list(MESSAGES) == [turn.user.message.content for turn in original.conversation.turns()]


@pytest.mark.slow
def test_compaction_names_a_turn_that_fits_nowhere(small: Path, tmp_path: Path) -> None:
    chat = LiveChat(settings(tmp_path, None), SessionRequest("talk"), str(small))
    for message in (*MESSAGES[:2], "Remember it well. " * 60):
        say(chat, message)
    notices = [event.text for event in stream(chat, "/compact") if isinstance(event, Notice)]
    assert "Left out, because there was no room: turn 3." == notices[0]
    assert "talk-2" == chat.session.name and [] == messages(chat)
    chat.close()


@pytest.mark.slow
def test_a_conversation_without_room_for_a_summary_is_not_compacted(small: Path, tmp_path: Path) -> None:
    chat = LiveChat(settings(tmp_path, None), SessionRequest("talk"), str(small))
    say(chat, "Remember it well. " * 75)
    with pytest.raises(ContextFull, match="/rewind goes back"):
        stream(chat, "/compact")
    assert "talk" == chat.session.name and ["talk"] == chat.session.folder.names()
    chat.close()


@pytest.mark.slow
def test_the_last_turns_stay_word_for_word_and_undo_goes_back(tmp_path: Path) -> None:
    chat = LiveChat(settings(tmp_path, 20), SessionRequest("talk"), "pocket")
    for message in MESSAGES[:3]:
        say(chat, message)
    replies = [turn.reply for turn in chat.session.conversation.turns()]
    stream(chat, "/compact")
    assert ("talk-2", list(MESSAGES[1:3])) == (chat.session.name, messages(chat))
    kept = [turn.reply for turn in chat.session.conversation.turns()]
    assert [each and each.message for each in replies[1:]] == [each and each.message for each in kept]
    undone = registry.run(chat, "/undo")
    assert isinstance(undone, HeadMoved)
    assert "The conversation continues in 'talk', as it was." == undone.text
    assert ("talk", list(MESSAGES[:3])) == (chat.session.name, messages(chat))
    assert ["talk"] == chat.session.folder.names()
    stream(chat, "/compact")
    say(chat, MESSAGES[1])
    registry.run(chat, "/undo")
    assert ("talk-2", list(MESSAGES[1:3])) == (chat.session.name, messages(chat))
    chat.close()


@pytest.mark.slow
def test_undo_goes_back_to_the_turn_that_was_open_and_to_what_was_set_there(tmp_path: Path) -> None:
    chat = LiveChat(settings(tmp_path, 20), SessionRequest("talk"), "pocket")
    for message in MESSAGES[:3]:
        say(chat, message)
    chat.set("temp", 0.25)
    chat.close()
    chat = LiveChat(settings(tmp_path, 20), SessionRequest("talk", at=2), "pocket")
    stream(chat, "/compact")
    chat.set("temp", 1.5)
    chat.session.set_think(False)
    registry.run(chat, "/undo")
    assert ("talk", list(MESSAGES[:2])) == (chat.session.name, messages(chat))
    assert (0.25, None) == (chat.model.sampling.temp, chat.session.think)
    chat.close()


@pytest.mark.slow
def test_a_model_that_finishes_no_summary_does_no_harm(chat: LiveChat) -> None:
    chat.model.set_sampling(Sampling(max_tokens=4, logit_bias=((SPECIAL.index("<|im_end|>"), -1000.0),)))
    for message in MESSAGES[:2]:
        say(chat, message)
    name, before = chat.session.name, [entry.message for entry in chat.session.conversation.path()]
    events = stream(chat, "/compact")
    shown = [type(event) for event in events if isinstance(event, Notice | TurnDone)]
    assert [Notice, TurnDone] == shown
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert "The summary was not finished: the conversation is as it was." == notice.text
    assert finish.reports_cut(notice)
    assert (name, before) == (
        chat.session.name,
        [entry.message for entry in chat.session.conversation.path()],
    )
    assert [name] == chat.session.folder.names()


def test_one_turn_is_not_summarized(chat: LiveChat) -> None:
    say(chat, MESSAGES[0])
    with pytest.raises(UsageError, match="nothing to summarize yet"):
        stream(chat, "/compact")


@pytest.mark.slow
def test_a_stop_text_cuts_no_summary(small: Path, tmp_path: Path) -> None:
    summaries = []
    for stop in (None, ("e", "a", " ")):
        chat = LiveChat(settings(tmp_path / str(stop), None), SessionRequest("talk"), str(small))
        for message in MESSAGES[:2]:
            say(chat, message)
        chat.model.set_sampling(Sampling(stop=stop, max_tokens=None if stop is None else 1))
        stream(chat, "/compact")
        summaries.append(str(chat.session.system).partition("so far:")[2].strip())
        chat.close()
    assert summaries[0] == summaries[1] and {"e", "a", " "} & set(summaries[0])


def test_a_replaced_typeahead_has_ended_when_a_turn_begins(models: Path, tmp_path: Path) -> None:
    small_chunks = replace(settings(tmp_path), model_options=ModelOptions(prefill_step_size=1024))
    chat = LiveChat(small_chunks, SessionRequest(), str(models / "qwen3"))
    say(chat, "hello")
    chat.background.stop()
    chat.type_ahead("river " * 900)
    first = chat.background._typeahead
    wait_until(lambda: first is not None and first.future.running())
    chat.type_ahead("another")
    chat.background.stop()
    assert first is not None and first.future.done()
    chat.close()


def test_a_message_that_is_typed_is_expanded_off_the_terminals_thread(chat: LiveChat) -> None:
    say(chat, "hello")
    asked: list[int] = []

    def expand() -> tuple[str, Sequence[Image]]:
        asked.append(threading.get_ident())
        return "river " * 20, ()

    chat.type_ahead("@file", expand=expand)
    wait_until(lambda: "prepared" in chat.background.activity)
    assert asked and threading.get_ident() not in asked


# Closing


def test_closing_a_session_again_closes_no_other_file(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    first = folder.create("first", model=None, system=None)
    first.close()
    second = folder.create("second", model=None, system=None)
    first.close()
    second.set_system("Be kind.")
    second.close()
    assert "Be kind." == folder.read("second").conversation.system


def test_what_went_wrong_with_writing_is_told_when_the_model_changes(models: Path, tmp_path: Path) -> None:
    # A recurrent state is written when its model is let go.
    chat = LiveChat(settings(tmp_path), SessionRequest(), str(models / "qwen3_5"))
    say(chat, "hello")
    store = chat.model.wait().checkpoints.store
    assert store is not None
    wait_until(lambda: not store.unwritten)
    # No checkpoint can be written below a file.
    cache = chat.model.settings.sessions / "kv"
    shutil.rmtree(cache)
    cache.write_text("")
    notes = chat.model.change(str(models / "qwen3"))
    assert any("checkpoints are off" in note for note in notes)
    chat.close()
