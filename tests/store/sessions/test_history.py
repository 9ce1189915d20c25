"""The composer's history: private, and deleted with its session."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from chatcli.files import Location
from chatcli.store.sessions import history
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.history import Typed
from chatcli.tui.composer.history import SessionHistory
from tests.support.program import Program
from tests.support.shell import leave, open_shell, send_message

TYPED = [
    Typed("dog", "My dog is\ncalled Biscuit.", ((3, 9), (10, 16))),
    Typed(None, "/help"),
    Typed("cat", "Über 🐈?"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Location:
    for name in ("dog", "cat"):
        SessionFolder(tmp_path).create(name, model="m", system=None).close()
    history.append(Location.of(tmp_path), TYPED)
    return Location.of(tmp_path)


def test_what_was_typed_is_there_again(folder: Location) -> None:
    assert TYPED == history.entries(folder)


def test_it_goes_with_its_session(folder: Location) -> None:
    SessionFolder(folder.path).delete("dog")
    assert TYPED[1:] == history.entries(folder)
    assert b"Biscuit" not in (folder.path / history.NAME).read_bytes()


def test_it_is_renamed_with_its_session(folder: Location) -> None:
    SessionFolder(folder.path).rename("cat", "lion")
    assert ["dog", None, "lion"] == [each.session for each in history.entries(folder)]
    SessionFolder(folder.path).delete("lion")
    assert TYPED[:2] == history.entries(folder)


def test_damaged_lines_are_left_out(folder: Location) -> None:
    path = folder.path / history.NAME
    misplaced = b'{"session": null, "text": "short", "pastes": [[2, 9]]}\n'
    path.write_bytes(
        b'\xff\n{"session": 5, "text": "x"}\n' + misplaced + path.read_bytes() + b'{"session": "dog"'
    )
    assert TYPED == history.entries(folder)


def test_clearing_leaves_nothing(folder: Location) -> None:
    assert 3 == history.clear(folder)
    assert ([], 0) == (history.entries(folder), history.clear(folder))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / history.NAME).symlink_to(tmp_path / "victim")
    typed = SessionHistory(Location.of(tmp_path), lambda: "dog")
    typed.append_string("Hello.")
    assert ["Hello."] == typed.get_strings()
    assert "mine" == (tmp_path / "victim").read_text()


def link(path: Path) -> None:
    path.with_name("victim").write_text("mine")
    path.symlink_to("victim")


@pytest.mark.parametrize("make", [link, os.mkfifo, os.mkdir])
def test_a_history_that_is_no_file_keeps_no_session_from_being_renamed_or_deleted(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    sessions = SessionFolder(tmp_path)
    sessions.create("dog", model="m", system=None).close()
    make(tmp_path / history.NAME)
    assert "cat" == sessions.rename("dog", "cat")
    assert "cat" == sessions.delete("cat")
    assert [] == sessions.names()


def test_what_is_typed_before_there_is_a_session_is_its_own(tmp_path: Path) -> None:
    name: list[str] = []
    typed = SessionHistory(Location.of(tmp_path), lambda: name[0] if name else None)
    typed.append_string("Hello.")
    assert [] == history.entries(Location.of(tmp_path))
    name.append("hello")
    typed.append_string("And?")
    assert [Typed("hello", "Hello."), Typed("hello", "And?")] == history.entries(Location.of(tmp_path))


@pytest.mark.slow
def test_a_shells_history_is_private_and_can_be_cleared(chatcli: Program) -> None:
    before = os.umask(0)
    try:
        with open_shell(chatcli, "-m", chatcli.model, "-n", "2") as terminal:
            send_message(terminal, "Hello there.")
            leave(terminal)
    finally:
        os.umask(before)
    path = chatcli.sessions / history.NAME
    assert (0o600, 0o700) == (
        stat.S_IMODE(path.stat().st_mode),
        stat.S_IMODE(chatcli.sessions.stat().st_mode),
    )
    assert ["Hello there."] == [each.text for each in history.entries(Location.of(chatcli.sessions))]
    assert "history clear --yes" in chatcli.run("history", "clear", expect=2).errors
    assert "Forgot 1 entry.\n" == chatcli.run("history", "clear", "-y").text
    assert not path.exists()
