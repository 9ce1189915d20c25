"""Python code that comes with a model: its files, their digest, its approval, and running exactly those
bytes.

`--trust-remote-code` lets it run once. Otherwise it runs if its digest is in a private file of approvals. No
setting allows it: then any model that a session names could run its code.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import py_compile
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import platformdirs

from chatcli import files
from chatcli.errors import ModelBroken
from chatcli.model import inspect
from chatcli.text import shorten

# The configurations that can name code, and the fields in which they do.
CONFIGS = (
    *("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json"),
    *("video_preprocessor_config.json", "image_processor_config.json", "generation_config.json"),
)
CLASSES_FIELD, FILE_FIELD = "auto_map", "model_file"
APPROVALS = "trusted-code.json"
COMPILED = (".pyc", ".pyo", ".so", ".pyd", ".dylib")
# In the first field: separates a repository's name from a class in it.
ELSEWHERE = "--"


def read(folder: Path) -> dict[str, bytes]:
    """The Python files below a model's folder, and their bytes; empty if the model does not use any.

    Links are not followed, except the hub cache's own to its `blobs`. Raises `ModelBroken` if a file cannot
    be read.
    """
    code: dict[str, bytes] = {}
    for path in sorted(_files(folder)) if any(named(folder)) else ():
        name = path.relative_to(folder).as_posix()
        try:
            code[name] = inspect.read_regular(path)
        except OSError as error:
            raise ModelBroken(f"The model's own {name} cannot be read: {error.strerror or error}.") from error
    return code


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):  # does not follow links to folders
        folders[:] = [name for name in folders if not Path(parent, name).is_symlink()]
        for path in (Path(parent, name) for name in names if name.endswith(".py")):
            if not path.is_symlink() or _is_of_hub(path, folder):
                yield path


def _is_of_hub(path: Path, folder: Path) -> bool:
    """Whether a link leads into `blobs`, where the hub's cache keeps this folder's files."""
    blobs = folder.absolute().parent.parent / "blobs"
    return folder.absolute().parent.name == "snapshots" and path.resolve().parent == blobs.resolve()


def digest_of(code: Mapping[str, bytes]) -> str:
    """A digest of the model's code; empty if there is none."""
    if not code:
        return ""
    hasher = hashlib.sha256()
    for name, data in code.items():
        hasher.update(f"{name}\0{len(data)}\0".encode())
        hasher.update(data)
    return hasher.hexdigest()


def digest(folder: Path) -> str:
    """The digest of the code below a model's folder. Raises `ModelBroken`."""
    return digest_of(read(folder))


def problem(folder: Path, code: Mapping[str, bytes]) -> str:
    """Why the configurations name code other than `code`, in a few words; empty if they do not.

    Only plain `.py` files below the folder may run: a link may lead elsewhere by the time it is followed, and
    nobody can read compiled files before they run.
    """
    for name in named(folder):
        path = PurePosixPath(name)
        # Configurations often name files that were dropped when the weights were converted.
        may_be_there = path.is_absolute() or ".." in path.parts or os.path.lexists(folder / path)
        if ELSEWHERE not in name and name not in code and may_be_there:
            return f"its configuration names '{shorten(name, 80)}', which is not a .py file in its folder"
    for parent, folders, names in os.walk(folder) if any(named(folder)) else ():
        if Path(parent).name == "__pycache__":
            continue  # not used
        for place in (Path(parent, each) for each in (*folders, *names)):
            shown = place.relative_to(folder).as_posix()
            if place.suffix in COMPILED:
                return f"its {shown} is compiled code, which cannot be read"
            is_code = place.suffix == ".py" or place.is_dir()
            if place.is_symlink() and is_code and not _is_of_hub(place, folder):
                return f"its {shown} is a link"
    return ""


def is_all_here(folder: Path) -> bool:
    """Whether all code that a model names is in its folder, so that the digest covers what will run."""
    return not any(ELSEWHERE in name for name in named(folder)) and not problem(folder, read(folder))


def named(folder: Path) -> Iterator[str]:
    """The files that a model's configurations name, relative to its folder.

    A class in another repository keeps its name, which contains `--`.
    """
    for file in CONFIGS:
        config = inspect.read_json(folder / file)
        if file == "config.json" and config.get(FILE_FIELD) is not None:
            # As mlx-lm joins it to the folder; `./a.py` is a.py.
            yield PurePosixPath(str(config[FILE_FIELD])).as_posix()
        classes = config.get(CLASSES_FIELD)
        for value in classes.values() if isinstance(classes, dict) else ():
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    module = str(each).rpartition(".")[0]
                    yield str(each) if ELSEWHERE in str(each) else f"{module}.py"


@contextlib.contextmanager
def loaded_from(folder: Path, code: Mapping[str, bytes]) -> Iterator[None]:
    """While the block runs, Python imports `code` for the files of `folder`, even if they have changed.

    The code is compiled into a separate cache, because Python would trust any `__pycache__` in the folder.
    """
    if not code:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="chatcli-code-") as private:
        before, sys.pycache_prefix = sys.pycache_prefix, private
        try:
            source = Path(private, "source")
            for name, data in code.items():
                try:
                    _compile(source, data, folder / name)
                except py_compile.PyCompileError as error:
                    # Otherwise Python would look at the file, which may have changed.
                    _compile(source, f"raise SyntaxError({str(error.exc_value)!r})".encode(), folder / name)
            yield
        finally:
            sys.pycache_prefix = before


def _compile(source: Path, data: bytes, path: Path) -> None:
    """Compile `data` to where Python looks for the bytecode of `path`. Raises `PyCompileError`."""
    source.write_bytes(data)
    py_compile.compile(
        str(source),
        importlib.util.cache_from_source(os.path.abspath(path)),  # noqa: PTH100  as Python does
        str(path),
        doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


# Approvals


def approvals_path() -> Path:
    """The file of approvals, in the user's own data folder."""
    return platformdirs.user_data_path("chatcli") / APPROVALS


def _approvals() -> dict[str, str]:
    """The approved digests by model; empty if the file is missing or damaged."""
    try:
        approvals = json.loads(inspect.read_regular(approvals_path()))
    except (OSError, ValueError, RecursionError):
        return {}
    return approvals if isinstance(approvals, dict) else {}


def is_approved(model: str, digest: str) -> bool:
    """Whether this model's code was approved. Always true without code."""
    return bool(digest) and _approvals().get(model) == digest


def approve(model: str, digest: str) -> None:
    """Approve this model's code until it changes. Raises `FolderError`."""
    with files.explained(f"write {approvals_path()}"):
        files.make_private(approvals_path().parent)
        location = files.Location.of_file(approvals_path())
        with location.parent.locked():
            data = json.dumps({**_approvals(), model: digest}, indent=1, sort_keys=True).encode()
            files.replace(location, data, location.parent)
