"""Imports mlx-lm without its limit of open files, and raises the soft limit as far as the system lets us.

mlx-lm sets 2,048 and 4,096 when it is imported, which raises where the hard limit is lower, and lowers one
that is higher.
"""

from __future__ import annotations

import contextlib
import resource

# macOS lets no process open more, whatever its hard limit says.
WANTED = 10240


def import_mlx_lm() -> None:
    set_limit = resource.setrlimit
    resource.setrlimit = lambda *_: None
    try:
        # Who needs it says so where it is missing.
        with contextlib.suppress(ImportError):
            import mlx_lm  # noqa: F401
    finally:
        resource.setrlimit = set_limit


def raise_soft_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
