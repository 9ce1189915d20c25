"""Deletion: nothing of a deleted session stays in any file, and other sessions keep all of theirs."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatcli.store import maintenance
from chatcli.store.segments import catalog, eviction, inventory
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.rows import joined
from chatcli.store.segments.segments import Increment, SegmentStore
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import Program, folder_contents, segment_files

FINGERPRINT = "f" * 32
SECRET = [31_337 + number * 7 for number in range(12)]
TURNS = ("My code word is heliotrope.", "Say it.", "Say it backwards.", "Thank you.")


def searched(folder: Path, needle: bytes) -> list[str]:
    """The files below a folder whose names or bytes hold `needle`."""
    return [
        name for name, data in folder_contents(folder).items() if needle in data or needle in name.encode()
    ]


def as_tokens(tokens: Sequence[int]) -> bytes:
    """Token ids as a rows file stores them."""
    return np.asarray(tokens, "<i4").tobytes()


class Shelf:
    """A folder of sessions with one token a segment; the rows of a segment contain its token id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str | None, tokens: Sequence[int], fingerprint: str = FINGERPRINT) -> list[str]:
        """Write a session, one token a segment. Without a name no transcript names its segments."""
        store = SegmentStore(self.folder, fingerprint)
        path = TokenPath.cut(root_id(fingerprint), [*tokens, 0], range(1, len(tokens) + 1))
        for depth in range(1, len(path) + 1):
            rows = {"0.keys": tensor_of(tokens[depth - 1 : depth])}
            state = {"1.0": tensor_of(tokens[:depth])}
            store.put(Increment(path.upto(depth), rows, state, "{}", 1.0))
        store.close()
        names = [segment.id for segment in path]
        if name is not None:
            with SessionFolder(self.folder).create(name, model=None, system=None) as session:
                session.write({"type": "note", "id": "x", "record": {"segments": names}})
        return names

    def delete(self, name: str) -> int:
        return maintenance.delete(SessionFolder(self.folder), name)

    def restored(self, tokens: Sequence[int]) -> list[int]:
        """The token ids in the rows of a path, down to its deepest checkpoint with state."""
        store = SegmentStore(self.folder, FINGERPRINT)
        path = TokenPath.cut(root_id(FINGERPRINT), [*tokens, 0], range(1, len(tokens) + 1))
        depth = store.depth(path, stateful=True)
        with store.rows(path.upto(depth)) as rows:
            tokens_read = joined(rows, "0.keys")[0, 0, :, 0].tolist() if depth else []
        store.close()
        return list(tokens_read)

    def secrets(self) -> list[str]:
        """The files that contain any of the secret tokens."""
        return sorted({name for token in SECRET for name in searched(self.folder, as_tokens([token]))})


def tensor_of(tokens: Sequence[int]) -> Tensor:
    return Tensor.of(np.asarray(tokens, "<i4").repeat(8).reshape(1, 1, -1, 8))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


# The store


def test_a_deleted_session_leaves_no_byte(shelf: Shelf) -> None:
    shelf.put("talk", [1, *SECRET])
    assert shelf.secrets()
    assert 0 < shelf.delete("talk")
    assert {} == folder_contents(shelf.folder)


@pytest.mark.parametrize("shared", [1, 2, 5, 8, 9])
def test_shared_segments_stay_and_the_rest_is_removed(shelf: Shelf, shared: int) -> None:
    """A joined file holds shared segments first, then those of the deleted session."""
    prefix = list(range(1, shared + 1))
    names = shelf.put("talk", [*prefix, *SECRET])
    shelf.put("other", [*prefix, 77, 78])
    shelf.delete("talk")
    assert [] == shelf.secrets()
    assert [] == [name for name in names[shared:] if searched(shelf.folder, name[:16].encode())]
    assert [*prefix, 77, 78] == shelf.restored([*prefix, 77, 78])
    assert [] == list(inventory.verify(shelf.folder))


def test_a_branch_keeps_what_it_shares(shelf: Shelf) -> None:
    shelf.put("talk", [1, 2, 3, *SECRET])
    shelf.put("branch", [1, 2, 3, *SECRET[:4], 5])
    shelf.delete("talk")
    assert [1, 2, 3, *SECRET[:4], 5] == shelf.restored([1, 2, 3, *SECRET[:4], 5])
    assert [] == searched(shelf.folder, as_tokens(SECRET[4:5]))


def test_every_model_is_searched(shelf: Shelf) -> None:
    names = shelf.put("talk", [1, *SECRET])
    names += shelf.put(None, [1, *SECRET], "e" * 32)
    with SessionFolder(shelf.folder).open("talk") as session:
        session.write({"type": "note", "id": "x", "record": {"segments": names}})
    shelf.put("other", [1, 2])
    shelf.delete("talk")
    assert [] == shelf.secrets()
    assert [1, 2] == shelf.restored([1, 2])


def test_segments_that_a_killed_process_never_named_are_removed(shelf: Shelf) -> None:
    shelf.put("talk", [1, 2])
    shelf.put(None, [1, 2, *SECRET])
    shelf.delete("talk")
    assert [] == shelf.secrets()


def test_files_set_aside_and_unfinished_files_are_removed(shelf: Shelf) -> None:
    shelf.put("talk", [1, *SECRET])
    kv = catalog.model_folder(shelf.folder, FINGERPRINT).path
    (kv / "tmp").mkdir(exist_ok=True)
    (kv / "tmp" / f"1-{'a' * 32}").write_bytes(as_tokens(SECRET))
    (kv / "ab").mkdir(exist_ok=True)
    key = "0" * 16
    (kv / "ab" / f"{key}-{key}-{key}.rows.damaged").write_bytes(as_tokens(SECRET))
    (kv / "ab" / f"{'0' * 64}.state.damaged").write_bytes(as_tokens(SECRET))
    (shelf.folder / f".{'a' * 32}.new").write_bytes(as_tokens(SECRET))
    shelf.delete("talk")
    assert {} == folder_contents(shelf.folder)


