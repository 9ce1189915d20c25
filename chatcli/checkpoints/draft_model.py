"""Speculative decoding: a draft model's live cache beside the model's own, with its own checkpoints.

They are segments of the same tokens below the draft model's own root, so the model's checkpoints are the same
with and without it. If they are missing, only the draft model prefills.
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
        """For the model `loaded`. `checkpoints` are the draft model's, `limits` apply to both."""
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
        """The ids of the checkpoints on its live path, oldest first."""
        return self._checkpoints.live_ids

    def follow(
        self, path: TokenPath, cancelled: StopSignal, purpose: Purpose, *, private: bool = False
    ) -> int:
        """Bring its live cache to the end of the model's `path`, with checkpoints.

        Returns the bytes that will be written; `hand_over` returns those of a turn. Ends early if
        `cancelled`, and does nothing once the draft model can no longer propose. Raises `MemoryFull`.
        """
        if cancelled.is_set() or not self._fits(len(path.tokens)):
            return 0
        # It cannot see images and gets the placeholder tokens.
        tokens = embeddings.vocabulary_tokens(self._loaded, path.tokens)
        own = self._checkpoints.cut(tokens, path.boundaries)
        # A draft model's typeahead is not counted, so settling may accept it like a turn.
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
        """Generate with the model's own `checkpoints`. `follow` must have reached the same token."""
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
        """Whether the draft model can still propose after `tokens` tokens."""
        return self._limits.room(tokens, self._num_draft_tokens) > 0

    def close(self) -> None:
        """Wait until everything is written."""
        self._checkpoints.leave()
        self._checkpoints.store.tidy()
        self._checkpoints.store.close()

    def take_notice(self, tokens: int) -> str | None:
        """Why it no longer proposes after `tokens` tokens; None after the first call that says so."""
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
    """`Speculation.follow`, if there is a draft model; else 0."""
    if speculation is None:
        return 0
    return speculation.follow(path, cancelled, purpose, private=private)
