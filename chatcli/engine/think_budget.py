"""A logits processor that closes thinking after a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from chatcli.chat_format.markers import splitter


class ThinkBudget:
    """Called by mlx-lm with every token so far and the next one's logits.

    Counts the tokens after the marker that begins thinking. After `budget` tokens only `closing` can follow,
    or the rest of it if the model has begun it. Several thoughts in a reply, as in gpt-oss, share the budget;
    when it is spent, each further thought gets one token.
    """

    def __init__(
        self,
        tokenizer: Any,
        budget: int,
        closing: Sequence[int],
        generation_prompt: str,
        reply_start: Sequence[int] = (),
    ) -> None:
        """`generation_prompt` is a text, `reply_start` the tokens of the reply so far."""
        self._budget, self._closing = budget, tuple(closing)
        self._splitter = splitter(tokenizer, generation_prompt)
        self._detokenizer = tokenizer.detokenizer
        self._thinking_tokens = 0
        # The rest of `closing` to force.
        self._forced = list[int]()
        # The newest tokens, as many as in `closing`.
        self._tail: tuple[int, ...] = ()
        # Arrays of generated tokens that are not counted yet.
        self._uncounted: list[Any] = []
        self._was_called = False
        for token in reply_start:
            self._count(token)
        if self._thinking_tokens >= budget and (written := self._written()):
            # The reply was cut off while thinking was being closed.
            self._forced = list(self._closing[written:])

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Logits of shape (1, vocabulary), with all tokens masked except a forced one."""
        if self._was_called:
            self._uncounted.append(tokens[-1])
            mx.async_eval(self._uncounted[-1])  # type: ignore[no-untyped-call]
        self._was_called = True
        # Reading the last token waits for its computation, so tokens are read only when the budget is nearly
        # spent.
        while len(self._uncounted) > (0 if self._may_be_spent() else 1):
            self._count(self._uncounted.pop(0).item())
        if not self._forced and self._splitter.thinking and self._thinking_tokens >= self._budget:
            self._forced = list(self._closing[self._written() :])
        if not self._forced:
            return logits
        # Mask all logits but the forced token's.
        is_forced = mx.arange(logits.shape[-1]) == self._forced.pop(0)
        masked = mx.full(logits.shape, float("-inf"), logits.dtype)
        return mx.where(is_forced, mx.zeros_like(logits), masked)

    def _may_be_spent(self) -> bool:
        """Whether the next token may be the last of the thinking."""
        may_think = self._splitter.thinking or not self._thinking_tokens
        return may_think and self._thinking_tokens + 1 >= self._budget

    def _count(self, token: int) -> None:
        was_thinking = self._splitter.thinking
        self._detokenizer.add_token(token)
        self._splitter.feed(self._detokenizer.last_segment)
        self._thinking_tokens += was_thinking and self._splitter.thinking
        self._tail = (*self._tail, token)[-len(self._closing) :]

    def _written(self) -> int:
        """How many tokens of `closing` the model has written itself."""
        sizes = range(min(len(self._tail), len(self._closing) - 1), 0, -1)
        return next((size for size in sizes if self._tail[-size:] == self._closing[:size]), 0)
