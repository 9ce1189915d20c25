"""Prefills a message while it is being typed; refuses to write anything of it to disk."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from chatcli.checkpoints.draft_model import follow
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message
from chatcli.errors import MemoryFull, NotAnImage, TemplateRefused
from chatcli.events import Drafted
from chatcli.store.segments.prefix import Segment
from chatcli.turn import turn
from chatcli.turn.turn import TurnContext


def draft(
    chat: TurnContext, text: str, cancelled: threading.Event, images: Sequence[Image] = ()
) -> Iterator[Drafted]:
    """Bring the live cache to where it will be when `text` is sent, as a turn itself would.

    So sending it finds everything but the generation prompt done; another text goes back to the
    last chunk that both share, or to the conversation's own checkpoint. What of the conversation
    itself had not been run yet is written as usual.
    """
    try:
        for image in images:
            if chat.template.vision is not None:
                chat.template.vision.learn(image)
        tokens, chain = expected(chat, text, images)
    except (TemplateRefused, NotAnImage):
        return  # sending it will say why
    if len(tokens) >= chat.checkpoints.loaded.context:
        return
    with contextlib.suppress(MemoryFull):
        match = turn.find(chat, tokens, chain)
        match = chat.checkpoints.restore(chain, tokens, match)
        done = match.drafted
        for count, _ in chat.checkpoints.run(chain, tokens, match.depth, cancelled, draft=True):
            if count:
                done += count
                yield Drafted(done)
        follow(chat.speculation, chain, tokens, cancelled, draft=True)


def expected(chat: TurnContext, text: str, images: Sequence[Image] = ()) -> tuple[list[int], list[Segment]]:
    """The prompt and its segments as they will be if `text` is sent. Raises `TemplateRefused`."""
    conversation = chat.conversation
    head = conversation.entries[conversation.head] if conversation.head else None
    messages = turn.history(chat, head)
    known = turn.known_boundaries(chat, messages, head) if head else {}
    if conversation.unanswered():
        messages.append(Message("assistant", ""))
    messages.append(Message("user", text, images=tuple(image.picture for image in images)))
    tokens = chat.template.prompt(messages)
    return tokens, turn.segments(chat, tokens, chat.template.boundaries(messages, known))
