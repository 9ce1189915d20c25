"""Copies text to a clipboard: by a desktop's tool, by tmux, or by the terminal's own sequence (OSC 52)."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

# A desktop's tools, each with the variable that its desktop sets.
TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("pbcopy",)),
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
# With -w tmux passes the text to the terminal's clipboard too; before 3.2 it has no such flag.
TMUX = (("tmux", "load-buffer", "-w", "-"), ("tmux", "load-buffer", "-"))
# What `copy` returns for the terminal's own sequence.
TERMINAL = "terminal"
# Bytes in base64. Terminals drop longer ones.
MAX_OSC_52_BYTES = 74_994
TOOL_SECONDS = 2.0


def tools(environment: Mapping[str, str]) -> list[Sequence[str]]:
    """The commands that copy text here, the best first."""
    # Over ssh a desktop's clipboard is on the wrong machine.
    is_remote = environment.get("SSH_CONNECTION") or environment.get("SSH_TTY")
    desktop = [] if is_remote else [tool for name, tool in TOOLS if not name or environment.get(name)]
    return [tool for tool in (*desktop, *(TMUX if environment.get("TMUX") else ())) if shutil.which(tool[0])]


def copy(
    text: str, environment: Mapping[str, str], write_raw: Callable[[str], None] | None = None
) -> str | None:
    """Copy text. Returns how: a tool's name or `TERMINAL`; None if nothing worked.

    `write_raw` writes to the terminal (None: there is none), which does not report success. tmux drops the
    sequence unless it is configured not to, so it is not tried there.
    """
    for tool in tools(environment):
        try:
            done = subprocess.run(
                tool,
                input=text.encode(),
                timeout=TOOL_SECONDS,
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if not done.returncode:
            return tool[0]
    data = base64.b64encode(text.encode()).decode()
    if write_raw is None or environment.get("TMUX") or len(data) > MAX_OSC_52_BYTES:
        return None
    write_raw(f"\x1b]52;c;{data}\x07")
    return TERMINAL
