"""Folders of version 0.1.0: transcripts open and continue, checkpoints are misses and are removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from chatcli.store import maintenance
from chatcli.store.segments import eviction, inventory
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFolder
from tests import ROOT
from tests.support.checkpointing import (
    ONE_SEGMENT,
    TOKEN_PATH,
    damage_of_rows,
    damage_of_state,
    depth,
    expected,
    raw,
    read,
    rows_files,
    state_at,
    state_of,
    write,
    write_all,
)
from tests.support.harness import Harness

FIXTURE = ROOT / "tests" / "fixtures" / "sessions-0.1.0"
FAMILIES = ["qwen3", "qwen3_5"]
MESSAGES = ["My dog is called Biscuit.", "I live in Lisbon, by the river."]
LONG_AGO = 1_700_000_000
LARGE_LIMIT_BYTES = 1 << 40


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    shutil.copytree(FIXTURE, folder, ignore=shutil.ignore_patterns("*.md"))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_an_old_transcript_opens(saved: Path, family: str) -> None:
    transcript = SessionFolder(saved).read(family)
    assert [] == transcript.problems
    assert MESSAGES == [turn.user.message.content for turn in transcript.conversation.turns()]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_old_conversation_goes_on(saved: Path, models: Path, family: str) -> None:
    old_bytes = (saved / f"{family}.jsonl").read_bytes()
    for number in (3, 4):
        with Harness(models / family, saved, tokens=6) as harness:
            record = harness.say(harness.chat(family), "What is my dog's name?")
        assert (number, 6) == (record.turn, len(record.tokens))
        assert (number > 3) == (record.reused_tokens > 0)
    assert (saved / f"{family}.jsonl").read_bytes().startswith(old_bytes)
    assert number == len(SessionFolder(saved).read(family).conversation.turns())


# Checkpoints of segment version 1


def write_old(store: SegmentStore) -> list[Path]:
    """Write `TOKEN_PATH` as version 0.1.0 did, last used long ago, and a transcript that names it."""
    paths = []
    for segment in TOKEN_PATH:
        shard = store.folder / segment.id[:2]
        shard.mkdir(parents=True, exist_ok=True)
        for kind in ("rows", "state"):
            metadata = {"format": "chatcli-segment", "version": "1", "kind": kind, "id": segment.id}
            metadata |= {"start": str(segment.start), "end": str(segment.end), "parent": segment.parent}
            metadata |= {"fingerprint": store.fingerprint, "scalars": "{}", "digest": "0" * 32}
            paths.append(shard / f"{segment.id}.{kind}.safetensors")
            safetensors.numpy.save_file({"0.keys": np.ones((1, 1, 2, 3), "f4")}, paths[-1], metadata)
        paths.append(shard / f"{segment.id}.next")
        paths[-1].write_text(f"{TOKEN_PATH[-1].id}\n")
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))
    with SessionFolder(sessions_of(store)).create("talk", model=None, system=None) as session:
        names = [segment.id for segment in TOKEN_PATH]
        session.write({"type": "note", "id": "x", "record": {"segments": names}})
    return paths


def sessions_of(store: SegmentStore) -> Path:
    return store.folder.parent.parent


def test_old_rows_are_a_miss(store: SegmentStore) -> None:
    write_old(store)
    assert 0 == depth(store)
    assert "evicted or deleted" == damage_of_rows(store)
    assert list(range(1, len(TOKEN_PATH) + 1)) == store.missing(TOKEN_PATH)
    write_all(store, TOKEN_PATH)
    assert expected(TOKEN_PATH) == read(store, TOKEN_PATH)


def test_an_old_state_is_set_aside_when_read_and_written_anew(store: SegmentStore) -> None:
    write_old(store)
    assert 0 == depth(store, stateful=True)
    write(store, ONE_SEGMENT, state=True)
    assert damage_of_state(store).startswith("damaged: ")
    assert not state_at(store).exists()
    write(store, ONE_SEGMENT, state=True)
    assert raw(state_of(TOKEN_PATH[0])) == raw(store.state(TOKEN_PATH[0])[0])


def test_gc_removes_old_rows_and_lists_although_a_session_names_them(store: SegmentStore) -> None:
    paths = write_old(store)
    eviction.remove(maintenance.collectable(SessionFolder(sessions_of(store)), LARGE_LIMIT_BYTES))
    assert [path for path in paths if ".state." in path.name] == [path for path in paths if path.exists()]


def test_eviction_removes_old_files_before_current_ones(store: SegmentStore) -> None:
    paths = [path for path in write_old(store) if ".next" not in path.name]
    write(store, ONE_SEGMENT)
    current_bytes = sum(path.stat().st_size for path in rows_files(store) if path not in paths)
    eviction.remove(eviction.over_limit(sessions_of(store), int(current_bytes / eviction.TARGET_SHARE) + 200))
    assert [] == [path for path in paths if path.exists()]
    assert expected(ONE_SEGMENT) == read(store, ONE_SEGMENT)


def test_verification_names_every_old_file(store: SegmentStore) -> None:
    paths = write_old(store)
    assert sorted(paths) == sorted(problem.path for problem in inventory.verify(sessions_of(store)))


def test_deleting_a_session_removes_every_old_file(store: SegmentStore) -> None:
    paths = write_old(store)
    maintenance.delete(SessionFolder(sessions_of(store)), "talk")
    assert [] == [path for path in paths if path.exists()]
