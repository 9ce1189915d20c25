"""A full disk, a file-size limit, folders that go or cannot be written: the chat goes on.

Checkpoints that cannot be kept are told once, with the reason. A transcript that cannot be written
is never silent.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chatcli.text import clean
from tests.support.program import (
    DEADLINE,
    Finished,
    Program,
    entries,
    folder_contents,
    segment_files,
    user_messages,
)
from tests.support.shell import open_shell, ready, run_command, send_message
from tests.support.terminal import CTRL_C, Terminal

OFF = "checkpoints are off"
MESSAGES = [f"Message {number}. Tell me more about it, please." for number in range(4)]
LONG = "Remember what you were told. " * 6
FEW = ("-n", "16")


def may_write_anywhere() -> bool:
    """Whether modes do not bind this process, as for root."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).chmod(0)
        return os.access(file.name, os.W_OK)


AS_ROOT = pytest.mark.skipif(may_write_anywhere(), reason="root may write anywhere")
PRLIMIT = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no prlimit here")


def limit(size: int) -> Callable[[], None]:
    """For `preexec_fn`: no file grows beyond `size` bytes, until someone lifts that."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def limit_running(process: subprocess.Popen[bytes], size: int = resource.RLIM_INFINITY) -> None:
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Talk:
    """A `chat --json` on pipes that is told one message after another."""

    def __init__(self, program: Program, *args: object, **more: Any) -> None:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = program.start("chat", "--json", *args, **pipes, **more)

    def say(self, message: str) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{message}\n".encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.end("")
        return dict(json.loads(line))

    def end(self, last: str, expect: int = 0) -> Finished:
        out, err = self.process.communicate(last.encode(), timeout=DEADLINE)
        done = Finished(self.process.returncode, out, err)
        assert expect == done.code, done
        return done


def notices(done: Finished) -> list[str]:
    """The sentences on standard error, each on a line of its own."""
    assert "Traceback" not in done.errors and "unexpected" not in done.errors, done
    sentences = [line for line in done.errors.splitlines() if line.startswith("chatcli: ")]
    assert len(sentences) == done.errors.count("chatcli: "), done
    return sentences


def told_once(done: Finished, reason: str) -> bool:
    """Whether just one sentence came: that checkpoints are off, and why."""
    (sentence,) = notices(done)
    return OFF in sentence and reason in sentence


def numbers(turns: list[Any]) -> list[tuple[Any, ...]]:
    return [(turn["tokens"], turn["logprobs"], turn["prompt_tokens"]) for turn in turns]


def calm(program: Program, messages: list[str], *args: object) -> list[tuple[Any, ...]]:
    """What an undisturbed conversation without checkpoints answers."""
    return numbers(program.chat(messages, *args, "--no-cache", "--sessions", program.home / "calm"))


def check_transcript(program: Program, name: str, messages: list[str]) -> None:
    """Every message is there with its reply, and the file ends with a whole line."""
    path = program.sessions / f"{name}.jsonl"
    assert path.read_bytes().endswith(b"\n")
    assert messages == user_messages(path)
    shown = program.run("show", name, "--json").json()["turns"]
    assert messages == [turn["user"] for turn in shown if turn["text"] is not None]


def no_litter(program: Program) -> bool:
    return not [*program.sessions.glob("kv/*/tmp/*"), *program.sessions.glob(".*.new")]


def take_away(program: Program, path: Path) -> None:
    """Remove a folder or file at one instant, also while a thread still writes there."""
    gone = program.home / "gone"
    shutil.rmtree(gone, ignore_errors=True)
    gone.mkdir()
    path.rename(gone / path.name)


def put_in_its_place(program: Program, folder: Path, text: str) -> None:
    """A file where a folder was."""
    while not folder.is_file():
        take_away(program, folder)
        with contextlib.suppress(IsADirectoryError):
            folder.write_text(text)


# Checkpoints


@pytest.mark.parametrize("family", [pytest.param("gpt_oss", marks=pytest.mark.slow), "qwen3_5"])
def test_without_room_for_checkpoints_the_replies_are_right(
    family: str, models: Path, tmp_path: Path
) -> None:
    program = Program(tmp_path / "home", models / family)
    messages = [LONG + message for message in MESSAGES]
    script = "".join(f"{message}\n" for message in messages)
    done = program.run("chat", "--json", "-S", "a", *FEW, stdin=script, preexec_fn=limit(16 << 10))
    assert told_once(done, "File too large")
    assert calm(program, messages, *FEW) == numbers(done.lines())
    check_transcript(program, "a", messages)
    assert no_litter(program)
    again = program.run("ask", "And now?", "--json", "-S", "a", *FEW)
    assert [] == notices(again)
    assert segment_files(program.sessions)


@pytest.mark.slow
def test_the_notice_has_a_line_of_its_own_in_plain_text(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path / "home", models / "speaker")
    options = ("-n", "60", "--temp", "1", "--seed", "1")
    done = program.run("chat", "-S", "a", *options, stdin=f"{LONG}\n{LONG}\n", preexec_fn=limit(16 << 10))
    assert told_once(done, "File too large")
    shown = program.run("show", "a", "--json").json()["turns"]
    assert "".join(clean(f"{turn['text']}\n") for turn in shown) == done.text


@pytest.mark.slow
def test_what_fails_after_the_reply_is_told_by_ask_too(models: Path, tmp_path: Path) -> None:
    """The message's checkpoint fits, the settled reply's does not."""
    program = Program(tmp_path / "home", models / "gpt_oss")
    options = ("-n", "150", "--temp", "1", "--seed", "3", "-S", "a")
    for extra in ((), ("--json",)):
        shutil.rmtree(program.sessions, ignore_errors=True)
        done = program.run("ask", "Hi.", *options, *extra, preexec_fn=limit(24 << 10))
        assert told_once(done, "File too large"), done
        assert segment_files(program.sessions)


@pytest.mark.parametrize("asjson", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_a_checkpoint_folder_that_is_a_file_is_told_once(asjson: tuple[str, ...], chatcli: Program) -> None:
    chatcli.sessions.mkdir()
    (chatcli.sessions / "kv").write_text("mine")
    script = "".join(f"{message}\n" for message in MESSAGES)
    done = chatcli.run("chat", "-S", "a", *FEW, *asjson, stdin=script)
    assert told_once(done, "Not a directory")
    check_transcript(chatcli, "a", MESSAGES)
    assert "mine" == (chatcli.sessions / "kv").read_text()


@pytest.mark.slow
def test_checkpoints_that_go_while_a_chat_runs_cost_nothing_but_time(chatcli: Program) -> None:
    expected = calm(chatcli, MESSAGES, *FEW)
    talk = Talk(chatcli, "-S", "a", *FEW)
    turns = [talk.say(MESSAGES[0])]
    (folder,) = chatcli.sessions.glob("kv/*")
    take_away(chatcli, folder)
    turns.append(talk.say(MESSAGES[1]))
    take_away(chatcli, chatcli.sessions / "kv")
    turns += [talk.say(message) for message in MESSAGES[2:]]
    assert [] == notices(talk.end(""))
    assert expected == numbers(turns)
    assert folder.is_dir()
    chatcli.run("cache", "verify")
    check_transcript(chatcli, "a", MESSAGES)


@pytest.mark.slow
def test_a_file_in_the_place_of_the_checkpoints_is_told_once(chatcli: Program) -> None:
    expected = calm(chatcli, MESSAGES, *FEW)
    talk = Talk(chatcli, "-S", "a", *FEW)
    turns = [talk.say(MESSAGES[0])]
    (folder,) = chatcli.sessions.glob("kv/*")
    put_in_its_place(chatcli, folder, "mine")
    turns += [talk.say(message) for message in MESSAGES[1:]]
    assert told_once(talk.end(""), "cannot be written: ")
    assert expected == numbers(turns)
    assert "mine" == folder.read_text()
    check_transcript(chatcli, "a", MESSAGES)


@AS_ROOT
@pytest.mark.parametrize("mode", [0o500, 0])
def test_checkpoints_that_may_not_be_written_are_told_once(mode: int, chatcli: Program) -> None:
    chatcli.ask("Hello.", "-S", "other", *FEW)
    chatcli.run("cache", "clear")
    (chatcli.sessions / "kv").mkdir(parents=True)
    (chatcli.sessions / "kv").chmod(mode)
    script = "".join(f"{message}\n" for message in MESSAGES)
    done = chatcli.run("chat", "--json", "-S", "a", *FEW, stdin=script)
    assert told_once(done, "Permission denied")
    assert calm(chatcli, MESSAGES, *FEW) == numbers(done.lines())
    check_transcript(chatcli, "a", MESSAGES)


# Transcripts


def failed_to_save(done: Finished, reason: str) -> bool:
    """Whether the last sentence says that it could not be saved, and why; none says it twice."""
    *others, sentence = notices(done)
    assert all(OFF in other for other in others) and len(others) <= 1, done
    return "session" in sentence and reason in sentence


@pytest.mark.slow
def test_ask_without_room_for_a_new_session_leaves_nothing(chatcli: Program) -> None:
    done = chatcli.run("ask", "Hello.", "-S", "a", *FEW, preexec_fn=limit(50), expect=1)
    assert failed_to_save(done, "File too large")
    assert b"" == done.out
    assert {} == folder_contents(chatcli.sessions)
    assert 1 == chatcli.ask("Hello.", "-S", "a", *FEW)["turn"]


@pytest.mark.parametrize("asjson", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_ask_without_room_for_the_message_does_not_answer(asjson: tuple[str, ...], chatcli: Program) -> None:
    chatcli.ask("Hello.", "-S", "a", *FEW)
    path = chatcli.sessions / "a.jsonl"
    before = path.read_bytes()
    tight = limit(len(before) + 20)
    done = chatcli.run("ask", "More?", *asjson, "-S", "a", *FEW, preexec_fn=tight, expect=1)
    assert failed_to_save(done, "File too large")
    assert b"" == done.out
    assert before == path.read_bytes()
    assert 2 == chatcli.ask("More?", "-S", "a", *FEW)["turn"]


@pytest.mark.slow
@pytest.mark.parametrize("asjson", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_ask_without_room_for_the_reply_says_so_and_keeps_the_message(
    asjson: tuple[str, ...], chatcli: Program
) -> None:
    chatcli.ask("Hello.", "-S", "a", *FEW)
    path = chatcli.sessions / "a.jsonl"
    tight = limit(path.stat().st_size + 200)
    done = chatcli.run("ask", "More?", *asjson, "-S", "a", *FEW, preexec_fn=tight, expect=1)
    assert failed_to_save(done, "File too large")
    assert not asjson or b"" == done.out
    assert path.read_bytes().endswith(b"\n")
    assert "user" == entries(path)[-1]["type"]
    again = chatcli.run("ask", "Again?", "-S", "a", *FEW)
    assert ["chatcli: turn 2 was sent but its reply was cut off: the message is kept"] == notices(again)
    assert ["Hello.", "More?", "Again?"] == user_messages(path)


@pytest.mark.slow
def test_a_script_ends_where_it_can_no_longer_be_saved(chatcli: Program) -> None:
    talk = Talk(chatcli, "-S", "a", *FEW)
    talk.say(MESSAGES[0])
    limit_running(talk.process, (chatcli.sessions / "a.jsonl").stat().st_size + 20)
    done = talk.end("".join(f"{message}\n" for message in MESSAGES[1:]), expect=1)
    assert failed_to_save(done, "File too large")
    check_transcript(chatcli, "a", MESSAGES[:1])


@pytest.mark.slow
def test_a_script_ends_where_its_folder_is_gone(chatcli: Program) -> None:
    for removed in (chatcli.sessions, chatcli.sessions / "a.jsonl"):
        talk = Talk(chatcli, "-S", "a", *FEW)
        talk.say(MESSAGES[0])
        take_away(chatcli, removed)
        done = talk.end(f"{MESSAGES[1]}\n", expect=1)
        assert failed_to_save(done, "deleted")
        assert not (chatcli.sessions / "a.jsonl").exists()


# In a terminal the chat goes on


@pytest.fixture
def shell(chatcli: Program) -> Iterator[Terminal]:
    with open_shell(chatcli, "chat", "-m", chatcli.model, "-S", "a", *FEW) as terminal:
        send_message(terminal, "First.")
        yield terminal


def leave(terminal: Terminal) -> None:
    terminal.wait_for(lambda: ready(terminal))
    terminal.line("/quit")
    assert 0 == terminal.wait_for_exit()
    assert "Traceback" not in terminal.all_text() and "nexpected" not in terminal.all_text()


def refused(shell: Terminal, line: str) -> None:
    """A message that cannot be saved is told, and comes back to the box."""
    run_command(shell, line, "Cannot save to the session")
    shell.wait_for(lambda: shell.text().count(f"› {line}") == 2)


def cleared(shell: Terminal) -> None:
    shell.send(CTRL_C)
    shell.wait_for("Say something")


@PRLIMIT
@pytest.mark.slow
def test_after_space_is_back_the_next_message_is_saved(chatcli: Program, shell: Terminal) -> None:
    path = chatcli.sessions / "a.jsonl"
    shell.wait_for(lambda: path.read_bytes().endswith(b"}\n"))
    limit_running(shell.process, path.stat().st_size + 20)
    refused(shell, "Second.")
    cleared(shell)
    refused(shell, "Third.")
    limit_running(shell.process)
    send_message(shell, " At last.")
    leave(shell)
    check_transcript(chatcli, "a", ["First.", "Third. At last."])


@PRLIMIT
def test_a_disk_that_takes_nothing_more_does_not_end_the_chat(chatcli: Program, shell: Terminal) -> None:
    """Not even the line history can be written."""
    limit_running(shell.process, 0)
    refused(shell, "Second.")
    cleared(shell)
    limit_running(shell.process)
    send_message(shell, "Third.")
    leave(shell)
    check_transcript(chatcli, "a", ["First.", "Third."])


@pytest.mark.slow
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_deleted_session_is_told_and_a_branch_keeps_it(
    what: str, chatcli: Program, shell: Terminal
) -> None:
    removed = chatcli.sessions / ("a.jsonl" if what == "file" else "")
    take_away(chatcli, removed)
    refused(shell, "Second.")
    cleared(shell)
    run_command(shell, "/branch rescued", "rescued")
    send_message(shell, "Third.")
    leave(shell)
    check_transcript(chatcli, "rescued", ["First.", "Third."])


# A real full disk


@pytest.fixture
def disk(chatcli: Program) -> Iterator[Path]:
    """The sessions folder on a file system of its own, of 64 MiB."""
    chatcli.sessions.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "none", str(chatcli.sessions)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root mounts a small file system")
    yield chatcli.sessions
    subprocess.run(["umount", "-l", str(chatcli.sessions)], check=True)


def fill(folder: Path, left: int) -> Path:
    """Leave so many bytes on the disk."""
    path = folder / "filler"
    path.write_bytes(bytes(shutil.disk_usage(folder).free - left))
    return path


@pytest.mark.slow
def test_a_disk_that_fills_up_and_is_cleared(chatcli: Program, disk: Path) -> None:
    messages = [LONG * 10, *MESSAGES]
    expected = calm(chatcli, messages, *FEW)
    filler = fill(disk, 80 << 10)
    script = "".join(f"{message}\n" for message in messages)
    options = ("--json", "-S", "a", *FEW, "--cache-limit", "1GB")
    done = chatcli.run("chat", *options, stdin=script)
    assert told_once(done, "No space left on device")
    assert expected == numbers(done.lines())
    check_transcript(chatcli, "a", messages)
    assert no_litter(chatcli)
    with filler.open("ab") as file:
        file.write(bytes(shutil.disk_usage(disk).free))
    before = (disk / "a.jsonl").read_bytes()
    done = chatcli.run("ask", LONG * 30, "-S", "a", *FEW, expect=1)
    assert failed_to_save(done, "No space left on device")
    assert before == (disk / "a.jsonl").read_bytes()
    for args in (("list",), ("show", "a"), ("cache", "verify"), ("cache", "gc")):
        chatcli.run(*args)
    filler.unlink()
    again = chatcli.run("ask", "And now?", *options)
    assert [] == notices(again)
    check_transcript(chatcli, "a", [*messages, "And now?"])


@pytest.mark.slow
def test_checkpoints_leave_the_last_of_a_disk_to_the_transcript(chatcli: Program, disk: Path) -> None:
    """There is room for a small checkpoint or two, or for what is said."""
    fill(disk, 40 << 10)
    script = "".join(f"{message}\n" for message in MESSAGES * 2)
    options = ("--json", "-S", "a", *FEW, "--cache-limit", "1GB")
    done = chatcli.run("chat", *options, stdin=script)
    assert told_once(done, "No space left on device")
    check_transcript(chatcli, "a", MESSAGES * 2)


@pytest.mark.slow
def test_a_read_only_disk_is_one_sentence(chatcli: Program, disk: Path) -> None:
    chatcli.ask(MESSAGES[0], "-S", "a", *FEW)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    done = chatcli.run("ask", "More?", "-S", "a", *FEW, expect=1)
    assert 1 == len(notices(done)) and b"" == done.out
    assert MESSAGES[0] in chatcli.run("show", "a").text
    chatcli.run("cache", "verify")
    chatcli.run("delete", "--yes", "a", expect=1)
    check_transcript(chatcli, "a", MESSAGES[:1])


@AS_ROOT
def test_a_transcript_that_may_not_be_written_is_one_sentence(chatcli: Program) -> None:
    chatcli.ask(MESSAGES[0], "-S", "a", *FEW)
    (chatcli.sessions / "a.jsonl").chmod(0o400)
    done = chatcli.run("ask", "More?", "-S", "a", *FEW, expect=1)
    assert failed_to_save(done, "Permission denied")
    assert b"" == done.out
    check_transcript(chatcli, "a", MESSAGES[:1])
