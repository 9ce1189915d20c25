"""Splitting replies: where thinking opens and closes, which text is a call, and that all else is text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatcli.replies.calls import CALL_FORMATS, Tools, convert
from chatcli.replies.splitter import HARMONY, Format, Part, ReplySplitter
from chatcli.replies.thinking import split_thinking

TOOLS = [
    {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "now"}},
]
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "a"}}\n</tool_call>'
ALL = {each.start: each for each in CALL_FORMATS}
PLAIN = Format(thinking=("<think>", "</think>"), calls={"<tool_call>": ALL["<tool_call>"]})
WRAPPED = Format(
    thinking=("<|START_THINKING|>", "<|END_THINKING|>"),
    text_opens=("<|START_RESPONSE|>",),
    text_closes=("<|END_RESPONSE|>", "<|END|>"),
    calls={"<|START_ACTION|>": ALL["<|START_ACTION|>"]},
)
LLAMA = Format(bare=True)
GPT_OSS = Format(headers=HARMONY)
START, OPENED = "<|start|>assistant", "<think>\n"
FINAL, PREAMBLE = "<|channel|>final<|message|>", "<|channel|>commentary<|message|>"
ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
TO_LOOK = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>"
LOOK = [("look", {"at": "a"})]
NONE: list[Any] = []

# Format, generation prompt, generated text; its thinking, text and calls.
REPLIES: dict[str, tuple[Format, str, str, str, str, list[Any]]] = {
    "thinking, then text": (PLAIN, "", "<think>\nHm.\n</think>\n\nYes.", "Hm.", "Yes.", NONE),
    "opened by the template": (PLAIN, OPENED, "Hm.\n</think>\n\nYes.", "Hm.", "Yes.", NONE),
    "opened by the template and again": (PLAIN, OPENED, "<think>\nHm.</think>Yes.", "Hm.", "Yes.", NONE),
    "opened after white space": (PLAIN, "", "\n\n<think>Hm.</think>Yes.", "Hm.", "Yes.", NONE),
    "closed by the template": (PLAIN, "<think>\n\n</think>\n\n", "Yes.", "", "Yes.", NONE),
    "closed by the template, opened again": (
        PLAIN,
        "<think>\n\n</think>\n\n",
        "<think>Hm.</think>Yes.",
        "Hm.",
        "Yes.",
        NONE,
    ),
    "the text speaks of the mark that opens": (
        PLAIN,
        "",
        "<think>\nHm.\n</think>\n\nWrite `<think>` first. LAST",
        "Hm.",
        "Write `<think>` first. LAST",
        NONE,
    ),
    "and of both": (
        PLAIN,
        OPENED,
        "Hm.</think>`<think>` and `</think>`.",
        "Hm.",
        "`<think>` and `</think>`.",
        NONE,
    ),
    "the text begins and speaks of it": (PLAIN, "", "Say <think> so.", "", "Say <think> so.", NONE),
    "the text speaks of the mark that closes": (
        PLAIN,
        "",
        "Close it with </think> there. LAST",
        "",
        "Close it with </think> there. LAST",
        NONE,
    ),
    "thinking speaks of a call": (
        PLAIN,
        "",
        "<think>\nI could write <tool_call> but no.\n</think>\n\nGood day.",
        "I could write <tool_call> but no.",
        "Good day.",
        NONE,
    ),
    "thinking has a whole call": (PLAIN, OPENED, f"So {CALL}?</think>Yes.", f"So {CALL}?", "Yes.", NONE),
    "thinking is never closed": (PLAIN, OPENED, "and so on </th", "and so on </th", "", NONE),
    "a call ends thinking": (PLAIN, OPENED, f"Hm.\n{CALL}\n", "Hm.", "", LOOK),
    "a call after thinking": (PLAIN, OPENED, f"Hm.</think>I look.{CALL}", "Hm.", "I look.", LOOK),
    "a call that is none": (
        PLAIN,
        "",
        "<tool_call>{not JSON}</tool_call> so",
        "",
        "<tool_call>{not JSON}</tool_call> so",
        NONE,
    ),
    "a call with a number that JSON lacks": (
        PLAIN,
        "",
        '<tool_call>{"name": "look", "arguments": {"at": NaN}}</tool_call>',
        "",
        '<tool_call>{"name": "look", "arguments": {"at": NaN}}</tool_call>',
        NONE,
    ),
    "parameters for arguments": (
        PLAIN,
        "",
        '<tool_call>{"name": "look", "parameters": {"at": "a"}}</tool_call>',
        "",
        "",
        LOOK,
    ),
    "a function in an object": (
        PLAIN,
        "",
        '<tool_call>{"type": "function", "function": {"name": "look", "arguments": {"at": "a"}}}</tool_call>',
        "",
        "",
        LOOK,
    ),
    "arguments as text": (
        PLAIN,
        "",
        r'<tool_call>{"name": "look", "arguments": "{\"at\": \"a\"}"}</tool_call>',
        "",
        "",
        LOOK,
    ),
    "a call between texts": (PLAIN, "", f"One. {CALL} Two.", "", "One.  Two.", LOOK),
    "a pair of tags": (
        PLAIN,
        "",
        "<tool_call>look<arg_key>at</arg_key><arg_value>a</arg_value></tool_call>",
        "",
        "",
        LOOK,
    ),
    "a word between the marks": (PLAIN, "", "<tool_call>x</tool_call>", "", "<tool_call>x</tool_call>", NONE),
    "a tool's name between the marks": (PLAIN, "", "<tool_call>now</tool_call>", "", "", [("now", {})]),
    "marks around the answer": (
        WRAPPED,
        "",
        "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
        "Hm.",
        "Yes.",
        NONE,
    ),
    "the answer speaks of them": (
        WRAPPED,
        "",
        "<|START_RESPONSE|>A <|END_RESPONSE|> ends it.<|END_RESPONSE|><|END|>",
        "",
        "A <|END_RESPONSE|> ends it.",
        NONE,
    ),
    "a call after the answer": (
        WRAPPED,
        "",
        "<|START_RESPONSE|>I look.<|END_RESPONSE|>"
        '<|START_ACTION|>[{"tool_name": "look", "parameters": {"at": "a"}}]<|END_ACTION|><|END|>',
        "",
        "I look.",
        LOOK,
    ),
    "Llama, JSON": (LLAMA, "", '{"name": "look", "parameters": {"at": "a"}}', "", "", LOOK),
    "Llama, JSON with a tag and a type": (
        LLAMA,
        "",
        '<|python_tag|>{"type": "function", "name": "look", "parameters": {"at": "a"}}; {"name": "now"}',
        "",
        "",
        [*LOOK, ("now", {})],
    ),
    "Llama, Python": (LLAMA, "", '[look(at="a"), now()]', "", "", [*LOOK, ("now", {})]),
    "Llama, JSON that is an answer": (LLAMA, "", '{"name": "Ann"}', "", '{"name": "Ann"}', NONE),
    "Llama, JSON that text follows": (
        LLAMA,
        "",
        '{"name": "now"} is it.',
        "",
        '{"name": "now"} is it.',
        NONE,
    ),
    "Llama, a list that is an answer": (LLAMA, "", "[now, then]", "", "[now, then]", NONE),
    "gpt-oss": (GPT_OSS, START, f"{ANALYSIS}{FINAL}Yes.<|return|>", "Hm.", "Yes.", NONE),
    "gpt-oss, a call": (GPT_OSS, START, f'{ANALYSIS}{TO_LOOK}{{"at": "a"}}<|call|>', "Hm.", "", LOOK),
    "gpt-oss, a call without arguments": (
        GPT_OSS,
        START,
        f"{ANALYSIS}<|channel|>commentary to=functions.now<|message|><|call|>",
        "Hm.",
        "",
        [("now", {})],
    ),
    "gpt-oss, a call in the analysis": (
        GPT_OSS,
        START,
        '<|channel|>analysis to=functions.look code<|message|>{"at": "a"}<|call|>',
        "",
        "",
        LOOK,
    ),
    "gpt-oss, a preamble and a call": (
        GPT_OSS,
        START,
        f'{ANALYSIS}{PREAMBLE}I look.<|end|><|start|>assistant{TO_LOOK}{{"at": "a"}}<|call|>',
        "Hm.",
        "I look.",
        LOOK,
    ),
    "gpt-oss, a preamble and an answer": (
        GPT_OSS,
        START,
        f"{PREAMBLE}I look.<|end|><|start|>assistant{FINAL}Yes.<|return|>",
        "",
        "I look.\n\nYes.",
        NONE,
    ),
    "gpt-oss, a recipient that is no function": (
        GPT_OSS,
        START,
        "<|channel|>commentary to=assistant<|message|>Good day.",
        "",
        "Good day.",
        NONE,
    ),
    "gpt-oss, a function by its bare name": (
        GPT_OSS,
        START,
        '<|channel|>commentary to=look<|message|>{"at": "a"}<|call|>',
        "",
        "",
        LOOK,
    ),
    "gpt-oss, a call that is cut": (
        GPT_OSS,
        START,
        f'{ANALYSIS}{TO_LOOK}{{"at": "',
        "Hm.",
        f'{TO_LOOK}{{"at": "',
        NONE,
    ),
    "gpt-oss, an answer that speaks of marks": (
        GPT_OSS,
        START,
        f"{FINAL}Write <|end|> or <|call|>, then <|channel|>analysis<|message|>.<|return|>",
        "",
        "Write <|end|> or <|call|>, then <|channel|>analysis<|message|>.",
        NONE,
    ),
    "gpt-oss, the header in the prompt": (GPT_OSS, f"{START}{FINAL}", "Yes.<|return|>", "", "Yes.", NONE),
    "gpt-oss, thinking in the prompt": (
        GPT_OSS,
        f"{START}<|channel|>analysis<|message|>",
        f"Hm.<|end|>{START}{FINAL}Yes.",
        "Hm.",
        "Yes.",
        NONE,
    ),
}


def read(
    reply_format: Format, prompt: str, text: str, size: int, tools: Sequence[Any] = TOOLS
) -> tuple[str, str, list[Any]]:
    """The thinking, text and calls of a reply in pieces of this size."""
    splitter = ReplySplitter(reply_format, prompt, tools)
    parts: list[Part] = []
    for at in range(0, len(text), size):
        parts += splitter.feed(text[at : at + size])
    parts += splitter.finish()
    calls = [(call.name, json.loads(call.arguments)) for part in parts for call in part.calls]
    thinking = "".join(part.text for part in parts if part.thinking)
    return thinking.strip(), "".join(p.text for p in parts if not p.thinking and not p.calls).strip(), calls


@pytest.mark.parametrize("kind", REPLIES)
def test_a_reply_is_split_as_intended(kind: str) -> None:
    reply_format, prompt, text, *expected = REPLIES[kind]
    for size in (1, 2, 5, 1 << 20):
        assert expected == list(read(reply_format, prompt, text, size))


@pytest.mark.parametrize("kind", [kind for kind, reply in REPLIES.items() if reply[-1]])
def test_without_tools_a_reply_has_no_calls_and_loses_nothing(kind: str) -> None:
    reply_format, prompt, text, thinking, *_ = REPLIES[kind]
    thought, said, calls = read(reply_format, prompt, text, 1, tools=())
    assert NONE == calls
    assert thought.startswith(thinking)
    assert '"a"' not in text or '"a"' in said + thought


MARKS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    CALL,
    "{",
    '{"name": "now"}',
    "a",
    "\n",
    " ",
    "`",
]
HARMONY_MARKS = [
    START,
    "<|channel|>",
    "analysis",
    "final",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "x",
    " ",
    TO_LOOK,
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(MARKS), max_size=12), st.sampled_from(["", OPENED]), st.integers(1, 9))
def test_the_pieces_of_a_reply_do_not_matter(pieces: list[str], prompt: str, size: int) -> None:
    text = "".join(pieces)
    assert read(PLAIN, prompt, text, 1 << 20) == read(PLAIN, prompt, text, size)


@settings(deadline=None)
@given(st.lists(st.sampled_from(HARMONY_MARKS), max_size=12), st.integers(1, 9))
def test_the_pieces_of_messages_do_not_matter(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    assert read(GPT_OSS, START, text, 1 << 20) == read(GPT_OSS, START, text, size)


@settings(deadline=None)
@given(st.lists(st.sampled_from(MARKS), max_size=12))
def test_all_text_but_thinking_is_kept(pieces: list[str]) -> None:
    text = "." + "".join(pieces)
    splitter = ReplySplitter(PLAIN, "", TOOLS)
    parts = [part for letter in text for part in splitter.feed(letter)] + splitter.finish()
    assert text == "".join(part.text for part in parts)


# A value between tags, its parameter's schema, the parsed value, and the value without a schema.
VALUES: list[tuple[str, Any, Any]] = [
    ("5", {"type": "integer"}, 5),
    (" 5 ", {"type": "integer"}, 5),
    ("5.0", {"type": "integer"}, 5),
    ("three", {"type": "integer"}, "three"),
    ("5", {"type": "number"}, 5),
    ("0.5", {"type": "number"}, 0.5),
    ("5", {"type": "string"}, "5"),
    ("null", {"type": "string"}, "null"),
    (" a\n", {"type": "string"}, " a\n"),
    ('"a"', {"type": "string"}, '"a"'),
    ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
    ("null", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
    ("None", {"type": ["integer", "null"]}, None),
    ("null", {"type": "integer", "nullable": True}, None),
    ("5", {"oneOf": [{"type": "string"}]}, "5"),
    ("a", {"enum": ["a", "b"]}, "a"),
    ("2", {"enum": [1, 2]}, 2),
    ("2", {"const": 2}, 2),
    ("true", {"type": "boolean"}, True),
    ("False", {"type": "boolean"}, False),
    ("yes", {"type": "boolean"}, "yes"),
    ('{"a": [1]}', {"type": "object"}, {"a": [1]}),
    ("{'a': True}", {"type": "object"}, {"a": True}),
    ("{a", {"type": "object"}, "{a"),
    ("[1, 2]", {"type": "array"}, [1, 2]),
    ("[1, 2]", {"$ref": "#/$defs/numbers"}, [1, 2]),
    ("5", {"$ref": "#/$defs/itself"}, 5),
    ("NaN", {"type": "number"}, "NaN"),
    ("1e999", {"type": "number"}, "1e999"),
    ("[NaN]", {"type": "array"}, "[NaN]"),
    ("5", {}, 5),
    ("a", {}, "a"),
    ("5", True, 5),
    ("{1, 2}", {"type": "array"}, "{1, 2}"),
]


@pytest.mark.parametrize(("text", "schema", "value"), VALUES)
def test_a_value_between_tags_has_the_type_of_its_schema(text: str, schema: Any, value: Any) -> None:
    definitions = {"numbers": {"type": "array"}, "itself": {"$ref": "#/$defs/itself"}}
    parameters = {"properties": {"x": schema}, "$defs": definitions}
    tools = Tools([{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    read = convert(text, tools.types("f", "x"), undeclared_json=False)
    assert (type(value), value) == (type(read), read)


@pytest.mark.parametrize("parameters", [None, 7, {}, {"properties": []}, {"properties": {"y": {}}}])
def test_an_undeclared_value_is_text_or_a_structure(parameters: Any) -> None:
    tools = Tools(
        [{"type": "function", "function": {"name": "f", "parameters": parameters}}, {}, {"function": 7}]
    )
    for text, value in (("5", "5"), ("true", "true"), ('{"a": 1}', {"a": 1})):
        assert value == convert(text, tools.types("f", "x"), undeclared_json=False)
    # GLM's format writes text unquoted, and everything else as JSON.
    assert 5 == convert("5", tools.types("f", "x"), undeclared_json=True)


@pytest.mark.parametrize(
    ("content", "thinking", "text"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", "Hm.", "Yes."),
        ("<think>Hm.</think>Write <think> and </think>.", "Hm.", "Write <think> and </think>."),
        ("Write <think> first.", "", "Write <think> first."),
        ("Close it with `</think>` there.", "", "Close it with `</think>` there."),
        ("Hm.\n</think>\n\nYes.", "Hm.", "Yes."),
        (f"{ANALYSIS}{PREAMBLE}I look.<|end|>{START}{FINAL}Yes.<|return|>", "Hm.", "I look.\n\nYes."),
        (f"{FINAL}Yes.", "", "Yes."),
        ("<|START_THINKING|>Hm.<|END_THINKING|>Yes.", "Hm.", "Yes."),
    ],
)
def test_a_saved_reply_is_split_by_the_same_grammar(content: str, thinking: str, text: str) -> None:
    assert (thinking, text) == split_thinking(content)
