"""mlx-lm's sampler and logits processors for one reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.sample_utils import make_logits_processors, make_sampler

from chatcli.errors import TokenUnknown
from chatcli.settings.values import Sampling

# mlx-lm's defaults: how many tokens penalties look back, and XTC's threshold probability.
CONTEXT_SIZE = 20
XTC_THRESHOLD = 0.1

# From logprobs of shape (sequences, vocabulary) to token ids of shape (sequences,).
Sampler = Callable[[Any], Any]
# From the tokens so far and logits of shape (1, vocabulary) to such logits.
LogitsProcessor = Callable[[Any, Any], Any]


def check_logit_bias(tokenizer: Any, sampling: Sampling) -> None:
    """Raises `TokenUnknown` for a bias on a token that is not in the vocabulary."""
    if not sampling.logit_bias:
        return
    last = max(tokenizer.get_vocab().values())
    for token, _ in sampling.logit_bias:
        if token > last:
            raise TokenUnknown(f"This model has no token {token}: --logit-bias takes the ids 0 to {last}.")


def sampler_for(tokenizer: Any, sampling: Sampling) -> Sampler:
    """mlx-lm's sampler. With temperature 0 it takes the likeliest token."""
    sampler: Sampler | None = None

    def sample(logprobs: Any) -> Any:
        nonlocal sampler
        if sampler is None:
            # Only the logits show the number of tokens, and mlx-lm refuses to keep more than that.
            vocabulary, top_k = logprobs.shape[-1], sampling.top_k or 0
            threshold = sampling.xtc_threshold
            xtc_special_tokens: list[int] | None = None
            if sampling.xtc_probability:
                # As in mlx-lm's server, a line break and the end of a reply stay possible.
                newline = tokenizer.encode("\n", add_special_tokens=False)
                xtc_special_tokens = [*newline, *tokenizer.eos_token_ids]
            sampler = make_sampler(
                sampling.temp or 0.0,
                top_p=sampling.top_p or 0.0,
                min_p=sampling.min_p or 0.0,
                min_tokens_to_keep=min(sampling.min_tokens_to_keep or 1, vocabulary),
                top_k=top_k if top_k < vocabulary else 0,
                xtc_probability=sampling.xtc_probability or 0.0,
                xtc_threshold=XTC_THRESHOLD if threshold is None else threshold,
                xtc_special_tokens=xtc_special_tokens,
            )
        return sampler(logprobs)

    return sample


def seeded(sampler: Sampler, sampling: Sampling) -> Sampler:
    """A sampler whose draws depend only on the seed, if there is one, not on other sequences."""
    if sampling.seed is None or not sampling.temp:
        return sampler
    states = _random_states(sampling.seed)

    def sample(logprobs: Any) -> Any:
        mx.random.seed(next(states))
        return sampler(logprobs)

    return sample


def _random_states(seed: int) -> Iterator[int]:
    """The successive states of MLX's random generator, one per draw.

    Computed on the CPU: a GPU would finish its queue first.
    """
    with mx.stream(mx.cpu):
        key = mx.random.key(seed)
    while True:
        high, low = map(int, key.tolist())
        yield high << 32 | low
        with mx.stream(mx.cpu):
            key = mx.random.split(key)[0]


def logits_processors_for(sampling: Sampling, prefix: Sequence[int]) -> list[LogitsProcessor]:
    """mlx-lm's bias and penalties, or none if they are not set, so that logits keep their exact bits.

    `prefix` are the prompt's tokens in the cache. mlx-lm would not look back at them, so a penalty would
    depend on what was cached.
    """
    size = sampling.repetition_context_size
    size = CONTEXT_SIZE if size is None else size
    penalties = {
        "repetition_penalty": None if sampling.repetition_penalty == 1 else sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }
    sizes = {f"{name.partition('_')[0]}_context_size": size for name in penalties}
    processors: list[LogitsProcessor] = make_logits_processors(
        dict(sampling.logit_bias or ()), **penalties, **sizes
    )
    if not any(penalties.values()):
        return processors
    # Size 0 means the whole prompt, as in mlx-lm's slice.
    context = mx.array(list(prefix[-size:]), mx.int32)

    def process(tokens: Any, logits: Any) -> Any:
        tokens = mx.concatenate([context, tokens])
        for processor in processors:
            logits = processor(tokens, logits)
        return logits

    return [process]
