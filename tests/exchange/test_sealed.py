"""Sealed conversations: they go on elsewhere at the first token, and a hostile one leaves no byte."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatcli import records
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import NotImportable
from chatcli.exchange import sealed
from chatcli.files import Location
from chatcli.store.segments import catalog, inventory
from chatcli.store.segments.container import Container, Tensor, pack
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.images import Gallery
from tests import ROOT
from tests.support.harness import MESSAGES, Harness, outcome
from tests.support.program import Program, folder_contents, segment_files

LIMIT = 1 << 30
Changes = Callable[[dict[str, str], list[dict[str, str]], dict[str, Tensor]], None]


def seal(sessions: Path, target: Path, name: str = "talk", *, at: int | None = None, **options: Any) -> Path:
    folder = SessionFolder(sessions)
    conversation = folder.read(name).conversation
    if at is not None:
        conversation = conversation.upto(conversation.end_of_turn(at))
    sealed.write(target, folder, name, conversation, **options)
    return target


def unseal(path: Path, sessions: Path, name: str | None = None, **options: Any) -> str:
    """Import it. Returns the session's name."""
    with sealed.opened(path) as opened:
        options = {"limit": LIMIT, **options}
        with sealed.unpack(SessionFolder(sessions), opened, name, **options) as session:
            return session.name


@pytest.fixture
def talk(saved_conversation: Path, tmp_path: Path) -> Path:
    """A sealed conversation of one turn, with states."""
    return seal(saved_conversation, tmp_path / "talk.chatcli")


@pytest.mark.slow
def test_pocket_goes_on_elsewhere(tmp_path: Path) -> None:
    test_an_imported_conversation_goes_on_at_the_first_token_bit_for_bit(Path("pocket"), tmp_path)


