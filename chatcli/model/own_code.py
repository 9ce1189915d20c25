"""Python code that comes with a model: which files, and a digest of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
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


def is_all_here(folder: Path) -> bool:
    """Whether the code that a model names lies in its folder, so that its digest says what will run."""
    return all(
        "--" not in name and not Path(name).is_absolute() and ".." not in Path(name).parts
        for name in _named(folder)
    )


def _named(folder: Path) -> Iterator[str]:
    """The files and classes of its own that a model's configurations name."""
    for file in ("config.json", "tokenizer_config.json"):
        config = inspect.read_json(folder / file)
        yield str(config.get("model_file", ""))
        auto_map = config.get("auto_map")
        for value in auto_map.values() if isinstance(auto_map, dict) else ():
            yield from map(str, value if isinstance(value, list) else [value])
