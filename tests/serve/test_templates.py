"""The server with unusual chat templates: tools, ids, odd histories, endless templates."""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from chatcli.conversation.tree import Message
from chatcli.events import PrefixMatched, ThinkingDelta
from chatcli.serve import openai
from chatcli.serve.engine import Engine
from chatcli.serve.request import CallsMade
from chatcli.serve.wire import Fields
from chatcli.settings.values import Sampling, Settings
from tests.support import tiny
from tests.support.asking import Served, question, with_reply
from tests.support.serving import serving
from tests.support.templates import QWEN3_TOOLS
from tests.support.tiny import write_reciter

TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},)
CALL = '{"name":"look",  "arguments":{"at":"Oslo"}}'
REPLY = ["<tool_call>", CALL, "</tool_call>"]
# Like Mistral's: ids of nine letters and digits, and no text beside calls.
NINE = """\
{%- for m in messages %}
{%- if m.role == 'user' %}{{- '[INST]' + m.content + '[/INST]' }}
{%- elif m.role == 'tool' %}
{%- if m.tool_call_id|length != 9 %}{{- raise_exception('Tool call IDs should be nine long!') }}{%- endif %}
{{- '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}
{%- elif m.role == 'assistant' and m.tool_calls %}
{%- for call in m.tool_calls %}
{%- if call.id|length != 9 %}{{- raise_exception('Tool call IDs should be nine long!') }}{%- endif %}
{{- '<tool_call>' + ({'name': call.function.name, 'arguments': call.function.arguments} | tojson) }}
{{- '</tool_call>' }}
{%- endfor %}{{- '<|im_end|>' }}
{%- elif m.role == 'assistant' %}{{- m.content + '<|im_end|>' }}
{%- else %}{{- raise_exception('Only user, assistant and tool!') }}{%- endif %}
{%- endfor %}
{#- mlx-lm looks for <tool_call> and tool_call.name. #}"""
# Loops forever if the message contains the word.
SLOW = (
    "{%- for m in messages if m.content == 'slow' %}{%- for a in range(9000) %}{%- for b in range(9000) %}"
    "{%- endfor %}{%- endfor %}{%- endfor %}" + tiny.OPEN_THINK
)


@pytest.mark.parametrize("template", [NINE, QWEN3_TOOLS, tiny.OWN_THINK], ids=["nine", "qwen3", "no calls"])
def test_a_tool_loop_reuses_everything_that_was_generated(tmp_path: Path, template: str) -> None:
    model = write_reciter(tmp_path / "model", template + "{#- <tool_call> tool_call.name #}", REPLY)
    with Served(model, tmp_path) as served:
        asked = question("Look.")
        for _ in range(2):
            submitted = served.submit(asked, tools=TOOLS)
            calls = submitted.until(CallsMade).calls
            reply = submitted.done()
            served.rest()
            assert 9 == len(calls[0].id) and calls[0].id.isalnum()
            asked = [*with_reply(asked, reply), Message("tool", "a cat", tool_call_id=calls[0].id)]
            record = served.submit(asked, tools=TOOLS).until(PrefixMatched)
            assert record.reused_tokens >= reply.record.prompt_tokens + reply.record.generated_tokens - 1


@pytest.mark.parametrize(
    "arguments", ["Oslo", '{"city": "Os', "[1]", "7", "null", "", '{"a": NaN}', "[" * 900 + "]" * 900]
)
def test_any_arguments_that_a_model_wrote_are_accepted_in_history(tmp_path: Path, arguments: str) -> None:
    call = {"id": "c", "function": {"name": "look", "arguments": arguments}}
    body = {
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "a cat"},
        ]
    }
    messages = openai.ChatCompletion(Fields(body), "any").request.messages
    model = tiny.write_model(tmp_path / "model", "qwen3", template=QWEN3_TOOLS)
    with Served(model, tmp_path) as served:
        assert served.ask(messages).record.prompt_tokens > 0


def test_adaptations_are_logged_once(tmp_path: Path, caplog: Any) -> None:
    model = tiny.write_model(tmp_path / "model", "qwen3", template=NINE)
    with caplog.at_level(logging.WARNING, "chatcli.serve"), Served(model, tmp_path) as served:
        for _ in range(2):
            served.ask(question("Hello."))
        said = [record.getMessage() for record in caplog.records]
    assert 1 == sum("the system prompt goes before the first question" in each for each in said)


def headers(base: str, body: Any) -> Any:
    request = urllib.request.Request(f"{base}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.headers


def test_a_client_is_told_of_tools_that_the_template_does_not_show(tmp_path: Path) -> None:
    model = tiny.write_model(tmp_path / "model", "qwen3", template=tiny.OPEN_THINK)
    engine = Engine(Settings(sessions=tmp_path / "sessions"), str(model))
    with serving(engine) as base:
        body = {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 2}
        for stream in (False, True):
            asked = {**body, "stream": stream, "tools": list(TOOLS)}
            assert "does not show tools" in headers(base, asked)["chatcli-notice"]
        assert "chatcli-notice" not in headers(base, body)


def test_a_cancel_and_a_close_end_a_rendering(tmp_path: Path) -> None:
    model = tiny.write_model(tmp_path / "model", "qwen3", template=SLOW)
    served = Served(model, tmp_path)
    submitted = served.submit(question("slow"))
    time.sleep(0.3)
    began = time.monotonic()
    submitted.cancelled.set()
    assert "cancelled" == submitted.done().record.finish_reason
    assert served.ask(question("a")).record.tokens
    served.submit(question("slow"))
    time.sleep(0.3)
    served.engine.close()
    assert time.monotonic() - began < 8


def test_other_requests_get_tokens_while_a_long_conversation_is_rendered(tmp_path: Path) -> None:
    model = tiny.write_model(tmp_path / "model", "qwen3", template=SLOW)
    endless = Sampling(max_tokens=3000, logit_bias=((tiny.SPECIAL.index("<|im_end|>"), -1000.0),))
    with Served(model, tmp_path) as served:
        first = served.submit(question("a"), sampling=endless)
        first.until(ThinkingDelta)
        slow = served.submit(question("slow"))
        counted = []
        for _ in range(4):
            time.sleep(0.1)
            counted.append(len(next(iter(served.engine._replies)).record.tokens))
        slow.cancelled.set()
        first.cancelled.set()
    assert counted[0] < counted[-1]


@pytest.mark.slow
def test_a_long_conversation_of_letters_is_answered(tmp_path: Path) -> None:
    model = tiny.write_model(tmp_path / "model", "qwen3", max_position_embeddings=40_000)
    messages = [Message("assistant" if number % 2 else "user", "x") for number in range(401)]
    with Served(model, tmp_path, tokens=2) as served:
        assert served.ask(messages).record.prompt_tokens > 401
