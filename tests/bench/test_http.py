"""Contenders that are servers: token counts from their reports, and no process left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chatcli.bench import http
from chatcli.bench.contender import Contender, Request
from chatcli.bench.http import (
    Http,
    LlamaServer,
    PromptCounts,
    VllmMlx,
    available,
    mlx_lm,
    ollama,
    prompt_counts,
)
from chatcli.bench.http_server import Server, event_of
from chatcli.bench.race import Step, race
from chatcli.bench.scripted import Script
from chatcli.errors import ChatcliError
from tests import ROOT

SCRIPT = Script([1, 2, 3, 4], "Yes, it is so.")
FIRST = Request("You are a helpful assistant.", ("My dog is called Biscuit.",))
SECOND = replace(FIRST, user_messages=(*FIRST.user_messages, "What is my dog's name?"))
DEADLINE = 20.0

# A server that counts words instead of tokens. It answers as llama-server, vllm-mlx or ollama, depending on
# its file name, and caches as they do: one prompt, which can be saved, or all, written at the end.
FAKE_SERVER = """#!{python} -IS
import http.server, json, os, pathlib, signal, sys, time

kind = pathlib.Path(sys.argv[0]).name
options = dict(zip(sys.argv[1:], sys.argv[2:]))
port = options.get("--port") or os.environ["OLLAMA_HOST"].rpartition(":")[2]
home = pathlib.Path(os.environ["HOME"], "prefix_cache") if kind == "vllm-mlx" else None
held = json.loads(home.read_text()) if home and home.exists() else []
saved = 0
{extra}

def ended(*_):
    home.write_text(json.dumps(held))
    sys.exit()

if home:
    signal.signal(signal.SIGTERM, ended)

def shared(words, held):
    same = [one == other for one, other in zip(words, held)] + [False]
    return same.index(False)

class Handler(http.server.BaseHTTPRequestHandler):
    def say(self, answer, status=200):
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/cache/stats":
            return self.say({{"engine_cache": {{"tokens_saved": saved, "current_memory_mb": 1.5}}}})
        self.say({{}})

    def do_POST(self):
        global held, saved
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/slots/0?action="):
            path = pathlib.Path(options["--slot-save-path"] + body["filename"])
            if self.path.endswith("save"):
                path.write_text(json.dumps(held))
            else:
                held = json.loads(path.read_text())
            return self.say({{"id_slot": 0}})
        if body["model"] == "unknown":
            return self.say({{"error": {{"message": "model 'unknown' not found", "type": "api_error"}}}}, 404)
        words = " ".join(one["content"] for one in body["messages"]).split()
        cached = min(max([shared(words, one) for one in held], default=0), len(words) - 1)
        held = [*held, words] if home else [words]
        saved += cached
        self.send_response(200)
        self.end_headers()
        self.deltas(body["max_tokens"])
        if body["model"] == "dying":
            os._exit(1)
        self.wfile.write(b"data: " + json.dumps(self.usage(words, cached)).encode() + b"\\n\\n")
        self.wfile.write(b"data: [DONE]\\n\\n")

    def deltas(self, count):
        texts = [{{"role": "assistant", "content": None}}, {{"reasoning_content": "So"}}]
        texts += [{{"content": "a"}}] * (count - 1) + [{{}}]
        for delta in texts:
            event = {{"choices": [{{"delta": delta, "index": 0}}], "usage": None}}
            self.wfile.write(b": keepalive 1/2\\n\\ndata: " + json.dumps(event).encode() + b"\\n\\n")
            self.wfile.flush()
            time.sleep(0.005)

    def usage(self, words, cached):
        usage = {{"prompt_tokens": len(words), "completion_tokens": 4}}
        if kind == "llama-server":
            return {{"choices": [], "usage": usage,
                     "timings": {{"cache_n": cached, "prompt_n": len(words) - cached}}}}
        return {{"choices": [], "usage": usage}}

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
"""


def program(folder: Path, name: str, extra: str = "") -> str:
    """Write a fake server that acts as the program `name`; `extra` is code that it runs first."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(FAKE_SERVER.format(python=sys.executable, extra=extra))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "folder"


