"""An interrupted prefill of a long message resumes where it was, with the same bits."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chatcli.conversation.tree import Message
from chatcli.events import PrefillProgress
from chatcli.files import Location
from chatcli.session.background import PREPARING, READY
from chatcli.session.live_chat import LiveChat
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import ModelOptions, Sampling, Settings
from chatcli.store.segments.container import Container
from chatcli.store.segments.cuts import CUT_TOKENS
from chatcli.store.sessions.folder import SessionFolder
from tests.support.families import FAMILIES
from tests.support.harness import RecordedWork
from tests.support.program import Program
from tests.support.shell import open_shell, ready
from tests.support.terminal import pasted
from tests.support.tiny import write_model
from tests.support.waiting import wait_until

PATIENCE = 180.0
# Such small chunks take long: a tiny model reads this message for some ten seconds.
STEP = ("--prefill-step-size", "3")
SENTENCES = {"qwen3": 500, "qwen3_5": 900, "gpt_oss": 800}
# In which a part's state follows its rows.
STATE_SECONDS = 0.5
OPTIONS = (*STEP, "-n", "4", "--temp", "0")


@pytest.fixture(params=FAMILIES)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    model = write_model(tmp_path / request.param, request.param, max_position_embeddings=65536)
    return Program(tmp_path / "home", model)


def long_message(program: Program) -> str:
    sentence = "My dog is called Biscuit and I live in Lisbon."
    return " ".join(f"{number}. {sentence}" for number in range(SENTENCES[program.model.name]))


def ask(program: Program, *options: str) -> dict[str, Any]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = program.start("ask", "--json", *OPTIONS, *options, **pipes)
    out, _ = process.communicate(long_message(program).encode(), PATIENCE)
    assert 0 == process.returncode
    return dict(json.loads(out))


def parts_on_disk(program: Program) -> int:
    """How many files hold a part of the long message."""
    lengths = []
    for path in program.sessions.rglob("*.rows.safetensors"):
        with contextlib.suppress(FileNotFoundError), Container(Location.of_file(path)) as file:
            lengths.append(int(file.metadata["end"]) - int(file.metadata["start"]))
    return sum(length >= CUT_TOKENS for length in lengths)


def wait_for_a_part(program: Program, process: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: parts_on_disk(program) > 0 or process.poll() is not None)
    time.sleep(STATE_SECONDS)
    assert process.poll() is None


def check_going_on(program: Program, again: dict[str, Any]) -> None:
    """It reused a part and replied as a run that nothing had interrupted and no cache had helped."""
    undisturbed = ask(program, "--no-cache")
    assert CUT_TOKENS <= again["reused_tokens"] < again["prompt_tokens"] - CUT_TOKENS
    for key in ("prompt_tokens", "text", "tokens", "logprobs"):
        assert undisturbed[key] == again[key], key
    # What was written on the way is one file now, and nothing is damaged.
    assert 1 == parts_on_disk(program)
    program.run("cache", "verify")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ask_goes_on_reading_where_it_was_ended(program: Program, number: signal.Signals) -> None:
    process = program.start("ask", *OPTIONS, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(long_message(program).encode())
    process.stdin.close()
    wait_for_a_part(program, process)
    process.send_signal(number)
    process.wait(PATIENCE)
    check_going_on(program, ask(program))


@pytest.mark.slow
def test_what_a_killed_shell_has_read_is_there(program: Program) -> None:
    with open_shell(program, "chat", "-m", program.model, *OPTIONS) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(pasted(long_message(program)))
        terminal.line("")
        terminal.wait_for(lambda: parts_on_disk(program) > 0)
        time.sleep(STATE_SECONDS)
        terminal.process.send_signal(signal.SIGKILL)
        terminal.wait_for_exit()
    check_going_on(program, ask(program))


@contextlib.contextmanager
def serving(program: Program, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    process = program.start(
        *("serve", "-m", program.model, "--port", "0", *STEP, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline().decode())
        assert found
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


def post(url: str, message: str, timeout: float = PATIENCE) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": message}], "max_tokens": 4, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return dict(json.load(response))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_goes_on_reading_where_its_client_gave_up_and_it_was_ended(
    program: Program, number: signal.Signals
) -> None:
    message = long_message(program)
    with serving(program) as (process, url):
        with pytest.raises((TimeoutError, urllib.error.URLError)):
            post(url, message, 4.0)
        # Written as soon as nobody waits for it any more, however short it was.
        wait_for_a_part(program, process)
        process.send_signal(number)
        process.wait(PATIENCE)
    with serving(program) as (_, url):
        again = post(url, message)
    with serving(program, "--no-cache") as (_, url):
        undisturbed = post(url, message)
    assert CUT_TOKENS <= again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert undisturbed["choices"][0]["message"] == again["choices"][0]["message"]


def test_a_message_whose_reading_was_stopped_is_not_read_behind_the_person(
    models: Path, tmp_path: Path
) -> None:
    small_chunks = replace(
        Settings(sessions=tmp_path, sampling=Sampling(max_tokens=4)),
        model_options=ModelOptions(prefill_step_size=16),
    )
    work = RecordedWork()
    chat = LiveChat(small_chunks, SessionRequest(), str(models / "qwen3_5"), background=work)
    settled = []

    def settle() -> None:
        chat.settle_behind(lambda: settled.append(work.activity))
        wait_until(lambda: len(settled) > 0)
        settled.clear()

    stop = threading.Event()
    for event in chat.take("My dog is called Biscuit. " * 60, stop):
        if isinstance(event, PrefillProgress) and event.done:
            stop.set()
    (turn,) = chat.session.conversation.turns()
    assert turn.reply is not None and turn.reply.record["unrun_tokens"]
    settle()
    assert not any(report.startswith(PREPARING) for report in work.reports)
    for _ in chat.take("And now?", threading.Event()):
        pass
    settle()
    assert any(report.startswith(PREPARING) for report in work.reports)
    chat.close()


def test_what_is_computed_ahead_can_be_ended_and_begun_again(models: Path, tmp_path: Path) -> None:
    with SessionFolder(tmp_path).create("talk", model="m", system=None) as session:
        question = session.append(Message("user", "My dog is called Biscuit. " * 80), None)
        session.append(Message("assistant", "A fine name."), question.id, finish_reason="stop")
    small_chunks = replace(Settings(sessions=tmp_path), model_options=ModelOptions(prefill_step_size=2))
    work = RecordedWork()
    chat = LiveChat(small_chunks, SessionRequest("talk"), str(models / "qwen3_5"), background=work)
    chat.settle_behind()
    wait_until(lambda: work.catching_up)
    work.scheduler.halt()
    wait_until(lambda: not work.settling)
    assert READY not in work.reports
    chat.settle_behind()
    wait_until(lambda: READY in work.reports)
    chat.close()
