"""The order of arguments: common options before a command, -r, a message without a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from chatcli.cli.arguments import ordered
from chatcli.cli.main import app
from chatcli.conversation.tree import Message
from chatcli.errors import UsageError
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import Program
from tests.support.shell import leave, open_shell, ready


@pytest.fixture(scope="module")
def group() -> Any:
    return typer.main.get_command(app)


def save(folder: Path, name: str) -> None:
    with SessionFolder(folder).create(name, model=None, system=None) as session:
        session.append(Message("user", f"this is {name}"), None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "chat"),
        ("-m pocket", "chat -m pocket"),
        ("--sessions X list", "list --sessions X"),
        ("--sessions=X list --json", "list --sessions=X --json"),
        ("--json cache stats", "cache stats --json"),
        ("-m pocket ask hi", "ask -m pocket hi"),
        ("-m pocket ask hi -m other", "ask -m pocket hi -m other"),
        ("-cm pocket --no-think chat", "chat -cm pocket --no-think"),
        ("-mpocket bench turns", "bench turns -mpocket"),
        ("-r", "resume"),
        ("-r notes", "resume notes"),
        ("--resume=notes -n 5", "resume -n 5 notes"),
        ("-m pocket -r notes -n 5", "resume -m pocket -n 5 notes"),
        ("-c resume", "resume -c"),
        ("what is this thing", "chat what is this thing"),
        ("-n 5 what is it", "chat -n 5 what is it"),
        ("-- -5 + 3?", "chat -- -5 + 3?"),
        ("help", "--help"),
        ("help list", "list --help"),
        ("--version", "--version"),
        ("-m pocket --help", "--help"),
        ("--frobnicate", "chat --frobnicate"),
    ],
)
def test_options_stand_behind_their_command(group: Any, given: str, expected: str) -> None:
    assert expected.split() == ordered(group, given.split())


@pytest.mark.parametrize("question", ["Why is the sky blue?", "list all primes", "/help"])
def test_words_in_quotes_are_a_message(group: Any, question: str) -> None:
    if " " in question:
        assert ["chat", question] == ordered(group, [question])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("lst", "no command 'lst'. Did you mean 'list'?"),
        ("serach sky blue", "Did you mean 'search'?"),
        ("rm biscuit", "There is no command 'rm'. Did you mean: chatcli delete biscuit"),
        ("run llama3", "Did you mean: chatcli -m llama3"),
        ("cat notes", "Did you mean: chatcli show notes"),
        ("ls", "Did you mean: chatcli list"),
        ("frobnicate -m pocket", "To ask it as a question: chatcli ask 'frobnicate -m pocket'"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(group: Any, given: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        ordered(group, given.split())
    assert sentence in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["rm"], ["lst"], ["delete"], ["rename"], ["import", "--as", "x"]])
def test_an_error_does_not_repeat_hundreds_of_words(chatcli: Program, words: list[str]) -> None:
    names = [f"talk-{number}" for number in range(319)]
    if words == ["delete"]:
        for name in names:
            save(chatcli.sessions, name)
    result = chatcli.run(*words, *names, expect=2)
    assert result.errors.startswith("chatcli: ") and len(result.errors) < 400
    assert "talk-99" not in result.errors


@pytest.mark.parametrize(
    "args",
    [
        ("-c", "-S", "a"),
        ("resume", "a", "-S", "b"),
        ("-r", "a", "-c"),
        ("ask", "hi", "-c", "-S", "a"),
        ("branch", "a", "-c"),
        ("list", "-n", "3"),
        ("-m", "pocket", "list"),
        ("--kv-bits", "4", "cache", "stats"),
        ("lst",),
        ("--at", "one", "ask", "hi"),
        ("--temp", "hot"),
        ("rename", "a"),
        ("export", "a", "b"),
        ("-S",),
    ],
)
def test_a_contradiction_is_a_usage_error(chatcli: Program, args: tuple[str, ...]) -> None:
    save(chatcli.sessions, "a")
    result = chatcli.run(*args, expect=2, model=False)
    assert result.errors.startswith("chatcli: ") and 1 == result.errors.count("\n")
    assert b"" == result.out


def test_the_folder_before_a_command_is_the_one_that_is_used(chatcli: Program) -> None:
    save(chatcli.home / "mine", "notes")
    assert "notes" in chatcli.run("--sessions", "mine", "list").text
    assert "No saved" in chatcli.run("--sessions", "mine", "list", "--sessions", "other").text
    assert 1 == len(chatcli.run("--json", "--sessions", "mine", "list").json())


@pytest.mark.slow
def test_a_question_without_a_command_is_answered_in_a_pipe(chatcli: Program) -> None:
    options = ("-m", chatcli.model, "-n", "3")
    reply = chatcli.run(*options, "--json", "What is it?", stdin="a text").json()
    assert 1 == reply["turn"]
    assert ["What is it?\n\na text"] == [turn["user"] for turn in shown(chatcli, reply["session"])]
    chatcli.run(*options, "-S", reply["session"], "And", "now?")
    chatcli.run(*options, "-r", reply["session"], "Then?")
    assert ["And now?", "Then?"] == [turn["user"] for turn in shown(chatcli, reply["session"])[1:]]


def shown(program: Program, name: str) -> list[Any]:
    return list(program.run("show", name, "--json").json()["turns"])


@pytest.mark.slow
def test_a_question_without_a_command_begins_a_chat_in_a_terminal(chatcli: Program) -> None:
    with open_shell(chatcli, "-m", chatcli.model, "-n", "3", "What is it?") as terminal:
        terminal.wait_for("› What is it?")
        terminal.wait_for("what-is-it")
        terminal.wait_for(lambda: ready(terminal))
        terminal.line("/quit")
        assert 0 == terminal.wait_for_exit()
    assert ["What is it?"] == [turn["user"] for turn in shown(chatcli, "what-is-it")]


def test_the_numbers_of_a_saved_session_are_shown(chatcli: Program) -> None:
    chatcli.ask("What is it?", "-S", "notes")
    shown = chatcli.run("stats", "notes", "--json").json()
    assert ("notes", [1]) == (shown["session"], [turn["turn"] for turn in shown["turns"]])
    assert shown["turns"][0]["prompt_tokens"] == shown["turns"][0]["prefilled_tokens"] > 0
    assert "hit ratio" in chatcli.run("stats", "notes").text


def test_dash_r_offers_a_list_and_takes_a_name(chatcli: Program) -> None:
    save(chatcli.sessions, "notes")
    with open_shell(chatcli, "-r", "-m", chatcli.model) as terminal:
        terminal.wait_for("Resume a session")
    with open_shell(chatcli, "-m", chatcli.model, "-r", "notes") as terminal:
        terminal.wait_for("this is notes")
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
