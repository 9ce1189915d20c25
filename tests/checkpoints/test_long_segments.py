"""Long messages have checkpoints at cuts: shared where prompts diverge, written during a long prefill."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chatcli.checkpoints.live_cache import NO_STATE, Unwritten
from chatcli.checkpoints.writer import MAX_UNWRITTEN, MAX_UNWRITTEN_SECONDS, is_much, runs
from chatcli.events import PrefillProgress
from chatcli.files import Location
from chatcli.kv.prompt_cache import RowLog, Snapshot
from chatcli.settings.values import ModelOptions
from chatcli.store.segments.container import Container
from chatcli.store.segments.cuts import CUT_TOKENS
from chatcli.store.segments.token_path import TokenPath, root_id
from chatcli.turn import turn, typeahead
from tests.support.families import at_night
from tests.support.harness import Harness, finish, outcome
from tests.support.tiny import write_model

WORDS = ["river", "lisbon", "dog", "biscuit", "answer", "brief", "remember", "told", "quick"]
# Larger chunks than a CPU's: the same mechanism, sooner.
STEP = 256
ROOT = root_id("a model")
PATH = TokenPath.cut(ROOT, range(100), [5, 45, 60], distance=10)
STATE = Snapshot(0, {})


def text(count: int, seed: int = 1) -> str:
    rng = random.Random(seed)
    return " ".join(f"{rng.choice(WORDS)} {rng.randrange(100)}" for _ in range(count))


@pytest.fixture(params=["qwen3_5", at_night("qwen3"), "gpt_oss"])
def roomy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model of each family with room for long messages."""
    return write_model(tmp_path / "model", request.param, max_position_embeddings=1 << 16)


def open_harness(model: Path, folder: Path, **options: Any) -> Harness:
    step = ModelOptions(prefill_step_size=STEP)
    return Harness(model, folder, tokens=4, model_options=step, **options)


# Shared


@pytest.mark.slow
@pytest.mark.parametrize("roomy", ["qwen3_5", "gpt_oss"], indirect=True)
def test_of_what_long_prompts_share_nearly_all_is_reused_after_a_restart(roomy: Path, tmp_path: Path) -> None:
    shared = text(2900)
    prompts = [f"{shared}\nThe {each} line." for each in ("first", "second, another,", "third")]
    records = []
    for number, system in enumerate(prompts):
        with open_harness(roomy, tmp_path / "saved") as harness:
            records.append(harness.say(harness.chat(str(number), system), "Hello.", settle=False))
    for number, (record, system) in enumerate(zip(records, prompts, strict=True)):
        assert 10_000 < record.prompt_tokens
        with open_harness(roomy, tmp_path / "cold", cache=False) as harness:
            cold = harness.say(harness.chat(str(number), system), "Hello.")
        assert outcome(cold) == outcome(record)
    first, *others = records
    assert 0 == first.reused_tokens
    for record in others:
        # But for the last line, the message, and what comes after the last cut.
        assert record.prompt_tokens - 60 - CUT_TOKENS <= record.reused_tokens < record.prompt_tokens


def test_where_a_state_is_missing_the_reason_says_so(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "qwen3_5", max_position_embeddings=1 << 16)
    shared, reasons = text(500), []
    for number in range(2):
        # No state on the way takes so long to compute again.
        with open_harness(model, tmp_path / "saved", recompute_seconds=1000.0) as harness:
            chat = harness.chat(str(number), f"{shared}\nLine {number}.")
            reasons.append(harness.say(chat, "Hello.", settle=False).miss_reason)
    assert reasons[0] is None
    assert "tokens, but no state within them is kept" in str(reasons[1])


@pytest.mark.slow
def test_no_state_on_the_way_is_written_that_is_quickly_computed(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "qwen3_5", max_position_embeddings=1 << 16)
    with open_harness(model, tmp_path / "saved", recompute_seconds=1000.0) as harness:
        harness.say(harness.chat("talk", text(3000)), "Hello.", settle=False)
        path = harness.runtime.checkpoints.live.position.path
    assert not path[8].keeps_state and path[9].keeps_state
    states = {path.name.partition(".")[0] for path in tmp_path.rglob("*.state.safetensors")}
    assert [] == [segment.end for segment in path if segment.ends_at_cut and segment.id in states]


# On the way


def test_a_stopped_turn_leaves_what_it_has_read_on_disk_at_once(roomy: Path, tmp_path: Path) -> None:
    long = text(700)
    harness = open_harness(roomy, tmp_path / "saved")
    chat, stop = harness.chat("talk"), threading.Event()
    for event in turn.take(chat, long, stop):
        if isinstance(event, PrefillProgress) and event.done > CUT_TOKENS + STEP:
            stop.set()
    store = harness.runtime.checkpoints.store
    assert store is not None
    store.flush()
    # The process is killed here: nothing of what it does at its end counts.
    with open_harness(roomy, tmp_path / "saved") as other:
        again = other.say(other.chat("other"), long)
    with open_harness(roomy, tmp_path / "cold", cache=False) as cold:
        assert outcome(cold.say(cold.chat("other"), long)) == outcome(again)
    assert CUT_TOKENS <= again.reused_tokens < again.prompt_tokens - CUT_TOKENS
    harness.__exit__()


