"""Remembers ended replies as the client will send them back, and settles them when the server is idle."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import replace
from typing import cast

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.errors import ChatcliError, TemplateStopped
from chatcli.events import Notice, Settled, ToolCall
from chatcli.records import ReplyRecord
from chatcli.replies.answer_form import is_json
from chatcli.serve.conversations import Conversations
from chatcli.serve.kept import PREVIOUS, KeptConversations
from chatcli.serve.request import ReplyDone, ReplyRequest
from chatcli.serve.served_reply import ServedReply
from chatcli.serve.wire import BadRequest, in_order, shallow
from chatcli.turn import turn
from chatcli.turn.prompt import TurnContext

# How many conversations wait to be settled when the server is idle. Older ones are prefilled when continued.
MAX_UNSETTLED = 32

logger = logging.getLogger("chatcli.serve")


class EndedReplies:
    """Adds replies to the conversations, and to `kept` sessions, if any.

    Its length is the number of replies that wait to be settled.
    """

    def __init__(self, conversations: Conversations, kept: KeptConversations | None) -> None:
        self._conversations, self._kept = conversations, kept
        self._unsettled: deque[tuple[TurnContext, Entry]] = deque(maxlen=MAX_UNSETTLED)

    def __len__(self) -> int:
        return len(self._unsettled)

    def with_history(self, request: ReplyRequest) -> ReplyRequest:
        """The request with the messages up to the response that it continues. Raises `BadRequest`."""
        if request.previous is None:
            return request
        if self._kept is None:
            raise BadRequest(
                "previous_response_id needs a server that keeps conversations: start it with --keep, or send "
                "the whole conversation as input.",
                PREVIOUS,
            )
        system = [each for each in request.messages[:1] if each.role == "system"]
        new = request.messages[len(system) :]
        messages, _ = in_order([*system, *self._kept.history(request.previous), *new], "input")
        return replace(request, messages=messages)

    def forget_continued(self, conversation: Conversation) -> None:
        """Do not settle a conversation's replies any more, because a request continues it."""
        known = conversation.entries
        self._unsettled = deque((each for each in self._unsettled if each[1].id not in known), MAX_UNSETTLED)

    def add(self, reply: ServedReply) -> None:
        """Add a finished reply, and deliver its end."""
        record, context = reply.record, reply.context
        record.text, record.thinking = record.text.rstrip("\n"), record.thinking.rstrip("\n")
        answer, written = context.answer, record.tool_calls
        if written and ((answer is not None and answer.forces_calls) or len(written) > len(reply.calls)):
            # Keep the calls without their text, which has a forced format or one call too many.
            start = written[0]["start"]
            record.text = record.text[:start]
            record.tool_calls = [
                {**call, "start": start, "end": start} for call in written[: len(reply.calls)]
            ]
        calls = tuple(
            ToolCall(call["name"], shallow(call["arguments"]), each, call["start"], call["end"])
            for call, each in zip(record.tool_calls, reply.calls, strict=True)
        )
        if answer is not None and record.finish_reason == "stop":
            has_all = bool(calls) or (not answer.forces_calls and is_json(record.text))
            if not has_all and reply.collector.stop_text is None:
                raise ChatcliError("The answer ended incomplete: its schema is too complex for this server.")
        # A client that has not yet sent thinking back probably never will.
        shows_thinking = bool(calls) or any(each.thinking for each in reply.asked.messages)
        message = Message(
            "assistant", record.text, record.thinking if shows_thinking else "", tool_calls=calls
        )
        facts: ReplyRecord = {**reply.facts, "unrun_tokens": record.unrun_tokens}
        entry = self._conversations.add(
            context.conversation, message, record.finish_reason, facts, private=context.private
        )
        if self._kept is not None and record.tokens and reply.asked.prompt is None and not context.private:
            numbers: ReplyRecord = {**record.numbers(), **facts}
            self._kept.add(context.conversation, entry, record.thinking, numbers, reply.asked.response_id)
        if record.finish_reason != "cancelled" and reply.asked.prompt is None:
            self._unsettled.append((context, entry))
        reply.deliver(ReplyDone(record, calls, reply.collector.stop_text))

    def settle_newest(self, checkpoints: Checkpoints, stop: threading.Event) -> int:
        """Settle the newest reply, the likeliest to be continued, on the live cache of `checkpoints`.

        Setting `stop` ends it after the current chunk. Returns how many tokens were run.
        """
        context, entry = self._unsettled[-1]
        # The template's stop signal is still the ended request's.
        context = replace(context, template=context.template.stopped_by(stop), checkpoints=checkpoints)
        tokens = 0
        try:
            for event in turn.settle(context, stop):
                if isinstance(event, Settled):
                    tokens += event.tokens
                elif isinstance(event, Notice):
                    logger.warning("%s", event.text)
            settled = context.conversation.entries[entry.id]
            before, after = entry.record, settled.record
            if numbers := {key: value for key, value in after.items() if before.get(key) != value}:
                self._conversations.note(settled, numbers, private=context.private)
                if self._kept is not None and not context.private:
                    self._kept.note(settled, cast(ReplyRecord, numbers))
            if stop.is_set():
                return tokens
        except TemplateStopped:
            return tokens
        except ChatcliError as error:
            logger.warning("A conversation could not be settled: %s", error)
        except Exception:
            # This costs only time. The conversation's next request will report the error.
            logger.exception("A conversation could not be settled")
        self._unsettled.pop()
        return tokens
