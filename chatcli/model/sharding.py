"""A model that several ranks share, on MLX's distributed engine; refuses to know checkpoints."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import sharded_load

from chatcli.errors import ModelBroken, RankLost
from chatcli.model.ranks import CANNOT_MEET, Ranks

# What rank 0 can share before there is a line (bytes).
ROOM = 1024
INDEX = "model.safetensors.index.json"
NO_ADAPTERS = "mlx-lm cannot shard a model with an adapter: leave out --adapter-path, or run one process."


def share(data: bytes) -> bytes:
    """The bytes that rank 0 has, on every rank. Raises `RankLost` if the ranks cannot meet."""
    padded = list(data.ljust(ROOM, b" ")) if data else [0] * ROOM
    with connected():
        mx.distributed.init(strict=True)
        found = mx.distributed.all_sum(mx.array(padded, mx.uint8), stream=mx.cpu)
        return bytes(memoryview(found))  # type: ignore[arg-type]


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Translate what MLX raises where ranks cannot be reached."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise RankLost(CANNOT_MEET.format(reason)) from error


def load(folder: Path, name: str, trust: bool, pipeline: bool) -> tuple[Any, Any, dict[str, Any], str]:
    """This rank's shard of a model with its weights, the tokenizer, the configuration, and which
    of "tensor" and "pipeline" it is: tensor parallel where the model can, unless `pipeline`.

    Raises `ModelBroken`, and what mlx-lm and MLX raise for a broken model.
    """
    # mlx-lm's own switch for a model's code, which older ones do not know.
    switch = {"trust_remote_code": True} if trust else {}
    with _shardable(name, folder, pipeline):
        model, tokenizer, config = sharded_load(
            str(folder),
            mx.distributed.init() if pipeline else None,
            return_config=True,
            tokenizer_config={"trust_remote_code": trust},
            **switch,
        )
    tensor = hasattr(model, "shard") and not pipeline
    return model, tokenizer, config, "tensor" if tensor else "pipeline"


@contextlib.contextmanager
def _shardable(name: str, folder: Path, pipeline: bool) -> Iterator[None]:
    """Say so where a model cannot be shared, or not in this way."""
    try:
        yield
    except FileNotFoundError as error:
        if (folder / INDEX).exists():
            raise
        raise ModelBroken(
            f"The model '{name}' has no {INDEX}, which mlx-lm needs for a pipeline: "
            "mlx_lm.convert writes one."
        ) from error
    except ValueError as error:
        if "not support" not in str(error):
            raise
        way = "as a pipeline: leave out --pipeline" if pipeline else "at all: run one process"
        raise ModelBroken(f"mlx-lm cannot share the model '{name}' {way}.") from error


def same(ranks: Ranks, name: str, mark: str) -> None:
    """Raises `ModelBroken` unless every rank has the same model."""
    marks = ranks.gather(mark)
    if others := [str(rank) for rank, other in enumerate(marks) if other != marks[0]]:
        raise ModelBroken(
            f"The model '{name}' of rank {', '.join(others)} is another one than that of rank 0: "
            "copy the same files to every machine."
        )


def whole(way: str, marks: Sequence[str]) -> str:
    """The fingerprint of a model of which each rank has a part. 32 hex digits."""
    return hashlib.sha256(" ".join([way, *marks]).encode()).hexdigest()[:32]


def shard(fingerprint: str, rank: int) -> str:
    """Whose segments rank `rank` keeps: rank 0's are the model's own, so that no two share any."""
    if not rank:
        return fingerprint
    return hashlib.sha256(f"{fingerprint} rank {rank}".encode()).hexdigest()[:32]
