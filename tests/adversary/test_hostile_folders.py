"""A hostile sessions folder: nothing outside it is read, written or deleted.

Another case is a line in `LINKS` or `INSTEAD`, another use of the folder one in `USES`.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ChatcliError
from chatcli.files import Location
from chatcli.store import maintenance
from chatcli.store.segments import budget, eviction, inventory, segments
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions import history, listing, search, served
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.images import Gallery
from tests.support.checkpointing import FINGERPRINT, TOKEN_PATH, write_all
from tests.support.program import Program, folder_contents

KEY, DIGEST, HEX = "0123456789abcdef", "ab" * 32, "a" * 32
PICTURE = b"\x89PNG of a person"
PICTURE_DIGEST = hashlib.sha256(PICTURE).hexdigest()
# What is in the folder that a link leads to: names that chatcli gives too, so that no name protects them.
VICTIM = (
    "letter.txt",
    "deep/letter.txt",
    "x.jsonl",
    f".{HEX}.new",
    f"12-{HEX}",
    f"{DIGEST}.png",
    f"{DIGEST}.state.safetensors",
    f"{KEY}-{KEY}-{KEY}.rows.safetensors",
    f"{KEY}-{KEY}-{KEY}.rows.damaged",
    f"ab/{DIGEST}.state.safetensors",
    f"ab/{DIGEST}.png",
    f"tmp/12-{HEX}",
    f"{FINGERPRINT}/ab/{DIGEST}.state.safetensors",
    f"{FINGERPRINT}/tmp/12-{HEX}",
)
# Where a link lies. The folders of the segments and of the image that the uses below write are among them.
SHARD = f"kv/{FINGERPRINT}/{TOKEN_PATH[0].id[:2]}"
LINKS = (
    "kv",
    f"kv/{FINGERPRINT}",
    f"kv/{FINGERPRINT}/tmp",
    f"kv/{FINGERPRINT}/ab",
    SHARD,
    "images",
    "images/tmp",
    "images/ab",
    f"images/{PICTURE_DIGEST[:2]}",
    f"kv/{FINGERPRINT}.damaged",
    f"kv/{'e' * 32}",
)
# Names that are files where chatcli wrote the folder.
FILES = (
    "x.jsonl",
    ".last",
    ".chatcli",
    f".{HEX}.new",
    f"kv/{FINGERPRINT}/ab/{KEY}-{KEY}-{KEY}.rows.damaged",
    f"kv/{FINGERPRINT}/ab/{KEY}-{KEY}-{KEY}.rows.safetensors",
    f"kv/{FINGERPRINT}/ab/{DIGEST}.state.safetensors",
    f"{SHARD}/{TOKEN_PATH[0].id}.state.safetensors",
    f"kv/{FINGERPRINT}/tmp/12-{HEX}",
    f"images/ab/{DIGEST}.png",
    f"images/tmp/12-{HEX}",
)


def link_to_a_file(path: Path, victim: Path) -> None:
    path.symlink_to(victim / "letter.txt")


def link_to_zeros(path: Path, victim: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim / "none")


def pipe(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path, victim: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def folder(path: Path, victim: Path) -> None:
    path.mkdir()
    (path / "letter.txt").write_bytes(b"mine")


# What lies in the place of a file.
INSTEAD = (link_to_a_file, link_to_zeros, dangling_link, pipe, unix_socket, folder)


def start(sessions: Path) -> None:
    SegmentStore(sessions, FINGERPRINT).close()


def write_checkpoints(sessions: Path) -> None:
    store = SegmentStore(sessions, FINGERPRINT, budget.Budget(sessions, 0, set).written)
    write_all(store, TOKEN_PATH, state=True)
    store.close()


def read_checkpoints(sessions: Path) -> None:
    store = SegmentStore(sessions, FINGERPRINT)
    with suppress(Exception), store.rows(TOKEN_PATH) as rows:
        rows.pieces[0].file.check()
    store.set_aside_all(TOKEN_PATH)
    store.close()


def take_a_turn(sessions: Path) -> None:
    with SessionFolder(sessions).create("mine", model=None, system=None) as session:
        session.append(Message("user", "hello"), None)


def delete_mine(sessions: Path) -> None:
    maintenance.delete(SessionFolder(sessions), "mine")


def delete_hostile(sessions: Path) -> None:
    maintenance.delete(SessionFolder(sessions), "x")


def rename_hostile(sessions: Path) -> None:
    SessionFolder(sessions).rename("x", "y")


def collect(sessions: Path) -> None:
    eviction.remove(maintenance.collectable(SessionFolder(sessions), 0))


def repair(sessions: Path) -> None:
    for problem in inventory.verify(sessions):
        segments.set_aside(problem.path)
    maintenance.damaged_transcripts(SessionFolder(sessions))


def statistics(sessions: Path) -> None:
    inventory.usage(sessions)
    maintenance.model_names(sessions)
    budget.default_limit(sessions)


def list_and_search(sessions: Path) -> None:
    listing.summaries(Location.of(sessions))
    list(search.find(sessions, ["hello"]))


def keep_an_image(sessions: Path) -> None:
    picture = Picture(PICTURE_DIGEST, "me.png", "png", 1, 1)
    with Gallery(sessions).keeping([Image(picture, PICTURE)]):
        pass


def clear(sessions: Path) -> None:
    inventory.clear(sessions)


USES: tuple[Callable[[Path], None], ...] = (
    start,
    write_checkpoints,
    read_checkpoints,
    take_a_turn,
    keep_an_image,
    list_and_search,
    statistics,
    repair,
    collect,
    rename_hostile,
    delete_hostile,
    delete_mine,
    clear,
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of somebody's, outside of the sessions folder."""
    for name in VICTIM:
        path = tmp_path / "victim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path / "victim"


