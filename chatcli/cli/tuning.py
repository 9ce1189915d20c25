"""Options for how a model is run and how tokens are chosen; refuses to know what they do.

What several words of one option mean together is told here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from chatcli.settings.config_file import bias_of
from chatcli.settings.values import (
    LEAST_KV_SIZE,
    MOST_DRAFT_TOKENS,
    MOST_XTC_THRESHOLD,
    NO_MODEL,
    NUM_DRAFT_TOKENS,
    ModelOptions,
    Sampling,
    adapter_folder,
    aliased,
)

OWN = "default: the model's own"
# The heading of these in the help.
RUN = "How the model is run"

MinTokensToKeep = Annotated[
    int | None,
    typer.Option("--min-tokens-to-keep", min=1, help="Tokens that min-p leaves in any case."),
]
XtcProbability = Annotated[
    float | None,
    typer.Option(
        "--xtc-probability",
        min=0.0,
        max=1.0,
        help="How often XTC leaves out all but the last of the likely tokens (default: 0, off).",
    ),
]
XtcThreshold = Annotated[
    float | None,
    typer.Option(
        "--xtc-threshold",
        min=0.0,
        max=MOST_XTC_THRESHOLD,
        help="The probability that XTC takes for likely (default: 0.1).",
    ),
]
PresencePenalty = Annotated[
    float | None,
    typer.Option("--presence-penalty", help=f"Taken from tokens that were there (0: off; {OWN})."),
]
FrequencyPenalty = Annotated[
    float | None,
    typer.Option("--frequency-penalty", help=f"Taken each time that a token was there (0: off; {OWN})."),
]
RepetitionContextSize = Annotated[
    int | None,
    typer.Option(
        "--repetition-context-size",
        min=0,
        help="Tokens that all three penalties look back over, the prompt's too (0: all; default: 20).",
    ),
]
LogitBias = Annotated[
    list[str] | None,
    typer.Option("--logit-bias", metavar="TOKEN_ID:BIAS", help="Add to a token's logit; repeatable."),
]
Stop = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        metavar="TEXT",
        help="End the reply before this text; repeatable. Thinking is not searched for it.",
    ),
]
MaxKvSize = Annotated[
    int | None,
    typer.Option(
        "--max-kv-size",
        min=LEAST_KV_SIZE,
        metavar="TOKENS",
        rich_help_panel=RUN,
        help="Remember only the first 4 and the newest tokens, so many in all (default: all). "
        "The session keeps it.",
    ),
]
KvBits = Annotated[
    int | None,
    typer.Option(
        "--kv-bits",
        rich_help_panel=RUN,
        help="Quantize the KV cache to 2, 3, 4, 5, 6 or 8 bits, from the first token on. The session "
        "keeps it.",
    ),
]
KvGroupSize = Annotated[
    int | None,
    typer.Option(
        "--kv-group-size",
        rich_help_panel=RUN,
        help=f"Numbers that are quantized together: 32, 64 or 128 (default: {ModelOptions.kv_group_size}).",
    ),
]
PrefillStepSize = Annotated[
    int | None,
    typer.Option(
        "--prefill-step-size",
        min=1,
        metavar="TOKENS",
        rich_help_panel=RUN,
        help="Tokens that are prefilled at a time (default: 64 on a CPU, 2048 on a GPU).",
    ),
]
AdapterPath = Annotated[
    Path | None,
    typer.Option(
        "--adapter-path",
        metavar="DIR",
        rich_help_panel=RUN,
        help="A folder with a LoRA or another adapter of the model. The session keeps it.",
    ),
]
Pipeline = Annotated[
    bool | None,
    typer.Option(
        "--pipeline/--no-pipeline",
        rich_help_panel=RUN,
        help="Under mlx.launch: give each rank layers of its own, not a part of every layer.",
    ),
]

NumDraftTokens = Annotated[
    int | None,
    typer.Option(
        "--num-draft-tokens",
        min=1,
        max=MOST_DRAFT_TOKENS,
        metavar="N",
        rich_help_panel=RUN,
        help=f"Tokens that the draft model proposes at a time (default: {NUM_DRAFT_TOKENS}).",
    ),
]


def sampling_of(held: Mapping[str, Any]) -> Sampling:
    """Settings as `config` has them, with several words in lists, as the core knows them."""
    stop, biases = held["stop"], held["logit_bias"]
    several = {
        "stop": tuple(stop) if stop is not None else None,
        "logit_bias": tuple(map(bias_of, biases)) if biases is not None else None,
    }
    return Sampling(**{**held, **several})


def model_options_of(held: Mapping[str, Any]) -> ModelOptions:
    """The same for how the model is run."""
    return ModelOptions(**{**held, "adapter_path": adapter_folder(held["adapter_path"])})


def draft_model_of(held: str | None, models: Mapping[str, str]) -> str | None:
    """The draft model that is meant: an alias is what it stands for."""
    return None if held in (None, NO_MODEL) else aliased(str(held), models)
