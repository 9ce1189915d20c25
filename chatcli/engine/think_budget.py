"""Closes a thinking that has had its tokens, as a logits processor; refuses to know caches and turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from chatcli.chat_format.markers import ReplySplitter


class ThinkBudget:
    """Called by mlx-lm with every token so far and the next one's logits.

    Counts the tokens after the marker that begins thinking. Once there are `budget` of them, `closing`
    is all that can follow, from where the model has begun it. In later thinking of the same reply the
    rest of the budget is left; where none is, its first token comes before it is closed.
    """

    def __init__(
        self,
        tokenizer: Any,
        budget: int,
        closing: Sequence[int],
        opening: str,
        said: Sequence[int] = (),
    ) -> None:
        """`opening` is the text of the generation prompt, `said` the tokens of the reply so far."""
        self._budget, self._closing = budget, tuple(closing)
        self._splitter = ReplySplitter(tokenizer, opening)
        self._detokenizer = tokenizer.detokenizer
        self._spent, self._forced = 0, list[int]()
        self._tail: tuple[int, ...] = ()
        self._unheard: list[Any] = []
        self._begun = False
        for token in said:
            self._hear(token)
        if self._spent >= budget and (written := self._written()):
            # The reply was cut while it was being closed.
            self._forced = list(self._closing[written:])

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """The logits of shape (1, vocabulary), with one token left where it is to be forced."""
        if self._begun:
            self._unheard.append(tokens[-1])
            mx.async_eval(self._unheard[-1])  # type: ignore[no-untyped-call]
        self._begun = True
        # To read the last token is to wait for it; the one before it has been told.
        late = 0 if self._is_close() else 1
        while len(self._unheard) > late:
            self._hear(self._unheard.pop(0).item())
            late = 0 if self._is_close() else 1
        if not self._forced and self._splitter.thinking and self._spent >= self._budget:
            self._forced = list(self._closing[self._written() :])
        return _only(logits, self._forced.pop(0)) if self._forced else logits

    def _is_close(self) -> bool:
        """Whether the next token may be the last of the thinking."""
        may_think = self._splitter.thinking or not self._spent
        return may_think and self._spent + 1 >= self._budget

    def _hear(self, token: int) -> None:
        before = self._splitter.thinking
        self._detokenizer.add_token(token)
        for _ in self._splitter.feed(self._detokenizer.last_segment):
            pass
        self._spent += before and self._splitter.thinking
        self._tail = (*self._tail, token)[-len(self._closing) :]

    def _written(self) -> int:
        """How much of `closing` the model has begun to write itself."""
        sizes = range(min(len(self._tail), len(self._closing) - 1), 0, -1)
        return next((size for size in sizes if self._tail[-size:] == self._closing[:size]), 0)


def _only(logits: Any, token: int) -> Any:
    """Certainty."""
    is_it = mx.arange(logits.shape[-1]) == token
    return mx.where(is_it, mx.zeros_like(logits), mx.full(logits.shape, float("-inf"), logits.dtype))
