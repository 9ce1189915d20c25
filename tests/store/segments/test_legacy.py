"""Folders of version 0.1.0: their words open, their rows are upgraded, their states computed again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from chatcli.errors import SegmentDamaged
from chatcli.events import TurnRecord
from chatcli.store import maintenance
from chatcli.store.segments import catalog, eviction, inventory, legacy
from chatcli.store.segments.catalog import ROWS_NAME, STATE_NAME
from chatcli.store.segments.container import Container
from chatcli.store.segments.prefix import Segment
from chatcli.store.segments.rows import joined
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFolder
from tests import ROOT
from tests.conftest import entries, segment_files
from tests.support.harness import Harness

FIXTURE = ROOT / "tests" / "fixtures" / "format-1"
FAMILIES = ["qwen3", "qwen3_5"]
SAID = ["My dog is called Biscuit.", "I live in Lisbon, by the river."]
NEXT = "What is my dog's name?"
LONG_AGO = 1_700_000_000
PLENTY = 1 << 40


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A copy of the old sessions folder, unused for long."""
    folder = tmp_path / "saved"
    shutil.copytree(FIXTURE / "saved", folder)
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return folder


@pytest.fixture
def on_cpu() -> None:
    if mx.default_device().type != mx.DeviceType.cpu:
        pytest.skip("the fixture's checkpoints were computed on a CPU: here they are another model's")


def go_on(family: str, sessions: Path) -> TurnRecord:
    with Harness(FIXTURE / family, sessions, tokens=6) as harness:
        return harness.say(harness.chat(family), NEXT)


def without_checkpoints(saved: Path) -> Path:
    """The same transcripts in a folder of their own."""
    cold = saved.parent / "cold"
    cold.mkdir()
    for path in saved.glob("*.jsonl"):
        shutil.copy(path, cold)
    return cold


def settled_up_to(saved: Path, family: str) -> int:
    """Where the conversation's last checkpoint was."""
    return int(entries(saved / f"{family}.jsonl")[-1]["record"]["boundaries"]["reply"])


def old_files(saved: Path) -> list[Path]:
    """Everything in the folder that is no file of format 2."""
    return [
        path
        for path in saved.glob("kv/*/??/*")
        if not ROWS_NAME.fullmatch(path.name) and not is_new_state(path)
    ]


def is_new_state(path: Path) -> bool:
    try:
        return bool(STATE_NAME.fullmatch(path.name)) and bool(Container(path).parts)
    except SegmentDamaged:
        return False


def collect(saved: Path) -> int:
    return eviction.remove(maintenance.collectable(SessionFolder(saved), PLENTY))


def old_path(saved: Path, family: str) -> tuple[list[Segment], list[int], list[dict[str, bytes]]]:
    """A conversation's chain, its tokens and the bytes of each segment's rows, from the old files."""
    paths = model_folder(saved, family).glob("??/*.rows.safetensors")
    found = [legacy.unpack(path.read_bytes()) for path in paths]
    found.sort(key=lambda one: int(one[1]["start"]))
    chain = [Segment(told["id"], told["parent"], int(told["start"]), int(told["end"])) for _, told in found]
    tokens = [rows.pop("tokens").array().tolist() for rows, _ in found]
    raw = [{name: bytes(part.raw()) for name, part in rows.items()} for rows, _ in found]
    return chain, [token for part in tokens for token in part], raw


def store_of(saved: Path, family: str) -> SegmentStore:
    return SegmentStore(saved, model_folder(saved, family).name)


def model_folder(saved: Path, family: str) -> Path:
    return saved / "kv" / str(entries(saved / f"{family}.jsonl")[2]["record"]["fingerprint"])


@pytest.mark.parametrize("family", FAMILIES)
def test_an_old_transcript_opens(saved: Path, family: str) -> None:
    transcript = SessionFolder(saved).read(family)
    assert [] == transcript.problems
    assert SAID == [turn.user.message.content for turn in transcript.conversation.turns()]


@pytest.mark.usefixtures("on_cpu")
def test_old_rows_are_a_hit_and_become_new_ones(saved: Path) -> None:
    expected = settled_up_to(saved, "qwen3")
    record = go_on("qwen3", saved)
    assert (expected, None) == (record.reused_tokens, record.miss_reason)
    mine = model_folder(saved, "qwen3")
    assert {".next"} == {path.suffix for path in old_files(saved) if mine in path.parents}


@pytest.mark.parametrize("family", FAMILIES)
def test_upgraded_rows_have_the_bytes_of_the_old_ones(saved: Path, family: str) -> None:
    chain, prompt, raw = old_path(saved, family)
    store = store_of(saved, family)
    assert len(chain) == store.depth(chain, prompt, stateful=False)
    for depth in range(1, len(chain) + 1):
        with store.rows(chain[:depth], prompt) as rows:
            ends = {name: joined(rows, name) for name in rows.names}
        assert set(raw[depth - 1]) == set(ends)
        start = chain[depth - 1].start
        cut = {name: np.ascontiguousarray(a[..., start:, :]).tobytes() for name, a in ends.items()}
        assert raw[depth - 1] == cut
    store.close()


