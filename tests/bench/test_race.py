"""Benchmark contenders: all get the same prompts and replies, and each reports what it reused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chatcli.bench import run, workloads
from chatcli.bench.ours import Chatcli
from chatcli.bench.peers import MlxLmFile, MlxLmServer, NoReuse
from chatcli.bench.race import Answer, Contender, Query, Race, Step, race, rotated
from chatcli.bench.scripted import Script, script
from chatcli.cli import bench
from chatcli.errors import UsageError

REPLY = 12
SYSTEM = workloads.SYSTEM
# Where one family is enough, the hybrid one: it cannot trim its cache.
HYBRID = pytest.mark.parametrize("model", ["qwen3_5"], indirect=True)


@contextlib.contextmanager
def opened_contenders(model: Path) -> Iterator[tuple[dict[str, Contender], Script]]:
    """Every contender by name, all with one tiny model that generates a scripted reply, and that script."""
    with run.opened(run.Plan(str(model))) as harness:
        reply_script = harness.worker.call(script, harness.loaded.tokenizer, REPLY)
        harness = replace(harness, loaded=run.scripted(harness.loaded, reply_script))
        parts = harness.worker, harness.loaded
        contenders: list[Contender] = [
            NoReuse(*parts),
            MlxLmServer(*parts),
            MlxLmFile(*parts, harness.folder),
            Chatcli(*parts, harness.folder),
        ]
        yield {contender.name: contender for contender in contenders}, reply_script
        for contender in contenders:
            contender.close()


def run_race(model: Path, steps: list[Step], *names: str) -> Race:
    with opened_contenders(model) as (contenders, reply_script):
        chosen = [contender for name, contender in contenders.items() if not names or name in names]
        return race(chosen, steps, reply_script, 1, lambda *_: None)


def reused(result: Race, name: str) -> list[int]:
    return [answer.reused_tokens for answer in result.of(name)]


def test_contenders_run_the_same_prompts_and_generate_the_same_tokens(model: Path) -> None:
    result = run_race(model, list(workloads.turns(4, REPLY).steps))
    cold = [answer.prompt_tokens for answer in result.of("no reuse")]
    for name in result.answers:
        assert cold == [answer.prompt_tokens for answer in result.of(name)]
        differing, compared = result.differing(name)
        assert (0, True) == (differing, compared >= 4 * REPLY)
        assert all(len(answer.gaps) >= REPLY for answer in result.of(name))
        assert all(0 < answer.time_to_first_token < 60 for answer in result.of(name))


@HYBRID
@pytest.mark.slow
def test_reuse_grows_with_the_conversation(model: Path) -> None:
    result = run_race(model, list(workloads.turns(4, REPLY).steps))
    assert [0, 0, 0, 0] == reused(result, "no reuse")
    served, ours = reused(result, "mlx-lm's server"), reused(result, "chatcli")
    assert ours[0] == 0 < served[1] < ours[1]
    assert ours == sorted(ours) and served == sorted(served)
    # Only the message and the generation prompt are left to run.
    assert all(answer.prompt_tokens - answer.reused_tokens < 40 for answer in result.of("chatcli")[1:])
    assert all(answer.ahead_tokens > REPLY for answer in result.of("chatcli"))
    assert [0] * 4 == [answer.ahead_tokens for answer in result.of("mlx-lm's server")]


@HYBRID
def test_a_reopened_contender_reuses_what_is_on_disk(model: Path) -> None:
    result = run_race(model, list(workloads.reopen((2,), REPLY).steps), "chatcli", "mlx-lm's server")
    opened, ready, at_once = result.of("chatcli")[2:]
    assert (
        min(opened.reused_tokens, ready.reused_tokens, at_once.reused_tokens)
        > result.of("chatcli")[1].prompt_tokens
    )
    assert 0 == opened.opening_seconds < min(ready.opening_seconds, at_once.opening_seconds)
    assert ready.disk_bytes > 0 and ready.written_bytes > 0
    assert [0, 0] == reused(result, "mlx-lm's server")[3:]


@pytest.mark.slow
def test_each_repeat_starts_cold(model: Path) -> None:
    with opened_contenders(model) as (contenders, reply_script):
        steps = list(workloads.turns(2, REPLY).steps)
        result = race(list(contenders.values()), steps, reply_script, 2, lambda *_: None)
    for name, (first, second) in result.answers.items():
        assert [answer.reused_tokens for answer in first] == [answer.reused_tokens for answer in second]
        assert 0 == second[0].reused_tokens, name


@pytest.mark.slow
def test_one_system_prompt_serves_many_conversations(model: Path) -> None:
    texts = ("The quick brown fox.", "My dog is called Biscuit.")
    system = f"{SYSTEM} {workloads.long_text(600)}"
    steps = [Step(text, Query(system, (text,))) for text in (*texts, *texts)]
    result = run_race(model, steps, "chatcli")
    first, second, *again = result.of("chatcli")
    assert 0 == first.reused_tokens < second.reused_tokens
    assert all(answer.prompt_tokens - answer.reused_tokens < 20 for answer in again)


def test_the_starting_contender_rotates_from_step_to_step() -> None:
    items: list[Contender] = [Fixed("a"), Fixed("b"), Fixed("c")]
    firsts = ["".join(item.name for item in rotated(items, by)) for by in range(4)]
    assert ["abc", "bca", "cab", "abc"] == firsts


def test_differing_greedy_tokens_are_counted() -> None:
    steps = [Step("one", Query(SYSTEM, ("a",))), Step("two", Query(SYSTEM, ("b",)))]
    contenders = [Fixed("a", (1, 2, 3)), Fixed("b", (1, 5, 6))]
    result = race(contenders, steps, Script([1, 2, 3], ""), 1, lambda *_: None)
    assert [(0, 6), (4, 6)] == [result.differing(name) for name in ("a", "b")]


class Fixed(Contender):
    """A contender that always gives the same answer."""

    def __init__(self, name: str, greedy: tuple[int, ...] = ()) -> None:
        self.name = name
        self._answer = Answer(1, 0, 1.0, greedy=greedy)

    def ask(self, request: Query, script: Script) -> Answer:
        return self._answer


@pytest.mark.parametrize("name", run.WORKLOADS)
@pytest.mark.parametrize("size", [run.QUICK, run.USUAL, run.FULL])
def test_each_request_continues_an_earlier_one(name: str, size: int) -> None:
    prompts: set[tuple[str, ...]] = {()}
    for step in run.WORKLOADS[name](4.0, size).steps:
        assert step.request.user_messages[:-1] in prompts
        prompts.add(step.request.user_messages)


def test_every_workload_has_a_command() -> None:
    assert set(bench.MEASURED) == set(run.WORKLOADS)


@HYBRID
def test_an_unknown_contender_is_refused_with_the_known_names(model: Path) -> None:
    with pytest.raises(UsageError, match="'chatcli'"):
        run.run(run.WORKLOADS["turns"], run.Plan(str(model), only=("vllm",)), lambda *_: None)
