"""The benchmark's contenders hold the same conversation, and report what they did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chatcli.bench import run, shapes, workloads
from chatcli.bench.contender import Answer, Contender, Request
from chatcli.bench.ours import Chatcli, ChatcliTypeahead
from chatcli.bench.peers import MlxLmFile, MlxLmServer, NoReuse
from chatcli.bench.race import Race, Step, race, rotated
from chatcli.bench.scripted import Script, script
from chatcli.cli import bench
from chatcli.errors import UsageError
from chatcli.threads.mlx_thread import Worker
from tests.support.families import at_night

REPLY = 12
SYSTEM = workloads.SYSTEM
# Where one family is enough: the hard one.
HYBRID = pytest.mark.parametrize("model", ["qwen3_5"], indirect=True)


@contextlib.contextmanager
def contenders(model: Path) -> Iterator[tuple[dict[str, Contender], Script]]:
    """Everyone, by name, with one tiny model that says what it is told."""
    with run.opened(run.Plan(str(model))) as harness:
        said = harness.worker.call(script, harness.loaded.tokenizer, REPLY)
        harness = replace(harness, loaded=run.scripted(harness.loaded, said))
        parts = harness.worker, harness.loaded
        every: list[Contender] = [
            NoReuse(*parts),
            MlxLmServer(*parts),
            MlxLmFile(*parts, harness.folder),
            Chatcli(*parts, harness.folder),
            ChatcliTypeahead(*parts, harness.folder),
        ]
        yield {one.name: one for one in every}, said
        for one in every:
            one.close()


def held(model: Path, steps: list[Step], *names: str) -> Race:
    with contenders(model) as (every, said):
        chosen = [one for name, one in every.items() if not names or name in names]
        return race(chosen, steps, said, 1, lambda *_: None)


def reused(found: Race, name: str) -> list[int]:
    return [answer.reused_tokens for answer in found.of(name)]


def test_everyone_runs_the_same_prompts_and_says_the_same(model: Path) -> None:
    found = held(model, list(workloads.turns(4, REPLY).steps))
    cold = [answer.prompt_tokens for answer in found.of("no reuse")]
    for name in found.answers:
        assert cold == [answer.prompt_tokens for answer in found.of(name)]
        differing, compared = found.differing(name)
        assert (0, True) == (differing, compared >= 4 * REPLY)
        assert all(len(answer.gaps) >= REPLY for answer in found.of(name))
        assert all(0 < answer.time_to_first_token < 60 for answer in found.of(name))


@HYBRID
@pytest.mark.slow
def test_what_is_reused_grows_with_the_conversation(model: Path) -> None:
    found = held(model, list(workloads.turns(4, REPLY).steps))
    assert [0, 0, 0, 0] == reused(found, "no reuse")
    served, ours = reused(found, "mlx-lm's server"), reused(found, "chatcli")
    assert ours[0] == 0 < served[1] < ours[1]
    assert ours == sorted(ours) and served == sorted(served)
    # Only the message and the generation prompt are left to run.
    assert all(answer.prompt_tokens - answer.reused_tokens < 40 for answer in found.of("chatcli")[1:])
    drafted = found.of("chatcli, drafted")
    assert all(answer.prompt_tokens - answer.reused_tokens < 6 for answer in drafted)
    assert all(answer.ahead_tokens > REPLY for answer in found.of("chatcli"))
    assert [0] * 4 == [answer.ahead_tokens for answer in found.of("mlx-lm's server")]


@HYBRID
def test_a_new_process_finds_what_is_on_disk(model: Path) -> None:
    found = held(model, list(workloads.reopen((2,), REPLY).steps), "chatcli", "mlx-lm's server")
    opened, ready, at_once = found.of("chatcli")[2:]
    assert (
        min(opened.reused_tokens, ready.reused_tokens, at_once.reused_tokens)
        > found.of("chatcli")[1].prompt_tokens
    )
    assert 0 == opened.opening_seconds < min(ready.opening_seconds, at_once.opening_seconds)
    assert ready.disk_bytes > 0 and ready.written_bytes > 0
    assert [0, 0] == reused(found, "mlx-lm's server")[3:]


@HYBRID
def test_a_follow_up_at_any_turn_reuses_what_came_before(model: Path) -> None:
    workload = workloads.branch(4, REPLY)
    found = held(model, list(workload.steps), "chatcli")
    ours = found.of("chatcli")
    for step, answer in list(zip(workload.steps, ours, strict=True))[4:]:
        depth = len(step.request.user_messages)
        assert ours[depth - 1].reused_tokens == answer.reused_tokens > 0


@pytest.mark.slow
def test_another_repeat_begins_with_nothing(model: Path) -> None:
    with contenders(model) as (every, said):
        steps = list(workloads.turns(2, REPLY).steps)
        found = race(list(every.values()), steps, said, 2, lambda *_: None)
    for name, (first, second) in found.answers.items():
        assert [answer.reused_tokens for answer in first] == [answer.reused_tokens for answer in second]
        if name != "chatcli, drafted":
            assert 0 == second[0].reused_tokens


@pytest.mark.slow
def test_one_system_prompt_serves_many_conversations(model: Path) -> None:
    texts = ("The quick brown fox.", "My dog is called Biscuit.")
    system = f"{SYSTEM} {workloads.long_text(600)}"
    steps = [Step(text, Request(system, (text,))) for text in (*texts, *texts)]
    found = held(model, steps, "chatcli")
    first, second, *again = found.of("chatcli")
    assert 0 == first.reused_tokens < second.reused_tokens
    assert all(answer.prompt_tokens - answer.reused_tokens < 20 for answer in again)


def test_the_first_one_changes_from_step_to_step() -> None:
    every: list[Contender] = [Fixed("a"), Fixed("b"), Fixed("c")]
    firsts = ["".join(one.name for one in rotated(every, by)) for by in range(4)]
    assert ["abc", "bca", "cab", "abc"] == firsts


def test_greedy_tokens_that_differ_are_counted() -> None:
    steps = [Step("one", Request(SYSTEM, ("a",))), Step("two", Request(SYSTEM, ("b",)))]
    every = [Fixed("a", (1, 2, 3)), Fixed("b", (1, 5, 6))]
    found = race(every, steps, Script([1, 2, 3], ""), 1, lambda *_: None)
    assert [(0, 6), (4, 6)] == [found.differing(name) for name in ("a", "b")]


class Fixed:
    """A contender that always answers the same."""

    def __init__(self, name: str, greedy: tuple[int, ...] = ()) -> None:
        self.name = name
        self._answer = Answer(1, 0, 1.0, greedy=greedy)

    def ask(self, request: Request, script: Script) -> Answer:
        return self._answer

    def reopen(self, ahead: bool) -> None:
        """Nothing is held."""

    def forget(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("name", [*map(at_night, shapes.SMALL[1:]), shapes.SMALL[0]])
def test_a_shape_is_the_same_model_each_time(name: str) -> None:
    worker = Worker()
    one, other = (worker.call(shapes.load, name) for _ in range(2))
    assert one.fingerprint == other.fingerprint
    assert worker.call(_first_logit, one) == worker.call(_first_logit, other)
    worker.close()


def _first_logit(loaded: shapes.LoadedModel) -> float:
    import mlx.core as mx

    return float(loaded.model(mx.array([[5, 6]]))[0, -1, 7].item())


def test_a_shape_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match="qwen3-8b"):
        shapes.load("qwen9")


@pytest.mark.parametrize("name", run.WORKLOADS)
@pytest.mark.parametrize("size", [run.QUICK, run.USUAL, run.FULL])
def test_each_request_goes_on_from_one_before_it(name: str, size: int) -> None:
    asked: set[tuple[str, ...]] = {()}
    for step in run.WORKLOADS[name](4.0, size).steps:
        assert step.request.user_messages[:-1] in asked
        asked.add(step.request.user_messages)


def test_every_workload_has_a_command() -> None:
    assert set(bench.MEASURED) == set(run.WORKLOADS)


@HYBRID
def test_a_contender_that_is_not_there_is_refused_with_the_names(model: Path) -> None:
    with pytest.raises(UsageError, match="'chatcli'"):
        run.run("turns", run.Plan(str(model), only=("vllm",)), lambda *_: None)
