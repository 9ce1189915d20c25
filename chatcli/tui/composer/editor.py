"""Opens a text in the person's editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from chatcli.errors import UsageError
from chatcli.text import shorten

# The editors to try if neither VISUAL nor EDITOR is set; nano first, as it shows how to leave it.
USUAL_EDITORS = ("nano", "vi", "vim")


def find_editor(environment: Mapping[str, str], *, installed: bool = True) -> str | None:
    """The command line of the person's editor, else one that is `installed`, else None."""
    chosen = environment.get("VISUAL") or environment.get("EDITOR")
    usual = USUAL_EDITORS if installed else ()
    return chosen or next((name for name in usual if shutil.which(name)), None)


def edited(text: str, editor: str) -> str:
    """`text` after the command `editor` has changed it. Raises `UsageError`."""
    editor_name = shorten(editor, 40)
    try:
        handle, name = tempfile.mkstemp(".md", "message-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            try:
                code = subprocess.call([*shlex.split(editor), name])
            except (OSError, ValueError):
                raise UsageError(
                    f"The editor '{editor_name}' cannot be started: set VISUAL or EDITOR to one that can."
                ) from None
            if code:
                raise UsageError(f"The editor '{editor_name}' ended with an error ({code}).")
            return Path(name).read_text("utf-8").removesuffix("\n")
        finally:
            Path(name).unlink(missing_ok=True)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"The editor's file cannot be used: {error}.") from None
