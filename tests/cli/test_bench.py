"""`chatcli bench WORKLOAD` on the command line."""

from __future__ import annotations

import json

import pytest

from tests.support.program import Program, escapes_in


@pytest.mark.slow
def test_the_json_has_the_machine_and_the_outcomes(chatcli: Program) -> None:
    options = ["--quick", "--only", "chatcli", "--json"]
    result = chatcli.run("bench", "agentic", "-m", str(chatcli.model), *options)
    report = json.loads(result.out)
    assert {"date", "system", "device", "python", "chatcli", "mlx", "mlx-lm"} == set(report["machine"])
    (outcome,) = report["outcomes"]
    assert ["no reuse", "chatcli"] == [contender["name"] for contender in outcome["contenders"]]
    cold, ours = (contender["summary"] for contender in outcome["contenders"])
    assert 0 == cold["all_but_first"]["reused_tokens"]
    assert 0.5 < ours["all_but_first"]["hit_ratio"] < 1
    assert 0.8 < ours["last_request"]["hit_ratio"] < 1
    assert 0 == ours["greedy_differing"] < ours["greedy_compared"]
    # The user's sessions folder is not touched.
    assert not chatcli.sessions.exists()


@pytest.mark.slow
def test_the_tables_fit_a_pipe_of_eighty_columns(chatcli: Program) -> None:
    narrow = chatcli.environment(COLUMNS="80")
    result = chatcli.run("bench", "reopen", "-m", str(chatcli.model), "--quick", env=narrow)
    assert [] == escapes_in(result.out)
    lines = result.out.decode().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("mlx-lm's server") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["turns", "--quick", "--full"], "--quick and --full"),
        (["serve", "--quick", "--full"], "--quick and --full"),
        (["turns", "--only", "vllm"], "mlx-lm's server"),
    ],
)
def test_a_usage_error_is_one_sentence(chatcli: Program, arguments: list[str], reason: str) -> None:
    result = chatcli.run("bench", *arguments, "-m", str(chatcli.model), expect=2)
    assert reason in result.err.decode()
    assert b"Traceback" not in result.err
