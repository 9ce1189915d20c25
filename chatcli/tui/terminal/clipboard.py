"""Text to the clipboard: the terminal's own sequence, and a tool where there is one."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Callable

TOOLS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
)
# Longer ones are dropped by terminals.
LONGEST = 74_994
PATIENCE = 2.0


def copy(text: str, write_raw: Callable[[str], None]) -> None:
    """By OSC 52, which works over ssh too, and by the first tool that is installed."""
    data = base64.b64encode(text.encode()).decode()
    if len(data) <= LONGEST:
        write_raw(f"\x1b]52;c;{data}\x07")
    tool = next((one for one in TOOLS if shutil.which(one[0])), None)
    if tool is not None:
        _run(tool, text)


def _run(tool: tuple[str, ...], text: str) -> None:
    """A tool without a display fails, and the terminal's sequence stands alone."""
    try:
        subprocess.run(
            tool,
            input=text.encode(),
            timeout=PATIENCE,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
