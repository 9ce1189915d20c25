"""A message on its way through the person's editor; refuses to know the box that it comes from."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from chatcli.errors import UsageError
from chatcli.text import shorten


def edited(text: str, editor: str) -> str:
    """`text` as it is when the command `editor` has ended. Raises `UsageError`."""
    try:
        handle, name = tempfile.mkstemp(".md", "message-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            _run(editor, name)
            return Path(name).read_text("utf-8").removesuffix("\n")
        finally:
            Path(name).unlink(missing_ok=True)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"The editor's file cannot be used: {error}.") from None


def _run(editor: str, name: str) -> None:
    shown = shorten(editor, 40)
    try:
        code = subprocess.call([*shlex.split(editor), name])
    except (OSError, ValueError):
        raise UsageError(
            f"The editor '{shown}' cannot be started: set VISUAL or EDITOR to one that can."
        ) from None
    if code:
        raise UsageError(f"The editor '{shown}' ended with an error ({code}).")
