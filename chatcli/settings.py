"""One frozen `Settings`, every default once; refuses to read argv or the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

# The model that is built in.
POCKET = "pocket"
# How much is shown of each turn's reuse.
PANELS = ("line", "full", "off")


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen, in mlx-lm's terms. `max_tokens` None: until the context is full."""

    temp: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None

    def shifted(self, number: int) -> Sampling:
        """The same for reply `number` to one question: another seed gives another reply."""
        return self if self.seed is None else replace(self, seed=self.seed + number)


@dataclass(frozen=True)
class Settings:
    """What a run was asked for. `think` None leaves it to the model's template.

    `cache_limit` is the most that checkpoints may take, in bytes; None: as the disk allows.
    `panel` is one of `PANELS`. `model` and `system` are those of a session that is begun; one that
    goes on keeps its own. `models` are the person's own names of models.
    """

    sessions: Path
    sampling: Sampling = Sampling()
    think: bool | None = None
    cache: bool = True
    draft: bool = True
    cache_limit: int | None = None
    panel: str = "line"
    model: str = POCKET
    system: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)


def aliased(name: str, models: Mapping[str, str]) -> str:
    """The model behind an alias. A folder that is given with a slash is that folder."""
    is_folder = "/" in name and Path(name).expanduser().is_dir()
    return name if is_folder else models.get(name, name)
