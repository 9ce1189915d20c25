"""Random LoRA adapters of the tiny models."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import mlx_lm
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers

from chatcli.settings.values import ModelOptions

ADAPTER_CONFIG = {
    "num_layers": 4,
    "lora_parameters": {
        "rank": 4,
        "scale": 20.0,
        "dropout": 0.0,
        "keys": ["self_attn.q_proj", "self_attn.v_proj"],
    },
}


def write_adapter(folder: Path, model: Path, seed: int = 1) -> ModelOptions:
    """A random LoRA of `model` in `folder`."""
    adapted, _ = mlx_lm.load(str(model))
    adapted.freeze()
    linear_to_lora_layers(adapted, ADAPTER_CONFIG["num_layers"], ADAPTER_CONFIG["lora_parameters"])
    mx.random.seed(seed)
    weights = {
        name: mx.random.normal(weight.shape) for name, weight in tree_flatten(adapted.trainable_parameters())
    }
    assert weights
    folder.mkdir()
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    (folder / "adapter_config.json").write_text(json.dumps(ADAPTER_CONFIG))
    return ModelOptions(adapter_path=str(folder))
