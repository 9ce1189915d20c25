"""How fast a model was found to prefill; refuses to know what is prefilled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Speed:
    """How fast this model prefills here, from what was measured so far."""

    tokens: int = 0
    seconds: float = 0.0

    def of(self, run: int, seconds: float, all_: int) -> float:
        """What `all_` tokens take, of which `run` took `seconds` just now (the rest were at hand)."""
        self.tokens += run
        self.seconds += seconds
        return seconds + (all_ - run) * self.seconds / max(self.tokens, 1)
