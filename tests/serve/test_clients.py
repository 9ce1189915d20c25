"""Real client libraries with a real engine and tiny models: a tool loop, and many requests at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.serve import test_anthropic, test_openai
from tests.support.asking import Served
from tests.support.serving import Started, serving
from tests.support.templates import QWEN3_TOOLS
from tests.support.tiny import write_reciter

# Valid JSON, but spelled as no library writes it.
CALL = '{"name":"read",  "arguments":{"at":"caf\\u00e9"}}'
DOCUMENT = "\n".join(f"{number}. My dog is called Biscuit." for number in range(40))
pytestmark = pytest.mark.slow


def ask_openai(url: str, messages: list[Any]) -> tuple[list[Any], int, int]:
    """The next messages of a tool loop, and how many tokens were cached and how many were not."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        reply = client.chat.completions.create(model="any", messages=messages, tools=[test_openai.TOOL])
    message = reply.choices[0].message.model_dump(exclude_none=True)
    call = message["tool_calls"][0]
    # Like some clients, parse the arguments and serialize them again.
    call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=1)
    result = {"role": "tool", "tool_call_id": call["id"], "content": "a cat"}
    cached = reply.usage.prompt_tokens_details.cached_tokens
    return [*messages, message, result], cached, reply.usage.prompt_tokens - cached


def ask_anthropic(url: str, messages: list[Any]) -> tuple[list[Any], int, int]:
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        reply = client.messages.create(
            model="any", max_tokens=50, messages=messages, tools=[test_anthropic.TOOL]
        )
    calls = [block for block in reply.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": calls[0].id, "content": "a cat"}
    told = {"role": "assistant", "content": [block.model_dump() for block in calls]}
    answer = {"role": "user", "content": [result]}
    return [*messages, told, answer], reply.usage.cache_read_input_tokens, reply.usage.input_tokens


@pytest.mark.parametrize("ask", [ask_openai, ask_anthropic])
def test_a_tool_loop_prefills_only_the_results(ask: Any, tmp_path: Path) -> None:
    model = write_reciter(tmp_path / "model", QWEN3_TOOLS, ["<tool_call>", CALL, "</tool_call>"])
    messages: list[Any] = [{"role": "user", "content": DOCUMENT}]
    for turn in range(4):
        # A new server each time: only the disk is shared.
        with Served(model, tmp_path / "saved") as served, serving(Started(served.engine)) as url:
            messages, cached, run = ask(url, messages)
            assert cached > 400 and run < 60 if turn else cached == 0
            served.rest()


def complete(url: str, text: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        return client.chat.completions.create(
            model="any",
            messages=[{"role": "system", "content": DOCUMENT}, {"role": "user", "content": text}],
            max_tokens=12,
            temperature=0,
        )


def test_fifty_prompts_with_one_prefix_prefill_it_once(models: Path, tmp_path: Path) -> None:
    texts = [f"Question {number}?" for number in range(50)]
    with Served(models / "qwen3_5", tmp_path) as served, serving(Started(served.engine)) as url:
        alone = [complete(url, text) for text in texts[:5]]
        with ThreadPoolExecutor(5) as clients:
            replies = list(clients.map(lambda text: complete(url, text), texts))
    assert [reply.choices[0].message.content for reply in alone] == [
        reply.choices[0].message.content for reply in replies[:5]
    ]
    beginning = min(reply.usage.prompt_tokens_details.cached_tokens for reply in replies)
    assert beginning > 0.95 * (replies[0].usage.prompt_tokens - 20)
