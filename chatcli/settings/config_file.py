"""Remembered settings: what they are, and the TOML file that holds them; refuses to know the environment.

tomlkit keeps comments, order and what a newer version wrote. It is imported only where there is
a file to read or to write.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcli import files
from chatcli.errors import FolderError, UsageError
from chatcli.settings.values import (
    KV_BITS,
    KV_GROUP_SIZES,
    LEAST_KV_SIZE,
    MOST_DRAFT_TOKENS,
    MOST_XTC_THRESHOLD,
    PANELS,
    POCKET,
)
from chatcli.text import shorten

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

Value = str | int | float | bool | list[str]

MODELS = "models"
# Settings that are paths.
FOLDERS = ("sessions", "adapter_path")
BIAS = re.compile(r"\s*(\d{1,9})\s*:\s*([-+]?\d+(?:\.\d+)?)\s*")
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
SWITCH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
# A writer that was killed leaves one of these beside the file.
SCRATCH = "[0-9]*-" + "[0-9a-f]" * 32
FIRST_LINES = """\
# Settings of chatcli. An option on the command line and a CHATCLI_… variable win over them.
# `chatcli config` shows what holds.
"""


@dataclass(frozen=True)
class Kind:
    """What a setting holds. `make` builds the value from a word or from what TOML says."""

    wants: str
    make: Callable[[Any], Value]
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Setting:
    """`about` tells what it does, `unset` what happens where nothing sets it and there is no default."""

    kind: Kind
    about: str
    unset: str = ""


def _number(make: Callable[[Any], Value], wants: str, low: float, high: float | None) -> Kind:
    types = (int,) if make is int else (int, float)
    # Not a number and infinity are neither.
    most = float("inf") if high is None else high

    def holds(value: Any) -> bool:
        right = isinstance(value, types) and not isinstance(value, bool)
        return right and low <= value <= most and abs(value) != float("inf")

    return Kind(wants, make, holds)


def _choice(choices: tuple[int, ...]) -> Kind:
    def holds(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value in choices

    return Kind(f"one of {', '.join(map(str, choices))}", int, holds)


def _texts(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _are_texts(value: Any) -> bool:
    texts = [value] if isinstance(value, str) else value
    return isinstance(texts, list) and bool(texts) and all(_is_part(text) for text in texts)


def _is_part(text: Any) -> bool:
    """Some text, if only a line break."""
    return isinstance(text, str) and text != "" and "\0" not in text


def _biases(given: str | list[str]) -> list[str]:
    """One ID:BIAS each."""
    words = ",".join(_texts(given)).split(",")
    return [word.strip() for word in words]


def _are_biases(value: Any) -> bool:
    if not isinstance(value, str | list) or not all(isinstance(one, str) for one in value):
        return False
    return all(BIAS.fullmatch(word) for word in _biases(value))


def bias_of(word: str) -> tuple[int, float]:
    """The token id and the bias of an ID:BIAS. Raises `ValueError`."""
    found = BIAS.fullmatch(word)
    if not found:
        raise ValueError(word)
    return int(found[1]), float(found[2])


def _switch(given: Any) -> bool:
    return given if isinstance(given, bool) else SWITCH[given.strip().lower()]


def size_of(given: str | int) -> int:
    """Bytes: 800kB, 5GB, 1.5 GiB or a number. Raises `ValueError`."""
    found = SIZE.fullmatch(str(given).strip())
    if not found:
        raise ValueError(given)
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " kmgt".index((found[2] or " ").lower()))


def _is_size(value: Any) -> bool:
    return isinstance(value, str | int) and SIZE.fullmatch(str(value).strip()) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


TEXT = Kind("text that is not empty", str, _is_text)
SWITCHED = Kind("true or false", _switch, lambda value: isinstance(value, bool))
SHARE = _number(float, "a number from 0 to 1", 0, 1)
COUNT = _number(int, "a whole number of at least 0", 0, None)
SIZED = Kind("a size such as 500MB or 5GiB", str, _is_size)
FROM_ONE = _number(int, "a whole number of at least 1", 1, None)
ANY = _number(float, "a number", float("-inf"), None)
OWN = "as the model's makers say"
SETTINGS = {
    "model": Setting(TEXT, "a folder, a hub name, an alias from [models], or 'pocket'"),
    "temp": Setting(_number(float, "a number of at least 0", 0, None), "sampling temperature (0: none)", OWN),
    "top_p": Setting(SHARE, "top-p (1: off)", OWN),
    "top_k": Setting(COUNT, "top-k (0: off)", OWN),
    "min_p": Setting(SHARE, "min-p (0: off)", OWN),
    "repetition_penalty": Setting(
        _number(float, "a number of at least 0.1", 0.1, None), "repetition penalty (1: off)", OWN
    ),
    "presence_penalty": Setting(ANY, "taken from tokens that were there (0: off)", OWN),
    "frequency_penalty": Setting(ANY, "taken each time that a token was there (0: off)", OWN),
    "repetition_context_size": Setting(
        COUNT, "tokens that the penalties look back over (0: all)", "20, as in mlx-lm"
    ),
    "xtc_probability": Setting(SHARE, "how often XTC leaves out the likeliest (0: off)", "off"),
    "xtc_threshold": Setting(
        _number(float, f"a number from 0 to {MOST_XTC_THRESHOLD}", 0, MOST_XTC_THRESHOLD),
        "the probability that XTC takes for likely",
        "0.1, as in mlx-lm",
    ),
    "min_tokens_to_keep": Setting(FROM_ONE, "tokens that min-p leaves in any case", "1"),
    "logit_bias": Setting(
        Kind("TOKEN_ID:BIAS, such as 42:-5, with a comma between several", _biases, _are_biases),
        "what is added to tokens' logits",
        "nothing",
    ),
    "stop": Setting(
        Kind("text that is not empty, or a list of such texts", _texts, _are_texts),
        "texts before which a reply ends",
        OWN,
    ),
    "seed": Setting(COUNT, "sampling seed", "another at every start"),
    "max_tokens": Setting(FROM_ONE, "longest reply, thinking included", "the model's own, else the context"),
    "think_budget": Setting(
        COUNT, "most tokens of thinking before the answer begins", "as many as the model likes"
    ),
    "think": Setting(SWITCHED, "the model's thinking", "as the model's template has it"),
    "cache": Setting(SWITCHED, "read and write checkpoints"),
    "draft": Setting(SWITCHED, "prefill a message while it is typed"),
    "max_kv_size": Setting(
        _number(int, f"a whole number of at least {LEAST_KV_SIZE}", LEAST_KV_SIZE, None),
        "most tokens that a model's KV cache remembers, the first 4 always",
        "all",
    ),
    "kv_bits": Setting(
        _choice(KV_BITS), "bits of a quantized KV cache, from the first token on", "not quantized"
    ),
    "kv_group_size": Setting(_choice(KV_GROUP_SIZES), "numbers that are quantized together"),
    "prefill_step_size": Setting(
        FROM_ONE, "tokens that are prefilled at a time", "64 on a CPU, 2048 on a GPU"
    ),
    "adapter_path": Setting(TEXT, "a folder with a LoRA or another adapter of the model", "none"),
    "draft_model": Setting(
        TEXT, "a small model that proposes a reply's tokens, named as model is, or 'none'", "none"
    ),
    "num_draft_tokens": Setting(
        _number(int, f"a whole number from 1 to {MOST_DRAFT_TOKENS}", 1, MOST_DRAFT_TOKENS),
        "tokens that the draft model proposes at a time",
    ),
    "pipeline": Setting(
        SWITCHED, "give each rank of mlx.launch layers of its own, not a part of every layer"
    ),
    "cache_limit": Setting(
        SIZED,
        "most that checkpoints may take on disk",
        "20 GiB or a tenth of the free disk",
    ),
    "memory_limit": Setting(
        SIZED, "most that a model and its cache may take in memory", "what the device recommends"
    ),
    "sessions": Setting(TEXT, "the folder of sessions"),
    "panel": Setting(
        Kind(f"one of {', '.join(PANELS)}", str, lambda value: value in PANELS),
        "what is shown of each turn's reuse",
    ),
    "trust_remote_code": Setting(SWITCHED, "run code that comes with a model, which can do whatever you can"),
    "system": Setting(TEXT, "system prompt of sessions that are begun", "none"),
}


@dataclass(frozen=True)
class Remembered:
    """What the file says: values by key, aliases of models, and sentences about the rest of it.

    `unknown` may come from a newer version; `problems` keep a run from starting.
    """

    values: dict[str, Value] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def take(self, path: Path, key: str, said: Any) -> None:
        """Put one entry of the file where it belongs."""
        if key == MODELS and isinstance(said, dict):
            for alias, model in said.items():
                self._take_alias(path, alias, model)
        elif key == MODELS:
            self.problems[key] = f"In {path}, models has to be a table: [models]."
        elif key not in SETTINGS:
            name = shorten(key, 40)
            self.unknown[key] = f"{path} sets '{name}', which is not known here{_nearest(key)}."
        elif (value := self._checked(path, key, said)) is not None:
            self.values[key] = _from_there(path, key, value)

    def _take_alias(self, path: Path, alias: str, said: Any) -> None:
        key = f"{MODELS}.{alias}"
        if reason := _alias_problem(alias):
            self.problems[key] = f"In {path}, [models] names '{shorten(alias, 40)}': {reason}."
        elif (value := self._checked(path, key, said)) is not None:
            self.models[alias] = str(value)

    def _checked(self, path: Path, key: str, said: Any) -> Value | None:
        kind = kind_of(key)
        if kind.holds(said):
            return kind.make(said)
        shown = shorten(str(said), 40)
        self.problems[key] = f"In {path}, {key} has to be {kind.wants}, not '{shown}'."
        return None


def key_of(given: str) -> str:
    """A key as the file spells it: temp, top_p (or top-p), models.NAME. Raises `UsageError`."""
    table, dot, alias = given.partition(".")
    if dot and table == MODELS:
        if reason := _alias_problem(alias):
            raise UsageError(f"'{shorten(given, 60)}' is no alias: {reason}.")
        return given
    key = given.replace("-", "_").lower()
    if key not in SETTINGS:
        raise UsageError(f"There is no setting '{shorten(given, 40)}'{_nearest(given)}.")
    return key


def _nearest(given: str) -> str:
    close = difflib.get_close_matches(given.replace("-", "_").lower(), SETTINGS, 1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _alias_problem(alias: str) -> str | None:
    if alias == POCKET:
        return "'pocket' is the built-in model and cannot be another"
    return None if _is_text(alias) else "it needs a name after the dot"


def kind_of(key: str) -> Kind:
    return TEXT if key.startswith(f"{MODELS}.") else SETTINGS[key].kind


def from_word(key: str, word: str, where: str) -> Value:
    """The value of `key` that a word of the command line or the environment means.

    Raises `UsageError`, which names `where` the word was.
    """
    try:
        value = kind_of(key).make(word)
    except (ValueError, KeyError):
        value = word
    return checked(key, value, where, word)


def checked(key: str, value: Value, where: str, word: str | None = None) -> Value:
    """`value`, if it is one of `key`, as it is kept. Raises `UsageError` as `from_word` does.

    `word` is how it was given.
    """
    kind = kind_of(key)
    if not kind.holds(value):
        said = ", ".join(value) if isinstance(value, list) else str(value)
        raise UsageError(f"{where} has to be {kind.wants}, not '{shorten(word or said, 40)}'.")
    return kind.make(value)


def read(path: Path) -> Remembered:
    """What the file at `path` says; nothing where there is none. Never raises for its contents."""
    try:
        text = _text(path)
        said = _parse(path, text).unwrap() if text.strip() else {}
    except UsageError as error:
        return Remembered(problems={"": str(error)})
    found = Remembered()
    for key, value in said.items():
        found.take(path, key, value)
    return found


def _from_there(path: Path, key: str, value: Value) -> Value:
    """A folder in the file is meant from there, wherever chatcli runs."""
    return str(path.parent / Path(str(value)).expanduser()) if key in FOLDERS else value


def _text(path: Path) -> str:
    """The file's text, empty where there is none. Raises `UsageError`."""
    data = _bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path} is not UTF-8 text at line {line}: mend it with chatcli config --edit."
        ) from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"The settings in {path} cannot be read: {reason}.") from error


