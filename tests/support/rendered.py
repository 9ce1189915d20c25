"""Prompts as the tiny models' templates render them, and their token counts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from mlx_lm.utils import load_tokenizer

from tests.support.tiny import SPECIAL

# Separates what the tokenizer must not merge.
SEAM = "\ufdd0"


@cache
def tokenizer_of(model: Path) -> Any:
    """The model's own tokenizer, as transformers reads it."""
    return load_tokenizer(model)


def token_count(text: str, model: Path) -> int:
    """How many tokens a rendered text takes, encoded seam by seam."""
    encode = tokenizer_of(model).encode
    return sum(len(encode(part, add_special_tokens=False)) for part in text.split(SEAM))


def rendered_message(role: str, text: str) -> str:
    """A message as the tiny templates write it; control tokens in it are words like any other."""
    for token in SPECIAL:
        text = text.replace(token, token[0] + SEAM + token[1:])
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def generation_prompt(model: Path) -> str:
    """How the family's tiny template opens a reply."""
    return "<|im_start|>assistant\n" + ("<think>\n" if model.name == "qwen3_5" else "")
