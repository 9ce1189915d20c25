"""Anthropic's own client against the server: messages, streams, thinking, tools and errors."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from chatcli.conversation.tree import Message
from chatcli.events import ToolCall
from tests.serve.test_openai import png
from tests.support.serving import ScriptedEngine, serving

ENGINE = ScriptedEngine()
TOOL = {"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def client() -> Iterator[anthropic.Anthropic]:
    with serving(ENGINE) as url, anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        yield client


def ask(client: anthropic.Anthropic, text: str = "chat", **more: Any) -> Any:
    more = {"messages": [{"role": "user", "content": text}], "max_tokens": 100, **more}
    return client.messages.create(model="claude-whatever", **more)


def test_a_message_has_blocks_and_counts_cached_tokens(client: anthropic.Anthropic) -> None:
    message = ask(client, thinking={"type": "adaptive"})
    thinking, text = message.content
    assert ("thinking", "Hm, é.") == (thinking.type, thinking.thinking) and thinking.signature
    assert ("text", "Yes, indeed.", "end_turn") == (text.type, text.text, message.stop_reason)
    assert (8, 32, 0, 5) == (
        message.usage.input_tokens,
        message.usage.cache_read_input_tokens,
        message.usage.cache_creation_input_tokens,
        message.usage.output_tokens,
    )


def test_without_thinking_the_first_block_is_the_text(client: anthropic.Anthropic) -> None:
    assert "Yes, indeed." == ask(client).content[0].text
    assert False is ENGINE.requests[-1].think
    with client.messages.stream(
        model="any", max_tokens=9, messages=[{"role": "user", "content": "chat"}]
    ) as s:
        assert ["text"] == [block.type for block in s.get_final_message().content]


def test_tools_that_clients_run_are_functions(client: anthropic.Anthropic) -> None:
    editor = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9}
    ask(client, tools=[{"type": "bash_20250124", "name": "bash"}, editor])
    functions = [tool["function"] for tool in ENGINE.requests[-1].tools]
    assert ["bash", "str_replace_based_edit_tool"] == [function["name"] for function in functions]
    assert [{"command", "restart"}, {"command", "path"}] == [
        set(function["parameters"].get("required", function["parameters"]["properties"]))
        for function in functions
    ]


def test_documents_and_search_results_with_text_are_text(client: anthropic.Anthropic) -> None:
    block = {"type": "text", "text": "A letter."}
    result = {"type": "search_result", "source": "https://a", "title": "B", "content": [block]}
    documents: list[Any] = [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "A."},
            "title": "T",
        },
        {"type": "document", "source": {"type": "content", "content": [block]}},
        {"type": "document", "source": {"type": "content", "content": "C."}, "context": "Of Bo."},
        result,
    ]
    texts = ["T\nA.", "A letter.", "Of Bo.\nC.", "https://a\nB\nA letter."]
    ask(client, messages=[{"role": "user", "content": documents}])
    assert "\n".join(texts) == ENGINE.requests[-1].messages[0].content
    told = {"type": "tool_result", "tool_use_id": "c1", "content": [result]}
    ask(client, messages=[{"role": "user", "content": [told]}])
    assert Message("tool", texts[-1], tool_call_id="c1") == ENGINE.requests[-1].messages[0]


@pytest.mark.parametrize("text", ["chat", "call"])
def test_a_stream_becomes_the_same_message(client: anthropic.Anthropic, text: str) -> None:
    whole = ask(client, text, tools=[TOOL])
    with client.messages.stream(
        model="any", max_tokens=9, messages=[{"role": "user", "content": text}], tools=[TOOL]
    ) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert whole.model_dump(exclude={"id"}) == streamed.model_dump(exclude={"id"})
    assert ("message_start", "message_stop") == (kinds[0], kinds[-1])
    if text == "call":
        assert "tool_use" == streamed.stop_reason
        assert [("call_1", {"path": "a"}), ("call_2", {})] == [
            (block.id, block.input) for block in streamed.content[1:]
        ]


def test_a_message_names_the_stop_sequence_that_ended_it(client: anthropic.Anthropic) -> None:
    message = ask(client, "stop", stop_sequences=["END"])
    assert ("stop_sequence", "END") == (message.stop_reason, message.stop_sequence)
    *_, delta, _ = ask(client, "stop", stop_sequences=["END"], stream=True)
    assert ("stop_sequence", "END") == (delta.delta.stop_reason, delta.delta.stop_sequence)


def test_arguments_that_are_not_an_object_are_wrapped_in_one(client: anthropic.Anthropic) -> None:
    assert {"arguments": '{"a": NaN}'} == ask(client, "odd").content[0].input


def test_an_agents_conversation_reaches_the_engine(client: anthropic.Anthropic) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png()).decode()}
    result = [{"type": "text", "text": "no such file"}, {"type": "image", "source": source}]
    ask(
        client,
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cch=4f2;"},
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "And kind."},
        ],
        messages=[
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
                    {"type": "redacted_thinking", "data": "abc"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"b": "é", "a": 2}},
                    {"type": "tool_use", "id": "c2", "name": "list", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": result, "is_error": True},
                    {"type": "tool_result", "tool_use_id": "c2"},
                    {"type": "text", "text": "Go on."},
                ],
            },
            {"role": "system", "content": "Two minutes are left."},
        ],
        tools=[TOOL],
        thinking={"type": "enabled", "budget_tokens": 2000},
        stop_sequences=["END"],
        extra_body={"top_k": 5},
        output_config={"effort": "high"},
    )
    request = ENGINE.requests[-1]
    picture = request.images[0].picture
    calls = (ToolCall("read", '{"b": "é", "a": 2}', "c1", 7, 7), ToolCall("list", "{}", "c2", 7, 7))
    assert (
        Message("system", "Be brief.\n\nAnd kind."),
        Message("user", "Look."),
        Message("assistant", "I look.", "Hm.", tool_calls=calls),
        Message("tool", "Error: no such file", images=(picture,), tool_call_id="c1"),
        Message("tool", "", tool_call_id="c2"),
        Message("user", "Go on.\n\n<system>\nTwo minutes are left.\n</system>"),
    ) == request.messages
    function = {"name": "read", "description": "Reads.", "parameters": TOOL["input_schema"]}
    assert ({"type": "function", "function": function},) == request.tools
    assert (True, 2000, "high") == (request.think, request.sampling.think_budget, request.effort)
    assert (("END",), 5, 100) == (request.sampling.stop, request.sampling.top_k, request.sampling.max_tokens)
    ask(client, thinking={"type": "disabled"}, tools=[TOOL], tool_choice={"type": "none"})
    assert (False, ()) == (ENGINE.requests[-1].think, ENGINE.requests[-1].tools)


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("max_tokens", "many", "whole number"),
        ("thinking", {"type": "deep"}, "adaptive"),
        ("thinking", {"type": "enabled", "budget_tokens": -1}, "≥ 0"),
        ("system", [{"type": "text"}], "missing"),
        ("system", 5, "list"),
        ("tools", [{"type": "web_search_20250305", "name": "web_search"}], "custom"),
        ("tools", [{"name": "read"}], "input_schema"),
        ("tool_choice", {"type": "any"}, "no tools"),
        ("messages", [], "end with"),
        ("messages", [{"role": "user", "content": None}], "missing"),
        ("messages", [{"role": "user", "content": [{"type": "document"}]}], "text, image"),
        ("messages", [{"role": "user", "content": [{"type": "tool_result"}]}], "tool_use_id"),
        ("messages", [{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}], "base64"),
        ("messages", [{"role": "assistant", "content": [{"type": "image"}]}], "tool_use"),
    ],
)
def test_an_invalid_request_names_the_field_at_fault(
    client: anthropic.Anthropic, field: str, value: Any, word: str
) -> None:
    with pytest.raises(anthropic.BadRequestError) as refused:
        body = {"messages": [{"role": "user", "content": "chat"}], "max_tokens": 9, field: value}
        client.post("/v1/messages", body=body, cast_to=object)
    error = refused.value.body
    assert isinstance(error, dict) and "error" == error["type"]
    assert "invalid_request_error" == error["error"]["type"]
    assert field in error["error"]["message"] and word in error["error"]["message"]


def test_an_error_within_a_stream_is_its_last_event(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.APIError, match=r"No disk is left\."):
        list(ask(client, "broken", stream=True))


def test_the_model_is_listed(client: anthropic.Anthropic) -> None:
    assert [ENGINE.model] == [model.id for model in client.models.list()]
    with pytest.raises(anthropic.NotFoundError) as refused:
        client.models.retrieve("nope")
    error = refused.value.body
    assert isinstance(error, dict) and "not_found_error" == error["error"]["type"]


def test_a_prompt_that_does_not_fit_is_refused_in_words_that_agents_recognize(
    client: anthropic.Anthropic,
) -> None:
    with pytest.raises(anthropic.BadRequestError) as refused:
        ask(client, "full")
    assert "prompt is too long: 50 tokens do not fit 40. Make the conversation shorter." in str(refused.value)


def test_the_tokens_of_a_prompt_are_counted(client: anthropic.Anthropic) -> None:
    messages: Any = [{"role": "user", "content": "chat"}]
    counted = client.messages.count_tokens(model="any", messages=messages, system="Be brief.", tools=[TOOL])
    assert 40 == counted.input_tokens
    assert ENGINE.requests[-1].count_only and ENGINE.requests[-1].tools


def test_max_tokens_may_be_zero(client: anthropic.Anthropic) -> None:
    ask(client, max_tokens=0)
    assert 0 == ENGINE.requests[-1].sampling.max_tokens


def test_results_of_anthropics_server_tools_are_history(client: anthropic.Anthropic) -> None:
    ask(
        client,
        messages=[
            {"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "http://x"}}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
                    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "T"}]},
                    {"type": "text", "text": "Found."},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "document", "source": {"type": "text", "data": "A letter."}}],
            },
        ],
    )
    assert (
        Message("user", "[document: not shown to this model]"),
        Message("assistant", "", tool_calls=(ToolCall("web_search", '{"query": "q"}', "s1"),)),
        Message("tool", '[{"title": "T"}]', tool_call_id="s1"),
        Message("assistant", "Found."),
        Message("user", "A letter."),
    ) == ENGINE.requests[-1].messages
