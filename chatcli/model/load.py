"""Loading a model, and its fingerprint; refuses to know conversations."""

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

from chatcli import pocket
from chatcli.kv import prompt_cache
from chatcli.model import adapter, hub, inspect, sharding
from chatcli.model.ranks import Ranks
from chatcli.model.vision import Vision
from chatcli.settings.values import DEFAULTS, SETTINGS, ModelOptions, Sampling
from chatcli.settings.values import POCKET as POCKET

SAMPLES = 64
SAMPLE_BYTES = 4096
WHOLE_BYTES = 64 << 20
# About what is read of the weights between two words about how far it is.
GROUP_BYTES = 128 << 20
UNLIMITED = 1 << 20
VERSION = str(mlx_lm.__version__)

# Told how much of the weights is in memory, as a fraction from 0 to 1.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run. `context` is the longest prompt plus reply, in tokens.

    `sampling` is how its makers choose tokens and how many at most, where they say so. `model_options` is
    how it was loaded.
    `processor` prepares images as mlx-lm does (None: it takes none), `vision` has those of the prompts.
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
    progress: Progress = lambda _: None,
    downloading: hub.DownloadCallback = lambda _: None,
    *,
    trust_remote_code: bool = False,
    model_options: ModelOptions = DEFAULTS,
    talks: bool = True,
    ranks: Ranks | None = None,
) -> LoadedModel:
    """Load `pocket`, a folder or a hub name through mlx-lm; one that `talks` has a chat template.
    With `ranks` it is this rank's shard.

    What `progress` or `downloading` raises ends it. `trust_remote_code` lets code that came with
    the model run. Raises `ModelNotFound`, `ModelBroken`, `NoChatTemplate` or `CacheRefused`.
    """
    adapted = adapter.fingerprint(Path(model_options.adapter_path)) if model_options.adapter_path else ""
    folder = resolve(name, downloading)
    with _loadable(name), _refused(name, folder, trust_remote_code):
        _check_config(folder, name)
        if ranks is None:
            model, tokenizer, config = _load_lazily(folder, trust_remote_code)
            way = ""
        else:
            model, tokenizer, config, way = sharding.load(
                folder, name, trust_remote_code, model_options.pipeline
            )
    # Its warnings would be written across the screen.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if talks and not tokenizer.has_chat_template:
        raise NoChatTemplate(
            f"The model '{name}' has no chat template, so it cannot hold a conversation: "
            "choose a chat ('instruct') model with -m."
        )
    if model_options.adapter_path:
        _adapt(model, name, model_options.adapter_path)
    with _loadable(name):
        digest = read_weights(folder, model, progress)
    if folder == pocket.FOLDER:
        # Half precision is slower than float32 on a CPU, and pocket is small enough to widen.
        model.set_dtype(mx.float32)
    if model_options.kv_bits is not None:
        prompt_cache.check_quantized(model, model_options)
    step = model_options.prefill_step_size or prefill_step()
    step = step if ranks is None else ranks.least(step)
    layout = prompt_cache.layout(prompt_cache.new(model, model_options))
    kind = f"{layout} {_dtype(model)} {mx.default_device().type} step {step}"
    mark = fingerprint(folder, kind + digest + adapted)
    if ranks is not None:
        # Of a pipeline, a rank may have only the files of its own layers.
        files = fingerprint(folder, "") if way == "tensor" else _config_digest(folder)
        sharding.same(ranks, name, files)
        mark = sharding.whole(f"{way} {ranks.place.size}", ranks.gather(mark))
    own = _generation_config(folder)
    with _loadable(name):
        # An image would have to be brought to every rank.
        processor = _processor(model, config, tokenizer) if ranks is None else None
    return LoadedModel(
        name,
        model,
        tokenizer,
        mark,
        _context(config),
        step,
        own_sampling(own),
        model_options,
        processor,
    )


def _processor(model: Any, config: dict[str, Any], tokenizer: Any) -> Any:
    """mlx-lm's image processor of a model; None where there is none, also in an older mlx-lm."""
    try:
        from mlx_lm.processors import load_processor
    except ImportError:
        return None
    found = load_processor(model, config)
    marks = tokenizer.encode(found.image_token, add_special_tokens=False) if found else []
    return found if len(marks) == 1 and hasattr(model, "embed_inputs") else None


