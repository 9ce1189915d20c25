"""Random requests: each is answered, or refused with a field's name, and never causes a server error."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatcli.errors import ChatcliError
from chatcli.serve import anthropic, openai
from chatcli.serve.app import status_of
from chatcli.serve.responses import Responses
from chatcli.serve.wire import parse
from tests.serve import test_anthropic, test_openai, test_responses
from tests.support.serving import SCRIPT

# Real fields and values, so that random requests get past the first checks.
NAMES = sorted(
    {
        *("messages", "role", "content", "type", "text", "tools", "function", "name", "parameters"),
        *("tool_calls", "arguments", "tool_call_id", "image_url", "url", "source", "data", "system"),
        *("thinking", "budget_tokens", "tool_choice", "input_schema", "input", "id", "tool_use_id", "stream"),
        *("stream_options", "include_usage", "chat_template_kwargs", "output_config", "effort", "prompt"),
        *("logit_bias", "logprobs", "top_logprobs", "n", "response_format", "is_error", "max_tokens"),
        *("input", "instructions", "reasoning", "call_id", "output", "namespace", "summary"),
        *("action", "result", "encrypted_content", "status", "server_label"),
        *openai.SAMPLING,
        *anthropic.SAMPLING,
    }
)
WORDS = [
    *("user", "assistant", "system", "tool", "text", "image_url", "image", "tool_use", "tool_result"),
    *("function", "base64", "enabled", "auto", "none", "thinking", "custom", "data:image/png;base64,aaaa"),
    *("function_call", "function_call_output", "reasoning", "message", "input_text", "namespace"),
    *("custom_tool_call", "local_shell_call_output", "web_search_call", "image_generation_call"),
    *("compaction", "mcp_approval_response", "additional_tools", "server_tool_use", "document"),
    *("{}", "", "\ud800", "\0", "1"),
]
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=25,
)
BODIES = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
MESSAGES = st.lists(
    st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "type", "output"]),
        VALUES,
        max_size=4,
    ),
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(body=BODIES, messages=MESSAGES, ends_well=st.booleans())
@pytest.mark.parametrize(
    "exchange", [openai.ChatCompletion, openai.Completion, anthropic.Messages, Responses]
)
def test_any_body_is_parsed_or_refused(exchange: Any, body: Any, messages: Any, ends_well: bool) -> None:
    if messages:
        messages = [*messages, *([{"role": "user", "content": "chat"}] if ends_well else [])]
        body["input" if exchange is Responses else "messages"] = messages
    data = json.dumps(body).encode("utf-8", "surrogatepass")
    try:
        read = exchange(parse(data), "tiny")
    except ChatcliError as error:
        assert 400 == status_of(error) and str(error).endswith(".")
        assert all(json.dumps(each.error_of(error, 400)) for each in (openai, anthropic))
        return
    for event in SCRIPT["call"]:
        assert isinstance(read.take(event), bytes)
    json.dumps(read.whole(), allow_nan=False)
    for message in read.request.messages:
        message.content.encode()


def damaged(value: Any) -> Iterator[Any]:
    """Copies of a request with each value, at any depth, replaced or removed."""
    yield from (None, 5, -1.5, "x", [], {}, [5], {"a": 1}, True)
    if isinstance(value, dict):
        for key in value:
            yield {name: each for name, each in value.items() if name != key}
            yield from ({**value, key: other} for other in damaged(value[key]))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from ([*value[:number], other, *value[number + 1 :]] for other in damaged(each))


PNG = base64.b64encode(test_openai.png()).decode()
CALL = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
OPENAI = {
    "n": 2,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": {"anyOf": [{"properties": {"b": {"type": "string"}}}]}},
    },
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": "b", "reasoning_content": "c", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "d"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "chat"},
                {"type": "image_url", "image_url": {"url": f"data:;base64,{PNG}"}},
            ],
        },
    ],
    "tools": [test_openai.TOOL],
    "stream_options": {"include_usage": True},
    "logit_bias": {"5": 1.5},
    "stop": ["a"],
    **{name: 1 for name in openai.SAMPLING if name not in ("stop", "xtc_threshold")},
}
ANTHROPIC = {
    "system": [{"type": "text", "text": "a"}],
    "messages": [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "a"},
                {"type": "tool_use", "id": "c", "name": "read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [{"type": "text", "text": "d"}],
                    "is_error": False,
                }
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "data": PNG}},
                {"type": "text", "text": "chat"},
            ],
        },
    ],
    "tools": [test_anthropic.TOOL],
    "tool_choice": {"type": "auto"},
    "thinking": {"type": "enabled", "budget_tokens": 5},
    "output_config": {"effort": "high"},
    "stop_sequences": ["a"],
    "temperature": 1,
}
RESPONSES = {
    "instructions": "a",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}", "namespace": "memo"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "d"}]},
        {"type": "custom_tool_call", "call_id": "e", "name": "patch", "input": "f"},
        {"type": "custom_tool_call_output", "call_id": "e", "output": "g"},
        {"type": "local_shell_call", "call_id": "h", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "h", "output": "i"},
        {"type": "web_search_call", "id": "j", "status": "completed", "action": {"query": "k"}},
        {"type": "compaction", "encrypted_content": "l m"},
        {"role": "user", "content": [{"type": "input_image", "image_url": f"data:;base64,{PNG}"}]},
    ],
    "tools": [test_responses.TOOL, test_responses.NAMESPACE],
    "tool_choice": "auto",
    "reasoning": {"effort": "high"},
    "text": {"format": {"type": "json_schema", "schema": {"properties": {"a": {"type": "string"}}}}},
    "max_output_tokens": 1,
}


@pytest.mark.parametrize(
    ("exchange", "body"),
    [(openai.ChatCompletion, OPENAI), (anthropic.Messages, ANTHROPIC), (Responses, RESPONSES)],
    ids=["openai", "anthropic", "responses"],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_name(exchange: Any, body: Any) -> None:
    exchange(parse(json.dumps(body).encode()), "tiny")
    refused = 0
    for wrong in damaged(body):
        try:
            exchange(parse(json.dumps(wrong).encode()), "tiny")
        except ChatcliError as error:
            assert 400 == status_of(error) and str(error).endswith(".")
            refused += 1
    assert refused > 300
