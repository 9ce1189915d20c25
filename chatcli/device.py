"""How many bytes a model may take on this machine; refuses to know any model.

MLX is asked only where it computes on a GPU: importing it takes a moment.
"""

from __future__ import annotations

import os

# The part of the whole memory that is left to a model beside everything else.
SHARE = 0.75


def room() -> int | None:
    """The bytes that weights and cache may take; None where nothing tells."""
    return _gpu() or _system()


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
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE)
    except (OSError, ValueError):
        return None