def _adapt(model: Any, name: str, folder: str) -> None:
    """Put an adapter's weights on top of the model's. Raises `ModelBroken`."""
    try:
        mlx_lm.utils.load_adapters(model, folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        # The first line says what is wrong, the second where.
        lines = (str(error).strip() or type(error).__name__).splitlines()[:2]
        reason = " ".join(line.strip() for line in lines)
        raise ModelBroken(
            f"The adapter in '{folder}' cannot be used with the model '{name}': {reason}"
        ) from error
    model.eval()


def prefill_step() -> int:
    """Tokens a chunk: small enough on a CPU that a cancelled prefill stops soon."""
    return 64 if mx.default_device().type == mx.cpu else 2048


def resolve(name: str, downloading: hub.DownloadCallback = lambda _: None) -> Path:
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
    return hub.find(name, downloading)


@contextlib.contextmanager
def _loadable(name: str) -> Iterator[None]:
    """Translate what mlx-lm and MLX raise for a model that is broken or not known to them."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelBroken(f"The model '{name}' cannot be loaded: {reason}") from error


@contextlib.contextmanager
def _refused(name: str, folder: Path, trust: bool) -> Iterator[None]:
    """Say so where a model cannot be loaded because its own code may not run."""
    try:
        yield
    except (OSError, ValueError) as error:
        said = str(error)
        lacks_tokenizer = "tokenizer" in said and inspect.own_code(folder)
        if trust or not ("trust_remote_code" in said or lacks_tokenizer):
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


def _load_lazily(folder: Path, trust: bool) -> tuple[Any, Any, dict[str, Any]]:
    """The model with its weights still on disk, the tokenizer and the configuration."""
    # Said in so many words, or transformers would ask on the terminal. mlx-lm has a switch of its
    # own for a model's code, which older ones do not know.
    switch = {"trust_remote_code": True} if trust else {}
    model, tokenizer, config = mlx_lm.load(
        str(folder), {"trust_remote_code": trust}, lazy=True, return_config=True, **switch
    )
    return model, tokenizer, config


def read_weights(folder: Path, model: Any, progress: Progress, at_once: int = GROUP_BYTES) -> str:
    """Bring the weights into memory, in groups of about `at_once` bytes.

    Returns a digest of every byte that was loaded of files too large to be read twice; nothing if
    there are none.
    """
    weights = dict(mlx_lm.utils.tree_flatten(model.parameters()))
    large = any(path.stat().st_size > WHOLE_BYTES for path in folder.glob("*.safetensors"))
    whole, done = sum(weight.nbytes for weight in weights.values()), 0
    sums: dict[str, Future[str]] = {}
    with ThreadPoolExecutor() as hashers:
        for group in _groups(weights, at_once):
            mx.eval(list(group.values()))
            if large:
                # One group is hashed while the next is read.
                sums |= {name: hashers.submit(_sum, _raw(group[name])) for name in group}
            done += sum(weight.nbytes for weight in group.values())
            progress(done / max(whole, 1))
    return _digest(weights, sums) if large else ""


def _groups(weights: Mapping[str, Any], least: int) -> Iterator[dict[str, Any]]:
    """The weights in order, at least so many bytes at a time but for the last."""
    group: dict[str, Any] = {}
    size = 0
    for name, weight in weights.items():
        group[name] = weight
        size += weight.nbytes
        if size >= least:
            yield group
            group, size = {}, 0
    if group:
        yield group


def _raw(weight: Any) -> memoryview:
    """A weight's bytes, not copied; none of an empty one."""
    return memoryview(weight.reshape(-1).view(mx.uint8)) if weight.size else memoryview(b"")


def _sum(data: memoryview) -> str:
    """A weight's checksum; an empty one has none."""
    return xxhash.xxh3_128_hexdigest(data) if data else ""


def _digest(weights: Mapping[str, Any], sums: Mapping[str, Future[str]]) -> str:
    """One digest of the names, shapes, types and sums of all weights."""
    names = [f"{name} {weights[name].shape} {weights[name].dtype}" for name in sorted(weights)]
    found = [told for name in sorted(weights) if (told := sums[name].result())]
    return f" {hashlib.sha256(' '.join([*names, *found]).encode()).hexdigest()}"


def weights_size(model: Any) -> int:
    """The bytes of a model's weights in memory."""
    return sum(weight.nbytes for _, weight in mlx_lm.utils.tree_flatten(model.parameters()))


def _dtype(model: Any) -> str:
    weights = [w for _, w in mlx_lm.utils.tree_flatten(model.parameters())]
    return " ".join(sorted({str(weight.dtype) for weight in weights}))


def _context(config: dict[str, Any]) -> int:
    inner = config.get("text_config") or {}
    return int(config.get("max_position_embeddings") or inner.get("max_position_embeddings") or UNLIMITED)


def _generation_config(folder: Path) -> dict[str, Any]:
    """The model's own defaults; what cannot be read there is no one's loss."""
    try:
        return dict(json.loads((folder / "generation_config.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def own_sampling(config: Mapping[str, Any]) -> Sampling:
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


def fingerprint(folder: Path, settings: str) -> str:
    """Who the numbers in a cache come from: config, weights, cache settings. 32 hex digits.

    A weight file of up to 64 MiB counts whole, a larger one with its name, size, header and 64
    blocks from first to last; `read_weights` digests what was loaded from those.
    The chat template does not count: tokens speak for it.
    """
    digest = hashlib.sha256(settings.encode())
    digest.update(_config_without_noise(folder / "config.json"))
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name} {path.stat().st_size} ".encode())
        for block in _sampled(path):
            digest.update(block)
    return digest.hexdigest()[:32]


def _config_digest(folder: Path) -> str:
    return hashlib.sha256(_config_without_noise(folder / "config.json")).hexdigest()


def _config_without_noise(path: Path) -> bytes:
    config = json.loads(path.read_bytes())
    for key in ("_name_or_path", "transformers_version"):
        config.pop(key, None)
    return json.dumps(config, sort_keys=True).encode()


def _sampled(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(8)
        yield header
        yield file.read(min(int.from_bytes(header, "little"), size))
        if size <= WHOLE_BYTES:
            yield file.read()
            return
        for number in range(SAMPLES):
            file.seek(number * (size - SAMPLE_BYTES) // (SAMPLES - 1))
            yield file.read(SAMPLE_BYTES)
