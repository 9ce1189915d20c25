"""The network's shape, and the configuration files that mlx-lm and transformers read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training.pocket.tokenizer import END, SPECIAL

OLDEST_TRANSFORMERS = "4.57.0"
# Thinking included. A sum of four numbers of four digits takes 240 with its working.
MAX_REPLY_TOKENS = 300


@dataclass(frozen=True)
class Shape:
    """The network's sizes, under the names that model configurations use."""

    vocab_size: int
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 6
    full_attention_interval: int = 3
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    linear_num_key_heads: int = 4
    linear_num_value_heads: int = 4
    linear_key_head_dim: int = 64
    linear_value_head_dim: int = 64
    linear_conv_kernel_dim: int = 4
    rms_norm_eps: float = 1e-6
    rope_theta: float = 100000.0
    partial_rotary_factor: float = 0.25

    def text_config(self) -> dict[str, Any]:
        """The ``text_config`` of config.json."""
        config = asdict(self)
        rope = {
            "rope_type": "default",
            "rope_theta": config.pop("rope_theta"),
            "partial_rotary_factor": config.pop("partial_rotary_factor"),
        }
        config |= {"model_type": "qwen3_5_text", "tie_word_embeddings": True}
        config |= {"attention_bias": False, "max_position_embeddings": 32768}
        return config | {"rope_parameters": rope}


def export_configuration(shape: Shape, folder: Path) -> None:
    """Write the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    eos = SPECIAL.index(END)
    text = shape.text_config() | {"eos_token_id": eos}
    config = {
        "model_type": "qwen3_5",
        "architectures": ["Qwen3_5ForCausalLM"],
        "eos_token_id": eos,
        "tie_word_embeddings": True,
        "text_config": text,
    }
    # transformers reads any qwen3_5 with that family's own tokenizer; under the name in here
    # it takes tokenizer.json.
    config["configuration_files"] = [f"config.{OLDEST_TRANSFORMERS}.json"]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    text |= {"architectures": ["Qwen3_5ForCausalLM"]}
    (folder / f"config.{OLDEST_TRANSFORMERS}.json").write_text(json.dumps(text, indent=2) + "\n")
    generation = {
        "eos_token_id": [eos, 0],
        "pad_token_id": 0,
        "do_sample": False,
        "temperature": 0.0,
        "max_new_tokens": MAX_REPLY_TOKENS,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
