"""Every slash command once, in one conversation: a readable result, and the prompt comes back."""

from __future__ import annotations

import json

import pytest

import chatcli.commands.handlers  # noqa: F401  (registers what there is to test)
from chatcli.commands.registry import all_commands
from tests.support.program import Program
from tests.support.shell import BUSY, ready
from tests.support.terminal import CTRL_C, ENTER, ESCAPE
from tests.support.window import Window, prompt_is_back, send_line

# What is given to a command that wants something, and a part of the answer where that is known.
ARGUMENTS = {
    "branch": ("1 aside", "aside · 1 turn"),
    "search": ("biscuit", "· turn 1 · you"),
    "export": ("talk.json", "Written to ~/talk.json."),
    "import": ("words.json", "words · 2 turns"),
    "new": ("", "A new conversation begins"),
    "rename": ("better", "Renamed to 'better'"),
    "pin": ("", "Pinned: the checkpoints"),
    "private": ("off", "This conversation is not private."),
    "save": ("", "Every message is saved already."),
    "rewind": ("1", "Now after turn 1"),
    "undo": ("", "stays in /tree"),
    "label": ("here", "Bookmarked as 'here'."),
    "set": ("temp 0", "temp is 0.0"),
    "panel": ("line", "Each turn's numbers are shown in one line."),
    "think": ("off", "Thinking: off."),
    "system": ("Be kind.", "System prompt changed"),
    "date": ("", "The session's date is"),
    "model": ("", "The model is pocket."),
    "draft-model": ("", "No draft model."),
    "help": ("", "This program"),
    "stats": ("", "prepared"),
    "context": ("", "tokens, "),
    "tree": ("", "Go to a message"),
    "resume": ("", "Resume a session"),
    "image": ("", "No image attached"),
    "copy": ("", "the last reply"),
    "edit": ("", "Change the message and press Enter"),
    "regenerate": ("", "% prepared"),
    "choose": ("1", "There is nothing to choose from"),
    "continue": ("", ""),
    "compact": ("", "continues from this summary"),
}
# These take something away from the others: a turn, the conversation, the shell.
LAST = ("edit", "compact", "new", "quit")
FULL_SCREEN = "Esc leave"


def result_of(window: Window, line: str, part: str) -> str:
    """Run a command and wait for a part of its answer; what is on the screen after it."""
    before = f"\n{window.all_text()}".rindex("\n› ")
    window.line(line)
    window.wait_for(
        lambda: (
            (prompt_is_back(window, before) and part in window.all_text()[before:])
            or (FULL_SCREEN in window.text() and part in window.text())
        )
    )
    if FULL_SCREEN not in window.text():
        return window.all_text()[before:]
    shown = window.text()
    window.send(ESCAPE)
    window.wait_for(lambda: FULL_SCREEN not in window.text() and ready(window))
    return shown


@pytest.mark.slow
def test_every_command_says_something_and_gives_the_prompt_back(chatcli: Program) -> None:
    messages = [
        {"role": "user", "content": "words"},
        {"role": "assistant", "content": "more words"},
    ] * 2
    (chatcli.home / "words.json").write_text(json.dumps(messages))
    names = [command.name for command in all_commands() if command.name not in LAST]
    assert set(ARGUMENTS) <= {*names, *LAST}
    with Window(chatcli, "-S", "talk", "--temp", "0", "-n", "40", lines=50) as window:
        window.wait_for(lambda: ready(window))
        send_line(window, "My dog is called Biscuit.")
        send_line(window, "What is my dog called?")
        for name in [*names, *LAST[:-1]]:
            if name == LAST[0]:
                send_line(window, "One more thing.")
                send_line(window, "And another.")
            argument, part = ARGUMENTS.get(name, ("", ""))
            output = result_of(window, f"/{name} {argument}".strip(), part)
            assert "Traceback" not in output and "There is no command" not in output
            if "› Say something" not in window.text():
                window.send(CTRL_C)
            window.wait_for(lambda: "› Say something" in window.text())
            assert BUSY not in window.text() and window.process.poll() is None
        window.send("/quit" + ENTER)
        assert 0 == window.wait_for_exit()
    assert (chatcli.home / "talk.json").exists()
