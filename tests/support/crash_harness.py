"""Real processes in conversations, killed at random instants, and what has to hold afterwards.

A `Harness` is one folder of sessions. Each kill starts a process (or two), waits for something to be
seen on disk, then for a random moment, and kills. What was acknowledged until then is remembered:
every whole line of a transcript, and every turn whose JSON line was printed.
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
# A conversation this long is deleted: a tiny model's context ends somewhere.
LONGEST = 14
LIMIT = "120kB"
SAMPLED = ("--temp", "1", "--seed", "4")
TALKS = ["loading", "question", "generating", "temporary", "written", "joined", "reply", "anywhen"]
KINDS = [*TALKS, "evicting", "evicting", "two at once", "branch", "rename", "delete", "collect"]


@dataclass(frozen=True)
class Told:
    """A turn that was acknowledged: the transcript before it, the message and the JSON line."""

    before: bytes
    message: str
    turn: dict[str, Any]
    sampled: bool


@dataclass
class Victim:
    """A process that is to be killed, and the session that it writes to (None: no conversation)."""

    process: subprocess.Popen[bytes]
    session: str | None = None
    messages: list[str] = field(default_factory=list)
    sampled: bool = False


@dataclass
class Harness:
    """One folder of sessions, in which processes live and die."""

    program: Program
    seed: int
    chance: random.Random = field(init=False)
    sessions: list[str] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.program.sessions.mkdir(exist_ok=True)

    # What a process does until it is killed

    def kills(self, wanted: int) -> None:
        """Kill this many processes, in every phase about equally often."""
        kinds: list[str] = []
        while self.seen["kills"] < wanted:
            kinds = kinds or self.chance.sample(KINDS, len(KINDS))
            kind = kinds.pop()
            print(f"kill {self.seen['kills'] + 1}: {kind}")
            {
                "evicting": self.kill_evicting,
                "two at once": self.kill_two,
                "branch": self.kill_branch,
                "rename": self.kill_rename,
                "delete": self.kill_delete,
                "collect": self.kill_collecting,
            }.get(kind, lambda kind=kind: self.kill_talking(kind))()
            self.check()

    def kill_talking(self, phase: str, *options: str) -> None:
        # Files are joined when there are many of them.
        count = 9 if phase == "joined" else self.chance.randint(3, 6)
        self.strike(self.talk(self.any_session(), *options, count=count), phase)

    def kill_evicting(self) -> None:
        self.kill_talking("evicting", "--cache-limit", LIMIT)

    def kill_two(self) -> None:
        """Two conversations with the same beginning at once; the first is killed in the second's."""
        one, other = self.talk(self.any_session()), self.talk(self.new_session())
        self.strike(one, self.chance.choice(TALKS))
        self.strike(other, self.chance.choice(TALKS))

    def kill_branch(self) -> None:
        source, made = self.any_session(), self.new_name("branch")
        victim = Victim(self.start("branch", source, "--as", made))
        self.wait(victim, lambda: self.path(made).exists() or self.unnamed())
        self.kill(victim, 0.01)
        self.sessions += [made] * self.path(made).exists()

    def kill_rename(self) -> None:
        old, new = self.any_session(), self.new_name("renamed")
        victim = Victim(self.start("rename", old, new))
        self.wait(victim, self.path(new).exists)
        self.kill(victim, 0.001)
        if self.path(new).exists():
            self.seen["renamed by half"] += self.path(old).exists()
            self.path(old).unlink(missing_ok=True)
            self.sessions[self.sessions.index(old)] = new
            self.kept[new] = self.kept.pop(old, b"")

    def kill_delete(self) -> None:
        name = self.any_session()
        victim = Victim(self.start("delete", "--yes", name))
        self.wait(victim, lambda: not self.path(name).exists())
        self.kill(victim, 0.01)
        if not self.path(name).exists():
            self.forget(name)

    def kill_collecting(self) -> None:
        """`cache gc` clears away under a conversation that goes on; one of them is killed first."""
        talker = self.talk(self.any_session())
        self.wait(talker, lambda: self.process_began(talker))
        files = len(segment_files(self.program.sessions))
        limit = ("--cache-limit", self.chance.choice(["0", LIMIT]))
        collector = Victim(self.start("cache", "gc", *limit))
        self.wait(collector, lambda: len(segment_files(self.program.sessions)) < files)
        self.kill(collector, 0.01)
        self.strike(talker, "anywhen")

    # Sessions

    def path(self, name: str) -> Path:
        return self.program.sessions / f"{name}.jsonl"

    def new_name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number}"

    def new_session(self) -> str:
        """A name that is a session's as soon as something is said there."""
        name = self.new_name("talk")
        self.sessions.append(name)
        return name

    def any_session(self) -> str:
        """One of the sessions that exist, or now and then a new one."""
        there = [name for name in self.sessions if self.turns(name)]
        for name in there:
            if self.turns(name) > LONGEST:
                self.program.run("delete", "--yes", name)
                self.forget(name)
        there = [name for name in there if name in self.sessions]
        if there and self.chance.random() < 0.8:
            return self.chance.choice(there)
        name = self.new_session()
        self.program.ask("Begin.", *self.common(name), "-n", "4")
        return name

    def forget(self, name: str) -> None:
        self.sessions.remove(name)
        self.kept.pop(name, None)

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

    def talk(self, session: str, *options: str, count: int = 4) -> Victim:
        """A conversation of some messages on a pipe."""
        sampled = self.chance.random() < 0.5
        given = (*SAMPLED, *options) if sampled else options
        process = self.start("chat", "--json", *self.common(session), "-n", "24", *given)
        messages = [self.message() for _ in range(count)]
        assert process.stdin is not None
        process.stdin.write("".join(f"{message}\n" for message in messages).encode())
        process.stdin.flush()
        return Victim(process, session, messages, sampled)

    def message(self) -> str:
        self.number += 1
        return f"Message {self.number}." + LONG * (self.chance.random() < 0.2)

    def process_began(self, victim: Victim) -> bool:
        return victim.messages[0].encode() in self.data(str(victim.session))

    def strike(self, victim: Victim, phase: str) -> None:
        """Wait until `phase` is seen on disk, then a random moment, then kill."""
        session, number = str(victim.session), self.chance.randint(2, len(victim.messages))
        question = f'"{victim.messages[number - 1]}"'.encode()
        place = len(self.kept.get(session, b""))
        files = {"most": 0, "changes": 0}
        long_joined = self.joined()

        def asked() -> bool:
            return question in self.data(session)

        def answered() -> bool:
            return self.data(session)[place:].count(b'\n{"type": "assistant"') >= number

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
            return bool(self.joined() - long_joined)

        moments: dict[str, tuple[Callable[[], bool], float]] = {
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
        begun, spread = moments[phase]
        self.wait(victim, begun)
        self.seen[phase] += not self.idle(victim)
        self.kill(victim, spread)

    def wait(self, victim: Victim, happened: Callable[[], Any]) -> None:
        """Until it happens, or nothing more will."""
        deadline = time.monotonic() + PATIENCE
        while victim.process.poll() is None and not happened():
            if victim.session and self.idle(victim):
                return
            assert time.monotonic() < deadline, "it never came to that"
            time.sleep(0.0005)

    def idle(self, victim: Victim) -> bool:
        """Whether the last message is answered and settled: nothing more will come."""
        data = self.data(str(victim.session))
        asked = data.rfind(f'"{victim.messages[-1]}"'.encode())
        return asked >= 0 and b'\n{"type": "assistant"' in data[asked:]

    def kill(self, victim: Victim, spread: float) -> None:
        """Kill within `spread` seconds, and remember what was acknowledged."""
        time.sleep(self.chance.uniform(0, spread))  # the random instant itself, not a wait
        victim.process.kill()
        out, err = victim.process.communicate()
        code = victim.process.returncode
        self.seen["kills"] += 1
        self.seen["struck"] += code == -9
        assert code in (0, -9), err.decode()
        assert b"unexpected" not in err and b"Traceback" not in err, err.decode()
        if victim.session:
            self.remember(
                victim, [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
            )

    def remember(self, victim: Victim, turns: list[dict[str, Any]]) -> None:
        data = self.data(str(victim.session))
        self.seen["turns"] += len(turns)
        for message, turn in zip(victim.messages, turns, strict=False):
            self.told.append(Told(before(data, message), message, turn, victim.sampled))
            assert turn["text"] == answer(data, message), f"reply to {message!r} is lost"

    def joined(self) -> set[Path]:
        return set(filter(is_joined, segment_files(self.program.sessions)))

    def unnamed(self) -> list[Path]:
        return list(self.program.sessions.glob(".*.new"))

    # What has to hold

    def check(self) -> None:
        """Every session opens with all that it ever held, and no checkpoint is damaged."""
        folder = SessionFolder(self.program.sessions)
        for name in list(self.sessions):
            if not self.path(name).exists():
                assert name not in self.kept, f"the session {name} is gone"
                self.forget(name)
                continue
            problems = folder.read(name).problems
            assert [] == [text for text in problems if "unfinished last line" not in text]
            self.seen["torn"] += bool(problems)
            whole = self.data(name).rpartition(b"\n")[0] + b"\n"
            assert whole.startswith(self.kept.get(name, b"")), f"lines of {name} are lost"
            self.kept[name] = whole
            self.seen["unanswered, summed over checks"] += last_type(whole) == "user"
        assert [] == list(inventory.verify(self.program.sessions))
        self.seen["unfinished"] += len(self.litter())

    def litter(self) -> list[Path]:
        return [*self.program.sessions.glob("kv/*/tmp/*"), *self.unnamed()]

    def go_on(self) -> None:
        """A fresh process says one thing in every session, and in a new one."""
        there = [name for name in self.sessions if self.path(name).exists()]
        messages = [self.message() for _ in there]
        lines = [
            line
            for name, message in zip(there, messages, strict=True)
            for line in (f"/resume {name}", message)
        ]
        turns = self.program.chat([*lines, "/new", "Once more."], "-n", "24")
        assert len(there) + 1 == len(turns)
        for name, message, turn in zip(there, messages, turns, strict=False):
            self.told.append(Told(before(self.data(name), message), message, turn, False))

    def replayed(self, copies: Path) -> Iterator[tuple[Told, dict[str, Any]]]:
        """Every acknowledged turn, and the same turn of an undisturbed process without a cache."""
        copies.mkdir()
        for number, told in enumerate(self.told):
            (copies / f"c{number}.jsonl").write_bytes(told.before)
        for sampled in (False, True):
            chosen = [(number, told) for number, told in enumerate(self.told) if told.sampled == sampled]
            script = [line for number, told in chosen for line in (f"/resume c{number}", told.message)]
            options = ("-n", "24", "--no-cache", "--sessions", copies, *SAMPLED[: 4 * sampled])
            calm = self.program.chat(script, *options) if script else []
            yield from zip([told for _, told in chosen], calm, strict=True)


def is_joined(path: Path) -> bool:
    parts = ROWS_NAME.fullmatch(path.name)
    return bool(parts and parts[2] != parts[3])


def lines_of(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def last_type(data: bytes) -> str:
    return str(json.loads(lines_of(data)[-1])["type"])


def before(data: bytes, message: str) -> bytes:
    """A transcript up to the line of this message."""
    lines = lines_of(data)
    facts = [json.loads(line) for line in lines]
    at = next(n for n, fact in enumerate(facts) if fact.get("content") == message)
    return b"".join(lines[:at])


def answer(data: bytes, message: str) -> str | None:
    """The reply to this message."""
    facts = [json.loads(line) for line in lines_of(data)]
    asked = next(fact["id"] for fact in facts if fact.get("content") == message)
    found = [fact["content"] for fact in facts if fact["type"] == "assistant" and fact["parent"] == asked]
    return found[0] if found else None


def size() -> int:
    """How many kills: CHATCLI_KILLS, 12 where nobody asks, 200 at night."""
    return int(os.environ.get("CHATCLI_KILLS", "12"))