@pytest.mark.usefixtures("on_cpu")
def test_an_old_state_is_a_miss_with_a_reason_and_computed_again(saved: Path) -> None:
    cold = go_on("qwen3_5", without_checkpoints(saved))
    record = go_on("qwen3_5", saved)
    assert 0 == record.reused_tokens
    assert "gone" in str(record.miss_reason)
    assert len(record.tokens) == 6
    assert (cold.tokens, cold.logprobs) == (record.tokens, record.logprobs)
    again = go_on("qwen3_5", saved)
    assert again.reused_tokens > record.prompt_tokens - 10
    assert None is again.miss_reason


@pytest.mark.usefixtures("on_cpu")
def test_nothing_of_the_old_format_is_left_after_a_turn_and_a_cleaning(saved: Path) -> None:
    for family in FAMILIES:
        go_on(family, saved)
    assert 0 < collect(saved)
    assert [] == old_files(saved)
    assert [] == list(inventory.verify(saved))
    assert [None, None] == [go_on(family, saved).miss_reason for family in FAMILIES]


@pytest.mark.usefixtures("on_cpu")
def test_a_damaged_old_file_is_a_miss_and_costs_no_word(saved: Path) -> None:
    cold = go_on("qwen3", without_checkpoints(saved))
    chain, _, _ = old_path(saved, "qwen3")
    path = legacy.old_path(model_folder(saved, "qwen3"), chain[0])
    path.write_bytes(path.read_bytes()[:-1])
    record = go_on("qwen3", saved)
    assert (0, True) == (record.reused_tokens, bool(record.miss_reason))
    assert (cold.tokens, cold.logprobs) == (record.tokens, record.logprobs)
    assert [] == list(inventory.verify(saved))


def test_an_upgrade_that_was_cut_short_loses_nothing(saved: Path) -> None:
    """A process was killed when it had written the new file and not yet removed the old one."""
    chain, prompt, _ = old_path(saved, "qwen3")
    store = store_of(saved, "qwen3")
    paths = [legacy.old_path(store.folder, segment) for segment in chain]
    copies = {path: path.read_bytes() for path in paths}
    assert len(chain) == store.depth(chain, prompt, stateful=False)
    for path, data in copies.items():
        path.write_bytes(data)
    assert [] == list(inventory.verify(saved))
    eviction.remove(eviction.held_twice(saved))
    assert len(chain) == store.depth(chain, prompt, stateful=False)
    with store.rows(chain, prompt) as rows:
        assert prompt == catalog.tokens_of(store.folder, [segment.id for segment in chain])
        assert len(prompt) == rows.count
    store.close()


def test_another_process_may_upgrade_first(saved: Path) -> None:
    chain, prompt, _ = old_path(saved, "qwen3")
    store = store_of(saved, "qwen3")
    assert legacy.upgrade(store.folder, chain, prompt)
    assert not legacy.upgrade(store.folder, chain, prompt)
    assert len(chain) == store.depth(chain, prompt, stateful=False)
    store.close()


def test_intact_old_files_pass_verification(saved: Path) -> None:
    assert 10 < len(segment_files(saved))
    assert [] == list(inventory.verify(saved))


@pytest.mark.parametrize("change", ["flip", "cut", "empty", "append"])
def test_every_damaged_old_file_is_named(saved: Path, change: str) -> None:
    for path in segment_files(saved):
        data = path.read_bytes()
        half = len(data) // 2
        flipped = data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]
        changed = {"flip": flipped, "cut": data[:-1], "empty": b"", "append": data + b"\0"}
        path.write_bytes(changed[change])
        assert [path] == [problem.path for problem in inventory.verify(saved)]
        path.write_bytes(data)


@pytest.mark.parametrize("kind", ["rows", "state"])
def test_an_old_file_in_anothers_place_is_named(saved: Path, kind: str) -> None:
    one, *_, other = saved.glob(f"kv/*/??/*.{kind}.safetensors")
    swap(one, other)
    assert {one, other} == {problem.path for problem in inventory.verify(saved)}


def test_an_old_state_in_the_place_of_its_rows_is_named(saved: Path) -> None:
    state, *_ = saved.glob("kv/*/??/*.state.safetensors")
    rows = state.with_name(state.name.replace("state", "rows"))
    swap(state, rows)
    assert {state, rows} == {problem.path for problem in inventory.verify(saved)}


def test_an_old_file_of_another_model_is_named(saved: Path) -> None:
    mine, other = (model_folder(saved, family) for family in FAMILIES)
    rows, *_ = mine.glob("??/*.rows.safetensors")
    moved = other / rows.parent.name / rows.name
    moved.parent.mkdir(exist_ok=True)
    shutil.copy(rows, moved)
    assert [moved] == [problem.path for problem in inventory.verify(saved)]


def swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def test_old_tensors_of_nothing_are_read() -> None:
    """MiniMax-M3's indexer keeps values of no width."""
    header = {"__metadata__": {"digest": ""}, "a": {"dtype": "F32", "shape": [2, 0], "data_offsets": [0, 0]}}
    empty = legacy.Tensor("float32", (2, 0), np.empty(0, np.uint8))
    header["__metadata__"]["digest"] = legacy.digest({"a": empty}, {})
    text = json.dumps(header).encode()
    tensors, told = legacy.unpack(len(text).to_bytes(8, "little") + text)
    assert ({"a": (2, 0)}, {}) == ({name: part.shape for name, part in tensors.items()}, told)
