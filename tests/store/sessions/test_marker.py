"""A folder `./sessions` that nobody named is used only if chatcli created it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chatcli.errors import FolderError
from chatcli.store.sessions import marker
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import Program


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`./sessions`, marked, in the current folder."""
    monkeypatch.chdir(tmp_path)
    marker.claim(tmp_path / "sessions")
    return tmp_path / "sessions"


def no_marker(folder: Path) -> None:
    (folder / marker.MARKER).unlink()


def another_text(folder: Path) -> None:
    (folder / marker.MARKER).write_text("mine")


def marker_is_a_link(folder: Path) -> None:
    (folder / marker.MARKER).rename(folder.parent / "text")
    (folder / marker.MARKER).symlink_to("../text")


def marker_is_a_pipe(folder: Path) -> None:
    no_marker(folder)
    os.mkfifo(folder / marker.MARKER)


def is_a_link(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to("elsewhere")


def is_a_file(folder: Path) -> None:
    no_marker(folder)
    folder.rmdir()
    folder.write_text("x")


def link_in(part: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (folder / part).symlink_to("/tmp")

    return make


def of_another_user(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 12345, 12345)


FOREIGN = {
    "no marker": (no_marker, "chatcli did not create it"),
    "another text": (another_text, "chatcli did not create it"),
    "marker is a link": (marker_is_a_link, "chatcli did not create it"),
    "marker is a pipe": (marker_is_a_pipe, "chatcli did not create it"),
    "a link": (is_a_link, "it is a link"),
    "a file": (is_a_file, "it is not a folder"),
    "a session is a link": (link_in("notes.jsonl"), "contains a link (sessions/notes.jsonl)"),
    "kv is a link": (link_in("kv"), "contains a link (sessions/kv)"),
    "a model is a link": (link_in("kv/abc"), "contains a link (sessions/kv/abc)"),
    "tmp is a link": (link_in("kv/abc/tmp"), "contains a link (sessions/kv/abc/tmp)"),
    "images are elsewhere": (link_in("images/ab"), "contains a link (sessions/images/ab)"),
    "another user's": (of_another_user, "it belongs to another user"),
}


def test_a_marked_folder_is_used_without_a_word(here: Path) -> None:
    assert (Path("sessions"), None) == marker.default_folder()


@pytest.mark.parametrize("case", FOREIGN)
def test_a_folder_that_is_not_ours_is_not_used_and_one_sentence_says_so(here: Path, case: str) -> None:
    spoil, reason = FOREIGN[case]
    spoil(here)
    folder, problem = marker.default_folder()
    assert problem is not None
    assert reason in problem
    assert str(folder) in problem
    assert problem.endswith("chatcli --sessions sessions")
    assert here != folder.absolute()


def test_no_folder_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert None is marker.default_folder()[1]


def test_a_new_session_marks_its_folder(tmp_path: Path) -> None:
    SessionFolder(tmp_path / "new").create("a", model=None, system=None).close()
    assert marker.TEXT == (tmp_path / "new" / marker.MARKER).read_text()


def test_a_newer_folder_is_refused(here: Path) -> None:
    (here / marker.MARKER).write_text(marker.TEXT.replace("format 1", "format 2"))
    with pytest.raises(FolderError, match="upgrade chatcli"):
        SessionFolder(here).create("a", model=None, system=None)
    assert [marker.MARKER] == [path.name for path in here.iterdir()]


def test_the_repositorys_own_folder_is_marked() -> None:
    assert marker.TEXT == (Path(__file__).parents[3] / "sessions" / marker.MARKER).read_text()


def test_naming_a_folder_makes_it_the_one_that_is_used(chatcli: Program) -> None:
    unset = chatcli.environment(CHATCLI_SESSIONS=None)
    (chatcli.home / "sessions").mkdir()
    listed = chatcli.run("list", "--json", env=unset)
    assert (1, []) == (listed.errors.count("./sessions is not used"), listed.json())
    chatcli.run("ask", "Hello", "-S", "kept", "-n", "2", "--sessions", "sessions", env=unset)
    listed = chatcli.run("list", "--json", env=unset)
    assert ("", ["kept"]) == (listed.errors, [each["name"] for each in listed.json()])


def test_a_folder_that_is_named_is_not_said_to_be_unused(chatcli: Program) -> None:
    unset = chatcli.environment(CHATCLI_SESSIONS=None)
    (chatcli.home / "sessions").mkdir()
    listed = chatcli.run("list", "--json", "--sessions", "sessions", env=unset)
    assert ("", []) == (listed.errors, listed.json())
