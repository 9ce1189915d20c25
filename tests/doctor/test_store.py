"""What the doctor finds among real sessions and checkpoints, whole and damaged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from chatcli.doctor import store
from chatcli.doctor.finding import Finding
from chatcli.store.segments import inventory
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import folder_contents

GIB = 1 << 30


@pytest.fixture
def saved(saved_conversation: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(saved_conversation, tmp_path / "saved")
    return tmp_path / "saved"


def look(folder: Path, *, whole: bool = False, limit: int | None = GIB) -> dict[str, Finding]:
    findings = [
        *store.sessions(SessionFolder(folder), whole),
        *store.checkpoints(folder, limit),
        *store.headers(SessionFolder(folder)),
        *store.leftovers(SessionFolder(folder)),
    ]
    return {finding.name: finding for finding in findings}


def test_what_is_whole_is_counted(saved: Path) -> None:
    before, findings = folder_contents(saved), look(saved, whole=True)
    (usage,) = inventory.usage(saved)
    assert {"ok"} == {finding.status for finding in findings.values()}
    assert usage.bytes == findings["checkpoints"].data["bytes"] > 0
    assert usage.segments == findings["checkpoints"].data["segments"]
    assert 1 == findings["sessions"].data["sessions"]
    assert usage.rows_files + usage.states == findings["headers"].data["read"]
    assert before == folder_contents(saved)


def test_an_empty_folder_and_none_are_whole(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        assert {"ok"} == {finding.status for finding in look(folder, limit=None).values()}


@pytest.mark.parametrize("kind", ["rows", "state"])
def test_a_damaged_header_is_found(saved: Path, kind: str) -> None:
    path = min(saved.glob(f"kv/*/*/*.{kind}.safetensors"))
    os.truncate(path, 10)
    finding = look(saved)["headers"]
    assert "problem" == finding.status
    assert [str(path)] == finding.data["damaged"]
    assert "cache verify --repair" in finding.advice


def test_a_damaged_line_is_found_where_there_is_time(saved: Path) -> None:
    path = saved / "talk.jsonl"
    head, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([head, b"{\n", *rest]))
    assert "problem" == look(saved, whole=True)["sessions"].status


def test_what_was_left_behind_is_advice_to_collect_it(saved: Path) -> None:
    path = min(saved.glob("kv/*/*/*.state.safetensors"))
    path.rename(path.with_suffix(".damaged"))
    (saved / f".{'0' * 32}.new").write_bytes(b"begun")
    finding = look(saved)["leftovers"]
    assert ("advice", 2) == (finding.status, finding.data["files"])
    assert "cache gc" in finding.advice


def test_checkpoints_of_no_session_are_advice_once_they_are_old(saved: Path) -> None:
    (saved / "talk.jsonl").unlink()
    assert "ok" == look(saved)["leftovers"].status
    for path in saved.glob("kv/*/*/*"):
        os.utime(path, (0, 0))
    assert "no session needs it" in look(saved)["leftovers"].value


def test_a_full_cache_is_advice_and_one_that_cannot_be_kept_a_problem(saved: Path) -> None:
    assert "advice" == look(saved, limit=1000)["checkpoints"].status
    shutil.rmtree(saved / "kv")
    (saved / "kv").write_text("")
    finding = look(saved)["checkpoints"]
    assert "problem" == finding.status
    assert "not a folder" in finding.value
