"""Writes conversations for other programs and for people: JSON with the whole tree, Markdown, HTML."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chatcli import files
from chatcli.conversation.tree import Conversation, Message, Picture
from chatcli.errors import FolderError, ImagesRefused, UsageError
from chatcli.exchange import readable
from chatcli.files import Location, Streamed
from chatcli.text import shorten

# The values of a JSON export's `format` and `version`.
FORMAT, VERSION = "chatcli", 1
# The last is a sealed conversation (`sealed.py`); the others are text.
FORMATS = ("md", "html", "json", "chatcli")
SUFFIXES = {
    "": "md",
    ".md": "md",
    ".markdown": "md",
    ".txt": "md",
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".chatcli": "chatcli",
}
BytesOf = Callable[[Picture], bytes]


def format_of(suffix: str) -> str:
    """The format for a file's suffix; Markdown without a suffix. Raises `UsageError`."""
    if (form := SUFFIXES.get(suffix.lower())) is None:
        raise UsageError(
            f"Cannot export to {shorten(suffix, 20)}. The formats are md, html and json. "
            "A file that ends in .chatcli also contains the checkpoints."
        )
    return form


def text_of(
    form: str,
    name: str,
    conversation: Conversation,
    *,
    thinking: bool = False,
    bytes_of: BytesOf | None = None,
) -> str:
    """A session in one of the formats: md, html or json (always with thinking and images)."""
    if form == "json":
        return to_json(to_dict(name, conversation, bytes_of))
    render = readable.page if form == "html" else readable.markdown
    return render(name, conversation, thinking=thinking)


def write(path: Path, data: bytes | Streamed, *, force: bool = False) -> None:
    """Write an export atomically with mode 0600. Replaces an existing file only with `force`.

    Links, devices and pipes are followed. Raises `FolderError`.
    """
    with files.explained(f"write {path}"):
        real = path.resolve()
        if force and real.exists() and not real.is_file():
            with real.open("wb") as file:
                file.writelines([data] if isinstance(data, bytes) else data)
            return
        if not real.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            files.create(Location.of_file(real), data, force=force)
        except FileExistsError:
            raise FolderError(f"{path} exists already: give another name.") from None


def to_dict(name: str, conversation: Conversation, bytes_of: BytesOf | None = None) -> dict[str, Any]:
    """A session as plain data: every entry of every branch, parents first.

    `bytes_of` returns an image's file, which is embedded. A missing image is only named.
    """
    settings = {
        "effort": conversation.effort,
        "template_args": dict(conversation.template_args),
        "settings": dict(conversation.settings),
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "session": name,
        "model": conversation.model,
        "system": conversation.system,
        "date": conversation.date,
        "entries": [
            {
                "id": entry.id,
                "parent": entry.parent,
                "role": entry.message.role,
                "content": entry.message.content,
                "thinking": entry.message.thinking,
                "finish_reason": entry.finish_reason,
                "time": entry.created,
                **_images(entry.message, bytes_of),
                **_tools(entry.message),
            }
            for entry in conversation.entries.values()
        ],
        "labels": dict(conversation.labels),
        "head": conversation.head,
        **{key: value for key, value in settings.items() if value},
    }


def _images(message: Message, bytes_of: BytesOf | None) -> dict[str, Any]:
    """A message's images, if it has any."""
    images = []
    for picture in message.images:
        images.append(asdict(picture))
        if bytes_of is not None:
            with contextlib.suppress(ImagesRefused):
                images[-1]["data"] = base64.b64encode(bytes_of(picture)).decode()
    return {"images": images} if images else {}


def _tools(message: Message) -> dict[str, Any]:
    """A message's tool calls, or the id of the call whose result it is."""
    if message.role == "tool":
        return {"tool_call_id": message.tool_call_id}
    return {"tool_calls": [asdict(call) for call in message.tool_calls]} if message.tool_calls else {}


def to_json(exported: Mapping[str, Any]) -> str:
    """`to_dict` as indented JSON in ASCII."""
    return json.dumps(exported, indent=2) + "\n"
