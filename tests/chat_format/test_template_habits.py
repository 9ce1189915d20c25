"""Templates of every habit show all parts of every history, and as transformers does where that shows all.

A row of `HABITS` is a habit of templates in the wild, a row of `HISTORIES` a conversation. The folders that
`CHATCLI_PUBLIC_TEMPLATES` names (paths, separated as in PATH) have more templates, as files *.jinja.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlx_lm.utils import load_tokenizer

from chatcli.chat_format.template import Template
from chatcli.chat_format.tokenizing import SEAM
from chatcli.conversation.tree import Message
from chatcli.errors import TemplateRefused
from chatcli.events import ToolCall
from tests.support import tiny
from tests.support.templates import DATE, own_marks

PUBLIC = [
    path
    for folder in os.environ.get("CHATCLI_PUBLIC_TEMPLATES", "").split(os.pathsep)
    if folder
    for path in sorted(Path(folder).glob("*.jinja"))
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Looks for {name}.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Of it."}},
            },
        },
    }
    for name in ("get_weather", "get_time")
]


@dataclass(frozen=True)
class History:
    """Messages, and the words that a prompt of them has to show, in this order where they are text."""

    messages: Sequence[Message]
    words: Sequence[str]
    tools: Sequence[Mapping[str, Any]] = ()


def user(text: str) -> Message:
    return Message("user", text)


def said(text: str, *calls: ToolCall, thinking: str = "") -> Message:
    return Message("assistant", text, thinking, tool_calls=calls)


def call(arguments: str = '{"city": "Lisbon"}', name: str = "get_weather", id: str = "call_1") -> ToolCall:
    return ToolCall(name, arguments, id, 0, 0)


def result(text: str = "21 degrees", id: str = "call_1") -> Message:
    return Message("tool", text, tool_call_id=id)


def after(text: str, each: ToolCall) -> ToolCall:
    return ToolCall(each.name, each.arguments, each.id, len(text), len(text))


SYSTEM = Message("system", "You know harbours.")
ASKED = user("Is it warm?")
SHOWN = ("get_weather", "Lisbon", "21 degrees")
END = (said("Yes, mild."), user("And tonight?"))
LOOK = "Let me look."
# Arguments that are not a JSON object, and what is to be seen of them.
ODD = {
    '{"city": "Lisb': ["Lisb"],
    "Oslo": ["Oslo"],
    '["Faro", "Oslo"]': ["Faro", "Oslo"],
    "7741": ["7741"],
    "null": [],
    "{}": [],
}
HISTORIES: dict[str, History] = {
    "a question": History([ASKED], ["Is it warm?"]),
    "a system prompt": History([SYSTEM, ASKED], ["You know harbours.", "Is it warm?"]),
    "a conversation": History(
        [SYSTEM, ASKED, *END], ["You know harbours.", "Is it warm?", "Yes, mild.", "And tonight?"]
    ),
    "thinking": History(
        [ASKED, said("Yes.", thinking="Sun."), user("Why?")], ["Is it warm?", "Yes.", "Why?"]
    ),
    "a call": History([ASKED, said("", call()), result()], SHOWN, TOOLS),
    "a call and more": History(
        [SYSTEM, ASKED, said("", call()), result(), *END],
        ["You know harbours.", "Is it warm?", *SHOWN, "Yes, mild.", "And tonight?"],
        TOOLS,
    ),
    "a call without tools": History([ASKED, said("", call()), result(), *END], SHOWN),
    "text before a call": History(
        [ASKED, said(LOOK, after(LOOK, call())), result(), *END], [LOOK, *SHOWN, "Yes, mild."], TOOLS
    ),
    "thinking before a call": History(
        [ASKED, said("", call(), thinking="The city."), result()], SHOWN, TOOLS
    ),
    "thinking and text before a call": History(
        [ASKED, said(LOOK, after(LOOK, call()), thinking="The city."), result()], [LOOK, *SHOWN], TOOLS
    ),
    "several calls": History(
        [
            ASKED,
            said("", call(), call('{"city": "Porto"}', "get_time", "call_2")),
            result(),
            result("noon", "call_2"),
            *END,
        ],
        [*SHOWN, "get_time", "Porto", "noon"],
        TOOLS,
    ),
    "several rounds": History(
        [
            ASKED,
            said("", call()),
            result(),
            said("", call('{"city": "Porto"}', "get_time", "call_2")),
            result("noon", "call_2"),
            said("At noon."),
            user("Again?"),
            said("", call('{"city": "Faro"}', id="call_3")),
            result("30 degrees", "call_3"),
        ],
        [*SHOWN, "get_time", "Porto", "noon", "At noon.", "Again?", "Faro", "30 degrees"],
        TOOLS,
    ),
    "nested arguments": History(
        [ASKED, said("", call('{"where": {"city": "Lisbon", "near": ["Sintra", true]}}')), result()],
        [*SHOWN, "where", "near", "Sintra"],
        TOOLS,
    ),
    "unicode arguments": History(
        [ASKED, said("", call('{"city": "São João 日本"}')), result()], ["get_weather", "日本"]
    ),
    "a foreign id": History(
        [
            ASKED,
            said("", call(id="toolu_01A09q90qw90lq917835lq9")),
            result(id="toolu_01A09q90qw90lq917835lq9"),
        ],
        SHOWN,
        TOOLS,
    ),
    "no id": History([ASKED, said("", call(id="")), result(id="")], SHOWN, TOOLS),
    "a system message in the middle": History(
        [SYSTEM, ASKED, said("Yes."), Message("system", "Be brief."), user("Why?")],
        ["You know harbours.", "Yes.", "Be brief.", "Why?"],
    ),
    "two replies running": History(
        [ASKED, said("Yes."), said("It is."), user("Why?")], ["Is it warm?", "Yes.", "It is.", "Why?"]
    ),
    "two questions running": History([ASKED, user("Well?")], ["Is it warm?", "Well?"]),
    "a reply first": History([said("Welcome."), ASKED], ["Welcome.", "Is it warm?"]),
    **{
        f"arguments {text}": History(
            [ASKED, said("", call(text)), result(), *END], ["get_weather", *words, "21 degrees"]
        )
        for text, words in ODD.items()
    },
}
HABITS: dict[str, str] = {}


def write(folder: Path, source: str) -> Any:
    """A tokenizer with this template and a token of every name that templates use."""
    if not folder.exists():
        tiny.write_tokenizer(folder, source, own_marks(source))
        path = folder / "tokenizer_config.json"
        named = {"bos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
        path.write_text(json.dumps({**json.loads(path.read_text()), **named}))
    return load_tokenizer(folder)


def template_of(folder: Path, source: str, tools: Sequence[Mapping[str, Any]]) -> Template:
    return Template(write(folder, source), DATE, arguments={"tools": list(tools)} if tools else {})


def as_transformers_has_it(template: Template, history: History) -> str | None:
    """What transformers renders of messages as its documentation gives them; None where it refuses."""
    messages: list[dict[str, Any]] = []
    for message in history.messages:
        fields: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.thinking:
            fields |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), message.thinking)
        if message.tool_calls:
            fields["tool_calls"] = [
                {
                    "type": "function",
                    "id": each.id,
                    "function": {"name": each.name, "arguments": parsed(each.arguments)},
                }
                for each in message.tool_calls
            ]
        if message.role == "tool":
            fields["tool_call_id"] = message.tool_call_id
            called = [
                each.name
                for each in (c for m in messages_before(history, message) for c in m.tool_calls)
                if each.id == message.tool_call_id
            ]
            if called:
                fields["name"] = called[-1]
        messages.append(fields)
    try:
        text: str = template._tokenizer.apply_chat_template(
            messages,
            tools=[dict(tool) for tool in history.tools] or None,
            tokenize=False,
            add_generation_prompt=True,
            **template._options,
        )
    except Exception:
        # A template can raise anything.
        return None
    return text


def messages_before(history: History, message: Message) -> Sequence[Message]:
    return history.messages[: [each is message for each in history.messages].index(True)]


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def missing_in(text: str, history: History) -> list[str]:
    """The words that a text does not show, as they are or as JSON has them."""
    return [word for word in history.words if word not in text and json.dumps(word)[1:-1] not in text]


def outcome(template: Template, history: History) -> tuple[str, str]:
    theirs = as_transformers_has_it(template, history)
    try:
        template.prompt(history.messages)
        ours = template.text(history.messages, generation=True).replace(SEAM, "")
    except TemplateRefused as error:
        return "refused", str(error)
    if missing := missing_in(ours, history):
        return "LOST", f"{missing}"
    if theirs is not None and not missing_in(theirs, history):
        return ("same", "") if theirs == ours else ("DIFFERENT", f"{theirs!r}\n      {ours!r}")
    return "adapted", ""
