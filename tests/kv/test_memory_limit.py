"""A conversation's memory is predicted, and refused if it exceeds the limit."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.engine import generate
from chatcli.errors import MemoryFull
from chatcli.events import Notice
from chatcli.kv import growth, prompt_cache
from chatcli.kv.freeze import arrays_in
from chatcli.kv.memory_limit import Growth, MemoryLimit, TightestLimit, Window
from chatcli.kv.prompt_cache import RowLog
from chatcli.model import device
from chatcli.model import load as models_
from chatcli.turn import turn, typeahead
from tests.support.harness import SYSTEM, Harness, finish, outcome
from tests.support.memory import SHORT_MESSAGE, needed_bytes
from tests.support.program import Program, folder_contents

LONG = "The quick brown fox jumps over the lazy dog. " * 30


@pytest.mark.parametrize("tokens", [1, 31, 200, 700])
def test_the_memory_of_a_cache_is_predicted(model: Path, tokens: int) -> None:
    loaded = models_.load(str(model))
    predicted = growth.predict(loaded.model)
    cache, log = prompt_cache.new(loaded.model), RowLog()
    for _ in generate.prefill(loaded, cache, [5] * tokens, log):
        pass
    used = sum(array.nbytes for array in arrays_in(cache))
    assert used == pytest.approx(predicted.cache_bytes(tokens), rel=0.02)


def test_the_memory_of_writing_a_checkpoint_is_predicted(model: Path) -> None:
    loaded = models_.load(str(model))
    cache, log = prompt_cache.new(loaded.model), RowLog()
    for _ in generate.prefill(loaded, cache, [5] * 700, log):
        pass
    predicted = growth.predict(loaded.model).checkpoint_bytes(700, written=True)
    logged = log.nbytes
    rows = prompt_cache.segment_rows(cache, log, 0, 700)
    assert predicted == pytest.approx(logged + sum(part.data.nbytes for part in rows.values()), rel=0.02)


def test_predicting_the_growth_computes_nothing(models: Path) -> None:
    loaded = models_.load(str(models / "qwen3_5"))
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    predicted = growth.predict(loaded.model)
    assert mx.get_peak_memory() - before < predicted.row_bytes * predicted.step / 4


def test_rows_grow_windows_fill_up_and_states_stay() -> None:
    growth = Growth(1000, 10, (Window(2, 32), Window(3, 64)), step=256)
    assert 0 == growth.cache_bytes(0)
    assert 1000 + 2560 + 5 == growth.cache_bytes(1)
    assert 1000 + 2560 + 2 * 32 + 3 * 48 == growth.cache_bytes(48)
    assert 1000 + 5120 + 2 * 32 + 3 * 64 == growth.cache_bytes(257)
    assert 100 * (10 + 2 * 5) == growth.checkpoint_bytes(100, written=True)
    assert 100 * 5 == growth.checkpoint_bytes(100, written=False)


def test_snapshots_take_at_most_an_eighth_of_the_memory_that_is_left() -> None:
    limit = MemoryLimit(100_000, 20_000, Growth(1000, 10, step=256))
    assert 2 + (100_000 - limit.needed_bytes(100)) // 8 // 1000 == limit.max_snapshots(100)
    assert 2 == replace(limit, max_bytes=20_000).max_snapshots(100)
    roomier = replace(limit, max_bytes=10**9)
    assert limit.max_snapshots(100) == TightestLimit((roomier, limit)).max_snapshots(100)


def test_max_tokens_is_what_fits() -> None:
    limit = MemoryLimit(60_000, 20_000, Growth(1000, 10, (Window(2, 32),), step=256))
    max_tokens = limit.max_tokens(10**6)
    assert limit.needed_bytes(max_tokens) <= 60_000 < limit.needed_bytes(max_tokens + 1)
    limit.check(max_tokens - 1)
    with pytest.raises(MemoryFull, match=r"tokens need .* the limit is 60,000.*.*--memory-limit"):
        limit.check(max_tokens)
    assert 0 == replace(limit, max_bytes=19_000).max_tokens(100)
    assert 50 == limit.max_tokens(50)


def test_a_prompt_that_does_not_fit_is_refused_and_nothing_is_lost(model: Path, tmp_path: Path) -> None:
    max_bytes = needed_bytes(model, tmp_path / "measured", LONG)
    with Harness(model, tmp_path, memory_limit=max_bytes - 1) as harness:
        chat = harness.chat("talk")
        first = harness.say(chat, SHORT_MESSAGE)
        head = chat.conversation.head
        with pytest.raises(MemoryFull, match=r"--memory-limit"):
            harness.say(chat, LONG)
        assert head == chat.conversation.head
        again = harness.say(chat, SHORT_MESSAGE)
        assert again.reused_tokens >= first.prompt_tokens - first.prefilled_tokens
        assert 2 == again.turn


@pytest.mark.slow
def test_a_prompt_that_just_fits_is_answered(recurrent: Path, tmp_path: Path) -> None:
    max_bytes = needed_bytes(recurrent, tmp_path / "measured", LONG)
    with Harness(recurrent, tmp_path / "little", memory_limit=max_bytes) as harness:
        limited = harness.say(harness.chat("talk"), LONG, settle=False)
    with Harness(recurrent, tmp_path / "much", tokens=len(limited.tokens)) as harness:
        unlimited = harness.say(harness.chat("talk"), LONG, settle=False)
    assert outcome(limited) == outcome(unlimited)
    assert limited.tokens


def test_a_checkpoint_larger_than_the_limit_is_not_restored_and_stays(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        harness.say(harness.chat("talk"), LONG)
    before = folder_contents(tmp_path / "kv")
    max_bytes = needed_bytes(model, tmp_path / "measured", SHORT_MESSAGE)
    with Harness(model, tmp_path, memory_limit=max_bytes) as harness:
        chat = harness.chat("talk")
        never = threading.Event()
        assert [] == list(turn.settle(chat, never))
        assert [] == list(typeahead.typeahead(chat, SHORT_MESSAGE, never))
        with pytest.raises(MemoryFull):
            harness.say(chat, SHORT_MESSAGE)
        assert 1 == len(chat.conversation.turns())
    assert before == folder_contents(tmp_path / "kv")
    with Harness(model, tmp_path) as harness:
        assert 200 < harness.say(harness.chat("talk"), SHORT_MESSAGE).reused_tokens


def test_typeahead_that_does_not_fit_stops_silently(recurrent: Path, tmp_path: Path) -> None:
    max_bytes = needed_bytes(recurrent, tmp_path / "measured", LONG)
    with Harness(recurrent, tmp_path, memory_limit=max_bytes - 1) as harness:
        chat = harness.chat("talk")
        harness.say(chat, SHORT_MESSAGE)
        assert [] == list(typeahead.typeahead(chat, LONG, threading.Event()))
        assert list(typeahead.typeahead(chat, SHORT_MESSAGE * 3, threading.Event()))


@pytest.mark.slow
def test_a_reply_ends_at_the_memory_limit(models: Path, tmp_path: Path) -> None:
    model = models / "speaker"
    max_bytes = needed_bytes(model, tmp_path / "measured", SHORT_MESSAGE, cache=False)
    with Harness(model, tmp_path, tokens=600, cache=False, memory_limit=max_bytes) as harness:
        chat = harness.chat("talk")
        limit = chat.checkpoints.memory
        assert limit is not None
        events = list(turn.take(chat, SHORT_MESSAGE, threading.Event()))
        record = finish(iter(events))
    assert "length" == record.finish_reason
    assert limit.max_tokens(5000) == record.prompt_tokens + len(record.tokens)
    assert any(isinstance(event, Notice) and "memory" in event.text for event in events)


class Exhausted(nn.Module):
    """`inner`, but call number `last` raises MLX's error for full memory."""

    def __init__(self, inner: Any, last: int) -> None:
        super().__init__()
        self.inner = inner
        self.calls, self.last = 0, last

    def __call__(self, inputs: Any, cache: Any = None) -> Any:
        self.calls += 1
        if self.calls == self.last:
            raise RuntimeError("[malloc] Unable to allocate 17179869184 bytes.")
        return self.inner(inputs, cache=cache)

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if name == "inner" else getattr(self.inner, name)


