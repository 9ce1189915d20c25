"""The ways to continue a prompt, models with random weights, and questions about one document."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import batch, shapes, ways
from chatcli.bench import run
from chatcli.bench.run import Plan
from chatcli.model.load import load
from chatcli.threads.mlx_thread import Worker
from tests import ROOT
from tests.support.families import at_night


@pytest.mark.parametrize("name", ways.WORKLOADS)
@pytest.mark.parametrize("size", [run.QUICK, run.USUAL, run.FULL])
def test_each_request_continues_an_earlier_one(name: str, size: int) -> None:
    prompts: set[tuple[str, ...]] = {()}
    for step in ways.WORKLOADS[name](4.0, size).steps:
        assert step.request.user_messages[:-1] in prompts
        prompts.add(step.request.user_messages)


def test_a_follow_up_at_any_turn_reuses_the_turns_before_it(recurrent: Path) -> None:
    workload = ways.branch(4, 12)
    outcome = run.run(lambda *_: workload, Plan(str(recurrent), only=("chatcli",)), lambda *_: None)
    ours = outcome.race.of("chatcli")
    for step, answer in list(zip(workload.steps, ours, strict=True))[4:]:
        depth = len(step.request.user_messages)
        assert ours[depth - 1].reused_tokens == answer.reused_tokens > 0


@pytest.mark.slow
def test_what_was_typed_ahead_is_not_waited_for(recurrent: Path) -> None:
    workload = replace(ways.paste((100,), 4.0, 12), reply=12)
    outcome = run.run(lambda *_: workload, Plan(str(recurrent)), lambda *_: None, ways.contenders)
    plain, typed = outcome.race.of("chatcli"), outcome.race.of("chatcli, typed ahead")
    assert [answer.reused_tokens for answer in plain] == [answer.reused_tokens for answer in typed]
    assert all(answer.prompt_tokens - answer.reused_tokens - answer.typeahead_tokens < 6 for answer in typed)


@pytest.mark.parametrize("name", [*map(at_night, shapes.SMALL[1:]), shapes.SMALL[0]])
def test_a_shape_has_the_same_weights_each_time(name: str, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    worker = Worker()
    for folder in folders:
        folder.mkdir()
        worker.call(shapes.write, name, folder)
    loaded = worker.call(load, str(folders[0]))
    worker.close()
    assert loaded.context == shapes.CONTEXT_TOKENS
    first, second = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert first == second


@pytest.mark.slow
def test_questions_on_one_document_prefill_it_once_however_they_are_asked(recurrent: Path) -> None:
    report = batch.as_json(batch.compare(Plan(str(recurrent), run.QUICK), lambda *_: None))
    alone, batched, peer = report["ways"]
    assert [4, "chatcli, one by one", "chatcli, all 4 at once", "mlx-lm's batch_generate"] == [
        report["questions"],
        alone["name"],
        batched["name"],
        peer["name"],
    ]
    (alone,), (batched,), (theirs,) = (variant["rounds"] for variant in report["ways"])
    assert alone["prompt_tokens"] == theirs["prefilled_tokens"]
    assert alone["prefilled_tokens"] == batched["prefilled_tokens"] < alone["prompt_tokens"] / 2
    assert 0 < alone["generated_tokens"] == batched["generated_tokens"] == theirs["generated_tokens"]
    assert [0, 0, 0] == [variant["differing"] for variant in report["ways"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ways", ["paste", "--quick", "--only", "chatcli"]),
        ("month", ["--days", "2", "--turns", "4"]),
        ("start", ["--repeats", "1"]),
        ("scale", ["--quick"]),
        ("batch", ["--quick"]),
    ],
)
def test_each_benchmark_runs_by_its_name(name: str, arguments: list[str]) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert "machine" in json.loads(done.stdout)
