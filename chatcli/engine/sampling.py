"""mlx-lm's sampler and logits processors for one reply; refuses to know caches and messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.sample_utils import make_logits_processors, make_sampler

from chatcli.errors import TokenUnknown
from chatcli.settings.values import Sampling

# mlx-lm's own: how far penalties look back (tokens), and what XTC takes for likely.
CONTEXT_SIZE = 20
XTC_THRESHOLD = 0.1

# (logprobs) -> token, and (tokens so far, logits) -> logits.
Sampler = Callable[[Any], Any]
Processor = Callable[[Any, Any], Any]


def check(tokenizer: Any, sampling: Sampling) -> None:
    """Raises `TokenUnknown` for a bias of a token that is not in the vocabulary."""
    if not sampling.logit_bias:
        return
    last = max(tokenizer.get_vocab().values())
    for token, _ in sampling.logit_bias:
        if token > last:
            raise TokenUnknown(f"This model has no token {token}: --logit-bias takes the ids 0 to {last}.")


def sampler(tokenizer: Any, sampling: Sampling) -> Sampler:
    """Chooses a token by its logprobs; the likeliest where there is no temperature."""
    made: list[Sampler] = []

    def choose(logprobs: Any) -> Any:
        # Only the logits say how many tokens there are, and mlx-lm refuses to keep more.
        if not made:
            made.append(_sampler(tokenizer, sampling, logprobs.shape[-1]))
        return made[0](logprobs)

    return choose


def _sampler(tokenizer: Any, sampling: Sampling, vocabulary: int) -> Sampler:
    top_k = sampling.top_k or 0
    threshold = sampling.xtc_threshold
    made: Sampler = make_sampler(
        sampling.temp or 0.0,
        top_p=sampling.top_p or 0.0,
        min_p=sampling.min_p or 0.0,
        min_tokens_to_keep=min(sampling.min_tokens_to_keep or 1, vocabulary),
        top_k=top_k if top_k < vocabulary else 0,
        xtc_probability=sampling.xtc_probability or 0.0,
        xtc_threshold=XTC_THRESHOLD if threshold is None else threshold,
        xtc_special_tokens=_kept_by_xtc(tokenizer) if sampling.xtc_probability else None,
    )
    return made


def _kept_by_xtc(tokenizer: Any) -> list[int]:
    """A line break and the end of a reply, as in mlx-lm: they must stay possible."""
    return [*tokenizer.encode("\n", add_special_tokens=False), *tokenizer.eos_token_ids]


def processors(sampling: Sampling, before: Sequence[int]) -> list[Processor]:
    """What changes the logits; nothing where nothing does: they stay as they are, to the bit.

    `before` are the prompt's tokens that are in the cache. mlx-lm would not look back at them, and
    a penalty would depend on what was cached.
    """
    size = sampling.repetition_context_size
    size = CONTEXT_SIZE if size is None else size
    penalties = {
        "repetition_penalty": None if sampling.repetition_penalty == 1 else sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }
    sizes = {f"{name.partition('_')[0]}_context_size": size for name in penalties}
    bias = dict(sampling.logit_bias or ())
    made: list[Processor] = make_logits_processors(bias, **penalties, **sizes)
    if not any(penalties.values()):
        return made
    # A size of 0 is the whole prompt, as mlx-lm's own slice has it.
    earlier = mx.array(list(before[-size:]), mx.int32)

    def process(tokens: Any, logits: Any) -> Any:
        tokens = mx.concatenate([earlier, tokens])
        for one in made:
            logits = one(tokens, logits)
        return logits

    return [process]
