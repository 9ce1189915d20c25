"""The formats in which models write tool calls: the mark that begins a call, and the grammar that parses it.

A grammar parses `Incoming` text and adds calls once they are complete. It rejects text that is cut off or
only looks like a call. mlx-lm has parsers for a third of these formats, but they expect the text of a
complete call, and some return a call for any text. They are used only for formats that are not listed here.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import regex

from chatcli.events import ToolCall
from chatcli.replies.incoming import Incoming, Mismatch, Reading

# Exceptions of other libraries' parsers on text that is not a call.
PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, SyntaxError, RecursionError, MemoryError)
# The keys that models use for a call's name and arguments.
NAMES, ARGUMENTS = ("name", "tool_name", "function"), ("arguments", "parameters")
JSON_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    tuple: "array",
    dict: "object",
}
WORDS = {"true": True, "TRUE": True, "false": False, "FALSE": False, "null": None, "NULL": None, "none": None}
# Bounds the recursion in JSON schemas that refer to themselves.
MAX_SCHEMA_DEPTH = 8


@dataclass(frozen=True)
class Tools:
    """The tools that may be called, in the format of chat templates. False if there are none."""

    given: Sequence[Mapping[str, Any]] = ()

    def __bool__(self) -> bool:
        return bool(self.given)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._schemas)

    @property
    def _schemas(self) -> dict[str, Any]:
        functions = [tool.get("function", tool) for tool in self.given if isinstance(tool, Mapping)]
        return {
            each["name"]: each.get("parameters")
            for each in functions
            if isinstance(each, Mapping) and isinstance(each.get("name"), str)
        }

    def types(self, tool: str, parameter: str) -> frozenset[str] | None:
        """The JSON schema types of a parameter; empty for any type, None if it is not declared."""
        schema = self._schemas.get(tool)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(properties, Mapping) or parameter not in properties:
            return None
        return frozenset(_types(properties[parameter], schema, MAX_SCHEMA_DEPTH))


def _types(schema: Any, root: Any, depth: int) -> Iterable[str]:
    if not isinstance(schema, Mapping) or not depth:
        return
    declared = schema.get("type")
    yield from [declared] if isinstance(declared, str) else declared if isinstance(declared, list) else ()
    if schema.get("nullable") is True:
        yield "null"
    if "type" not in schema:
        values = schema["enum"] if isinstance(schema.get("enum"), list) else []
        for value in [*values, *([schema["const"]] if "const" in schema else [])]:
            yield JSON_TYPES.get(type(value), "string")
    if isinstance(reference := schema.get("$ref"), str):
        target = root
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        yield from _types(target, root, depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        for choice in schema[key] if isinstance(schema.get(key), list) else ():
            yield from _types(choice, root, depth - 1)


def convert(text: str, types: frozenset[str] | None, *, undeclared_json: bool) -> Any:
    """Convert a value that was written without quotation marks to one of its declared types.

    `undeclared_json`: the value of an undeclared parameter is parsed as JSON; otherwise it stays text unless
    it is an object or a list. A value that fits no type stays text, and whoever runs the tool will report it.
    """
    value: Any = text
    for read in (_json, ast.literal_eval, WORDS.__getitem__):
        # Models write Python literals where their template does.
        try:
            value = read(text.strip())
            json.dumps(value, allow_nan=False)
            break
        except PARSE_ERRORS:
            value = text
    kind = JSON_TYPES.get(type(value), "string")
    if kind == "string":
        return text
    if not types:
        is_text = types is None and not undeclared_json
        return text if is_text and kind not in ("object", "array") else value
    if kind == "number" and value.is_integer() and "integer" in types and "number" not in types:
        return int(value)
    return value if kind in types or (kind == "integer" and "number" in types) else text


def _json(text: str) -> Any:
    """Parse JSON. NaN and Infinity become NaN, which the caller rejects."""
    return json.loads(text, strict=False, parse_constant=lambda name: float("nan"))


@dataclass
class FoundCalls:
    """The calls that a grammar has parsed, and the position where the last one ends."""

    tools: Tools
    calls: list[ToolCall] = field(default_factory=list)
    end: int = 0

    def add(self, text: Incoming, *calls: ToolCall) -> None:
        self.calls += calls
        self.end = text.at


# Parses the calls after an opening mark. Raises `Mismatch`.
Grammar = Callable[[Incoming, FoundCalls], Reading[None]]


def tool_call(name: Any, arguments: Any, call_id: Any = "") -> ToolCall:
    """A call; `arguments` may already be JSON text. Raises `Mismatch` if the values are not a call."""
    if not isinstance(name, str) or not name:
        raise Mismatch
    try:
        text = (
            arguments
            if isinstance(arguments, str)
            else json.dumps({} if arguments is None else arguments, ensure_ascii=False, allow_nan=False)
        )
    except (ValueError, TypeError, RecursionError):
        raise Mismatch from None
    return ToolCall(name, text, call_id if isinstance(call_id, str) else "")


def consume_end(text: Incoming, end: str, *, optional: bool = False) -> Reading[None]:
    """Consume the closing mark, which may be cut off by the end of the reply. Raises `Mismatch`."""
    if not end or (yield from text.maybe(pattern(rf"\s*{regex.escape(end)}"))) or optional:
        return
    if (yield from text.next_character()) and not end.startswith(text.text[text.at :].strip()):
        raise Mismatch
    text.at = len(text.text)


# `regex` caches compiled patterns, so each reply reuses them.
pattern = partial(regex.compile, flags=regex.DOTALL)


# JSON: an object, a list of objects, or several in a row.


def json_calls(end: str = "", *, optional: bool = False, named_by_key: bool = False) -> Grammar:
    """`optional`: `end` may be missing. `named_by_key`: an object's only key is the call's name."""

    def grammar(text: Incoming, found: FoundCalls) -> Reading[None]:
        calls: list[ToolCall] = []
        more: Any = True
        while more:
            value = yield from text.json()
            for each in value if isinstance(value, list) else [value]:
                if named_by_key and isinstance(each, dict) and len(each) == 1:
                    ((name, arguments),) = each.items()
                    calls.append(tool_call(name, arguments))
                else:
                    calls.append(named_call(each))
            more = yield from text.maybe(pattern(r"\s*[,;]?\s*(?=[{\[])"))
        yield from consume_end(text, end, optional=optional)
        found.add(text, *calls)

    return grammar


def named_call(value: Any) -> ToolCall:
    """A call from an object with its name and arguments. Raises `Mismatch` if it is not a call."""
    if not isinstance(value, dict):
        raise Mismatch
    if isinstance(function := value.get("function"), dict):
        value = {**value, **function}
    name = next((value[key] for key in NAMES if isinstance(value.get(key), str)), None)
    arguments = next((value[key] for key in ARGUMENTS if key in value), None)
    return tool_call(name, arguments, value.get("id"))


# A name, then JSON.


def headed_calls(head: str, tail: str, end: str = "", *, or_list: bool = False) -> Grammar:
    """`head` has the groups `name` and optionally `id`. `or_list`: JSON may replace all of it."""
    heading, tailing = pattern(rf"\s*{head}\s*(?=[{{\[])"), pattern(rf"\s*{tail}" if tail else "")
    ending = pattern(rf"\s*{regex.escape(end)}")

    def grammar(text: Incoming, found: FoundCalls) -> Reading[None]:
        if or_list and (yield from text.next_character()) == "[":
            yield from json_calls()(text, found)
            return
        match: Any = yield from text.expect(heading)
        while match:
            arguments = yield from text.json()
            yield from text.expect(tailing)
            found.add(text, tool_call(match["name"].strip(), arguments, match.groupdict().get("id")))
            match = yield from text.maybe(heading)
        if end and (yield from text.maybe(ending)):
            found.add(text)

    return grammar


# A name and arguments between tags, with unquoted values.


@dataclass(frozen=True)
class Tags:
    """The tags of a call: patterns that open it (group `name`) and an argument (groups `key`, maybe `kind`).

    `closes_argument` and `closes_call` are texts. Without the latter, a call ends at the closing mark of all.
    """

    opens_call: str
    opens_argument: str
    closes_argument: str
    closes_call: str = ""
    # Around arguments that are one JSON object.
    opens_json: str = "(?!)"
    closes_json: str = ""
    # The format adds a line break at each edge of a value.
    line_breaks: bool = False
    undeclared_json: bool = False


def tagged_calls(tags: Tags, end: str, *, optional: bool = False) -> Grammar:
    """`optional`: `end` may be missing."""
    opening, argument = pattern(rf"\s*{tags.opens_call}"), pattern(rf"\s*{tags.opens_argument}")
    opens_json, closes_json = (
        pattern(rf"\s*{tags.opens_json}"),
        pattern(rf"\s*{regex.escape(tags.closes_json)}"),
    )
    closing = pattern(rf"\s*{regex.escape(tags.closes_call or end)}")
    # A closing tag inside a value is followed by something else.
    after = rf"(?=\s*(?:{tags.opens_argument}|{regex.escape(tags.closes_call or end)}))"
    value_end = pattern(regex.escape(tags.closes_argument) + after)

    def grammar(text: Incoming, found: FoundCalls) -> Reading[None]:
        match: Any = yield from text.expect(opening)
        calls: list[ToolCall] = []
        while match:
            name, arguments = _unescaped(match["name"].strip()), {}
            if (yield from text.maybe(opens_json)):
                arguments = yield from text.json()
                yield from text.expect(closes_json)
            while head := (yield from text.maybe(argument)):
                key, kind = _unescaped(head["key"].strip()), head.groupdict().get("kind")
                value = yield from text.until(value_end)
                arguments[key] = _value(value, kind, tags, found.tools.types(name, key))
            if not (tags.closes_call or arguments or name in found.tools.names):
                raise Mismatch  # a word between two marks
            yield from text.expect(closing)
            calls.append(tool_call(name, arguments))
            match = tags.closes_call and (yield from text.maybe(opening))
        if tags.closes_call:
            yield from consume_end(text, end, optional=optional)
        found.add(text, *calls)

    return grammar


def _unescaped(text: str) -> str:
    return text.replace("&quot;", '"').replace("&amp;", "&")


def _value(text: str, kind: str | None, tags: Tags, types: frozenset[str] | None) -> Any:
    """The value of an argument. Its `kind`, if given, tells whether it is text."""
    if tags.line_breaks and text.startswith("\n"):
        text = text[1:].removesuffix("\n")
    if match := regex.fullmatch(r"\s*<!\[CDATA\[(.*)\]\]>\s*", text, flags=regex.DOTALL):
        return match[1]
    if kind in ("true", "string"):
        return text
    if kind is not None:
        return convert(text, frozenset(), undeclared_json=True)
    return convert(text, types, undeclared_json=tags.undeclared_json)


def functions(end: str, *, optional: bool = False) -> Grammar:
    """`<function=name>`, then parameters in tags or a JSON object, and `</function>`."""
    tags = Tags(
        r"<function=(?P<name>[^<>\s]+)\s*>",
        r"<parameter=(?P<key>[^<>\n]+)>",
        "</parameter>",
        "</function>",
        opens_json=r"(?=\{)",
        line_breaks=True,
    )
    return tagged_calls(tags, end, optional=optional)


def tool_call_tag(end: str) -> Grammar:
    """The content of `<tool_call>`: JSON (Hermes, Qwen3), functions (Qwen3-Coder) or pairs of tags (GLM)."""
    pairs = Tags(
        rf"(?P<name>[^\s<>{{\[]+)(?=\s*(?:<arg_key>|{regex.escape(end)}))",
        r"<arg_key>(?P<key>[^<>]*)</arg_key>\s*<arg_value>",
        "</arg_value>",
        undeclared_json=True,
    )
    as_json, as_functions, as_pairs = json_calls(end), functions(end), tagged_calls(pairs, end)

    def grammar(text: Incoming, found: FoundCalls) -> Reading[None]:
        first = yield from text.next_character()
        chosen = as_json if first in ("{", "[") else as_functions if first == "<" else as_pairs
        yield from chosen(text, found)

    return grammar


def invocations(prefix: str, end: str) -> Grammar:
    """`<invoke name="…">` and `<parameter name="…">` (MiniMax-M2), with `prefix` before these tag names."""
    mark = regex.escape(prefix)
    tags = Tags(
        rf"<{mark}invoke\s+name=[\"']?(?P<name>[^\"'<>\s]+)[\"']?\s*>",
        rf"<{mark}parameter\s+name=[\"']?(?P<key>[^\"'<>]+)[\"']?(?:\s+string=\"(?P<kind>true|false)\")?[^<>]*>",
        f"</{prefix}parameter>",
        f"</{prefix}invoke>",
    )
    return tagged_calls(tags, end)


# Gemma: `call:name{key:value,…}` with special marks around strings.


def braced_calls(quote: str, end: str) -> Grammar:
    """`quote` is the mark around strings."""
    mark = regex.escape(quote)
    heading, ending = pattern(r"\s*call:(?P<name>[\w.-]+)\s*(?=\{)"), pattern(mark)
    opening = pattern(r"\s*[{\[]")
    first = pattern(r"(?=\s*[}\]])")
    naming = pattern(rf"\s*(?:{mark}(?P<key>.*?){mark}|(?P<key>[^:{{}}\[\],<>\s]+))\s*:")
    value = pattern(rf"\s*(?:(?P<quote>{mark})|(?P<open>(?=[{{\[]))|(?P<bare>[^,<>{{}}\[\]]+)(?=[,}}\]]))")
    following = pattern(r"\s*(?:,|(?P<close>[}\]]))")

    def read(text: Incoming, depth: int) -> Reading[Any]:
        if depth > MAX_SCHEMA_DEPTH * 4:
            raise Mismatch
        is_object = (yield from text.expect(opening))[0].endswith("{")
        items: list[tuple[str, Any]] = []
        closes: Any = yield from text.maybe(first)
        if closes:
            yield from text.expect(following)
        while not closes:
            key = (yield from text.expect(naming))["key"] if is_object else ""
            match = yield from text.expect(value)
            if match["quote"]:
                item: Any = yield from text.until(ending)
            elif match["bare"] is not None:
                item = convert(match["bare"].strip(), frozenset(), undeclared_json=True)
            else:
                item = yield from read(text, depth + 1)
            items.append((key, item))
            closes = (yield from text.expect(following))["close"]
        return dict(items) if is_object else [item for _, item in items]

    def grammar(text: Incoming, found: FoundCalls) -> Reading[None]:
        match: Any = yield from text.expect(heading)
        calls: list[ToolCall] = []
        while match:
            calls.append(tool_call(match["name"], (yield from read(text, 0))))
            match = yield from text.maybe(heading)
        yield from consume_end(text, end)
        found.add(text, *calls)

    return grammar


# Python: `name(key="value", …)`, several of them in a list or in a row.


def python_calls(end: str = "", names: str = r"[\w.]+") -> Grammar:
    """`names` is a pattern of the names that are recognized."""
    heading = pattern(rf"\s*[,;]?\s*(?P<name>{names})\s*(?=\()")
    listed, unlisted = pattern(rf"\s*\[(?=\s*{names}\s*\()"), pattern(r"\s*\]")
    step = pattern(r"[^\[\](){}\"']*(?P<mark>[\[\](){}\"'])")
    # MiniCPM3 writes its calls as a block of code.
    fence = pattern(r"\s*```(?:python)?(?=[\s<])")

    def grammar(text: Incoming, found: FoundCalls) -> Reading[None]:
        yield from text.maybe(fence)
        in_list = yield from text.maybe(listed)
        match: Any = yield from text.expect(heading)
        calls: list[ToolCall] = []
        while match:
            start, depth = text.at, 0
            while True:
                mark = (yield from text.expect(step))["mark"]
                if mark in ("'", '"'):
                    yield from text.string(mark)
                    continue
                depth += 1 if mark in "([{" else -1
                if not depth:
                    break
            calls.append(tool_call(match["name"], _keywords(text.text[start : text.at])))
            match = yield from text.maybe(heading)
        if in_list:
            yield from text.expect(unlisted)
        yield from text.maybe(fence)
        yield from consume_end(text, end)
        found.add(text, *calls)

    return grammar


class _JSONNames(ast.NodeTransformer):
    """Replaces JSON's true, false and null, which templates write in nested values."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(WORDS[node.id]) if node.id in WORDS else node


