"""Creates models with random weights in published shapes: `python -m benchmarks.shapes qwen3-8b FOLDER`.

Time and memory depend on the shape, so they can be measured without the weights: `chatcli bench turns -m
FOLDER`. The shapes are from the models' public configurations. The tokenizer is pocket's, so a prompt has
more tokens than with the model's own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm

from chatcli import pocket
from chatcli.kv import growth
from chatcli.kv.memory_limit import Growth
from chatcli.model.load import load
from chatcli.settings.values import POCKET

CONTEXT_TOKENS = 65536
ROPE_PARAMETERS = {"type": "default", "mrope_section": [11, 11, 10]}

Config = dict[str, Any]


def _shape(
    kind: str, hidden: int, layers: int, inner: int, heads: int, kv: int, size: int, **more: Any
) -> Config:
    """The keys of every family's configuration."""
    return {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": size,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": CONTEXT_TOKENS,
        **more,
    }


def _qwen3(*sizes: int) -> Config:
    return _shape("qwen3", *sizes, vocab_size=151936, rope_theta=1e6, tie_word_embeddings=False)


def _qwen3_5(hidden: int, layers: int, inner: int, heads: int, kv: int, size: int) -> Config:
    text = _shape(
        "qwen3_5_text",
        *(hidden, layers, inner, heads, kv, size),
        vocab_size=248320,
        full_attention_interval=4,
        linear_num_value_heads=2 * heads,
        linear_num_key_heads=heads,
        linear_key_head_dim=size // 2,
        linear_value_head_dim=size // 2,
        linear_conv_kernel_dim=4,
        tie_word_embeddings=False,
        rope_parameters={**ROPE_PARAMETERS, "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    )
    return {"model_type": "qwen3_5", "tie_word_embeddings": False, "text_config": text}


def _gpt_oss(*sizes: int, experts: int) -> Config:
    return _shape(
        "gpt_oss",
        *sizes,
        num_local_experts=experts,
        num_experts_per_tok=4,
        vocab_size=201088,
        sliding_window=128,
        rms_norm_eps=1e-5,
        rope_theta=150000,
        rope_scaling={
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
    )


def _gemma3(*sizes: int) -> Config:
    return _shape(
        "gemma3_text",
        *sizes,
        vocab_size=262208,
        rope_theta=1e6,
        rope_local_base_freq=10000.0,
        query_pre_attn_scalar=sizes[-1],
        sliding_window=1024,
        sliding_window_pattern=6,
    )


# The small ones are scaled down so that two CPU cores can run them.
SHAPES: Mapping[str, Config] = {
    "qwen3-1.7b": {**_qwen3(2048, 28, 6144, 16, 8, 128), "tie_word_embeddings": True},
    "qwen3-8b": _qwen3(4096, 36, 12288, 32, 8, 128),
    "qwen3.5-9b": _qwen3_5(4096, 32, 12288, 16, 4, 256),
    "gpt-oss-20b": _gpt_oss(2880, 24, 2880, 64, 8, 64, experts=32),
    "gemma3-12b": _gemma3(3840, 48, 15360, 16, 8, 256),
    "qwen3-small": _qwen3(512, 8, 1536, 8, 2, 64),
    "qwen3.5-small": _qwen3_5(512, 8, 1536, 4, 2, 128),
    "gpt-oss-small": _gpt_oss(512, 8, 512, 8, 2, 64, experts=8),
}
SMALL = ("qwen3-small", "gpt-oss-small", "qwen3.5-small")


def _config(name: str, vocabulary: int) -> Config:
    """The configuration; a small model gets pocket's `vocabulary`, because a published one would dominate its
    work.
    """
    config = dict(SHAPES[name])
    if name in SMALL:
        config |= {"vocab_size": vocabulary}
        config["text_config"] = {**config.get("text_config", {}), "vocab_size": vocabulary}
    return config


def _dtype(name: str) -> Any:
    # Half precision is slower on a CPU, and MLX has no experts in it there.
    return mx.float32 if name in SMALL and mx.default_device().type == mx.cpu else mx.bfloat16


def write(name: str, folder: Path) -> None:
    """Write a model of the shape `name` to `folder`, in bfloat16; small ones in float32 on a CPU.

    The same name has the same weights on the same MLX version and device.
    """
    vocabulary = len(load(POCKET).tokenizer.get_vocab())
    config = _config(name, vocabulary)
    weights = dict(mlx_lm.utils.tree_flatten(_random_model(config, _dtype(name)).parameters()))
    for path in pocket.FOLDER.iterdir():
        if "tokenizer" in path.name or "template" in path.name:
            shutil.copy(path, folder)
    end = json.loads((pocket.FOLDER / "config.json").read_text())["eos_token_id"]
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": end}))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})


def sizes(name: str) -> Growth:
    """How the cache of a shape, or of pocket, grows, without creating weights."""
    if name == POCKET:
        return growth.predict(load(POCKET).model)
    return growth.predict(_unevaluated(SHAPES[name], mx.bfloat16))


def _unevaluated(config: Config, dtype: Any) -> Any:
    """A model whose weights are created when they are used."""
    family = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(0)
    random_model = family.Model(family.ModelArgs.from_dict(config))
    random_model.set_dtype(dtype)
    return random_model


def _random_model(config: Config, dtype: Any) -> Any:
    random_model = _unevaluated(config, dtype)
    # One at a time bounds the peak memory.
    for _, weight in mlx_lm.utils.tree_flatten(random_model.parameters()):
        mx.eval(weight)
    return random_model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A model of random weights in the shape of a known one.")
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    write(chosen.name, chosen.folder)
