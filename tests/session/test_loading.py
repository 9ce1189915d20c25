"""The model loads in the background with progress, while readahead reads the checkpoint."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import threading
import time
from pathlib import Path

import mlx.core as mx
import mlx_lm
import pytest
from mlx.utils import tree_flatten

import chatcli.commands.handlers  # noqa: F401  (registers what a line may run)
from chatcli.commands import registry
from chatcli.conversation.tree import Conversation
from chatcli.errors import ModelBroken
from chatcli.files import Location
from chatcli.model import fingerprint
from chatcli.session import opening
from chatcli.session.live_chat import LiveChat
from chatcli.session.model_slot import ModelSlot
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import DEFAULTS, Settings
from chatcli.store.segments import catalog, readahead
from chatcli.store.sessions.folder import SessionFolder
from tests.support.families import at_night
from tests.support.harness import MESSAGES, Harness, RecordedWork
from tests.support.program import Program, segment_files
from tests.support.shell import open_shell, ready
from tests.support.terminal import CTRL_C, CTRL_D
from tests.support.tiny import write_model

TIMEOUT_SECONDS = 20.0


# Progress


@pytest.mark.parametrize("at_once", [1, 20_000, 1 << 30])
def test_weights_read_in_groups_are_those_read_at_once(models: Path, at_once: int) -> None:
    folder, fractions = models / "qwen3_5", list[float]()
    lazy, _, _ = mlx_lm.load(str(folder), lazy=True, return_config=True)
    digest = fingerprint.read_weights(lazy, fractions.append, at_once)
    assert digest == fingerprint.read_weights(lazy, lambda _: None)
    reference, _ = mlx_lm.load(str(folder))
    read, expected = dict(tree_flatten(lazy.parameters())), dict(tree_flatten(reference.parameters()))
    assert read.keys() == expected.keys()
    assert all(
        read[name].dtype == weight.dtype and mx.array_equal(read[name], weight)
        for name, weight in expected.items()
    )
    assert sorted(set(fractions)) == fractions and 1.0 == fractions[-1] and fractions[0] > 0
    size = sum(weight.nbytes for weight in expected.values())
    assert (len(expected) if at_once == 1 else 1) <= len(fractions) <= 1 + size // at_once


def test_the_digest_of_large_weights_does_not_depend_on_their_groups(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "large", "qwen3", intermediate_size=40_000)
    digests = set()
    for at_once in (100_000, 1 << 40):
        lazy, _, _ = mlx_lm.load(str(folder), lazy=True, return_config=True)
        digests.add(fingerprint.read_weights(lazy, lambda _: None, at_once))
    assert 1 == len(digests)


@pytest.mark.parametrize("key", [CTRL_D, CTRL_C])
def test_the_prompt_can_be_left_while_the_model_loads(chatcli: Program, key: str) -> None:
    with open_shell(chatcli, "-m", chatcli.model) as terminal:
        terminal.wait_for("loading qwen3_5…")
        terminal.wait_for(lambda: ready(terminal))
        if key == CTRL_C:
            terminal.send(CTRL_C)
            terminal.wait_for("Press Ctrl-C again to leave.")
            terminal.wait_for(lambda: ready(terminal))
        terminal.send(key)
        assert 0 == terminal.wait_for_exit()
        assert "Traceback" not in terminal.all_text()


def open_chat(model: Path, sessions: Path, name: str | None = None, *, cache: bool = True) -> LiveChat:
    return LiveChat(Settings(sessions=sessions, cache=cache), SessionRequest(name), str(model))


def test_the_toolbar_shows_the_model_name_and_progress(models: Path, tmp_path: Path) -> None:
    work = RecordedWork()
    assert "" == work.activity
    slot = ModelSlot(Settings(sessions=tmp_path), str(models / "qwen3"), DEFAULTS, work, lambda _: None)
    slot.wait()
    slot.close()
    assert ["loading qwen3…", "loading qwen3… 100 %", ""] == work.reports


def test_a_model_that_fails_to_load_clears_the_activity(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "broken", "qwen3")
    os.truncate(folder / "model.safetensors", (folder / "model.safetensors").stat().st_size // 2)
    work = RecordedWork()
    slot = ModelSlot(Settings(sessions=tmp_path), str(folder), DEFAULTS, work, lambda _: None)
    with pytest.raises(ModelBroken):
        slot.wait()
    slot.close()
    assert ["loading broken…", ""] == work.reports[-2:]


def test_a_model_that_is_put_off_is_loaded_by_who_waits_for_it(models: Path, tmp_path: Path) -> None:
    settings, work = Settings(sessions=tmp_path), RecordedWork()
    slot = ModelSlot(settings, str(models / "qwen3"), DEFAULTS, work, lambda _: None, load_at_once=False)
    assert slot.loading and ["loading qwen3…"] == work.reports
    assert slot.wait(threading.Event()).loaded.context
    slot.close()


def test_a_chat_whose_model_was_put_off_closes_at_once(models: Path, tmp_path: Path) -> None:
    folder = str(models / "qwen3")
    chat = LiveChat(Settings(sessions=tmp_path), SessionRequest(), folder, load_at_once=False)
    assert chat.close() is None
    with pytest.raises(KeyboardInterrupt):
        chat.model.wait()


# Reading the checkpoint ahead


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3"])
def saved(
    request: pytest.FixtureRequest, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A model and a folder of its sessions: `talk`, `other` and `aside`, a branch of `talk`."""
    model, sessions = models / request.param, tmp_path_factory.mktemp("sessions")
    with Harness(model, sessions) as harness:
        talk = harness.chat("talk")
        for message in (*MESSAGES, *MESSAGES):
            harness.say(talk, message)
    with Harness(model, sessions) as harness:
        other = harness.chat("other", system="Be kind to every animal that you may ever meet.")
        for message in MESSAGES:
            harness.say(other, message)
    with Harness(model, sessions) as harness:
        opening.branch(harness.folder, "talk", 3, "aside").close()
        harness.say(harness.chat("aside"), "And what does the river do?")
    return model, sessions


