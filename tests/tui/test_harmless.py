"""Escape sequences in what others wrote: shown as signs, never acted on, wherever the shell shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.conversation.tree import Message
from chatcli.store.sessions.folder import SessionFolder
from tests.support.program import ESCAPES, Program
from tests.support.shell import PANEL, ready
from tests.support.terminal import ENTER, ESCAPE, pasted
from tests.support.window import Window, command_output, leave_window, send_line

EVIL = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202eback"
SHOWN = "␛]0;owned␇ ␛[2J �31m �back"
# As `EVIL`, in a file's name.
BAD = "bad\x1b]0;owned\x07"


def conversations(program: Program) -> None:
    """One whose words are evil, and one whose file's name is."""
    folder = SessionFolder(program.sessions)
    with folder.create("evil", model=None, system=f"Be kind. {EVIL}") as session:
        asked = session.append(Message("user", f"asked {EVIL}"), None)
        session.append(Message("assistant", f"said {EVIL}"), asked.id)
    path = Path(session.path)
    path.with_name(f"{BAD}.jsonl").write_bytes(path.read_bytes())
    (program.home / "notes.txt").write_text(f"noted {EVIL}\n")
    (program.home / f"{BAD}.txt").write_text(f"noted {EVIL}\n")


def whole_screen(window: Window, line: str, *shown: str) -> None:
    window.line(line)
    window.wait_for(lambda: "Esc leave" in window.text())
    for part in shown:
        window.wait_for(part)
    window.send(ESCAPE)
    window.wait_for(lambda: "Esc leave" not in window.text() and ready(window))


@pytest.mark.slow
def test_nothing_that_others_wrote_is_acted_on(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path / "home", models / "evil")
    conversations(program)
    args = ("-m", program.model, "-n", "60", "--temp", "1", "--seed", "3")
    with Window(program, *args, lines=40) as window:
        command_output(window, "/resume evil")
        window.wait_for(f"said {SHOWN}")
        assert f"› asked {SHOWN}" in window.text()
        assert SHOWN in command_output(window, "/system")
        whole_screen(window, "/search asked", f"asked {SHOWN}", f"asked {SHOWN}")
        assert "␛" in send_line(window, "what is in @notes.txt ?")
        whole_screen(window, "/tree", f"1 › asked {SHOWN}", f"said {SHOWN}")
        whole_screen(window, "/resume", "bad␛]0;owned␇", f"asked {SHOWN}")
        window.send(pasted(f"pasted {EVIL}"))
        window.wait_for(f"› pasted {SHOWN}")
        seen = window.count(PANEL)
        window.send(ENTER)
        window.wait_for(lambda: window.count(PANEL) > seen and ready(window))
        command_output(window, f"/label {SHOWN}")
        # The name itself is refused, and is told as harmlessly.
        assert "must not contain control" in command_output(window, "/resume bad")
        leave_window(window)
        for mark in [*ESCAPES[1:], b"\x1b]0", b"\x1b[2J", "\u202e".encode()]:
            assert mark not in window.raw, mark
    for done in (
        program.run("list"),
        program.run("show", "evil"),
        program.run("tree", "evil"),
        program.run("search", "noted"),
    ):
        assert not any(mark in done.out + done.err for mark in [*ESCAPES, "\u202e".encode()])
        assert "␛" in done.text