@pytest.fixture
def llama(tmp_path: Path, folder: Path) -> Iterator[LlamaServer]:
    server = LlamaServer(program(tmp_path, "llama-server"), tmp_path / "model.gguf", folder)
    yield server
    server.close()


@pytest.fixture
def vllm(tmp_path: Path, folder: Path) -> Iterator[VllmMlx]:
    server = VllmMlx(program(tmp_path, "vllm-mlx"), tmp_path / "model", folder)
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


def word_count(request: Request) -> int:
    return len(" ".join(message["content"] for message in request.messages(SCRIPT)).split())


# Token counts


@pytest.mark.parametrize(
    "event, expected",
    [
        # OpenAI's fields: mlx-lm's server, a recent llama-server and a recent ollama.
        (
            {"usage": {"prompt_tokens": 50, "prompt_tokens_details": {"cached_tokens": 40}}},
            (50, 40),
        ),
        ({"usage": {"prompt_tokens": 50, "prompt_tokens_details": {"cached_tokens": 0}}}, (50, 0)),
        # llama-server's timings, with `cache_n`, and of versions without it.
        ({"usage": {"prompt_tokens": 50}, "timings": {"prompt_n": 8, "cache_n": 42}}, (50, 42)),
        ({"usage": {"prompt_tokens": 50}, "timings": {"prompt_n": 8}}, (50, 42)),
        ({"timings": {"prompt_n": 8, "cache_n": 42}}, (50, 42)),
        # vllm-mlx and an older ollama.
        ({"usage": {"prompt_tokens": 50, "completion_tokens": 3}}, (50, None)),
        ({"usage": {"prompt_tokens": 50, "prompt_tokens_details": None}}, (50, None)),
    ],
)
def test_the_counts_are_read_in_every_servers_format(
    event: dict[str, Any], expected: tuple[int, int | None]
) -> None:
    assert PromptCounts(*expected) == prompt_counts(event)


def test_an_event_without_counts_has_none() -> None:
    assert prompt_counts({"choices": [{"delta": {"content": "a"}}], "usage": None}) is None


def test_only_text_and_thinking_are_a_first_token() -> None:
    texts: list[dict[str, Any]] = [
        {"content": "a"},
        {"reasoning": "a"},
        {"reasoning_content": "a"},
        {"content": ""},
        {"role": "assistant", "content": None},
        {},
    ]
    has_text = [http.has_text({"choices": [{"delta": delta}]}) for delta in texts]
    assert [True, True, True, False, False, False] == has_text
    assert not http.has_text({"choices": []})


def test_comments_and_blank_lines_are_no_events() -> None:
    assert {"a": 1} == event_of(b'data: {"a": 1}\n')
    assert {"a": 1} == event_of(b'data:{"a": 1}\r\n')
    assert {"error": {"message": "full"}} == event_of(b'error: {"message": "full"}\n')
    assert [None] * 3 == [event_of(line) for line in (b": keepalive", b"\n", b"")]
    with pytest.raises(ValueError):
        event_of(b"data: 12\n")


# Requests


def test_an_answer_has_the_servers_counts_and_the_times_of_its_texts(llama: LlamaServer) -> None:
    llama.ask(FIRST, SCRIPT)
    answer = llama.ask(SECOND, SCRIPT)
    assert word_count(SECOND) == answer.prompt_tokens
    assert word_count(FIRST) == answer.reused_tokens
    assert answer.reports_reuse
    assert len(SCRIPT) - 1 == len(answer.gaps)
    assert all(gap >= 0 for gap in answer.gaps)
    assert 0.003 < answer.time_to_first_token < DEADLINE
    assert () == answer.greedy


@pytest.mark.slow
def test_a_slot_is_saved_and_restored_around_a_new_process(llama: LlamaServer, folder: Path) -> None:
    llama.ask(FIRST, SCRIPT)
    old_processes = listening(str(folder))
    assert old_processes
    llama.reopen(ahead=True)
    assert set(old_processes).isdisjoint(listening(str(folder)))
    answer = llama.ask(SECOND, SCRIPT)
    assert word_count(FIRST) == answer.reused_tokens
    assert answer.disk_bytes > 0


