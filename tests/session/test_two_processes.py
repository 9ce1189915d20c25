"""Several real processes on one folder or one session: nothing is lost or mixed up."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.transcript import Transcript
from tests.support.program import (
    DEADLINE,
    Finished,
    Program,
    entries,
    folder_contents,
    sessions_in_use,
    user_messages,
)
from tests.support.waiting import wait_until

LOCKED_MESSAGE = "is open in another chatcli"
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
WRITERS = 5


@pytest.fixture(scope="module")
def program(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("two") / "home", models / "gpt_oss")


def wait_for_end(process: subprocess.Popen[bytes]) -> Finished:
    out, err = process.communicate(timeout=DEADLINE)
    return Finished(process.returncode, out, err)


def read_undamaged(program: Program, name: str) -> Transcript:
    """The session; asserts that its file has no problem."""
    transcript = SessionFolder(program.sessions).read(name)
    assert [] == transcript.problems
    assert len(transcript.conversation.entries) == sum(
        line["type"] in ("user", "assistant") for line in entries(program.sessions / f"{name}.jsonl")
    )
    return transcript


def messages(program: Program, name: str) -> list[str]:
    return [turn.user.message.content for turn in read_undamaged(program, name).conversation.turns()]


@dataclass(frozen=True)
class Holder:
    """A chat process that has a session open and waits for input."""

    name: str
    process: subprocess.Popen[bytes]


@pytest.fixture
def holder(program: Program, request: pytest.FixtureRequest) -> Iterator[Holder]:
    name = request.function.__name__[5:40]
    process = program.start("chat", "-S", name, "-n", "2", stdin=subprocess.PIPE, **PIPES)
    assert process.stdin is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    path = program.sessions / f"{name}.jsonl"
    wait_until(lambda: path.exists() and any(entry["type"] == "assistant" for entry in entries(path)))
    yield Holder(name, process)
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_two_sessions_are_written_at_the_same_time(program: Program) -> None:
    running = [program.start("ask", f"hello {name}", "-S", name, "-n", "4", **PIPES) for name in "ab"]
    for process in running:
        assert 0 == wait_for_end(process).code
    assert (["hello a"], ["hello b"]) == (messages(program, "a"), messages(program, "b"))


@pytest.mark.slow
def test_of_many_writers_each_succeeds_or_is_refused(program: Program) -> None:
    program.ask("hello", "-S", "busy", "-n", "2")
    running = [
        program.start("ask", f"question {n}", "-S", "busy", "-n", "8", **PIPES) for n in range(WRITERS)
    ]
    results = [wait_for_end(process) for process in running]
    answered = [f"question {number}" for number, result in enumerate(results) if result.code == 0]
    for result in results:
        assert result.code in (0, 1)
        assert (result.code == 1) == (LOCKED_MESSAGE in result.errors)
        assert result.errors.count("\n") <= 1 or result.code == 0
    assert answered
    assert ["hello", *answered] == [messages(program, "busy")[0], *sorted(messages(program, "busy")[1:])]
    conversation = read_undamaged(program, "busy").conversation
    assert len(conversation.entries) == len(conversation.path()) == 2 * (1 + len(answered))


@pytest.mark.slow
def test_of_two_that_begin_one_session_both_are_saved_or_one_is_refused(program: Program) -> None:
    running = [
        program.start("ask", f"begin {number}", "-S", "fresh", "-n", "2", **PIPES) for number in (1, 2)
    ]
    results = [wait_for_end(process) for process in running]
    answered = [f"begin {number}" for number, result in enumerate(results, start=1) if result.code == 0]
    for result in results:
        assert (
            result.code == 0
            or LOCKED_MESSAGE in result.errors
            or "There is a session 'fresh'" in result.errors
        )
    assert answered == sorted(messages(program, "fresh"))
    assert answered


@pytest.mark.slow
def test_an_open_session_can_be_read_but_not_changed(program: Program, holder: Holder) -> None:
    name, process = holder.name, holder.process
    for command in (["ask", "more", "-S", name], ["rename", name, "other"], ["delete", "-y", name]):
        refused = program.run(*command, expect=1)
        assert f"'{name}' {LOCKED_MESSAGE}" in refused.errors
        assert 1 == refused.errors.count("\n")
    assert "first" == program.run("show", name, "--json").json()["turns"][0]["user"]
    assert name in [session["name"] for session in program.run("list", "--json").json()]
    assert ["first"] == user_messages(program.sessions / f"{name}.jsonl")
    assert not (program.sessions / "other.jsonl").exists()
    assert [name] == sessions_in_use(program.sessions)
    out, err = process.communicate(b"second\n", timeout=DEADLINE)
    assert (0, b"") == (process.returncode, err), out
    assert ["first", "second"] == messages(program, name)


@pytest.mark.slow
def test_a_killed_holder_leaves_no_lock(program: Program, holder: Holder) -> None:
    name, process = holder.name, holder.process
    process.kill()
    process.wait()
    assert [] == sessions_in_use(program.sessions)
    program.ask("again", "-S", name, "-n", "2")
    assert ["first", "again"] == user_messages(program.sessions / f"{name}.jsonl")


@pytest.mark.slow
def test_readers_never_see_a_partial_entry(program: Program) -> None:
    """Each reading has whole entries, and at least as many as the one before."""
    folder = SessionFolder(program.sessions)
    script = "".join(f"message {number}\n" for number in range(6)).encode()
    no_output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = program.start("chat", "-S", "live", "-n", "4", stdin=subprocess.PIPE, **no_output)
    assert process.stdin is not None
    process.stdin.write(script)
    process.stdin.close()
    readings = []
    while process.poll() is None:
        if folder.exists("live"):
            transcript = folder.read("live")
            listed = {summary.name: summary for summary in folder.summaries()}["live"]
            assert [] == [text for text in transcript.problems if "unfinished" not in text]
            readings.append((len(transcript.conversation.entries), listed.problem, listed.turns))
    assert 0 == process.wait()
    assert readings == sorted(readings, key=lambda state: state[0])
    assert {None} == {problem for _, problem, _ in readings}
    assert all(turns >= count // 2 for count, _, turns in readings)
    assert [f"message {number}" for number in range(6)] == messages(program, "live")


@pytest.mark.slow
def test_of_two_deletes_and_a_rename_one_succeeds(program: Program) -> None:
    program.ask("hello", "-S", "prize", "-n", "2")
    commands = [("delete", "-y", "prize"), ("rename", "prize", "won"), ("delete", "-y", "prize")]
    results = [
        wait_for_end(process) for process in [program.start(*command, **PIPES) for command in commands]
    ]
    codes = [result.code for result in results]
    assert [0] == [code for code in codes if code == 0], results
    for result in results:
        assert result.code == 0 or "prize" in result.errors
    assert (codes[1] == 0) == ("won.jsonl" in folder_contents(program.sessions))
    assert "prize.jsonl" not in folder_contents(program.sessions)
