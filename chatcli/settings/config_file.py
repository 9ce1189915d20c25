"""The config file: a TOML file of settings.

tomlkit keeps comments, order and unknown keys. It is slow to import, so it is imported only if there is a
file to read or write.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcli import files
from chatcli.errors import FolderError, UsageError
from chatcli.files import Location
from chatcli.settings.declaration import Folder, Setting, Text, Value
from chatcli.settings.values import EXAMPLE_MODEL, POCKET, SETTINGS
from chatcli.text import shorten

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

MODELS = "models"
ALIASED_MODEL = Text("The model that an alias means.")
MAX_BYTES = 1_000_000
FIRST_LINES = """\
# Settings of chatcli. Command-line options and CHATCLI_… variables override them.
# `chatcli config` shows the current values.
"""


@dataclass(frozen=True)
class Remembered:
    """The file's contents: values by key, aliases of models, and sentences about everything else.

    `unknown` may come from a newer version; `problems` prevent a run.
    """

    values: dict[str, Value] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> Remembered:
    """Read the file at `path`; empty if there is none. Never raises for its contents."""
    try:
        text = _text(path)
        entries = _parse(path, text).unwrap() if text.strip() else {}
    except UsageError as error:
        return Remembered(problems={"": str(error)})
    remembered = Remembered()
    for key, value in entries.items():
        if key == MODELS:
            _read_aliases(remembered, path, value)
        elif key not in SETTINGS:
            name = shorten(key, 40)
            remembered.unknown[key] = (
                f"{path} sets '{name}', which this version does not know{_did_you_mean(key)}."
            )
        else:
            try:
                remembered.values[key] = SETTINGS[key].check(value, f"In {path}, {key}")
            except UsageError as error:
                remembered.problems[key] = str(error)
            else:
                if isinstance(SETTINGS[key], Folder):
                    # It is relative to the file, not to the current folder.
                    remembered.values[key] = str(path.parent / Path(value).expanduser())
    return remembered


def _read_aliases(remembered: Remembered, path: Path, table: Any) -> None:
    if not isinstance(table, dict):
        remembered.problems[MODELS] = f"In {path}, models must be a table: [models]."
        return
    for alias, model in table.items():
        key = f"{MODELS}.{alias}"
        if problem := _alias_problem(alias):
            remembered.problems[key] = f"In {path}, [models] names '{shorten(alias, 40)}': {problem}."
            continue
        try:
            remembered.models[alias] = str(ALIASED_MODEL.check(model, f"In {path}, {key}"))
        except UsageError as error:
            remembered.problems[key] = str(error)


def key_of(given: str) -> str:
    """A key in the file's spelling: temp, top_p (also for top-p), models.NAME. Raises `UsageError`."""
    table, dot, alias = given.partition(".")
    if dot and table == MODELS:
        if problem := _alias_problem(alias):
            raise UsageError(f"'{shorten(given, 60)}' is not an alias: {problem}.")
        return given
    key = given.replace("-", "_").lower()
    if key not in SETTINGS:
        raise UsageError(
            f"There is no setting '{shorten(given, 40)}'{_did_you_mean(given)}. To list them: chatcli config"
        )
    return key


def setting_of(key: str) -> Setting:
    """The declaration of a key from `key_of`."""
    return ALIASED_MODEL if key.startswith(f"{MODELS}.") else SETTINGS[key]


def _did_you_mean(given: str) -> str:
    close = difflib.get_close_matches(given.replace("-", "_").lower(), SETTINGS, 1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _alias_problem(alias: str) -> str | None:
    if alias == POCKET:
        return "'pocket' is the built-in model and cannot be another"
    return None if ALIASED_MODEL.holds(alias) else "it needs a name after the dot"


def _text(path: Path) -> str:
    """The file's text; empty if there is no file. Raises `UsageError`."""
    data = _bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path} is not UTF-8 text at line {line}. Fix it with: chatcli config --edit"
        ) from error


def _bytes(path: Path) -> bytes:
    try:
        return files.read_named(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"The settings in {path} cannot be read: {reason}.") from error


def _parse(path: Path, text: str) -> TOMLDocument:
    """Parse TOML. Raises `UsageError` with the line of an error."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    try:
        return tomlkit.parse(text)
    except ParseError as error:
        reason = str(error).rpartition(" at line ")[0].rstrip(".")
        raise UsageError(
            f"{path} is not TOML at line {error.line}: {shorten(reason, 80)}. "
            "Fix it with: chatcli config --edit"
        ) from error


def change(path: Path, key: str, value: Value | None) -> bool:
    """Set `key` in the file, or remove it (None). Returns whether it was there.

    Everything else, including comments, stays. Raises `UsageError` or `FolderError`.
    """
    if value is None and not _bytes(path):
        return False
    import tomlkit

    with _locked(path) as real:
        document = _parse(path, _text(real) or ("" if value is None else FIRST_LINES + "\n"))
        table: Any = document
        name = key
        if key.startswith(f"{MODELS}."):
            name = key.partition(".")[2]
            if MODELS not in document and value is not None:
                document[MODELS] = tomlkit.table()
            table = document.get(MODELS, {})
            if not isinstance(table, dict):
                raise UsageError(f"In {path}, models must be a table. Fix it with: chatcli config --edit")
        was_there = name in table
        if value is not None:
            table[name] = value
        elif was_there:
            del table[name]
        if value is not None or was_there:
            _replace(real, document.as_string())
    return was_there


def text_to_edit(path: Path) -> str:
    """The file's text for an editor. For an empty file, every setting is listed as a comment."""
    known = [f"# {key} = …  {setting.full_help} ({setting.wants})" for key, setting in SETTINGS.items()]
    aliases = ["", "# [models]", f'# fast = "{EXAMPLE_MODEL}"', ""]
    # Bytes that are not UTF-8 are replaced, so that the file can be repaired.
    text = _bytes(path).decode("utf-8-sig", "replace")
    return text or FIRST_LINES + "\n" + "\n".join(known + aliases)


def write(path: Path, text: str) -> None:
    """Replace the file by `text`, atomically. Raises `FolderError`."""
    with _locked(path) as real:
        _replace(real, text)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """Resolve links, create the folder, and lock the file against other processes."""
    with files.explained(f"write the settings to {path}"):
        real = path.resolve()
        files.make_private(real.parent)
        if real.exists() and not real.is_file():
            raise FolderError(f"Cannot write the settings to {path}: it is not a file.")
        with Location.of(real.parent).locked():
            yield real


def _replace(path: Path, text: str) -> None:
    location = Location.of_file(path)
    files.sweep(location.parent)
    files.replace(location, text.encode(), location.parent)
