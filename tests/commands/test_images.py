"""Images in the shell: completion, display, restoring, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mlx_lm.processors", reason="this mlx-lm has no image processors")

from tests.support.program import Program
from tests.support.shell import leave, open_shell, ready, run_command, send_message, turns_of
from tests.support.sight import write_picture, write_seeing
from tests.support.terminal import ENTER, TAB, Terminal

CHIP, OTHER = "[image: cat.png 16×12]", "[image: my dog.png 16×12]"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    opened = Program(tmp_path / "home", write_seeing(tmp_path / "seer"))
    write_picture(opened.home / "pictures" / "cat.png", 1)
    write_picture(opened.home / "pictures" / "my dog.png", 2)
    opened.approve_code()
    (opened.home / "pictures" / "notes.txt").write_text("Not a picture.")
    return opened


def open_talk(program: Program, model: Path) -> Terminal:
    args = ("chat", "-m", model, "-S", "talk", "-n", "6")
    return open_shell(program, *args)


def shown(program: Program) -> list[list[str]]:
    return [[image["name"] for image in turn.get("images", [])] for turn in turns_of(program, "talk")]


@pytest.mark.slow
def test_images_are_completed_shown_and_taken_back(program: Program) -> None:
    with open_talk(program, program.model) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.send(f"/image pic{TAB}")
        terminal.wait_for("/image pictures/")
        terminal.send("c")
        terminal.send(TAB)
        terminal.wait_for("/image pictures/cat.png")
        terminal.send(ENTER)
        terminal.wait_for(f"{CHIP} attached to your next message")
        terminal.wait_for("1 image attached")
        terminal.wait_for(lambda: ready(terminal))
        send_message(terminal, 'What, and @"pictures/my dog.png"?')
        assert f"› {CHIP}\n  {OTHER}\n  What, and" in terminal.all_text()
        assert "1 image attached" not in terminal.text()
        run_command(terminal, "/image pictures/notes.txt", "notes.txt is not an image that can be read")
        terminal.send("\x03")
        terminal.wait_for("› Say something")
        run_command(terminal, "/undo", "Now at the beginning. What came later")
        run_command(terminal, "/image pictures/cat.png", "attached to your next message")
        run_command(terminal, "/image off", "No image is attached now.")
        send_message(terminal, "Hello.")
        leave(terminal)
    assert [[]] == shown(program)


@pytest.mark.slow
def test_a_message_that_is_changed_has_its_images_again(program: Program) -> None:
    with open_talk(program, program.model) as terminal:
        terminal.wait_for(lambda: ready(terminal))
        run_command(terminal, "/image pictures/cat.png", "attached to your next message")
        send_message(terminal, "What is this?")
        run_command(terminal, "/edit", "Change the message and press Enter")
        terminal.wait_for("1 image attached")
        terminal.send(" Again.")
        terminal.wait_for("this? Again.")
        terminal.send(ENTER)
        terminal.wait_for(lambda: terminal.count("% reused") > 1)
        terminal.wait_for(lambda: ready(terminal))
        leave(terminal)
    assert [["cat.png"]] == shown(program)


@pytest.mark.slow
def test_what_a_model_cannot_be_shown_stays_in_the_box(program: Program, models: Path) -> None:
    with open_talk(program, models / "qwen3_5") as terminal:
        terminal.wait_for(lambda: ready(terminal))
        terminal.wait_for(lambda: "loading" not in terminal.text())
        terminal.line("What is @pictures/cat.png?")
        terminal.wait_for("The model 'qwen3_5' cannot see images: leave them out")
        terminal.wait_for(lambda: terminal.count(r"(?m)^› What is @pictures/cat\.png\?$") > 0)
        assert not list(program.sessions.glob("*.jsonl"))
        terminal.send("\x03")
        terminal.wait_for("› Say something")
        run_command(terminal, "/image pictures/cat.png", "cannot see images: leave them out")
        terminal.send("\x03")
        terminal.wait_for("› Say something")
        leave(terminal)
