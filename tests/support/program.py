"""The real program as a process, and the files it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli import files
from chatcli.files import Location
from chatcli.model import own_code
from chatcli.store.sessions import listing, marker
from chatcli.tui import reflow
from tests import ROOT

# What a terminal would act on: ESC, BEL, and the C1 controls as UTF-8.
ESCAPES = [b"\x1b", b"\x07", *(bytes([0xC2, code]) for code in range(0x80, 0xA0))]
DEADLINE = 60.0
# Variables that describe the terminal in which the tests run, not the one that a test opens.
FOREIGN = ("CHATCLI", "TERM_PROGRAM", "WT_SESSION", *reflow.VARIABLES)


def escapes_in(data: bytes) -> list[bytes]:
    """The control sequences' first bytes that are in `data`."""
    return [mark for mark in ESCAPES if mark in data]


def segment_files(sessions: Path) -> list[Path]:
    return sorted(sessions.glob("kv/*/??/*.safetensors"))


def folder_contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, with its bytes, but for what tells of the folder itself."""
    own = marker.MARKER, listing.LAST
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in own)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def entries(session: Path) -> list[dict[str, Any]]:
    """The whole lines of a session file."""
    complete_lines, _, _ = session.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in complete_lines.splitlines()]


def sessions_in_use(folder: Path) -> list[str]:
    """The sessions that some process has open right now, this one included."""
    return sorted(path.stem for path in folder.glob("*.jsonl") if files.is_locked(Location.of_file(path)))


def user_messages(session: Path) -> list[str]:
    return [line["content"] for line in entries(session) if line["type"] == "user"]


@dataclass(frozen=True)
class Finished:
    """A process that has ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def errors(self) -> str:
        return self.err.decode()

    def json(self) -> Any:
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        """One JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Program:
    """`python -m chatcli` with a home and a sessions folder of its own."""

    home: Path
    model: Path
    sessions: Path = field(init=False)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.sessions = self.home / "saved"

    def environment(self, **changes: str | None) -> dict[str, str]:
        changed = {
            **{key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)},
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "CHATCLI_SESSIONS": str(self.sessions),
            "PYTHONUTF8": "1",
            "PYTHONPATH": str(ROOT),
            **changes,
        }
        return {key: value for key, value in changed.items() if value is not None}

    def approve_code(self) -> None:
        """Let the code of this program's model run, as a person does who is asked."""
        path = self.home / "data" / "chatcli" / own_code.APPROVALS
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({str(self.model.resolve()): own_code.digest(self.model)}))

    def start(
        self, *args: object, model: bool = True, env: dict[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[bytes]:
        """A running process; commands that talk to a model get this program's."""
        command = [sys.executable, "-m", "chatcli", *map(str, args)]
        if model and args[:1] in (("ask",), ("chat",)) and "-m" not in args:
            command += ["-m", str(self.model)]
        popen_options = {"stdin": subprocess.DEVNULL, "cwd": self.home, **popen}
        return subprocess.Popen(command, env=env or self.environment(), **popen_options)

    def run(self, *args: object, stdin: str | bytes | None = None, expect: int = 0, **more: Any) -> Finished:
        """Run to the end, with `stdin` from a pipe, and check the exit code."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        source = subprocess.DEVNULL if data is None else subprocess.PIPE
        pipes = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = self.start(*args, **pipes, **more)
        out, err = process.communicate(data, timeout=DEADLINE)
        result = Finished(process.returncode, out, err)
        assert expect == result.code, result
        return result

    def ask(self, prompt: str, *args: object, **more: Any) -> dict[str, Any]:
        """One turn as the JSON object."""
        return dict(self.run("ask", prompt, "--json", *args, **more).json())

    def chat(self, lines: Sequence[str], *args: object, **more: Any) -> list[Any]:
        """A piped script of messages and commands; one JSON object a turn."""
        script = "".join(f"{line}\n" for line in lines)
        output_lines = self.run("chat", "--json", *args, stdin=script, **more).lines()
        return [line for line in output_lines if "turn" in line]


ASK_FIELDS = {
    "session",
    "turn",
    "text",
    "thinking",
    "finish_reason",
    "prompt_tokens",
    "reused_tokens",
    "prefilled_tokens",
    "settled_tokens",
    "hit_ratio",
    "miss_reason",
    "tokens",
    "logprobs",
    "restore_seconds",
    "prefill_seconds",
    "time_to_first_token",
    "generation_tps",
    "checkpoint_bytes",
}
