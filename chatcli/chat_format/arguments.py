"""Chat template arguments: the variables that a template reads, and a session's values for them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from chatcli.errors import UsageError
from chatcli.records import is_shallow
from chatcli.store.sessions.transcript import MAX_ARGUMENT_DEPTH
from chatcli.text import decodable

LEVELS = ("low", "medium", "high")
# The names that templates use for how much to think, and for whether to think.
EFFORTS = ("reasoning_effort", "thinking_effort", "think_effort", "effort")
SWITCHES = ("enable_thinking", "thinking")
# Variables that every template receives.
STANDARD_VARIABLES = {
    "messages",
    "conversation",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "tokenize",
    "return_dict",
    "raise_exception",
    "strftime_now",
    "self",
    "kwargs",
}


def python_renderer(tokenizer: Any) -> Callable[..., Any] | None:
    """The Python code that renders in place of a template: mlx-lm's, or the tokenizer class's own."""
    code = getattr(tokenizer, "_chat_template", None)
    if code is None:
        tokenizer_class = type(getattr(tokenizer, "_tokenizer", tokenizer))
        own = getattr(tokenizer_class, "apply_chat_template", None)
        code = None if own is None or own.__module__.startswith("transformers.") else own
    return code


def template_variables(tokenizer: Any, source: str) -> frozenset[str]:
    """The variables that a tokenizer's template (`source`) reads, except the standard ones.

    For Python code these are its parameters. Raises `TemplateCutOff`.
    """
    code = python_renderer(tokenizer)
    if code is None:
        # Imported here because `chatcli --help` imports this module.
        from chatcli.chat_format import renderer

        names = renderer.undeclared_variables(source)
    else:
        parameters = inspect.signature(inspect.unwrap(code)).parameters.values()
        named = [each for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        names = frozenset(each.name for each in named)
    special = {name for name in getattr(tokenizer, "special_tokens_map", {}) if name.endswith("_token")}
    return names - STANDARD_VARIABLES - special


def effort_name(variables: frozenset[str]) -> str | None:
    """The variable that sets the reasoning effort, if there is one."""
    return next((name for name in EFFORTS if name in variables), None)


def template_arguments(
    variables: frozenset[str], think: bool | None, effort: str | None, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments for a template that reads these variables.

    `think` and `effort` None leave the template's own default. `arguments` that the template does not read
    are dropped.
    """
    values: dict[str, Any] = {}
    if think is not None:
        values["enable_thinking"] = think
        values |= {name: think for name in SWITCHES if name in variables}
    name = effort_name(variables)
    if effort is not None and name is not None:
        values[name] = effort
    return values | {name: value for name, value in arguments.items() if name in variables}


def check_effort(variables: frozenset[str]) -> None:
    """Raise `UsageError` if none of a template's variables sets the effort."""
    if effort_name(variables) is None:
        raise UsageError("This model only supports /think on and /think off.")


def check_arguments(variables: frozenset[str], arguments: Mapping[str, Any]) -> None:
    """Raise `UsageError` if an argument is not among a template's variables."""
    for name in arguments:
        if name in SWITCHES:
            raise UsageError(f"'{name}' is set by --think and --no-think: use those.")
        if name not in variables:
            known = sorted(variables.difference(SWITCHES))
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"This model's chat template has no variable '{name}': {has}.")


def parse_argument(text: str) -> tuple[str, Any]:
    """Parse `NAME=VALUE`; the value is JSON if it parses, else text. Raises `UsageError`."""
    name, equals, value = decodable(text).partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"'{text}' is not a template argument: use --template-arg NAME=VALUE.")
    try:
        parsed = json.loads(value, parse_constant=_refuse_constant)
        # Escapes may spell halves of surrogate pairs.
        parsed = json.loads(decodable(json.dumps(parsed, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return name.strip(), value
    return name.strip(), parsed if is_shallow(parsed, MAX_ARGUMENT_DEPTH - 1) else value


def _refuse_constant(name: str) -> Any:
    """Infinity and NaN are not valid JSON."""
    raise ValueError(name)
