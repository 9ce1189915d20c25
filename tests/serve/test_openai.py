"""OpenAI's own client against the server: chats, streams, tools, logprobs, images and errors."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from PIL import Image as Pillow

from chatcli.conversation.tree import Message
from chatcli.events import TextDelta, ThinkingDelta, ToolCall
from chatcli.serve.openai import ChatCompletion
from chatcli.serve.request import CallsMade, ReplyDone, TokenLogprob
from chatcli.serve.wire import NO_LIMIT, parse
from tests.support.serving import CALLS, RECORD, ScriptedEngine, serving

ENGINE = ScriptedEngine()
TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}},
}


CALLED = [{"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}]


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with serving(ENGINE) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, text: str = "chat", **more: Any) -> Any:
    messages = more.pop("messages", [{"role": "user", "content": text}])
    return client.chat.completions.create(model="whatever", messages=messages, **more)


def png() -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", (2, 3), "red").save(file, "PNG")
    return file.getvalue()


def test_a_reply_returns_its_thinking_separately_and_counts_cached_tokens(client: openai.OpenAI) -> None:
    reply = chat(client)
    choice = reply.choices[0]
    assert ("Yes, indeed.", "stop") == (choice.message.content, choice.finish_reason)
    assert "Hm, é." == choice.message.reasoning_content == choice.message.reasoning
    assert ENGINE.model == reply.model
    usage = reply.usage
    assert (40, 5, 45) == (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    assert 32 == usage.prompt_tokens_details.cached_tokens
    assert 2 == usage.completion_tokens_details.reasoning_tokens


def test_a_stream_contains_the_same_reply_in_pieces(client: openai.OpenAI) -> None:
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert "assistant" == deltas[0].role
    assert ["Yes, ", "indeed."] == [delta.content for delta in deltas if delta.content]
    assert ["Hm, ", "é."] == [d.reasoning_content for d in deltas if hasattr(d, "reasoning_content")]
    assert [None] * 5 + ["stop"] == [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert [True] * 6 + [False] == [chunk.usage is None for chunk in chunks]
    assert 32 == chunks[-1].usage.prompt_tokens_details.cached_tokens


def test_n_replies_are_choices_of_one_completion(client: openai.OpenAI) -> None:
    count = len(ENGINE.requests)
    reply = chat(client, "call", n=3, seed=7, tools=[TOOL])
    assert [(0, "I look."), (1, "I look."), (2, "I look.")] == [
        (choice.index, choice.message.content) for choice in reply.choices
    ]
    assert [2, 2, 2] == [len(choice.message.tool_calls) for choice in reply.choices]
    assert [7, 8, 9] == [request.sampling.seed for request in ENGINE.requests[count:]]
    assert (40, 15, 55) == (
        reply.usage.prompt_tokens,
        reply.usage.completion_tokens,
        reply.usage.total_tokens,
    )
    chunks = list(chat(client, n=2, stream=True, stream_options={"include_usage": True}))
    texts = ["", ""]
    for chunk in chunks[:-1]:
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
    assert ["Yes, indeed."] * 2 == texts
    assert 10 == chunks[-1].usage.completion_tokens
    assert 2 == len([chunk for chunk in chunks[:-1] if chunk.choices[0].finish_reason])
    assert 2 == len(client.completions.create(model="any", prompt="Once", n=2).choices)
    with pytest.raises(openai.InternalServerError, match="No disk"):
        chat(client, "late", n=2)


def test_an_assistant_message_at_the_end_is_continued(client: openai.OpenAI) -> None:
    asked = {"role": "user", "content": "chat"}
    chat(client, messages=[asked, {"role": "assistant", "content": "Yes"}])
    request = ENGINE.requests[-1]
    assert (Message("assistant", "Yes"), False) == (request.beginning, request.think)
    assert (Message("user", "chat"),) == request.messages
    chat(client, messages=[asked, {"role": "assistant", "content": "", "reasoning": "Hm"}])
    assert (Message("assistant", "", "Hm"), None) == (
        ENGINE.requests[-1].beginning,
        ENGINE.requests[-1].think,
    )
    chat(client, messages=[asked, {"role": "assistant", "content": ""}])
    assert ENGINE.requests[-1].beginning is None


def test_fields_that_are_not_known_are_said(client: openai.OpenAI, capfd: pytest.CaptureFixture[str]) -> None:
    messages: Any = [{"role": "user", "content": "chat"}]
    create = client.chat.completions.with_raw_response.create
    unknown: Any = {"verbosity": "low", "grammar": "g", "a\r\nb": 1, "min_tokens": None}
    for stream in (True, False):
        response = create(model="any", messages=messages, user="a", stream=stream, extra_body=unknown)
        notice = response.headers["chatcli-notice"]
        assert "This server does not know these fields: grammar, verbosity." == notice
        response.http_response.read()
    assert "unknown fields: grammar, verbosity" in capfd.readouterr().err
    known = create(model="any", messages=messages, temperature=0, seed=1, metadata={"a": "b"})
    assert "chatcli-notice" not in known.headers


def test_tool_calls_come_with_the_text_before_them(client: openai.OpenAI) -> None:
    choice = chat(client, "call", tools=[TOOL]).choices[0]
    assert ("I look.", "tool_calls") == (choice.message.content, choice.finish_reason)
    assert [("call_1", "read", '{"path": "a"}'), ("call_2", "list", "{}")] == [
        (call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls
    ]
    with client.chat.completions.stream(
        model="any", messages=[{"role": "user", "content": "call"}], tools=[TOOL]
    ) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert choice.message.tool_calls[1].id == streamed.message.tool_calls[1].id
    assert "tool_calls" == streamed.finish_reason
    assert (TOOL,) == ENGINE.requests[-1].tools
    chat(client, tools=[TOOL], tool_choice="none")
    assert () == ENGINE.requests[-1].tools
    other = {"type": "function", "function": {"name": "list"}}
    allowed = {"mode": "required", "tools": [other]}
    for choice in (other, {"type": "allowed_tools", "allowed_tools": allowed}):
        chat(client, tools=[TOOL, other], tool_choice=choice)
        forced = ENGINE.requests[-1].answer
        assert forced is not None and ["list"] == [name for name, _ in forced.tools]


def test_each_chunk_has_the_logprobs_of_its_text(client: openai.OpenAI) -> None:
    content = chat(client, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    assert [("Yes", -0.25), (", ", -0.5)] == [(token.token, token.logprob) for token in content]
    assert [(", ", -0.5), ("No", -9999.0)] == [(top.token, top.logprob) for top in content[1].top_logprobs]
    assert [89, 101, 115] == content[0].bytes
    chunks = list(chat(client, stream=True, logprobs=True))
    told = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].logprobs]
    assert ["Yes, "] == told
    assert chat(client).choices[0].logprobs is None


def token_of(text: str) -> TokenLogprob:
    return TokenLogprob(7, text, -0.5)


def test_logprobs_are_those_of_the_content_alone() -> None:
    events: list[Any] = [
        *(token_of("Hm"), ThinkingDelta("Hm")),
        # A marker, and what a template puts after it.
        *(token_of("</think>"), token_of("\n\n")),
        # What may begin a marker is held back; a character may be several tokens.
        *(token_of("a"), TextDelta("a"), token_of(" <"), token_of("b <"), TextDelta(" <b "), token_of("c")),
        *(TextDelta("<c"), token_of("\udcc3"), token_of("\udca9"), TextDelta("é")),
        *(token_of("<call>"), CallsMade(CALLS), token_of("END"), ReplyDone(RECORD)),
    ]
    body = {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "stream": True}
    exchange = ChatCompletion(parse(json.dumps(body).encode()), "tiny")
    streamed = b"".join(exchange.take(event) for event in events)
    frames = [json.loads(line[6:]) for line in streamed.split(b"\n\n")[:-2]]
    sent = [choice["logprobs"] for frame in frames for choice in frame["choices"]]
    tokens = [token["token"] for each in sent if each for token in each["content"]]
    content = exchange.whole()["choices"][0]["logprobs"]["content"]
    assert ["a", " <", "b <", "c", "\\xc3", "\\xa9"] == tokens == [token["token"] for token in content]


def test_a_conversation_with_tools_thinking_and_images_reaches_the_engine(client: openai.OpenAI) -> None:
    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"b":1,"a":2}'}}
    chat(
        client,
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "x-anthropic-billing-header: 7"}]},
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "And kind."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See"},
                    {"type": "image_url", "image_url": {"url": url}},
                    {"type": "text", "text": "this."},
                ],
            },
            {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "red"},
        ],
    )
    request = ENGINE.requests[-1]
    picture = request.images[0].picture
    assert (png(), (2, 3)) == (request.images[0].data, (picture.width, picture.height))
    assert (
        Message("system", "Be brief.\n\nAnd kind."),
        Message("user", "See\nthis.", images=(picture,)),
        Message("assistant", "I look.", "Hm.", tool_calls=(ToolCall("read", '{"b":1,"a":2}', "c1", 7, 7),)),
        Message("tool", "red", tool_call_id="c1"),
    ) == request.messages


def test_sampling_and_thinking_options_reach_the_engine(client: openai.OpenAI) -> None:
    chat(
        client,
        max_tokens=3,
        max_completion_tokens=9,
        temperature=0.5,
        stop=["a", "b"],
        seed=4,
        logit_bias={"5": -100},
        reasoning_effort="high",
        extra_body={
            "top_k": 7,
            "repetition_penalty": 1.2,
            "chat_template_kwargs": {"enable_thinking": False, "x": 1},
        },
    )
    request = ENGINE.requests[-1]
    given = {key: value for key, value in vars(request.sampling).items() if value is not None}
    assert {
        "max_tokens": 9,
        "temp": 0.5,
        "stop": ("a", "b"),
        "seed": 4,
        "logit_bias": ((5, -100.0),),
        "top_k": 7,
        "repetition_penalty": 1.2,
    } == given
    assert (False, "high", {"x": 1}) == (request.think, request.effort, request.arguments)
    chat(client, reasoning_effort="none")
    assert (False, None) == (ENGINE.requests[-1].think, ENGINE.requests[-1].effort)


def test_a_prompt_is_completed(client: openai.OpenAI) -> None:
    reply = client.completions.create(model="any", prompt="Once", logprobs=1)
    assert "Hm, é.Yes, indeed." == reply.choices[0].text and "Once" == ENGINE.requests[-1].prompt
    assert ["Hm", "Yes", ", "] == reply.choices[0].logprobs.tokens
    chunks = list(client.completions.create(model="any", prompt=["Once"], stream=True))
    assert "Hm, é.Yes, indeed." == "".join(chunk.choices[0].text for chunk in chunks)


def test_the_model_is_listed(client: openai.OpenAI) -> None:
    assert [ENGINE.model] == [model.id for model in client.models.list()]
    assert ENGINE.model == client.models.retrieve(ENGINE.model).id
    with pytest.raises(openai.NotFoundError, match="no model 'nope'"):
        client.models.retrieve("nope")


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("n", 17, "1 to 16"),
        ("n", 0, "1 to 16"),
        ("temperature", "hot", "number"),
        ("max_tokens", 0, "≥ 1"),
        ("top_p", 10**400, "number"),
        ("stop", [""], "text"),
        ("stop", 5, "text"),
        ("seed", 1.5, "whole number"),
        ("logit_bias", {"a": 1}, "token ids"),
        ("logit_bias", {"1": None}, "numbers"),
        ("stream", "yes", "true or false"),
        ("stream_options", [], "object"),
        ("tools", [5], "object"),
        ("tools", [{"type": "web"}], "function"),
        ("tools", [{"type": "function", "function": {"name": 5}}], "string"),
        ("tool_choice", "required", "no tools"),
        ("tool_choice", "always", "auto"),
        ("tool_choice", {"type": "function"}, "missing"),
        ("tool_choice", {"type": "function", "function": {"name": "fly"}}, "not in tools"),
        ("response_format", {"type": "grammar"}, "json_schema"),
        ("response_format", {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}, "Unimplemented"),
        ("chat_template_kwargs", {"a b": 1}, "template"),
        ("top_logprobs", 21, "0 to 20"),
        ("functions", [{}], "tools"),
        ("reasoning_effort", 3, "string"),
        ("messages", [], "end with"),
        ("messages", None, "missing"),
        ("messages", "Hello", "list"),
        ("messages", [{"role": "assistant", "content": "a"}], "end with"),
        ("messages", [{"role": "user"}, {"role": "assistant", "tool_calls": CALLED}], "results"),
        ("messages", [{"role": "king", "content": "a"}], "role"),
        ("messages", [{"role": "user", "content": 5}], "list"),
        ("messages", [{"role": "user", "content": [{"type": "input_audio"}]}], "text or an image"),
        (
            "messages",
            [{"role": "assistant", "tool_calls": [{"function": {"name": 5, "arguments": "{"}}]}],
            "string",
        ),
    ],
)
def test_an_invalid_request_names_the_field_at_fault(
    client: openai.OpenAI, field: str, value: Any, word: str
) -> None:
    tools = [] if value == "required" else [TOOL]
    body = {"messages": [{"role": "user", "content": "chat"}], "logprobs": True, "tools": tools, field: value}
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", body=body, cast_to=object)
    error = refused.value.body
    assert isinstance(error, dict) and word in error["message"], error
    assert error["param"].startswith(field) and "invalid_request_error" == error["type"]


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("https://example.org/a.png", "not fetched"),
        ("data:image/png;base64,%%", "base64"),
        ("data:image/png;base64,aGVsbG8=", "PNG"),
    ],
    ids=["link", "spelling", "bytes"],
)
def test_an_unreadable_image_is_refused(client: openai.OpenAI, url: str, word: str) -> None:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    with pytest.raises(openai.BadRequestError, match=word):
        chat(client, messages=[{"role": "user", "content": content}])


def test_an_error_within_a_stream_is_its_last_event(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIError, match=r"No disk is left\."):
        list(chat(client, "broken", stream=True))
    with pytest.raises(openai.InternalServerError, match=r"No disk is left\."):
        chat(client, "broken")


def test_a_prompt_that_does_not_fit_is_refused_without_advice_about_shell_commands(
    client: openai.OpenAI,
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, "full")
    assert "context_length_exceeded" == refused.value.code
    assert "50 tokens do not fit 40. Make the conversation shorter." in str(refused.value)
    assert "/compact" not in str(refused.value)


@pytest.mark.parametrize(
    "name,given,setting,expected",
    [
        ("max_tokens", None, "max_tokens", None),
        ("max_tokens", 512.0, "max_tokens", 512),
        ("max_tokens", -1, "max_tokens", NO_LIMIT),
        ("max_completion_tokens", -2, "max_tokens", NO_LIMIT),
        ("max_tokens", 10**30, "max_tokens", 10**30),
        ("top_k", -1, "top_k", 0),
        ("top_k", 0, "top_k", 0),
        ("top_k", None, "top_k", None),
        ("seed", 7, "seed", 7),
        ("seed", -2, "seed", (1 << 63) - 2),
        ("seed", 1 << 64, "seed", 0),
        ("seed", None, "seed", None),
    ],
)
def test_special_numbers_of_other_servers_are_accepted(
    client: openai.OpenAI, name: str, given: Any, setting: str, expected: Any
) -> None:
    chat(client, extra_body={name: given})
    assert expected == getattr(ENGINE.requests[-1].sampling, setting)


def test_seed_minus_one_is_random(client: openai.OpenAI) -> None:
    for _ in range(2):
        chat(client, seed=-1)
    one, other = (request.sampling.seed for request in ENGINE.requests[-2:])
    assert one is not None is not other and one != other


@pytest.mark.parametrize(
    "field", [{"max_tokens": -3}, {"max_tokens": 1.5}, {"max_tokens": True}, {"seed": "7"}, {"seed": 0.5}]
)
def test_meaningless_numbers_are_refused(client: openai.OpenAI, field: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError, match=next(iter(field))):
        chat(client, extra_body=field)


AUDIO = {"type": "input_audio", "input_audio": {"data": "aaaa", "format": "wav"}}


@pytest.mark.parametrize(
    "part,note",
    [
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "image"),
        ({"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,aaaa"}}, "image"),
        (AUDIO, "audio"),
        ({"type": "file", "file": {"file_id": "f"}}, "file"),
    ],
)
def test_unsupported_content_is_refused_in_the_last_message_and_noted_in_history(
    client: openai.OpenAI, part: Any, note: str
) -> None:
    asked = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}
    with pytest.raises(openai.BadRequestError):
        chat(client, messages=[asked])
    chat(client, messages=[asked, {"role": "user", "content": "Leave it."}])
    (message,) = ENGINE.requests[-1].messages
    assert f"What is this?\n[{note}: not shown to this model]\n\nLeave it." == message.content
