"""Text from names, folders, settings and files: no control character of it reaches a screen or a pipe.

A new place where text comes from is a line in `hostile_machine`, a new command a line in `COMMANDS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.families import at_night, every_second_by_day
from tests.support.program import Program
from tests.support.shell import open_shell

# A title for the window, a bell, an erased screen as one C1 character, and markup of rich's.
EVIL = "\x1b]0;evil\x07\x1b[2J\x9b2J[red]m[/red][/][link=file:///etc]"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What rich itself writes: colours, and the erasing of a line.
OWN_CODES = re.compile(r"\x1b\[[\d;]*m")

COMMANDS = [
    ("list",),
    ("models",),
    ("cache", "stats"),
    ("cache", "verify"),
    ("cache", "gc", "--dry-run"),
    ("config",),
    ("config", "models"),
    ("config", "system"),
    ("doctor", "--quick"),
    ("search", "words"),
    ("show", "talk"),
    ("show", "talk", "--thinking"),
    ("tree", "talk"),
    ("export", "talk"),
    ("export", "talk", "--format", "html"),
    ("show", EVIL),
    ("delete", EVIL, "-y"),
    ("rename", "talk", EVIL),
    ("search", EVIL),
    ("import", "hostile.json"),
    ("import", EVIL),
    ("ask", "hi", "-m", EVIL),
    ("ask", "hi", "--temp", EVIL),
    ("ask", "hi", f"--{EVIL}"),
    (EVIL,),
    ("help", EVIL),
    ("--sessions", EVIL, "list"),
    ("--sessions", EVIL, "show", "x"),
    ("doctor", "--quick", "--sessions", EVIL),
]


@pytest.fixture(scope="module")
def hostile_machine(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(tmp_path_factory.mktemp("hostile"), models / "qwen3_5")
    name = EVIL.replace("/", "")
    model = program.home / name
    model.mkdir()
    (model / "config.json").write_text(
        json.dumps({"model_type": EVIL, "architectures": [EVIL], "quantization": {"bits": EVIL}})
    )
    config = program.home / "config" / "chatcli" / "config.toml"
    config.parent.mkdir(parents=True)
    text = json.dumps(EVIL)
    config.write_text(f"{text} = 1\nsystem = {text}\n[models]\n{text} = {json.dumps(str(model))}\n")
    program.sessions.mkdir(mode=0o700)
    header = {"type": "session", "version": 1, "created": 1.0, "date": "2026-11-21"}
    lines = [
        {**header, "model": EVIL, "system": EVIL, "branched_from": EVIL},
        {"type": "user", "id": "a", "parent": None, "content": f"words {EVIL}", "time": 1},
        {
            **{"type": "assistant", "id": "b", "parent": "a", "content": f"words {EVIL}", "time": 2},
            **{"thinking": EVIL, "finish_reason": EVIL, "record": {"model": EVIL, "miss_reason": EVIL}},
        },
        {"type": "label", "id": "b", "label": EVIL},
        {EVIL: EVIL},
    ]
    (program.sessions / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (program.sessions / f"{name}.jsonl").write_text("{}\n")
    (program.sessions / "[red]markup[].jsonl").write_text(json.dumps(lines[0]) + "\n")
    for folder in (name, "f" * 32):
        (program.sessions / "kv" / folder / "ab").mkdir(parents=True)
        (program.sessions / "kv" / folder / "ab" / f"{name}.rows.safetensors").write_bytes(b"x")
    (program.home / "hostile.json").write_text(json.dumps([{"role": EVIL, "content": EVIL}]))
    yield program


@pytest.mark.parametrize(
    "args", every_second_by_day(COMMANDS), ids=lambda args: " ".join(args).replace(EVIL, "EVIL")
)
def test_no_control_character_reaches_a_pipe(hostile_machine: Program, args: tuple[str, ...]) -> None:
    process = hostile_machine.start(*args, model=False, stdout=-1, stderr=-1)
    out, err = process.communicate(timeout=60)
    for output in (out.decode(), err.decode()):
        assert [] == CONTROLS.findall(output), output
    assert "unexpected error" not in err.decode() and "Traceback" not in err.decode()
    assert out or err


@pytest.mark.parametrize(
    "args",
    [*COMMANDS[:3], *map(at_night, COMMANDS[3:13])],
    ids=lambda args: " ".join(args).replace(EVIL, "EVIL"),
)
def test_no_control_character_reaches_a_terminal(hostile_machine: Program, args: tuple[str, ...]) -> None:
    with open_shell(hostile_machine, *args) as terminal:
        terminal.wait_for_exit()
        shown = OWN_CODES.sub("", terminal.raw.decode()).replace("\r\n", "\n")
        assert [] == CONTROLS.findall(shown), shown
        assert "Traceback" not in shown
