"""Prefills a message while it is typed. None of it is written before the message is sent."""

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
    """Prefill as if `text` were sent.

    Then sending it only runs the generation prompt. If the text changes, prefill continues after the chunks
    that both texts share if the cache can rewind by its offset, else from the last checkpoint. Earlier parts
    of the conversation that had not been run yet are written as usual.
    """
    try:
        for image in images:
            if context.template.vision is not None:
                context.template.vision.learn(image)
        pictures = tuple(image.picture for image in images)
        path = render_unsent(context, Message("user", text, images=pictures))
    except (TemplateRefused, NotAnImage):
        return  # sending the message will report why
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
