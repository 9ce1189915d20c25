"""Structured output and forced calls, with the clients' own libraries, `pocket` and tiny models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel, Field

from chatcli import pocket
from tests.support.asking import Served
from tests.support.serving import Started, serving
from tests.support.templates import QWEN3_TOOLS
from tests.support.tiny import write_model

ASKED: Any = [{"role": "user", "content": "My name is Anna and I am 12. What is my name?"}]
LOOK: Any = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {
            "$defs": {"where": {"enum": ["cat", "dog"]}},
            "properties": {"at": {"$ref": "#/$defs/where"}},
            "required": ["at"],
            "additionalProperties": False,
        },
    },
}
GO: Any = {
    "type": "function",
    "function": {
        "name": "go",
        "description": "Goes.",
        "parameters": {
            "type": "object",
            "properties": {"steps": {"type": "integer", "minimum": 0, "maximum": 9}},
            "required": ["steps"],
            "additionalProperties": False,
        },
    },
}


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=99)


FORMAT: Any = {
    "type": "json_schema",
    "json_schema": {"name": "person", "schema": Person.model_json_schema(), "strict": True},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("saved")
    with Served(pocket.FOLDER, folder, tokens=400) as served, serving(Started(served.engine)) as url:
        yield url


def client_of(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)


def chat(url: str, **more: Any) -> Any:
    with client_of(url) as client:
        more = {"model": "any", "messages": ASKED, "temperature": 0, "reasoning_effort": "none", **more}
        return client.chat.completions.create(**more).choices[0]


def test_the_answer_fits_the_schema_and_thinking_is_free(url: str) -> None:
    free = chat(url, reasoning_effort=None)
    bound = chat(url, response_format=FORMAT, reasoning_effort=None)
    assert "stop" == bound.finish_reason
    Person.model_validate_json(bound.message.content)
    assert free.message.reasoning == bound.message.reasoning != ""


def test_the_clients_own_parsers_read_it(url: str) -> None:
    with client_of(url) as client:
        with client.chat.completions.stream(model="any", messages=ASKED, response_format=Person) as stream:
            assert isinstance(stream.get_final_completion().choices[0].message.parsed, Person)
        response = client.responses.parse(
            model="any", input="I am Bo.", text_format=Person, reasoning={"effort": "none"}
        )
        assert isinstance(response.output_parsed, Person)
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as claude:
        message = claude.messages.parse(
            model="any",
            max_tokens=400,
            messages=ASKED,
            output_format=Person,
            thinking={"type": "disabled"},
        )
        assert isinstance(message.parsed_output, Person)


def test_any_json_object_is_one_from_its_first_character(url: str) -> None:
    bound = chat(url, response_format={"type": "json_object"}, max_tokens=12)
    assert bound.message.content.startswith("{")


@pytest.mark.slow
def test_bound_and_free_replies_run_together(url: str) -> None:
    asked = [
        {"response_format": FORMAT},
        {},
        {"response_format": FORMAT, "logprobs": True, "top_logprobs": 2},
        {},
    ]
    alone = [chat(url, **more).message for more in asked[:2]]
    assert not hasattr(alone[0], "reasoning")
    Person.model_validate_json(alone[0].content)
    with ThreadPoolExecutor(len(asked)) as clients:
        together = list(clients.map(lambda more: chat(url, **more), asked))
    assert [alone[0].content, alone[1].content] * 2 == [choice.message.content for choice in together]


def test_a_beginning_is_a_part_of_the_bound_answer(url: str) -> None:
    begun = {"role": "assistant", "content": '{"name": "An'}
    choice = chat(url, messages=[*ASKED, begun], response_format=FORMAT)
    Person.model_validate_json(begun["content"] + choice.message.content)
    with pytest.raises(openai.BadRequestError, match="does not match"):
        chat(url, messages=[*ASKED, {**begun, "content": "[5"}], response_format=FORMAT)


@pytest.mark.slow
def test_n_bound_replies_differ_and_all_fit(url: str) -> None:
    with client_of(url) as client:
        reply = client.chat.completions.create(
            model="any",
            messages=ASKED,
            response_format=FORMAT,
            n=3,
            temperature=1.5,
            seed=1,
            reasoning_effort="none",
        )
    texts = [str(choice.message.content) for choice in reply.choices]
    assert 3 == len([Person.model_validate_json(text) for text in texts]) and len(set(texts)) > 1


@pytest.mark.slow
def test_a_call_is_forced_also_where_the_template_shows_no_tools(url: str) -> None:
    choice = chat(url, tools=[LOOK, GO], tool_choice="required", parallel_tool_calls=False)
    (call,) = choice.message.tool_calls
    assert "tool_calls" == choice.finish_reason and not choice.message.content
    assert json.loads(call.function.arguments).keys() in ({"at"}, {"steps"})
    named = {"type": "function", "function": {"name": "go"}}
    (call,) = chat(url, tools=[LOOK, GO], tool_choice=named).message.tool_calls
    assert "go" == call.function.name


def test_anthropic_and_responses_force_calls(url: str) -> None:
    tools: Any = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
        for tool in (LOOK, GO)
    ]
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "go"}):
            message = client.messages.create(
                model="any",
                max_tokens=400,
                messages=ASKED,
                tools=tools,
                tool_choice=choice,
                thinking={"type": "disabled"},
            )
            (call,) = [block for block in message.content if block.type == "tool_use"]
            assert "tool_use" == message.stop_reason and choice.get("name", call.name) == call.name
    with client_of(url) as openai_client:
        flat: Any = [{"type": "function", **tool["function"]} for tool in (LOOK, GO)]
        response = openai_client.responses.create(
            model="any",
            input="Go",
            tools=flat,
            tool_choice={"type": "function", "name": "go"},
            reasoning={"effort": "none"},
        )
    assert "go" == response.output[-1].name and {"steps"} == json.loads(response.output[-1].arguments).keys()


@pytest.mark.slow
def test_a_forced_call_is_shown_to_the_model_in_its_own_format(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "qwen3_5", template=QWEN3_TOOLS)
    messages: list[Any] = list(ASKED)
    with Served(model, tmp_path / "saved", tokens=200) as served, serving(Started(served.engine)) as url:
        for turn in range(3):
            with client_of(url) as client:
                reply = client.chat.completions.create(
                    model="any",
                    messages=messages,
                    tools=[LOOK, GO],
                    tool_choice="required",
                    parallel_tool_calls=False,
                    reasoning_effort="none",
                )
            served.rest()
            message = reply.choices[0].message.model_dump(exclude_none=True)
            (call,) = message["tool_calls"]
            messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "a cat"}]
            usage = reply.usage
            assert not turn or usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens < 60


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "not": {}}, "Unimplemented"),
        pytest.param({"type": "string", "pattern": "(?=a)b"}, "look-around", marks=pytest.mark.slow),
        pytest.param({"enum": []}, "empty", marks=pytest.mark.slow),
        pytest.param({"$ref": "http://127.0.0.1:9/schema"}, "not present", marks=pytest.mark.slow),
        ({"type": "string", "const": "x" * 300_000}, "characters"),
        # A chain of references that would overflow the stack.
        (
            {
                "$defs": {
                    f"d{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}}
                    for n in range(2000)
                }
                | {"d2000": {"type": "string"}},
                "$ref": "#/$defs/d0",
            },
            "too complex",
        ),
        pytest.param(
            {"allOf": [{"type": "string", "pattern": f"(a|b)*a(a|b){{{n}}}c"} for n in range(20)]},
            "too complex",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_schema_that_cannot_be_held_is_refused_with_the_reason(url: str, schema: Any, reason: str) -> None:
    with pytest.raises(openai.BadRequestError, match=reason):
        chat(url, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    Person.model_validate_json(chat(url, response_format=FORMAT).message.content)
