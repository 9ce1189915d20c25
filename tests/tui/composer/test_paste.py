"""A paste of five thousand lines, in the real shell with the built-in model, whose context is less."""

from __future__ import annotations

import pytest

from tests.support.program import Program
from tests.support.shell import BUSY, PANEL, ready, turns_of
from tests.support.terminal import BACKSPACE, CTRL_C, CTRL_O, ENTER, pasted
from tests.support.window import Window, flat, leave_window

CTRL_Z = "\x1f"
LINES = 5000
PASTED = "\n".join(f"line {number} of the log says nothing" for number in range(LINES))
CHIP = f"› [pasted {LINES:,} lines]"
FULL = "This message does not fit the model's context: "


def paste(window: Window, text: str) -> None:
    """As a terminal sends it, a little at a time, for a terminal takes no more at once."""
    sent = pasted(text)
    for start in range(0, len(sent), 1024):
        window.send(sent[start : start + 1024])
        while window.read(0):
            pass


@pytest.mark.slow
def test_a_paste_of_five_thousand_lines_is_one_thing_and_is_never_lost(chatcli: Program) -> None:
    with Window(chatcli, "-S", "log", "--temp", "0", "-n", "4") as window:
        window.wait_for(lambda: ready(window))
        paste(window, PASTED)
        window.wait_for(CHIP)
        assert "line 0" not in window.all_text()
        window.send(BACKSPACE)
        window.wait_for("› Say something")
        assert "pasted" not in window.text()

        paste(window, PASTED)
        window.wait_for(CHIP)
        window.send(" what is this?")
        window.wait_for(f"{CHIP} what is this?")
        window.send(ENTER)
        window.wait_for(lambda: FULL in " ".join(window.text().split()))
        window.wait_for(lambda: ready(window) and BUSY not in window.text())
        # The message as it was sent, and again in the box, with its chip.
        window.wait_for(lambda: 2 == window.count(r"› \[pasted 5,000 lines\] what is this\?"))
        assert 0 == window.count(PANEL) and 1 == flat(window.all_text()).count(flat(FULL))
        assert "[transformers]" not in window.all_text()

        window.send(CTRL_O)
        window.wait_for(lambda: f"line {LINES - 1} of the log says nothing" in window.text())
        box = window.text()
        assert flat("says nothing what is this?") in flat(box) and "line 0 of" not in box
        window.send(CTRL_C)
        window.wait_for("› Say something")
        window.line("hello")
        window.wait_for(lambda: window.count(PANEL) == 1 and ready(window))
        leave_window(window)
    assert "hello" == turns_of(chatcli, "log")[-1]["user"]
