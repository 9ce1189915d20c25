"""A prefill that lets other work run between its layers."""

from __future__ import annotations

import importlib.util
import threading

import mlx.core as mx
import pytest

from chatcli.engine import generate
from chatcli.kv import prompt_cache
from chatcli.kv.freeze import arrays_in
from chatcli.kv.leaf import leaves
from chatcli.kv.prompt_cache import PromptCache, RowLog
from chatcli.model.load import LoadedModel
from tests.support.architectures import ARCHITECTURES, PROMPT, build

STEP = 64
BY_DAY = ["mamba", "gemma2", "llama4"]
CASES = [
    name if name in BY_DAY else pytest.param(name, marks=pytest.mark.slow)
    for name in ARCHITECTURES
    if importlib.util.find_spec(f"mlx_lm.models.{name}")
]


def arrays(cache: PromptCache) -> list[mx.array]:
    return list(arrays_in(cache))


@pytest.mark.parametrize("architecture", CASES)
def test_what_runs_between_layers_changes_no_bit(architecture: str) -> None:
    loaded = LoadedModel(architecture, build(architecture), None, "f" * 32, 1024, STEP)
    alone, beside, other = (prompt_cache.new(loaded.model) for _ in range(3))
    assert [64, 64, 22] == list(generate.prefill(loaded, alone, PROMPT, RowLog()))
    (others := threading.Event()).set()
    counts = []
    for count in generate.prefill(loaded, beside, PROMPT, RowLog(), others=others):
        counts.append(count)
        mx.eval(loaded.model(mx.array([PROMPT[len(counts) : len(counts) + 1]]), cache=other))
    assert [64, 64, 22] == [count for count in counts if count]
    several = len(leaves(alone)) > 1
    assert several == (0 in counts)
    pairs = zip(arrays(alone), arrays(beside), strict=True)
    assert all(a.dtype == b.dtype and mx.array_equal(a, b, equal_nan=True).item() for a, b in pairs)
