"""Servers in child processes: their errors are quoted, and none is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatcli.bench import serve
from chatcli.bench.http_server import Server
from chatcli.errors import ChatcliError

DEADLINE = 20.0
# A server whose answer depends on the model that a request names.
FAKE_SERVER = """#!{python} -IS
import http.server, json, os, signal, sys, time
{extra}

class Handler(http.server.BaseHTTPRequestHandler):
    def say(self, answer, status=200):
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.say({{}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["model"] == "unknown":
            return self.say({{"error": {{"message": "model 'unknown' not found", "type": "api_error"}}}}, 404)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b': keepalive 1/2\\n\\ndata: {{"choices": [{{"delta": {{"content": "a"}}}}]}}\\n\\n')
        if body["model"] == "dying":
            os._exit(1)
        self.wfile.write(b"data: [DONE]\\n\\n")

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


def program(folder: Path, extra: str = "") -> str:
    """Write a fake server; `extra` is code that it runs first."""
    path = folder / "fake-server"
    path.write_text(FAKE_SERVER.format(python=sys.executable, extra=extra))
    path.chmod(0o755)
    return str(path)


def start(path: str, **options: Any) -> Server:
    return Server("fake", lambda port: [path, "--port", str(port)], "/health", **options)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = start(program(tmp_path))
    yield server
    server.close()


def listening(text: str) -> list[int]:
    """Ids of the processes whose command line contains `text`."""
    listed = subprocess.run(["ps", "-Aww", "-o", "pid=,stat=,args="], capture_output=True, check=True)
    rows = (line.split(None, 2) for line in listed.stdout.decode().splitlines())
    return [int(pid) for pid, stat, args in rows if text in args and stat[0] != "Z"]


def wait_until_gone(text: str) -> bool:
    ends = time.monotonic() + DEADLINE
    while listening(text) and time.monotonic() < ends:
        time.sleep(0.02)
    return not listening(text)


def test_only_text_and_thinking_are_a_first_token() -> None:
    texts: list[dict[str, Any]] = [
        {"content": "a"},
        {"reasoning": "a"},
        {"reasoning_content": "a"},
        {"content": ""},
        {"role": "assistant", "content": None},
        {},
    ]
    has_text = [serve.has_text({"choices": [{"delta": delta}]}) for delta in texts]
    assert [True, True, True, False, False, False] == has_text
    assert not serve.has_text({"choices": []})


def test_an_answer_is_streamed_and_close_ends_the_process(server: Server, tmp_path: Path) -> None:
    assert [{"choices": [{"delta": {"content": "a"}}]}] == list(server.stream("/", {"model": "any"}))
    assert listening(str(tmp_path))
    server.close()
    assert not listening(str(tmp_path))


def test_a_server_that_dies_at_once_is_quoted(tmp_path: Path) -> None:
    dies = program(tmp_path, "sys.exit('error: no such file: model.gguf\\n')")
    with pytest.raises(ChatcliError) as caught:
        start(dies)
    message = str(caught.value)
    assert "fake could not be started. Its log ends: error: no such file: model.gguf" in message
    assert f"{dies} --port" in message
    assert "\n" not in message


def test_a_refusal_is_quoted(server: Server) -> None:
    with pytest.raises(ChatcliError, match=r"refused .*: model 'unknown' not found"):
        list(server.stream("/", {"model": "unknown"}))


def test_an_interrupted_answer_is_an_error(server: Server) -> None:
    with pytest.raises(ChatcliError, match="fake did not finish an answer"):
        list(server.stream("/", {"model": "dying"}))


@pytest.mark.slow
def test_a_server_that_died_between_answers_is_an_error(server: Server, tmp_path: Path) -> None:
    for process in listening(str(tmp_path)):
        os.kill(process, signal.SIGKILL)
    assert wait_until_gone(str(tmp_path))
    with pytest.raises(ChatcliError, match=r"fake (broke off|did not finish)"):
        list(server.stream("/", {"model": "any"}))


@pytest.mark.slow
def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = program(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    start(stubborn, grace=0.2).close()
    assert not listening(stubborn)


@pytest.mark.slow
def test_a_server_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    slow = program(tmp_path, "time.sleep(60)")
    with pytest.raises(ChatcliError, match="was not ready in time"):
        start(slow, ready_timeout=0.3)
    assert not listening(slow)


@pytest.mark.slow
def test_mlx_lms_server_without_a_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(ChatcliError, match="mlx-lm's server could not be started"):
        serve.Serving(serve.PEER, tmp_path, tmp_path)
