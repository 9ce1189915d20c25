"""Identifies a computation: a hash of everything that a prompt cache's contents depend on.

It is computed from what was loaded, not from the files, which may have changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import xxhash
from mlx.utils import tree_flatten

from chatcli import records

# Keys that do not affect the results. `eos_token_id` may come from generation_config.json.
NOISE = ("_name_or_path", "transformers_version", "eos_token_id")
# Unless this variable turns it off, MLX multiplies with fewer bits on a GPU.
PRECISION_VARIABLE = "MLX_ENABLE_TF32"
# How many bytes of weights are read between two progress reports, about.
GROUP_BYTES = 128 << 20
# When ranks compare weight files, files up to this size are hashed whole, larger ones by sampled blocks.
WHOLE_FILE_BYTES = 64 << 20
BLOCKS, BLOCK_BYTES = 64, 4096

# Called with the fraction of the weights that is in memory, from 0 to 1.
ProgressCallback = Callable[[float], None]


def of_computation(config: Mapping[str, Any], *parts: str) -> str:
    """The fingerprint of a configuration as loaded, this program, and `parts`: 32 hex digits.

    The chat template and the tokenizer do not count, because their effect is in the tokens.
    """
    digest = hashlib.sha256()
    for part in (_without_noise(config), program(), *parts):
        digest.update(f"{len(part)} {part}".encode(errors="surrogatepass"))
    return digest.hexdigest()[:32]


def program() -> str:
    """The libraries and the device: results may be rounded differently when one of them changes."""
    device = mx.default_device()
    about = mx.device_info(device)
    names = (about.get("architecture", ""), about.get("device_name", ""))
    system = (platform.system(), platform.machine())
    precision = os.environ.get(PRECISION_VARIABLE, "")
    libraries = ("mlx", mx.__version__, "mlx-lm", mlx_lm.__version__)  # type: ignore[attr-defined]
    return " ".join(map(str, (*libraries, *system, device, *names, precision)))


def program_name() -> str:
    """The same as a person reads it, for records."""
    device = mx.default_device()
    name = mx.device_info(device).get("device_name", "")
    return records.program(str(name or device.type).removeprefix("DeviceType."))


def _without_noise(config: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in config.items() if key not in NOISE}
    return json.dumps(kept, sort_keys=True, default=str)


# Weights


def read_weights(model: Any, on_progress: ProgressCallback, group_bytes: int = GROUP_BYTES) -> str:
    """Read the weights into memory, in groups of at least `group_bytes`, except the last.

    Returns a digest of their names, shapes, types and bytes in memory, including an adapter's.
    """
    weights = dict(tree_flatten(model.parameters()))
    total_bytes, done_bytes = weight_bytes(model), 0
    checksums: dict[str, Future[str]] = {}
    with ThreadPoolExecutor() as hashers:
        for group in _groups(weights, group_bytes):
            mx.eval(list(group.values()))
            # One group is hashed while the next is read.
            checksums |= {
                name: hashers.submit(xxhash.xxh3_128_hexdigest, memoryview(weight.reshape(-1).view(mx.uint8)))
                for name, weight in group.items()
                if weight.size
            }
            done_bytes += sum(weight.nbytes for weight in group.values())
            on_progress(done_bytes / max(total_bytes, 1))
    names = sorted(weights)
    lines = [f"{name} {weights[name].shape} {weights[name].dtype}" for name in names]
    lines += [checksums[name].result() for name in names if name in checksums]
    return hashlib.sha256(" ".join(lines).encode()).hexdigest()


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


# Files that must be the same on all ranks


def of_files(folder: Path, config: Mapping[str, Any], *, weights: bool) -> str:
    """A digest of the configuration and of each of the `weights`' name, size, header and content.

    A file above 64 MiB is represented by 64 blocks, from first to last.
    """
    digest = hashlib.sha256(_without_noise(config).encode())
    for path in sorted(folder.glob("*.safetensors")) if weights else ():
        size = path.stat().st_size
        digest.update(f"{path.name} {size} ".encode())
        with path.open("rb") as file:
            header_length = file.read(8)
            digest.update(header_length)
            digest.update(file.read(min(int.from_bytes(header_length, "little"), size)))
            if size <= WHOLE_FILE_BYTES:
                digest.update(file.read())
            for number in range(BLOCKS) if size > WHOLE_FILE_BYTES else ():
                file.seek(number * (size - BLOCK_BYTES) // (BLOCKS - 1))
                digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()
