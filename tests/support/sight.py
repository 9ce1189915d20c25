"""A tiny random Muse Spark that can see, and pictures for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from PIL import Image

from tests.support.tiny import SPECIAL, write_tokenizer

CODE = "plain_muse.py"
MARKS = ["<|image_start|>", "<|patch|>", "<|image_end|>"]
# The side of what one token of an image shows, in pixels.
PATCH = 4
# Thinking of earlier turns is dropped; images stand where the message has them.
SEEING = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' }}
{%- if m.content is string %}{{- m.content }}
{%- else %}
{%- for part in m.content %}
{%- if part.type == 'image' %}{{- '<|patch|>' }}{%- else %}{{- part.text }}{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}"""
TEXT = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-5,
    "post_norm_eps": 1e-8,
    "rope_parameters": {"rope_theta": 10000.0},
    "layer_rope_theta": [10000.0, 0],
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 32,
    "final_logit_softcapping": 20.0,
    "output_multiplier": 1.0,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_hidden_size": 32,
    "moe_intermediate_size": 32,
    "max_position_embeddings": 4096,
    "bos_token_id": None,
    "eos_token_id": None,
}
SEES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "patch_size": PATCH // 2,
    "merge_size": 2,
    "pos_emb_height": 8,
    "pos_emb_width": 8,
}


def write_seeing(folder: Path, template: str = SEEING, seed: int = 7) -> Path:
    """A model in `folder` that can be shown images; on a machine without Metal it has its own code."""
    special = [*SPECIAL, *MARKS]
    vocabulary = write_tokenizer(folder, template, special)
    config = {
        "model_type": "muse_spark",
        "model_file": CODE,
        "text_config": {**TEXT, "vocab_size": vocabulary},
        "vision_config": SEES,
        # transformers reads it for the tokenizer.
        "audio_config": {"out_hidden_size": TEXT["hidden_size"]},
        "image_token_id": special.index("<|patch|>"),
        "eos_token_id": special.index("<|im_end|>"),
    }
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(Path(__file__).with_name(CODE), folder / CODE)
    from mlx_lm.models import muse_spark

    mx.random.seed(seed)
    model = muse_spark.Model(muse_spark.ModelArgs.from_dict(config))
    weights = {
        # Larger than initial weights, so that logits differ clearly from token to token.
        name: value * 3 + 0.02 * mx.random.normal(value.shape) if value.ndim > 1 else value
        for name, value in tree_flatten(model.parameters())
    }
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder


def write_picture(path: Path, seed: int, width: int = 4 * PATCH, height: int = 3 * PATCH) -> Path:
    """A picture of coloured noise, which no other seed gives."""
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise).save(path)
    return path
