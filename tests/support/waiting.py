"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.program import (
    DEADLINE,
)


def wait_until(happened: Callable[[], object]) -> None:
    """Poll until `happened()` is true, at most `DEADLINE` seconds."""
    deadline = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)
