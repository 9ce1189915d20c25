"""The cost of passes of several tokens on this machine, measured once for each model and kept in a file.

The cost decides how many tokens are guessed, and thereby how a reply is rounded. Measured once, it is the
same in every process.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from chatcli import files
from chatcli.engine.pace import PassCosts

Measure = Callable[[], PassCosts | None]
# Attention slows down as the context grows, so costs are measured again beyond `FIRST_SPAN` tokens, and
# each time the context has grown by `SPAN_FACTOR`.
FIRST_SPAN, SPAN_FACTOR = 4096, 4
UNKNOWN = PassCosts({})


class KnownCosts:
    """The costs of a model's passes by the length of the context. With `path` None, in memory only."""

    def __init__(self, fingerprint: str, path: Path | None = None) -> None:
        # The fingerprint also covers the device and the libraries.
        self._fingerprint, self._path = fingerprint, path
        self._known: dict[int, PassCosts] = {}

    def after(self, tokens: int, measure: Measure) -> PassCosts:
        """The cost of passes after `tokens` tokens. Calls `measure`, which may return None, if unknown."""
        span = FIRST_SPAN
        while span < tokens:
            span *= SPAN_FACTOR
        if span not in self._known and (costs := self._kept(f"{self._fingerprint} {span}", measure)):
            self._known[span] = costs
        return self._known.get(span, UNKNOWN)

    def _kept(self, key: str, measure: Measure) -> PassCosts | None:
        if self._path is None:
            return measure()
        costs = _costs(_read(self._path).get(key))
        if costs is None and (costs := measure()):
            with contextlib.suppress(OSError):
                files.make_private(self._path.parent)
                location = files.Location.of_file(self._path)
                with location.parent.locked():
                    kept = _read(self._path)
                    # Another process may have measured first.
                    costs = _costs(kept.get(key)) or costs
                    data = json.dumps({**kept, key: list(costs.ratios.items())}, indent=1).encode()
                    files.replace(location, data, location.parent)
        return costs


def default_path() -> Path:
    """The file, in the user's own cache folder."""
    return platformdirs.user_cache_path("chatcli") / "passes.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _costs(kept: Any) -> PassCosts | None:
    with contextlib.suppress(TypeError, ValueError):
        return PassCosts({int(length): float(ratio) for length, ratio in kept})
    return None