def files_to_read(model: Path, sessions: Path, name: str, at: int | None = None) -> list[Path]:
    """The files that readahead chooses for this session, opened at turn `at`."""
    session = opening.open_session(SessionFolder(sessions), SessionRequest(name, at=at))
    assert session.is_saved
    needed = readahead.needed(session.conversation, str(model))
    session.close()
    assert needed is not None
    return [location.path for location in readahead.paths(sessions, needed)]


def reused_tokens(model: Path, sessions: Path, name: str, at: int | None = None) -> int:
    """The reused tokens of the next turn in a new process."""
    with Harness(model, sessions) as harness:
        return harness.say(harness.chat(name, at=at), "Go on.", settle=False).reused_tokens


def copy_folder(sessions: Path, copy: Path, kept: list[Path] | None = None) -> Path:
    """A copy of the folder with only the checkpoints in `kept` (None: all)."""
    shutil.copytree(sessions, copy)
    names = {path.name for path in kept or segment_files(sessions)}
    for path in segment_files(copy):
        if path.name not in names:
            path.unlink()
    return copy


@pytest.mark.parametrize(
    ("name", "at"), [("talk", None), at_night("other", None), at_night("aside", None), ("talk", 2)]
)
def test_readahead_reads_all_that_the_next_turn_needs(
    saved: tuple[Path, Path], tmp_path: Path, name: str, at: int | None
) -> None:
    model, sessions = saved
    files = files_to_read(model, sessions, name, at)
    assert len(segment_files(sessions)) > len(files) == len(set(files)) > 1
    assert sum(".state." in path.name for path in files) == (model.name == "qwen3_5")
    expected = reused_tokens(model, copy_folder(sessions, tmp_path / "few", files), name, at)
    assert expected == reused_tokens(model, copy_folder(sessions, tmp_path / "all"), name, at) > 40


@pytest.mark.slow
def test_readahead_reads_only_what_the_next_turn_needs(saved: tuple[Path, Path], tmp_path: Path) -> None:
    model, sessions = saved
    files = files_to_read(model, sessions, "talk")
    whole = reused_tokens(model, copy_folder(sessions, tmp_path / "all"), "talk")
    for number, left_out in enumerate(files):
        kept = [path for path in files if path != left_out]
        assert reused_tokens(model, copy_folder(sessions, tmp_path / str(number), kept), "talk") < whole


