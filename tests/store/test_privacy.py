"""What was deleted is gone from every byte of the folder; the others lose nothing by it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatcli.store import maintenance
from chatcli.store.segments import catalog, inventory
from chatcli.store.segments.container import Tensor
from chatcli.store.segments.rows import joined
from chatcli.store.segments.segments import Checkpoint, SegmentStore
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
    """How a rows file spells token ids."""
    return np.asarray(tokens, "<i4").tobytes()


class Shelf:
    """A folder of sessions whose segments are small and whose rows spell their tokens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str | None, tokens: Sequence[int], fingerprint: str = FINGERPRINT) -> list[str]:
        """A session (None: a process was killed before it named anything), one token a segment."""
        store = SegmentStore(self.folder, fingerprint)
        path = TokenPath.cut(root_id(fingerprint), [*tokens, 0], range(1, len(tokens) + 1))
        for depth in range(1, len(path) + 1):
            rows = {"0.keys": spelled(tokens[depth - 1 : depth])}
            state = {"1.0": spelled(tokens[:depth])}
            store.put(Checkpoint(path.upto(depth), rows, state, "{}", 1.0))
        store.close()
        names = [segment.id for segment in path]
        if name is not None:
            with SessionFolder(self.folder).create(name, model=None, system=None) as session:
                session.write({"type": "note", "id": "x", "record": {"segments": names}})
        return names

    def delete(self, name: str) -> int:
        return maintenance.delete(SessionFolder(self.folder), name)

    def restored(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that the rows of a path spell, as deep as it is there with state."""
        store = SegmentStore(self.folder, FINGERPRINT)
        path = TokenPath.cut(root_id(FINGERPRINT), [*tokens, 0], range(1, len(tokens) + 1))
        depth = store.depth(path, stateful=True)
        with store.rows(path.upto(depth)) as rows:
            tokens_read = joined(rows, "0.keys")[0, 0, :, 0].tolist() if depth else []
        store.close()
        return list(tokens_read)

    def secrets(self) -> list[str]:
        """Where any of the secret tokens is, alone or in rows."""
        return sorted({name for token in SECRET for name in searched(self.folder, as_tokens([token]))})


def spelled(tokens: Sequence[int]) -> Tensor:
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
def test_what_two_sessions_share_stays_whole_and_the_rest_goes(shelf: Shelf, shared: int) -> None:
    """Nine shared segments lie in one joined file, and its end belongs to the one that goes."""
    before = list(range(1, shared + 1))
    names = shelf.put("talk", [*before, *SECRET])
    shelf.put("other", [*before, 77, 78])
    shelf.delete("talk")
    assert [] == shelf.secrets()
    assert [] == [name for name in names[shared:] if searched(shelf.folder, name[:16].encode())]
    assert [*before, 77, 78] == shelf.restored([*before, 77, 78])
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


def test_what_a_killed_process_never_named_goes(shelf: Shelf) -> None:
    shelf.put("talk", [1, 2])
    shelf.put(None, [1, 2, *SECRET])
    shelf.delete("talk")
    assert [] == shelf.secrets()


def test_what_was_set_aside_or_left_unfinished_goes(shelf: Shelf) -> None:
    shelf.put("talk", [1, *SECRET])
    kv = catalog.model_folder(shelf.folder, FINGERPRINT)
    (kv / "tmp").mkdir(exist_ok=True)
    (kv / "tmp" / "1-abc").write_bytes(as_tokens(SECRET))
    (kv / "ab").mkdir(exist_ok=True)
    (kv / "ab" / "x.rows.damaged").write_bytes(as_tokens(SECRET))
    (kv / "ab" / "folder.damaged").mkdir()
    (kv / "ab" / "folder.damaged" / "x").write_bytes(as_tokens(SECRET))
    (shelf.folder / "kv" / "odd.damaged" / "deep").mkdir(parents=True)
    (shelf.folder / "kv" / "odd.damaged" / "deep" / "x").write_bytes(as_tokens(SECRET))
    (shelf.folder / ".abc.new").write_bytes(as_tokens(SECRET))
    shelf.delete("talk")
    assert {} == folder_contents(shelf.folder)


@pytest.mark.parametrize("where", ["header", "rows"])
def test_a_damaged_file_that_is_needed_in_part_goes_whole(shelf: Shelf, where: str) -> None:
    shelf.put("talk", [1, *SECRET])
    shelf.put("other", [1, *SECRET[:3]])
    (path,) = [one for one in segment_files(shelf.folder) if inventory.holds_several(one.name)]
    data = bytearray(path.read_bytes())
    data[20 if where == "header" else -1] ^= 1
    path.write_bytes(data)
    shelf.delete("talk")
    assert [] == searched(shelf.folder, as_tokens(SECRET[4:5]))
    assert not path.exists()


def test_where_there_is_no_room_to_shorten_a_file_it_goes_whole(shelf: Shelf) -> None:
    shelf.put("talk", [1, *SECRET])
    shelf.put("other", [1, *SECRET[:3]])
    kv = catalog.model_folder(shelf.folder, FINGERPRINT)
    (kv / "tmp").rmdir()
    (kv / "tmp").write_text("in the way")
    shelf.delete("talk")
    assert [] == searched(shelf.folder, as_tokens(SECRET[4:5]))


def test_the_lists_of_format_1_go(shelf: Shelf) -> None:
    names = shelf.put("talk", [1, 2])
    shard = catalog.model_folder(shelf.folder, FINGERPRINT) / names[0][:2]
    (shard / f"{names[0]}.next").write_text(f"{names[1]}\n")
    shelf.delete("talk")
    assert {} == folder_contents(shelf.folder)


# The program


def leaves_nothing(chatcli: Program, *needles: str) -> None:
    for needle in needles:
        assert [] == searched(chatcli.sessions, needle.encode())


def named(chatcli: Program, name: str) -> Iterator[str]:
    for entry in SessionFolder(chatcli.sessions).read(name).conversation.entries.values():
        yield from entry.record.get("segments", ())


def turns(chatcli: Program, name: str, texts: Sequence[str] = TURNS) -> list[dict[str, Any]]:
    return chatcli.chat(texts, "-S", name, "-n", 8)


def alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    for key in ("reused_tokens", "prompt_tokens", "tokens", "logprobs", "miss_reason"):
        assert one[key] == other[key]


@pytest.mark.slow
def test_the_program_deletes_a_session_and_the_other_goes_on_as_before(
    chatcli: Program, tmp_path: Path
) -> None:
    turns(chatcli, "other", TURNS[:2])
    chatcli.run("branch", "other", "--at", 1, "--as", "third")
    untouched = Program(tmp_path / "untouched", chatcli.model)
    copy(chatcli, untouched)
    turns(chatcli, "talk", ["My code word is periwinkle.", *TURNS[1:]])
    others = {*named(chatcli, "other"), *named(chatcli, "third")}
    own = set(named(chatcli, "talk")) - others
    assert own
    chatcli.run("delete", "talk", "--yes")
    leaves_nothing(chatcli, "periwinkle", *(name[:16] for name in own))
    for name in ("other", "third"):
        expected = untouched.ask("And now?", "-S", name, "-n", 8)
        alike(expected, chatcli.ask("And now?", "-S", name, "-n", 8))


def copy(one: Program, other: Program) -> None:
    for name, data in folder_contents(one.sessions).items():
        path = other.sessions / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.mark.slow
def test_what_a_process_killed_in_mid_turn_left_goes_too(chatcli: Program) -> None:
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


def test_what_is_written_is_for_its_owner_only(chatcli: Program) -> None:
    turns(chatcli, "talk", TURNS[:2])
    modes = {
        (path.is_dir(), path.stat().st_mode & 0o777)
        for path in (chatcli.sessions, *chatcli.sessions.rglob("*"))
    }
    assert {(True, 0o700), (False, 0o600)} == modes
