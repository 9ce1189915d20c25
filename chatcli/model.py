"""Loading a model, its thinking markers and its fingerprint; refuses to know conversations."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from chatcli import pocket, prompt_cache

POCKET = "pocket"
SAMPLES = 64
SAMPLE_BYTES = 4096
WHOLE_BYTES = 64 << 20
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
UNLIMITED = 1 << 20
# gpt-oss writes channels that mlx-lm's tokenizer does not name: text, and whether thinking follows.
HARMONY = {
    "<|channel|>analysis<|message|>": True,
    "<|channel|>commentary<|message|>": True,
    "<|channel|>final<|message|>": False,
    "<|start|>assistant": False,
    "<|end|>": False,
}


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run. `context` is the longest prompt plus reply, in tokens.

    `longest_reply` is the model's own limit, which an explicit one overrides (None: the context).
    """

    name: str
    model: Any
    tokenizer: Any
    fingerprint: str
    context: int
    prefill_step: int
    longest_reply: int | None = None


def load(name: str) -> LoadedModel:
    """Load `pocket`, a folder or a hub name through mlx-lm.

    Raises `ModelNotFound`, `ModelBroken` or `NoChatTemplate`.
    """
    folder = resolve(name)
    model, tokenizer, config = _load_folder(folder, name)
    if not tokenizer.has_chat_template:
        raise NoChatTemplate(
            f"The model '{name}' has no chat template, so it cannot hold a conversation: "
            "choose a chat ('instruct') model with -m."
        )
    if folder == pocket.FOLDER:
        # Half precision is slower than float32 on a CPU, and pocket is small enough to widen.
        model.set_dtype(mx.float32)
    step = prefill_step()
    layout = prompt_cache.layout(prompt_cache.new(model))
    kind = f"{layout} {_dtype(model)} {mx.default_device().type} step {step}"
    mark = fingerprint(folder, kind + weights_digest(folder, model))
    limit = _generation_config(folder).get("max_new_tokens")
    return LoadedModel(name, model, tokenizer, mark, _context(config), step, limit)


def prefill_step() -> int:
    """Tokens a chunk: small enough on a CPU that a cancelled prefill stops soon."""
    return 64 if mx.default_device().type == mx.cpu else 2048


def resolve(name: str) -> Path:
    """The folder of a model, downloaded if it is a hub name. Raises `ModelNotFound`."""
    if name == POCKET:
        return pocket.FOLDER
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not HUB_NAME.fullmatch(name):
        raise ModelNotFound(
            f"There is no model folder '{name}': give -m a folder, a hub name such as "
            "mlx-community/Qwen3.5-4B-MLX-4bit, or 'pocket'."
        )
    return _download(name)


def _download(name: str) -> Path:
    try:
        return Path(mlx_lm.utils._download(name))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ModelNotFound(
            f"The model '{name}' is neither a folder here nor could it be had from the hub "
            f"({type(error).__name__}): check the name and the network, or give -m a folder."
        ) from error


def _load_folder(folder: Path, name: str) -> tuple[Any, Any, dict[str, Any]]:
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"The folder '{name}' holds no model: it has no config.json.")
    try:
        json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise ModelBroken(
            f"The model '{name}' cannot be loaded: its config.json is not valid JSON ({error})."
        ) from error
    try:
        model, tokenizer, config = mlx_lm.load(str(folder), return_config=True)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelBroken(f"The model '{name}' cannot be loaded: {reason}") from error
    return model, tokenizer, config


def weights_digest(folder: Path, model: Any) -> str:
    """Every byte that was loaded of files too large to be read twice; nothing if there are none."""
    if all(path.stat().st_size <= WHOLE_BYTES for path in folder.glob("*.safetensors")):
        return ""
    weights = sorted(mlx_lm.utils.tree_flatten(model.parameters()))
    flat = [memoryview(weight.reshape(-1).view(mx.uint8)) for _, weight in weights if weight.size]
    with ThreadPoolExecutor() as hashers:
        sums = list(hashers.map(xxhash.xxh3_128_hexdigest, flat))
    names = [f"{name} {weight.shape} {weight.dtype}" for name, weight in weights]
    return f" {hashlib.sha256(' '.join([*names, *sums]).encode()).hexdigest()}"


def _dtype(model: Any) -> str:
    weights = [w for _, w in mlx_lm.utils.tree_flatten(model.parameters())]
    return " ".join(sorted({str(weight.dtype) for weight in weights}))


def _context(config: dict[str, Any]) -> int:
    inner = config.get("text_config") or {}
    return int(config.get("max_position_embeddings") or inner.get("max_position_embeddings")
               or UNLIMITED)  # fmt: skip


def _generation_config(folder: Path) -> dict[str, Any]:
    """The model's own defaults; what cannot be read there is no one's loss."""
    try:
        return dict(json.loads((folder / "generation_config.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def fingerprint(folder: Path, settings: str) -> str:
    """Who the numbers in a cache come from: config, weights, cache settings. 32 hex digits.

    A weight file of up to 64 MiB counts whole, a larger one with its name, size, header and 64
    blocks from first to last; `weights_digest` covers what was loaded from those.
    The chat template does not count: tokens speak for it.
    """
    digest = hashlib.sha256(settings.encode())
    digest.update(_config_without_noise(folder / "config.json"))
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name} {path.stat().st_size} ".encode())
        for block in _sampled(path):
            digest.update(block)
    return digest.hexdigest()[:32]


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


class ReplySplitter:
    """Tells thinking from reply in a stream of decoded text, by the tokenizer's markers."""

    def __init__(self, tokenizer: Any, opening: str) -> None:
        """`opening` is the text of the generation prompt, which may have opened the thinking."""
        self._markers = _markers(tokenizer)
        self._pattern = re.compile("|".join(map(re.escape, self._markers)) or "(?!)")
        self._pending = ""
        self._thinking = False
        for _ in self.feed(opening):
            pass
        self._pending = ""

    def feed(self, text: str) -> Iterator[tuple[bool, str]]:
        """(is it thinking, text) for what is known now; the start of a marker is held back."""
        self._pending += text
        while found := self._pattern.search(self._pending):
            yield from self._told(self._pending[: found.start()])
            self._pending = self._pending[found.end() :]
            self._thinking = self._markers[found[0]]
        held = self._marker_begun()
        whole = len(self._pending) - held
        yield from self._told(self._pending[:whole])
        self._pending = self._pending[whole:]

    def finish(self) -> Iterator[tuple[bool, str]]:
        """What was held back when the reply ended."""
        yield from self._told(self._pending)
        self._pending = ""

    def _told(self, text: str) -> Iterator[tuple[bool, str]]:
        if text:
            yield self._thinking, text

    def _marker_begun(self) -> int:
        """How many last characters may be the beginning of a marker."""
        longest = min(len(self._pending), max(map(len, self._markers), default=1) - 1)
        ends = (self._pending[-size:] for size in range(longest, 0, -1))
        begun = (end for end in ends if any(marker.startswith(end) for marker in self._markers))
        return len(next(begun, ""))


def _markers(tokenizer: Any) -> dict[str, bool]:
    """What is not shown of a reply, and whether thinking follows it."""
    if "<|channel|>" in tokenizer.get_vocab():
        return HARMONY
    if not tokenizer.has_thinking:
        return {}
    return {tokenizer.think_start: True, tokenizer.think_end: False}