def test_of_files_with_one_start_the_longest_on_the_path_is_read(
    tmp_path: Path,
) -> None:
    """The others: a shorter file from before a join, and one of another conversation."""
    first, second, third, other = (digit * 64 for digit in "1234")
    folder = catalog.model_folder(tmp_path, "f" * 32).path
    ends = {(first, first), (first, third), (first, other), (second, other), (other, third)}
    for begin, end in ends:
        path = folder / "aa" / catalog.rows_name("a" * 16, begin, end)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    paths = readahead.paths(tmp_path, readahead.NeededSegments("f" * 32, [third, second, first]))
    assert [(second, other), (first, third)] == [
        (begin, end)
        for path in paths
        for begin, end in ends
        if path.name == catalog.rows_name("a" * 16, begin, end)
    ]


def test_another_model_or_no_reply_needs_no_readahead(
    saved: tuple[Path, Path],
) -> None:
    model, sessions = saved
    conversation = SessionFolder(sessions).read("talk").conversation
    assert None is readahead.needed(conversation, "another")
    assert None is readahead.needed(Conversation("2025-03-01"), str(model))


def test_readahead_ignores_missing_and_damaged_checkpoints(saved: tuple[Path, Path], tmp_path: Path) -> None:
    model, original = saved
    sessions = copy_folder(original, tmp_path / "copy")
    files = files_to_read(model, sessions, "talk")
    missing, damaged, pipe, *_ = [*files, tmp_path / "none"]
    missing.unlink()
    damaged.write_bytes(b"no tensors")
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    assert missing not in files_to_read(model, sessions, "talk")
    readahead.read(map(Location.of_file, [*files, sessions]), threading.Event())
    shutil.rmtree(sessions / "kv")
    assert [] == files_to_read(model, sessions, "talk")


needs_fadvise = pytest.mark.skipif(
    not hasattr(os, "posix_fadvise"), reason="nothing makes this system forget a file"
)


def drop_from_page_cache(files: list[Path]) -> None:
    """Drop these files from the page cache; skips the test where the file system keeps them."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    if any(map(in_memory, files)):
        pytest.skip("this file system keeps what it was asked to forget")


def in_memory(path: Path) -> bool:
    """Whether all of a file is in the page cache; asking reads nothing."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = (ctypes.c_ubyte * (len(mapped) // mmap.PAGESIZE + 1))()
        begin = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(
            ctypes.c_void_p(ctypes.addressof(begin)), ctypes.c_size_t(len(mapped)), pages
        )
        del begin
    assert not failed
    return all(page & 1 for page in pages[: -(-path.stat().st_size // mmap.PAGESIZE)])


@needs_fadvise
def test_opening_a_session_reads_its_checkpoint_unless_the_cache_is_off(
    saved: tuple[Path, Path], tmp_path: Path
) -> None:
    model, original = saved
    sessions = copy_folder(original, tmp_path / "copy")
    files = files_to_read(model, sessions, "talk")
    drop_from_page_cache(segment_files(sessions))
    uncached = open_chat(model, sessions, "talk", cache=False)
    uncached.model.wait()
    uncached.close()
    assert not any(map(in_memory, files))
    cached = open_chat(model, sessions, "talk")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not all(map(in_memory, files)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cached.model.wait()
    cached.close()
    unneeded = {path.name for path in segment_files(sessions)} - {path.name for path in files}
    assert unneeded
    assert not any(in_memory(path) for path in segment_files(sessions) if path.name in unneeded)


@needs_fadvise
def test_resuming_in_the_shell_reads_the_checkpoint(saved: tuple[Path, Path], tmp_path: Path) -> None:
    model, original = saved
    sessions = copy_folder(original, tmp_path / "copy")
    newest, *_ = files_to_read(model, sessions, "aside")
    with SessionFolder(sessions).open("aside") as session:
        session.set_model(str(model))
    drop_from_page_cache(segment_files(sessions))
    chat = open_chat(model, sessions)
    chat.model.wait()
    assert not in_memory(newest)
    registry.run(chat, "/resume aside")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not in_memory(newest):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    chat.close()


@needs_fadvise
def test_reading_ends_when_the_process_closes(saved: tuple[Path, Path], tmp_path: Path) -> None:
    model, original = saved
    files = files_to_read(model, copy_folder(original, tmp_path / "copy"), "talk")
    stop = threading.Event()
    stop.set()
    drop_from_page_cache(files)
    readahead.read(map(Location.of_file, files), stop)
    time.sleep(0.05)
    assert not any(map(in_memory, files))
