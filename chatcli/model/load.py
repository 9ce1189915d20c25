"""Loads a model: files, weights, adapter, fingerprint, and the sampling of its generation_config.json."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli.command_line import pip
from chatcli.errors import (
    BackendMissing,
    ChatcliError,
    CodeNotTrusted,
    ModelBroken,
    ModelNotFound,
    NoChatTemplate,
    RankLost,
)

try:
    import mlx.core as mx
except ImportError as error:
    raise BackendMissing(
        "MLX is not installed for this machine. To install it ('mlx[cuda13]' or 'mlx[cuda12]' on an NVIDIA "
        f"GPU): {pip('install')} 'mlx[cpu]'"
    ) from error

from chatcli.kv import prompt_cache  # isort: skip (before mlx-lm: see kv.open_files)

import mlx_lm
from mlx_lm.utils import load_adapters, tree_flatten

from chatcli.kv.expected import ExpectedCache
from chatcli.model import (
    column_parallel,
    device,
    fingerprint,
    hub,
    inspect,
    locate,
    own_code,
    sharding,
)
from chatcli.model.fingerprint import ProgressCallback, program_name
from chatcli.model.ranks import SINGLE_PROCESS, Ranks
from chatcli.model.vision import Vision
from chatcli.settings.values import DEFAULTS, SETTINGS, ModelOptions, Sampling
from chatcli.text import file_size, shorten

MLX_LM_VERSION = str(mlx_lm.__version__)
# The context in tokens if the configuration does not say.
UNLIMITED = 1 << 20
# No model has more of any of the parts below.
MAX_LAYERS, MAX_EXPERTS = 4096, 1 << 16
# Architectures' names for the number of layers, or of other parts that are created one by one.
COUNTS_LAYERS = re.compile(r"layers|^(n|num|number)_(\w+_)?(layer|blocks?)$|depth$")
COUNTS_EXPERTS = re.compile(r"experts$|^o_groups$")
# Keys of a list or text with an item for each layer.
LISTS_LAYERS = re.compile(r"layer|block|pattern$")
# The most bytes of a model's file other than weights, because these are read whole.
READ_WHOLE = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".py")
# Every tokenizer encodes these texts as at least one token.
PROBES = ("a", "user", "1", "。")
# What the tokenizers library raises for its own bugs.
PANIC = "PanicException"
# Tokens of a prefill chunk: small enough on a CPU that a cancelled prefill stops soon.
CPU_PREFILL_STEP, GPU_PREFILL_STEP = 64, 2048


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run. `context` is the longest prompt plus reply, in tokens.

    `sampling` is the model's own, from generation_config.json. `model_options` is how it was loaded.
    `processor` is mlx-lm's image processor (None: it takes no images), `vision` has the images of the
    prompts. `expected` describes the contents of its caches. `plans_attention` is whether MLX plans its
    attention for each length. `program` names what computes, as `records.program`.
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
    expected: ExpectedCache | None = None
    plans_attention: bool = field(default_factory=device.plans_attention)
    program: str = field(default_factory=program_name)


def load(
    name: str,
    on_progress: ProgressCallback = lambda _: None,
    on_download: hub.DownloadCallback = lambda _: None,
    *,
    trust_remote_code: bool = False,
    model_options: ModelOptions = DEFAULTS,
    needs_chat_template: bool = True,
    ranks: Ranks = SINGLE_PROCESS,
    from_session: bool = False,
) -> LoadedModel:
    """Load `pocket`, a folder or a hub name through mlx-lm; with several ranks, this rank's shard.

    `trust_remote_code` lets code that came with the model run; without it, only approved code runs. A name
    that comes `from_session` is not downloaded. An exception in `on_progress` or `on_download` ends the
    loading. Raises `ModelNotFound`, `ModelBroken`, `NoChatTemplate` or `CacheRefused`.
    """
    with _loadable(name):
        folder = locate.resolve(name, on_download, from_session=from_session)
        adapter_path = model_options.adapter_path
        adapter_config = _adapter_digest(Path(adapter_path)) if adapter_path else ""
        _check_files(folder, name)
        _check_config(folder, name)
        sources = own_code.read(folder)
        code = own_code.digest_of(sources)
        trust_remote_code = trust_remote_code or (
            own_code.is_approved(name, code) and own_code.is_all_here(folder)
        )
        if trust_remote_code and (problem := own_code.problem(folder, sources)):
            raise ModelBroken(
                f"The code of the model '{name}' cannot be run: {problem}. "
                "Copy the files that it needs into it."
            )
        with (
            _explained(name, folder, code, trust_remote_code),
            own_code.loaded_from(folder, sources if trust_remote_code else {}),
        ):
            model, tokenizer, config, sharing = sharding.load(
                ranks, folder, name, trust_remote_code, model_options.pipeline
            )
        # Its warnings would overwrite the screen.
        logging.getLogger("transformers").setLevel(logging.ERROR)
        if not any(tokenizer.encode(text, add_special_tokens=False) for text in PROBES):
            raise ModelBroken(_no_tokenizer(name, inspect.tokenizer_problem(folder) or "it makes no tokens"))
        if needs_chat_template and not tokenizer.has_chat_template:
            raise NoChatTemplate(
                f"The model '{name}' has no chat template, so it cannot hold a conversation: "
                "choose a chat ('instruct') model with -m."
            )
        if adapter_path:
            try:
                load_adapters(model, adapter_path)
            except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
                # The first line says what is wrong, the others where.
                lines = (str(error).strip() or type(error).__name__).splitlines()[:2]
                reason = " ".join(line.strip() for line in lines)
                raise ModelBroken(
                    f"The adapter in '{adapter_path}' cannot be used with the model '{name}': {reason}"
                ) from error
            model.eval()
        # After the adapter, which is also read lazily: the hash covers what computes.
        weights = fingerprint.read_weights(model, on_progress)
        cores = column_parallel.cores()
        column_parallel.split(model, cores)
        # Other files were read by path: check that they did not change between hashing and loading.
        sources_now = own_code.read(folder)
        is_changed = code != own_code.digest_of(sources_now)
        if trust_remote_code:
            is_changed |= bool(own_code.problem(folder, sources_now))
        if is_changed or (adapter_path and adapter_config != _adapter_digest(Path(adapter_path))):
            raise ModelBroken(f"The model '{name}' changed while it was loaded: start again.")
        if model_options.kv_bits is not None:
            prompt_cache.check_quantized(model, model_options)
        default_step = CPU_PREFILL_STEP if mx.default_device().type == mx.cpu else GPU_PREFILL_STEP
        step = ranks.all_min(model_options.prefill_step_size or default_step)
        layout = prompt_cache.layout(prompt_cache.new(model, model_options))
        dtypes = " ".join(sorted({str(weight.dtype) for _, weight in tree_flatten(model.parameters())}))
        # Not with several ranks: an image would have to be sent to each.
        processor = _image_processor(model, config, tokenizer) if ranks.size == 1 else None
        own_fingerprint = fingerprint.of_computation(
            # A matrix library may round a column differently in a product of fewer columns.
            *(config, layout, dtypes, f"step {step}", f"cores {cores}", weights),
            # Code that no configuration names runs only if all code may.
            *(code if trust_remote_code or inspect.own_code(folder) else "", adapter_config),
        )
        return LoadedModel(
            name,
            model,
            tokenizer,
            sharding.fingerprint(
                ranks,
                name,
                sharing,
                own_fingerprint,
                # In a pipeline, a rank may have only the weight files of its own layers.
                lambda: fingerprint.of_files(folder, config, weights=sharing == "tensor"),
            ),
            _context(config),
            step,
            default_sampling(inspect.read_json(folder / "generation_config.json")),
            model_options,
            processor,
            expected=ExpectedCache(model, model_options),
        )


def _adapter_digest(folder: Path) -> str:
    """A digest of how an adapter changes its model; its weights are hashed as they are loaded.

    Raises `ModelNotFound` if mlx-lm could not read one of its two files.
    """
    for name, most in (("adapters.safetensors", 0), ("adapter_config.json", inspect.MAX_JSON_BYTES)):
        try:
            data = inspect.read_regular(folder / name, most)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelNotFound(
                f"The adapter in '{folder}' cannot be read ({name}: {reason}): --adapter-path takes "
                "a folder with adapter_config.json and adapters.safetensors. To continue a session "
                "without its adapter, name its model again with -m."
            ) from error
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def _loadable(name: str) -> Iterator[None]:
    """Translate the errors of mlx-lm and MLX for a broken or unknown model."""
    try:
        yield
    except (ChatcliError, RankLost):
        raise
    except BaseException as error:
        # A model's files can make mlx-lm, transformers and tokenizers raise anything; tokenizers has its own
        # kind of `BaseException`. Only interrupts pass.
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelBroken(f"The model '{name}' cannot be loaded: {reason}") from error


def _no_tokenizer(name: str, problem: str) -> str:
    return f"The model '{name}' has no working tokenizer: {problem}. Copy the model's files again."


@contextlib.contextmanager
def _explained(name: str, folder: Path, code: str, trust_remote_code: bool) -> Iterator[None]:
    """Translate mlx-lm's errors for a model whose own code may not run, or whose tokenizer is broken."""
    try:
        yield
    except (ChatcliError, RankLost):
        raise
    except BaseException as error:
        # As in `_loadable`.
        reason = str(error)
        names_code = "trust_remote_code" in reason or ("tokenizer" in reason and inspect.own_code(folder))
        if isinstance(error, OSError | ValueError) and names_code and not trust_remote_code:
            raise CodeNotTrusted(
                f"The model '{name}' needs code that comes with it, which can do anything "
                "that you can on this machine: if you trust its authors, use --trust-remote-code.",
                name,
                code if own_code.is_all_here(folder) else "",
            ) from error
        # Checked only now, because a large vocabulary takes a while to read.
        if problem := inspect.tokenizer_problem(folder):
            raise ModelBroken(_no_tokenizer(name, problem)) from error
        raise


