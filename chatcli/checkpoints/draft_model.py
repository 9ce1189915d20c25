"""Keeps a draft model's cache beside the model's own, checkpointed too; refuses to know messages and MLX.

Its checkpoints are segments of its own root, over the same tokens: those of the model are the same
with and without it. What there is none of is prefilled by the draft model alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Sequence

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.engine import embeddings
from chatcli.engine.generate import Request, Token
from chatcli.engine.speculative import SpeculationLimits, Speculator
from chatcli.model.load import LoadedModel
from chatcli.store.segments import prefix
from chatcli.store.segments.prefix import Segment


class Speculation:
    """A draft model that proposes `num_draft_tokens` at a time, and its live cache."""

    def __init__(
        self, loaded: LoadedModel, checkpoints: Checkpoints, num_draft_tokens: int, fit: SpeculationLimits
    ) -> None:
        """For the model `loaded`; `checkpoints` are the draft model's, `fit` what both have in common."""
        self._loaded = loaded
        self._checkpoints = checkpoints
        self._num_draft_tokens = num_draft_tokens
        self._fit = fit
        self._told = False

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self._checkpoints.loaded.name

    @property
    def path(self) -> list[str]:
        """The ids of the checkpoints that its live cache has passed, oldest first."""
        return self._checkpoints.path

    def follow(
        self,
        chain: Sequence[Segment],
        prompt: Sequence[int],
        cancelled: threading.Event,
        *,
        draft: bool = False,
    ) -> int:
        """Bring its live cache to the end of the model's `chain`, with checkpoints on the way.

        Returns the bytes that will be written. Ends early if `cancelled`, and does nothing where
        there is no speculating any more. As in `Checkpoints.run`, the last segment of a `draft` (of
        a message that is being typed) is not written. Raises `MemoryFull`.
        """
        if cancelled.is_set() or not self._fits(len(prompt)):
            return 0
        kept = self._checkpoints
        # It sees no images: where one is, it is given what stands for any.
        prompt = embeddings.real(self._loaded, prompt)
        own = prefix.chain(kept.root, prompt, [segment.end for segment in chain])
        match = kept.restore(own, prompt, kept.match(own, prompt))
        size = 0 if draft else kept.accept_draft(own[: match.depth], prompt)
        steps = kept.run(own, prompt, match.depth, cancelled, draft=draft)
        return size + sum(written for _, written in steps)

    def generate(
        self,
        checkpoints: Checkpoints,
        request: Request,
        cancelled: threading.Event,
    ) -> Generator[Token]:
        """`Checkpoints.generate` of the model's own, from where this has followed it to."""
        ran = embeddings.real(self._loaded, request.tail)
        with self._checkpoints.lent(ran) as (cache, log):
            loaded = self._checkpoints.loaded
            speculator = Speculator(loaded, cache, log, self._num_draft_tokens, self._fit)
            tokens = checkpoints.generate(request, cancelled, speculator)
            with contextlib.closing(tokens):
                for token in tokens:
                    ran.append(token.id)
                    yield token

    def _fits(self, tokens: int) -> bool:
        """Whether there is speculating after so many tokens."""
        return self._fit.room(tokens, self._num_draft_tokens) > 0

    def close(self) -> None:
        """Wait for what is being written."""
        if (store := self._checkpoints.store) is not None:
            store.tidy()
            store.close()

    def take_notice(self, tokens: int) -> str | None:
        """Why there is no speculating after so many tokens, the first time that it is so."""
        if self._told or self._fits(tokens):
            return None
        self._told = True
        return (
            "A sliding window is full and cannot be trimmed any more: from here on replies come "
            f"without the draft model {self.name}."
        )


def follow(
    speculation: Speculation | None,
    chain: Sequence[Segment],
    prompt: Sequence[int],
    cancelled: threading.Event,
    *,
    draft: bool = False,
) -> int:
    """`Speculation.follow`, where there is a draft model."""
    if speculation is None:
        return 0
    return speculation.follow(chain, prompt, cancelled, draft=draft)
