"""Another reply to the same message, or more of a reply that was cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from chatcli.conversation.finish import WORDS
from chatcli.conversation.tree import Entry
from chatcli.errors import NothingToRepeat
from chatcli.events import Event
from chatcli.turn import turn
from chatcli.turn.turn import Prompt, TurnContext


def regenerate(chat: TurnContext, cancelled: threading.Event) -> Iterator[Event]:
    """Another reply to the last question, beside the one that is there. Raises as `turn.take` does.

    If it is stopped before its first token, the conversation stays where it was.
    """
    started = time.perf_counter()
    yield from _beside(chat, last_question(chat), (), started, cancelled)


def last_question(chat: TurnContext) -> Entry:
    """The message to which there can be another reply. Raises `NothingToRepeat`."""
    turns = chat.conversation.turns()
    if not turns:
        raise NothingToRepeat("There is no reply to make anew yet: say something first.")
    return turns[-1].user


def go_on(chat: TurnContext, cancelled: threading.Event) -> Iterator[Event]:
    """The last reply from where it was cut, whole, beside what there is of it.

    Raises `NothingToRepeat` if it was not cut, and as `turn.take` does.
    """
    started = time.perf_counter()
    reply = cut_reply(chat)
    said = tuple(reply.record["generated"])
    yield from _beside(chat, chat.conversation.turns()[-1].user, said, started, cancelled)


def cut_reply(chat: TurnContext) -> Entry:
    """The reply that there can be more of. Raises `NothingToRepeat`."""
    turns = chat.conversation.turns()
    if not turns:
        raise NothingToRepeat("There is no reply to go on with yet: say something first.")
    reply = turns[-1].reply
    if reply is not None and reply.finish_reason not in WORDS:
        raise NothingToRepeat("The last reply came to its end: there is nothing to go on with.")
    if reply is None or not (reply.record.get("generated") or reply.message.content):
        raise NothingToRepeat("The last reply never began: /regenerate answers the message.")
    if not reply.record.get("generated"):
        raise NothingToRepeat("The last reply's tokens are not kept: /regenerate makes it anew.")
    if reply.record.get("fingerprint") != chat.checkpoints.loaded.fingerprint:
        raise NothingToRepeat("Another model began this reply: /regenerate makes it anew.")
    return reply


def _beside(
    chat: TurnContext, user: Entry, said: tuple[int, ...], started: float, cancelled: threading.Event
) -> Iterator[Event]:
    conversation = chat.conversation
    before = conversation.head
    # In memory only: on disk the new reply itself moves the head.
    conversation.head = user.id
    try:
        prompt = _beginning_with(turn.render(chat, user), said)
        turn.room_left(chat, len(prompt.tokens))
        yield from turn.answer(chat, user, prompt, started, cancelled)
    finally:
        if conversation.head == user.id:
            conversation.head = before


def _beginning_with(prompt: Prompt, said: tuple[int, ...]) -> Prompt:
    return replace(prompt, tokens=[*prompt.tokens, *said], said=said)
