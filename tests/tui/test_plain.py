"""Where nothing may be drawn: a dumb terminal, no colours, pipes on either side, and a closed one."""

from __future__ import annotations

import re
import sys

import pytest

from tests.support.program import ESCAPES, Program, escapes_in
from tests.support.terminal import CTRL_D, ENTER, Terminal
from tests.support.window import Window, command_output, leave_window, send_line

TOLD = "My dog is called Biscuit."
ANSWER = "Got it: your dog is called Biscuit."
COLOUR = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:3[0-8]|4[0-8]|9\d|10\d)(?:;[\d;]*)?m")
# What runs in a shell: a script of messages through pipes and files, and the exit codes of a pipe.
PIPED = f"""\
printf '{TOLD}\\n/stats\\n/tree\\n' >script
"$@" chat --temp 0 <script >said 2>thought; echo "file $?" >&3
"$@" ask --temp 0 '{TOLD}' 2>>thought | cat >asked; echo "cat ${{PIPESTATUS[0]}}" >&3
"$@" ask --temp 0 '{TOLD}' 2>>closed | head -c 0 >/dev/null; echo "head ${{PIPESTATUS[0]}}" >&3
printf '/hlep\\n' | "$@" chat 2>>wrong; echo "usage $?" >&3
"""


@pytest.mark.slow
@pytest.mark.parametrize(("options", "term"), [((), "dumb"), (("--plain",), "xterm-256color")])
def test_a_dumb_terminal_gets_lines_and_nothing_else(
    chatcli: Program, options: tuple[str, ...], term: str
) -> None:
    with Window(chatcli, "-S", "talk", "--temp", "0", *options, TERM=term) as window:
        window.wait_for(lambda: window.text().rstrip().endswith("\n>"))
        window.send(TOLD + ENTER)
        window.wait_for("[0 % reused · 0 % prepared · 20 new]")
        for command, answer in {
            "/stats": "hit ratio",
            "/context": "tokens, ",
            "/tree": "◀ here",
            "/resume": "begins with",
            "/help": "This program",
            "/help keys": "Ctrl-C stops a reply",
            "/hlep": "did you mean",
            "!ls": "There is no shell here",
        }.items():
            seen = window.count(answer)
            window.send(command + ENTER)
            window.wait_for(lambda answer=answer, seen=seen: window.count(answer) > seen)
            window.wait_for(lambda: window.text().rstrip().endswith("\n>"))
        window.send(CTRL_D)
        assert 0 == window.wait_for_exit()
        assert ANSWER in window.all_text() and "Traceback" not in window.all_text()
        assert [] == escapes_in(window.raw)


@pytest.mark.slow
def test_no_colour_where_none_is_wanted(chatcli: Program) -> None:
    with Window(chatcli, "-S", "talk", "--temp", "0", NO_COLOR="1") as window:
        send_line(window, TOLD)
        command_output(window, "/stats")
        leave_window(window)
        assert None is COLOUR.search(window.raw)


def test_pipes_get_plain_text_and_exit_codes(chatcli: Program) -> None:
    environment = chatcli.environment(TERM="xterm-256color", COLORTERM="truecolor")
    shell = ["bash", "-c", f"exec 3>codes; {PIPED}", "bash", sys.executable, "-m", "chatcli"]
    # A terminal is there, and gets nothing.
    with Terminal(shell, environment, chatcli.home) as terminal:
        assert 0 == terminal.wait_for_exit()
        assert b"" == terminal.raw, terminal.raw
    files = {path.name: path.read_bytes() for path in chatcli.home.iterdir() if path.is_file()}
    codes = dict(line.split() for line in files["codes"].decode().splitlines())
    assert {"file": "0", "cat": "0", "head": "1", "usage": "2"} == codes
    assert f"{ANSWER}\n" == files["asked"].decode()
    printed = files["said"].decode()
    assert printed.startswith(f"{ANSWER}\n") and "hit ratio" in printed and "◀ here" in printed
    assert "They tell me something" in files["thought"].decode()
    assert b"did you mean /help?" in files["wrong"] and 1 == files["wrong"].count(b"\n")
    for name in ("said", "asked", "thought", "closed", "wrong"):
        assert not any(mark in files[name] for mark in ESCAPES), name
        assert b"Traceback" not in files[name], name
