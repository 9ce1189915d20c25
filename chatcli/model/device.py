"""How many bytes a model may take on this machine; refuses to know any model.

MLX is asked only where it computes on a GPU: importing it takes a moment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

from chatcli.errors import MemoryFull

# The part of the whole memory that is left to a model beside everything else.
SHARE = 0.75
# A container's own limit: version 2 of control groups, then version 1.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
# What MLX's allocators say: Metal's and CUDA's, Metal's when a command needs more, CUDA's own word.
OUT_OF_MEMORY = (
    "[malloc] Unable to allocate",
    "[metal::malloc]",
    "Insufficient Memory",
    "out of memory",
)

# What CUDA reads when it starts: the GPUs that this process and those that it starts may see.
VISIBLE = "CUDA_VISIBLE_DEVICES"


def show_one_gpu(environment: MutableMapping[str, str]) -> None:
    """Of several NVIDIA GPUs show MLX the first, unless a person has chosen. Call before MLX starts.

    MLX runs a model on one in any case, and where it sees two, MLX 0.32.4 now and then fails to copy
    numbers to the GPU ("cudaMemcpy ... invalid argument"; mlx-lm issue 672 tells of the same).
    """
    environment.setdefault(VISIBLE, "0")


def room() -> int | None:
    """The bytes that weights and cache may take; None where nothing tells."""
    return _gpu() or _system()


def total() -> int:
    """The machine's memory or the container's, whichever is less. Raises `OSError`, `ValueError`."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([whole, *(limit for path in LIMITS if (limit := _number(path)))])


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):  # there is no such file, or it says "max"
        return None


def _gpu() -> int | None:
    """What MLX says of the GPU's memory; None on a CPU and without MLX."""
    try:
        import mlx.core as mx
    except ImportError:
        return None
    if mx.default_device().type != mx.gpu:
        return None
    info = mx.device_info()
    if best := info.get("max_recommended_working_set_size"):
        return int(best)
    whole = info.get("total_memory") or info.get("memory_size")
    return int(int(whole) * SHARE) if whole else None


def _system() -> int | None:
    try:
        return int(total() * SHARE)
    except (OSError, ValueError):
        return None


def hold(limit: int | None) -> Callable[[], None]:
    """Have MLX keep what it uses resident, up to what the device recommends, and below `limit`.

    mlx-lm does the first around each reply; done once, it holds for prefills too. Over the limit
    MLX gives back its spare buffers and waits for what runs; it refuses nothing. Returns what undoes it.
    """
    import mlx.core as mx

    undo: list[Callable[[], object]] = []
    if limit is not None:
        spent = mx.set_memory_limit(limit)
        undo.append(lambda: mx.set_memory_limit(spent))
    if best := mx.device_info().get("max_recommended_working_set_size"):
        wired = mx.set_wired_limit(min(int(best), limit or int(best)))
        undo.append(lambda: mx.set_wired_limit(wired))

    def release() -> None:
        for change in undo:
            change()

    return release


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Translate MLX's error where memory ends in the middle of something. Raises `MemoryFull`."""
    try:
        yield
    except RuntimeError as error:
        if not any(said in str(error) for said in OUT_OF_MEMORY):
            raise
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise MemoryFull(
            f"The memory is full ({reason}): end other programs, choose a smaller model with -m, "
            "branch from an earlier turn or start a new session."
        ) from error
