"""Loads a model: its files, its weights, an adapter, its fingerprint and its makers' own sampling."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli.errors import BackendMissing, ModelBroken, ModelNotFound, NoChatTemplate

try:
    import mlx.core as mx
except ImportError as error:
    raise BackendMissing(
        f"MLX is not installed for this machine: run {sys.executable} -m pip install 'mlx[cpu]' "
        "(or 'mlx[cuda13]', 'mlx[cuda12]' for an NVIDIA GPU)."
    ) from error

import mlx_lm
import xxhash
from mlx_lm.utils import load_adapters, tree_flatten

from chatcli import pocket
from chatcli.kv import prompt_cache
from chatcli.model import adapter, hub, inspect, sharding
from chatcli.model.ranks import SINGLE_PROCESS, Ranks
from chatcli.model.vision import Vision
from chatcli.settings.values import DEFAULTS, POCKET, SETTINGS, ModelOptions, Sampling

MLX_LM_VERSION = str(mlx_lm.__version__)
# Tokens of context where the configuration does not say.
UNLIMITED = 1 << 20
# Tokens of a prefill chunk: small enough on a CPU that a cancelled prefill stops soon.
CPU_PREFILL_STEP, GPU_PREFILL_STEP = 64, 2048
# About how much of the weights is read between two reports of the progress.
GROUP_BYTES = 128 << 20
# Weight files up to this size count whole in a fingerprint. Larger ones count with sampled blocks.
WHOLE_FILE_BYTES = 64 << 20
BLOCKS, BLOCK_BYTES = 64, 4096

# Called with the part of the weights that is in memory, from 0 to 1.
ProgressCallback = Callable[[float], None]


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run. `context` is the longest prompt plus reply, in tokens.

    `sampling` is how its makers choose tokens and how many at most, where they say so.
    `model_options` is how it was loaded. `processor` is mlx-lm's image processor (None: it takes no
    images), `vision` has the images of the prompts.
    """

    name: str
    model: Any
    tokenizer: Any
    fingerprint: str
    context: int
    prefill_step: int
    sampling: Sampling = field(default_factory=Sampling)
    model_options: ModelOptions = DEFAULTS
    processor: Any = None
    vision: Vision | None = None


def load(
    name: str,
    on_progress: ProgressCallback = lambda _: None,
    on_download: hub.DownloadCallback = lambda _: None,
    *,
    trust_remote_code: bool = False,
    model_options: ModelOptions = DEFAULTS,
    needs_chat_template: bool = True,
    ranks: Ranks = SINGLE_PROCESS,
) -> LoadedModel:
    """Load `pocket`, a folder or a hub name through mlx-lm; of several ranks, this one's shard.

    `trust_remote_code` lets code that came with the model run. What `on_progress` or `on_download`
    raises ends it. Raises `ModelNotFound`, `ModelBroken`, `NoChatTemplate` or `CacheRefused`.
    """
    adapter_path = model_options.adapter_path
    adapter_digest = adapter.fingerprint(Path(adapter_path)) if adapter_path else ""
    folder = resolve(name, on_download)
    with _loadable(name), _own_code_explained(name, folder, trust_remote_code):
        _check_config(folder, name)
        model, tokenizer, config, sharing = sharding.load(
            ranks, folder, name, trust_remote_code, model_options.pipeline
        )
    # Its warnings would be written across the screen.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if needs_chat_template and not tokenizer.has_chat_template:
        raise NoChatTemplate(
            f"The model '{name}' has no chat template, so it cannot hold a conversation: "
            "choose a chat ('instruct') model with -m."
        )
    if adapter_path:
        try:
            load_adapters(model, adapter_path)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
            # The first line says what is wrong, the second where.
            lines = (str(error).strip() or type(error).__name__).splitlines()[:2]
            reason = " ".join(line.strip() for line in lines)
            raise ModelBroken(
                f"The adapter in '{adapter_path}' cannot be used with the model '{name}': {reason}"
            ) from error
        model.eval()
    with _loadable(name):
        weights_digest = read_weights(folder, model, on_progress)
    if folder == pocket.FOLDER:
        # Half precision is slower than float32 on a CPU, and pocket is small enough to widen.
        model.set_dtype(mx.float32)
    if model_options.kv_bits is not None:
        prompt_cache.check_quantized(model, model_options)
    device = mx.default_device().type
    default_step = CPU_PREFILL_STEP if device == mx.cpu else GPU_PREFILL_STEP
    step = ranks.all_min(model_options.prefill_step_size or default_step)
    layout = prompt_cache.layout(prompt_cache.new(model, model_options))
    dtypes = " ".join(sorted({str(weight.dtype) for _, weight in tree_flatten(model.parameters())}))
    settings = f"{layout} {dtypes} {device} step {step}{weights_digest}{adapter_digest}"
    with _loadable(name):
        # An image would have to be brought to every rank.
        processor = _image_processor(model, config, tokenizer) if ranks.size == 1 else None
    text_config = config.get("text_config") or {}
    context = config.get("max_position_embeddings") or text_config.get("max_position_embeddings")
    return LoadedModel(
        name,
        model,
        tokenizer,
        sharding.fingerprint(
            ranks,
            name,
            sharing,
            fingerprint(folder, settings),
            # Of a pipeline, a rank may have only the weight files of its own layers.
            lambda: fingerprint(folder, "") if sharing == "tensor" else _config_digest(folder),
        ),
        int(context or UNLIMITED),
        step,
        default_sampling(_generation_config(folder)),
        model_options,
        processor,
    )


