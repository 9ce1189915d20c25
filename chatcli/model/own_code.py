"""Python code that comes with a model: which files, and a digest of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from chatcli.errors import ModelBroken
from chatcli.model import inspect


def names(folder: Path) -> list[str]:
    """The Python files below a model's folder, relative to it; none if the model does not ask for them."""
    if not inspect.own_code(folder):
        return []
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))


def digest(folder: Path) -> str:
    """A digest of the code that may run with the model; empty if it brings none.

    Raises `ModelBroken` where a file cannot be read.
    """
    files = names(folder)
    if not files:
        return ""
    hasher = hashlib.sha256()
    for name in files:
        try:
            data = inspect.read_regular(folder / name)
        except OSError as error:
            raise ModelBroken(f"The model's own {name} cannot be read: {error.strerror or error}.") from error
        hasher.update(f"{name}\0{len(data)}\0".encode())
        hasher.update(data)
    return hasher.hexdigest()
