"""Marks a folder as one of chatcli's, and tells whether `./sessions` is one.

Any project may have a folder of that name, and a cloned one may hold anything: chats go to a folder that
nobody named only if chatcli made it.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

import platformdirs

from chatcli import files
from chatcli.errors import FolderError
from chatcli.files import Location

MARKER = ".chatcli"
FOLDER_VERSION = 1
TEXT = f"chatcli keeps its sessions in this folder (folder format {FOLDER_VERSION}).\n"
# No version of chatcli writes more.
MAX_MARKER_BYTES = 4096
PATTERN = re.compile(rb"chatcli [^\n]*\(folder format (\d{1,9})\)\.\n")
# Where links would lead elsewhere, as far down as their names are not content hashes.
LINKABLE = ("", "images", "kv", "kv/*")


def claim(folder: Path | Location) -> None:
    """Make `folder`, private, and mark it. Raises `FolderError`, also if a newer chatcli marked it."""
    folder = Location.of(folder)
    with files.explained(f"use the folder {folder} (choose another with --sessions DIR)"):
        folder.make_folder()
    version = _version(folder)
    if version is None:
        # What cannot be written now is said when there is something to lose.
        with contextlib.suppress(OSError):
            files.create(folder / MARKER, TEXT.encode())
    elif version > FOLDER_VERSION:
        raise FolderError(
            f"The sessions folder {folder} is a newer chatcli's (format {version}): "
            "upgrade chatcli, or choose another with --sessions DIR."
        )


def default_folder() -> tuple[Path, str | None]:
    """./sessions if it is chatcli's, else the user's data folder, and why the first is not used."""
    here, own = Path("sessions"), platformdirs.user_data_path("chatcli") / "sessions"
    if not os.path.lexists(here):
        return own, None
    reason = _foreign(here)
    if reason is None:
        return here, None
    return own, (
        f"./sessions is not used, since {reason}: conversations are kept in {own}. "
        "If it is yours: chatcli --sessions sessions"
    )


def _foreign(folder: Path) -> str | None:
    """Why a folder is not taken for chatcli's own; None if it is."""
    try:
        facts = folder.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return "it is a link"
        if not stat.S_ISDIR(facts.st_mode):
            return "it is not a folder"
        if facts.st_uid != os.geteuid():
            return "it belongs to another user"
        if _version(Location.of(folder)) is None:
            return f"chatcli did not make it (it has no {MARKER} file)"
        for part in LINKABLE:
            for place in folder.glob(part) if part else [folder]:
                if place.is_dir():
                    with os.scandir(place) as entries:
                        link = next((entry.name for entry in entries if entry.is_symlink()), None)
                    if link is not None:
                        return f"it holds a link ({place / link})"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return None


def _version(folder: Location) -> int | None:
    """The format version in a folder's marker; None without one, or one that is not this user's."""
    try:
        match = PATTERN.match((folder / MARKER).read_bytes(MAX_MARKER_BYTES))
    except OSError:
        return None
    return None if match is None else int(match[1])