@pytest.mark.parametrize("last", [2, 8])
def test_full_memory_in_a_prefill_loses_nothing(model: Path, tmp_path: Path, last: int) -> None:
    with Harness(model, tmp_path / "free") as harness:
        expected = outcome(harness.say(harness.chat("talk"), SHORT_MESSAGE, settle=False))
    with Harness(model, tmp_path / "full") as harness:
        loaded = harness.runtime.loaded
        broken = replace(loaded, model=Exhausted(loaded.model, last))
        chat = harness.chat("talk")
        chat.checkpoints = Checkpoints(harness.worker, broken, chat.checkpoints.store)
        with pytest.raises(MemoryFull, match="17179869184"):
            harness.say(chat, LONG)
        assert None is chat.conversation.head
        assert expected == outcome(harness.say(chat, SHORT_MESSAGE, settle=False))


@pytest.mark.parametrize(
    "message",
    [
        "[malloc] Unable to allocate 1024 bytes.",
        "[metal::malloc] Attempting to allocate 5 bytes which is greater than the maximum allowed"
        " buffer size of 4 bytes.",
        "[metal::malloc] Resource limit (499000) exceeded.",
        "[METAL] Command buffer execution failed: Insufficient Memory"
        " (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory).",
        "cudaMallocManaged failed: out of memory",
    ],
)
def test_mlx_errors_of_full_memory_become_one_sentence(message: str) -> None:
    with pytest.raises(MemoryFull) as caught, device.explained():
        raise RuntimeError(message)
    assert message.rstrip(".") in str(caught.value)
    with pytest.raises(RuntimeError, match="broadcast"), device.explained():
        raise RuntimeError("[broadcast_shapes] Shapes (1) and (2) cannot be broadcast.")


