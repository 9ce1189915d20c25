"""Bytes on disk: atomic writes, private modes, safe names, errors that name the folder."""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from pathlib import Path

import pytest

from chatcli.errors import BadName, FolderError
from chatcli.store import files


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_write_once_puts_the_whole_file_and_tells_its_size(tmp_path: Path) -> None:
    path = tmp_path / "ab" / "file"
    assert 5 == files.write_once(path, b"whole", tmp_path / "tmp")
    assert b"whole" == path.read_bytes()


def test_a_second_write_costs_nothing_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_once(path, b"first", tmp_path / "tmp")
    inode = path.stat().st_ino
    assert 0 == files.write_once(path, b"second!", tmp_path / "tmp")
    assert (b"first", inode) == (path.read_bytes(), path.stat().st_ino)


def test_what_is_written_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        files.write_once(tmp_path / "ab" / "file", b"x", tmp_path / "tmp")
        files.private_folder(tmp_path / "sessions")
        files.create(tmp_path / "sessions" / "new", b"x")
    finally:
        os.umask(old)
    assert 0o600 == mode(tmp_path / "ab" / "file")
    assert 0o600 == mode(tmp_path / "sessions" / "new")
    assert 0o700 == mode(tmp_path / "ab")
    assert 0o700 == mode(tmp_path / "tmp")
    assert 0o700 == mode(tmp_path / "sessions")


def test_every_folder_that_is_made_on_the_way_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        files.private_folder(tmp_path / "new" / "sessions")
        files.write_once(tmp_path / "kv" / "model" / "ab" / "file", b"x", tmp_path / "kv" / "tmp")
    finally:
        os.umask(old)
    made = [tmp_path / "new", tmp_path / "kv", tmp_path / "kv" / "model"]
    assert {path.name: oct(0o700) for path in made} == {p.name: oct(mode(p)) for p in made}


def test_a_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    files.write_once(tmp_path / "file", b"x", tmp_path / "tmp")
    assert [] == list((tmp_path / "tmp").iterdir())


def test_a_write_that_fails_leaves_neither_file_nor_temporary(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 100)
    with pytest.raises(OSError):
        files.write_once(path, b"x", tmp_path / "tmp")
    (tmp_path / "folder").mkdir()
    scratch = tmp_path / "tmp"
    scratch.mkdir(exist_ok=True)
    with pytest.raises(TypeError):
        files.write_once(tmp_path / "file", "text is not bytes", scratch)  # type: ignore[arg-type]
    assert ["folder", "tmp"] == sorted(p.name for p in tmp_path.iterdir())
    assert [] == list(scratch.iterdir())


def test_a_reader_sees_the_whole_file_or_none(tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    paths = [tmp_path / "ab" / str(number) for number in range(20)]

    def write_all() -> None:
        for path in paths:
            files.write_once(path, data, tmp_path / "tmp")

    writer = threading.Thread(target=write_all)
    writer.start()
    seen = set()
    while writer.is_alive():
        seen |= {path.stat().st_size for path in (tmp_path / "ab").glob("*")}
    writer.join()
    assert set() == seen - {len(data)}
    assert {data} == {path.read_bytes() for path in paths}


def test_create_makes_a_file_with_its_first_bytes(tmp_path: Path) -> None:
    files.create(tmp_path / "new", b"header\n")
    assert b"header\n" == (tmp_path / "new").read_bytes()
    assert ["new"] == [path.name for path in tmp_path.iterdir()]


def test_create_refuses_an_existing_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        files.create(tmp_path / "taken", b"yours")
    assert b"mine" == (tmp_path / "taken").read_bytes()
    assert ["taken"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    "name",
    ["a", "Biscuit", "été-2025", "日本語", "naïve_plan.2", "два", "a b", "a" * 80, "a..b", "😀"],
)
def test_an_ordinary_name_is_taken_as_it_is(name: str) -> None:
    assert name == files.check_name(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("\u3000", "empty"),
        ("a/b", "'/'"),
        ("/etc/passwd", "'/'"),
        ("..", "'.'"),
        (".", "'.'"),
        (".hidden", "'.'"),
        ("-rf", "'-'"),
        ("../up", "'/'"),
        ("a\\b", "'/'"),
        (" a", "space"),
        ("a ", "space"),
        ("a\nb", "control"),
        ("a\0b", "control"),
        ("a\x7fb", "control"),
        ("a\x9bb", "control"),
        ("\x1b[31mred", "control"),
        ("a\u202eb", "control"),
        ("a\u2066b", "control"),
        ("a\u200bb", "control"),
        ("a\u200eb", "control"),
        ("a\ufeffb", "control"),
        ("a\u2028b", "control"),
        ("a\udc80b", "control"),
        ("a" * 81, "80"),
        ("😀" * 80, "long"),
    ],
)
def test_a_name_that_could_do_harm_is_refused_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(BadName, match=re.escape(problem)) as caught:
        files.check_name(name)
    assert str(caught.value).isprintable()


def test_a_name_that_passes_can_be_a_file(tmp_path: Path) -> None:
    name = files.check_name("日" * files.LONGEST_NAME)
    files.create(tmp_path / f"{name}.jsonl", b"x")
    assert [f"{name}.jsonl"] == [path.name for path in tmp_path.iterdir()]


def test_lines_are_appended_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "ab" / "index"
    for line in ("one", "two"):
        files.append_line(path, line)
    assert b"one\ntwo\n" == path.read_bytes()
    assert (0o600, 0o700) == (mode(path), mode(path.parent))


def test_sweep_removes_only_old_temporaries(tmp_path: Path) -> None:
    old, fresh = tmp_path / "old", tmp_path / "fresh"
    old.write_bytes(b"x")
    fresh.write_bytes(b"x")
    past = time.time() - files.STALE_SECONDS - 60
    os.utime(old, (past, past))
    files.sweep(tmp_path)
    assert ["fresh"] == [path.name for path in tmp_path.iterdir()]


def test_sweep_of_a_folder_that_is_not_there_does_nothing(tmp_path: Path) -> None:
    files.sweep(tmp_path / "none")
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FolderError, match=re.escape(str(tmp_path / "file" / "sessions"))):
        files.private_folder(tmp_path / "file" / "sessions")


def test_a_file_in_the_folders_place_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FolderError, match=re.escape(str(tmp_path / "file"))):
        files.private_folder(tmp_path / "file")


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o755)
    before = mode(tmp_path / "mine")
    assert tmp_path / "mine" == files.private_folder(tmp_path / "mine")
    assert before == mode(tmp_path / "mine")


def test_a_folder_that_is_not_there_is_not_writable(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=re.escape(str(tmp_path / "none"))):
        files.check_writable(tmp_path / "none")


def test_a_writable_folder_passes(tmp_path: Path) -> None:
    files.check_writable(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into any folder")
@pytest.mark.parametrize("bits", [0o500, 0o300, 0o600])
def test_a_folder_without_permission_is_named_in_the_error(tmp_path: Path, bits: int) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(bits)
    try:
        with pytest.raises(FolderError, match=re.escape(str(locked))):
            files.check_writable(locked)
    finally:
        locked.chmod(0o700)


def test_explained_says_what_and_why(tmp_path: Path) -> None:
    with (
        pytest.raises(FolderError, match=r"^Cannot read the list: No such file or directory\.$"),
        files.explained("read the list"),
    ):
        (tmp_path / "none").read_bytes()


def test_explained_lets_other_errors_through() -> None:
    with pytest.raises(KeyError), files.explained("do it"):
        raise KeyError("x")
