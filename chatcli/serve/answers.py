"""Reads a request's response format and tool choice, for all APIs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chatcli.replies.answer_form import JSON_OBJECT, AnswerForm, schema_text
from chatcli.serve.wire import Fields, Json

# The names of the modes of `tool_choice`; `any` is Anthropic's.
MODES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def read_schema(response_format: Fields | None) -> str | None:
    """The schema in a `response_format` or `text.format`; None for text. Raises `BadRequest`."""
    if response_format is None:
        return None
    kind = response_format.get("type", str) or "text"
    if kind == "text":
        return None
    if kind not in ("json_object", "json_schema"):
        raise response_format.wrong("type", "must be text, json_object or json_schema")
    # Only Chat Completions wraps the schema in this object.
    schema = (response_format.object("json_schema") or response_format).get("schema", dict)
    return JSON_OBJECT if schema is None else schema_text(schema)


def choose(
    body: Fields, tools: Sequence[Json], schema: str | None, full_name: Callable[[Fields], str] | None = None
) -> tuple[tuple[Json, ...], AnswerForm | None, bool]:
    """The tools to show, the answer's form, and whether the answer may have only one call.

    `full_name` maps a function in `tool_choice` to the name that the model sees. Raises `BadRequest`.
    """
    mode, names = _read_choice(body, full_name or (lambda function: function.need("name", str)))
    choice = body.values.get("tool_choice")
    parallel = body.get("parallel_tool_calls", bool)
    if isinstance(choice, dict) and Fields(choice, "tool_choice").get("disable_parallel_tool_use", bool):
        parallel = False
    if mode == "none":
        tools = ()
    if mode == "required" and not tools:
        raise body.wrong("tool_choice", "requires a call, but there are no tools that the model can see")
    by_name = {tool["function"]["name"]: tool for tool in tools}
    chosen = by_name
    if names is not None:
        if missing := [name for name in names if name not in by_name]:
            raise body.wrong("tool_choice", f"names a tool that is not in tools: '{missing[0]}'")
        chosen = {name: by_name[name] for name in names}
    one_call = bool(tools) and parallel is False
    if mode == "required":
        # A single named tool is called once.
        several = not one_call and (names is None or len(names) > 1)
        schemas = ((name, arguments_schema(tool)) for name, tool in chosen.items())
        return tuple(tools), AnswerForm(None, tuple(schemas), several), one_call
    tools = tuple(chosen.values())
    answer = None if schema is None else AnswerForm(schema, tuple((name, "") for name in chosen))
    return tools, answer, one_call


def _read_choice(body: Fields, full_name: Callable[[Fields], str]) -> tuple[str, list[str] | None]:
    given: Any = body.values.get("tool_choice")
    kind = given.get("type") if isinstance(given, dict) else given or "auto"
    if isinstance(kind, str) and kind in MODES:
        return MODES[kind], None
    if isinstance(given, dict):
        choice = Fields(given, "tool_choice")
        if kind in ("function", "tool"):
            return "required", [full_name(choice.object("function") or choice)]
        if kind == "allowed_tools":
            allowed = choice.object("allowed_tools") or choice
            names = [full_name(tool.object("function") or tool) for tool in allowed.objects("tools")]
            mode = allowed.need("mode", str)
            if mode in MODES:
                return MODES[mode], names
    raise body.wrong("tool_choice", "must be auto, none, required, or name a tool")


def arguments_schema(tool: Json) -> str:
    """The schema of a tool's arguments; unless it is `strict`, keywords that llguidance lacks are ignored."""
    function = tool["function"]
    schema = {"type": "object", **function["parameters"]}
    return schema_text(schema, lenient=not function.get("strict"))
