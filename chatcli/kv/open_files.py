"""Imports mlx-lm without its change of the open-file limit, and raises the soft limit as far as allowed.

When imported, mlx-lm sets the limits to 2,048 and 4,096. That fails if the hard limit is lower, and lowers a
higher one.
"""

from __future__ import annotations

import contextlib
import resource

# macOS allows no more, whatever the hard limit says.
WANTED = 10240


def import_mlx_lm() -> None:
    set_limit = resource.setrlimit
    resource.setrlimit = lambda *_: None
    try:
        # The code that needs mlx-lm reports that it is missing.
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
