"""Templates with every habit show all parts of every history, as transformers does if that shows everything.

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

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer
from transformers import PreTrainedTokenizerFast

from chatcli.chat_format.template import Template, TemplateCache
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
    """Messages, and the words that their prompt must contain, in this order if they are text."""

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
# Arguments that are not a JSON object, and the words that must appear.
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
        [ASKED, said("", call('{"city": "São João 日本"}')), result()],
        ["Is it warm?", "get_weather", "日本", "21 degrees"],
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
# A template that shows everything in the default form. Each habit changes it.
USUAL = """\
{%- for tool in tools or [] %}{{- 'Tool: ' + (tool | tojson) + '\\n' }}{%- endfor %}
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for call in m.tool_calls or [] %}
{{- '<tool_call>' + ({'name': call.function.name, 'arguments': call.function.arguments} | tojson) }}
{{- '</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
CONTENT = "(m.content or '')"
CALLS = "m.tool_calls or []"
WRITTEN = "({'name': call.function.name, 'arguments': call.function.arguments} | tojson)"
HEADER = '\'{"name": "\' + call.function.name + \'", "arguments": \' '


def changed(*changes: tuple[str, str]) -> str:
    source = USUAL
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return source


def refusing(condition: str, each: str = "messages") -> str:
    """The usual template, which raises if `condition` holds for a message `m`."""
    raised = "{{- raise_exception('Not here!') }}"
    return f"{{%- for m in {each} %}}{{%- if {condition} %}}{raised}{{%- endif %}}{{%- endfor %}}{USUAL}"


ALTERNATES = "m.role in ('user', 'assistant') and (m.role == 'user') != (loop.index0 % 2 == 0)"
# A template, and a clause that describes its adaptation; empty without one.
HABITS: dict[str, tuple[str, str]] = {
    "usual": (USUAL, ""),
    "ids of nine": (
        refusing("m.tool_call_id and m.tool_call_id|length != 9")
        + refusing("(m.tool_calls or [{}])[0].id and m.tool_calls[0].id|length != 9").removesuffix(USUAL),
        "call ids are rewritten to nine letters and digits",
    ),
    "arguments added as text": (
        changed((WRITTEN, HEADER + "+ call.function.arguments + '}'")),
        "arguments are given as JSON text",
    ),
    "arguments made text": (
        changed((WRITTEN, HEADER + "~ call.function.arguments ~ '}'")),
        "arguments are given as JSON text",
    ),
    "items of arguments": (
        changed(
            (
                "{{- '<tool_call>' + " + WRITTEN + " }}",
                "{{- '<tool_call>' + call.function.name }}"
                "{%- for key, value in call.function.arguments.items() %}"
                "{{- '<arg>' + key + '=' + (value if value is string else value | tojson) }}{%- endfor %}",
            )
        ),
        "arguments that are not JSON are given in an object",
    ),
    "calls without content only": (
        changed(("for call in " + CALLS, "for call in (m.tool_calls or [] if m.content is none else [])")),
        "a reply that only calls has no content",
    ),
    "calls hide the content": (
        changed((CONTENT, "('' if m.tool_calls else m.content)")),
        "text before a call is inserted before it",
    ),
    "calls hide the content of plain text": (
        changed(
            (CONTENT, "('' if m.tool_calls else m.content)"),
            *((mark, "") for mark in ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")),
        ),
        "text before a call is a reply of its own",
    ),
    "flat calls": (changed(("call.function.", "call.")), "calls have no inner function object"),
    "one call at a time": (
        refusing("m.tool_calls and m.tool_calls|length > 1"),
        "each of several calls is a reply of its own",
    ),
    "no calls": (changed((CALLS, "[]")), "tool calls are part of the reply's text"),
    "no tools at all": (
        changed((CALLS, "[]"), ("for m in messages", "for m in messages if m.role != 'tool'")),
        "their results are a user message in tags",
    ),
    "no tool role": (refusing("m.role == 'tool'"), "tool results are a user message in tags"),
    "typed parts": (
        changed(
            (" + " + CONTENT + " }}", " }}{%- for part in m.content %}{{- part.text or '' }}{%- endfor %}")
        ),
        "content is given as typed parts",
    ),
    "no system role": (
        refusing("m.role == 'system'"),
        "the system prompt goes before the first question",
    ),
    "system ignored": (
        changed(("for m in messages", "for m in messages if m.role != 'system'")),
        "the system prompt goes before the first question",
    ),
    "system first": (
        refusing("m.role == 'system' and not loop.first"),
        "later system messages are user messages in tags",
    ),
    "alternation": (refusing(ALTERNATES, "messages if m.role != 'system'"), "consecutive replies are joined"),
    "tools needed": (
        changed(("tools or []", "tools | list")),
        "an empty list of tools is given if there are none",
    ),
    "flat tools": (changed(("tool | tojson", "tool.name + tool.description")), "inner function object"),
    "text or thinking": (
        refusing("m.tool_calls and m.content and m.thinking").replace(
            CONTENT, "(m.thinking or '') + " + CONTENT
        ),
        "text before a call is part of the thinking",
    ),
    "text or thinking, which is not shown": (
        refusing("m.tool_calls and m.content and m.thinking"),
        "thinking is left out beside text and a call",
    ),
}


def write(folder: Path, source: str) -> Any:
    """A tokenizer with this template and a token of every name that templates use."""
    if not folder.exists():
        tiny.write_tokenizer(folder, source, own_marks(source))
        path = folder / "tokenizer_config.json"
        named = {"bos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
        path.write_text(json.dumps({**json.loads(path.read_text()), **named}))
    return load_tokenizer(folder)


def template_of(tokenizer: Any, history: History, cache: TemplateCache) -> Template:
    arguments = {"tools": [dict(tool) for tool in history.tools]} if history.tools else {}
    return Template(tokenizer, DATE, cache=cache, arguments=arguments)


def as_transformers_has_it(template: Template, history: History) -> str | None:
    """The text that transformers renders for messages in its documented format; None if it refuses."""
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
    """The words that are missing from a text, in plain or JSON spelling."""
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
    # A model must not read Python's repr of an object or of None.
    given = [parsed(each.arguments) for message in history.messages for each in message.tool_calls]
    odd = [str(each) for each in given if not isinstance(each, str | int) and each != {}]
    if theirs is not None and not missing_in(theirs, history) and not any(each in theirs for each in odd):
        return ("same", "") if theirs == ours else ("DIFFERENT", f"{theirs!r}\n      {ours!r}")
    return "adapted", ""


def show_everything(folder: Path, source: str) -> list[str]:
    """Render every history with a template. Returns its adaptations."""
    tokenizer = write(folder, source)
    cache = TemplateCache.of(tokenizer)
    outcomes = {
        name: outcome(template_of(tokenizer, history, cache), history) for name, history in HISTORIES.items()
    }
    wrong = {name: each for name, each in outcomes.items() if each[0] not in ("same", "adapted")}
    assert {} == wrong
    return cache.adapted


@pytest.mark.parametrize("name", HABITS)
def test_every_habit_shows_every_history(tmp_path: Path, name: str) -> None:
    source, clause = HABITS[name]
    adapted = show_everything(tmp_path / "model", source)
    assert any(clause in each for each in adapted) if clause else not adapted


@pytest.mark.skipif(not PUBLIC, reason="CHATCLI_PUBLIC_TEMPLATES names no folder")
@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: str(path.stem))
def test_every_public_template_shows_every_history(tmp_path: Path, path: Path) -> None:
    """Except those that classify text: they refuse a conversation with a sentence."""
    tokenizer = write(tmp_path / "model", path.read_text())
    cache, outcomes = TemplateCache.of(tokenizer), {}
    for name, history in HISTORIES.items():
        outcomes[name] = outcome(template_of(tokenizer, history, cache), history)
    assert {} == {name: each for name, each in outcomes.items() if each[0] in ("LOST", "DIFFERENT")}


@pytest.mark.parametrize("name", [name for name in HABITS if name != "calls hide the content of plain text"])
def test_each_prompt_of_a_tool_loop_begins_with_all_that_was_generated(tmp_path: Path, name: str) -> None:
    assert_at_the_limit(write(tmp_path / "model", HABITS[name][0]))


def assert_at_the_limit(tokenizer: Any) -> bool:
    """Whether the prompt after a call begins with the previous one and the call as it was generated."""
    history = HISTORIES["a call"]
    template = Template(tokenizer, DATE)
    asked = template.text([ASKED], generation=True)
    for text in ("", LOOK):
        written = f'{text}<tool_call>{{"name":  "get_weather","arguments":{{"city":"Lisbon"}}}}</tool_call>'
        made = ToolCall("get_weather", '{"city": "Lisbon"}', "call_1", len(text), len(written))
        shown = template.text([ASKED, said(written, made), *history.messages[2:]], generation=True)
        assert shown.replace(SEAM, "").startswith(asked + written)
    return True


def test_tools_reach_the_template_for_tools(tmp_path: Path) -> None:
    tokenizer = write(tmp_path / "model", changed(("tools or []", "[]")))
    tokenizer.chat_template = {"default": tokenizer.chat_template, "tool_use": USUAL}
    assert "Looks for" not in Template(tokenizer, DATE).text([ASKED], generation=True)
    with_tools = Template(tokenizer, DATE, arguments={"tools": TOOLS})
    assert "Looks for get_weather." in with_tools.text([ASKED], generation=True)
    assert with_tools.shows_tools


def test_additional_templates_of_a_folder_are_loaded(tmp_path: Path) -> None:
    write(tmp_path / "model", changed(("tools or []", "[]")))
    folder = tmp_path / "model" / "additional_chat_templates"
    folder.mkdir()
    (folder / "tool_use.jinja").write_text(USUAL)
    template = Template(load_tokenizer(tmp_path / "model"), DATE, arguments={"tools": TOOLS})
    assert "Looks for get_weather." in template.text([ASKED], generation=True)


def test_a_plain_conversation_does_not_try_tools(tmp_path: Path) -> None:
    tokenizer = write(tmp_path / "model", USUAL)
    cache = TemplateCache.of(tokenizer)
    Template(tokenizer, DATE, cache=cache).boundaries(HISTORIES["a conversation"].messages, {})
    (learned,) = cache.learned.values()
    assert {"question", "reply", "system"} == learned.tried


def test_a_part_that_no_form_shows_is_an_error(tmp_path: Path) -> None:
    source = changed(("for m in messages", "for m in messages if m.role != 'assistant'"), (CALLS, "[]"))
    template = Template(write(tmp_path / "model", source), DATE)
    assert template.prompt([ASKED])
    with pytest.raises(TemplateRefused, match="does not show earlier messages"):
        template.prompt(HISTORIES["a conversation"].messages)


def test_deepseeks_renderer_in_mlx_lm_shows_calls(tmp_path: Path) -> None:
    """It accepts arguments only as JSON text."""
    renderer = pytest.importorskip("mlx_lm.chat_templates.deepseek_v32")
    tiny.write_tokenizer(tmp_path, None)
    plain = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    tokenizer = TokenizerWrapper(plain, chat_template=renderer.apply_chat_template)
    cache = TemplateCache.of(tokenizer)
    for name in ("a conversation", "a call", "several calls", "several rounds"):
        history = HISTORIES[name]
        template = template_of(tokenizer, history, cache)
        template.prompt(history.messages)
        assert [] == missing_in(template.text(history.messages, generation=True), history)
    assert "arguments are given as JSON text" in cache.adapted


@pytest.mark.parametrize("text", ["\ufdd10.0\ufdd1", "<tool_call>\ufdd10.0\ufdd1</tool_call>"])
def test_text_cannot_replace_a_call(tmp_path: Path, text: str) -> None:
    template = Template(write(tmp_path / "model", USUAL), DATE)
    written = '<tool_call>{"name":"get_weather","arguments":{"city":"Lisbon"}}</tool_call>'
    made = ToolCall("get_weather", '{"city":"Lisbon"}', "call_1", 0, len(written))
    shown = template.text([user(text), said(written, made), result(text)], generation=True)
    assert 2 == shown.replace(SEAM, "").count(text)
    assert "Lisbon" in shown


def test_a_template_that_needs_an_argument_is_tried_without_it(tmp_path: Path) -> None:
    """It refuses every form then, which does not tell what it shows."""
    source = "{%- if not topic is defined %}{{- raise_exception('No topic!') }}{%- endif %}" + USUAL
    tokenizer = write(tmp_path / "model", source)
    with pytest.raises(TemplateRefused, match="No topic!"):
        Template(tokenizer, DATE).prompt([ASKED, *END])
    assert Template(tokenizer, DATE, arguments={"topic": "weather"}).prompt([ASKED, *END])