@pytest.mark.slow
def test_an_interrupted_long_message_is_one_file_in_the_end(roomy: Path, tmp_path: Path) -> None:
    long = text(900)
    for chunks in (6, 12, None):
        with open_harness(roomy, tmp_path / "saved") as harness:
            chat, stop = harness.chat(f"talk {chunks}"), threading.Event()
            progress = 0
            for event in turn.take(chat, long, stop):
                progress += isinstance(event, PrefillProgress)
                if progress == chunks:
                    stop.set()
    lengths = []
    for path in (tmp_path / "saved").rglob("*.rows.*"):
        with Container(Location.of_file(path)) as file:
            lengths.append(int(file.metadata["end"]) - int(file.metadata["start"]))
    assert 1 == sum(length >= CUT_TOKENS for length in lengths)


def test_short_messages_are_not_cut(models: Path, tmp_path: Path) -> None:
    with Harness(models / "qwen3_5", tmp_path) as harness:
        chat = harness.chat("talk")
        for number in range(4):
            harness.say(chat, f"Message {number}.")
        assert not any(segment.ends_at_cut for segment in harness.runtime.checkpoints.live.position.path)
    for path in tmp_path.rglob("*.rows.*"):
        with Container(Location.of_file(path)) as file:
            assert "cuts" not in file.metadata


# Typed ahead


def type_ahead(chat: turn.TurnContext, message: str) -> int:
    tokens = 0
    for event in typeahead.typeahead(chat, message, threading.Event()):
        tokens = event.tokens
    return tokens


def rows_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [pytest.param(1.0, marks=pytest.mark.slow), 0.7])
def test_a_long_message_typed_ahead_is_written_when_it_is_sent(
    roomy: Path, tmp_path: Path, kept: float
) -> None:
    typed = text(1000)
    sent = typed[: int(len(typed) * kept)] + " and no more"
    with open_harness(roomy, tmp_path / "saved") as harness:
        chat, store = harness.chat("talk"), harness.runtime.checkpoints.store
        assert store is not None
        harness.say(chat, "Hello.")
        store.flush()
        before = rows_bytes(tmp_path / "saved")
        ahead = type_ahead(chat, typed)
        store.flush()
        assert before == rows_bytes(tmp_path / "saved") and ahead > 3 * CUT_TOKENS
        record = finish(turn.take(chat, sent, threading.Event()))
        assert record.typeahead_tokens > ahead * kept - 2 * CUT_TOKENS
        store.flush()
        assert rows_bytes(tmp_path / "saved") > before
    with open_harness(roomy, tmp_path / "saved") as harness:
        again = harness.say(harness.chat("talk", at=1), sent)
        assert again.reused_tokens >= record.prompt_tokens - 20
    with open_harness(roomy, tmp_path / "cold", cache=False) as harness:
        chat = harness.chat("talk")
        harness.say(chat, "Hello.")
        cold = outcome(harness.say(chat, sent))
    assert cold == outcome(record) == outcome(again)


# When it is written, and as what


def waiting(depths: Sequence[int], *, states: Sequence[int] = (), seconds: float = 0.1) -> list[Unwritten]:
    """What waits of `PATH`, whose segments 2 to 4 are on the way."""
    assert [False, True, True, True, False, True, False] == [segment.ends_at_cut for segment in PATH]
    return [
        Unwritten(PATH.upto(depth), RowLog(), STATE if depth in states else None, seconds) for depth in depths
    ]


@pytest.mark.parametrize(
    ("unwritten", "max_states", "much"),
    [
        ([], 0, False),
        (waiting([1, 2, 3, 4, 5, 6, 7]), 0, False),
        (waiting([1] * MAX_UNWRITTEN), 0, False),
        (waiting([1] * (MAX_UNWRITTEN + 1)), 100, True),
        (waiting([2, 3, 4, 2, 3], states=[2, 3, 4]), 0, True),
        (waiting([2, 3, 4, 2, 3], states=[2, 3, 4]), 5, False),
        (waiting([2, 3], seconds=MAX_UNWRITTEN_SECONDS / 2), 0, False),
        (waiting([2, 3, 4], seconds=MAX_UNWRITTEN_SECONDS / 2), 0, True),
    ],
)
def test_what_is_much_to_wait_for_the_first_token(
    unwritten: list[Unwritten], max_states: int, much: bool
) -> None:
    assert much == is_much(unwritten, max_states)


@pytest.mark.parametrize(
    ("depths", "expected"),
    [
        ([], []),
        ([1, 2, 3, 4, 5, 6, 7], [[1], [2, 3, 4, 5], [6, 7]]),
        ([3, 4], [[3, 4]]),
        ([2, 4, 5], [[2], [4, 5]]),
        ([5, 2], [[5], [2]]),
    ],
)
def test_what_is_on_the_way_to_one_boundary_is_one_file(depths: list[int], expected: list[list[int]]) -> None:
    assert expected == [[len(each.path) for each in run] for run in runs(waiting(depths))]


def test_a_state_alone_is_in_no_file_of_rows() -> None:
    first, second = waiting([2, 3])
    assert [1, 1] == [len(run) for run in runs([first._replace(log=None), second])]
    assert NO_STATE == ({}, "{}")
