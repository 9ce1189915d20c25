"""Kill -9 at any instant: no message that was on disk is lost, and no token comes out wrong."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import Program, entries, segment_files, user_messages

SEED = 20261121
LONG = "Remember what you were told. " * 40  # prefilled in many chunks
PATIENCE = 30.0


def wait_until(happened: Callable[[], Any], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "it never came to that"
        if process.poll() is not None:
            return
        time.sleep(0.001)


class Victim:
    """A program with one session, whose processes are killed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.path = program.sessions / "life.jsonl"
        self.chance = random.Random(SEED)

    def lines(self) -> list[dict[str, Any]]:
        return entries(self.path) if self.path.exists() else []

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def start(self, message: str, *, chat: bool) -> subprocess.Popen[bytes]:
        common = ("-S", "life", "--temp", "1", "--seed", "4", "-n", "300")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if not chat:
            return self.program.start("ask", message, *common, **quiet)
        process = self.program.start("chat", *common, stdin=subprocess.PIPE, **quiet)
        assert process.stdin is not None
        process.stdin.write(message.encode() + b"\n")
        process.stdin.flush()
        return process

    def kill(self, phase: str, message: str, *, chat: bool) -> int:
        """Start a turn and kill it in `phase`, a random moment after that began.

        Returns how many messages were on disk when it died.
        """
        told, said = user_messages(self.path) if self.lines() else [], self.replies()
        written = len(segment_files(self.program.sessions))
        process = self.start(message, chat=chat)
        waits: dict[str, tuple[Callable[[], bool], float]] = {
            "loading": (lambda: True, 1.0),
            "prefill": (lambda: len(user_messages(self.path)) > len(told), 0.05),
            "reply": (lambda: len(segment_files(self.program.sessions)) > written, 0.3),
            "settle": (lambda: self.replies() > said, 0.05),
        }
        begun, spread = waits[phase]
        if phase != "loading":
            wait_until(lambda: self.path.exists() and begun(), process)
        time.sleep(self.chance.uniform(0, spread))  # the random instant itself, not a wait
        process.kill()
        process.communicate()
        return len(user_messages(self.path)) if self.path.exists() else 0

    def replies(self) -> int:
        return sum(line["type"] == "assistant" for line in self.lines())


def test_a_killed_process_loses_no_message_and_changes_no_token(chatcli: Program) -> None:
    victim, copies = Victim(chatcli), chatcli.home / "copies"
    chatcli.ask("Hello there", "-S", "life", "-n", "8")
    copies.mkdir()
    phases = ["loading", "prefill", "reply", "settle"] * 2
    survived: list[dict[str, Any]] = []
    for number, phase in enumerate(phases):
        message = f"{phase} {number}: {LONG if phase == 'prefill' else 'tell me more'}"
        victim.kill(phase, message, chat=number >= 4)
        told = user_messages(victim.path)
        if phase != "loading":
            assert message.strip() in [said.strip() for said in told]
        unanswered = victim.lines()[-1]["type"] == "user"
        torn = not victim.path.read_bytes().endswith(b"\n")
        if phase == "prefill":
            assert unanswered, "this kill came too late to test anything"
        shutil.copy(victim.path, copies / f"c{number}.jsonl")

        done = chatcli.run("ask", f"after {number}", "-S", "life", "-n", "12", "--json")
        survived.append(done.json())
        assert [*told, f"after {number}"] == user_messages(victim.path)
        assert unanswered == ("its reply was cut off: the message is kept" in done.errors)
        assert torn == ("unfinished last line" in done.errors)
        shown = chatcli.run("show", "life", "--json").json()
        assert [*told, f"after {number}"] == [turn["user"] for turn in shown["turns"]]
    # Undisturbed runs of the same transcripts, with no checkpoint at all.
    script = [
        line for number in range(len(phases)) for line in (f"/resume c{number}", f"after {number}")
    ]
    clean = chatcli.chat(script, "-n", "12", "--no-cache", "--sessions", copies)
    assert len(phases) == len(clean)
    for turn, calm in zip(survived, clean, strict=True):
        assert calm["prompt_tokens"] == turn["prompt_tokens"]
        assert calm["tokens"] == turn["tokens"]
    # The turns before a kill were not computed again.
    assert sum(turn["reused_tokens"] for turn in survived) > 0
    assert {"life.jsonl", "kv"} == {path.name for path in chatcli.sessions.iterdir()}


def test_a_process_killed_while_it_begins_a_session_leaves_no_litter(chatcli: Program) -> None:
    chance = random.Random(SEED)
    for number in range(2):
        process = chatcli.start(
            "ask", f"new {number}", "-n", "4", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: list_folder(chatcli.sessions), process)
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        process.communicate()
        for path in list_folder(chatcli.sessions):
            path.rename(chatcli.home / f"seen-{number}-{path.name}")
    chatcli.ask("Once more", "-S", "last", "-n", "2")
    assert {"last.jsonl", "kv"} == {path.name for path in list_folder(chatcli.sessions)}


def list_folder(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
