"""One frozen `Settings`, every default once; refuses to read argv or the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# The model that is built in.
POCKET = "pocket"
# What stands for no draft model where a setting names one.
NO_MODEL = "none"
# What mlx-lm quantizes a cache to (bits), in groups of so many numbers.
KV_BITS = (2, 3, 4, 5, 6, 8)
KV_GROUP_SIZES = (32, 64, 128)
# The start that a full `max_kv_size` keeps is 4 tokens; fewer than these leave no window to speak of.
LEAST_KV_SIZE = 16
MOST_XTC_THRESHOLD = 0.5
# Where there is a draft model: what it proposes at a time if nothing is said (as mlx-lm), and at most.
NUM_DRAFT_TOKENS, MOST_DRAFT_TOKENS = 3, 64
# How much is shown of each turn's reuse.
PANELS = ("line", "full", "off")


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen, in mlx-lm's terms.

    None: as the model's makers say, else the likeliest token of all. `max_tokens` None: until the
    context is full. A `repetition_penalty` of 1 is none. All three penalties look back over
    `repetition_context_size` tokens. `logit_bias` holds (token id, what is added to its logit).
    A reply ends before the first of the `stop` texts. After `think_budget` tokens of thinking it is
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
    min_tokens_to_keep: int | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_context_size: int | None = None
    logit_bias: tuple[tuple[int, float], ...] | None = None
    stop: tuple[str, ...] | None = None

    def over(self, own: Sampling) -> Sampling:
        """This, and the model's own where nothing was asked for."""
        asked = {key: value for key, value in vars(self).items() if value is not None}
        return replace(own, **asked)

    def shifted(self, number: int) -> Sampling:
        """The same for reply `number` to one question: another seed gives another reply."""
        return self if self.seed is None else replace(self, seed=self.seed + number)


@dataclass(frozen=True)
class ModelOptions:
    """How a model is run, in mlx-lm's terms: the numbers in its cache depend on all of it.

    `max_kv_size` and `prefill_step_size` count tokens. The cache is quantized from the first token
    on: mlx-lm's `quantized_kv_start` would quantize what a checkpoint holds at a place that depends
    on how the prompt was cut, and a restored conversation would not be the one that was closed.
    `pipeline` gives each of several ranks layers of its own, rather than a part of every layer.
    """

    max_kv_size: int | None = None
    kv_bits: int | None = None
    kv_group_size: int = 64
    prefill_step_size: int | None = None
    adapter_path: str | None = None
    pipeline: bool = False

    def asked(self) -> dict[str, Any]:
        """What a session keeps of it: without these its checkpoints would be of no use."""
        own = {name: getattr(self, name) for name in KEPT}
        return {name: value for name, value in own.items() if value != getattr(DEFAULTS, name)}

    def resumed(self, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> ModelOptions:
        """As a session has `kept` it, if it has, but for what was `asked` for this time."""
        known = {name: value for name, value in kept.items() if _fits(name, value)}
        return replace(DEFAULTS, pipeline=self.pipeline, **{**known, **asked}) if known else self


DEFAULTS = ModelOptions()
KEPT = ("max_kv_size", "kv_bits", "kv_group_size", "prefill_step_size", "adapter_path")


def adapter_folder(given: str | Path | None) -> str | None:
    """An adapter's folder as `ModelOptions` has it: a session that keeps it opens from anywhere."""
    return None if given is None else str(Path(given).expanduser().absolute())


def _fits(name: str, value: Any) -> bool:
    """Whether the command line would take it."""
    if name == "adapter_path":
        return isinstance(value, str)
    if type(value) is not int:
        return False
    ranges = {
        "kv_bits": value in KV_BITS,
        "kv_group_size": value in KV_GROUP_SIZES,
        "max_kv_size": value >= LEAST_KV_SIZE,
        "prefill_step_size": value > 0,
    }
    return ranges.get(name, False)


@dataclass(frozen=True)
class Settings:
    """What a run was asked for. `think` None leaves it to the model's template.

    `cache_limit` is the most that checkpoints may take, in bytes; None: as the disk allows.
    `memory_limit` is the most that the model and its cache may take in memory, in bytes; None: what
    the device recommends. `panel` is one of `PANELS`. `trust_remote_code` lets code that comes with
    a model run. `model` and `system` are those of a session that is begun; one that goes on keeps
    its own. `models` are the person's own names of models. `draft_model` proposes a reply's tokens,
    `num_draft_tokens` at a time (`draft` is another thing: to prefill what is being typed).
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
    model_options: ModelOptions = DEFAULTS
    draft_model: str | None = None
    num_draft_tokens: int = NUM_DRAFT_TOKENS


def aliased(name: str, models: Mapping[str, str]) -> str:
    """The model behind an alias. A folder that is given with a slash is that folder."""
    is_folder = "/" in name and Path(name).expanduser().is_dir()
    return name if is_folder else models.get(name, name)
