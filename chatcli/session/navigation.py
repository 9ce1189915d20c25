"""What a shell does with the conversation besides talking: other replies, other places.

Refuses to know the terminal. MLX is imported only once a model is there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Turn
from chatcli.errors import TemplateRefused, TurnOutOfRange, UsageError
from chatcli.events import Event
from chatcli.model import vision
from chatcli.session import editing
from chatcli.session.state import State
from chatcli.store.sessions.images import Gallery


def regenerate(state: State, cancelled: threading.Event) -> Iterator[Event]:
    """Another reply to the last question."""
    chat = state.chat(cancelled)
    from chatcli.turn import regenerate as core

    yield from core.regenerate(chat, cancelled)


def go_on(state: State, cancelled: threading.Event) -> Iterator[Event]:
    """More of a reply that was cut."""
    chat = state.chat(cancelled)
    from chatcli.turn import regenerate as core

    yield from core.go_on(chat, cancelled)


def go_to(state: State, entry_id: str) -> str:
    """Go on from a reply; or have a message written anew: its text is returned then.

    Its images go with the next message. Raises `ImagesRefused` if one is lost, and `FolderError` if
    it cannot be kept, and stays where it was.
    """
    editing.call_off(state)
    entry = state.conversation.entries[entry_id]
    if entry.message.role != "user":
        state.move_head(entry_id)
        return ""
    gallery = Gallery(state.folder.folder)
    images = tuple(Image(picture, gallery.data(picture)) for picture in entry.message.images)
    editing.begin(state, entry_id, images)
    return entry.message.content


def edit(state: State, number: int | None) -> str:
    """The text of a turn's message (the last one's by default), to be sent again beside it."""
    return go_to(state, _turn(state, number).user.id)


def rewind(state: State, number: int | None) -> int:
    """Go on after turn `number`; None: before the last turn. Returns the turns that there are then.

    Raises `FolderError` if it cannot be kept, and stays where it was.
    """
    conversation = state.conversation
    if number is None:
        head = _turn(state, None).user.parent
    else:
        head = conversation.end_of_turn(number) if number else None
    state.move_head(head)
    return len(conversation.turns())


def _turn(state: State, number: int | None) -> Turn:
    turns = state.conversation.turns()
    if not turns:
        raise UsageError("There is no turn to go back to yet: say something first.")
    if number is None:
        return turns[-1]
    if not 1 <= number <= len(turns):
        raise TurnOutOfRange(f"There is no turn {number}: there are turns 1 to {len(turns)}.")
    return turns[number - 1]


def reply_text(state: State, number: int | None) -> str:
    """A turn's reply, the last one's by default."""
    reply = _turn(state, number).reply
    if reply is None:
        raise UsageError("That turn has no reply yet.")
    return reply.message.content


def cost(state: State, entry_id: str) -> int | None:
    """How many tokens would have to be prefilled to go on from an entry; None if not known yet.

    Nor is it where the model's template refuses what was said up to there.
    """
    if state.loading or state.session is None:
        return None
    chat = state.chat(None)
    from chatcli.turn import estimate

    with suppress(TemplateRefused):
        return estimate.cost(chat, chat.conversation.entries[entry_id])
    return None


def context(state: State) -> tuple[list[tuple[str, int]], int]:
    """Where the tokens of the path are, and the context's size. Raises `UsageError`."""
    chat = state.chat(None)
    from chatcli.turn import estimate

    conversation = chat.conversation

    def size(*texts: str) -> int:
        return sum(len(chat.template.encode(text)) for text in texts)

    said = {
        role: [one.message.content for one in conversation.path() if one.message.role == role]
        for role in ("user", "assistant")
    }
    parts = [
        ("system prompt", size(conversation.system or "")),
        ("your messages", size(*said["user"])),
        ("replies", size(*said["assistant"])),
    ]
    shown = vision.pictures([one.message for one in conversation.path()])
    if shown and chat.template.vision is not None:
        blocks = (chat.template.vision.block(picture) for picture in shown)
        parts.append(("images", sum(len(block.keys) for block in blocks)))
    around = estimate.used(chat) - sum(tokens for _, tokens in parts)
    return [*parts, ("markers around them", max(around, 0))], chat.checkpoints.loaded.context
