"""Fixtures: tiny models on disk, and the real program as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from tokenizers import Tokenizer

from chatcli.store.segments.segments import SegmentStore
from chatcli.tui.terminal import identify
from tests.support.checkpointing import FINGERPRINT
from tests.support.harness import Harness
from tests.support.tiny import CONFIGS, OPEN_THINK, write_model

# Gemma 3 has sliding windows and full attention as gpt-oss has; the tests of caches have them both.
FAMILIES = [name for name in CONFIGS if name != "gemma3_text"]
# What a terminal would act on: ESC, BEL, and the C1 controls as UTF-8.
ESCAPES = [b"\x1b", b"\x07", *(bytes([0xC2, code]) for code in range(0x80, 0xA0))]
DEADLINE = 60.0
# What the terminal that runs the tests says of itself does not hold for the tests' own.
FOREIGN = ("CHATCLI", "TERM_PROGRAM", *identify.VARIABLES)


def night_but(by_day: str) -> list[Any]:
    """Every family; all but one wait for the night."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=[] if name == by_day else slow) for name in FAMILIES]


def at_night(*values: object) -> Any:
    """A case that is more of the same."""
    return pytest.param(*values, marks=pytest.mark.slow)


def by_turns(values: Iterable[Any], families: Sequence[str] = FAMILIES) -> list[Any]:
    """Every family with every value; by day each value with one family, in turn."""
    return [
        pytest.param(name, value, marks=[] if number % len(families) == at else pytest.mark.slow)
        for number, value in enumerate(values)
        for at, name in enumerate(families)
    ]


def escapes_in(data: bytes) -> list[bytes]:
    """The control sequences' first bytes that are in `data`."""
    return [mark for mark in ESCAPES if mark in data]


def segment_files(sessions: Path) -> list[Path]:
    return sorted(sessions.glob("kv/*/??/*.safetensors"))


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, with its bytes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def entries(session: Path) -> list[dict[str, Any]]:
    """The whole lines of a session file."""
    whole, _, _ = session.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


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
            "PYTHONPATH": str(Path(__file__).parents[1]),
            **changes,
        }
        return {key: value for key, value in changed.items() if value is not None}

    def start(
        self, *args: object, model: bool = True, env: dict[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[bytes]:
        """A running process; commands that talk to a model get this program's."""
        command = [sys.executable, "-m", "chatcli", *map(str, args)]
        if model and args[:1] in (("ask",), ("chat",)) and "-m" not in args:
            command += ["-m", str(self.model)]
        given = {"stdin": subprocess.DEVNULL, "cwd": self.home, **popen}
        return subprocess.Popen(command, env=env or self.environment(), **given)

    def run(self, *args: object, stdin: str | bytes | None = None, expect: int = 0, **more: Any) -> Finished:
        """Run to the end, with `stdin` from a pipe, and check the exit code."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        source = subprocess.DEVNULL if data is None else subprocess.PIPE
        pipes = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = self.start(*args, **pipes, **more)
        out, err = process.communicate(data, timeout=DEADLINE)
        done = Finished(process.returncode, out, err)
        assert expect == done.code, done
        return done

    def ask(self, prompt: str, *args: object, **more: Any) -> dict[str, Any]:
        """One turn as the JSON object."""
        return dict(self.run("ask", prompt, "--json", *args, **more).json())

    def chat(self, lines: Sequence[str], *args: object, **more: Any) -> list[Any]:
        """A piped script of messages and commands; one JSON object a turn."""
        script = "".join(f"{line}\n" for line in lines)
        said = self.run("chat", "--json", *args, stdin=script, **more).lines()
        return [line for line in said if "turn" in line]


def byte_token(byte: int) -> str:
    """How a byte-level tokenizer spells a byte that cannot be printed (or 0xC2)."""
    if byte == 0xC2:
        return chr(byte)
    return chr(256 + byte if byte < 0x21 else 256 + byte - 0x7F + 0x21)


def say_only(folder: Path, said: Sequence[str | int]) -> Path:
    """Change an untied model so that it samples nothing but these tokens (bytes or words).

    Either those at even or those at odd places are likely at a step, each of them equally so.
    """
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    names = [word if isinstance(word, str) else byte_token(word) for word in said]
    kept = [words.token_to_id(name) for name in names]
    assert None not in kept
    path = folder / "model.safetensors"
    weights = dict(mx.load(str(path)))
    head = weights["lm_head.weight"]
    only = mx.zeros(head.shape, head.dtype)
    only[mx.array(kept[::2])] = head[5] * 8
    only[mx.array(kept[1::2])] = head[5] * -8
    changed = {**weights, "lm_head.weight": only}
    mx.eval(changed)
    mx.save_safetensors(str(path), changed, {"format": "mlx"})
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model of each family, and three that say what tests need.

    evil      writes escape sequences          speaker   thinks, then answers
    hermit    writes escape sequences, but never stops thinking
    """
    folder = tmp_path_factory.mktemp("models")
    for family in FAMILIES:
        write_model(folder / family, family)
    evil = [0x1B, 0x07, 0xC2, "]", 0x9B, "["]
    say_only(write_model(folder / "evil", "gpt_oss"), evil)
    say_only(write_model(folder / "hermit", "gpt_oss", template=OPEN_THINK), evil)
    speaker = write_model(folder / "speaker", "gpt_oss", template=OPEN_THINK)
    say_only(speaker, ["a", "b", "</think>", "c"])
    return folder


# What these modules test of a family by day says what it would say of the others: those at night.
AT_NIGHT = {
    "turn.test_counting": ("qwen3", "gpt_oss"),
    "turn.test_finish": ("qwen3", "gpt_oss"),
    "turn.test_typeahead": ("qwen3", "gpt_oss"),
    "turn.test_regenerate": ("qwen3", "gpt_oss"),
    "engine.test_sampling": ("qwen3", "gpt_oss"),
    "turn.test_batch": ("qwen3", "gpt_oss"),
    "turn.test_turn": ("qwen3", "gpt_oss"),
    "bench.test_race": ("qwen3", "gpt_oss"),
    "checkpoints.test_sideways": ("qwen3", "gpt_oss"),
    "kv.test_prompt_cache": ("qwen3", "gemma3_text"),
    "session.test_loading": ("qwen3",),
    "checkpoints.test_model_options": ("qwen3",),
    "kv.test_memory_limit": ("qwen3",),
    "chat_format.test_stop": ("qwen3",),
    "checkpoints.test_corruption": ("gpt_oss",),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        families = {params.get("model"), params.get("family")}
        if families & {*AT_NIGHT.get(item.module.__name__.removeprefix("tests."), ())}:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest, models: Path) -> Path:
    """Each family's model in turn."""
    return models / request.param


@pytest.fixture(scope="session")
def talked(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a conversation and its checkpoints, to be copied."""
    folder = tmp_path_factory.mktemp("talked")
    with Harness(models / "qwen3_5", folder, tokens=6) as harness:
        harness.say(harness.chat("talk"), "My dog is called Biscuit.")
    return folder


@pytest.fixture
def chatcli(models: Path, tmp_path: Path) -> Program:
    """The program with the hybrid model, which is the hard case."""
    return Program(tmp_path / "home", models / "qwen3_5")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SegmentStore]:
    made = SegmentStore(tmp_path, FINGERPRINT)
    yield made
    made.close()


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[SegmentStore]:
    """Another model's store in the same folder."""
    made = SegmentStore(tmp_path, "e" * 32)
    yield made
    made.close()
