"""Bad input: one sentence, the right exit code, nothing lost, no control characters on the terminal."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.families import at_night
from tests.support.program import Finished, Program, escapes_in, folder_contents, segment_files
from tests.support.tiny import write_model

EVIL = "\x1b]0;evil\x07\x1b[31m \x9b2J \x85 \x90 end"
RAISES = "{{ raise_exception('this model takes no such \x1b[31mconversation') }}"
HEADER = {
    "type": "session",
    "version": 1,
    "created": 1.0,
    "date": "2026-11-21",
    "model": None,
    "system": None,
    "branched_from": None,
}


def fails(program: Program, code: int, *args: object, expected: str = "", **run_options: Any) -> Finished:
    """Check that a command fails with `code` and one line, and leaves the sessions folder unchanged."""
    old_contents = folder_contents(program.sessions)
    result = program.run(*args, expect=code, **run_options)
    lines = result.errors.splitlines()
    assert b"" == result.out, result
    assert "Traceback" not in result.errors
    if code == 1 or lines[0].startswith("chatcli:"):
        assert 1 == len(lines), result
        assert lines[0].startswith("chatcli: ")
        assert "unexpected error" not in lines[0]
    assert expected.lower() in result.errors.lower(), result
    assert [] == escapes_in(result.err)
    assert old_contents == folder_contents(program.sessions)
    return result


@pytest.fixture(scope="module")
def program_with_session(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A program with one session of three turns, which tests must not change."""
    program = Program(tmp_path_factory.mktemp("spoken"), models / "qwen3_5")
    program.chat(["one apple", "two pears", "three plums"], "-S", "fruit", "-n", "6")
    return program


@pytest.mark.parametrize(
    ("args", "code", "expected"),
    [
        (("show", "nobody"), 1, "no session 'nobody'"),
        at_night(("show", "fruti"), 1, "'fruit'"),
        (("tree", "nobody"), 1, "no session 'nobody'"),
        at_night(("resume", "nobody"), 1, "no session 'nobody'"),
        (("branch", "nobody", "--at", "1"), 1, "no session 'nobody'"),
        at_night(("rename", "nobody", "somebody"), 1, "no session 'nobody'"),
        (("delete", "nobody", "--yes"), 1, "no session 'nobody'"),
        at_night(("ask", "hi", "-S", "a/b"), 2, "name"),
        (("show", "../fruit"), 2, "name"),
        at_night(("ask", "hi", "-S", ".."), 2, "name"),
        (("ask", "hi", "-S", "bad\x1b[31mname\x07"), 2, "control"),
        at_night(("rename", "fruit", "new\nline"), 2, "control"),
        (("branch", "fruit", "--as", "a/../b"), 2, "name"),
        at_night(("rename", "fruit", ""), 2, "empty"),
        (("ask", "hi", "-S", "x" * 500), 2, "80 characters"),
        at_night(("ask", ""), 2, "empty"),
        (("ask", " \n\t "), 2, "empty"),
        at_night(("ask",), 2, "empty"),
        (("ask", "hi", "-S", "fruit", "--at", "0"), 2, "turn 0"),
        at_night(("ask", "hi", "-S", "fruit", "--at", "-1"), 2, "turn -1"),
        (("ask", "hi", "-S", "fruit", "--at", "99"), 2, "1 to 3"),
        at_night(("branch", "fruit", "--at", "4"), 2, "1 to 3"),
        (("ask", "hi", "--at", "1"), 2, "--at"),
        at_night(("ask", "hi", "--frobnicate"), 2, "--frobnicate"),
        (("ask", "hi", "--temp", "hot"), 2, "--temp"),
        at_night(("ask", "hi", "-n", "0"), 2, "--max-tokens"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    program_with_session: Program, args: tuple[str, ...], code: int, expected: str
) -> None:
    fails(program_with_session, code, *args, expected=expected)


def without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def without_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()


def with_broken_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "qwen3", ')


def of_unknown_type(folder: Path) -> None:
    change_config(folder, lambda config: config.update(model_type="no_such_type"))


def with_a_missing_key(folder: Path) -> None:
    change_config(folder, lambda config: config.pop("hidden_size"))


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def with_truncated_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)


def with_a_template_that_raises(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(RAISES)


def change_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = json.loads((folder / "config.json").read_bytes())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("break_folder", "expected"),
    [
        (without_config, "config.json"),
        at_night(without_template, "chat template"),
        at_night(with_broken_config, "config.json"),
        (of_unknown_type, "no_such_type"),
        at_night(with_a_missing_key, "hidden_size"),
        at_night(without_weights, "safetensors"),
        at_night(with_truncated_weights, "cannot be loaded"),
    ],
)
def test_a_broken_model_folder_is_one_sentence(
    chatcli: Program, models: Path, break_folder: Callable[[Path], None], expected: str
) -> None:
    folder = chatcli.home / "model"
    shutil.copytree(models / "qwen3", folder)
    break_folder(folder)
    fails(chatcli, 1, "ask", "hello", "-S", "new", "-m", folder, expected=expected)
    assert not (chatcli.sessions / "new.jsonl").exists()


def test_an_unknown_model_is_one_sentence(program_with_session: Program) -> None:
    fails(program_with_session, 1, "ask", "hello", "-m", "./not/here", "-S", "fruit", expected="./not/here")


@pytest.mark.slow
def test_a_template_that_raises_is_one_sentence_and_the_next_turn_goes_on(
    chatcli: Program,
) -> None:
    refusing = write_model(chatcli.home / "refusing", "qwen3", template=RAISES)
    chatcli.ask("hello", "-S", "talk", "-n", "4")
    result = chatcli.run("ask", "refused words", "-S", "talk", "-m", refusing, expect=1)
    assert 1 == len(result.errors.splitlines())
    assert "this model takes no such" in result.errors
    assert [] == escapes_in(result.err + result.out)
    turn = chatcli.ask("again", "-S", "talk", "-n", "4")
    assert (2, None) == (turn["turn"], turn["miss_reason"])
    assert b"refused words" in (chatcli.sessions / "talk.jsonl").read_bytes()


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size))


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 100)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def one_bit_flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def healthy(program_with_session: Program) -> dict[str, Any]:
    """The fourth turn with undamaged segments."""
    folder = program_with_session.home / "whole"
    shutil.copytree(program_with_session.sessions, folder)
    reply = program_with_session.ask("four figs", "-S", "fruit", "-n", "8", "--sessions", folder)
    assert reply["reused_tokens"] > 0
    return reply


