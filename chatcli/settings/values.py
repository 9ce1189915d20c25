"""`Settings`: every setting, declared once with its type, bounds, help and default."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from chatcli.settings.declaration import (
    Choice,
    Float,
    Folder,
    Int,
    Setting,
    Size,
    Switch,
    Text,
    Texts,
    TokenBiases,
    Value,
)

# The name of the built-in model.
POCKET = "pocket"
# The hub name in examples and hints: a small thinking model.
EXAMPLE_MODEL = "mlx-community/Qwen3.5-4B-MLX-4bit"
# The value of `draft_model` that means no draft model.
NO_MODEL = "none"
# mlx-lm's default.
NUM_DRAFT_TOKENS = 3
# How much to show of each turn's reuse.
PANELS = ("line", "full", "off")
# A conversation's newest recurrent states stay on disk up to this many bytes.
NEWEST_STATE_BYTES = 2 << 20

# MLX slices with 32-bit numbers.
MOST_TOKENS = (1 << 31) - 1
BY_MODEL = "the model's own"
RUN = "Running the model"


def adapter_folder(given: str | Path | None) -> str | None:
    """An adapter's absolute path, so that a session with it can be opened from anywhere."""
    return None if given is None else str(Path(given).expanduser().absolute())


class AdapterFolder(Folder):
    def load(self, value: Any) -> str | None:
        return adapter_folder(value)


# Penalties are subtracted from logits.
Penalty = partial(Float, min=-1_000_000, max=1_000_000)
Tokens = partial(Int, metavar="TOKENS")


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen, in mlx-lm's terms.

    None: the model's generation_config.json decides, else the likeliest token is taken. `max_tokens` None:
    until the context is full. A `repetition_penalty` of 1 is off. All three penalties look back over
    `repetition_context_size` tokens. `logit_bias` has (token id, amount added to its logit). A reply ends
    before the first of the `stop` texts. After `think_budget` tokens of thinking the thinking is closed and
    the answer begins; None: when the model closes it. `lookup` guesses tokens from
    where the conversation has said the same before; None: off.
    """

    temp: Annotated[
        float | None, Float("Sampling temperature (0: none).", BY_MODEL, "temperature", min=0)
    ] = None
    top_p: Annotated[float | None, Float("Top-p (1: off).", BY_MODEL, "top_p", min=0, max=1)] = None
    top_k: Annotated[int | None, Int("Top-k (0: off).", BY_MODEL, "top_k", min=0)] = None
    min_p: Annotated[float | None, Float("Min-p (0: off).", BY_MODEL, "min_p", min=0, max=1)] = None
    repetition_penalty: Annotated[
        float | None, Float("Repetition penalty (1: off).", BY_MODEL, "repetition_penalty", min=0.1)
    ] = None
    presence_penalty: Annotated[
        float | None,
        Penalty("Presence penalty: taken from tokens that appeared (0: off).", BY_MODEL, "presence_penalty"),
    ] = None
    frequency_penalty: Annotated[
        float | None,
        Penalty(
            "Frequency penalty: taken each time a token appeared (0: off).",
            BY_MODEL,
            "frequency_penalty",
        ),
    ] = None
    repetition_context_size: Annotated[
        int | None,
        Tokens(
            "How many tokens the three penalties look back, the prompt included (0: all).",
            "20, as in mlx-lm",
            min=0,
            max=MOST_TOKENS,
        ),
    ] = None
    xtc_probability: Annotated[
        float | None, Float("Probability that XTC drops the likeliest tokens.", "0, off", min=0, max=1)
    ] = None
    xtc_threshold: Annotated[
        float | None,
        Float("Probability above which XTC counts a token as likely.", "0.1, as in mlx-lm", min=0, max=0.5),
    ] = None
    min_tokens_to_keep: Annotated[
        int | None, Tokens("Tokens that min-p always keeps.", "1", min=1, max=MOST_TOKENS)
    ] = None
    logit_bias: Annotated[
        tuple[tuple[int, float], ...] | None, TokenBiases("Add to a token's logit; repeatable.", "nothing")
    ] = None
    stop: Annotated[
        tuple[str, ...] | None,
        Texts(
            "End the reply before this text; repeatable. Thinking is not searched for it.",
            BY_MODEL,
            "stop_strings",
        ),
    ] = None
    seed: Annotated[int | None, Int("Sampling seed.", "a new one each time", min=0, max=(1 << 63) - 1)] = None
    max_tokens: Annotated[
        int | None,
        Tokens(
            "Most tokens in a reply, thinking included.",
            "the model's own, else the context",
            "max_new_tokens",
            short="-n",
            min=1,
        ),
    ] = None
    lookup: Annotated[
        bool | None,
        Switch(
            "Guess tokens from where the conversation has said the same before, and have the model check "
            "several at once where that is faster.",
            "on",
        ),
    ] = None
    think_budget: Annotated[
        int | None,
        Tokens("End the thinking after this many tokens, so that the answer begins.", "no limit", min=0),
    ] = None

    def over(self, own: Sampling) -> Sampling:
        """These values, and the model's own for those that are not set."""
        asked = {key: value for key, value in vars(self).items() if value is not None}
        return replace(own, **asked)

    def resumed(self, kept: Mapping[str, Any], asked: Collection[str]) -> Sampling:
        """Apply the values `kept` by a session (None: the model's own), except for the names in `asked`."""
        usable = {
            name: value if value is None else SETTINGS[name].load(value)
            for name, value in kept.items()
            if name in IN_SHELL and name not in asked and (value is None or SETTINGS[name].holds(value))
        }
        return replace(self, **usable)

    def shifted(self, number: int) -> Sampling:
        """The same sampling with the seed for reply `number` to one question."""
        return self if self.seed is None else replace(self, seed=self.seed + number)


