"""Converts messages to the forms that a chat template supports: roles, tool calls, results, typed parts.

`ladder` learns the forms. They depend on the template alone, never on the content of messages.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chatcli.conversation.tree import Message

Json = dict[str, Any]

# Every template accepts such an id (Mistral's require nine letters and digits).
NINE = re.compile("[a-zA-Z0-9]{9}")
# Templates use three names for thinking. Those that drop old thinking ignore them.
THINKING_NAMES = ("reasoning_content", "reasoning", "thinking")
# Separates texts that are joined into one message.
BETWEEN = "\n\n"


@dataclass(frozen=True, eq=False)
class SafeCall:
    """A call whose texts cannot spell control tokens.

    `text` is its arguments, and `value` the same parsed as JSON, or `text` again if it is not JSON.
    """

    name: str
    text: str
    value: Any
    id: str = ""


@dataclass(frozen=True, eq=False)
class SafeMessage:
    """A message whose texts cannot spell control tokens.

    A tool result `answers` a call of a reply. `written` is a reply as the model wrote it, if known. `cache`
    has the converted message by form.
    """

    role: str
    text: str
    thinking: str = ""
    calls: tuple[SafeCall, ...] = ()
    call_id: str = ""
    answers: tuple[SafeMessage, SafeCall] | None = None
    images: int = 0
    written: Message | None = None
    cache: dict[str, list[Json]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Forms:
    """The forms in which a template shows each part. The defaults are those of transformers' documentation.

    `parts` are the roles whose content is a list of typed parts. Consecutive messages of `joined` roles are
    joined. "tagged" means a user message in tags that name its kind.
    """

    parts: frozenset[str] = frozenset()
    system: Literal["role", "question"] = "role"
    joined: frozenset[str] = frozenset()
    first_reply: Literal["role", "tagged"] = "role"
    later_system: Literal["role", "tagged"] = "role"
    calls: Literal["function", "flat", "text"] = "function"
    arguments: Literal["object", "json"] = "object"
    ids: Literal["given", "nine"] = "given"
    # The content of a reply that has calls but no text.
    blank: Literal["text", "none", "absent"] = "text"
    results: Literal["tool", "tagged"] = "tool"
    several: Literal["together", "apart", "text"] = "together"
    # Arguments that are not JSON, JSON but not an object, and null.
    odd_text: Literal["given", "wrapped", "text"] = "given"
    odd_value: Literal["given", "json", "wrapped", "text"] = "given"
    odd_null: Literal["given", "empty"] = "given"
    # The text of a reply that has calls. "inserted" text bypasses the template.
    beside: Literal["together", "inserted", "before", "text"] = "together"
    # The thinking of a reply that has calls and text.
    thought: Literal["together", "joined", "dropped"] = "together"
    # "unshown": the template ignores tools. "withheld": it refuses them.
    tools: Literal["nested", "flat", "definitions", "functions", "unshown", "withheld"] = "nested"
    no_tools: Literal["none", "empty"] = "none"

    @functools.cached_property
    def key(self) -> str:
        """Identifies the forms. A string hashes faster than the dataclass."""
        return repr(self)


def shape(messages: Sequence[SafeMessage], forms: Forms) -> list[Json]:
    """The messages as arguments of a template."""
    turns: list[Json] = []
    system: str | None = None
    for at, message in enumerate(messages):
        if message.role == "system" and at == 0 and forms.system == "question":
            system = message.text
            continue
        tagged = (message.role == "system" and at > 0 and forms.later_system == "tagged") or (
            message.role == "assistant"
            and forms.first_reply == "tagged"
            and all(turn["role"] in ("system", "assistant") for turn in turns)
        )
        if tagged:
            turns.append(_tagged(message.role, message.text))
            continue
        if forms.key not in message.cache:
            message.cache[forms.key] = list(_turns(message, forms))
        turns += message.cache[forms.key]
    if forms.joined:
        turns = _joined(turns, forms.joined)
    if system is not None:
        first = next((at for at, turn in enumerate(turns) if turn["role"] == "user"), None)
        if first is None:
            turns.insert(0, {"role": "user", "content": system})
        elif system:
            turns[first] = {**turns[first], "content": _sum(system, turns[first]["content"])}
    if forms.parts:
        for at, turn in enumerate(turns):
            if turn["role"] in forms.parts and isinstance(content := turn.get("content"), str):
                turns[at] = {**turn, "content": [{"type": "text", "text": content}]}
    return turns


def tool_options(tools: Sequence[Json], forms: Forms) -> Json:
    """The template variables that list the tools."""
    functions = [{**tool, **(tool.get("function") or {})} for tool in tools]
    for function in functions:
        function.pop("function", None)
    if forms.tools == "functions":
        return {"functions": json.dumps(functions, ensure_ascii=False)}
    if not tools or forms.tools == "withheld":
        return {"tools": []} if forms.no_tools == "empty" else {}
    if forms.tools == "definitions":
        # Command R's format.
        for function in functions:
            schema = function.get("parameters") or {}
            required = schema.get("required") or ()
            function["parameter_definitions"] = {
                name: {
                    "description": parameter.get("description", ""),
                    "type": parameter.get("type", "str"),
                    "required": name in required,
                }
                for name, parameter in (schema.get("properties") or {}).items()
                if isinstance(parameter, dict)
            }
    return {"tools": list(tools) if forms.tools in ("nested", "unshown") else functions}


def _turns(message: SafeMessage, forms: Forms) -> Iterable[Json]:
    """A message as one or more template messages."""
    if message.role == "tool":
        yield _result(message, forms)
        return
    turn: Json = {"role": message.role, "content": message.text}
    if message.images:
        images = [{"type": "image"} for _ in range(message.images)]
        turn["content"] = [*images, {"type": "text", "text": message.text}]
    if message.thinking:
        turn |= dict.fromkeys(THINKING_NAMES, message.thinking)
    if not message.calls:
        yield turn
        return
    if calls_as_text(message, forms):
        calls = "\n".join(map(_call_text, message.calls))
        yield {**turn, "content": "\n".join(filter(None, (message.text, calls)))}
        return
    text = "" if forms.beside == "inserted" else message.text
    if text and message.thinking and forms.thought != "together":
        if forms.thought == "joined":
            turn |= dict.fromkeys(THINKING_NAMES, _sum(message.thinking, text))
            text = ""
        else:
            turn = {"role": message.role}
    elif text and forms.beside == "before":
        yield turn
        turn, text = {"role": message.role}, ""
    turn.pop("content", None)
    if text or forms.blank == "text":
        turn["content"] = text
    elif forms.blank == "none":
        turn["content"] = None
    together = [_call(call, forms) for call in message.calls]
    for some in [[each] for each in together] if forms.several == "apart" else [together]:
        yield {**turn, "tool_calls": some}
        turn = {key: turn[key] for key in ("role", "content") if key in turn and not text}
        turn.setdefault("role", message.role)


def calls_as_text(message: SafeMessage, forms: Forms) -> bool:
    """Whether a reply's calls are written into its text."""
    if not message.calls:
        return False
    odd = [
        forms.odd_text if isinstance(call.value, str) else forms.odd_value
        for call in message.calls
        if not isinstance(call.value, dict | None)
    ]
    return (
        forms.calls == "text"
        or "text" in odd
        or (len(message.calls) > 1 and forms.several == "text")
        or (bool(message.text) and forms.beside == "text")
    )


