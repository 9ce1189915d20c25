"""What a session tells a chat template by name: effort, switches, arguments; refuses to know templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chatcli.errors import UsageError
from chatcli.store.sessions.transcript import DEEPEST_ARGUMENT, is_shallow
from chatcli.text import decodable

LEVELS = ("low", "medium", "high")
# The names in use for how much a model is to think, and for whether it is to.
EFFORTS = ("reasoning_effort", "thinking_effort", "think_effort", "effort")
SWITCHES = ("enable_thinking", "thinking")


def effort_name(read: frozenset[str]) -> str | None:
    """The name by which a template that reads these is told the effort; None: it has none."""
    return next((name for name in EFFORTS if name in read), None)


def told(
    read: frozenset[str], think: bool | None, effort: str | None, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """What a template that reads these is told. What it does not know is left out."""
    found: dict[str, Any] = {}
    if think is not None:
        found["enable_thinking"] = think
        found |= {name: think for name in SWITCHES if name in read}
    name = effort_name(read)
    if effort is not None and name is not None:
        found[name] = effort
    return found | {name: value for name, value in arguments.items() if name in read}


def check_effort(read: frozenset[str]) -> None:
    """Raise `UsageError` if a template that reads these cannot be told an effort."""
    if effort_name(read) is None:
        raise UsageError(
            "This model's chat template has no thinking effort: /think on and /think off are all "
            "that can be said."
        )


def check_arguments(read: frozenset[str], arguments: Mapping[str, Any]) -> None:
    """Raise `UsageError` if a template that reads these does not know one of the arguments."""
    for name in arguments:
        if name in SWITCHES:
            raise UsageError(f"'{name}' is what --think and --no-think set: say that instead.")
        if name not in read:
            known = sorted(read.difference(SWITCHES))
            has = f"it knows {', '.join(known)}" if known else "it knows none that can be set"
            raise UsageError(f"This model's chat template does not know '{name}': {has}.")


def argument(word: str) -> tuple[str, Any]:
    """`key=value`, the value JSON where it parses, else text. Raises `UsageError`."""
    name, equals, value = decodable(word).partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"'{word}' is no template argument: give --template-arg NAME=VALUE.")
    return name.strip(), _value(value)


def _value(text: str) -> Any:
    try:
        found = json.loads(text, parse_constant=_no_number)
        # Escapes may spell half characters.
        plain = json.loads(decodable(json.dumps(found, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return text
    return plain if is_shallow(plain, DEEPEST_ARGUMENT - 1) else text


def _no_number(word: str) -> Any:
    """Infinity and what is not a number are no JSON."""
    raise ValueError(word)
