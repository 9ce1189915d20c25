"""A message that is being written anew, beside itself; refuses to know the terminal.

Until it is sent the conversation is at its place in memory only: whoever leaves or calls it off finds
everything as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatcli.conversation.images import Image
from chatcli.errors import ChatcliError

if TYPE_CHECKING:
    from chatcli.session.state import State


@dataclass(frozen=True)
class Editing:
    """Message number `turn`; what it hangs under, and the head and images that wait to come back."""

    turn: int
    parent: str | None
    head: str | None
    images: tuple[Image, ...]


def begin(state: State, entry_id: str, images: tuple[Image, ...]) -> None:
    """Go to the place of a message; its `images` go with the next one."""
    conversation = state.conversation
    entry = conversation.entries[entry_id]
    state.stop_settling()
    turn = len(conversation.turns(entry_id))
    state.editing = Editing(turn, entry.parent, conversation.head, state.images)
    conversation.head, state.images = entry.parent, images


def current(state: State) -> Editing | None:
    """What is being written anew, as long as it was neither sent nor called off."""
    editing, session = state.editing, state.session
    if editing is None or session is None or session.conversation.head != editing.parent:
        return None
    return editing


@contextmanager
def kept(state: State) -> Iterator[None]:
    """While it is sent: where it is refused, it is still being changed, and nothing is moved on disk."""
    try:
        yield
    except ChatcliError:
        if (editing := current(state)) is not None and state.session is not None:
            # What was refused has gone to the place of the message on disk, too.
            state.session.move_head(editing.head)
            state.session.conversation.head = editing.parent
        raise


def call_off(state: State) -> bool:
    """Go back to where the conversation was. Returns whether there was anything to call off."""
    editing = current(state)
    if editing is not None:
        state.stop_settling()
        state.conversation.head, state.images = editing.head, editing.images
    state.editing = None
    return editing is not None
