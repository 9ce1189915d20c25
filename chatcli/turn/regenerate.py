"""Generates another reply to the same message, or continues a reply that was cut off."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from chatcli.conversation.finish import WORDS
from chatcli.conversation.tree import Entry
from chatcli.errors import NothingToRepeat
from chatcli.events import Event, Notice, ReplyContinued, TurnDone
from chatcli.turn import turn
from chatcli.turn.prompt import TurnContext, render, room_left


def regenerate(context: TurnContext, cancelled: threading.Event) -> Iterator[Event]:
    """Generate another reply to the last question, beside the existing one. Raises as `turn.take` does.

    If it is stopped before its first token, the conversation stays where it was.
    """
    started = time.perf_counter()
    question = last_question(context)
    messages = [reply.message for reply in context.conversation.children(question.id)]
    before = [(message.content, message.thinking) for message in messages]
    for event in turn.answer(context, render(context, question), started, cancelled):
        if (
            isinstance(event, TurnDone)
            and not context.sampling.temp
            and (event.record.text, event.record.thinking) in before
        ):
            yield Notice("At temperature 0 the reply is the same again: /set temp 0.8 for another.")
        yield event


def last_question(context: TurnContext) -> Entry:
    """The message to reply to again. Raises `NothingToRepeat`."""
    turns = context.conversation.turns()
    if not turns:
        raise NothingToRepeat("There is no reply to regenerate yet: say something first.")
    last = turns[-1]
    return (
        context.conversation.entries[last.reply.parent or ""] if last.reply else (last.user, *last.steps)[-1]
    )


def continue_reply(context: TurnContext, cancelled: threading.Event) -> Iterator[Event]:
    """Continue the last reply where it was cut off, as a new entry with the whole reply.

    Raises `NothingToRepeat` if it was not cut off, and as `turn.take` does.
    """
    started = time.perf_counter()
    reply = cut_reply(context)
    yield ReplyContinued(reply.message.content)
    reply_start = tuple(reply.record["generated"])
    prompt = render(context, last_question(context))
    tokens = [*prompt.tokens, *reply_start]
    room_left(context, len(tokens))
    prompt = replace(
        prompt,
        path=replace(prompt.path, tokens=tokens),
        reply_start=reply_start,
        thinking_tokens=reply.record.get("thinking_tokens", 0),
        thinking_seconds=reply.record.get("thinking_seconds", 0.0),
    )
    yield from turn.answer(context, prompt, started, cancelled)


def cut_reply(context: TurnContext) -> Entry:
    """The reply to continue. Raises `NothingToRepeat`."""
    turns = context.conversation.turns()
    if not turns:
        raise NothingToRepeat("There is no reply to continue yet: say something first.")
    reply = turns[-1].reply
    if reply is not None and reply.finish_reason not in WORDS:
        raise NothingToRepeat("The last reply is complete; nothing to continue.")
    if reply is None or not (reply.record.get("generated") or reply.message.content):
        raise NothingToRepeat("The last reply never began: /regenerate answers the message.")
    if not reply.record.get("generated"):
        raise NothingToRepeat("The last reply's tokens were not saved: /regenerate writes another reply.")
    if reply.record.get("fingerprint") != context.checkpoints.loaded.fingerprint:
        raise NothingToRepeat("Another model began this reply: /regenerate writes another reply.")
    if max(reply.record["generated"]) >= context.checkpoints.vocabulary_size():
        raise NothingToRepeat("The last reply's tokens are damaged: /regenerate writes another reply.")
    return reply
