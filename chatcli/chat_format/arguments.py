"""Chat template arguments: which variables a template reads, and the values that a session gives them."""

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
# The names in use for how much a model is to think, and for whether it is to.
EFFORTS = ("reasoning_effort", "thinking_effort", "think_effort", "effort")
SWITCHES = ("enable_thinking", "thinking")
# The variables that every template is given.
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
    """The Python code, mlx-lm's or of the tokenizer's own class, that takes the place of a template."""
    code = getattr(tokenizer, "_chat_template", None)
    if code is None:
        tokenizer_class = type(getattr(tokenizer, "_tokenizer", tokenizer))
        own = getattr(tokenizer_class, "apply_chat_template", None)
        code = None if own is None or own.__module__.startswith("transformers.") else own
    return code


def template_variables(tokenizer: Any, source: str) -> frozenset[str]:
    """The variables that a tokenizer's template (`source`) reads, but for the standard ones.

    Of Python code they are its parameters. Raises `TemplateCutOff`.
    """
    code = python_renderer(tokenizer)
    if code is None:
        # Only here: `chatcli --help` imports this module, and needs no process.
        from chatcli.chat_format import renderer

        names = renderer.undeclared_variables(source)
    else:
        parameters = inspect.signature(inspect.unwrap(code)).parameters.values()
        named = [each for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        names = frozenset(each.name for each in named)
    special = {name for name in getattr(tokenizer, "special_tokens_map", {}) if name.endswith("_token")}
    return names - STANDARD_VARIABLES - special


def effort_name(variables: frozenset[str]) -> str | None:
    """The variable for the effort in a template with these variables; None: it has none."""
    return next((name for name in EFFORTS if name in variables), None)


def template_arguments(
    variables: frozenset[str], think: bool | None, effort: str | None, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments to render a template with that has these variables.

    `think` and `effort` None leave the template's own default. Those of `arguments` that the template
    does not read are left out.
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
    """Raise `UsageError` if a template with these variables has none for the effort."""
    if effort_name(variables) is None:
        raise UsageError("This model only supports /think on and /think off.")


def check_arguments(variables: frozenset[str], arguments: Mapping[str, Any]) -> None:
    """Raise `UsageError` if a template with these variables does not read one of the arguments."""
    for name in arguments:
        if name in SWITCHES:
            raise UsageError(f"'{name}' is set by --think and --no-think: use those.")
        if name not in variables:
            known = sorted(variables.difference(SWITCHES))
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"This model's chat template has no variable '{name}': {has}.")


def parse_argument(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`, the value parsed as JSON where it can be, else text. Raises `UsageError`."""
    name, equals, value = decodable(text).partition("=")
    if not equals or not name.strip().isidentifier():
        raise UsageError(f"'{text}' is not a template argument: use --template-arg NAME=VALUE.")
    return name.strip(), _parse_value(value)


def _parse_value(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        # Escapes may spell halves of surrogate pairs.
        value = json.loads(decodable(json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return text
    return value if is_shallow(value, MAX_ARGUMENT_DEPTH - 1) else text


def _refuse_constant(name: str) -> Any:
    """Infinity and NaN are no JSON."""
    raise ValueError(name)
