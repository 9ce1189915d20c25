"""Commands on saved sessions: names, deletion, export and import, choosing one to resume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from chatcli.conversation.tree import Message
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import Program
from tests.support.shell import open_shell
from tests.support.terminal import CTRL_C, CTRL_D, ENTER


def save(chatcli: Program, name: str, *texts: str, age: int = 0) -> Path:
    """Save a session of alternating user and assistant messages."""
    with SessionFolder(chatcli.sessions).create(name, model=None, system=None) as session:
        for number, text in enumerate(texts):
            role = "assistant" if number % 2 else "user"
            session.append(Message(role, text), session.conversation.head)
    os.utime(session.path, (1e9 - age, 1e9 - age))
    return session.path


def names(chatcli: Program) -> list[str]:
    return sorted(SessionFolder(chatcli.sessions).names())


# Names


@pytest.mark.slow
def test_commands_that_lose_nothing_take_the_beginning_of_a_name(chatcli: Program) -> None:
    save(chatcli, "fruit-salad", "two pears", "three plums")
    save(chatcli, "bread", "rye")
    assert "two pears" in chatcli.run("show", "fru").text
    assert "fruit-salad" == chatcli.run("tree", "fru", "--json").json()["session"]
    assert "two pears" in chatcli.run("export", "fru").text
    output = chatcli.run("branch", "fru", "--as", "pie").text
    assert "Branched 'fruit-salad' after turn 1 into 'pie'.\n" == output
    assert "Renamed 'fruit-salad' to 'salad'.\n" == chatcli.run("rename", "fru", "salad").text
    assert ["bread", "pie", "salad"] == names(chatcli)


@pytest.mark.parametrize("command", ["export", "delete", "rename", "branch"])
def test_an_ambiguous_beginning_is_refused_with_its_matches(chatcli: Program, command: str) -> None:
    for number in range(7):
        save(chatcli, f"fruit-{number}", "hello")
    arguments = {"rename": ["new"], "delete": ["--yes"]}.get(command, [])
    result = chatcli.run(command, "fruit", *arguments, expect=1)
    assert "chatcli: 'fruit' matches 'fruit-0', 'fruit-1', 'fruit-2', 'fruit-3', 'fruit-4'" in result.errors
    assert "fruit-5" not in result.errors and 1 == result.errors.count("\n")
    assert 7 == len(names(chatcli))


def test_deleting_by_the_beginning_of_a_name_is_refused_without_a_terminal(
    chatcli: Program,
) -> None:
    save(chatcli, "fruit-salad", "two pears")
    for arguments in ([], ["--yes"]):
        result = chatcli.run("delete", "fru", *arguments, expect=1)
        assert "There is no session 'fru': give the whole name, 'fruit-salad'" in result.errors
    assert ["fruit-salad"] == names(chatcli)
    chatcli.run("delete", "fruit-salad", "-y")
    assert [] == names(chatcli)


@pytest.mark.slow
def test_nothing_is_deleted_unasked_without_a_terminal(chatcli: Program) -> None:
    for name in ("it's", "b", "kept"):
        save(chatcli, name, "two pears")
    result = chatcli.run("delete", "it's", "b", expect=2)
    question, _, command = result.errors.strip().rpartition(": ")
    assert question.startswith("chatcli: There is no terminal to ask") and "\n" not in question
    assert """chatcli delete --yes 'it'"'"'s' b""" == command
    result = chatcli.run("cache", "clear", expect=2)
    assert "chatcli cache clear --yes\n" == result.errors.rpartition(": ")[2]
    assert ["b", "it's", "kept"] == names(chatcli)
    chatcli.run("delete", "--yes", "it's", "b")
    assert ["kept"] == names(chatcli)


def test_nothing_is_asked_or_deleted_if_one_of_the_sessions_is_open(chatcli: Program) -> None:
    for name in ("a", "b"):
        save(chatcli, name, "two pears")
    with SessionFolder(chatcli.sessions).open("b"):
        for yes in ([], ["--yes"]):
            result = chatcli.run("delete", "a", "b", *yes, expect=1)
            assert (
                "chatcli: The session 'b' is open in another chatcli: close it there first.\n"
                == result.errors
            )
    assert ["a", "b"] == names(chatcli)


@pytest.mark.slow
def test_one_question_names_all_that_goes_and_ctrl_c_is_a_no(chatcli: Program) -> None:
    for name in ("a", "b"):
        save(chatcli, name, "two pears", "three plums")
    for keys, code in ((CTRL_C, 130), (CTRL_D, 1), (f"n{ENTER}", 1)):
        with open_shell(chatcli, "--sessions", "saved", "delete", "a", "b") as terminal:
            terminal.wait_for("Delete 'a' (1 turn, ")
            terminal.wait_for("'b' (1 turn, ")
            terminal.send(keys)
            assert code == terminal.wait_for_exit()
        assert ["a", "b"] == names(chatcli)
    with open_shell(chatcli, "cache", "clear") as terminal:
        terminal.wait_for(
            "Delete 0 B of checkpoints? They must be computed again; conversations stay.\n[y/N]"
        )
        terminal.send(f"y{ENTER}")
        assert 0 == terminal.wait_for_exit()


@pytest.mark.slow
@pytest.mark.parametrize("args", [["fru"], ["fruit-salad"]])
def test_deleting_asks_in_a_terminal(chatcli: Program, args: Sequence[str]) -> None:
    save(chatcli, "fruit-salad", "two pears")
    for answer, remaining in (("n", ["fruit-salad"]), ("y", [])):
        with open_shell(chatcli, "delete", *args) as terminal:
            terminal.wait_for("Delete 'fruit-salad' (1 turn, ")
            terminal.wait_for("[y/N]")
            terminal.send(f"{answer}{ENTER}")
            assert (answer == "n") == bool(terminal.wait_for_exit())
        assert remaining == names(chatcli)


def test_the_whole_name_and_yes_delete_at_once_in_a_terminal(chatcli: Program) -> None:
    save(chatcli, "fruit-salad", "two pears")
    with open_shell(chatcli, "delete", "fruit-salad", "--yes") as terminal:
        assert 0 == terminal.wait_for_exit()
    assert [] == names(chatcli)


# Export and import


def test_a_session_is_exported_and_imported(chatcli: Program) -> None:
    path = save(chatcli, "fruit salad", "two pears", "three plums", "four figs")
    chatcli.run("export", "fruit", "-o", "fruit.json")
    result = chatcli.run("import", "fruit.json")
    assert "Imported 2 turns as 'fruit-salad'. To continue it: chatcli resume fruit-salad\n" == result.text
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    copied = path.with_name("fruit-salad.jsonl").read_bytes().splitlines()
    assert lines[1:] == [json.loads(line) for line in copied][1:]
    piped = chatcli.run("export", "fruit salad", "--format", "json")
    assert piped.out.isascii()
    imported = chatcli.run("import", "-", "--as", "new", "--json", stdin=piped.out).json()
    assert {"session": "new", "turns": 2} == imported
    assert "already" in chatcli.run("import", "-", "--as", "new", stdin=piped.out, expect=1).errors
    assert "must not" in chatcli.run("import", "-", "--as", "a/b", stdin=piped.out, expect=2).errors


@pytest.mark.slow
def test_the_format_follows_the_suffix_unless_it_is_given(chatcli: Program) -> None:
    save(chatcli, "fruit", "two *pears*", "three *plums*")
    for name, arguments, beginning in (
        ("a.md", [], "# fruit"),
        ("a.html", [], "<!DOCTYPE html>"),
        ("a.txt", ["--format", "html"], "<!DOCTYPE html>"),
        ("a.json", [], "{"),
    ):
        assert b"" == chatcli.run("export", "fruit", "-o", name, *arguments).out
        assert (chatcli.home / name).read_text().startswith(beginning)
    assert chatcli.run("export", "fruit").text == (chatcli.home / "a.md").read_text()
    for args in (("--format", "pdf"), ("-o", "a.pdf")):
        result = chatcli.run("export", "fruit", *args, expect=2)
        assert "chatcli: Cannot export to .pdf. The formats are md, html and json.\n" == result.errors
    assert not (chatcli.home / "a.pdf").exists()


@pytest.mark.slow
def test_a_file_is_overwritten_only_by_force(chatcli: Program) -> None:
    save(chatcli, "fruit", "two pears")
    file = chatcli.home / "kept.md"
    file.write_text("mine")
    result = chatcli.run("export", "fruit", "-o", "kept.md", expect=1)
    assert "chatcli: kept.md exists already: --force overwrites it.\n" == result.errors
    assert "mine" == file.read_text()
    chatcli.run("export", "fruit", "-o", "kept.md", "--force")
    assert "two pears" in file.read_text()
    for bad in ("nowhere/kept.md", "."):
        result = chatcli.run("export", "fruit", "-o", bad, "--force", expect=1)
        assert f"chatcli: Cannot write {bad}: " in result.errors


def test_many_files_are_imported_and_one_that_fails_stops_no_other(chatcli: Program) -> None:
    for name in ("pears", "plums"):
        talk = [{"role": "user", "content": name}, {"role": "assistant", "content": "yes"}]
        (chatcli.home / f"{name}.json").write_text(json.dumps(talk))
    (chatcli.home / "bad.json").write_text("{")
    result = chatcli.run("import", "pears.json", "bad.json", "plums.json", "none.json", expect=1)
    assert "Imported 1 turn as 'pears'.\nImported 1 turn as 'plums'.\n" == result.text
    bad, missing = result.errors.splitlines()
    assert bad.startswith("chatcli: bad.json: ")
    assert "chatcli: Cannot read none.json: No such file or directory." == missing
    assert ["pears", "plums"] == names(chatcli)


def test_a_failed_import_is_one_sentence_and_leaves_nothing(chatcli: Program) -> None:
    result = chatcli.run("import", "nowhere.json", expect=1)
    assert "chatcli: Cannot read nowhere.json: No such file or directory.\n" == result.errors
    tool = json.dumps([{"role": "user", "content": "x"}, {"role": "\x1b[31m", "content": "y"}])
    result = chatcli.run("import", "-", stdin=tool, expect=1)
    assert "Message 2 is from '␛[31m'" in result.errors and b"\x1b" not in result.err
    assert 1 == result.errors.count("\n")
    assert [] == names(chatcli)


@pytest.mark.slow
def test_an_imported_conversation_can_be_continued(chatcli: Program) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi.", "reasoning_content": "Greet."},
    ]
    result = chatcli.run("import", "-", stdin=json.dumps(messages))
    assert "Imported 1 turn as 'hello'. To continue it: chatcli resume hello\n" == result.text
    turn = chatcli.ask("And now?", "-S", "hello", "-n", "2")
    assert ("hello", 2) == (turn["session"], turn["turn"])
    session = chatcli.run("show", "hello", "--json").json()
    assert ("Be kind.", "Greet.") == (session["system"], session["turns"][0]["thinking"])


# Choosing


def test_resume_in_a_terminal_opens_a_picker(chatcli: Program) -> None:
    save(chatcli, "fruit", "two pears", "three plums", age=1)
    save(chatcli, "bread", "rye", "wheat")
    with open_shell(chatcli, "resume", "-m", str(chatcli.model)) as terminal:
        terminal.wait_for("Resume a session")
        assert "fruit" in terminal.text() and "bread" in terminal.text()
        terminal.send("three plums")
        terminal.wait_for("1 of 2 sessions")
        assert "fruit" in terminal.text() and "bread" not in terminal.text()
        terminal.send("\x1b")
        terminal.wait_for("2 sessions")
        terminal.send("\x1b")
        assert 0 == terminal.wait_for_exit()
    assert b"Traceback" not in terminal.raw


def test_the_chosen_session_is_resumed(chatcli: Program) -> None:
    save(chatcli, "fruit", "two pears", "three plums", age=1)
    save(chatcli, "bread", "rye", "wheat")
    with open_shell(chatcli, "resume", "-m", str(chatcli.model)) as terminal:
        terminal.wait_for("Resume a session")
        terminal.send("\x1b[B" + ENTER)
        terminal.wait_for("three plums")
        terminal.wait_for(lambda: "Resume a session" not in terminal.text())
        assert "wheat" not in terminal.text()
    with open_shell(chatcli, "resume", "-c", "-m", str(chatcli.model)) as terminal:
        terminal.wait_for("wheat")
        assert "Resume a session" not in terminal.all_text()


def test_resume_without_sessions_is_an_error(chatcli: Program) -> None:
    sentence = "There is no saved session yet. To start one: chatcli"
    with open_shell(chatcli, "resume") as terminal:
        assert 1 == terminal.wait_for_exit()
    assert sentence in terminal.text()
    assert f"chatcli: {sentence}\n" == chatcli.run("resume", expect=1).errors


@pytest.mark.slow
def test_resume_in_a_pipe_takes_the_most_recent(chatcli: Program) -> None:
    save(chatcli, "fruit", "two pears", "three plums", age=1)
    save(chatcli, "bread", "rye", "wheat")
    result = chatcli.run("resume", "-m", chatcli.model, "-n", "2", "--json", stdin="hello\n")
    assert ("bread", 2) == (result.json()["session"], result.json()["turn"])


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["search", "pears"],
        ["export", "fruit"],
        ["export", "fruit", "--format", "html"],
        ["import", "fruit.json"],
        ["show", "fruit"],
        ["rename", "fruit", "salad"],
    ],
)
def test_these_commands_import_nothing_heavy(chatcli: Program, command: list[str]) -> None:
    save(chatcli, "fruit", "two pears", "three plums")
    (chatcli.home / "fruit.json").write_text('[{"role": "user", "content": "hello"}]')
    code = (
        "import sys; from chatcli.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'mlx', 'mlx_lm', 'numpy', 'transformers', 'prompt_toolkit'}\n"
        "print('HEAVY', sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
        env=chatcli.environment(),
        check=True,
        cwd=chatcli.home,
    )
    assert "HEAVY []" == process.stdout.splitlines()[-1]
