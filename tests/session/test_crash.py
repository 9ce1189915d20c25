"""kill -9 at any instant loses no message that was on disk, and changes no token.

CHATCLI_KILLS is the number of processes to kill (default 8, nightly 200), CHATCLI_SEED the random seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.crash_harness import Harness, Victim, kill_count
from tests.support.program import Program

SEED = int(os.environ.get("CHATCLI_SEED", "20261121"))


@pytest.mark.parametrize("family", [pytest.param("gpt_oss", marks=pytest.mark.slow), "qwen3_5"])
def test_killed_processes_lose_no_message_and_change_no_token(
    family: str, models: Path, tmp_path: Path
) -> None:
    harness = Harness(Program(tmp_path / "home", models / family), SEED)
    print(f"CHATCLI_SEED={SEED} CHATCLI_KILLS={kill_count()}")
    harness.kills(kill_count() // 2)
    harness.take_another_turn()
    harness.check()
    harness.program.run("cache", "verify")
    assert [] == harness.litter()
    print(dict(harness.counts))
    assert harness.counts["struck"] >= harness.counts["kills"] * 2 // 3
    reused = 0
    for acknowledged, undisturbed in harness.replayed(tmp_path / "copies"):
        for key in ("prompt_tokens", "text", "tokens", "logprobs"):
            assert undisturbed[key] == acknowledged.turn[key], (
                key,
                acknowledged.message,
                acknowledged.sampled,
            )
        reused += acknowledged.turn["reused_tokens"]
    # Turns after a kill reuse the checkpoints before it.
    assert reused > 0


@pytest.mark.slow
def test_processes_killed_while_they_begin_a_session_leave_no_litter(chatcli: Program) -> None:
    chatcli.ask("Hello.", "-S", "first", "-n", "2")
    harness = Harness(chatcli, SEED)
    for number in range(4 + kill_count() // 10):
        victim = Victim(harness.start("branch", "first", "--as", f"copy-{number}"))
        harness.wait(victim, lambda: harness.unnamed())
        harness.kill(victim, 0.0005)
    print(dict(harness.counts), harness.unnamed())
    harness.check()
    chatcli.run("branch", "first", "--as", "last")
    assert [] == harness.litter()
    names = {path.stem for path in chatcli.sessions.glob("*.jsonl")}
    assert {"first", "last"} <= names
    for name in names:
        assert "Hello." in chatcli.run("show", name).text or name.startswith("copy")
