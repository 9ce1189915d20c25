"""`chatcli serve` as a separate process with the built-in model: it answers, stops and is killed."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.session.test_disk_trouble import limit_file_size_of, needs_prlimit
from tests.support.program import Program
from tests.support.waiting import wait_until

READY = re.compile(r"chatcli serves pocket at (http://127\.0\.0\.1:\d+)\n")
DOG = "My dog is called Biscuit. What is my dog called?"


@pytest.fixture
def pocket(tmp_path: Path) -> Program:
    return Program(tmp_path, Path("pocket"))


@contextlib.contextmanager
def serving(program: Program, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process and its URL once it is ready. At the end it is killed if it still runs."""
    process = program.start(
        "serve", "--port", "0", *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        ready = READY.fullmatch(process.stdout.readline().decode())
        assert ready
        yield process, ready[1]
    finally:
        process.kill()
        process.communicate()


def chat(url: str, *texts: str, **more: Any) -> Any:
    """The reply to these alternating messages of user and assistant."""
    roles = ("user", "assistant")
    messages: Any = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        return client.chat.completions.create(model="any", messages=messages, temperature=0, **more)


def cached(reply: Any) -> int:
    return int(reply.usage.prompt_tokens_details.cached_tokens)


def status(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/v1/status") as response:
        return dict(json.load(response))


def test_both_apis_are_answered_from_one_cache(pocket: Program) -> None:
    with serving(pocket) as (process, url):
        first = chat(url, DOG)
        message = first.choices[0].message
        assert "Biscuit" in message.content and "Biscuit" in message.reasoning_content
        with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
            again = client.messages.create(
                model="any",
                max_tokens=2000,
                thinking={"type": "enabled", "budget_tokens": 1024},
                messages=[{"role": "user", "content": DOG}],
            )
        # The same prompt again leaves the generation prompt to run.
        assert (2, first.usage.prompt_tokens - 2) == (
            again.usage.input_tokens,
            again.usage.cache_read_input_tokens,
        )
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(20)


@pytest.mark.slow
def test_a_conversation_continues_after_a_kill(pocket: Program) -> None:
    with serving(pocket) as (process, url):
        first = chat(url, DOG)
        text = first.choices[0].message.content
        wait_until(lambda: not status(url)["unsettled"])
        second = chat(url, DOG, text, "47 + 38?")
        process.kill()
    with serving(pocket) as (_, url):
        again = chat(url, DOG, text, "47 + 38?")
        assert second.choices[0].message.content == again.choices[0].message.content
        assert cached(again) >= cached(second) > first.usage.prompt_tokens


@pytest.mark.slow
def test_ctrl_c_ends_replies_and_the_process(pocket: Program) -> None:
    # Token 2 ends a reply.
    endless = {"prompt": "1 2 3 4 5", "stream": True, "logit_bias": {"2": -1e6}}
    with serving(pocket) as (process, url):
        request = urllib.request.Request(f"{url}/v1/completions", json.dumps(endless).encode())
        with urllib.request.urlopen(request) as response:
            assert response.readline().startswith(b"data: ")
            process.send_signal(signal.SIGINT)
            assert b"the server is stopping" in response.read()
        assert 130 == process.wait(20)
        assert process.stderr is not None and b"Traceback" not in process.stderr.read()


@pytest.mark.slow
@needs_prlimit
def test_a_full_disk_does_not_end_replies_or_leak_messages_into_the_log(pocket: Program) -> None:
    with serving(pocket, "--keep") as (process, url):
        text = chat(url, DOG).choices[0].message.content
        wait_until(lambda: not status(url)["unsettled"])
        limit_file_size_of(process, 100)
        assert chat(url, DOG, text, "47 + 38?").choices[0].message.content
        process.terminate()
        log = process.communicate()[1].decode()
    assert re.search(r"^\d\d:\d\d:\d\d A conversation is not kept: ", log, re.MULTILINE)
    assert "A conversation is not kept: Cannot save to the session …" in log and "biscuit" not in log.lower()


@pytest.mark.slow
def test_a_shell_reuses_a_servers_tokens(pocket: Program) -> None:
    with serving(pocket) as (_, url):
        chat(url, DOG)
        wait_until(lambda: not status(url)["unsettled"])
        # Both have the folder open now. Only the generation prompt is left to run.
        assert pocket.ask(DOG, "-m", "pocket")["prefilled_tokens"] <= 2


@pytest.mark.slow
def test_a_failed_start_is_one_sentence(pocket: Program) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = pocket.run("serve", "--port", str(port), expect=2)
        assert f"chatcli: Port {port} is taken: choose another with --port.\n" == refused.errors
    assert "--api-key" in pocket.run("serve", "--host", "0.0.0.0", expect=2).errors
    assert "no address" in pocket.run("serve", "--host", "nowhere.invalid", "--api-key", "k", expect=2).errors
    assert "no model" in pocket.run("serve", "-m", "./nothing", expect=1).errors