def use(sessions: Path) -> None:
    """Everything that can be done with a folder; a sentence is a good answer."""
    for each in USES:
        with suppress(ChatcliError, OSError):
            each(sessions)


@pytest.mark.parametrize("place", LINKS)
def test_a_link_leads_nowhere(tmp_path: Path, victim: Path, place: str) -> None:
    link = tmp_path / "sessions" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(victim, link.parent))
    before = folder_contents(victim)
    use(tmp_path / "sessions")
    assert before == folder_contents(victim)
    assert sorted(before) == sorted(
        str(path.relative_to(victim)) for path in victim.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("instead", INSTEAD)
@pytest.mark.parametrize("place", FILES)
def test_what_is_no_file_is_neither_waited_for_nor_read(
    tmp_path: Path, victim: Path, place: str, instead: Callable[[Path, Path], None]
) -> None:
    path = tmp_path / "sessions" / place
    path.parent.mkdir(parents=True)
    instead(path, victim)
    before = folder_contents(victim)
    use(tmp_path / "sessions")
    assert before == folder_contents(victim)
    if instead is folder:
        assert b"mine" == (path / "letter.txt").read_bytes()


@pytest.mark.parametrize("instead", INSTEAD)
def test_a_session_that_is_no_file_is_listed_as_damaged(
    tmp_path: Path, victim: Path, instead: Callable[[Path, Path], None]
) -> None:
    instead(tmp_path / "x.jsonl", victim)
    (summary,) = SessionFolder(tmp_path).summaries()
    assert "x" == summary.name
    assert summary.problem is not None
    reason = summary.problem.removeprefix("Cannot read the session 'x': ")
    assert reason in ("it is a link.", "it is not a regular file.", "Is a directory.")
    assert [summary.problem] == maintenance.damaged_transcripts(SessionFolder(tmp_path))


def test_another_users_files_are_not_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(tmp_path, 12345, 12345)
    take_a_turn(tmp_path)
    os.chown(tmp_path / "mine.jsonl", 54321, 54321)
    (summary,) = SessionFolder(tmp_path).summaries()
    assert "Cannot read the session 'mine': it belongs to another user." == summary.problem


def test_a_folder_that_a_link_replaces_while_it_is_open_stays_the_one_that_was_opened(
    tmp_path: Path, victim: Path
) -> None:
    sessions = tmp_path / "sessions"
    store = SegmentStore(sessions, FINGERPRINT)
    write_all(store, TOKEN_PATH, state=True)
    store.flush()
    sessions.rename(tmp_path / "moved")
    sessions.symlink_to(victim)
    before = folder_contents(victim)
    store.set_aside_all(TOKEN_PATH)
    write_all(store, TOKEN_PATH, state=True)
    store.close()
    assert before == folder_contents(victim)
    assert not store.problem


def test_a_relative_folder_survives_a_change_of_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, store = SessionFolder(Path("sessions")), SegmentStore(Path("sessions"), FINGERPRINT)
    monkeypatch.chdir("/")
    with folder.create("a", model=None, system=None) as session:
        session.append(Message("user", "hello"), None)
    write_all(store, TOKEN_PATH, state=True)
    store.close()
    assert 1 == len(SessionFolder(tmp_path / "sessions").read("a").conversation.turns())
    assert 2 == SegmentStore(tmp_path / "sessions", FINGERPRINT).depth(TOKEN_PATH, stateful=True)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "../x", "a\0b"])
def test_a_location_has_only_names_below_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        Location.of(tmp_path) / name
    with pytest.raises(ValueError, match="not below"):
        _ = Location.of(tmp_path).parent


@pytest.mark.slow
def test_starting_in_a_cloned_repository_deletes_nothing_of_anyone(chatcli: Program, victim: Path) -> None:
    """The whole program, with links where its own model's files would be."""
    chatcli.ask("Hello", "-S", "mine", "-n", 2)
    (model,) = (chatcli.sessions / "kv").iterdir()
    (model / "tmp").rmdir()
    (model / "tmp").symlink_to(victim)
    before = folder_contents(victim)
    chatcli.ask("And now?", "-S", "mine", "-n", 2, "--cache-limit", "1KB")
    for command in (["cache", "gc"], ["cache", "stats"], ["doctor", "--quick"], ["delete", "mine", "-y"]):
        chatcli.start(*command, "--sessions", chatcli.sessions).wait()
    chatcli.start("cache", "clear", "-y").wait()
    assert before == folder_contents(victim)


@pytest.mark.parametrize("name", [listing.LAST, history.NAME, served.NAME])
def test_a_file_that_has_another_name_too_is_changed_in_a_copy(tmp_path: Path, name: str) -> None:
    """A backup of hard links, or somebody's letter in the place of a small file."""
    folder, letter = Location.of(tmp_path / "sessions"), tmp_path / "letter"
    folder.make_folder()
    letter.write_bytes(b"Dear Biscuit,\n")
    (tmp_path / "sessions" / name).hardlink_to(letter)
    listing.note_last_written(folder, "talk")
    history.append(folder, [history.Typed("talk", "hello")])
    served.append(folder, {"id": "a" * 32, "parent": None, "record": {}})
    assert b"Dear Biscuit,\n" == letter.read_bytes()
    assert "talk" == listing.last_written(folder)
    assert ["hello"] == [typed.text for typed in history.entries(folder)]
    assert ["a" * 32] == list(served.replies(folder))