def resolve(name: str, on_download: hub.DownloadCallback = lambda _: None) -> Path:
    """The folder of a model, downloaded if it is a hub name. Raises `ModelNotFound`."""
    if name == POCKET:
        return pocket.FOLDER
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not hub.HUB_NAME.fullmatch(name):
        raise ModelNotFound(
            f"There is no model folder '{name}': give a folder, a hub name such as "
            "mlx-community/Qwen3.5-4B-MLX-4bit, or 'pocket'."
        )
    return hub.find(name, on_download)


@contextlib.contextmanager
def _loadable(name: str) -> Iterator[None]:
    """Translate what mlx-lm and MLX raise for a model that is broken or not known to them."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelBroken(f"The model '{name}' cannot be loaded: {reason}") from error


@contextlib.contextmanager
def _own_code_explained(name: str, folder: Path, trust_remote_code: bool) -> Iterator[None]:
    """Translate what mlx-lm and transformers raise for a model whose own code may not run."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = str(error)
        lacks_tokenizer = "tokenizer" in reason and inspect.own_code(folder)
        if trust_remote_code or not ("trust_remote_code" in reason or lacks_tokenizer):
            raise
        raise ModelBroken(
            f"The model '{name}' needs code that comes with it, which can do on this machine "
            "whatever you can: if you trust whoever made it, give --trust-remote-code."
        ) from error


def _check_config(folder: Path, name: str) -> None:
    """Raises `ModelNotFound` or `ModelBroken` where there is no configuration to begin with."""
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"The folder '{name}' holds no model: it has no config.json.")
    try:
        json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise ModelBroken(
            f"The model '{name}' cannot be loaded: its config.json is not valid JSON ({error})."
        ) from error


def _image_processor(model: Any, config: dict[str, Any], tokenizer: Any) -> Any:
    """mlx-lm's image processor for a model; None where there is none, also in an older mlx-lm."""
    try:
        from mlx_lm.processors import load_processor
    except ImportError:
        return None
    processor = load_processor(model, config)
    tokens = tokenizer.encode(processor.image_token, add_special_tokens=False) if processor else []
    return processor if len(tokens) == 1 and hasattr(model, "embed_inputs") else None


# Weights


