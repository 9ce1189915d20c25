"""mlx-lm's import changes no limit of open files, and works under a low one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

IMPORTED = """
import resource, sys
soft, hard = map(int, sys.argv[1:3])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
import importlib
importlib.import_module(sys.argv[3])
import mlx_lm
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
# A privileged process may raise any limit, so it is not refused what mlx-lm asks for.
UNPRIVILEGED = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]


def limits_after(module: str, soft: int, hard: int) -> tuple[int, ...]:
    command = [sys.executable, "-c", IMPORTED, str(soft), str(hard), module]
    if os.geteuid() == 0 and shutil.which("setpriv"):
        command = [*UNPRIVILEGED, *command]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "" == result.stderr
    return tuple(map(int, result.stdout.split()))


@pytest.mark.parametrize("module", ["chatcli.model.load", "chatcli.engine.generate", "chatcli.kv.growth"])
def test_whatever_imports_mlx_lm_keeps_the_hard_limit_and_uses_it(module: str) -> None:
    assert (8000, 8000) == limits_after(module, 300, 8000)


def test_a_low_limit_does_not_keep_the_model_from_loading() -> None:
    assert (512, 512) == limits_after("chatcli.model.load", 256, 512)
