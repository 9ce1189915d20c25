"""Bytes on disk: atomic writes, private modes, safe names, errors that name the folder."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatcli import files
from chatcli.errors import BadName, FolderError
from chatcli.files import Location
from chatcli.store.sessions import marker
from tests import ROOT


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_write_once_puts_the_whole_file_and_tells_its_size(tmp_path: Path) -> None:
    path = tmp_path / "ab" / "file"
    assert 5 == files.write_once(Location.of_file(path), b"whole", Location.of(tmp_path / "tmp"))
    assert b"whole" == path.read_bytes()


def test_a_second_write_costs_nothing_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_once(Location.of_file(path), b"first", Location.of(tmp_path / "tmp"))
    inode = path.stat().st_ino
    assert 0 == files.write_once(Location.of_file(path), b"second!", Location.of(tmp_path / "tmp"))
    assert (b"first", inode) == (path.read_bytes(), path.stat().st_ino)


def test_what_is_written_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        files.write_once(Location.of_file(tmp_path / "ab" / "file"), b"x", Location.of(tmp_path / "tmp"))
        marker.claim(tmp_path / "sessions")
        files.create(Location.of_file(tmp_path / "sessions" / "new"), b"x")
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
        marker.claim(tmp_path / "new" / "sessions")
        files.write_once(
            Location.of_file(tmp_path / "kv" / "model" / "ab" / "file"),
            b"x",
            Location.of(tmp_path / "kv" / "tmp"),
        )
    finally:
        os.umask(old)
    folders = [tmp_path / "new", tmp_path / "kv", tmp_path / "kv" / "model"]
    assert {path.name: oct(0o700) for path in folders} == {p.name: oct(mode(p)) for p in folders}


def test_a_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    files.write_once(Location.of_file(tmp_path / "file"), b"x", Location.of(tmp_path / "tmp"))
    assert [] == list((tmp_path / "tmp").iterdir())


def test_a_write_that_fails_leaves_neither_file_nor_temporary(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 100)
    with pytest.raises(OSError):
        files.write_once(Location.of_file(path), b"x", Location.of(tmp_path / "tmp"))
    (tmp_path / "folder").mkdir()
    scratch = tmp_path / "tmp"
    scratch.mkdir(exist_ok=True)
    with pytest.raises(TypeError):
        files.write_once(Location.of_file(tmp_path / "file"), "text is not bytes", Location.of(scratch))  # type: ignore[arg-type]
    assert ["folder", "tmp"] == sorted(p.name for p in tmp_path.iterdir())
    assert [] == list(scratch.iterdir())


def test_a_reader_sees_the_whole_file_or_none(tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    paths = [tmp_path / "ab" / str(number) for number in range(20)]

    def write_all() -> None:
        for path in paths:
            files.write_once(Location.of_file(path), data, Location.of(tmp_path / "tmp"))

    writer = threading.Thread(target=write_all)
    writer.start()
    seen = set()
    while writer.is_alive():
        seen |= {path.stat().st_size for path in (tmp_path / "ab").glob("*")}
    writer.join()
    assert set() == seen - {len(data)}
    assert {data} == {path.read_bytes() for path in paths}


def test_create_makes_a_file_with_its_first_bytes(tmp_path: Path) -> None:
    files.create(Location.of_file(tmp_path / "new"), b"header\n")
    assert b"header\n" == (tmp_path / "new").read_bytes()
    assert ["new"] == [path.name for path in tmp_path.iterdir()]


def test_create_refuses_an_existing_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        files.create(Location.of_file(tmp_path / "taken"), b"yours")
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
    files.create(Location.of_file(tmp_path / f"{name}.jsonl"), b"x")
    assert [f"{name}.jsonl"] == [path.name for path in tmp_path.iterdir()]


def test_replace_puts_a_whole_private_file_in_anothers_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first")
    files.replace(Location.of_file(path), b"second", Location.of(tmp_path / "tmp"))
    assert (b"second", 0o600) == (path.read_bytes(), mode(path))
    assert [] == list((tmp_path / "tmp").iterdir())


def test_replace_makes_the_folders_that_it_needs(tmp_path: Path) -> None:
    files.replace(Location.of_file(tmp_path / "new" / "file"), b"x", Location.of(tmp_path / "tmp"))
    assert (b"x", 0o700) == ((tmp_path / "new" / "file").read_bytes(), mode(tmp_path / "new"))


def test_create_sweeps_what_dead_processes_left_and_no_more(tmp_path: Path) -> None:
    dead, living = (f".{letter * 32}{files.UNNAMED}" for letter in "de")
    names = ["kept.jsonl", ".hidden", f".mine{files.UNNAMED}", dead]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    with files.flushed(Location.of_file(tmp_path / living), [b"x"]):
        files.create(Location.of_file(tmp_path / "new"), b"x")
    left = {*names[:3], living, "new"}
    assert left == {path.name for path in tmp_path.iterdir()}


# Names as chatcli gives them to what it is writing.
LIVING, DEAD = f"1-{'1' * 32}", f"2-{'2' * 32}"
WRITER = """
import sys, time
from pathlib import Path
from chatcli import files
from chatcli.files import Location
with files.flushed(Location.of_file(Path(sys.argv[1])), [b"half a fi"]):
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of writing `tmp_path / LIVING`."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / LIVING)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert started.stdout is not None
    assert b"writing\n" == started.stdout.readline()
    yield started
    started.kill()
    started.communicate()


