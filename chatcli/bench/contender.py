"""What a contender is asked and what it answers; refuses to know how any of them works.

All of them get the same conversations: a path of a person's messages, to each of which the model
says what the script says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from chatcli.bench.scripted import Script


@dataclass(frozen=True)
class Request:
    """A conversation up to a message that is to be answered: `said` are a person's, oldest first."""

    system: str
    said: tuple[str, ...]

    def messages(self, script: Script) -> list[dict[str, str]]:
        """What a chat template is given: every message but the last has the script's reply."""
        made = [{"role": "system", "content": self.system}]
        for text in self.said:
            made.append({"role": "user", "content": text})
            made.append({"role": "assistant", "content": script.reply})
        return made[:-1]


@dataclass(frozen=True)
class Answer:
    """What a request took: counts in tokens, times in seconds, sizes in bytes.

    `first` is the time from the request to the first token, `gaps` are those between tokens, `after`
    what passed from the last token until the next request could be taken. `ahead` tokens were run in
    that time. `greedy` is what the model itself would have said at each token of the script.
    `opening` is what passed from a new process's beginning until it could take this request.
    `memory` is what caches hold afterwards, `disk` what lies there, `written` what this one wrote.
    A contender that `tells` nothing of its reuse has 0 `reused`.
    """

    prompt: int
    reused: int
    first: float
    gaps: Sequence[float] = ()
    after: float = 0.0
    ahead: int = 0
    greedy: Sequence[int] = ()
    memory: int = 0
    disk: int = 0
    written: int = 0
    opening: float = 0.0
    tells: bool = True

    @property
    def hit_ratio(self) -> float:
        """Not a number where nobody tells it."""
        if not self.tells:
            return math.nan
        return self.reused / self.prompt if self.prompt else 0.0

    @property
    def generation(self) -> float:
        """Seconds from the first token to the last."""
        return sum(self.gaps)


class Contender(Protocol):
    """Answers requests, reusing what it can of those before."""

    @property
    def name(self) -> str: ...

    def ask(self, request: Request, script: Script) -> Answer:
        """Answer one request, and do what it does afterwards."""

    def reopen(self, ahead: bool) -> None:
        """Forget all but the disk, as a new process would. `ahead`: do then what can be done before
        the next request is known."""

    def forget(self) -> None:
        """Forget everything: as before the first request."""

    def close(self) -> None:
        """Give back what it holds."""


def gaps(times: Sequence[float]) -> tuple[float, ...]:
    """Seconds between moments."""
    return tuple(later - earlier for earlier, later in itertools.pairwise(times))
