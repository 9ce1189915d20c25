"""Marks folders as chatcli's, and decides whether `./sessions` is one.

Any project may have a folder of that name, with any contents if it was cloned. So chats go to a folder that
nobody named only if chatcli created it.
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
# No version of chatcli writes a longer marker.
MAX_MARKER_BYTES = 4096
PATTERN = re.compile(rb"chatcli [^\n]*\(folder format (\d{1,9})\)\.\n")
# Folders in which links are looked for; names further down are content hashes.
LINKABLE = ("", "images", "kv", "kv/*")


def claim(folder: Path | Location) -> None:
    """Create a private `folder` and mark it. Raises `FolderError`, also if a newer chatcli marked it."""
    folder = Location.of(folder)
    with files.explained(f"use the folder {folder} (choose another with --sessions DIR)"):
        folder.make_folder()
    version = _version(folder)
    if version is None:
        # A failed write is reported later, when there is something to lose.
        with contextlib.suppress(OSError):
            files.create(folder / MARKER, TEXT.encode())
    elif version > FOLDER_VERSION:
        raise FolderError(
            f"The sessions folder {folder} was created by a newer chatcli (format {version}): "
            "upgrade chatcli, or choose another with --sessions DIR."
        )


def default_folder() -> tuple[Path, str | None]:
    """./sessions if it is chatcli's, else the user's data folder, and why ./sessions is not used."""
    here, own = Path("sessions"), platformdirs.user_data_path("chatcli") / "sessions"
    if not os.path.lexists(here):
        return own, None
    reason = _foreign(here)
    if reason is None:
        return here, None
    return own, (
        f"./sessions is not used, because {reason}: conversations are saved in {own}. "
        "If it is yours: chatcli --sessions sessions"
    )


def _foreign(folder: Path) -> str | None:
    """Why a folder is not recognized as chatcli's; None if it is."""
    try:
        facts = folder.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return "it is a link"
        if not stat.S_ISDIR(facts.st_mode):
            return "it is not a folder"
        if facts.st_uid != os.geteuid():
            return "it belongs to another user"
        if _version(Location.of(folder)) is None:
            return f"chatcli did not create it (it has no {MARKER} file)"
        for part in LINKABLE:
            for place in folder.glob(part) if part else [folder]:
                if place.is_dir():
                    with os.scandir(place) as entries:
                        link = next((entry.name for entry in entries if entry.is_symlink()), None)
                    if link is not None:
                        return f"it contains a link ({place / link})"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return None


def _version(folder: Location) -> int | None:
    """The format version in a folder's marker; None without a marker, or if it belongs to another user."""
    try:
        match = PATTERN.match((folder / MARKER).read_bytes(MAX_MARKER_BYTES))
    except OSError:
        return None
    return None if match is None else int(match[1])