@pytest.mark.slow
def test_a_forgotten_prompt_is_not_reused(llama: LlamaServer) -> None:
    llama.ask(FIRST, SCRIPT)
    llama.reopen(ahead=True)
    llama.forget()
    answer = llama.ask(SECOND, SCRIPT)
    assert (0, 0) == (answer.reused_tokens, answer.disk_bytes)


@pytest.mark.slow
def test_reuse_of_vllm_mlx_comes_from_its_counters(vllm: VllmMlx) -> None:
    assert 0 == vllm.ask(FIRST, SCRIPT).reused_tokens
    answer = vllm.ask(SECOND, SCRIPT)
    assert word_count(FIRST) == answer.reused_tokens
    assert 3 << 19 == answer.memory_bytes
    assert answer.reports_reuse


@pytest.mark.slow
def test_vllm_mlx_keeps_its_cache_in_the_given_folder(vllm: VllmMlx, folder: Path) -> None:
    vllm.ask(FIRST, SCRIPT)
    vllm.reopen(ahead=True)
    assert (folder / "prefix_cache").exists()
    answer = vllm.ask(SECOND, SCRIPT)
    assert word_count(FIRST) == answer.reused_tokens
    assert answer.disk_bytes > 0
    vllm.forget()
    assert 0 == vllm.ask(SECOND, SCRIPT).reused_tokens


@pytest.mark.slow
def test_a_server_without_reuse_counts_is_marked_so(tmp_path: Path, folder: Path) -> None:
    server = ollama(program(tmp_path, "ollama"), "tiny", folder)
    try:
        server.ask(FIRST, SCRIPT)
        answer = server.ask(SECOND, SCRIPT)
    finally:
        server.close()
    assert (word_count(SECOND), 0) == (answer.prompt_tokens, answer.reused_tokens)
    assert not answer.reports_reuse


@pytest.mark.slow
def test_servers_take_part_in_a_race(llama: LlamaServer, vllm: VllmMlx) -> None:
    steps = [Step("first", FIRST), Step("second", SECOND), Step("again", SECOND, reopened=True)]
    contenders: Sequence[Contender] = [llama, vllm]
    result = race(contenders, steps, SCRIPT, 1, lambda *_: None)
    assert [word_count(FIRST), word_count(SECOND) - 1] == [
        answer.reused_tokens for answer in result.of("llama-server")
    ][1:]
    assert (0, 0) == result.differing("vllm-mlx")


# Processes


def test_close_ends_the_process_and_removes_its_folder(llama: LlamaServer, folder: Path) -> None:
    llama.ask(FIRST, SCRIPT)
    assert listening(str(folder))
    llama.close()
    assert not listening(str(folder))
    assert not folder.exists()
    llama.close()


def test_a_server_that_dies_at_once_is_quoted(tmp_path: Path, folder: Path) -> None:
    dies = program(tmp_path, "llama-server", "sys.exit('error: no such file: model.gguf\\n')")
    server = LlamaServer(dies, tmp_path / "model.gguf", folder)
    with pytest.raises(ChatcliError) as caught:
        server.ask(FIRST, SCRIPT)
    message = str(caught.value)
    assert "llama-server could not be started. Its last words: error: no such file: model.gguf" in message
    assert f"{dies} --model" in message
    assert "\n" not in message


@pytest.mark.slow
def test_a_refusal_is_quoted(tmp_path: Path, folder: Path) -> None:
    server = ollama(program(tmp_path, "ollama"), "unknown", folder)
    with pytest.raises(ChatcliError, match=r"refused .*: model 'unknown' not found"):
        server.ask(FIRST, SCRIPT)
    server.close()
    assert not listening(str(tmp_path))


@pytest.mark.slow
def test_an_interrupted_answer_is_an_error(tmp_path: Path, folder: Path) -> None:
    server = ollama(program(tmp_path, "ollama"), "dying", folder)
    with pytest.raises(ChatcliError, match="ollama broke off an answer"):
        server.ask(FIRST, SCRIPT)
    server.close()


@pytest.mark.slow
def test_a_server_that_died_between_answers_is_an_error(
    llama: LlamaServer, tmp_path: Path, folder: Path
) -> None:
    llama.ask(FIRST, SCRIPT)
    for process in listening(str(folder)):
        os.kill(process, signal.SIGKILL)
    assert wait_until_gone(str(folder))
    with pytest.raises(ChatcliError, match="llama-server broke off"):
        llama.ask(SECOND, SCRIPT)


STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.mark.slow
def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = program(tmp_path, "llama-server", STUBBORN)
    server = Server("stubborn", lambda port: [stubborn, "--port", str(port)], "/health", grace=0.2)
    assert server.memory() > 1 << 20
    server.close()
    assert not listening(stubborn)


@pytest.mark.slow
def test_a_server_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    slow = program(tmp_path, "llama-server", "time.sleep(60)")
    with pytest.raises(ChatcliError, match="was not ready in time"):
        Server("slow", lambda port: [slow, "--port", str(port)], "/health", ready_timeout=0.3)
    assert not listening(slow)


@pytest.mark.slow
def test_a_servers_own_children_end_with_it(tmp_path: Path) -> None:
    mark = f"{tmp_path}/child"
    parent = program(
        tmp_path,
        "llama-server",
        f"import subprocess; subprocess.Popen([sys.executable, '-c', 'input()', {mark!r}], stdin=-1)",
    )
    server = Server("parent", lambda port: [parent, "--port", str(port)], "/health")
    assert listening(mark)
    server.close()
    assert wait_until_gone(mark)


INTERRUPTED = """
import sys, time
from chatcli.bench.http_server import Server
server = Server("left", lambda port: [sys.argv[1], "--port", str(port)], "/health")
print("ready", flush=True)
time.sleep(60)
"""


def test_a_killed_benchmark_leaves_no_server(tmp_path: Path) -> None:
    server = program(tmp_path, "llama-server")
    bench = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, server],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    with bench:
        assert bench.stdout is not None
        assert b"ready\n" == bench.stdout.readline()
        assert listening(server)
        bench.kill()
    assert wait_until_gone(server)


# Available servers


def test_only_installed_servers_take_part(tmp_path: Path) -> None:
    for name in ("llama-server", "vllm-mlx", "ollama"):
        program(tmp_path / "bin", name)
    with_programs, without_programs = str(tmp_path / "bin"), str(tmp_path)
    model, gguf = tmp_path / "model", tmp_path / "model.gguf"

    def names(*models: Any, path: str) -> list[str]:
        return [server.name for server in available(*models, tmp_path / "folder", path=path)]

    own = "mlx-lm's server over HTTP"
    assert [own, "vllm-mlx", "llama-server", "ollama"] == names(model, gguf, "tiny", path=with_programs)
    assert [own] == names(model, gguf, "tiny", path=without_programs)
    assert ["llama-server"] == names(None, gguf, None, path=with_programs)
    assert [] == names(None, None, None, path=with_programs)
    assert not (tmp_path / "folder").exists()


# mlx-lm's own server


def test_mlx_lms_server_reports_reused_tokens(models: Path, folder: Path) -> None:
    server: Http = mlx_lm(models / "qwen3", folder)
    try:
        first = server.ask(FIRST, SCRIPT)
        second = server.ask(SECOND, SCRIPT)
        assert second.reports_reuse
    finally:
        server.close()
    assert first.prompt_tokens < second.prompt_tokens
    assert 0 < second.reused_tokens < second.prompt_tokens
    assert first.reused_tokens < second.reused_tokens
    assert second.time_to_first_token > 0
    assert not listening(str(models / "qwen3"))


@pytest.mark.slow
def test_mlx_lms_server_starts_cold_after_a_restart(models: Path, folder: Path) -> None:
    server = mlx_lm(models / "qwen3", folder)
    try:
        first = server.ask(FIRST, SCRIPT)
        server.ask(SECOND, SCRIPT)
        server.reopen(ahead=True)
        again = server.ask(SECOND, SCRIPT)
    finally:
        server.close()
    assert again.reused_tokens <= first.reused_tokens


@pytest.mark.slow
def test_a_folder_without_a_model_is_an_error(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    server = mlx_lm(tmp_path / "empty", folder)
    with pytest.raises(ChatcliError, match=r"could not be started.*FileNotFoundError: No safetensors"):
        server.ask(FIRST, SCRIPT)
    assert not listening(str(tmp_path / "empty"))
