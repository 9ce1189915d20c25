"""How fast models decode and prefill, measured in turn in one process."""

from __future__ import annotations

import time
from statistics import median

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

from chatcli.model.load import CPU_PREFILL_STEP
from training.pocket.talk import Engine

ROUNDS = 7
DECODED_TOKENS = 100


def speeds(engines: list[Engine], text: str) -> list[dict[str, float]]:
    """For each engine the medians of several rounds."""
    measured: list[list[tuple[float, float]]] = [[] for _ in engines]
    prompts = [mx.array(engine.tokenizer.encode(text)) for engine in engines]
    for number in range(ROUNDS + 1):
        for engine, prompt, rounds in zip(engines, prompts, measured, strict=True):
            cache = make_prompt_cache(engine.model)
            started = time.perf_counter()
            for start in range(0, prompt.size, CPU_PREFILL_STEP):
                engine.model(prompt[None, start : start + CPU_PREFILL_STEP], cache=cache)
                mx.eval([layer.state for layer in cache])
            prefilled = time.perf_counter()
            steps = generate_step(prompt[-1:], engine.model, max_tokens=DECODED_TOKENS, prompt_cache=cache)
            assert sum(1 for _ in steps) == DECODED_TOKENS
            decoded = time.perf_counter()
            if number:  # the first round warms up
                rounds.append((prefilled - started, decoded - prefilled))
    return [
        {
            "prefill, tokens a second": prompt.size / median(first for first, _ in rounds),
            "prefill, characters a second": len(text) / median(first for first, _ in rounds),
            "decode, tokens a second": DECODED_TOKENS / median(second for _, second in rounds),
        }
        for prompt, rounds in zip(prompts, measured, strict=True)
    ]
