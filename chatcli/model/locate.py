"""Finds a model's files by its name: `pocket`, a folder, or a hub name. Imports nothing slow."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from chatcli import files, pocket
from chatcli.errors import ModelNotFound
from chatcli.model import hub
from chatcli.settings.values import EXAMPLE_MODEL, POCKET, names_folder


def resolve(
    name: str, on_download: hub.DownloadCallback = lambda _: None, *, from_session: bool = False
) -> Path:
    """The folder of a model. A hub name is downloaded unless it comes `from_session`.

    Raises `ModelNotFound`.
    """
    folder = _named_folder(name, from_session=from_session) or hub.find_cached(name)
    if folder is not None:
        return folder
    if from_session or files.from_home(name).is_dir():
        raise _not_found(name, from_session=from_session)
    return hub.download(name, on_download)


def check(name: str, *, from_session: bool = False) -> None:
    """Raises `ModelNotFound` if that is clear without the network. Fast, so that it can run before the
    prompt.

    Offline, a hub name that is not in the cache is not found.
    """
    is_hub_name = _named_folder(name, from_session=from_session) is None
    if is_hub_name and any(map(os.environ.get, hub.OFFLINE_VARIABLES)):
        resolve(name, from_session=from_session)


def download_size(name: str, *, from_session: bool = False) -> int | None:
    """The bytes of a hub model of which nothing is here, and which `resolve` would download; else None.

    Raises `ModelNotFound`. Asks the hub only then, so that it can come before a prompt.
    """
    if from_session or _named_folder(name, from_session=False) or name in hub.names():
        return None
    from chatcli.model import download

    return download.size(name)


def _named_folder(name: str, *, from_session: bool) -> Path | None:
    """The folder that `name` means; None for a hub name. Raises `ModelNotFound` if it is neither."""
    if name == POCKET:
        return pocket.FOLDER
    folder = files.from_home(name)
    if names_folder(name) and folder.is_dir() and (folder.is_absolute() or not from_session):
        if not os.path.lexists(folder / "config.json"):
            raise ModelNotFound(f"The folder '{name}' contains no model: it has no config.json.")
        return folder
    if names_folder(name) or not hub.HUB_NAME.fullmatch(name):
        raise _not_found(name, from_session=from_session)
    return None


def _not_found(name: str, *, from_session: bool) -> ModelNotFound:
    if from_session:
        return ModelNotFound(
            f"The session's model '{name}' is not on this machine: start with -m {shlex.quote(name)} to "
            "download it, or with -m MODEL to continue with another."
        )
    if not names_folder(name) and files.from_home(name).is_dir():
        return ModelNotFound(
            f"There is no model '{name}' on this machine. For the folder of that name: "
            f"-m {shlex.quote(f'./{name}')}."
        )
    return ModelNotFound(
        f"There is no model folder '{name}': give a folder, a hub name such as {EXAMPLE_MODEL}, or 'pocket'."
    )
