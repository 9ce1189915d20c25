"""A full disk, a file-size limit, folders that are removed or read-only: the chat continues.

That checkpoints cannot be written is reported once, with the reason; that a transcript cannot, every time.
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

CHECKPOINTS_OFF = "checkpoints are off"
MESSAGES = [f"Message {number}. Tell me more about it, please." for number in range(4)]
LONG = "Remember what you were told. " * 6
SHORT_REPLY = ("-n", "16")


def ignores_file_modes() -> bool:
    """Whether this process may write whatever a file's mode says, as root may."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).chmod(0)
        return os.access(file.name, os.W_OK)


not_as_root = pytest.mark.skipif(ignores_file_modes(), reason="root may write anywhere")
needs_prlimit = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no prlimit here")


def limit_file_size(size: int) -> Callable[[], None]:
    """A `preexec_fn` with which no file can grow beyond `size` bytes; the limit can be raised later."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def limit_file_size_of(process: subprocess.Popen[bytes], size: int = resource.RLIM_INFINITY) -> None:
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class PipedChat:
    """A `chat --json` process on pipes."""

    def __init__(self, program: Program, *args: object, **options: Any) -> None:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = program.start("chat", "--json", *args, **pipes, **options)

    def say(self, message: str) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{message}\n".encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.end("")
        return dict(json.loads(line))

    def end(self, script: str, expect: int = 0) -> Finished:
        out, err = self.process.communicate(script.encode(), timeout=DEADLINE)
        finished = Finished(self.process.returncode, out, err)
        assert expect == finished.code, finished
        return finished


def notices(finished: Finished) -> list[str]:
    """The sentences on standard error; asserts that each has a line of its own."""
    assert "Traceback" not in finished.errors and "unexpected" not in finished.errors, finished
    sentences = [line for line in finished.errors.splitlines() if line.startswith("chatcli: ")]
    assert len(sentences) == finished.errors.count("chatcli: "), finished
    return sentences


def reported_once(finished: Finished, reason: str) -> bool:
    """Whether standard error has one sentence: that checkpoints are off, and why."""
    (sentence,) = notices(finished)
    return CHECKPOINTS_OFF in sentence and reason in sentence


def outcomes(turns: list[Any]) -> list[tuple[Any, ...]]:
    return [(turn["tokens"], turn["logprobs"], turn["prompt_tokens"]) for turn in turns]


def undisturbed(program: Program, messages: list[str], *args: object) -> list[tuple[Any, ...]]:
    """The outcomes of the same conversation without disk trouble or checkpoints."""
    return outcomes(program.chat(messages, *args, "--no-cache", "--sessions", program.home / "calm"))


def check_transcript(program: Program, name: str, messages: list[str]) -> None:
    """Assert that every message has its reply and that the file ends with a whole line."""
    path = program.sessions / f"{name}.jsonl"
    assert path.read_bytes().endswith(b"\n")
    assert messages == user_messages(path)
    shown = program.run("show", name, "--json").json()["turns"]
    assert messages == [turn["user"] for turn in shown if turn["text"] is not None]


def has_no_temporary_files(program: Program) -> bool:
    return not [*program.sessions.glob("kv/*/tmp/*"), *program.sessions.glob(".*.new")]


def move_away(program: Program, path: Path) -> None:
    """Remove a folder or file atomically, even while a thread writes there."""
    target = program.home / "removed"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    path.rename(target / path.name)


def replace_by_file(program: Program, folder: Path, text: str) -> None:
    """Replace `folder` by a file, even while a thread writes there."""
    while not folder.is_file():
        move_away(program, folder)
        with contextlib.suppress(IsADirectoryError):
            folder.write_text(text)


# Checkpoints


@pytest.mark.slow
@pytest.mark.parametrize("family", [pytest.param("gpt_oss", marks=pytest.mark.slow), "qwen3_5"])
def test_without_room_for_checkpoints_the_replies_are_the_same(
    family: str, models: Path, tmp_path: Path
) -> None:
    program = Program(tmp_path / "home", models / family)
    messages = [LONG + message for message in MESSAGES]
    script = "".join(f"{message}\n" for message in messages)
    finished = program.run(
        "chat", "--json", "-S", "a", *SHORT_REPLY, stdin=script, preexec_fn=limit_file_size(16 << 10)
    )
    assert reported_once(finished, "File too large")
    assert undisturbed(program, messages, *SHORT_REPLY) == outcomes(finished.lines())
    check_transcript(program, "a", messages)
    assert has_no_temporary_files(program)
    again = program.run("ask", "And now?", "--json", "-S", "a", *SHORT_REPLY)
    assert [] == notices(again)
    assert segment_files(program.sessions)


@pytest.mark.slow
def test_the_notice_has_a_line_of_its_own_in_plain_text(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path / "home", models / "speaker")
    options = ("-n", "60", "--temp", "1", "--seed", "1")
    finished = program.run(
        "chat", "-S", "a", *options, stdin=f"{LONG}\n{LONG}\n", preexec_fn=limit_file_size(16 << 10)
    )
    assert reported_once(finished, "File too large")
    shown = program.run("show", "a", "--json").json()["turns"]
    assert "".join(clean(f"{turn['text']}\n") for turn in shown) == finished.text


@pytest.mark.slow
def test_ask_reports_a_checkpoint_that_fails_after_the_reply(models: Path, tmp_path: Path) -> None:
    """The checkpoint of the message fits, that of the settled reply does not."""
    program = Program(tmp_path / "home", models / "gpt_oss")
    options = ("-n", "150", "--temp", "1", "--seed", "3", "-S", "a")
    for extra in ((), ("--json",)):
        shutil.rmtree(program.sessions, ignore_errors=True)
        finished = program.run("ask", "Hi.", *options, *extra, preexec_fn=limit_file_size(24 << 10))
        assert reported_once(finished, "File too large"), finished
        assert segment_files(program.sessions)


@pytest.mark.slow
@pytest.mark.parametrize("asjson", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_a_checkpoint_folder_that_is_a_file_is_reported_once(
    asjson: tuple[str, ...], chatcli: Program
) -> None:
    chatcli.sessions.mkdir()
    (chatcli.sessions / "kv").write_text("mine")
    script = "".join(f"{message}\n" for message in MESSAGES)
    finished = chatcli.run("chat", "-S", "a", *SHORT_REPLY, *asjson, stdin=script)
    assert reported_once(finished, "Not a directory")
    check_transcript(chatcli, "a", MESSAGES)
    assert "mine" == (chatcli.sessions / "kv").read_text()


@pytest.mark.slow
def test_checkpoints_removed_while_a_chat_runs_cost_only_time(chatcli: Program) -> None:
    expected = undisturbed(chatcli, MESSAGES, *SHORT_REPLY)
    chat = PipedChat(chatcli, "-S", "a", *SHORT_REPLY)
    turns = [chat.say(MESSAGES[0])]
    (folder,) = chatcli.sessions.glob("kv/*")
    move_away(chatcli, folder)
    turns.append(chat.say(MESSAGES[1]))
    move_away(chatcli, chatcli.sessions / "kv")
    turns += [chat.say(message) for message in MESSAGES[2:]]
    assert [] == notices(chat.end(""))
    assert expected == outcomes(turns)
    assert folder.is_dir()
    chatcli.run("cache", "verify")
    check_transcript(chatcli, "a", MESSAGES)


@pytest.mark.slow
def test_a_file_that_replaces_the_checkpoints_is_reported_once(chatcli: Program) -> None:
    expected = undisturbed(chatcli, MESSAGES, *SHORT_REPLY)
    chat = PipedChat(chatcli, "-S", "a", *SHORT_REPLY)
    turns = [chat.say(MESSAGES[0])]
    (folder,) = chatcli.sessions.glob("kv/*")
    replace_by_file(chatcli, folder, "mine")
    turns += [chat.say(message) for message in MESSAGES[1:]]
    assert reported_once(chat.end(""), "cannot be written: ")
    assert expected == outcomes(turns)
    assert "mine" == folder.read_text()
    check_transcript(chatcli, "a", MESSAGES)


@not_as_root
@pytest.mark.parametrize("mode", [0o500, 0])
def test_checkpoints_without_write_permission_are_reported_once(mode: int, chatcli: Program) -> None:
    chatcli.ask("Hello.", "-S", "other", *SHORT_REPLY)
    chatcli.run("cache", "clear", "-y")
    (chatcli.sessions / "kv").mkdir(parents=True)
    (chatcli.sessions / "kv").chmod(mode)
    script = "".join(f"{message}\n" for message in MESSAGES)
    finished = chatcli.run("chat", "--json", "-S", "a", *SHORT_REPLY, stdin=script)
    assert reported_once(finished, "Permission denied")
    assert undisturbed(chatcli, MESSAGES, *SHORT_REPLY) == outcomes(finished.lines())
    check_transcript(chatcli, "a", MESSAGES)


# Transcripts


def failed_to_save(finished: Finished, reason: str) -> bool:
    """Whether the last of at most two sentences says that the session cannot be saved, and why."""
    *others, sentence = notices(finished)
    assert all(CHECKPOINTS_OFF in other for other in others) and len(others) <= 1, finished
    return "session" in sentence and reason in sentence


@pytest.mark.slow
def test_ask_without_room_for_a_new_session_leaves_nothing(chatcli: Program) -> None:
    finished = chatcli.run("ask", "Hello.", "-S", "a", *SHORT_REPLY, preexec_fn=limit_file_size(50), expect=1)
    assert failed_to_save(finished, "File too large")
    assert b"" == finished.out
    assert {} == folder_contents(chatcli.sessions)
    assert 1 == chatcli.ask("Hello.", "-S", "a", *SHORT_REPLY)["turn"]


@pytest.mark.slow
@pytest.mark.parametrize("asjson", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_ask_without_room_for_the_message_does_not_answer(asjson: tuple[str, ...], chatcli: Program) -> None:
    chatcli.ask("Hello.", "-S", "a", *SHORT_REPLY)
    path = chatcli.sessions / "a.jsonl"
    before = path.read_bytes()
    tight = limit_file_size(len(before) + 20)
    finished = chatcli.run("ask", "More?", *asjson, "-S", "a", *SHORT_REPLY, preexec_fn=tight, expect=1)
    assert failed_to_save(finished, "File too large")
    assert b"" == finished.out
    assert before == path.read_bytes()
    assert 2 == chatcli.ask("More?", "-S", "a", *SHORT_REPLY)["turn"]


@pytest.mark.slow
@pytest.mark.parametrize("asjson", [(), pytest.param(("--json",), marks=pytest.mark.slow)])
def test_ask_without_room_for_the_reply_says_so_and_keeps_the_message(
    asjson: tuple[str, ...], chatcli: Program
) -> None:
    chatcli.ask("Hello.", "-S", "a", *SHORT_REPLY)
    path = chatcli.sessions / "a.jsonl"
    tight = limit_file_size(path.stat().st_size + 200)
    finished = chatcli.run("ask", "More?", *asjson, "-S", "a", *SHORT_REPLY, preexec_fn=tight, expect=1)
    assert failed_to_save(finished, "File too large")
    assert not asjson or b"" == finished.out
    assert path.read_bytes().endswith(b"\n")
    assert "user" == entries(path)[-1]["type"]
    again = chatcli.run("ask", "Again?", "-S", "a", *SHORT_REPLY)
    assert ["chatcli: Turn 2 got no reply. /regenerate answers it."] == notices(again)
    assert ["Hello.", "More?", "Again?"] == user_messages(path)


@pytest.mark.slow
def test_a_script_ends_where_it_can_no_longer_be_saved(chatcli: Program) -> None:
    chat = PipedChat(chatcli, "-S", "a", *SHORT_REPLY)
    chat.say(MESSAGES[0])
    limit_file_size_of(chat.process, (chatcli.sessions / "a.jsonl").stat().st_size + 20)
    finished = chat.end("".join(f"{message}\n" for message in MESSAGES[1:]), expect=1)
    assert failed_to_save(finished, "File too large")
    check_transcript(chatcli, "a", MESSAGES[:1])


@pytest.mark.slow
def test_a_script_ends_where_its_folder_is_removed(chatcli: Program) -> None:
    for removed in (chatcli.sessions, chatcli.sessions / "a.jsonl"):
        chat = PipedChat(chatcli, "-S", "a", *SHORT_REPLY)
        chat.say(MESSAGES[0])
        move_away(chatcli, removed)
        finished = chat.end(f"{MESSAGES[1]}\n", expect=1)
        assert failed_to_save(finished, "deleted")
        assert not (chatcli.sessions / "a.jsonl").exists()


# In a terminal, where the chat continues


@pytest.fixture
def shell(chatcli: Program) -> Iterator[Terminal]:
    with open_shell(chatcli, "chat", "-m", chatcli.model, "-S", "a", *SHORT_REPLY) as terminal:
        send_message(terminal, "First.")
        yield terminal


def quit_shell(terminal: Terminal) -> None:
    terminal.wait_for(lambda: ready(terminal))
    terminal.line("/quit")
    assert 0 == terminal.wait_for_exit()
    assert "Traceback" not in terminal.all_text() and "nexpected" not in terminal.all_text()


def assert_not_saved(shell: Terminal, line: str) -> None:
    """Send a message that cannot be saved: the reason is shown, and the message is in the input box again."""
    run_command(shell, line, "Cannot save to the session")
    shell.wait_for(lambda: shell.text().count(f"› {line}") == 2)


def clear_input(shell: Terminal) -> None:
    shell.send(CTRL_C)
    shell.wait_for("Say something")


@needs_prlimit
@pytest.mark.slow
def test_once_there_is_space_again_the_next_message_is_saved(chatcli: Program, shell: Terminal) -> None:
    path = chatcli.sessions / "a.jsonl"
    shell.wait_for(lambda: path.read_bytes().endswith(b"}\n"))
    limit_file_size_of(shell.process, path.stat().st_size + 20)
    assert_not_saved(shell, "Second.")
    clear_input(shell)
    assert_not_saved(shell, "Third.")
    limit_file_size_of(shell.process)
    send_message(shell, " At last.")
    quit_shell(shell)
    check_transcript(chatcli, "a", ["First.", "Third. At last."])


@needs_prlimit
def test_a_disk_without_any_space_does_not_end_the_chat(chatcli: Program, shell: Terminal) -> None:
    """The line history cannot be written either."""
    limit_file_size_of(shell.process, 0)
    assert_not_saved(shell, "Second.")
    clear_input(shell)
    limit_file_size_of(shell.process)
    send_message(shell, "Third.")
    quit_shell(shell)
    check_transcript(chatcli, "a", ["First.", "Third."])


@pytest.mark.slow
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_deleted_session_is_reported_and_can_be_kept_as_a_branch(
    what: str, chatcli: Program, shell: Terminal
) -> None:
    removed = chatcli.sessions / ("a.jsonl" if what == "file" else "")
    move_away(chatcli, removed)
    assert_not_saved(shell, "Second.")
    clear_input(shell)
    run_command(shell, "/branch rescued", "rescued")
    send_message(shell, "Third.")
    quit_shell(shell)
    check_transcript(chatcli, "rescued", ["First.", "Third."])
    assert segment_files(chatcli.sessions)


# A real full disk


@pytest.fixture
def disk(chatcli: Program) -> Iterator[Path]:
    """The sessions folder as a file system of its own, of 64 MiB."""
    chatcli.sessions.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "none", str(chatcli.sessions)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root mounts a small file system")
    yield chatcli.sessions
    subprocess.run(["umount", "-l", str(chatcli.sessions)], check=True)


def fill(folder: Path, left: int) -> Path:
    """Fill the disk up to `left` bytes. Returns the file that fills it."""
    path = folder / "filler"
    path.write_bytes(bytes(shutil.disk_usage(folder).free - left))
    return path


@pytest.mark.slow
def test_a_disk_that_fills_up_and_is_cleared(chatcli: Program, disk: Path) -> None:
    messages = [LONG * 10, *MESSAGES]
    expected = undisturbed(chatcli, messages, *SHORT_REPLY)
    filler = fill(disk, 80 << 10)
    script = "".join(f"{message}\n" for message in messages)
    options = ("--json", "-S", "a", *SHORT_REPLY, "--cache-limit", "1GB")
    finished = chatcli.run("chat", *options, stdin=script)
    assert reported_once(finished, "No space left on device")
    assert expected == outcomes(finished.lines())
    check_transcript(chatcli, "a", messages)
    assert has_no_temporary_files(chatcli)
    with filler.open("ab") as file:
        file.write(bytes(shutil.disk_usage(disk).free))
    before = (disk / "a.jsonl").read_bytes()
    finished = chatcli.run("ask", LONG * 30, "-S", "a", *SHORT_REPLY, expect=1)
    assert failed_to_save(finished, "No space left on device")
    assert before == (disk / "a.jsonl").read_bytes()
    for args in (("list",), ("show", "a"), ("cache", "verify"), ("cache", "gc")):
        chatcli.run(*args)
    filler.unlink()
    again = chatcli.run("ask", "And now?", *options)
    assert [] == notices(again)
    check_transcript(chatcli, "a", [*messages, "And now?"])


@pytest.mark.slow
@pytest.mark.parametrize("size", [400, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("named", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_message_that_cannot_be_saved_leaves_no_empty_session(
    chatcli: Program, size: int, named: bool
) -> None:
    options = ("-S", "a") if named else ()
    chatcli.run("list")
    limit = limit_file_size(size)
    finished = chatcli.run(
        "ask", "word " * 300, *options, *SHORT_REPLY, "--no-cache", expect=1, preexec_fn=limit
    )
    assert 1 == len(notices(finished))
    assert [] == list(chatcli.sessions.glob("*.jsonl")) and [] == chatcli.run("list", "--json").json()
    chatcli.run("ask", "word " * 300, *options, *SHORT_REPLY, "--no-cache")
    assert 1 == len(list(chatcli.sessions.glob("*.jsonl")))


@pytest.mark.slow
def test_checkpoints_leave_the_last_space_to_the_transcript(chatcli: Program, disk: Path) -> None:
    """There is room for one or two small checkpoints, or for the transcript."""
    fill(disk, 40 << 10)
    script = "".join(f"{message}\n" for message in MESSAGES * 2)
    options = ("--json", "-S", "a", *SHORT_REPLY, "--cache-limit", "1GB")
    finished = chatcli.run("chat", *options, stdin=script)
    assert reported_once(finished, "No space left on device")
    check_transcript(chatcli, "a", MESSAGES * 2)


@pytest.mark.slow
def test_a_read_only_disk_is_one_sentence(chatcli: Program, disk: Path) -> None:
    chatcli.ask(MESSAGES[0], "-S", "a", *SHORT_REPLY)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    finished = chatcli.run("ask", "More?", "-S", "a", *SHORT_REPLY, expect=1)
    assert 1 == len(notices(finished)) and b"" == finished.out
    assert MESSAGES[0] in chatcli.run("show", "a").text
    chatcli.run("cache", "verify")
    chatcli.run("delete", "--yes", "a", expect=1)
    check_transcript(chatcli, "a", MESSAGES[:1])


@not_as_root
def test_a_transcript_that_may_not_be_written_is_one_sentence(chatcli: Program) -> None:
    chatcli.ask(MESSAGES[0], "-S", "a", *SHORT_REPLY)
    (chatcli.sessions / "a.jsonl").chmod(0o400)
    finished = chatcli.run("ask", "More?", "-S", "a", *SHORT_REPLY, expect=1)
    assert failed_to_save(finished, "Permission denied")
    assert b"" == finished.out
    check_transcript(chatcli, "a", MESSAGES[:1])
