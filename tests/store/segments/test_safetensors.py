"""safetensors and MLX open every kind of segment file, with the same arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors import deserialize, safe_open

from chatcli.files import Location
from chatcli.kv.loader import mlx_dtype
from chatcli.settings.values import DEFAULTS, ModelOptions
from chatcli.store.segments import inventory
from chatcli.store.segments.container import CODES, Container
from tests.support.harness import MESSAGES, Harness
from tests.support.program import segment_files
from tests.support.tiny import write_model

WEIGHTS = "model.safetensors"
# Family, model options, the type of the weights, and the kinds of file that result.
KINDS: dict[str, tuple[str, ModelOptions, Any, set[str]]] = {
    "rows": ("qwen3", DEFAULTS, None, {"rows", "joined"}),
    "rows in bfloat16": ("qwen3", DEFAULTS, mx.bfloat16, {"rows", "joined", "bfloat16"}),
    "quantized rows": (
        "qwen3",
        ModelOptions(kv_bits=8, kv_group_size=32),
        None,
        {"rows", "joined", "quantized"},
    ),
    "rows and windows": ("gpt_oss", DEFAULTS, None, {"rows", "joined"}),
    "rows and states": ("qwen3_5", DEFAULTS, mx.bfloat16, {"rows", "joined", "bfloat16", "state"}),
}


def kinds_of(path: Path, arrays: dict[str, mx.array]) -> set[str]:
    joined = {"joined"} if inventory.holds_several(path.name) else set()
    quantized = {"quantized"} if any(name.endswith(".keys.2") for name in arrays) else set()
    types = {"bfloat16"} if mx.bfloat16 in {array.dtype for array in arrays.values()} else set()
    return {path.name.split(".")[1], *joined, *quantized, *types}


def bits(array: mx.array) -> np.ndarray:
    return np.array(array.reshape(-1).view(mx.uint8))


@pytest.mark.parametrize("kind", KINDS)
def test_other_programs_read_the_same_arrays(tmp_path: Path, kind: str) -> None:
    family, options, dtype, expected = KINDS[kind]
    model = write_model(tmp_path / "model", family, head_dim=32)
    if dtype is not None:
        weights = {name: part.astype(dtype) for name, part in mx.load(str(model / WEIGHTS)).items()}
        mx.eval(weights)
        mx.save_safetensors(str(model / WEIGHTS), weights, {"format": "mlx"})
    sessions = tmp_path / "sessions"
    with Harness(model, sessions, tokens=6, model_options=options) as harness:
        chat = harness.chat("talk")
        for message in MESSAGES:
            harness.say(chat, message)
    kinds: set[str] = set()
    for path in segment_files(sessions):
        loaded, metadata = mx.load(str(path), return_metadata=True)
        kinds |= kinds_of(path, loaded)
        raw = dict(deserialize(path.read_bytes()))
        with Container(Location.of_file(path)) as file, safe_open(path, "mlx") as opened:
            assert file.tensors.keys() == set(opened.keys()) == loaded.keys()
            assert file.metadata.items() <= metadata.items() == opened.metadata().items()
            for name in file.tensors:
                tensor, part = file.read(name), opened.get_slice(name)
                assert tensor.raw().tobytes() == bytes(raw[name]["data"]) == bits(loaded[name]).tobytes()
                assert (mlx_dtype(tensor.dtype), tensor.shape) == (loaded[name].dtype, loaded[name].shape)
                assert (CODES[tensor.dtype], tensor.shape) == (part.get_dtype(), tuple(part.get_shape()))
                if tensor.dtype != "bfloat16":  # safe_open goes through NumPy, which has no such type
                    assert tensor.raw().tobytes() == bits(opened.get_tensor(name)).tobytes()
    assert expected == kinds
