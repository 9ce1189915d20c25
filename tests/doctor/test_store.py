"""What the doctor finds in real sessions and checkpoints, intact and damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chatcli.doctor import disk
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
        *disk.sessions(SessionFolder(folder), whole),
        *disk.checkpoints(SessionFolder(folder), limit),
    ]
    return {finding.name: finding for finding in findings}


def test_what_is_whole_is_counted(saved: Path) -> None:
    before, findings = folder_contents(saved), look(saved, whole=True)
    (usage,) = inventory.usage(saved)
    assert {"ok"} == {finding.status for finding in findings.values()}
    assert usage.bytes == findings["checkpoints"].data["bytes"] > 0
    assert usage.segments == findings["checkpoints"].data["segments"]
    assert 1 == findings["sessions"].data["sessions"]
    assert before == folder_contents(saved)


def test_an_empty_folder_and_none_are_whole(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        assert {"ok"} == {finding.status for finding in look(folder, limit=None).values()}


def test_a_damaged_line_is_found_where_there_is_time(saved: Path) -> None:
    path = saved / "talk.jsonl"
    head, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([head, b"{\n", *rest]))
    assert "problem" == look(saved, whole=True)["sessions"].status


def test_a_full_cache_is_advice_and_one_that_cannot_be_kept_a_problem(saved: Path) -> None:
    assert "advice" == look(saved, limit=1000)["checkpoints"].status
    shutil.rmtree(saved / "kv")
    (saved / "kv").write_text("")
    finding = look(saved)["checkpoints"]
    assert "problem" == finding.status
    assert "not a folder" in finding.value
