"""Tiny real models: mlx-lm's own classes with random weights, and a tokenizer trained on the spot."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "You are a helpful assistant. Answer briefly and remember what you were told.",
    "My dog is called Biscuit and I live in Lisbon. What is my dog's name?",
    "user assistant system think 0 1 2 3 4 5 6 7 8 9",
] * 4

# Thinking of earlier turns is dropped; the generation prompt opens the thinking (like Qwen3.5).
OPEN_THINK = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking %}
{{- '<think>\n\n</think>\n\n' }}
{%- else %}
{{- '<think>\n' }}
{%- endif %}
{%- endif %}"""

# The model opens its own thinking; that of the last reply is kept until the next question (like Qwen3).
OWN_THINK = """\
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' and m.reasoning_content and loop.index0 > ns.last %}
{{- '<|im_start|>assistant\n<think>\n' + m.reasoning_content + '\n</think>\n\n' + m.content
+ '<|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""

COMMON = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3": {**COMMON, "model_type": "qwen3", "num_hidden_layers": 3, "rope_theta": 10000.0},
    "qwen3_5": {
        "model_type": "qwen3_5",
        "tie_word_embeddings": True,
        "text_config": {
            **COMMON,
            "model_type": "qwen3_5_text",
            "num_hidden_layers": 2,
            "full_attention_interval": 2,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 4,
            "rope_parameters": {
                "type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
                "mrope_section": [1, 1, 2],
            },
        },
    },
    "gpt_oss": {
        **COMMON,
        "model_type": "gpt_oss",
        "num_hidden_layers": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 32,
        "rope_theta": 10000,
        "rope_scaling": None,
        "layer_types": ["sliding_attention", "full_attention"],
        "tie_word_embeddings": False,
    },
    "gemma3_text": {
        **COMMON,
        "model_type": "gemma3_text",
        "num_hidden_layers": 3,
        "sliding_window": 32,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 16,
        "rope_theta": 10000.0,
        "rope_local_base_freq": 10000.0,
    },
}
TEMPLATES = {"qwen3": OWN_THINK, "gpt_oss": OWN_THINK, "gemma3_text": OWN_THINK}


def tokenizer(special: Sequence[str] = SPECIAL) -> Tokenizer:
    """A byte-level BPE tokenizer of about 400 tokens."""
    bpe_tokenizer = Tokenizer(models.BPE())
    bpe_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe_tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe_tokenizer.train_from_iterator(CORPUS, trainer)
    return bpe_tokenizer


def write_tokenizer(folder: Path, template: str | None, special: Sequence[str] = SPECIAL) -> int:
    """A tokenizer with its template in `folder`; returns the vocabulary's size."""
    folder.mkdir(parents=True, exist_ok=True)
    bpe_tokenizer = tokenizer(special)
    bpe_tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>" if "<|im_end|>" in special else special[-1],
        "pad_token": special[0],
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return bpe_tokenizer.get_vocab_size()


def write_model(
    folder: Path,
    family: str,
    *,
    template: str | None = "",
    seed: int = 7,
    special: Sequence[str] = SPECIAL,
    **changes: Any,
) -> Path:
    """A random model of `family` in `folder`. `template` None leaves it out, "" is the family's."""
    chosen = TEMPLATES.get(family, OPEN_THINK) if template == "" else template
    vocabulary = write_tokenizer(folder, chosen, special)
    config = json.loads(json.dumps(CONFIGS[family]))
    inner = config.get("text_config", config)
    inner.update(changes, vocab_size=vocabulary)
    config["eos_token_id"] = special.index("<|im_end|>")
    (folder / "config.json").write_text(json.dumps(config))
    module = importlib.import_module(f"mlx_lm.models.{family}")
    mx.random.seed(seed)
    model = module.Model(module.ModelArgs.from_dict(config))
    # Larger than initial weights, so that logits differ clearly from token to token.
    weights = {
        name: value * 3 if value.ndim > 1 else value for name, value in tree_flatten(model.parameters())
    }
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder


def byte_token(byte: int) -> str:
    """How a byte-level tokenizer spells a byte that cannot be printed (or 0xC2)."""
    if byte == 0xC2:
        return chr(byte)
    return chr(256 + byte if byte < 0x21 else 256 + byte - 0x7F + 0x21)


def restrict_to_tokens(folder: Path, said: Sequence[str | int]) -> Path:
    """Change an untied model so that it samples nothing but these tokens (bytes or words).

    Either those at even or those at odd places are likely at a step, each of them equally so.
    """
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    names = [word if isinstance(word, str) else byte_token(word) for word in said]
    kept = [words.token_to_id(name) for name in names]
    assert None not in kept
    path = folder / "model.safetensors"
    weights = dict(mx.load(str(path)))
    name = next(name for name in weights if name.endswith("lm_head.weight"))
    head = weights[name]
    only = mx.zeros(head.shape, head.dtype)
    only[mx.array(kept[::2])] = head[5] * 8
    only[mx.array(kept[1::2])] = head[5] * -8
    changed = {**weights, name: only}
    mx.eval(changed)
    mx.save_safetensors(str(path), changed, {"format": "mlx"})
    return folder


def update_json(path: Path, **changes: Any) -> None:
    """Change some fields of a JSON file, such as a model's config.json."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def write_reciter(folder: Path, template: str, words: Sequence[str]) -> Path:
    """A model that says these words, each a token of its own that it says once, and ends.

    It is a real one whose layers add nothing, so that each token alone says which one follows: after all
    others the first word.
    """
    special = list(dict.fromkeys([*SPECIAL, *words]))
    write_model(folder, "gpt_oss", template=template, special=special)
    # Ordinary text, unlike the tokens of a template.
    tokenizer_file = folder / "tokenizer.json"
    fields = json.loads(tokenizer_file.read_text())
    for token in fields["added_tokens"]:
        token["special"] = token["content"] not in words
    tokenizer_file.write_text(json.dumps(fields))
    path = folder / "model.safetensors"
    weights = dict(mx.load(str(path)))
    embeddings = weights["model.embed_tokens.weight"]
    silent = {
        name: mx.zeros_like(value)
        for name, value in weights.items()
        if ".layers." in name and "norm" not in name
    }
    directions = embeddings / mx.linalg.norm(embeddings, axis=-1, keepdims=True)
    head = mx.zeros_like(embeddings)
    first, *rest = [special.index(word) for word in words]
    others = [number for number in range(len(embeddings)) if number not in (first, *rest[:-1])]
    # One direction that all other tokens have in common says the first word.
    common = mx.ones_like(directions[0]) / directions.shape[-1] ** 0.5
    changed = mx.array(embeddings)
    changed[mx.array(others)] = common
    head[first] = common * 8
    for before, after in zip([first, *rest], [*rest, special.index("<|im_end|>")], strict=True):
        changed[before] = directions[before] - (directions[before] * common).sum() * common
        head[after] = changed[before] * 8
    weights = {**weights, **silent, "model.embed_tokens.weight": changed, "lm_head.weight": head}
    mx.eval(weights)
    mx.save_safetensors(str(path), weights, {"format": "mlx"})
    return folder
