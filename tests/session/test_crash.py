"""Kill -9 at any instant: no message that was on disk is lost, and no token comes out wrong.

CHATCLI_KILLS is how many processes are killed (default 12, nightly 200), CHATCLI_SEED where.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.crash_harness import Harness, Victim, size
from tests.support.program import Program

SEED = int(os.environ.get("CHATCLI_SEED", "20261121"))


@pytest.mark.parametrize("family", [pytest.param("gpt_oss", marks=pytest.mark.slow), "qwen3_5"])
def test_killed_processes_lose_no_message_and_change_no_token(
    family: str, models: Path, tmp_path: Path
) -> None:
    harness = Harness(Program(tmp_path / "home", models / family), SEED)
    print(f"CHATCLI_SEED={SEED} CHATCLI_KILLS={size()}")
    harness.kills(size() // 2)
    harness.go_on()
    harness.check()
    harness.program.run("cache", "verify")
    assert [] == harness.litter()
    print(dict(harness.seen))
    assert harness.seen["struck"] >= harness.seen["kills"] * 2 // 3
    reused = 0
    for acknowledged, calm in harness.replayed(tmp_path / "copies"):
        for key in ("prompt_tokens", "text", "tokens", "logprobs"):
            assert calm[key] == acknowledged.turn[key], (key, acknowledged.message, acknowledged.sampled)
        reused += acknowledged.turn["reused_tokens"]
    # The turns before a kill were not computed again.
    assert reused > 0


@pytest.mark.slow
def test_processes_killed_while_they_begin_a_session_leave_no_litter(chatcli: Program) -> None:
    chatcli.ask("Hello.", "-S", "first", "-n", "2")
    harness = Harness(chatcli, SEED)
    for number in range(4 + size() // 10):
        victim = Victim(harness.start("branch", "first", "--as", f"copy-{number}"))
        harness.wait(victim, lambda: harness.unnamed())
        harness.kill(victim, 0.0005)
    print(dict(harness.seen), harness.unnamed())
    harness.check()
    chatcli.run("branch", "first", "--as", "last")
    assert [] == harness.litter()
    names = {path.stem for path in chatcli.sessions.glob("*.jsonl")}
    assert {"first", "last"} <= names
    for name in names:
        assert "Hello." in chatcli.run("show", name).text or name.startswith("copy")