@dataclass(frozen=True)
class ModelOptions:
    """How a model is run, in mlx-lm's terms. The contents of its cache depend on all of these.

    `max_kv_size` and `prefill_step_size` are in tokens. The cache is quantized from the first token on: with
    mlx-lm's `quantized_kv_start` the position would depend on how the prompt was divided, and a restored
    conversation would differ from the one that was closed. `pipeline` gives each rank its own layers rather
    than a part of every layer.
    """

    # A full window keeps the first 4 tokens, so less than 16 would leave almost no window.
    max_kv_size: Annotated[
        int | None,
        Tokens(
            "Keep only the first 4 and the newest tokens, this many in all. The session keeps it.",
            "all",
            section=RUN,
            min=16,
        ),
    ] = None
    kv_bits: Annotated[
        int | None,
        Choice(
            "Quantize the KV cache to 2, 3, 4, 5, 6 or 8 bits, from the first on. The session keeps it.",
            "not quantized",
            section=RUN,
            choices=(2, 3, 4, 5, 6, 8),
        ),
    ] = None
    kv_group_size: Annotated[
        int,
        Choice(
            "Group size of the quantization: 32, 64 or 128 (default: 64).", section=RUN, choices=(32, 64, 128)
        ),
    ] = 64
    prefill_step_size: Annotated[
        int | None,
        Tokens("Tokens to prefill at a time.", "64 on a CPU, 2048 on a GPU", section=RUN, min=1),
    ] = None
    adapter_path: Annotated[
        str | None,
        AdapterFolder(
            "A folder with a LoRA or another adapter of the model. The session keeps it.", "none", section=RUN
        ),
    ] = None
    pipeline: Annotated[
        bool,
        Switch("Under mlx.launch: give each rank whole layers, not a part of every layer.", section=RUN),
    ] = False

    def asked(self) -> dict[str, Any]:
        """The options that a session saves, because its checkpoints are useless without them."""
        kept = {name: getattr(self, name) for name in KEPT}
        return {name: value for name, value in kept.items() if value != getattr(DEFAULTS, name)}

    def resumed(self, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> ModelOptions:
        """Apply the options `kept` by a session, if any, except for those `asked` for in this run."""
        usable = {name: value for name, value in kept.items() if name in KEPT and SETTINGS[name].holds(value)}
        return replace(DEFAULTS, pipeline=self.pipeline, **{**usable, **asked}) if usable else self


DEFAULTS = ModelOptions()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run. `think` None leaves it to the model's template.

    `cache_limit` is the most bytes that checkpoints may take on disk; None: as the disk allows.
    `memory_limit` is the most bytes that the model and its cache may take in memory; None: what the device
    recommends. `panel` is one of `PANELS`. `trust_remote_code` lets code that comes with a model run this
    time; no file or variable can set it. `model` and `system` are for new sessions; existing ones keep their
    own. `models` are aliases. `sessions_flag` is the value of `--sessions` that commands need for this
    folder; None if chatcli finds it without. `draft_model` proposes a reply's tokens, `num_draft_tokens` at a
    time. A conversation's newest recurrent states stay on disk up to `newest_state_bytes`.
    """

    model: Annotated[
        str,
        Text(
            "A folder, a hub name, an alias, or 'pocket' (the default); chatcli models lists them.",
            short="-m",
            metavar="MODEL",
        ),
    ] = POCKET
    sampling: Sampling = Sampling()
    think: Annotated[bool | None, Switch("Turn the model's thinking on or off.", BY_MODEL)] = None
    cache: Annotated[bool, Switch("Read and write checkpoints (default: cache).")] = True
    typeahead: Annotated[bool, Switch("Prefill a message while it is typed (default: typeahead).")] = True
    model_options: ModelOptions = DEFAULTS
    draft_model: Annotated[
        str | None,
        Text(
            "A small model with the same vocabulary, named as for -m, or 'none'. It proposes a reply's "
            "tokens and the model checks several at once: faster where it is often right.",
            "none",
            metavar="MODEL",
            section=RUN,
        ),
    ] = None
    num_draft_tokens: Annotated[
        int,
        Tokens(
            f"Tokens that the draft model proposes at a time (default: {NUM_DRAFT_TOKENS}).",
            section=RUN,
            min=1,
            max=64,
        ),
    ] = NUM_DRAFT_TOKENS
    cache_limit: Annotated[
        int | None,
        Size(
            "Most that checkpoints may take on disk, such as 5GB.",
            "20 GiB or a tenth of the free disk, whichever is less",
        ),
    ] = None
    recompute_seconds: Annotated[
        float,
        Float(
            "Seconds that going back in a conversation may take to compute a recurrent state again, so that "
            "fewer lie on disk (default: 1.2; 0: all do).",
            metavar="SECONDS",
            min=0,
        ),
    ] = 1.2
    memory_limit: Annotated[
        int | None,
        Size(
            "Most that the model and its cache may take in memory, such as 12GB. A prompt that needs more is "
            "refused.",
            "what the device recommends",
        ),
    ] = None
    sessions: Annotated[Path, Folder("Where sessions are saved.")]
    panel: Annotated[
        str, Choice("How each turn's numbers are shown in a chat (default: full).", choices=PANELS)
    ] = "full"
    trust_remote_code: bool = False
    system: Annotated[str | None, Text("System prompt.", "none", short="-s")] = None
    models: Mapping[str, str] = field(default_factory=dict)
    sessions_flag: str | None = None
    newest_state_bytes: int = NEWEST_STATE_BYTES

    @classmethod
    def loaded(cls, values: Mapping[str, Any], models: Mapping[str, str]) -> Settings:
        """The settings with these values by key, each converted by its declaration's `load`."""
        sampling = Sampling(**{each.name: values[each.name] for each in fields(Sampling)})
        options = ModelOptions(**{each.name: values[each.name] for each in fields(ModelOptions)})
        own = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        own["model"] = aliased(own["model"], models)
        draft = own["draft_model"]
        own["draft_model"] = None if draft in (None, NO_MODEL) else aliased(draft, models)
        return cls(**{**own, "sampling": sampling, "model_options": options, "models": models})


def _declared(group: type) -> Iterator[tuple[str, Setting, Value | None]]:
    """Each declared field's name, declaration and default, including those of nested groups."""
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        hint = hints[each.name]
        if hint in (Sampling, ModelOptions):
            yield from _declared(hint)
        for setting in getattr(hint, "__metadata__", ()):
            yield each.name, setting, None if each.default is MISSING else each.default


_DECLARED = list(_declared(Settings))
# Every setting by its key in the file, the environment and the flags.
SETTINGS = {key: setting for key, setting, _ in _DECLARED}
# Their defaults (None: no default). The default for `sessions` depends on the current folder.
DEFAULT_VALUES = {key: default for key, _, default in _DECLARED} | {"lookup": True}
# The model options that a session saves, because its checkpoints are useless without them.
KEPT = tuple(each.name for each in fields(ModelOptions) if each.name != "pipeline")
# The settings that `/set` changes, by key. The session saves them.
IN_SHELL = {each.name: SETTINGS[each.name] for each in fields(Sampling) if each.name != "logit_bias"}


def aliased(name: str, models: Mapping[str, str]) -> str:
    """The model that an alias means. Folders are not aliases."""
    return name if names_folder(name) else models.get(name, name)


def names_folder(name: str) -> bool:
    """Whether a model's name is a folder: absolute, in the home folder, or relative with ./ or ../.

    Any other name is an alias or a hub name, so that a folder in the current directory cannot replace it.
    """
    return name.startswith(("/", "~", "./", "../")) or name in (".", "..")
