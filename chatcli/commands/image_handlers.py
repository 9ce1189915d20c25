"""Slash commands about images: they return results, they never print."""

from __future__ import annotations

from pathlib import Path

from chatcli import files
from chatcli.commands import mentions
from chatcli.commands.registry import command
from chatcli.commands.results import Result, Said
from chatcli.conversation import images
from chatcli.model import vision
from chatcli.session.live_chat import LiveChat


def _files(typed: str) -> list[str]:
    """The images and folders that complete a path."""
    offered = mentions.choices(typed, Path.cwd())
    return [one.text for one in offered if one.size is None or _is_image(one.text)]


def _is_image(text: str) -> bool:
    return images.is_image(files.from_home(text.strip('"')))


@command(
    "image",
    "[PATH | off]",
    "show the model an image with the next message (also: @PATH in it)",
    complete_typed=_files,
)
def image(chat: LiveChat, argument: str) -> Result:
    if not argument:
        return Said(_waiting(chat) or "No image waits: /image PATH puts one to the next message.")
    if argument == "off":
        chat.session.drop_images()
        return Said("No image goes with the next message.")
    added = images.read(argument.strip('"'))
    if not chat.model.loading:
        vision.check(chat.model.wait().loaded.vision, chat.model.name)
    chat.session.add_image(added)
    return Said(_waiting(chat))


def _waiting(chat: LiveChat) -> str:
    """Nothing where no image waits."""
    shown = images.told(chat.session.images)
    return f"{shown} with your next message; /image off takes it back." if shown else ""