def test_an_imported_conversation_goes_on_at_the_first_token_bit_for_bit(model: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with Harness(model, here) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES[:3]:
            harness.say(chat, text)
    unseal(seal(here, tmp_path / "talk.chatcli"), there)
    outcomes, counts = [], []
    for sessions in (here, there):
        with Harness(model, sessions) as harness:
            record = harness.say(harness.chat("talk"), MESSAGES[3])
        outcomes.append(outcome(record))
        counts.append((record.reused_tokens, record.prefilled_tokens, record.miss_reason))
    assert outcomes[0] == outcomes[1] and counts[0] == counts[1]
    assert counts[1][0] > 0 and counts[1][2] is None
    assert [] == list(inventory.verify(there))


@pytest.mark.slow
def test_a_pack_of_the_first_turn_holds_neither_words_nor_tokens_of_the_rest(
    models: Path, tmp_path: Path
) -> None:
    with Harness(models / "qwen3", tmp_path / "here", tokens=6) as harness:
        chat = harness.chat("talk")
        for text in MESSAGES:
            harness.say(chat, text)
        path = chat.checkpoints.live.position.path
    later = [segment for segment in path if segment.start >= len(path.tokens) // 2]
    pack_file = seal(tmp_path / "here", tmp_path / "pack.chatcli", at=1)
    whole = seal(tmp_path / "here", tmp_path / "whole.chatcli")
    for data, is_whole in ((pack_file.read_bytes(), False), (whole.read_bytes(), True)):
        assert is_whole == (MESSAGES[1].encode() in data)
        for segment in later:
            assert is_whole == (np.asarray(path.tokens_of(segment), "<i4").tobytes() in data)
    assert "talk" == unseal(pack_file, tmp_path / "there")
    with Harness(models / "qwen3", tmp_path / "there", tokens=6) as harness:
        record = harness.say(harness.chat("talk"), MESSAGES[1])
    assert record.reused_tokens > 0 and record.miss_reason is None


def test_each_segment_is_there_once_whatever_files_hold_it(saved_conversation: Path, tmp_path: Path) -> None:
    with SessionFolder(saved_conversation).open("talk") as session:
        named = {name for each in session.conversation.path() for name in each.record.get("segments", ())}
    with sealed.opened(seal(saved_conversation, tmp_path / "all.chatcli", branches=True)) as opened:
        rows = [part for part in opened.segments if part.metadata["kind"] == "rows"]
        ids = [name for part in rows for name in catalog.segment_ids(part)]
        assert len(ids) == len(set(ids)) and {*ids} <= named and opened.tokens > 0


def test_images_and_branches_and_labels_come_along(tmp_path: Path) -> None:
    here, there = SessionFolder(tmp_path / "here"), SessionFolder(tmp_path / "there")
    data = b"as if it were a picture"
    picture = Picture(hashlib.sha256(data).hexdigest(), "cat.png", "png", 4, 3)
    with (
        here.create("talk", model="tiny", system="Be brief.") as session,
        Gallery(here.location).keeping([Image(picture, data)]),
    ):
        first = session.append(Message("user", "What is it?", images=(picture,)), None)
        session.append(Message("assistant", "A cat.", thinking="Whiskers."), first.id)
        other = session.append(Message("assistant", "A dog."), first.id)
        session.set_label(other.id, "wrong")
        session.set_settings({"temp": 0.5})
        session.set_model_options({"kv_bits": 4, "adapter_path": "/home/somebody/adapter"})
    before = here.read("talk").conversation
    unseal(seal(tmp_path / "here", tmp_path / "talk.chatcli"), there.folder, "copy")
    after = there.read("copy").conversation
    assert (before.entries, before.labels, before.head) == (after.entries, after.labels, after.head)
    assert ("Be brief.", {"temp": 0.5}, {"kv_bits": 4}) == (after.system, after.settings, after.model_options)
    assert data == Gallery(there.location).data(picture)


def test_what_was_made_with_other_libraries_gives_its_words_and_the_reason(
    talk: Path, tmp_path: Path
) -> None:
    other = "MLX 0.1, mlx-lm 0.1, Plan9 vax"
    with sealed.opened(talk) as opened:
        assert opened.program.startswith(records.program()) and opened.foreign_reason is None
    changed(talk, lambda top, segments, tensors: top.update(program=other, model="its-model"))
    with sealed.opened(talk) as opened:
        reason = opened.foreign_reason
        assert reason is not None
        assert f"made with its-model on {other}; this is {records.program()}: " in reason
        assert f"{opened.tokens:,} tokens will be prefilled again" in reason
    unseal(talk, tmp_path / "there")
    assert ["talk"] == SessionFolder(tmp_path / "there").names()
    assert [] == segment_files(tmp_path / "there")


def test_the_words_alone_can_be_had_and_too_many_checkpoints_are_refused(talk: Path, tmp_path: Path) -> None:
    with pytest.raises(NotImportable, match="raise it with --cache-limit"):
        unseal(talk, tmp_path / "there", limit=1000)
    assert {} == folder_contents(tmp_path / "there")
    unseal(talk, tmp_path / "there", limit=1000, checkpoints=False)
    assert [] == segment_files(tmp_path / "there")


def test_a_damaged_checkpoint_is_left_out_of_what_is_sealed(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3_5", tmp_path / "here", tokens=6) as harness:
        harness.say(harness.chat("talk"), MESSAGES[0])
    state = max(
        (tmp_path / "here").glob("kv/*/??/*.state.safetensors"), key=lambda path: path.stat().st_mtime
    )
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(data)
    unseal(seal(tmp_path / "here", tmp_path / "talk.chatcli"), tmp_path / "there")
    assert not state.exists()
    assert [] == list(inventory.verify(tmp_path / "there")) and segment_files(tmp_path / "there")


# Hostile files


def changed(path: Path, change: Changes) -> Path:
    """The file with other contents and checksums that are right."""
    with Container(Location.of_file(path)) as file:
        top, tensors = dict(file.metadata), {name: file.read(name) for name in file.tensors}
    segments = json.loads(top["segments"])
    change(top, segments, tensors)
    if segments:
        top["segments"] = json.dumps(segments)
    path.write_bytes(pack(tensors, top))
    return path


def of_rows(**values: str) -> Changes:
    return lambda top, segments, tensors: segments[0].update(values)


def of_state(**values: str) -> Changes:
    def change(top: dict[str, str], segments: list[dict[str, str]], tensors: dict[str, Tensor]) -> None:
        next(each for each in segments if each["kind"] == "state").update(values)

    return change


def set_tensor(name: str, array: Any) -> Changes:
    return lambda top, segments, tensors: tensors.update({name: Tensor.of(np.asarray(array))})


def put_twice(top: dict[str, str], segments: list[dict[str, str]], tensors: dict[str, Tensor]) -> None:
    number = f"kv/{len(segments):06}/"
    segments.append(segments[0])
    for name in [name for name in tensors if name.startswith("kv/000000/")]:
        tensors[name.replace("kv/000000/", number)] = tensors[name]


def other_shape(top: dict[str, str], segments: list[dict[str, str]], tensors: dict[str, Tensor]) -> None:
    name = next(name for name in tensors if name.startswith("kv/000000/") and name.endswith(".keys"))
    tensors[name] = Tensor.of(np.zeros((1, 1, 1, 3), np.float32))


def words(change: Callable[[bytes], bytes]) -> Changes:
    def changes(top: dict[str, str], segments: list[dict[str, str]], tensors: dict[str, Tensor]) -> None:
        data = change(tensors["words"].raw().tobytes())
        tensors["words"] = Tensor.of(np.frombuffer(data, np.uint8))

    return changes


HUGE = "9" * 5000
HOSTILE: dict[str, Changes] = {
    "another format": lambda top, segments, tensors: top.update(format="zip"),
    "a newer version": lambda top, segments, tensors: top.update(version="2"),
    "a version that is not one": lambda top, segments, tensors: top.update(version=HUGE),
    "no segments": lambda top, segments, tensors: (top.pop("segments"), segments.clear())[0],
    "segments that are no list": lambda top, segments, tensors: (
        top.update(segments="{}"),
        segments.clear(),
    )[0],
    "segments too deep": lambda top, segments, tensors: (
        top.update(segments="[" * 100_000 + "]" * 100_000),
        segments.clear(),
    )[0],
    "metadata that is no text": lambda top, segments, tensors: segments[0].update(start=0),  # type: ignore[dict-item]
    "metadata of its own": of_rows(path="/etc/passwd"),
    "a fingerprint that leads out": of_rows(fingerprint="../../../../tmp/x"),
    "another model's segment": of_rows(fingerprint="0" * 32),
    "a parent that leads out": of_rows(parent="../../x"),
    "a parent that is not there": of_rows(parent="0" * 64),
    "another id": of_rows(id="0" * 64),
    "an end of its own": of_rows(end="1"),
    "a huge start": of_rows(start=HUGE),
    "a negative start": of_rows(start="-1"),
    "huge ends": of_rows(ends=f"[{HUGE}]"),
    "falling ends": of_rows(ends="[5, 3]"),
    "neither rows nor state": of_rows(kind="soul"),
    "a segment of a newer version": of_rows(version="3"),
    "seconds that are not": of_rows(seconds="soon"),
    "a state's id that leads out": of_state(id="../../x"),
    "a state of nothing": of_state(id="0" * 64),
    "a state's end": of_state(end="1"),
    "scalars too deep": of_state(scalars="[" * 100_000 + "]" * 100_000),
    "a segment twice": put_twice,
    "other tokens": set_tensor("kv/000000/tokens", np.arange(9, dtype=np.int32)),
    "tokens that are none": set_tensor("kv/000000/tokens", np.ones((2, 2), np.float32)),
    "rows of another shape": other_shape,
    "an array that no segment has": set_tensor("kv/999999/x", [1]),
    "an array with a path's name": set_tensor("../../x", [1]),
    "an image that no message shows": set_tensor("images/" + "0" * 64, np.zeros(4, np.uint8)),
    "no words": lambda top, segments, tensors: tensors.pop("words") and None,
    "words that are none": words(lambda data: b"\x00" * 40),
    "a damaged line": words(lambda data: data + b"{]\n"),
    "a torn line": words(lambda data: data[:-1]),
    "no messages": words(lambda data: data.split(b"\n")[0] + b"\n"),
    "words that name no segment": words(lambda data: data.replace(b'"segments"', b'"segmentos"')),
    "an id that leads out": words(lambda data: data.replace(b'"id": "', b'"id": "../')),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_leaves_no_byte(name: str, talk: Path, tmp_path: Path) -> None:
    changed(talk, HOSTILE[name])
    with pytest.raises(NotImportable):
        unseal(talk, tmp_path / "there")
    assert not (tmp_path / "there").exists() or {} == folder_contents(tmp_path / "there")
    assert {path.name for path in tmp_path.iterdir()} <= {"talk.chatcli", "there"}


def test_a_flipped_bit_or_a_cut_is_found_before_a_byte_is_written(talk: Path, tmp_path: Path) -> None:
    data = talk.read_bytes()
    places = [*range(0, 24), *range(24, len(data), len(data) // 40), len(data) - 1]
    damaged = [data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in places]
    damaged += [data[:at] for at in places] + [data + b"\0"]
    damaged += [length.to_bytes(8, "little") + data[8:] for length in (0, 1, 1 << 25, 1 << 40, (1 << 64) - 1)]
    for content in damaged:
        talk.write_bytes(content)
        with pytest.raises(NotImportable):
            unseal(talk, tmp_path / "there")
        assert not (tmp_path / "there").exists()


# Interrupted

KILLED = """
import os, signal, sys
from pathlib import Path
from chatcli.exchange import sealed
from chatcli.store.sessions.folder import SessionFolder

what, path, sessions, share = sys.argv[1:]
folder = SessionFolder(Path(sessions))

def progress(done, total):
    if done >= float(share) * total:
        os.kill(os.getpid(), signal.SIGKILL)

if what == "export":
    sealed.write(Path(path), folder, "talk", folder.read("talk").conversation, progress=progress)
else:
    with sealed.opened(Path(path)) as opened:
        sealed.unpack(folder, opened, limit=1 << 30, progress=progress)
"""


def kill(what: str, path: Path, sessions: Path, share: float) -> None:
    command = [sys.executable, "-c", KILLED, what, str(path), str(sessions), str(share)]
    assert -signal.SIGKILL == subprocess.run(command, cwd=ROOT, check=False).returncode


def test_a_killed_export_leaves_no_file_that_looks_whole(saved_conversation: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "talk.chatcli"
    target.parent.mkdir()
    kill("export", target, saved_conversation, 0.6)
    assert not target.exists()
    seal(saved_conversation, target)
    assert [target] == list(target.parent.iterdir())
    assert "talk" == unseal(target, tmp_path / "there")


@pytest.mark.parametrize(
    "share", [0.7, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.3, 1.0))]
)
def test_a_killed_import_leaves_whole_checkpoints_or_none_and_can_be_repeated(
    share: float, talk: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    kill("import", talk, there, share)
    assert [] == (SessionFolder(there).names() if there.exists() else [])
    assert [] == list(inventory.verify(there))
    assert "talk" == unseal(talk, there)
    assert [] == list(inventory.verify(there))


def test_an_import_that_fails_takes_its_checkpoints_away_again(talk: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unseal(talk, tmp_path / "there", progress=stop)
    assert {} == folder_contents(tmp_path / "there")


# The commands


@pytest.mark.slow
def test_the_commands_seal_show_and_import_without_mlx(
    chatcli: Program, saved_conversation: Path, tmp_path: Path
) -> None:
    shutil.copytree(saved_conversation, chatcli.sessions)
    target = tmp_path / "talk.chatcli"
    (tmp_path / "no_mlx" / "mlx").mkdir(parents=True)
    (tmp_path / "no_mlx" / "mlx" / "__init__.py").write_text("raise SystemError('MLX was imported')")
    without_mlx = chatcli.environment(PYTHONPATH=f"{tmp_path / 'no_mlx'}:{ROOT}")
    chatcli.run("export", "talk", "-o", target, env=without_mlx)
    shown = chatcli.run("show", target, "--json", env=without_mlx).json()
    assert "My dog is called Biscuit." == shown["turns"][0]["user"] and shown["sealed"]["tokens"] > 0
    imported = chatcli.run("import", target, "--json", env=without_mlx).json()
    assert ("talk-2", 1) == (imported["session"], imported["turns"])


@pytest.mark.slow
def test_the_commands_say_what_is_wrong(chatcli: Program, saved_conversation: Path, tmp_path: Path) -> None:
    shutil.copytree(saved_conversation, chatcli.sessions)
    target = tmp_path / "talk.chatcli"
    chatcli.run("export", "talk", "-o", target)
    assert "exists already" in chatcli.run("export", "talk", "-o", target, expect=1).errors
    chatcli.run("export", "talk", "-o", target, "--force", "--branches", "--at", 1)
    assert "already" in chatcli.run("import", target, "--as", "talk", expect=1).errors
    assert "-o NAME.chatcli" in chatcli.run("export", "talk", "--format", "chatcli", expect=2).errors
    (tmp_path / "folder.chatcli").mkdir()
    for name in ("folder.chatcli", "gone.chatcli"):
        assert 1 == chatcli.run("show", tmp_path / name, expect=1).errors.count("\n")
