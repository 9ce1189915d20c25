"""The memory that a model may take on this machine, and MLX's errors when memory runs out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

from chatcli.errors import MemoryFull

# The share of the memory that a model may take if the device recommends nothing.
MODEL_SHARE = 0.75
# Files with a container's own limit: of control groups version 2, then version 1.
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# Messages of MLX's allocators for Metal and for CUDA, then of Metal's commands, then of CUDA itself.
OUT_OF_MEMORY = (
    "[malloc] Unable to allocate",
    "[metal::malloc]",
    "Insufficient Memory",
    "out of memory",
)
# CUDA reads this variable when it starts: the GPUs that this process and its children may use.
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def show_one_gpu(environment: MutableMapping[str, str]) -> None:
    """Let MLX use only the first of several NVIDIA GPUs, unless the user has chosen. Call before MLX starts.

    MLX runs a model on one GPU anyway, and if it sees two, MLX 0.32.4 sometimes fails to copy arrays to the
    GPU ("cudaMemcpy ... invalid argument"; mlx-lm issue 672 reports the same).
    """
    environment.setdefault(VISIBLE_GPUS, "0")


def plans_attention() -> bool:
    """Whether MLX plans its attention for each new pair of lengths, as its CUDA build does.

    A plan takes about 40 ms on an H200. A single token needs none, unless its buffer is in whole steps
    (mlx/backend/cuda/scaled_dot_product_attention.cpp).
    """
    import mlx.core as mx

    return bool(mx.cuda.is_available())


def cpu_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def room() -> int | None:
    """The bytes that weights and cache may take; None if unknown.

    What MLX recommends for the GPU, else a share of the GPU's or the machine's memory.
    """
    with contextlib.suppress(ImportError):
        import mlx.core as mx

        if mx.default_device().type == mx.gpu:
            info = mx.device_info()
            if recommended := info.get("max_recommended_working_set_size"):
                return int(recommended)
            if physical := info.get("total_memory") or info.get("memory_size"):
                return int(int(physical) * MODEL_SHARE)
    with contextlib.suppress(OSError, ValueError):
        return int(total() * MODEL_SHARE)
    return None


def total() -> int:
    """The memory of the machine or of the container, whichever is less. Raises `OSError`, `ValueError`."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such file, or it contains "max"
            limits.append(int(Path(path).read_text()))
    return min(limits)


def used() -> int:
    """The bytes of arrays that MLX holds now."""
    import mlx.core as mx

    return int(mx.get_active_memory())


def hold(limit: int | None) -> Callable[[], None]:
    """Have MLX wire its memory, up to what the device recommends, and stay below `limit` bytes.

    mlx-lm does the first around each reply; done once, it applies to prefills too. Above the limit MLX frees
    its spare buffers and waits for running work; it refuses nothing. Returns a function that restores what
    was before.
    """
    import mlx.core as mx

    undo = contextlib.ExitStack()
    if limit is not None:
        undo.callback(mx.set_memory_limit, mx.set_memory_limit(limit))
    if recommended := mx.device_info().get("max_recommended_working_set_size"):
        wired_limit = min(int(recommended), limit or int(recommended))
        undo.callback(mx.set_wired_limit, mx.set_wired_limit(wired_limit))
    return undo.close


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Translate MLX's errors about memory to `MemoryFull`."""
    try:
        yield
    except RuntimeError as error:
        if not any(message in str(error) for message in OUT_OF_MEMORY):
            raise
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise MemoryFull(
            f"The memory is full ({reason}).",
            "Close other programs, choose a smaller model with -m, branch from an earlier turn or start a "
            "new session.",
        ) from error