def read_weights(
    folder: Path, model: Any, on_progress: ProgressCallback, group_bytes: int = GROUP_BYTES
) -> str:
    """Bring the weights into memory, at least `group_bytes` at a time but for the last.

    Returns a digest of every byte that was loaded if there are files too large to be read twice,
    which `fingerprint` only samples; else an empty string.
    """
    weights = dict(tree_flatten(model.parameters()))
    has_large_files = any(path.stat().st_size > WHOLE_FILE_BYTES for path in folder.glob("*.safetensors"))
    total_bytes, done_bytes = weight_bytes(model), 0
    checksums: dict[str, Future[str]] = {}
    with ThreadPoolExecutor() as hashers:
        for group in _groups(weights, group_bytes):
            mx.eval(list(group.values()))
            if has_large_files:
                # One group is hashed while the next is read. An empty weight has no bytes to hash.
                checksums |= {
                    name: hashers.submit(
                        xxhash.xxh3_128_hexdigest, memoryview(weight.reshape(-1).view(mx.uint8))
                    )
                    for name, weight in group.items()
                    if weight.size
                }
            done_bytes += sum(weight.nbytes for weight in group.values())
            on_progress(done_bytes / max(total_bytes, 1))
    if not has_large_files:
        return ""
    names = sorted(weights)
    lines = [f"{name} {weights[name].shape} {weights[name].dtype}" for name in names]
    lines += [checksums[name].result() for name in names if name in checksums]
    return f" {hashlib.sha256(' '.join(lines).encode()).hexdigest()}"


def _groups(weights: Mapping[str, Any], group_bytes: int) -> Iterator[dict[str, Any]]:
    group: dict[str, Any] = {}
    size = 0
    for name, weight in weights.items():
        group[name] = weight
        size += weight.nbytes
        if size >= group_bytes:
            yield group
            group, size = {}, 0
    if group:
        yield group


def weight_bytes(model: Any) -> int:
    """The bytes of a model's weights in memory."""
    return sum(weight.nbytes for _, weight in tree_flatten(model.parameters()))


# Fingerprint


def fingerprint(folder: Path, settings: str) -> str:
    """Identifies what the numbers in a cache depend on: config, weights, cache `settings`. 32 hex digits.

    A weight file of up to 64 MiB counts whole, a larger one with its name, size, header and 64
    blocks from first to last; `read_weights` digests what was loaded from those.
    The chat template does not count: tokens speak for it.
    """
    digest = hashlib.sha256(settings.encode())
    digest.update(_config_without_noise(folder))
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name} {path.stat().st_size} ".encode())
        for block in _sampled_blocks(path):
            digest.update(block)
    return digest.hexdigest()[:32]


def _config_digest(folder: Path) -> str:
    return hashlib.sha256(_config_without_noise(folder)).hexdigest()


def _config_without_noise(folder: Path) -> bytes:
    """The configuration without what says nothing of the model."""
    config = json.loads((folder / "config.json").read_bytes())
    for key in ("_name_or_path", "transformers_version"):
        config.pop(key, None)
    return json.dumps(config, sort_keys=True).encode()


def _sampled_blocks(path: Path) -> Iterator[bytes]:
    """A safetensors file's header, and its content: all of a small file, blocks of a large one."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header_length = file.read(8)
        yield header_length
        yield file.read(min(int.from_bytes(header_length, "little"), size))
        if size <= WHOLE_FILE_BYTES:
            yield file.read()
            return
        for number in range(BLOCKS):
            file.seek(number * (size - BLOCK_BYTES) // (BLOCKS - 1))
            yield file.read(BLOCK_BYTES)


# The makers' own sampling


def _generation_config(folder: Path) -> dict[str, Any]:
    """The model's generation_config.json; empty if it cannot be read, because all has a default."""
    try:
        return dict(json.loads((folder / "generation_config.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def default_sampling(config: Mapping[str, Any]) -> Sampling:
    """What generation_config.json says about sampling; what no setting allows is left out."""
    sampling: dict[str, Any] = {}
    for key, setting in SETTINGS.items():
        value = config.get(setting.generation_config) if setting.generation_config else None
        if key == "stop" and isinstance(value, list):
            value = [text for text in value if setting.holds(text)]
        if setting.holds(value):
            sampling[key] = setting.load(setting.parse(value))
    if config.get("do_sample") is False:
        sampling["temp"] = 0.0
    elif config.get("do_sample"):
        sampling.setdefault("temp", 1.0)  # transformers' default
    return Sampling(**sampling)
