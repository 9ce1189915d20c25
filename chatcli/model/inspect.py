"""Reads from a model's files what it is and whether it can run, without loading it."""

from __future__ import annotations

import ast
import contextlib
import errno
import functools
import importlib.util
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Parts of a chat template that supports thinking.
THINKING_MARKS = (
    "enable_thinking",
    "<think>",
    "</think>",
    "reasoning_content",
    "<|channel|>",
    "thinking",
)
# A model has at least one of these files, unless its own code creates the tokenizer.
TOKENIZER_FILES = (
    *("tokenizer.json", "tekken.json", "vocab.json", "vocab.txt"),
    *("*.model", "*.tiktoken", "*.spm"),
)
# The most that is read of a text file; the largest tokenizers have a tenth of this.
MAX_JSON_BYTES = 256 << 20
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True)
class About:
    """A model as its files describe it. `size` is the bytes of its weights.

    `architecture` is its model_type, and `supported` whether mlx-lm has it. `missing` says in a word or two
    why the model cannot run; it is empty if it can. `images`: whether mlx-lm can show it images.
    """

    architecture: str = ""
    supported: bool = False
    size: int = 0
    quantization: str = ""
    thinking: bool = False
    own_code: bool = False
    missing: str = ""
    images: bool = False


def about(folder: Path) -> About:
    """Describe the model in `folder`. Unreadable files are ignored."""
    config = read_json(folder / "config.json")
    weights = [path.stat().st_size for path in folder.glob("model*.safetensors") if path.exists()]
    template = chat_template(folder)
    kind = str(config.get("model_type") or "")
    supported = kind in architectures()
    if not kind:
        missing = "no model_type" if (folder / "config.json").exists() else "no config.json"
    elif not (supported or "model_file" in config):
        missing = f"mlx-lm has no {kind}"
    else:
        no_tokenizer = "no tokenizer" if lacks_tokenizer(folder) else ""
        missing = lacking_weights(folder) or no_tokenizer or ("" if template else "no chat template")
    return About(
        kind,
        supported,
        sum(weights),
        quantization(config),
        any(mark in template for mark in THINKING_MARKS),
        own_code(folder),
        missing,
        bool(config.get("vision_config")) and config.get("processor_type", kind) in processors(),
    )


def own_code(folder: Path) -> bool:
    """Whether the model includes Python code that it may need."""
    config = read_json(folder / "config.json")
    return "model_file" in config or "auto_map" in read_json(folder / "tokenizer_config.json")


def lacking_weights(folder: Path) -> str:
    """Which weights are missing, in a few words; empty if none."""
    files = {path.name for path in folder.glob("model*.safetensors") if path.exists()}
    named = read_json(folder / "model.safetensors.index.json").get("weight_map")
    wanted = set(named.values()) if isinstance(named, dict) else set()
    if lacking := len(wanted - files):
        return f"{lacking} of {len(wanted)} weight files missing"
    return "" if files else "no weights (model*.safetensors)"


def tokenizer_problem(folder: Path) -> str:
    """What is wrong with a model's tokenizer, in a few words; empty if no problem is found."""
    path = folder / "tokenizer_config.json"
    try:
        if path.exists() and not isinstance(json.loads(read_regular(path)), dict):
            return f"its {path.name} is not an object"
    except (OSError, ValueError, RecursionError) as error:
        return f"its {path.name} cannot be read ({error})"
    if lacks_tokenizer(folder):
        return "there is no tokenizer.json or tokenizer.model in its folder"
    if not (folder / "tokenizer.json").exists():
        return ""
    from tokenizers import Tokenizer

    try:
        Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:
        # The library raises plain `Exception`.
        return f"its tokenizer.json cannot be read ({str(error).splitlines()[0]})"
    return ""


def lacks_tokenizer(folder: Path) -> bool:
    return not own_code(folder) and not any(any(folder.glob(name)) for name in TOKENIZER_FILES)


def quantization(config: Mapping[str, Any]) -> str:
    """4-bit, mxfp4, bf16 or similar; empty if the configuration does not say."""
    inner = config.get("text_config")
    inner = inner if isinstance(inner, dict) else {}
    settings = config.get("quantization") or config.get("quantization_config")
    settings = settings or inner.get("quantization_config")
    if isinstance(settings, dict):
        mode = settings.get("mode") or settings.get("quant_method") or ""
        bits = settings.get("bits")
        return str(mode) if mode not in ("", "affine") or not bits else f"{bits}-bit"
    dtype = str(config.get("dtype") or config.get("torch_dtype") or inner.get("dtype") or "")
    return DTYPES.get(dtype.removeprefix("torch."), dtype)


def chat_template(folder: Path) -> str:
    """The text of the model's chat templates, from any of their possible files; empty if it has none."""
    try:
        return read_regular(folder / "chat_template.jinja").decode("utf-8", "replace")
    except OSError:
        pass
    for name in ("chat_template.json", "tokenizer_config.json"):
        if template := read_json(folder / name).get("chat_template"):
            return template if isinstance(template, str) else json.dumps(template)
    return ""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one for anything else."""
    try:
        value = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_regular(path: Path, max_bytes: int = MAX_JSON_BYTES) -> bytes:
    """The first `max_bytes` of a file.

    Raises `OSError`, also for a pipe or a device, which could block.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(max_bytes)


@functools.cache
def architectures() -> frozenset[str]:
    """Every model_type that mlx-lm has, from its file names: importing it takes seconds."""
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None or not spec.submodule_search_locations:
        return frozenset()
    package = Path(next(iter(spec.submodule_search_locations)))
    own = {path.stem for path in (package / "models").glob("*.py")}
    return frozenset(own | {name for name, other in _remapping(package).items() if other in own})


@functools.cache
def processors() -> frozenset[str]:
    """Every model_type whose images mlx-lm can prepare; empty with an older mlx-lm."""
    spec = importlib.util.find_spec("mlx_lm")
    locations = (spec.submodule_search_locations if spec else None) or ()
    path = Path(next(iter(locations), "")) / "processors" / "__init__.py"
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and "PROCESSORS" in map(ast.unparse, node.targets):
                keys = node.value.keys if isinstance(node.value, ast.Dict) else []
                return frozenset(ast.literal_eval(key) for key in keys if key is not None)
    return frozenset()


def _remapping(package: Path) -> dict[str, str]:
    """mlx-lm's table of model types that run as another type."""
    try:
        tree = ast.parse((package / "utils.py").read_text("utf-8"))
    except (OSError, SyntaxError):
        return {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and "MODEL_REMAPPING" in map(ast.unparse, node.targets):
            return dict(ast.literal_eval(node.value))
    return {}
