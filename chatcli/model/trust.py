"""Which models' own code a person has let run: by the model's name and the code's digest, in a private file.

Without that, `--trust-remote-code` lets it run once. No setting does, or any model that a session names
would run its code.
"""

from __future__ import annotations

import json
from pathlib import Path

import platformdirs

from chatcli import files
from chatcli.model import inspect

FILE_NAME = "trusted-code.json"


def path() -> Path:
    """The file of approvals, in the user's own data folder."""
    return platformdirs.user_data_path("chatcli") / FILE_NAME


def _approvals() -> dict[str, str]:
    """The digest that was approved, by model; empty if there is no such file or it is damaged."""
    try:
        approvals = json.loads(inspect.read_regular(path()))
    except (OSError, ValueError, RecursionError):
        return {}
    return approvals if isinstance(approvals, dict) else {}


def is_approved(model: str, digest: str) -> bool:
    """Whether this code of this model may run. A model without code has nothing to approve."""
    return bool(digest) and _approvals().get(model) == digest


def approve(model: str, digest: str) -> None:
    """Let this code of this model run from now on, until it changes. Raises `FolderError`."""
    with files.explained(f"write {path()}"):
        files.make_private(path().parent)
        location = files.Location.of_file(path())
        with location.parent.locked():
            data = json.dumps({**_approvals(), model: digest}, indent=1, sort_keys=True).encode()
            files.replace(location, data, location.parent)
