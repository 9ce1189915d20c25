"""Checks the hub's cache of models, without its token and without the network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from chatcli.doctor import disk
from chatcli.doctor.finding import Finding, advice, ok, problem
from chatcli.model import hub
from chatcli.text import count, file_size

SET_HF_HOME = "Set HF_HOME to a folder that can be written."
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def cache() -> Iterator[Finding]:
    """The folder of downloaded models. Raises `ImportError`, `OSError`."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    folder = hub.cache_folder()
    try:
        cached = scan_cache_dir()
    except CacheNotFound:
        yield _empty(folder)
    except ValueError as error:
        yield problem("models", f"{folder}: {error}", SET_HF_HOME, path=str(folder))
    else:
        models = sum(repo.repo_type == "model" for repo in cached.repos)
        yield _filled(folder, models, cached.size_on_disk, len(cached.warnings))


def _empty(folder: Path) -> Finding:
    if disk.usable(folder):
        return ok("models", f"none downloaded ({folder})", path=str(folder), models=0, bytes=0)
    return problem("models", f"{folder} cannot be made", SET_HF_HOME, path=str(folder))


def _filled(folder: Path, models: int, size: int, broken: int) -> Finding:
    """`size`: bytes of everything from the hub. `broken`: how many folders are not whole."""
    value = f"{models:,} in {folder} ({file_size(size)})"
    data = {"path": str(folder), "models": models, "bytes": size, "broken": broken}
    if not os.access(folder, os.W_OK):
        return advice("models", value, SET_HF_HOME, **data)
    if broken:
        todo = f"{count('folder', broken)} not whole: delete it or download the model again."
        return advice("models", value, todo, **data)
    return ok("models", value, **data)


def token(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether there is one, for gated models. It is not read."""
    from huggingface_hub import constants

    path = Path(constants.HF_TOKEN_PATH)
    present = any(environment.get(name) for name in TOKENS) or (path.is_file() and path.stat().st_size > 0)
    yield ok("token", "yes" if present else "no (only gated models need one)", present=present)


def offline() -> Iterator[Finding]:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        yield ok("offline", "yes, HF_HUB_OFFLINE is set: no model is downloaded", offline=True)
    else:
        yield ok("offline", "no", offline=False)