def _call(call: SafeCall, forms: Forms) -> Json:
    value = {} if call.value is None and forms.odd_null == "empty" else call.value
    form = forms.odd_text if isinstance(value, str) else forms.odd_value
    if value is None:
        value = None if forms.arguments == "object" else call.text
    elif isinstance(value, dict):
        value = value if forms.arguments == "object" else call.text if call.value else "{}"
    elif form == "wrapped":
        value = {"arguments": value}
        value = value if forms.arguments == "object" else json.dumps(value, ensure_ascii=False)
    elif form == "json" or forms.arguments == "json":
        value = call.text
    function = {"name": call.name, "arguments": value}
    identifier = _nine(call.id) if forms.ids == "nine" else call.id
    if forms.calls == "flat":
        return {"type": "function", "id": identifier, **function}
    return {"type": "function", "id": identifier, "function": function}


def _nine(identifier: str) -> str:
    """The id, or a hash of it, as nine letters and digits."""
    if NINE.fullmatch(identifier):
        return identifier
    return hashlib.sha256(identifier.encode(errors="surrogatepass")).hexdigest()[:9]


def _result(message: SafeMessage, forms: Forms) -> Json:
    reply, call = message.answers or (None, None)
    if forms.results == "tagged" or (forms.calls != "text" and reply and calls_as_text(reply, forms)):
        return _tagged("tool_response", message.text)
    identifier = _nine(message.call_id) if forms.ids == "nine" else message.call_id
    turn: Json = {"role": "tool", "content": message.text, "tool_call_id": identifier}
    if call:
        turn["name"] = call.name
    return turn


def _call_text(call: SafeCall) -> str:
    """A call as text, for a template without tool calls."""
    arguments = call.text if not isinstance(call.value, str) else json.dumps(call.text, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {arguments}}}\n</tool_call>'


def _tagged(tag: str, text: str) -> Json:
    return {"role": "user", "content": f"<{tag}>\n{text}\n</{tag}>"}


def _joined(turns: Sequence[Json], roles: frozenset[str]) -> list[Json]:
    """Join consecutive messages of these roles that have no calls."""
    result: list[Json] = []
    for turn in turns:
        last = result[-1] if result else {}
        if last.get("role") != turn["role"] or turn["role"] not in roles or "tool_calls" in {**last, **turn}:
            result.append(turn)
            continue
        both = {**last, **turn}
        for key in both.keys() - {"role"}:
            both[key] = _sum(last.get(key, ""), turn.get(key, ""))
        result[-1] = both
    return result


def _sum(first: Any, second: Any) -> Any:
    """Concatenate two contents, texts or lists of parts."""
    if isinstance(first, str) and isinstance(second, str):
        return BETWEEN.join(filter(None, (first, second)))
    parts = ([{"type": "text", "text": each}] if isinstance(each, str) else each for each in (first, second))
    return [part for each in parts for part in each or ()]
