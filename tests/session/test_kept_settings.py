"""A session saves the values of `/set` and `/think`, as it saves its model options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chatcli import Chat
from chatcli.cli.options import Options
from chatcli.commands import registry
from chatcli.commands.results import PlainText
from chatcli.exchange import export, importing
from chatcli.session import opening
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import IN_SHELL, Sampling, Settings
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.transcript import parse
from tests.session.test_session import say
from tests.store.sessions.test_folder import HEADER, line


@contextmanager
def opened(
    folder: Path, name: str | None = "talk", /, model: Path | None = None, **given: Any
) -> Iterator[LiveChat]:
    """A chat as the command line opens it, with these settings as flags."""
    think = given.pop("think", None)
    settings = Settings(sessions=folder, sampling=Sampling(**given), think=think, typeahead=False)
    flags = frozenset(given) | ({"think"} if think is not None else set())
    chat = LiveChat(settings, SessionRequest(name, flags=flags), str(model) if model else None)
    chat.model.wait()
    try:
        yield chat
    finally:
        chat.close()


def kept(folder: Path, name: str = "talk") -> Mapping[str, Any]:
    return SessionFolder(folder).read(name).conversation.settings


def answer(chat: LiveChat, command: str) -> str:
    result = registry.run(chat, command)
    assert isinstance(result, PlainText)
    return result.text


@pytest.fixture
def folder(models: Path, tmp_path: Path) -> Path:
    """A folder in which the session "talk" has a temperature of 0.7 and no thinking."""
    with opened(tmp_path, max_tokens=2, model=models / "qwen3") as chat:
        say(chat, "Hello.")
        for command in ("/set temp 0.7", "/set stop END", "/think off"):
            registry.run(chat, command)
    return tmp_path


def test_a_reopened_session_has_what_was_set_there(folder: Path) -> None:
    assert {"temp": 0.7, "stop": ["END"], "think": False} == kept(folder)
    with opened(folder) as chat:
        assert (0.7, ("END",), False) == (
            chat.model.sampling.temp,
            chat.model.sampling.stop,
            chat.session.think,
        )
        assert [] == chat.notes()


def test_flags_win_for_one_run_and_the_difference_is_said(folder: Path) -> None:
    with opened(folder, temp=0.2, think=True, top_p=0.9) as chat:
        assert (0.2, 0.9, True) == (chat.model.sampling.temp, chat.model.sampling.top_p, chat.session.think)
        assert ["temp 0.2 (the session has 0.7), think on (the session has off)"] == chat.notes()
    assert {"temp": 0.7, "stop": ["END"], "think": False} == kept(folder)
    with opened(folder, temp=0.7) as chat:
        assert [] == chat.notes()


@pytest.mark.parametrize("word", ["off", "default"])
def test_a_setting_goes_back_to_the_models_own(word: str, folder: Path) -> None:
    with opened(folder) as chat:
        registry.run(chat, f"/set temp {word}")
        registry.run(chat, "/think default")
        assert (None, None) == (chat.model.settings.sampling.temp, chat.session.think)
    with opened(folder) as chat:
        assert (None, None) == (chat.model.settings.sampling.temp, chat.session.think)


def test_what_is_set_before_the_first_message_is_kept(models: Path, tmp_path: Path) -> None:
    with opened(tmp_path, max_tokens=2, model=models / "qwen3") as chat:
        registry.run(chat, "/set seed 5")
        registry.run(chat, "/think on")
        say(chat, "Hello.")
    assert {"seed": 5, "think": True} == kept(tmp_path)


def test_each_session_of_a_shell_has_its_own(folder: Path, models: Path) -> None:
    with opened(folder, "other", model=models / "qwen3", max_tokens=2, top_p=0.5) as chat:
        say(chat, "Hello.")
        registry.run(chat, "/set temp 0.1")
        chat.resume("talk")
        assert (0.7, 0.5, False) == (chat.model.sampling.temp, chat.model.sampling.top_p, chat.session.think)
        chat.resume("other")
        assert (0.1, None) == (chat.model.sampling.temp, chat.session.think)
        registry.run(chat, "/new third")
        say(chat, "Hello.")
        assert 0.1 == chat.model.sampling.temp
    assert {"temp": 0.1} == kept(folder, "third")


def test_branches_exports_and_imports_have_it(folder: Path, tmp_path: Path) -> None:
    sessions = SessionFolder(folder)
    opening.branch(sessions, "talk", None, "branch").close()
    assert kept(folder) == kept(folder, "branch")
    exported = export.text_of("json", "talk", sessions.read("talk").conversation)
    importing.save(sessions, importing.read(exported.encode()), "imported").close()
    assert kept(folder) == kept(folder, "imported")


def test_the_python_api_keeps_it_too(folder: Path) -> None:
    with Chat("talk", sessions=folder, temp=0.3, max_tokens=2) as chat:
        assert ["temp 0.3 (the session has 0.7)"] == chat.notes
        assert not chat.send("And?").text().count("END")
    assert 0.7 == kept(folder)["temp"]


def test_damaged_settings_of_a_session_are_left_out(folder: Path, models: Path, tmp_path: Path) -> None:
    damaged = {"temp": "hot", "top_p": 7, "seed": True, "think": "loud", "kv_bits": 4, "min_p": 0.5}
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(HEADER + line(type="set", set=damaged))
    with opened(tmp_path, "damaged", model=models / "qwen3") as chat:
        assert Sampling(min_p=0.5) == chat.model.settings.sampling
        assert None is chat.session.think
    assert 1 == len(parse("dog", HEADER + line(type="set", set=["temp"])).problems)


def test_flags_are_those_of_the_command_line() -> None:
    options = Options(flags={"temp": 0.5, "top_p": None, "stop": [], "think": False})
    assert {"temp", "think"} == options.request().flags
    assert "think" not in IN_SHELL
