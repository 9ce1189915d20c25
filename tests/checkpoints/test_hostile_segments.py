"""Segment files with valid checksums and contents of another model: each is a miss, once.

A row of `ROWS` or `STATES` is one kind: what is done to every file of that kind on the path.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatcli.files import Location
from chatcli.settings.values import DEFAULTS, ModelOptions
from chatcli.store.segments.catalog import TOKENS
from chatcli.store.segments.container import Container, Tensor
from tests.support.checkpointing import rewrite
from tests.support.families import every_second_by_day, in_turn_by_day
from tests.support.harness import MESSAGES, Harness, outcome
from tests.support.tiny import write_model

Tensors = dict[str, Tensor]
# A file's tensors to those that are changed; None takes one away.
Change = Callable[[Tensors], dict[str, Tensor | None]]
FOUR_BITS = ModelOptions(kv_bits=4, kv_group_size=32)
# Full attention, recurrent, sliding, quantized.
KINDS: dict[str, tuple[str, ModelOptions, dict[str, Any]]] = {
    "full": ("qwen3", DEFAULTS, {}),
    "recurrent": ("qwen3_5", DEFAULTS, {}),
    "sliding": ("gpt_oss", DEFAULTS, {}),
    "quantized": ("qwen3", FOUR_BITS, {"head_dim": 32}),
}


def first(tensors: Tensors) -> str:
    return min(tensors.keys() - {TOKENS})


def every(change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Change:
    """Change all arrays but the tokens."""
    return lambda tensors: {
        name: Tensor.of(change(tensor.array())) for name, tensor in tensors.items() if name != TOKENS
    }


def only(change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Change:
    """Change the first array."""
    return lambda tensors: {first(tensors): Tensor.of(change(tensors[first(tensors)].array()))}


def renamed(rename: Callable[[str], str]) -> Change:
    def change(tensors: Tensors) -> dict[str, Tensor | None]:
        names = tensors.keys() - {TOKENS}
        return dict.fromkeys(names) | {rename(name): tensors[name] for name in names}

    return change


def added(name: str, like: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] = np.copy) -> Change:
    return lambda tensors: {name: Tensor.of(like(tensors[first(tensors)].array()))}


def next_layer(name: str) -> str:
    number, _, rest = name.partition(".")
    return f"{int(number) + 1}.{rest}"


def split_in_three(tensors: Tensors) -> dict[str, Tensor | None]:
    """A quantized cache's arrays in place of a plain one's, or the other way round."""
    names = sorted(tensors.keys() - {TOKENS})
    if any(name.endswith(".0") for name in names):
        return {name: None for name in names} | {
            name.removesuffix(".0"): tensors[name] for name in names if name.endswith(".0")
        }
    return {name: None for name in names} | {
        f"{name}.{part}": tensors[name] for name in names for part in range(3)
    }


def as_type(dtype: str) -> Change:
    return every(lambda array: np.minimum(array, 1000).astype(dtype))


ROWS: dict[str, Change] = {
    "an array is missing": lambda tensors: {first(tensors): None},
    "all arrays are missing": lambda tensors: dict.fromkeys(tensors.keys() - {TOKENS}),
    "an array too many": added("0.bonus"),
    "a layer too many": added("99.keys"),
    "a negative layer": added("-1.keys"),
    "a layer without a number": added("x.keys"),
    "a name without a layer": added("keys"),
    "a name with a path": added("../0.keys"),
    "another layer's": renamed(next_layer),
    "keys only": renamed(lambda name: name.replace("values", "keys2")),
    "quantized or not": split_in_three,
    "heads and width exchanged": every(lambda array: array.transpose(0, 3, 2, 1)),
    "one head": every(lambda array: array[:, :1]),
    "no heads": every(lambda array: array[:, :0]),
    "twice the heads": every(lambda array: np.concatenate([array, array], 1)),
    "two batches": every(lambda array: np.concatenate([array, array])),
    "half as wide": every(lambda array: array[..., : max(array.shape[-1] // 2, 0)]),
    "twice as wide": every(lambda array: np.concatenate([array, array], -1)),
    "of no width": every(lambda array: array[..., :0]),
    "one layer is wider": only(lambda array: np.concatenate([array, array], -1)),
    "three dimensions": every(lambda array: array[0]),
    "five dimensions": every(lambda array: array[None]),
    "two dimensions": every(lambda array: array[0, 0]),
    "float16": as_type("float16"),
    "float64": as_type("float64"),
    "int64": as_type("int64"),
    "truth values": as_type("bool"),
    "complex": as_type("complex64"),
    "one layer is float16": only(lambda array: np.minimum(array, 1000).astype("float16")),
    "bfloat16": lambda tensors: {
        name: Tensor.of(tensor.array().astype("uint16"), "bfloat16")
        for name, tensor in tensors.items()
        if name != TOKENS
    },
}
STATES: dict[str, Change] = {
    "an array is missing": lambda tensors: {first(tensors): None},
    "all arrays are missing": lambda tensors: dict.fromkeys(tensors),
    "an array too many": added("0.bonus"),
    "a layer too many": added("99.cache.0"),
    "other names": renamed(next_layer),
    "transposed": every(np.transpose),
    "flat": every(np.ravel),
    "no batch": every(lambda array: array[:0]),
    "two batches": every(lambda array: np.concatenate([array, array])),
    "longer": every(lambda array: np.concatenate([array, array], 1)),
    "a single number": every(lambda array: array.ravel()[0]),
    "float16": as_type("float16"),
    "float64": as_type("float64"),
    "int32": as_type("int32"),
    "truth values": as_type("bool"),
}
# What a state says beside its arrays: the JSON as it was, to another text.
Scalars = Callable[[dict[str, Any]], Any]


def of_first_layer(change: Callable[[dict[str, Any]], Any]) -> Scalars:
    """Change what the first layer with a state says."""

    def changed(layers: dict[str, Any]) -> Any:
        name = min(layers)
        return {**layers, name: change(layers[name]["object"])}

    return changed


SCALARS: dict[str, Scalars] = {
    "nothing": lambda _: {},
    "a list": lambda layers: list(layers.values()),
    "null": lambda _: None,
    "not a number": lambda _: math.nan,
    "nested without end": lambda _: "deep",
    "another layer": lambda layers: {next_layer(f"{name}.")[:-1]: layer for name, layer in layers.items()},
    "a layer is null": of_first_layer(lambda _: None),
    "a layer is a number": of_first_layer(lambda _: 10**400),
    "no attributes": of_first_layer(lambda _: {"object": {}}),
    "an attribute too many": of_first_layer(lambda held: {"object": {**held, "__class__": 1}}),
    "arrays are null": of_first_layer(
        lambda held: {"object": {**held, "cache": {"list": [None] * len(held["cache"]["list"])}}}
    ),
    "arrays are numbers": of_first_layer(
        lambda held: {"object": {**held, "cache": {"list": [math.nan] * len(held["cache"]["list"])}}}
    ),
    "fewer arrays": of_first_layer(
        lambda held: {"object": {**held, "cache": {"list": held["cache"]["list"][1:]}}}
    ),
    "a tuple": of_first_layer(lambda held: {"object": {**held, "cache": {"tuple": held["cache"]["list"]}}}),
    "the same array twice": of_first_layer(
        lambda held: {"object": {**held, "cache": {"list": held["cache"]["list"][:1] * 2}}}
    ),
    "an array that is not there": of_first_layer(
        lambda held: {"object": {**held, "cache": {"list": [{"array": "gone"}] * 2}}}
    ),
    "a length": of_first_layer(lambda held: {"object": {**held, "lengths": -(10**30)}}),
    "padding": of_first_layer(lambda held: {"object": {**held, "left_padding": held["cache"]["list"][0]}}),
    "of an unknown kind": of_first_layer(lambda _: {"opaque": 1}),
}


@dataclass(frozen=True)
class Saved:
    """A saved conversation of one turn, and what its second turn is without a cache."""

    model: Path
    sessions: Path
    options: ModelOptions
    expected: Any

    def harness(self, sessions: Path, *, cache: bool = True) -> Harness:
        return Harness(self.model, sessions, tokens=4, model_options=self.options, cache=cache)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Saved]:
    """The conversation of a kind of model, begun when it is first asked for."""
    folder, kept = tmp_path_factory.mktemp("hostile"), dict[str, Saved]()

    def of_kind(kind: str) -> Saved:
        if kind not in kept:
            family, options, changes = KINDS[kind]
            model = write_model(folder / kind, family, **changes)
            sessions, cold = folder / f"{kind} sessions", folder / f"{kind} cold"
            saved = Saved(model, sessions, options, None)
            with saved.harness(sessions) as harness:
                harness.say(harness.chat("talk"), MESSAGES[0])
            cold.mkdir()
            shutil.copy(sessions / "talk.jsonl", cold)
            with saved.harness(cold, cache=False) as harness:
                expected = outcome(harness.say(harness.chat("talk"), MESSAGES[2]))
            kept[kind] = Saved(model, sessions, options, expected)
        return kept[kind]

    return of_kind


def files(sessions: Path, kind: str) -> list[Path]:
    return sorted(sessions.glob(f"kv/*/??/*.{kind}.safetensors"))


def rewrite_tensors(paths: list[Path], change: Change) -> None:
    for path in paths:
        with Container(Location.of_file(path)) as file:
            tensors = {name: file.read(name) for name in file.tensors}
        rewrite(path, {}, **change(tensors))


def assert_missed_once(saved: Saved, sessions: Path) -> None:
    """The next turn computes, says why, and gives the reply of an uncached run; then all is well again."""
    with saved.harness(sessions) as harness:
        record = harness.say(harness.chat("talk"), MESSAGES[2])
    assert saved.expected == outcome(record)
    assert "damaged: " in str(record.miss_reason)
    assert list(sessions.glob("kv/*/??/*.damaged"))
    with saved.harness(sessions) as harness:
        record = harness.say(harness.chat("talk"), MESSAGES[4])
    assert (None, True) == (record.miss_reason, record.reused_tokens > record.prompt_tokens // 2)


@pytest.mark.parametrize(("family", "change"), in_turn_by_day(ROWS, list(KINDS)))
def test_rows_that_are_not_this_model_s_are_a_miss_once(
    family: str, change: str, saved: Callable[[str], Saved], tmp_path: Path
) -> None:
    conversation = saved(family)
    sessions = Path(shutil.copytree(conversation.sessions, tmp_path / "sessions"))
    rewrite_tensors(files(sessions, "rows"), ROWS[change])
    assert_missed_once(conversation, sessions)


@pytest.mark.parametrize("change", every_second_by_day(STATES))
def test_a_state_that_is_not_this_model_s_is_a_miss_once(
    change: str, saved: Callable[[str], Saved], tmp_path: Path
) -> None:
    conversation = saved("recurrent")
    sessions = Path(shutil.copytree(conversation.sessions, tmp_path / "sessions"))
    rewrite_tensors(files(sessions, "state"), STATES[change])
    assert_missed_once(conversation, sessions)


@pytest.mark.parametrize("change", every_second_by_day(SCALARS))
def test_a_state_that_says_something_else_is_a_miss_once(
    change: str, saved: Callable[[str], Saved], tmp_path: Path
) -> None:
    conversation = saved("recurrent")
    sessions = Path(shutil.copytree(conversation.sessions, tmp_path / "sessions"))
    for path in files(sessions, "state"):
        with Container(Location.of_file(path)) as file:
            scalars = json.loads(file.metadata["scalars"])
        changed = SCALARS[change](scalars)
        text = "[" * 100_000 if changed == "deep" else json.dumps(changed)
        rewrite(path, {"scalars": text})
    assert_missed_once(conversation, sessions)


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "1e300", "soon", ""])
def test_prefill_seconds_that_cannot_be_are_none(
    seconds: str, saved: Callable[[str], Saved], tmp_path: Path
) -> None:
    conversation = saved("full")
    sessions = Path(shutil.copytree(conversation.sessions, tmp_path / "sessions"))
    for path in files(sessions, "rows"):
        rewrite(path, {"seconds": seconds})
    with conversation.harness(sessions) as harness:
        record = harness.say(harness.chat("talk"), MESSAGES[2])
    assert conversation.expected == outcome(record)
    assert (0.0, True) == (record.avoided_seconds, record.reused_tokens > 0)
