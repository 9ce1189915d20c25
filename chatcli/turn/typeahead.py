"""Prefills a message while it is being typed. Nothing of it is written before it is sent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

from chatcli.checkpoints.draft_model import follow
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message
from chatcli.errors import MemoryFull, NotAnImage, TemplateRefused
from chatcli.events import TypeaheadProgress
from chatcli.turn.prompt import TurnContext, render_unsent


def typeahead(
    context: TurnContext, text: str, cancelled: threading.Event, images: Sequence[Image] = ()
) -> Iterator[TypeaheadProgress]:
    """Bring the live cache to where it will be when `text` is sent, as a turn itself would.

    So sending it finds everything but the generation prompt done. Another text goes on after the chunks
    that both share where the cache goes back by its offset, else from the last checkpoint. What of the
    conversation itself had not been run yet is written as usual.
    """
    try:
        for image in images:
            if context.template.vision is not None:
                context.template.vision.learn(image)
        pictures = tuple(image.picture for image in images)
        path = render_unsent(context, Message("user", text, images=pictures))
    except (TemplateRefused, NotAnImage):
        return  # sending it will say why
    if len(path.tokens) >= context.checkpoints.loaded.context:
        return
    with contextlib.suppress(MemoryFull):
        plan, steps = context.checkpoints.advance(path, cancelled, "typeahead", private=context.private)
        done = plan.typed
        for step in steps:
            if step.tokens:
                done += step.tokens
                yield TypeaheadProgress(done)
        follow(context.speculation, path, cancelled, "typeahead", private=context.private)
