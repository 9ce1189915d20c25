"""Faults in the middle of an operation: afterwards the folder is in the old state or the new one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

SOURCE = Path(__file__).with_name("faults.c")


@pytest.fixture(scope="session")
def fault_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`faults.c`, compiled, for LD_PRELOAD."""
    if sys.platform != "linux":
        pytest.skip("faults are injected with LD_PRELOAD and /proc, which only Linux has")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler 'cc' here")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("when", ["day", pytest.param("night", marks=pytest.mark.slow)])
def test_no_fault_leaves_half_a_session_or_a_second_one(
    fault_library: Path, tmp_path: Path, when: str
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.adversary.faulty", str(fault_library), str(tmp_path), when],
        env={**os.environ, "LD_PRELOAD": str(fault_library), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    *problems, summary = result.stdout.splitlines() or [""]
    assert ([], "") == (problems, result.stderr)
    # Each way to end was met, or the faults did not come.
    assert all(map(int, re.findall(r"\d+", summary)))
