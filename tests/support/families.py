"""The tiny models' families as test parameters, by day and by night."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.support.tiny import CONFIGS

# Gemma 3 has sliding windows and full attention as gpt-oss has; the tests of caches have them both.
FAMILIES = [name for name in CONFIGS if name != "gemma3_text"]


def all_but_one_at_night(by_day: str) -> list[Any]:
    """Every family; all but one wait for the night."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=[] if name == by_day else slow) for name in FAMILIES]


def at_night(*values: object) -> Any:
    """A case that is more of the same."""
    return pytest.param(*values, marks=pytest.mark.slow)


def every_second_by_day(values: Iterable[object]) -> list[Any]:
    """All of these; by day every second one stands for its neighbour."""
    return [at_night(value) if number % 2 else value for number, value in enumerate(values)]


def in_turn_by_day(values: Iterable[Any], families: Sequence[str] = FAMILIES) -> list[Any]:
    """Every family with every value; by day each value with one family, in turn."""
    return [
        pytest.param(name, value, marks=[] if number % len(families) == at else pytest.mark.slow)
        for number, value in enumerate(values)
        for at, name in enumerate(families)
    ]
