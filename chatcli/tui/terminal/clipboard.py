"""Copy text to the clipboard: by the terminal's own sequence, and by a tool where there is one."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress

TOOLS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
)
# Bytes in base64. Terminals drop longer ones.
MAX_OSC_52_BYTES = 74_994
TOOL_SECONDS = 2.0


def copy(text: str, write_raw: Callable[[str], None]) -> None:
    """By OSC 52, which works over ssh too, and by the first tool that is installed."""
    data = base64.b64encode(text.encode()).decode()
    if len(data) <= MAX_OSC_52_BYTES:
        write_raw(f"\x1b]52;c;{data}\x07")
    tool = next((tool for tool in TOOLS if shutil.which(tool[0])), None)
    if tool is None:
        return
    # A tool without a display fails, and the terminal's sequence stands alone.
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            tool,
            input=text.encode(),
            timeout=TOOL_SECONDS,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