def test_mlx_has_the_limit_while_the_model_is_loaded(models: Path, tmp_path: Path) -> None:
    before = mx.set_memory_limit(1 << 40)
    try:
        with Harness(models / "qwen3", tmp_path, memory_limit=123 << 20):
            inside = mx.set_memory_limit(123 << 20)
        assert 123 << 20 == inside
        assert 1 << 40 == mx.set_memory_limit(before)
    finally:
        mx.set_memory_limit(before)


@pytest.mark.slow
def test_ask_refuses_in_one_line_with_the_numbers(chatcli: Program) -> None:
    environment = chatcli.environment(CHATCLI_MEMORY_LIMIT="400KB")
    refused = chatcli.run("ask", LONG, "-S", "talk", "-s", SYSTEM, env=environment, expect=1)
    assert b"" == refused.out and 1 == len(refused.errors.splitlines())
    assert "the limit is 400,000" in refused.errors
    assert "tokens need" in refused.errors and "--memory-limit" in refused.errors
    assert ["talk.jsonl"] == list(folder_contents(chatcli.sessions))
    reply = chatcli.ask(LONG, "-S", "talk", "-n", "2", "--memory-limit", "1GB", env=environment)
    assert (1, 2) == (reply["turn"], len(reply["tokens"]))


def test_a_limit_that_is_no_size_is_refused_before_anything_is_loaded(chatcli: Program) -> None:
    refused = chatcli.run("ask", "x", "--memory-limit", "much", expect=2)
    assert "--memory-limit" in refused.errors and 1 == len(refused.errors.splitlines())


def test_only_the_first_gpu_is_visible_unless_the_user_chose() -> None:
    default, chosen = {"HOME": "/"}, {"CUDA_VISIBLE_DEVICES": "2,3"}
    device.show_one_gpu(default)
    device.show_one_gpu(chosen)

    assert {"HOME": "/", "CUDA_VISIBLE_DEVICES": "0"} == default
    assert {"CUDA_VISIBLE_DEVICES": "2,3"} == chosen