def _check_files(folder: Path, name: str) -> None:
    """Raises `ModelBroken` if a file of the model cannot be read.

    Opening a pipe or a device could block forever, and all files except weights are read whole.
    """
    for path in sorted([*folder.glob("*"), *folder.glob("additional_chat_templates/*")]):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ModelBroken(f"The model '{name}' cannot be loaded: its {path.name} is not a file.")
        if path.suffix in READ_WHOLE and path.exists() and path.stat().st_size > inspect.MAX_JSON_BYTES:
            size = file_size(inspect.MAX_JSON_BYTES)
            raise ModelBroken(f"The model '{name}' cannot be loaded: its {path.name} has more than {size}.")


def _check_config(folder: Path, name: str) -> None:
    """Raises `ModelBroken` if the configuration is missing, invalid or absurd."""
    try:
        config = json.loads(inspect.read_regular(folder / "config.json"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelBroken(
            f"The model '{name}' cannot be loaded: its config.json is not valid JSON ({error})."
        ) from error
    if not isinstance(config, dict):
        raise ModelBroken(f"The model '{name}' cannot be loaded: its config.json is not an object.")
    # mlx-lm creates each layer before it looks for its weights.
    for key, number in _numbers(config):
        is_length = key.endswith("[]")
        of_layers = (LISTS_LAYERS if is_length else COUNTS_LAYERS).search(key.removesuffix("[]"))
        if number > (MAX_LAYERS if of_layers else MAX_EXPERTS if COUNTS_EXPERTS.search(key) else math.inf):
            raise ModelBroken(
                f"The model '{name}' cannot be loaded: its config.json asks for {number:,.0f} "
                f"{'layers' if of_layers else 'experts'} ({shorten(key, 40)})."
            )


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a configuration with its key, those in nested objects and lists too.

    The length of a list or text has `[]` after its key.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, key)
        yield f"{key}[]", len(value)
    elif isinstance(value, str):
        yield f"{key}[]", len(value)
    elif isinstance(value, int | float):
        yield key, value


def _context(config: Mapping[str, Any]) -> int:
    """The longest context in a configuration, in tokens."""
    text_config = config.get("text_config")
    for part in (config, text_config if isinstance(text_config, dict) else {}):
        context = part.get("max_position_embeddings")
        if type(context) is int and context > 0:
            return context
    return UNLIMITED


def _image_processor(model: Any, config: dict[str, Any], tokenizer: Any) -> Any:
    """mlx-lm's image processor for a model; None if there is none, or mlx-lm is too old."""
    try:
        from mlx_lm.processors import load_processor
    except ImportError:
        return None
    processor = load_processor(model, config)
    tokens = tokenizer.encode(processor.image_token, add_special_tokens=False) if processor else []
    return processor if len(tokens) == 1 and hasattr(model, "embed_inputs") else None


# The model's own sampling


def default_sampling(config: Mapping[str, Any]) -> Sampling:
    """The sampling in generation_config.json, without values that the settings do not allow."""
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
