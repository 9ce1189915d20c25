"""What the files of a model tell of it without loading it; refuses to know MLX and where models are from."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Words of a chat template that speaks of thinking.
THINKING = (
    "enable_thinking",
    "<think>",
    "</think>",
    "reasoning_content",
    "<|channel|>",
    "thinking",
)
TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True)
class About:
    """A model as its files show it. `size` is that of its weights in bytes.

    `architecture` is its model_type, and `supported` whether mlx-lm has that. `missing` says in a
    word or two why it cannot run as it is; nothing if nothing is missing. `images` is whether
    mlx-lm can show it any.
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
    """What is known of the model in `folder`. Files that cannot be read tell nothing."""
    config = _json(folder / "config.json")
    weights = [path.stat().st_size for path in folder.glob("model*.safetensors") if path.exists()]
    template = chat_template(folder)
    kind = str(config.get("model_type") or "")
    supported = kind in architectures()
    return About(
        kind,
        supported,
        sum(weights),
        quantization(config),
        any(word in template for word in THINKING),
        own_code(folder),
        _missing(folder, kind, supported or "model_file" in config, bool(template)),
        bool(config.get("vision_config")) and config.get("processor_type", kind) in processors(),
    )


def own_code(folder: Path) -> bool:
    """Whether Python code came with the model, which it may need."""
    config = _json(folder / "config.json")
    return "model_file" in config or "auto_map" in _json(folder / "tokenizer_config.json")


def _missing(folder: Path, kind: str, supported: bool, template: bool) -> str:
    if not kind:
        return "no config.json" if not (folder / "config.json").exists() else "no model_type"
    if not supported:
        return f"mlx-lm has no {kind}"
    if lacking := lacking_weights(folder):
        return lacking
    return "" if template else "no chat template"


def lacking_weights(folder: Path) -> str:
    """What is not there of the weights, in a few words; nothing if they are whole."""
    files = {path.name for path in folder.glob("model*.safetensors") if path.exists()}
    named = _json(folder / "model.safetensors.index.json").get("weight_map")
    wanted = set(named.values()) if isinstance(named, dict) else set()
    if lacking := len(wanted - files):
        return f"{lacking} of {len(wanted)} weight files missing"
    return "" if files else "no weights (model*.safetensors)"


def quantization(config: Mapping[str, Any]) -> str:
    """4-bit, mxfp4, bf16 and the like; nothing where the configuration does not say."""
    inner = config.get("text_config")
    inner = inner if isinstance(inner, dict) else {}
    found = config.get("quantization") or config.get("quantization_config")
    found = found or inner.get("quantization_config")
    if isinstance(found, dict):
        mode = found.get("mode") or found.get("quant_method") or ""
        bits = found.get("bits")
        return str(mode) if mode not in ("", "affine") or not bits else f"{bits}-bit"
    kind = str(config.get("dtype") or config.get("torch_dtype") or inner.get("dtype") or "")
    return TYPES.get(kind.removeprefix("torch."), kind)


def chat_template(folder: Path) -> str:
    """The text of the model's chat templates, wherever it keeps them; empty if it has none."""
    try:
        return (folder / "chat_template.jinja").read_text("utf-8", "replace")
    except OSError:
        pass
    for name in ("chat_template.json", "tokenizer_config.json"):
        if found := _json(folder / name).get("chat_template"):
            return found if isinstance(found, str) else json.dumps(found)
    return ""


def _json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one for anything else."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@functools.cache
def architectures() -> frozenset[str]:
    """Every model_type that mlx-lm has, by its files: importing it takes seconds."""
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None or not spec.submodule_search_locations:
        return frozenset()
    package = Path(next(iter(spec.submodule_search_locations)))
    own = {path.stem for path in (package / "models").glob("*.py")}
    return frozenset(own | {kind for kind, other in _renamed(package).items() if other in own})


@functools.cache
def processors() -> frozenset[str]:
    """Every model_type whose images mlx-lm can prepare; none in an older mlx-lm."""
    spec = importlib.util.find_spec("mlx_lm")
    places = (spec.submodule_search_locations if spec else None) or ()
    return frozenset(_table(Path(next(iter(places), "")) / "processors" / "__init__.py"))


def _table(path: Path) -> list[str]:
    """The keys of mlx-lm's table of processors."""
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and "PROCESSORS" in map(ast.unparse, node.targets):
                keys = node.value.keys if isinstance(node.value, ast.Dict) else []
                return [ast.literal_eval(key) for key in keys if key is not None]
    return []


def _renamed(package: Path) -> dict[str, str]:
    """mlx-lm's table of architectures that others stand for."""
    try:
        tree = ast.parse((package / "utils.py").read_text("utf-8"))
    except (OSError, SyntaxError):
        return {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and "MODEL_REMAPPING" in map(ast.unparse, node.targets):
            return dict(ast.literal_eval(node.value))
    return {}
