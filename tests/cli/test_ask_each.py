"""`chatcli ask --each` as scripts use it: one line an answer, in order."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import ASK_FIELDS, Program
from tests.support.shell import open_shell

DOCUMENT = "\n".join(f"{number}. My dog is called Biscuit." for number in range(30))
QUESTIONS = [
    "What is my dog's name?",
    "7 and 5?",
    "And where do I live? Say it twice, by the river.",
    "Answer briefly.",
]


def ask_each(program: Program, text: str, *args: object, **run_options: Any) -> list[dict[str, Any]]:
    """Ask the questions of a file; returns the answers."""
    path = program.home / "questions.txt"
    path.write_text(text)
    result = program.run("ask", "--each", path, "--json", "-S", "talk", "-n", "16", *args, **run_options)
    return list(result.lines())


def user_messages_on_path(program: Program) -> list[str]:
    return [turn["user"] for turn in program.run("show", "talk", "--json").json()["turns"]]


@pytest.mark.slow
def test_many_questions_on_a_document_prefill_it_once(chatcli: Program) -> None:
    chatcli.ask(DOCUMENT, "-S", "talk", "-n", "16")
    lines = [f"{number}: {QUESTIONS[number % 4]}" for number in range(20)]
    answers = ask_each(chatcli, "\n".join(["", *lines[:9], "  ", *lines[9:]]) + "\n")
    assert lines == [answer["question"] for answer in answers]
    assert list(range(1, 21)) == [answer["number"] for answer in answers]
    for answer in answers:
        assert answer.keys() >= ASK_FIELDS
        assert ("talk", 2) == (answer["session"], answer["turn"])
        assert answer["prompt_tokens"] == answer["reused_tokens"] + answer["prefilled_tokens"]
        assert answer["prefilled_tokens"] < 60 < 300 < answer["reused_tokens"]
        assert len(answer["tokens"]) == len(answer["logprobs"]) > 0
    assert [DOCUMENT] == user_messages_on_path(chatcli)


@pytest.mark.slow
def test_answers_come_in_order_and_an_error_is_in_its_place(chatcli: Program) -> None:
    text = f"{QUESTIONS[0]}\n{'word ' * 5000}\n{QUESTIONS[1]}\n"
    answers = ask_each(chatcli, text, expect=1)
    assert [1, 2, 3] == [answer["number"] for answer in answers]
    assert ["text" in answer for answer in answers] == [True, False, True]
    assert "does not fit" in answers[1]["error"]
    plain = chatcli.run("ask", "--each", "-", "-S", "talk", "-n", "16", stdin=text, expect=1)
    assert plain.text == f"{answers[0]['text']}\n---\n---\n{answers[2]['text']}\n"
    (error,) = plain.errors.splitlines()
    assert error.startswith("chatcli: question 2: ") and "does not fit" in error


@pytest.mark.parametrize(
    ("arguments", "reason", "code"),
    [
        (["--each", "nowhere.txt"], "nowhere.txt", 1),
        (["--each", "empty.txt"], "write one on each line", 2),
        (["Hello", "--each", "empty.txt"], "not both", 2),
    ],
)
def test_a_usage_error_is_one_line(chatcli: Program, arguments: list[str], reason: str, code: int) -> None:
    (chatcli.home / "empty.txt").write_text("\n  \n")
    result = chatcli.run("ask", *arguments, expect=code)
    assert reason in result.errors and 1 == result.errors.count("\n")
    assert not list(chatcli.sessions.glob("*.jsonl"))


@pytest.mark.slow
def test_ctrl_c_keeps_finished_answers(chatcli: Program) -> None:
    (chatcli.home / "questions.txt").write_text("\n".join(QUESTIONS * 30))
    process = chatcli.start(
        "ask",
        "--each",
        "questions.txt",
        "--json",
        "-S",
        "talk",
        "-n",
        "300",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    first = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    # `communicate` would lose what `readline` has buffered beyond the first line.
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(60)
    assert (130, b"") == (process.returncode, err)
    assert 1 == first["number"]
    answers = [first, *map(json.loads, out.splitlines())]
    assert len(answers) < 120
    tree = chatcli.run("export", "talk", "--format", "json").json()
    replies = [entry for entry in tree["entries"] if entry["role"] == "assistant"]
    assert sorted(answer["text"] for answer in answers) == sorted(reply["content"] for reply in replies)
    assert None is tree["head"]


@pytest.mark.slow
def test_many_questions_leave_no_session_that_looks_empty(chatcli: Program) -> None:
    (chatcli.home / "questions.txt").write_text("\n".join(QUESTIONS[:2]))
    chatcli.run("ask", "--each", "questions.txt", "-n", "4")
    (session,) = chatcli.run("list", "--json").json()
    assert 1 == session["turns"]
    (chatcli.home / "too-long.txt").write_text("word " * 5000)
    chatcli.run("ask", "--each", "too-long.txt", "-S", "refused", "-n", "4", expect=1)
    assert [session["name"]] == [each["name"] for each in chatcli.run("list", "--json").json()]


@pytest.mark.slow
def test_quiet_is_the_reply_alone(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, models / "speaker")
    options = ("-n", "60", "--temp", "1", "--seed", "2", "--no-cache")
    loud = program.run("ask", "Hello", *options)
    quiet = program.run("ask", "-q", "Hello", *options)
    assert loud.out == quiet.out and loud.err and b"" == quiet.err
    with open_shell(program, "ask", "Hello", *options, "-m", program.model) as terminal:
        assert 0 == terminal.wait_for_exit()
        assert b"\x1b[2m" in terminal.raw
    with open_shell(program, "ask", "-q", "Hello", *options, "-m", program.model) as terminal:
        assert 0 == terminal.wait_for_exit()
        assert b"\x1b[2m" not in terminal.raw