def _keywords(source: str) -> dict[str, Any]:
    """The keyword arguments in parentheses. Raises `Mismatch`."""
    try:
        call = ast.parse(f"dict{source}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise Mismatch
        return {
            str(each.arg): ast.literal_eval(_JSONNames().visit(each.value))
            for each in call.keywords
            if each.arg is not None
        }
    except PARSE_ERRORS:
        raise Mismatch from None


# Llama 3 and 4: the whole reply is a call, in JSON or Python.


def bare_calls(text: Incoming, found: FoundCalls) -> Reading[None]:
    """Accepts only replies that are nothing but calls of known tools: any JSON may look like a call."""
    names = "|".join(map(regex.escape, sorted(found.tools.names))) or "(?!)"
    yield from text.maybe(pattern(r"\s*(?:<\|python_tag\|>|<\|python_start\|>)"))
    kind = r"\"type\"\s*:\s*\"function\"\s*,\s*"
    in_json = pattern(rf"(?=\s*\{{\s*(?:{kind})?\"(?:name|function)\"\s*:\s*\"(?:{names})\")")
    end, whole = "<|python_end|>", FoundCalls(found.tools)
    grammar = json_calls(end) if (yield from text.maybe(in_json)) else python_calls(end, f"(?:{names})")
    yield from grammar(text, whole)
    if (yield from text.next_character()) or not {call.name for call in whole.calls} <= found.tools.names:
        raise Mismatch
    found.add(text, *whole.calls)


def parsed_by(parse: Callable[..., Any], end: str) -> Grammar:
    """A grammar that passes the text up to `end`, or the end of the reply, to a parser of mlx-lm."""

    def grammar(text: Incoming, found: FoundCalls) -> Reading[None]:
        if end:
            body = yield from text.until(pattern(regex.escape(end)))
        else:
            body = yield from text.rest()
        try:
            parsed = parse(body, [*found.tools.given])
        except PARSE_ERRORS:
            raise Mismatch from None
        found.add(text, *map(named_call, parsed if isinstance(parsed, list) else [parsed]))

    return grammar


def forced_call(text: Incoming, found: FoundCalls) -> Reading[None]:
    value = yield from text.json()
    found.add(text, named_call(value))


@dataclass(frozen=True)
class CallFormat:
    """`start` is the mark that begins calls; `included`: the grammar parses it too.

    A model uses the format if one of `signs` (default: `start`) is in its template or vocabulary.
    """

    start: str
    grammar: Grammar
    signs: tuple[str, ...] = ()
    included: bool = False


XTML = Tags(
    r"<\|open\|>call(?=[^<>]*\stool=\"(?P<name>[^\"]*)\")[^<>]*<\|sep\|>",
    r"<\|open\|>(?:argument(?=[^<>]*\skey=\"(?P<key>[^\"]*)\")(?=[^<>]*\stype=\"(?P<kind>\w+)\")?[^<>]*)<\|sep\|>",
    "<|close|>argument<|sep|>",
    "<|close|>call<|sep|>",
    opens_json=r"<\|open\|>json[^<>]*<\|sep\|>",
    closes_json="<|close|>json<|sep|>",
)
LONGCAT = Tags(
    r"(?P<name>[^\s<>]+)(?=\s*<)",
    r"<longcat_arg_key>(?P<key>[^<>]*)</longcat_arg_key>\s*<longcat_arg_value>",
    "</longcat_arg_value>",
    undeclared_json=True,
)
MINICPM = Tags(
    r"<function\s+name=[\"']?(?P<name>[^\"'<>\s]+)[\"']?\s*>",
    r"<param\s+name=[\"']?(?P<key>[^\"'<>]+)[\"']?\s*>",
    "</param>",
    "</function>",
)
KIMI = headed_calls(
    r"<\|tool_call_begin\|>\s*(?P<id>(?:functions\.)?(?P<name>[^\s:<>]+):\d+)\s*<\|tool_call_argument_begin\|>",
    r"<\|tool_call_end\|>",
    "<|tool_calls_section_end|>",
)
DEEPSEEK = headed_calls(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>(?P<name>[^\n<>]+)\n\s*```(?:json)?|(?!function<)(?P<name>[^\n<>]+)<｜tool▁sep｜>)",
    r"(?:```)?\s*<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
)
CALL_FORMATS = (
    CallFormat("<tool_call>", tool_call_tag("</tool_call>")),
    CallFormat("<function=", functions("</tool_call>", optional=True), ("<function=", "qwen3_coder"), True),
    CallFormat("<function name=", tagged_calls(MINICPM, ""), ('<function name="',), included=True),
    CallFormat("<seed:tool_call>", functions("</seed:tool_call>")),
    CallFormat("<minimax:tool_call>", invocations("", "</minimax:tool_call>")),
    CallFormat("<atem:function_calls>", invocations("atem:", "</atem:function_calls>")),
    CallFormat(
        "<｜DSML｜function_calls>",
        invocations("｜DSML｜", "</｜DSML｜function_calls>"),
        ("｜DSML｜", "dsml_token"),
    ),
    CallFormat(
        "<｜DSML｜tool_calls>", invocations("｜DSML｜", "</｜DSML｜tool_calls>"), ("｜DSML｜", "dsml_token")
    ),
    CallFormat("<longcat_tool_call>", tagged_calls(LONGCAT, "</longcat_tool_call>")),
    CallFormat("<|open|>tools<|sep|>", tagged_calls(XTML, "<|close|>tools<|sep|>"), ("<|open|>",)),
    CallFormat("<|tool_calls_section_begin|>", KIMI),
    CallFormat("<|tool_call_begin|>", KIMI, ("<|tool_call_begin|>", "kimi_k2"), True),
    CallFormat("<｜tool▁calls▁begin｜>", DEEPSEEK),
    CallFormat("<｜tool▁call▁begin｜>", DEEPSEEK, included=True),
    CallFormat(
        "[TOOL_CALLS]",
        headed_calls(r"(?P<name>[\w.-]+)\s*(?:\[CALL_ID\](?P<id>[^\[\]\s]*)\s*)?\[ARGS\]", "", or_list=True),
    ),
    CallFormat("<|tool_call>", braced_calls('<|"|>', "<tool_call|>")),
    CallFormat("<start_function_call>", braced_calls("<escape>", "<end_function_call>")),
    CallFormat(
        "<|tool_call_start|>",
        python_calls("<|tool_call_end|>"),
        ("<|tool_call_start|>", "<|tool_list_start|>"),
    ),
    CallFormat("<function_calls>", python_calls("</function_calls>")),
    CallFormat("<|tools_prefix|>", json_calls("<|tools_suffix|>", named_by_key=True)),
    CallFormat("<TOOLCALL>", json_calls("</TOOLCALL>")),
    CallFormat("<|START_ACTION|>", json_calls("<|END_ACTION|>")),
    CallFormat("<|tool_call|>", json_calls("<|/tool_call|>", optional=True)),
    CallFormat("<tool_calls>", json_calls("</tool_calls>")),
    CallFormat("<|action_start|><|plugin|>", json_calls("<|action_end|>"), ("<|action_start|>",)),
    CallFormat("<|function_call|>", json_calls()),
    CallFormat("function call<|role_sep|>", json_calls(), ("<|role_sep|>",)),
    CallFormat("functools", json_calls()),
)
# Calls that structured output forces (`engine/structured.py`), in JSON, one on each line.
FORCED_CALL = '{"name": "'
FORCED_CALLS = {
    start: CallFormat(start, forced_call, included=True) for start in (FORCED_CALL, f"\n{FORCED_CALL}")
}
# Tokens of models that write bare calls.
BARE_SIGNS = ("<|python_tag|>", "<|eom_id|>", "<|start_header_id|>", "<|header_start|>")
