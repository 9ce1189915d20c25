"""What the server remembers about conversations, which clients send whole with every request.

A reply is identified by a hash of the messages up to it. When a client sends it back, its record and its tool
calls as the model wrote them are found again, even by another process.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.files import Location
from chatcli.records import ReplyRecord, is_shallow
from chatcli.serve.request import ReplyRequest
from chatcli.serve.wire import MAX_JSON_DEPTH
from chatcli.store.sessions import served
from chatcli.store.sessions.transcript import DAMAGE, tool_calls_of

# How many digits of the hash identify an entry.
ID_DIGITS = 32
# How many replies are remembered in memory.
MAX_REPLIES = 4096

logger = logging.getLogger("chatcli.serve")


class Conversations:
    """The server's replies, in memory and in the sessions folder. For one thread."""

    def __init__(self, folder: Location | None) -> None:
        """If `folder` is None, nothing is kept on disk."""
        self._folder = folder
        # Lines that are not written yet because of an error.
        self._unwritten: deque[dict[str, Any]] = deque(maxlen=MAX_REPLIES)
        # By the ids of entries, and of tool calls.
        self._replies: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, Message] = {}
        if folder is not None:
            with suppress(OSError):
                served.tidy(folder)
                self._replies = served.replies(folder)
        for reply in self._replies.values():
            with suppress(*DAMAGE):
                self._know_calls(_message(reply["message"]))

    def conversation(self, request: ReplyRequest, model: str) -> Conversation:
        """The conversation of a request, with its head at the message to reply to."""
        messages = list(request.messages)
        system = messages.pop(0).content if messages and messages[0].role == "system" else None
        if request.prompt is not None:
            messages = [Message("user", request.prompt)]
        arguments = dict(request.arguments)
        if request.tools:
            arguments["tools"] = [dict(tool) for tool in request.tools]
        today = datetime.date.today().isoformat()
        conversation = Conversation(today, system or None, model)
        conversation.effort, conversation.template_args = request.effort, arguments
        for message in messages:
            message = self._as_written(message)
            identifier = entry_id(conversation.head, message)
            reply = self._replies.get(identifier, {}) if message.role == "assistant" else {}
            with suppress(KeyError, ValueError):
                conversation.date = datetime.date.fromisoformat(reply["date"]).isoformat()
            record = reply.get("record", {})
            conversation.add(Entry(identifier, conversation.head, message, time.time(), record=record))
        return conversation

    def _as_written(self, message: Message) -> Message:
        """A reply with tool calls as the model wrote it, if the client has changed only its form.

        Includes the thinking before the calls if the client left that out, because templates show it until
        the next question.
        """
        if message.role != "assistant":
            return message
        if not message.tool_calls:
            return replace(message, content=message.content.rstrip("\n"))
        written = self._calls.get(message.tool_calls[0].id)
        if written is None or _meaning(message) != _meaning(written):
            return message
        return replace(written, thinking=message.thinking or written.thinking)

    def add(
        self,
        conversation: Conversation,
        message: Message,
        finish_reason: str,
        record: ReplyRecord,
        *,
        private: bool = False,
    ) -> Entry:
        """Add a reply at the head, so that it is known when a client sends it back."""
        parent = conversation.head
        entry = Entry(entry_id(parent, message), parent, message, time.time(), finish_reason, record=record)
        if entry.id not in conversation.entries:
            conversation.add(entry)
        facts: dict[str, Any] = {"date": conversation.date}
        if message.tool_calls:
            self._know_calls(message)
            facts["message"] = {**asdict(message), "images": []}
        self.note(entry, record, private=private, **facts)
        return entry

    def note(self, reply: Entry, record: Mapping[str, Any], *, private: bool = False, **facts: Any) -> None:
        """Add to a reply's record; for a `private` one, in memory only."""
        self.remember(reply.id, record, private=private, **facts)

    def remember(
        self, identifier: str, record: Mapping[str, Any], *, private: bool = False, **facts: Any
    ) -> None:
        """Add to the facts about an entry or a response, by its identifier."""
        before = self._replies.pop(identifier, {})
        known = {**before, **facts, "record": {**before.get("record", {}), **record}}
        self._replies = {**dict(list(self._replies.items())[1 - MAX_REPLIES :]), identifier: known}
        if self._folder is None or private:
            return
        was_written = not self._unwritten
        self._unwritten.append({"id": identifier, "record": dict(record), **facts})
        try:
            while self._unwritten:
                served.append(self._folder, self._unwritten[0])
                self._unwritten.popleft()
        except OSError as error:
            if was_written:  # said once
                logger.warning("%s cannot be written: %s", self._folder / served.NAME, error.strerror)

    def fact(self, entry: Entry, name: str) -> Any:
        """A reply's fact of this name, or None."""
        return self.facts(entry.id).get(name)

    def facts(self, identifier: str) -> Mapping[str, Any]:
        """Everything remembered about an identifier."""
        return self._replies.get(identifier, {})

    def _know_calls(self, message: Message) -> None:
        calls = {call.id: message for call in message.tool_calls}
        self._calls = {**dict(list(self._calls.items())[len(calls) - MAX_REPLIES :]), **calls}


def entry_id(parent: str | None, message: Message) -> str:
    """An id that depends on the messages up to this one, except for thinking and the ids of tool calls."""
    calls = [(call.name, _value(call.arguments)) for call in message.tool_calls]
    images = [picture.sha256 for picture in message.images]
    text = json.dumps([parent, message.role, message.text.strip(), calls, images], sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:ID_DIGITS]


def _meaning(message: Message) -> tuple[str, Sequence[tuple[str, str, Any]]]:
    """A reply with tool calls in a canonical form, independent of white space and JSON order."""
    calls = [(call.id, call.name, _value(call.arguments)) for call in message.tool_calls]
    return message.text.strip(), calls


def _value(arguments: str) -> Any:
    with suppress(ValueError, RecursionError):
        value = json.loads(arguments)
        if is_shallow(value, MAX_JSON_DEPTH):
            return value
    return arguments


def _message(fields: Mapping[str, Any]) -> Message:
    """A reply from its fields on disk. Raises one of `DAMAGE`."""
    content, thinking = fields["content"], fields["thinking"]
    if not isinstance(content, str) or not isinstance(thinking, str):
        raise TypeError(fields)
    return Message("assistant", content, thinking, tool_calls=tool_calls_of(fields["tool_calls"]))