@pytest.mark.slow
@pytest.mark.parametrize("damage", [garbage, truncated, emptied, one_bit_flipped])
def test_damaged_segments_cost_time_and_no_token(
    program_with_session: Program, healthy: dict[str, Any], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(program_with_session.sessions, folder)
    assert len(segment_files(folder)) > 4
    for path in segment_files(folder):
        damage(path)
    turn = program_with_session.ask("four figs", "-S", "fruit", "-n", "8", "--sessions", folder)
    assert (healthy["tokens"], healthy["logprobs"]) == (turn["tokens"], turn["logprobs"])
    assert 0 == turn["reused_tokens"]
    assert "damaged" in turn["miss_reason"]


@pytest.mark.slow
def test_a_session_of_a_later_version_is_refused_and_left_unchanged(program_with_session: Program) -> None:
    path = program_with_session.sessions / "tomorrow.jsonl"
    path.write_text(json.dumps({**HEADER, "version": 99}) + '\n{"type": "hologram"}\n')
    try:
        for args in (("show",), ("tree",), ("resume",), ("ask", "hi", "-S"), ("branch",)):
            fails(program_with_session, 1, *args, "tomorrow", expected="newer chatcli")
        listed = {session["name"]: session for session in program_with_session.run("list", "--json").json()}
        assert (3, None) == (listed["fruit"]["turns"], listed["fruit"]["problem"])
        assert "newer chatcli" in listed["tomorrow"]["problem"]
    finally:
        path.unlink()


@pytest.mark.slow
def test_unreadable_sessions_are_listed_with_their_problem(program_with_session: Program) -> None:
    bad = {
        "noise.jsonl": random.Random(1).randbytes(500),
        "empty.jsonl": b"",
        "list.jsonl": b"[1, 2]\n",
        "text.jsonl": EVIL.encode() + b"\n",
        "evil\x1b[31m\x07.jsonl": b"{}\n",
    }
    for name, data in bad.items():
        (program_with_session.sessions / name).write_bytes(data)
    try:
        listed = {session["name"]: session for session in program_with_session.run("list", "--json").json()}
        assert {"fruit", *(name.removesuffix(".jsonl") for name in bad)} == listed.keys()
        assert {"fruit"} == {name for name, session in listed.items() if not session["problem"]}
        plain = program_with_session.run("list")
        assert [] == escapes_in(plain.out + plain.err)
        assert "fruit" in plain.text
        for name in ("noise", "empty", "list", "text"):
            fails(program_with_session, 1, "show", name, expected=name)
    finally:
        for name in bad:
            (program_with_session.sessions / name).unlink()


@pytest.mark.slow
def test_a_damaged_line_is_skipped_and_reported(chatcli: Program) -> None:
    lines = [
        HEADER,
        {"type": "user", "id": "a", "parent": None, "content": "kept words", "time": 1},
        "not an object",
        {
            "type": "assistant",
            "id": "b",
            "parent": "a",
            "content": "a reply",
            "time": 2,
            "thinking": "",
            "finish_reason": "stop",
            "record": {},
        },
    ]
    chatcli.sessions.mkdir()
    path = chatcli.sessions / "torn.jsonl"
    complete_lines = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(complete_lines + b'{"type": "user", "id": "c", "par')
    result = chatcli.run("show", "torn")
    assert "kept words" in result.text and "a reply" in result.text
    assert "line 3" in result.errors
    assert path.read_bytes().startswith(complete_lines)
    turn = chatcli.ask("more", "-S", "torn", "-n", "2")
    assert 2 == turn["turn"]
    assert path.read_bytes().startswith(complete_lines)


@pytest.mark.slow
def test_a_session_that_is_open_elsewhere_is_refused(program_with_session: Program) -> None:
    path = program_with_session.sessions / "fruit.jsonl"
    old_bytes = path.read_bytes()
    chat = program_with_session.start("chat", "-S", "fruit", stdin=-1, stdout=-1, stderr=-1)
    assert chat.stdin is not None
    try:
        chat.stdin.write(b"/tree\n")
        chat.stdin.flush()
        # A piped line is answered once the session is open, so /tree's output shows that it is.
        assert chat.stdout is not None
        read_until(chat.stdout.fileno(), b"plums")
        for args in (("ask", "hi", "-S"), ("resume",)):
            fails(program_with_session, 1, *args, "fruit", expected="open in another")
        fails(program_with_session, 1, "delete", "fruit", "--yes", expected="open in another")
        assert "three plums" in program_with_session.run("show", "fruit").text
    finally:
        chat.communicate(b"/quit\n", timeout=30)
    assert 0 == chat.returncode
    assert old_bytes == path.read_bytes()


def read_until(descriptor: int, expected: bytes) -> bytes:
    output = b""
    while expected not in output:
        data = os.read(descriptor, 4096)
        assert data, f"the process ended without saying {expected!r}: {output!r}"
        output += data
    return output


@pytest.mark.slow
def test_an_empty_folder_has_nothing_to_resume(chatcli: Program) -> None:
    fails(chatcli, 1, "resume", expected="no saved session")
    fails(chatcli, 1, "ask", "hi", "-c", expected="no saved session")
    fails(chatcli, 1, "branch", "any", expected="no session 'any'")
    assert {} == folder_contents(chatcli.sessions)


@pytest.mark.slow
def test_a_sessions_path_that_is_no_folder_is_one_sentence(chatcli: Program) -> None:
    file = chatcli.home / "file"
    file.write_text("mine")
    for args in (("ask", "hi"), ("chat",), ("list",), ("show", "x"), ("cache", "clear", "-y")):
        fails(chatcli, 1, *args, "--sessions", file, expected=str(file))
    for args in (("ask", "hi"), ("list",), ("cache", "stats")):
        fails(chatcli, 1, *args, "--sessions", file / "below", expected=str(file))
    assert "mine" == file.read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_sentence(program_with_session: Program) -> None:
    mode = stat.S_IMODE(program_with_session.sessions.stat().st_mode)
    program_with_session.sessions.chmod(0o500)
    try:
        fails(
            program_with_session, 1, "ask", "hi", "-S", "fruit", expected=str(program_with_session.sessions)
        )
        assert "three plums" in program_with_session.run("show", "fruit").text
    finally:
        program_with_session.sessions.chmod(mode)


@pytest.mark.slow
def test_control_characters_never_reach_the_terminal(models: Path, tmp_path: Path) -> None:
    sampled = ("--temp", "1", "--seed", "3", "-n", "200")
    for model in ("evil", "hermit"):
        program = Program(tmp_path / model, models / model)
        reply = program.run("ask", EVIL, "-s", EVIL, "-S", "bad", *sampled)
        assert len(reply.out + reply.err) > 200
        asjson = program.run("show", "bad", "--json")
        turn = asjson.json()["turns"][0]
        # The reply contains control characters, and all of them are on disk.
        assert {"\x1b", "\x07", "\x9b"} <= set(turn["text"] + turn["thinking"])
        assert EVIL == turn["user"] == asjson.json()["system"]
        thinking_shown = program.run("show", "bad", "--thinking")
        assert "evil" in thinking_shown.text
        plain = [program.run(command, "bad") for command in ("show", "tree")]
        for result in (reply, asjson, thinking_shown, *plain, program.run("list")):
            assert [] == escapes_in(result.out)
            assert [] == escapes_in(result.err)
    fails(program, 1, "ask", "x", "-m", EVIL, expected="no model folder")
    fails(program, 2, "ask", "x", "-S", EVIL, expected="name")
