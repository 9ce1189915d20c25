"""Loads this rank's part of a model: a shard, or all of it in a single process."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
from mlx_lm.utils import load_model, load_tokenizer, sharded_load

from chatcli.errors import ModelBroken, RankLost
from chatcli.model.ranks import CANNOT_MEET_MESSAGE, Ranks

# The size of a broadcast, which MLX must know in advance.
BROADCAST_BYTES = 1024
INDEX = "model.safetensors.index.json"
NO_ADAPTERS = "mlx-lm cannot shard a model with an adapter: leave out --adapter-path, or run one process."


def broadcast(data: bytes) -> bytes:
    """Send rank 0's bytes to every rank; the others pass none. Raises `RankLost`."""
    padded = list(data.ljust(BROADCAST_BYTES, b" ")) if data else [0] * BROADCAST_BYTES
    try:
        mx.distributed.init(strict=True)
        # On the backend's default stream: NCCL has none on the CPU, the others none on the GPU.
        received = mx.distributed.all_sum(mx.array(padded, mx.uint8))
        return bytes(memoryview(received))  # type: ignore[arg-type]
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise RankLost(CANNOT_MEET_MESSAGE.format(reason)) from error


def load(
    ranks: Ranks, folder: Path, name: str, trust_remote_code: bool, pipeline: bool
) -> tuple[Any, Any, dict[str, Any], str]:
    """This rank's part of a model, the tokenizer, the configuration, and how the model is shared.

    The last is "whole" in a single process, whose weights are not read yet. With several ranks it is "tensor"
    if the model supports that and `pipeline` is false, else "pipeline". Raises `ModelBroken`, and what mlx-lm
    and MLX raise for a broken model.
    """
    # Always passed, because transformers would otherwise ask on the terminal. Older versions of mlx-lm lack
    # their own switch for a model's code.
    tokenizer_config = {"trust_remote_code": trust_remote_code}
    switch = {"trust_remote_code": True} if trust_remote_code else {}
    if ranks.size == 1:
        model, tokenizer, config = mlx_lm.load(
            str(folder), tokenizer_config, lazy=True, return_config=True, **switch
        )
        return model, tokenizer, config, "whole"
    with _shardable(name, folder, pipeline):
        if not pipeline:
            model, config = load_model(folder, lazy=True, strict=False, **switch)
            if hasattr(model, "shard"):
                # Like `sharded_load`, which ends with a sum on the CPU, where NCCL does not work.
                model.shard(mx.distributed.init())
                mx.eval(model.parameters())
                tokenizer = load_tokenizer(folder, tokenizer_config, eos_token_ids=config.get("eos_token_id"))
                broadcast(b"")
                return model, tokenizer, config, "tensor"
        model, tokenizer, config = sharded_load(
            str(folder),
            mx.distributed.init() if pipeline else None,
            return_config=True,
            tokenizer_config=tokenizer_config,
            **switch,
        )
    return model, tokenizer, config, "pipeline"


@contextlib.contextmanager
def _shardable(name: str, folder: Path, pipeline: bool) -> Iterator[None]:
    """Translate mlx-lm's errors for a model that cannot be sharded, or not in this way."""
    try:
        yield
    except FileNotFoundError as error:
        if (folder / INDEX).exists():
            raise
        raise ModelBroken(
            f"The model '{name}' has no {INDEX}, which mlx-lm needs for a pipeline: "
            "mlx_lm.convert writes one."
        ) from error
    except RuntimeError as error:
        if not pipeline or "no Stream" not in str(error):
            raise
        raise ModelBroken("NCCL cannot send a pipeline's results: leave out --pipeline.") from error
    except ValueError as error:
        if "not support" not in str(error):
            raise
        way = "as a pipeline: leave out --pipeline" if pipeline else "at all: run one process"
        raise ModelBroken(f"mlx-lm cannot split the model '{name}' {way}.") from error


def fingerprint(ranks: Ranks, name: str, sharing: str, part: str, files: Callable[[], str]) -> str:
    """The fingerprint of the whole model; `part` is that of this rank's part. 32 hex digits.

    `files` is a digest of files that must be the same on all ranks. Raises `ModelBroken` if they are not.
    """
    if ranks.size == 1:
        return part
    digests = ranks.all_gather(files())
    if others := [str(rank) for rank, digest in enumerate(digests) if digest != digests[0]]:
        raise ModelBroken(
            f"The model '{name}' of rank {', '.join(others)} differs from rank 0's: "
            "copy the same files to every machine."
        )
    parts = " ".join([f"{sharing} {ranks.size}", *ranks.all_gather(part)])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def store_fingerprint(ranks: Ranks, fingerprint: str) -> str:
    """The fingerprint under which this rank stores segments: the model's own on rank 0, a derived one
    elsewhere.
    """
    if ranks.leads:
        return fingerprint
    return hashlib.sha256(f"{fingerprint} rank {ranks.rank}".encode()).hexdigest()[:32]