def test_what_chatcli_cannot_have_written_stays(shelf: Shelf) -> None:
    shelf.put("talk", [1, *SECRET])
    kv = catalog.model_folder(shelf.folder, FINGERPRINT).path
    names = [
        "kv/x",
        "kv/odd.damaged/x",
        f"kv/{'a' * 32}.damaged/x",
        "images/x",
        "images/ab/x.png",
        ".abc.new",
    ]
    names += [f"{kv.relative_to(shelf.folder)}/{name}" for name in ("x", "tmp/1-abc", "ab/x.rows.damaged")]
    names += [
        f"{kv.relative_to(shelf.folder)}/{name}" for name in ("ab/y.rows.safetensors", "ab/d.damaged/x")
    ]
    for name in names:
        (shelf.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shelf.folder / name).write_bytes(b"notes")
    shelf.delete("talk")
    eviction.remove(maintenance.collectable(SessionFolder(shelf.folder), 0))
    inventory.clear(shelf.folder)
    assert set(names) == set(folder_contents(shelf.folder))


@pytest.mark.parametrize("damaged_part", ["header", "rows"])
def test_a_damaged_file_that_is_partly_shared_is_removed(shelf: Shelf, damaged_part: str) -> None:
    shelf.put("talk", [1, *SECRET])
    shelf.put("other", [1, *SECRET[:3]])
    (path,) = [path for path in segment_files(shelf.folder) if inventory.holds_several(path.name)]
    data = bytearray(path.read_bytes())
    data[20 if damaged_part == "header" else -1] ^= 1
    path.write_bytes(data)
    shelf.delete("talk")
    assert [] == searched(shelf.folder, as_tokens(SECRET[4:5]))
    assert not path.exists()


def test_a_file_that_cannot_be_shortened_is_removed(shelf: Shelf) -> None:
    shelf.put("talk", [1, *SECRET])
    shelf.put("other", [1, *SECRET[:3]])
    kv = catalog.model_folder(shelf.folder, FINGERPRINT).path
    (kv / "tmp").rmdir()
    (kv / "tmp").write_text("in the way")
    shelf.delete("talk")
    assert [] == searched(shelf.folder, as_tokens(SECRET[4:5]))


def test_the_lists_of_format_1_are_removed(shelf: Shelf) -> None:
    names = shelf.put("talk", [1, 2])
    shard = catalog.model_folder(shelf.folder, FINGERPRINT).path / names[0][:2]
    (shard / f"{names[0]}.next").write_text(f"{names[1]}\n")
    shelf.delete("talk")
    assert {} == folder_contents(shelf.folder)


# The program


def leaves_nothing(chatcli: Program, *needles: str) -> None:
    for needle in needles:
        assert [] == searched(chatcli.sessions, needle.encode())


def segment_names(chatcli: Program, name: str) -> Iterator[str]:
    for entry in SessionFolder(chatcli.sessions).read(name).conversation.entries.values():
        yield from entry.record.get("segments", ())


def turns(chatcli: Program, name: str, texts: Sequence[str] = TURNS) -> list[dict[str, Any]]:
    return chatcli.chat(texts, "-S", name, "-n", 8)


def assert_same_turn(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    for key in ("reused_tokens", "prompt_tokens", "tokens", "logprobs", "miss_reason"):
        assert expected[key] == actual[key]


@pytest.mark.slow
def test_deleting_a_session_leaves_the_replies_of_others_unchanged(chatcli: Program, tmp_path: Path) -> None:
    turns(chatcli, "other", TURNS[:2])
    chatcli.run("branch", "other", "--at", 1, "--as", "third")
    untouched = Program(tmp_path / "untouched", chatcli.model)
    copy(chatcli, untouched)
    turns(chatcli, "talk", ["My code word is periwinkle.", *TURNS[1:]])
    shared_names = {*segment_names(chatcli, "other"), *segment_names(chatcli, "third")}
    own_names = set(segment_names(chatcli, "talk")) - shared_names
    assert own_names
    chatcli.run("delete", "talk", "--yes")
    leaves_nothing(chatcli, "periwinkle", *(name[:16] for name in own_names))
    for name in ("other", "third"):
        expected = untouched.ask("And now?", "-S", name, "-n", 8)
        assert_same_turn(expected, chatcli.ask("And now?", "-S", name, "-n", 8))


def copy(source: Program, destination: Program) -> None:
    for name, data in folder_contents(source.sessions).items():
        path = destination.sessions / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.mark.slow
def test_files_of_a_process_killed_in_mid_turn_are_removed_too(chatcli: Program) -> None:
    chatcli.ask("Hello.", "-S", "talk", "-n", 4)
    known = {path.name for path in segment_files(chatcli.sessions)}
    process = chatcli.start("ask", "heliotrope " * 40, "-S", "talk", "-n", 100_000)
    deadline = time.monotonic() + 60
    while known >= {path.name for path in segment_files(chatcli.sessions)}:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    chatcli.run("delete", "talk", "--yes")
    assert {} == folder_contents(chatcli.sessions)


def test_files_and_folders_are_readable_by_their_owner_only(chatcli: Program) -> None:
    turns(chatcli, "talk", TURNS[:2])
    modes = {
        (path.is_dir(), path.stat().st_mode & 0o777)
        for path in (chatcli.sessions, *chatcli.sessions.rglob("*"))
    }
    assert {(True, 0o700), (False, 0o600)} == modes
