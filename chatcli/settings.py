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
    """How a token is chosen, in mlx-lm's terms.

    None: as the model's makers say, else the likeliest token of all. `max_tokens` None: until the
    context is full. A `repetition_penalty` of 1 is none. After `think_budget` tokens of thinking it is
    closed and the answer begins; None: when the model closes it.
    """

    temp: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    repetition_penalty: float | None = None
    think_budget: int | None = None

    def over(self, own: Sampling) -> Sampling:
        """This, and the model's own where nothing was asked for."""
        asked = {key: value for key, value in vars(self).items() if value is not None}
        return replace(own, **asked)

    def shifted(self, number: int) -> Sampling:
        """The same for reply `number` to one question: another seed gives another reply."""
        return self if self.seed is None else replace(self, seed=self.seed + number)


@dataclass(frozen=True)
class Settings:
    """What a run was asked for. `think` None leaves it to the model's template.

    `cache_limit` is the most that checkpoints may take, in bytes; None: as the disk allows.
    `memory_limit` is the most that the model and its cache may take in memory, in bytes; None: what
    the device recommends. `panel` is one of `PANELS`. `trust_remote_code` lets code that comes with
    a model run. `model` and `system` are those of a session that is begun; one that goes on keeps
    its own. `models` are the person's own names of models.
    """

    sessions: Path
    sampling: Sampling = Sampling()
    think: bool | None = None
    cache: bool = True
    draft: bool = True
    cache_limit: int | None = None
    memory_limit: int | None = None
    panel: str = "line"
    trust_remote_code: bool = False
    model: str = POCKET
    system: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)


def aliased(name: str, models: Mapping[str, str]) -> str:
    """The model behind an alias. A folder that is given with a slash is that folder."""
    is_folder = "/" in name and Path(name).expanduser().is_dir()
    return name if is_folder else models.get(name, name)
