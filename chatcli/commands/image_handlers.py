"""Slash commands about images: they return results, they never print."""

from __future__ import annotations

from pathlib import Path

from chatcli import files
from chatcli.commands import mentions
from chatcli.commands.registry import command
from chatcli.commands.results import Result, Said
from chatcli.conversation import images
from chatcli.model import vision
from chatcli.session.state import State


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
def image(state: State, argument: str) -> Result:
    if not argument:
        return Said(_waiting(state) or "No image waits: /image PATH puts one to the next message.")
    if argument == "off":
        state.images = ()
        return Said("No image goes with the next message.")
    found = images.read(argument.strip('"'))
    if not state.loading:
        vision.check(state.runtime().loaded.vision, state.model)
    state.images = (*state.images, found)
    return Said(_waiting(state))


def _waiting(state: State) -> str:
    """Nothing where no image waits."""
    shown = images.told(state.images)
    return f"{shown} with your next message; /image off takes it back." if shown else ""