def _parse(path: Path, text: str) -> TOMLDocument:
    """Raises `UsageError` with the line that is not TOML."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    try:
        return tomlkit.parse(text)
    except ParseError as error:
        reason = str(error).rpartition(" at line ")[0].rstrip(".")
        raise UsageError(
            f"{path} is not TOML at line {error.line}: {shorten(reason, 80)} "
            "(mend it with chatcli config --edit)."
        ) from error


def change(path: Path, key: str, value: Value | None) -> bool:
    """Set `key` in the file, or take it out (None). Returns whether it was there.

    The rest stays as it is, comments too. Raises `UsageError` or `FolderError`.
    """
    if value is None and not _bytes(path):
        return False
    with _alone(path) as real:
        text = _text(real)
        document = _parse(path, text or ("" if value is None else FIRST_LINES + "\n"))
        was_there = _change(document, path, key, value)
        if value is not None or was_there:
            _write(real, document.as_string())
    return was_there


def _change(document: TOMLDocument, path: Path, key: str, value: Value | None) -> bool:
    table: Any = document
    name = key
    if key.startswith(f"{MODELS}."):
        name = key.partition(".")[2]
        table = _models(document, path, make=value is not None)
    was_there = name in table
    if value is not None:
        table[name] = value
    elif was_there:
        del table[name]
    return was_there


def _models(document: TOMLDocument, path: Path, *, make: bool) -> Any:
    import tomlkit

    if MODELS not in document and make:
        document[MODELS] = tomlkit.table()
    models: Any = document.get(MODELS, {})
    if not isinstance(models, dict):
        raise UsageError(f"In {path}, models has to be a table: mend it with chatcli config --edit.")
    return models


def text_to_edit(path: Path) -> str:
    """The file as a person edits it: where it is empty, every setting as a comment."""
    known = [f"# {key} = …  {one.about}: {one.kind.wants}" for key, one in SETTINGS.items()]
    aliases = ["", "# [models]", '# fast = "mlx-community/Qwen3.5-4B-4bit"', ""]
    # What is not UTF-8 is replaced, so that it can be mended.
    text = _bytes(path).decode("utf-8-sig", "replace")
    return text or FIRST_LINES + "\n" + "\n".join(known + aliases)


def write(path: Path, text: str) -> None:
    """Put `text` in the place of the file, whole or not at all. Raises `FolderError`."""
    with _alone(path) as real:
        _write(real, text)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[Path]:
    """The file behind links, in a folder that is made, while no other process changes it."""
    with files.explained(f"write the settings to {path}"):
        real = path.resolve()
        files.make_private(real.parent)
        if real.exists() and not real.is_file():
            raise FolderError(f"Cannot write the settings to {path}: it is not a file.")
        descriptor = os.open(real.parent, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield real
        finally:
            os.close(descriptor)


def _write(path: Path, text: str) -> None:
    files.sweep(path.parent, SCRATCH)
    files.replace(path, text.encode(), path.parent)
