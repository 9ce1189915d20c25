"""The store of a process without checkpoints (`--no-cache`): reads and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from chatcli.store.segments.segments import Increment
from chatcli.store.segments.token_path import TokenPath


class NullStore:
    """Behaves like an empty `SegmentStore` whose folder cannot be written."""

    problem: str | None = None
    unwritten = upkeep_bytes = 0

    def depth(self, path: TokenPath, *, stateful: bool) -> int:
        return 0

    def has_state(self, identifier: str) -> bool:
        """No state is still to be written."""
        return True

    def lendable(self, path: TokenPath, step: int, depth: int = 0) -> int:
        return 0

    def shared_tokens(self, path: TokenPath) -> int:
        return 0

    def tokens_of(self, ids: Sequence[str]) -> list[int]:
        return []

    def missing(self, path: TokenPath) -> list[int]:
        """Nothing that is to be written is missing."""
        return []

    def is_queued(self, path: TokenPath) -> bool:
        return False

    def took(self, path: TokenPath, seconds: float) -> None:
        pass

    def is_due(self, path: TokenPath, seconds: float, size: int | None = None) -> bool:
        return False

    def put(self, increment: Increment, *, rows_missing: bool | None = None) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        pass

    def take_problem(self) -> None:
        return None

    def flush(self) -> None:
        pass

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        pass
