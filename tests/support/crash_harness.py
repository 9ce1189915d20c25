"""Kill real processes at random instants, and check their folder of sessions afterwards.

Each kill starts a process (or two), waits until a phase shows on disk, then for a random time, and
kills. The `Harness` records what was acknowledged before: every whole line of a transcript, and every
turn whose JSON line was printed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli.store.segments import inventory
from chatcli.store.segments.catalog import ROWS_NAME
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import Program, segment_files

PATIENCE = 60.0
SYSTEM = "You are a helpful assistant. Answer briefly and remember what you were told."
LONG = " Remember what you were told." * 20
# A conversation with more turns is deleted: it would fill the context of a tiny model.
MAX_TURNS = 14
CACHE_LIMIT = "120kB"
SAMPLED = ("--temp", "1", "--seed", "4")
PHASES = ["loading", "question", "generating", "temporary", "written", "joined", "reply", "anywhen"]
KINDS = [*PHASES, "evicting", "evicting", "two at once", "branch", "rename", "delete", "collect"]


@dataclass(frozen=True)
class AcknowledgedTurn:
    """The transcript before a turn, its message, and the JSON line that was printed for it."""

    transcript: bytes
    message: str
    turn: dict[str, Any]
    sampled: bool


@dataclass
class Victim:
    """A process to kill, and the session that it writes to (None: it has no conversation)."""

    process: subprocess.Popen[bytes]
    session: str | None = None
    messages: list[str] = field(default_factory=list)
    sampled: bool = False


@dataclass
class Harness:
    """A folder of sessions whose processes are killed."""

    program: Program
    seed: int
    rng: random.Random = field(init=False)
    sessions: list[str] = field(default_factory=list)
    transcripts: dict[str, bytes] = field(default_factory=dict)
    acknowledged: list[AcknowledgedTurn] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.program.sessions.mkdir(exist_ok=True)

    # Kinds of kills

    def kills(self, count: int) -> None:
        """Kill `count` processes, about equally often in every phase."""
        kinds: list[str] = []
        while self.counts["kills"] < count:
            kinds = kinds or self.rng.sample(KINDS, len(KINDS))
            kind = kinds.pop()
            print(f"kill {self.counts['kills'] + 1}: {kind}")
            {
                "evicting": self.kill_evicting,
                "two at once": self.kill_two,
                "branch": self.kill_branch,
                "rename": self.kill_rename,
                "delete": self.kill_delete,
                "collect": self.kill_collecting,
            }.get(kind, lambda kind=kind: self.kill_chat(kind))()
            self.check()

    def kill_chat(self, phase: str, *options: str) -> None:
        # Segment files are joined only when there are many.
        count = 9 if phase == "joined" else self.rng.randint(3, 6)
        self.kill_in_phase(self.start_chat(self.any_session(), *options, count=count), phase)

    def kill_evicting(self) -> None:
        self.kill_chat("evicting", "--cache-limit", CACHE_LIMIT)

    def kill_two(self) -> None:
        """Kill two conversations that run at the same time and begin alike, one after the other."""
        first, second = self.start_chat(self.any_session()), self.start_chat(self.new_session())
        self.kill_in_phase(first, self.rng.choice(PHASES))
        self.kill_in_phase(second, self.rng.choice(PHASES))

    def kill_branch(self) -> None:
        source, branch = self.any_session(), self.new_name("branch")
        victim = Victim(self.start("branch", source, "--as", branch))
        self.wait(victim, lambda: self.path(branch).exists() or self.unnamed())
        self.kill(victim, 0.01)
        self.sessions += [branch] * self.path(branch).exists()

    def kill_rename(self) -> None:
        old, new = self.any_session(), self.new_name("renamed")
        victim = Victim(self.start("rename", old, new))
        self.wait(victim, self.path(new).exists)
        self.kill(victim, 0.001)
        if self.path(new).exists():
            self.counts["renamed by half"] += self.path(old).exists()
            self.path(old).unlink(missing_ok=True)
            self.sessions[self.sessions.index(old)] = new
            self.transcripts[new] = self.transcripts.pop(old, b"")

    def kill_delete(self) -> None:
        name = self.any_session()
        victim = Victim(self.start("delete", "--yes", name))
        self.wait(victim, lambda: not self.path(name).exists())
        self.kill(victim, 0.01)
        if not self.path(name).exists():
            self.forget(name)

    def kill_collecting(self) -> None:
        """Kill `cache gc` while a conversation runs in the same folder, then the conversation."""
        chat = self.start_chat(self.any_session())
        self.wait(chat, lambda: self.process_began(chat))
        files = len(segment_files(self.program.sessions))
        limit = ("--cache-limit", self.rng.choice(["0", CACHE_LIMIT]))
        collector = Victim(self.start("cache", "gc", *limit))
        self.wait(collector, lambda: len(segment_files(self.program.sessions)) < files)
        self.kill(collector, 0.01)
        self.kill_in_phase(chat, "anywhen")

    # Sessions

    def path(self, name: str) -> Path:
        return self.program.sessions / f"{name}.jsonl"

    def new_name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number}"

    def new_session(self) -> str:
        """The name of a session that begins with its first message."""
        name = self.new_name("talk")
        self.sessions.append(name)
        return name

    def any_session(self) -> str:
        """The name of an existing session or, one time in five, of a new one."""
        existing = [name for name in self.sessions if self.turns(name)]
        for name in existing:
            if self.turns(name) > MAX_TURNS:
                self.program.run("delete", "--yes", name)
                self.forget(name)
        existing = [name for name in existing if name in self.sessions]
        if existing and self.rng.random() < 0.8:
            return self.rng.choice(existing)
        name = self.new_session()
        self.program.ask("Begin.", *self.common(name), "-n", "4")
        return name

    def forget(self, name: str) -> None:
        self.sessions.remove(name)
        self.transcripts.pop(name, None)

    def turns(self, name: str) -> int:
        return self.data(name).count(b'\n{"type": "user"')

    def data(self, name: str) -> bytes:
        path = self.path(name)
        return path.read_bytes() if path.exists() else b""

    # Processes

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return self.program.start(*args, **pipes, stdin=subprocess.PIPE)

    def common(self, session: str) -> tuple[str, ...]:
        known = self.path(session).exists()
        return ("-S", session, *(() if known else ("-s", SYSTEM)))

    def start_chat(self, session: str, *options: str, count: int = 4) -> Victim:
        """Start a chat on pipes and write it `count` messages."""
        sampled = self.rng.random() < 0.5
        arguments = (*SAMPLED, *options) if sampled else options
        process = self.start("chat", "--json", *self.common(session), "-n", "24", *arguments)
        messages = [self.message() for _ in range(count)]
        assert process.stdin is not None
        process.stdin.write("".join(f"{message}\n" for message in messages).encode())
        process.stdin.flush()
        return Victim(process, session, messages, sampled)

    def message(self) -> str:
        self.number += 1
        return f"Message {self.number}." + LONG * (self.rng.random() < 0.2)

    def process_began(self, victim: Victim) -> bool:
        return victim.messages[0].encode() in self.data(str(victim.session))

    def kill_in_phase(self, victim: Victim, phase: str) -> None:
        """Wait until `phase` shows on disk, then a random time, then kill."""
        session, number = str(victim.session), self.rng.randint(2, len(victim.messages))
        question = f'"{victim.messages[number - 1]}"'.encode()
        length_before = len(self.transcripts.get(session, b""))
        files = {"most": 0, "changes": 0}
        joined_before = self.joined()

        def asked() -> bool:
            return question in self.data(session)

        def answered() -> bool:
            return self.data(session)[length_before:].count(b'\n{"type": "assistant"') >= number

        def written() -> bool:
            count = len(segment_files(self.program.sessions))
            files["changes"] += count > files["most"]
            files["most"] = max(files["most"], count)
            return files["changes"] > number

        def temporary() -> bool:
            return asked() and any(self.program.sessions.glob("kv/*/tmp/*"))

        def shrunk() -> bool:
            count = len(segment_files(self.program.sessions))
            files["most"] = max(files["most"], count)
            return count < files["most"]

        def joined() -> bool:
            return bool(self.joined() - joined_before)

        phases: dict[str, tuple[Callable[[], bool], float]] = {
            "loading": (lambda: True, 1.6),
            "question": (asked, 0.02),
            "generating": (asked, 0.2),
            "temporary": (temporary, 0.004),
            "written": (written, 0.01),
            "joined": (joined, 0.002),
            "reply": (answered, 0.02),
            "anywhen": (lambda: self.process_began(victim), 0.8),
            "evicting": (shrunk, 0.01),
        }
        phase_began, spread = phases[phase]
        self.wait(victim, phase_began)
        self.counts[phase] += not self.idle(victim)
        self.kill(victim, spread)

    def wait(self, victim: Victim, happened: Callable[[], Any]) -> None:
        """Wait until `happened`, or the process ends or is idle."""
        deadline = time.monotonic() + PATIENCE
        while victim.process.poll() is None and not happened():
            if victim.session and self.idle(victim):
                return
            assert time.monotonic() < deadline, "the phase never began"
            time.sleep(0.0005)

    def idle(self, victim: Victim) -> bool:
        """Whether the last message is answered and settled: nothing more will come."""
        data = self.data(str(victim.session))
        asked = data.rfind(f'"{victim.messages[-1]}"'.encode())
        return asked >= 0 and b'\n{"type": "assistant"' in data[asked:]

    def kill(self, victim: Victim, spread: float) -> None:
        """Kill within `spread` seconds, and record what was acknowledged."""
        time.sleep(self.rng.uniform(0, spread))  # the random instant itself, not a wait
        victim.process.kill()
        out, err = victim.process.communicate()
        code = victim.process.returncode
        self.counts["kills"] += 1
        self.counts["struck"] += code == -9
        assert code in (0, -9), err.decode()
        assert b"unexpected" not in err and b"Traceback" not in err, err.decode()
        if victim.session:
            self.remember(
                victim, [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
            )

    def remember(self, victim: Victim, turns: list[dict[str, Any]]) -> None:
        data = self.data(str(victim.session))
        self.counts["turns"] += len(turns)
        for message, turn in zip(victim.messages, turns, strict=False):
            self.acknowledged.append(
                AcknowledgedTurn(transcript_before(data, message), message, turn, victim.sampled)
            )
            assert turn["text"] == reply_to(data, message), f"reply to {message!r} is lost"

    def joined(self) -> set[Path]:
        return set(filter(is_joined, segment_files(self.program.sessions)))

    def unnamed(self) -> list[Path]:
        return list(self.program.sessions.glob(".*.new"))

    # Checks

    def check(self) -> None:
        """Assert that no session has lost a line and no checkpoint is damaged."""
        folder = SessionFolder(self.program.sessions)
        for name in list(self.sessions):
            if not self.path(name).exists():
                assert name not in self.transcripts, f"the session {name} is gone"
                self.forget(name)
                continue
            problems = folder.read(name).problems
            assert [] == [text for text in problems if "unfinished last line" not in text]
            self.counts["torn"] += bool(problems)
            whole_lines = self.data(name).rpartition(b"\n")[0] + b"\n"
            assert whole_lines.startswith(self.transcripts.get(name, b"")), f"lines of {name} are lost"
            self.transcripts[name] = whole_lines
            self.counts["unanswered, summed over checks"] += last_type(whole_lines) == "user"
        assert [] == list(inventory.verify(self.program.sessions))
        self.counts["unfinished"] += len(self.litter())

    def litter(self) -> list[Path]:
        return [*self.program.sessions.glob("kv/*/tmp/*"), *self.unnamed()]

    def take_another_turn(self) -> None:
        """Send a message in every session, and in a new one, from a fresh process."""
        existing = [name for name in self.sessions if self.path(name).exists()]
        messages = [self.message() for _ in existing]
        lines = [
            line
            for name, message in zip(existing, messages, strict=True)
            for line in (f"/resume {name}", message)
        ]
        turns = self.program.chat([*lines, "/new", "Once more."], "-n", "24")
        assert len(existing) + 1 == len(turns)
        for name, message, turn in zip(existing, messages, turns, strict=False):
            self.acknowledged.append(
                AcknowledgedTurn(transcript_before(self.data(name), message), message, turn, False)
            )

    def replayed(self, copies: Path) -> Iterator[tuple[AcknowledgedTurn, dict[str, Any]]]:
        """Yield every acknowledged turn, and the same turn of an undisturbed process without a cache."""
        copies.mkdir()
        for number, acknowledged in enumerate(self.acknowledged):
            (copies / f"c{number}.jsonl").write_bytes(acknowledged.transcript)
        for sampled in (False, True):
            turns = [
                (number, acknowledged)
                for number, acknowledged in enumerate(self.acknowledged)
                if acknowledged.sampled == sampled
            ]
            script = [
                line
                for number, acknowledged in turns
                for line in (f"/resume c{number}", acknowledged.message)
            ]
            options = ("-n", "24", "--no-cache", "--sessions", copies, *SAMPLED[: 4 * sampled])
            undisturbed = self.program.chat(script, *options) if script else []
            yield from zip([acknowledged for _, acknowledged in turns], undisturbed, strict=True)


def is_joined(path: Path) -> bool:
    parts = ROWS_NAME.fullmatch(path.name)
    return bool(parts and parts[2] != parts[3])


def lines_of(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def last_type(data: bytes) -> str:
    return str(json.loads(lines_of(data)[-1])["type"])


def transcript_before(data: bytes, message: str) -> bytes:
    """The transcript up to the line of this message."""
    lines = lines_of(data)
    records = [json.loads(line) for line in lines]
    index = next(number for number, record in enumerate(records) if record.get("content") == message)
    return b"".join(lines[:index])


def reply_to(data: bytes, message: str) -> str | None:
    """The reply to this message."""
    records = [json.loads(line) for line in lines_of(data)]
    question_id = next(record["id"] for record in records if record.get("content") == message)
    replies = [
        record["content"]
        for record in records
        if record["type"] == "assistant" and record["parent"] == question_id
    ]
    return replies[0] if replies else None


def kill_count() -> int:
    """The number of kills: CHATCLI_KILLS, by default 8 (nightly: 200)."""
    return int(os.environ.get("CHATCLI_KILLS", "8"))
