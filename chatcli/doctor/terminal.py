"""Checks what the terminal can show, from the environment and standard output. It is not asked itself."""

from __future__ import annotations

import codecs
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from chatcli.doctor import child
from chatcli.doctor.finding import Finding, advice, ok
from chatcli.text import shorten
from chatcli.tui.terminal import identify
from chatcli.tui.terminal.clipboard import TOOLS

Environment = Mapping[str, str]

MIN_COLUMNS, MIN_LINES = 60, 15
# Terminals that take OSC 52 unless told otherwise.
TAKES_OSC52 = {
    "kitty",
    "WezTerm",
    "Ghostty",
    "Alacritty",
    "Windows Terminal",
    "wezterm",
    "ghostty",
    "alacritty",
    "foot",
    "vscode",
    "WarpTerminal",
}
# A longer wait for the rest of an escape sequence makes the Esc key slow.
MAX_ESCAPE_MILLISECONDS = 50


def stream(environment: Environment, output: TextIO) -> Iterator[Finding]:
    """Whether there is a terminal, of which kind and size."""
    if not output.isatty():
        yield ok("output", "not a terminal: replies are plain text there", terminal=False)
        return
    term = environment.get("TERM", "")
    if term in ("", "dumb"):
        todo = "Conversations run line by line; for the full screen: export TERM=xterm-256color."
        yield advice("output", f"a terminal, TERM={term or '(not set)'}", todo, terminal=True)
    else:
        yield ok("output", f"a terminal, TERM={term}", terminal=True, term=term)
    yield _size(output)


def _size(output: TextIO) -> Finding:
    columns, lines = os.get_terminal_size(output.fileno())
    value = f"{columns} columns, {lines} lines"
    data = {"columns": columns, "lines": lines}
    if columns < MIN_COLUMNS or lines < MIN_LINES:
        todo = f"Make the window larger: lists need {MIN_COLUMNS} columns and {MIN_LINES} lines."
        return advice("size", value, todo, **data)
    return ok("size", value, **data)


def colours(environment: Environment, output: TextIO) -> Iterator[Finding]:
    """How many a terminal of this kind is assumed to have."""
    term, colorterm = environment.get("TERM", ""), environment.get("COLORTERM", "")
    if term in ("", "dumb"):
        yield ok("colours", "none without TERM", colours=1)
    elif environment.get("NO_COLOR"):
        yield ok("colours", "none, as NO_COLOR is set", colours=1)
    elif colorterm in ("truecolor", "24bit"):
        yield ok("colours", f"16 million (COLORTERM={colorterm})", colours=1 << 24)
    elif "256color" in term or "kitty" in term or "ghostty" in term:
        yield ok("colours", "256", colours=256)
    else:
        todo = "If it can show 256, say so: export TERM=xterm-256color."
        yield _hint(output, "colours", f"16, as TERM is {term}", todo, colours=16)


def _hint(output: TextIO, name: str, value: str, todo: str, **data: Any) -> Finding:
    """Advice about the terminal, where the output is one."""
    return advice(name, value, todo, **data) if output.isatty() else ok(name, value, **data)


def characters(environment: Environment, output: TextIO) -> Iterator[Finding]:
    """The encoding of what is printed."""
    encoding = output.encoding or "ascii"
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next((f"{name}={environment[name]}" for name in names if environment.get(name)), "")
    value = f"{encoding}{f', {locale}' if locale else ', no locale is set'}"
    if codecs.lookup(encoding).name != "utf-8":
        todo = "Symbols and other scripts become question marks; to see them: export LC_ALL=C.UTF-8."
        yield advice("characters", value, todo, encoding=encoding)
    else:
        yield ok("characters", value, encoding=encoding)


def inside(environment: Environment) -> Iterator[Finding]:
    """What runs between chatcli and the terminal."""
    layers = [
        name
        for variable, name in (("TMUX", "tmux"), ("STY", "screen"), ("ZELLIJ", "zellij"))
        if environment.get(variable)
    ]
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        layers.append("ssh")
    value = ", ".join(layers) or "neither tmux nor ssh"
    wait = _tmux("escape-time") if "tmux" in layers else ""
    if wait.isdecimal() and int(wait) > MAX_ESCAPE_MILLISECONDS:
        todo = f"tmux holds Esc back for {wait} ms; for less: tmux set -s escape-time 10"
        yield advice("inside", value, todo, around=layers)
    else:
        yield ok("inside", value, around=layers)


def clipboard(environment: Environment, output: TextIO) -> Iterator[Finding]:
    """Whether /copy reaches a clipboard: by a tool, or by the terminal's own sequence (OSC 52)."""
    tool = next((command[0] for command in TOOLS if shutil.which(command[0])), None)
    taker = next((name for name in identify.names(environment) if name in TAKES_OSC52), None)
    remote = environment.get("SSH_CONNECTION") or environment.get("SSH_TTY")
    data = {"osc52": taker, "tool": tool}
    if environment.get("TMUX") and (set_to := _tmux("set-clipboard")) in ("off", "external"):
        todo = "tmux drops it; to let it through: tmux set -s set-clipboard on"
        yield advice("clipboard", f"OSC 52 with set-clipboard {set_to}", todo, **data)
    elif taker:
        yield ok("clipboard", f"OSC 52 likely works ({taker})", **data)
    elif tool and not remote:
        yield ok("clipboard", f"by {tool}", **data)
    else:
        todo = "If /copy does nothing, allow OSC 52 in the terminal's settings or select with the mouse."
        yield _hint(output, "clipboard", "not known whether the terminal takes OSC 52", todo, **data)


def _tmux(option: str) -> str:
    """A server option of tmux, empty if tmux does not answer."""
    try:
        return shorten(child.output(["tmux", "show-options", "-s", "-v", option], 3), 20)
    except child.ChildFailed:
        return ""
