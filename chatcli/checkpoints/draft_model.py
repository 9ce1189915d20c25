"""Speculative decoding: a draft model's live cache beside the model's own, checkpointed too.

Its checkpoints are segments of its own root, over the same tokens: those of the model are the same
with and without it. Where it has none, the draft model alone prefills.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from chatcli.checkpoints.checkpoints import Checkpoints, Purpose
from chatcli.engine import embeddings
from chatcli.engine.generate import GenerationRequest, Token
from chatcli.engine.speculative import SpeculationLimits, Speculator
from chatcli.model.load import LoadedModel
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import StopSignal


class Speculation:
    """A draft model that proposes `num_draft_tokens` at a time, and its live cache."""

    def __init__(
        self, loaded: LoadedModel, checkpoints: Checkpoints, num_draft_tokens: int, limits: SpeculationLimits
    ) -> None:
        """For the model `loaded`; `checkpoints` are the draft model's, `limits` what both have in common."""
        self._loaded = loaded
        self._checkpoints = checkpoints
        self._num_draft_tokens = num_draft_tokens
        self._limits = limits
        self._notice_taken = False

    @property
    def name(self) -> str:
        """The draft model's name."""
        return self._checkpoints.loaded.name

    @property
    def live_ids(self) -> list[str]:
        """The ids of the checkpoints that its live cache has passed, oldest first."""
        return self._checkpoints.live_ids

    def follow(
        self, path: TokenPath, cancelled: StopSignal, purpose: Purpose, *, private: bool = False
    ) -> int:
        """Bring its live cache to the end of the model's `path`, with checkpoints on the way.

        Returns the bytes that will be written; those of a turn come with `hand_over`. Ends early if
        `cancelled`, and does nothing once the draft model cannot propose any more. Raises `MemoryFull`.
        """
        if cancelled.is_set() or not self._fits(len(path.tokens)):
            return 0
        # It sees no images: where one is, it is given what stands for any.
        tokens = embeddings.vocabulary_tokens(self._loaded, path.tokens)
        own = self._checkpoints.cut(tokens, path.boundaries)
        # Nobody counts a draft model's typeahead, so settling may accept it like a turn.
        purpose_here: Purpose = "turn" if purpose == "settle" else purpose
        _, steps = self._checkpoints.advance(own, cancelled, purpose_here, private=private)
        run = sum(step.bytes for step in steps)
        return run if purpose == "turn" else run + self.hand_over()

    def keep(self) -> None:
        """`Checkpoints.keep`."""
        self._checkpoints.keep()

    def hand_over(self) -> int:
        """Hand the checkpoints of a turn to the store's writer. Returns their bytes."""
        return self._checkpoints.hand_over()

    def generate(
        self,
        checkpoints: Checkpoints,
        request: GenerationRequest,
        cancelled: StopSignal,
    ) -> Generator[Token]:
        """Generate with the model's own `checkpoints`, once `follow` has brought this to the same token."""
        run = embeddings.vocabulary_tokens(self._loaded, request.tail)
        with self._checkpoints.lent(run) as (cache, log):
            loaded = self._checkpoints.loaded
            speculator = Speculator(loaded, cache, log, self._num_draft_tokens, self._limits)
            tokens = checkpoints.generate(request, cancelled, speculator)
            with contextlib.closing(tokens):
                for token in tokens:
                    run.append(token.id)
                    yield token

    def _fits(self, tokens: int) -> bool:
        """Whether the draft model can still propose after so many tokens."""
        return self._limits.room(tokens, self._num_draft_tokens) > 0

    def close(self) -> None:
        """Wait for what is being written."""
        self._checkpoints.leave()
        self._checkpoints.store.tidy()
        self._checkpoints.store.close()

    def take_notice(self, tokens: int) -> str | None:
        """Why it no longer proposes after so many tokens, the first time that it is so."""
        if self._notice_taken or self._fits(tokens):
            return None
        self._notice_taken = True
        return (
            "The sliding window is full and can no longer be trimmed: from here on replies come "
            f"without the draft model {self.name}."
        )


def follow(
    speculation: Speculation | None,
    path: TokenPath,
    cancelled: StopSignal,
    purpose: Purpose = "turn",
    *,
    private: bool = False,
) -> int:
    """`Speculation.follow`, where there is a draft model."""
    if speculation is None:
        return 0
    return speculation.follow(path, cancelled, purpose, private=private)