def test_only_what_dead_writers_left_is_swept_and_at_once(
    tmp_path: Path, writer: subprocess.Popen[bytes]
) -> None:
    living = Location.of(tmp_path) / LIVING
    (tmp_path / DEAD).write_bytes(b"half a fi")
    files.sweep(Location.of(tmp_path))
    assert [LIVING] == [path.name for path in tmp_path.iterdir()]
    assert (True, []) == (files.is_locked(living), list(files.abandoned(living.parent)))
    writer.kill()
    writer.wait()
    assert (False, [living]) == (files.is_locked(living), list(files.abandoned(living.parent)))
    files.sweep(Location.of(tmp_path))
    assert [] == list(tmp_path.iterdir())


def test_a_lock_of_this_process_counts_too_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert not files.is_locked(Location.of_file(path))
    with files.flushed(Location.of_file(path), [b"x"]):
        assert [True, True] == [files.is_locked(Location.of_file(path)) for _ in range(2)]
    assert not files.is_locked(Location.of_file(path))


def test_files_arrive_though_others_sweep_all_the_time(tmp_path: Path) -> None:
    """A sweeper may come in the moment before a new temporary file is locked."""
    paths = [tmp_path / "ab" / str(number) for number in range(60)]
    done = threading.Event()

    def sweep_on() -> None:
        while not done.wait(0.015):
            files.sweep(Location.of(tmp_path / "tmp"))

    sweeper = threading.Thread(target=sweep_on)
    sweeper.start()
    try:
        for path in paths:
            files.write_once(Location.of_file(path), path.name.encode(), Location.of(tmp_path / "tmp"))
    finally:
        done.set()
        sweeper.join()
    assert [path.name.encode() for path in paths] == [path.read_bytes() for path in paths]
    assert [] == list((tmp_path / "tmp").iterdir())


def test_sweep_of_a_folder_that_is_not_there_does_nothing(tmp_path: Path) -> None:
    files.sweep(Location.of(tmp_path / "none"))
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FolderError, match=re.escape(str(tmp_path / "file" / "sessions"))):
        marker.claim(tmp_path / "file" / "sessions")


def test_a_file_in_the_folders_place_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FolderError, match=re.escape(str(tmp_path / "file"))):
        marker.claim(tmp_path / "file")


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o755)
    before = mode(tmp_path / "mine")
    marker.claim(tmp_path / "mine")
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


def test_a_flush_that_the_system_refuses_is_an_ordinary_one(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        for through in (False, True):
            files.flush(file.fileno(), through=through)
        # As on a Mac's file system that has neither of its own commands.
        files.flush_by(file.fileno(), (999_999, 888_888))
    with pytest.raises(OSError):
        files.flush_by(10**6, (999_999,))


def test_mypy_reads_what_only_a_mac_runs() -> None:
    assert "mypy --platform darwin" in (ROOT / ".ci" / "run").read_text()
