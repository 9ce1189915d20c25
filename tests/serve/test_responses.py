"""OpenAI's own client against /v1/responses: items in and out, streams, tools and errors."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError
from chatcli.events import TextDelta, ToolCall
from chatcli.serve.request import CallsMade, ReplyDone
from chatcli.serve.responses import Items, Responses
from chatcli.serve.wire import in_order, parse
from tests.serve.test_openai import png
from tests.support.asking import Served
from tests.support.serving import MATCHED, RECORD, SCRIPT, ScriptedEngine, Started, serving
from tests.support.templates import QWEN3_TOOLS
from tests.support.tiny import write_model, write_reciter

ENGINE = ScriptedEngine(
    {
        **SCRIPT,
        "cut": [MATCHED, TextDelta("And "), ReplyDone(replace(RECORD, finish_reason="length"))],
        "recall": [MATCHED, CallsMade((ToolCall("memo__recall", "{}", "call_4"),)), ReplyDone(RECORD)],
    }
)
TOOL = {
    "type": "function",
    "name": "read",
    "description": "Reads.",
    "parameters": {"type": "object", "properties": {}},
}
NAMESPACE = {"type": "namespace", "name": "memo", "tools": [{"type": "function", "name": "recall"}]}


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with serving(ENGINE) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, text: Any = "chat", **more: Any) -> Any:
    return client.responses.create(model="whatever", input=text, **more)


def test_a_response_has_a_reasoning_item_and_counts_cached_tokens(client: openai.OpenAI) -> None:
    response = ask(client, instructions="Be brief.", metadata={"a": "b"})
    thinking, message = response.output
    assert ("reasoning", "Hm, é.") == (thinking.type, thinking.content[0].text)
    assert ("message", "Yes, indeed.", "completed") == (message.type, response.output_text, response.status)
    assert (ENGINE.model, "Be brief.", {"a": "b"}) == (
        response.model,
        response.instructions,
        response.metadata,
    )
    usage = response.usage
    assert (40, 5, 45) == (usage.input_tokens, usage.output_tokens, usage.total_tokens)
    assert (32, 2) == (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens)
    assert (Message("system", "Be brief."), Message("user", "chat")) == ENGINE.requests[-1].messages


def test_a_stream_has_its_events_in_order_and_numbered(client: openai.OpenAI) -> None:
    events = list(ask(client, stream=True))
    text = ["output_item.added", "content_part.added"], ["content_part.done", "output_item.done"]
    expected = [
        *("created", "in_progress"),
        *text[0],
        *["reasoning_text.delta"] * 2,
        "reasoning_text.done",
        *text[1],
        *text[0],
        *["output_text.delta"] * 2,
        "output_text.done",
        *text[1],
        "completed",
    ]
    assert [f"response.{name}" for name in expected] == [event.type for event in events]
    assert list(range(len(events))) == [event.sequence_number for event in events]
    assert ["Hm, ", "é.", "Yes, ", "indeed."] == [e.delta for e in events if e.type.endswith("delta")]


@pytest.mark.parametrize("text", ["chat", "call"])
def test_a_stream_becomes_the_same_response(client: openai.OpenAI, text: str) -> None:
    with client.responses.stream(model="any", input=text) as stream:
        list(stream)
        streamed = stream.get_final_response()
    whole = ask(client, text)
    dumps = [each.model_dump(exclude={"id", "created_at"}) for each in (whole, streamed)]
    for item in dumps[0]["output"] + dumps[1]["output"]:
        del item["id"]
        item.pop("parsed_arguments", None)
        for part in item.get("content") or []:
            part.pop("parsed", None)
    assert dumps[0] == dumps[1]


def test_calls_are_items_that_name_their_namespace(client: openai.OpenAI) -> None:
    message, *calls = ask(client, "call", tools=[TOOL]).output
    assert "I look." == message.content[0].text
    assert [("call_1", "read", '{"path": "a"}', None), ("call_2", "list", "{}", None)] == [
        (call.call_id, call.name, call.arguments, call.namespace) for call in calls
    ]
    arguments = [e.arguments for e in ask(client, "call", stream=True) if e.type.endswith("arguments.done")]
    assert ['{"path": "a"}', "{}"] == arguments
    (call,) = ask(client, "recall", tools=[NAMESPACE]).output
    assert ("memo", "recall") == (call.namespace, call.name)
    assert ["memo__recall"] == [tool["function"]["name"] for tool in ENGINE.requests[-1].tools]
    ask(client, [{"role": "user", "content": "call"}, call, {**answer_to(call), "output": "blue"}])
    assert "memo__recall" == ENGINE.requests[-1].messages[1].tool_calls[0].name


def test_items_may_be_referred_to_by_their_ids(client: openai.OpenAI) -> None:
    def refer(text: str, **more: Any) -> Any:
        output = ask(client, text, tools=[TOOL], **more).output
        references = [{"type": "item_reference", "id": item.id} for item in output]
        results = [answer_to(item) for item in output if item.type == "function_call"]
        ask(
            client,
            [{"role": "user", "content": text}, *references, *results, {"role": "user", "content": "?"}],
        )
        return ENGINE.requests[-1].messages

    calls = (ToolCall("read", '{"path": "a"}', "call_1", 7, 7), ToolCall("list", "{}", "call_2", 7, 7))
    reply = Message("assistant", "I look.", tool_calls=calls)
    assert (Message("user", "call"), reply) == refer("call")[:2]
    assert Message("assistant", "Yes, indeed.", "Hm, é.") == refer("chat")[1]
    with pytest.raises(openai.BadRequestError, match="unknown item"):
        refer("chat", store=False)


def test_the_fields_that_strict_clients_require_are_there(client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(
        model="any", input="call", tools=[TOOL]
    ).http_response.json()
    assert {"error", "incomplete_details", "instructions", "text", "truncation", "reasoning"} <= raw.keys()
    assert False is raw["tools"][0]["strict"] and {"format": {"type": "text"}} == raw["text"]
    for event in ask(client, "chat", stream=True, tools=[TOOL]):
        TypeAdapter(ResponseStreamEvent).validate_python(event.model_dump())


def answer_to(call: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call.call_id, "output": "a cat"}


def test_tools_that_templates_cannot_show_are_omitted_and_logged(
    client: openai.OpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(client, tools=[TOOL, {"type": "web_search"}, {"type": "custom", "name": "apply_patch"}])
    assert ["read"] == [tool["function"]["name"] for tool in ENGINE.requests[-1].tools]
    assert "tools left out: web_search, custom" in capsys.readouterr().err
    ask(client, tools=[TOOL], tool_choice="none")
    assert () == ENGINE.requests[-1].tools


def test_an_agents_conversation_reaches_the_engine(client: openai.OpenAI) -> None:
    image = {
        "type": "input_image",
        "image_url": f"data:image/png;base64,{base64.b64encode(png()).decode()}",
    }
    call = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"b":1,"a":2}'}
    thought = {"type": "reasoning_text", "text": "Hm."}
    ask(
        client,
        [
            {"role": "developer", "content": [{"type": "input_text", "text": "And kind."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "See"}, image]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [thought]},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "abc"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            call,
            {**call, "call_id": "c2"},
            {"type": "function_call_output", "call_id": "c1", "output": "red"},
            {"type": "function_call_output", "call_id": "c2", "output": [image]},
            {"role": "system", "content": "Two minutes are left."},
        ],
        instructions="Be brief.",
    )
    request = ENGINE.requests[-1]
    picture = request.images[0].picture
    calls = tuple(ToolCall("read", '{"b":1,"a":2}', each, 7, 7) for each in ("c1", "c2"))
    assert (
        Message("system", "Be brief.\n\nAnd kind."),
        Message("user", "See", images=(picture,)),
        Message("assistant", "I look.", "Hm.", tool_calls=calls),
        Message("tool", "red", tool_call_id="c1"),
        Message("tool", "", images=(picture,), tool_call_id="c2"),
        Message("user", "<system>\nTwo minutes are left.\n</system>"),
    ) == request.messages


def test_sampling_and_thinking_options_reach_the_engine(client: openai.OpenAI) -> None:
    given: dict[str, Any] = {"max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9}
    response = ask(client, reasoning={"effort": "high", "summary": "auto"}, store=False, **given)
    request = ENGINE.requests[-1]
    said = {key: value for key, value in vars(request.sampling).items() if value is not None}
    assert {"max_tokens": 9, "temp": 0.5, "top_p": 0.9} == said
    assert (None, "high") == (request.think, request.effort)
    assert given == {key: getattr(response, key) for key in given}
    ask(client, reasoning={"effort": "none"})
    assert (False, None) == (ENGINE.requests[-1].think, ENGINE.requests[-1].effort)


def test_a_truncated_reply_is_incomplete(client: openai.OpenAI) -> None:
    *_, done, end = ask(client, "cut", stream=True)
    assert ("response.output_item.done", "incomplete") == (done.type, done.item.status)
    for response in (end.response, ask(client, "cut")):
        assert ("incomplete", "max_output_tokens") == (response.status, response.incomplete_details.reason)
    assert "response.incomplete" == end.type


def test_an_error_within_a_stream_is_its_last_event(client: openai.OpenAI) -> None:
    *_, end = ask(client, "broken", stream=True)
    assert ("response.failed", "failed") == (end.type, end.response.status)
    assert ("server_error", "No disk is left.") == (end.response.error.code, end.response.error.message)
    with pytest.raises(openai.InternalServerError, match=r"No disk is left\."):
        ask(client, "broken")
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "full", stream=True)
    assert "context_length_exceeded" == refused.value.code


def test_a_waiting_stream_sends_events() -> None:
    exchange = Responses(parse(b'{"input": "slow", "stream": true}'), "tiny", Items())
    data = exchange.keep_alive() + exchange.take(MATCHED) + exchange.keep_alive()
    data += exchange.error_frame(ChatcliError("No disk is left."), 500)
    events = [line for line in data.decode().splitlines() if line.startswith("event: ")]
    names = ["created", "in_progress", "in_progress", "failed"]
    assert [f"event: response.{name}" for name in names] == events


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("input", None, "missing"),
        ("input", 5, "list"),
        ("input", [], "end with"),
        ("input", [{"role": "king", "content": "a"}], "role"),
        ("input", [{"type": "item_reference", "id": "a"}], "unknown item"),
        ("input", [{"role": "user", "content": [{"type": "input_file"}]}], "text or an image"),
        ("input", [{"role": "user", "content": [{"type": "input_image", "image_url": "http://a"}]}], "data:"),
        ("input", [{"type": "function_call", "name": "a", "arguments": "{}"}], "call_id"),
        ("input", [{"type": "function_call", "call_id": "c", "name": 5, "arguments": "{"}], "string"),
        ("input", [{"type": "function_call_output", "output": "a"}], "call_id"),
        ("instructions", 5, "string"),
        ("previous_response_id", 5, "string"),
        ("background", True, "not supported"),
        ("top_logprobs", 2, "chat/completions"),
        ("tools", [{"type": "file_search"}], "function"),
        ("tools", [{"type": "function"}], "missing"),
        ("tool_choice", "required", "no tools"),
        ("text", {"format": {"type": "grammar"}}, "json_schema"),
        ("reasoning", {"effort": 3}, "string"),
        ("max_output_tokens", 0, "≥ 1"),
    ],
)
def test_an_invalid_request_names_the_field_at_fault(
    client: openai.OpenAI, field: str, value: Any, word: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/responses", body={"input": "chat", field: value}, cast_to=object)
    error = refused.value.body
    assert isinstance(error, dict) and word in error["message"], error
    assert error["param"].startswith(field) and "invalid_request_error" == error["type"]


def test_a_tool_loop_prefills_only_the_result_even_after_a_restart(tmp_path: Path) -> None:
    # Valid JSON, but spelled as no library writes it.
    written = '{"name":"read",  "arguments":{"at":"caf\\u00e9"}}'
    words = ["<think>", "\nHm.\n", "</think>", "\n\n", "<tool_call>", written, "</tool_call>"]
    model = write_reciter(tmp_path / "model", QWEN3_TOOLS, words)
    items: list[Any] = [{"role": "user", "content": "What is there? " * 30}]
    tokens = 0
    for number in range(2):
        with (
            Served(model, tmp_path / "saved") as served,
            serving(Started(served.engine)) as url,
            openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
            client.responses.stream(model="any", input=items, tools=[TOOL]) as stream,  # type: ignore[list-item]
        ):
            list(stream)
            response = stream.get_final_response()
            assert response.usage is not None
            cached = response.usage.input_tokens_details.cached_tokens
            assert cached >= tokens if number else cached == 0
            assert response.usage.output_tokens_details.reasoning_tokens > 0
            tokens = response.usage.total_tokens - 1  # the last one ends the reply
            thinking, call = response.output
            assert "reasoning" == thinking.type and "function_call" == call.type
            sent = call.model_dump(include={"type", "call_id", "name"})
            # Like some clients, parse the arguments and serialize them again.
            sent["arguments"] = json.dumps(json.loads(call.arguments), indent=1)
            items += [thinking.model_dump(exclude_none=True), sent, answer_to(call)]
            served.rest()


SHELL = {"type": "exec", "command": ["ls", "-l"], "env": {}}
PATCH = {"type": "update_file", "path": "a.py", "diff": "+x"}
HISTORY: list[tuple[Any, list[Message]]] = [
    (
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "Done."},
        ],
        [
            Message("assistant", "", tool_calls=(ToolCall("apply_patch", '{"input": "*** Begin"}', "c"),)),
            Message("tool", "Done.", tool_call_id="c"),
        ],
    ),
    (
        [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "local_shell_call", "id": "l", "call_id": "c", "status": "completed", "action": SHELL},
            {"type": "local_shell_call_output", "id": "l", "output": '{"output": "a.py"}'},
        ],
        [
            Message(
                "assistant",
                "I look.",
                tool_calls=(ToolCall("local_shell", json.dumps(SHELL), "c", 7, 7),),
            ),
            Message("tool", '{"output": "a.py"}'),
        ],
    ),
    (
        [
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a.py", "stderr": ""}]},
        ],
        [
            Message("assistant", "", tool_calls=(ToolCall("shell", '{"commands": ["ls"]}', "c"),)),
            Message("tool", '[{"stdout": "a.py", "stderr": ""}]', tool_call_id="c"),
        ],
    ),
    (
        [
            {"type": "apply_patch_call", "call_id": "c", "status": "completed", "operation": PATCH},
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed"},
        ],
        [
            Message("assistant", "", tool_calls=(ToolCall("apply_patch", json.dumps(PATCH), "c"),)),
            Message("tool", "failed", tool_call_id="c"),
        ],
    ),
    (
        [
            {
                "type": "web_search_call",
                "id": "w",
                "status": "completed",
                "action": {"type": "search", "query": "MLX"},
            },
            {"role": "assistant", "content": "Found."},
        ],
        [
            Message(
                "assistant",
                "",
                tool_calls=(ToolCall("web_search", '{"type": "search", "query": "MLX"}', "w"),),
            ),
            Message("tool", "completed", tool_call_id="w"),
            Message("assistant", "Found."),
        ],
    ),
    (
        [
            {
                "type": "mcp_call",
                "id": "m",
                "server_label": "memo",
                "name": "recall",
                "arguments": "{}",
                "output": "Blue.",
            }
        ],
        [
            Message(
                "assistant",
                "",
                tool_calls=(ToolCall("recall", '{"server_label": "memo", "arguments": "{}"}', "m"),),
            ),
            Message("tool", "Blue.", tool_call_id="m"),
        ],
    ),
    (
        [{"type": "compaction", "encrypted_content": "gAAAAB"}],
        [Message("user", "[Earlier messages were compacted into a summary that only OpenAI can decrypt.]")],
    ),
    (
        [{"type": "compaction", "encrypted_content": "They like blue."}],
        [Message("user", "[Summary of earlier messages: They like blue.]")],
    ),
]


@pytest.mark.parametrize("items,messages", HISTORY)
def test_results_of_other_tools_are_history(
    client: openai.OpenAI, items: list[Any], messages: list[Message]
) -> None:
    ask(client, [{"role": "user", "content": "Look."}, *items, {"role": "user", "content": "And now?"}])
    asked = [Message("user", "Look."), *messages, Message("user", "And now?")]
    assert in_order(asked)[0] == ENGINE.requests[-1].messages


def test_tools_added_by_an_item_are_shown(client: openai.OpenAI) -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [TOOL]}
    ask(client, [item, {"role": "user", "content": "chat"}])
    assert "read" == ENGINE.requests[-1].tools[0]["function"]["name"]


@pytest.mark.parametrize("depth", [70, 500, pytest.param(990, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", ['{{"a":{}}}', "[{}]"])
def test_deeply_nested_arguments_become_text_or_are_refused(
    nested: openai.OpenAI, form: str, depth: int
) -> None:
    before, after = form.format("|").split("|")
    deep = before * depth + "1" + after * depth
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": deep}}
    messages: Any = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "red"},
    ]
    items: Any = [
        {"role": "user", "content": "Look."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": deep},
        {"type": "function_call_output", "call_id": "c1", "output": "red"},
    ]
    for _ in range(2):
        with contextlib.suppress(openai.BadRequestError):
            nested.chat.completions.create(model="any", messages=messages, max_tokens=1)
        with contextlib.suppress(openai.BadRequestError):
            nested.responses.create(model="any", input=items, max_output_tokens=1)


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    folder = tmp_path_factory.mktemp("nested")
    model = write_model(folder / "model", "qwen3", template=QWEN3_TOOLS, max_position_embeddings=1 << 18)
    with (
        Served(model, folder / "sessions") as served,
        serving(Started(served.engine)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
    ):
        yield client


def test_deeply_nested_arguments_of_a_model_are_returned_in_every_api(tmp_path: Path) -> None:
    deep = '{"a": ' * 400 + "1" + "}" * 400
    words = [f'<tool_call>{{"name": "read", "arguments": {deep}}}</tool_call>']
    model = write_reciter(tmp_path / "model", QWEN3_TOOLS, words)
    with Served(model, tmp_path / "sessions") as served, serving(Started(served.engine)) as url:
        tool: Any = {"name": "read", "input_schema": {"type": "object"}}
        asked: Any = [{"role": "user", "content": "Look."}]
        with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
            message = client.messages.create(model="any", max_tokens=50, messages=asked, tools=[tool])
        assert [{"arguments": deep}] == [each.input for each in message.content if each.type == "tool_use"]
        with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            reply = client.responses.create(model="any", input=asked, tools=[TOOL])  # type: ignore[list-item]
        assert [deep] == [each.arguments for each in reply.output if each.type == "function_call"]


def test_another_process_continues_a_kept_response(tmp_path: Path) -> None:
    model = write_reciter(tmp_path / "model", QWEN3_TOOLS, ["<tool_call>", '{"name":"read"}', "</tool_call>"])
    previous: Any = None
    new: Any = "My dog is called Biscuit. " * 20
    for turn in range(3):
        # A new server each time.
        with (
            Served(model, tmp_path / "saved", keep=True) as served,
            serving(Started(served.engine)) as url,
            openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
        ):
            response = ask(client, new, previous_response_id=previous, tools=[TOOL], instructions="Be brief.")
            served.rest()
            with pytest.raises(openai.BadRequestError, match="not kept"):
                ask(client, "And?", previous_response_id="resp_1")
            with pytest.raises(openai.BadRequestError, match="not kept"):
                unstored = ask(client, "And?", store=False).id
                ask(client, "And?", previous_response_id=unstored)
        (call,) = response.output
        assert previous == response.previous_response_id
        usage = response.usage
        assert not turn or usage.input_tokens - usage.input_tokens_details.cached_tokens < 60
        previous, new = response.id, [answer_to(call)]
    with (
        Served(model, tmp_path / "saved") as served,
        serving(Started(served.engine)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match="--keep"),
    ):
        ask(client, new, previous_response_id=previous)
