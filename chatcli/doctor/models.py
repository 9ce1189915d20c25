"""Checks the folder of models from the hub; refuses to read the token, and to use the network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from chatcli.doctor import disk
from chatcli.doctor.finding import Finding, advice, count, ok, problem
from chatcli.model import hub
from chatcli.text import file_size

MOVE = "Set HF_HOME to a folder that can be written."
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def cache() -> Iterator[Finding]:
    """The folder of downloaded models. Raises `ImportError`, `OSError`."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    place = hub.cache_folder()
    try:
        found = scan_cache_dir()
    except CacheNotFound:
        yield _empty(place)
    except ValueError as error:
        yield problem("models", f"{place}: {error}", MOVE, path=str(place))
    else:
        models = sum(repo.repo_type == "model" for repo in found.repos)
        yield _filled(place, models, found.size_on_disk, len(found.warnings))


def _empty(place: Path) -> Finding:
    if disk.usable(place):
        return ok("models", f"none downloaded ({place})", path=str(place), models=0, bytes=0)
    return problem("models", f"{place} cannot be made", MOVE, path=str(place))


def _filled(place: Path, models: int, size: int, broken: int) -> Finding:
    """`size` in bytes is that of everything from the hub; `broken` folders are not whole."""
    value = f"{models:,} in {place} ({file_size(size)})"
    data = {"path": str(place), "models": models, "bytes": size, "broken": broken}
    if not os.access(place, os.W_OK):
        return advice("models", value, MOVE, **data)
    if broken:
        todo = f"{count(broken, 'folder')} not whole: delete it or download the model again."
        return advice("models", value, todo, **data)
    return ok("models", value, **data)


def token(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether there is one, for models that ask for it. It is not read."""
    from huggingface_hub import constants

    path = Path(constants.HF_TOKEN_PATH)
    there = any(environment.get(name) for name in TOKENS) or (path.is_file() and path.stat().st_size > 0)
    yield ok("token", "yes" if there else "no (only gated models need one)", present=there)


def offline() -> Iterator[Finding]:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        yield ok("offline", "yes, HF_HUB_OFFLINE is set: no model is downloaded", offline=True)
    else:
        yield ok("offline", "no", offline=False)
