"""Declares settings: type and bounds, help, and where each may be set.

A declaration annotates a field in `values`. The config file, the environment, flags, `/set`,
generation_config.json and saved sessions all use it to parse, check and describe values.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

from chatcli.errors import UsageError
from chatcli.text import shorten

# A value as TOML represents it.
Value = str | int | float | bool | list[str]

SWITCH_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
TOKEN_BIAS = re.compile(r"\s*(\d{1,9})\s*:\s*([-+]?\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True)
class Setting(ABC):
    """A setting, which the config file, a CHATCLI_… variable and a flag can set.

    `help` is the flag's help; `full_help` adds `unset`, the effect without a value, if there is no default.
    `generation_config` is the setting's name in a model's generation_config.json. `short`, `metavar` and
    `section` (a heading in the help) are for the flag.
    """

    # The type to which Typer converts the flag's value.
    flag_type: ClassVar[Any] = str
    # The placeholder for a value in the help, if there is no `metavar`.
    placeholder: ClassVar[str] = "TEXT"

    help: str
    unset: str = ""
    generation_config: str = ""
    _: KW_ONLY
    short: str = ""
    metavar: str | None = None
    section: str | None = None

    @property
    def full_help(self) -> str:
        if not self.unset:
            return self.help
        first, more, rest = self.help.removesuffix(".").partition(". ")
        default = f"default: {self.unset})"
        first = f"{first[:-1]}; {default}" if first.endswith(")") else f"{first} ({default}"
        return f"{first}{more}{rest}."

    @property
    @abstractmethod
    def wants(self) -> str:
        """The allowed values, for messages."""

    @abstractmethod
    def parse(self, given: Any) -> Value:
        """Convert a word or an allowed value to the file's form. Raises `ValueError`."""

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Whether a value parsed by TOML, JSON or Typer is allowed."""

    def load(self, value: Any) -> Any:
        """Convert a value from the file's form to that of `Settings`."""
        return value

    def check(self, value: Any, where: str) -> Value:
        """`value` in the file's form. Raises `UsageError` with `where` the value was given."""
        if not self.holds(value):
            given = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            raise UsageError(f"{where} must be {self.wants}, not '{shorten(given, 40)}'.")
        return self.parse(value)

    def check_word(self, word: str, where: str) -> Value:
        """`check` for a word from the command line, the environment or `/set`."""
        try:
            value = self.parse(word)
        except ValueError:
            value = None
        if value is None or not self.holds(value):
            raise UsageError(f"{where} must be {self.wants}, not '{shorten(word, 40)}'.")
        return value


class Text(Setting):
    wants = "text that is not empty"

    def parse(self, given: Any) -> Value:
        return str(given)

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) and bool(value.strip()) and "\0" not in value


class Folder(Text):
    """A path. One in the config file is relative to that file."""

    flag_type = Path
    placeholder = "DIR"

    def holds(self, value: Any) -> bool:
        return super().holds(str(value) if isinstance(value, Path) else value)

    def load(self, value: Any) -> Any:
        return Path(value).expanduser()


class Texts(Setting):
    wants = "text that is not empty, or a list of such texts"
    flag_type = list[str]

    def parse(self, given: Any) -> Value:
        return [given] if isinstance(given, str) else list(given)

    def holds(self, value: Any) -> bool:
        texts = [value] if isinstance(value, str) else value
        # A text may be just a line break.
        return (
            isinstance(texts, list)
            and bool(texts)
            and all(isinstance(text, str) and text != "" and "\0" not in text for text in texts)
        )

    def load(self, value: Any) -> tuple[str, ...]:
        return tuple(value)


class TokenBiases(Setting):
    placeholder = "TOKEN_ID:BIAS"
    wants = "TOKEN_ID:BIAS, such as 42:-5, with a comma between several"
    flag_type = list[str]

    def parse(self, given: Any) -> list[str]:
        words = given if isinstance(given, str) else ",".join(given)
        return [word.strip() for word in words.split(",")]

    def holds(self, value: Any) -> bool:
        if not isinstance(value, str | list) or not all(isinstance(word, str) for word in value):
            return False
        return all(TOKEN_BIAS.fullmatch(word) for word in self.parse(value))

    def load(self, value: Any) -> tuple[tuple[int, float], ...]:
        pairs = (word.split(":") for word in value)
        return tuple((int(token), float(bias)) for token, bias in pairs)


class Switch(Setting):
    wants = "true or false"
    flag_type = bool

    def parse(self, given: Any) -> bool:
        if isinstance(given, bool):
            return given
        if (word := given.strip().lower()) not in SWITCH_WORDS:
            raise ValueError(given)
        return SWITCH_WORDS[word]

    def holds(self, value: Any) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class Float(Setting):
    """A finite number from `min` to `max`, both inclusive; None: no bound."""

    placeholder = "NUMBER"
    noun: ClassVar[str] = "a number"

    _: KW_ONLY
    min: float | None = None
    max: float | None = None

    @property
    def wants(self) -> str:
        if self.max is not None:
            return f"{self.noun} from {self.min} to {self.max}"
        return self.noun if self.min is None else f"{self.noun} ≥ {self.min}"

    def parse(self, given: Any) -> float:
        return float(given)

    def holds(self, value: Any) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        least = float("-inf") if self.min is None else self.min
        most = float("inf") if self.max is None else self.max
        return least <= value <= most and abs(value) != float("inf")


class Int(Float):
    noun = "a whole number"

    def parse(self, given: Any) -> int:
        return int(given)

    def holds(self, value: Any) -> bool:
        return isinstance(value, int) and super().holds(value)


@dataclass(frozen=True)
class Choice(Setting):
    """One of several texts or whole numbers."""

    _: KW_ONLY
    choices: tuple[str, ...] | tuple[int, ...]

    @property
    def wants(self) -> str:
        return f"one of {', '.join(map(str, self.choices))}"

    def parse(self, given: Any) -> Value:
        return type(self.choices[0])(given)

    def holds(self, value: Any) -> bool:
        # 8.0 and True equal whole numbers but are not allowed.
        return isinstance(value, str | int) and not isinstance(value, bool) and value in self.choices


class Size(Setting):
    """Bytes: 800kB, 5GB, 1.5 GiB or a number. The file keeps the spelling."""

    placeholder = "SIZE"
    wants = "a size such as 500MB or 5GiB"

    def parse(self, given: Any) -> str:
        return str(given)

    def holds(self, value: Any) -> bool:
        return isinstance(value, str | int) and SIZE.fullmatch(str(value).strip()) is not None

    def load(self, value: Any) -> int:
        match = SIZE.fullmatch(str(value).strip())
        if not match:
            raise ValueError(value)
        base = 1024 if match[3] else 1000
        return int(float(match[1]) * base ** " kmgt".index((match[2] or " ").lower()))
