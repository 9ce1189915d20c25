"""A server's engine without HTTP: ask, wait for the reply, wait until nothing is left to do."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError
from chatcli.events import ToolCall
from chatcli.serve.engine import Engine
from chatcli.serve.request import ReplyDone, ReplyEvent, ReplyRequest
from chatcli.settings.values import Sampling, Settings
from tests.support.harness import SYSTEM

TIMEOUT_SECONDS = 60.0


class Asked:
    """A request under way: its events as they come."""

    def __init__(self, engine: Engine, request: ReplyRequest) -> None:
        self._queue: queue.SimpleQueue[ReplyEvent | ChatcliError] = queue.SimpleQueue()
        self.cancelled = engine.submit(request, self._queue.put)
        self.events: list[ReplyEvent | ChatcliError] = []

    def until(self, kind: type) -> Any:
        """The first event of a kind. Raises the error that comes in its place."""
        while True:
            event = self._queue.get(timeout=TIMEOUT_SECONDS)
            self.events.append(event)
            if isinstance(event, kind):
                return event
            if isinstance(event, ChatcliError):
                raise event

    def done(self) -> ReplyDone:
        reply: ReplyDone = self.until(ReplyDone)
        return reply


class Served:
    """An engine in this process, with the messages of one client."""

    def __init__(
        self, model: Path, sessions: Path, *, tokens: int = 24, keep: bool = False, **options: Any
    ) -> None:
        """`options` are fields of `Settings`. As in `Harness` every checkpoint's state is on disk."""
        sampling = Sampling(max_tokens=tokens)
        settings = Settings(sessions=sessions, sampling=sampling, **{"recompute_seconds": 0.0, **options})
        self.engine = Engine(settings, str(model), keep=keep)
        self.engine.start()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.engine.close() is None

    def submit(self, messages: Sequence[Message], **options: Any) -> Asked:
        return Asked(self.engine, ReplyRequest(tuple(messages), **options))

    def ask(self, messages: Sequence[Message], **options: Any) -> ReplyDone:
        return self.submit(messages, **options).done()

    def rest(self) -> None:
        """Wait until everything is settled and on disk."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while any(self.engine.status()[name] for name in ("active", "queued", "unsettled", "unwritten")):
            assert time.monotonic() < deadline
            time.sleep(0.005)


def question(text: str, history: Sequence[Message] = ()) -> list[Message]:
    """A request's messages: the history, or the system prompt, and what is asked."""
    return [*(history or [Message("system", SYSTEM)]), Message("user", text)]


def with_reply(messages: Sequence[Message], reply: ReplyDone) -> list[Message]:
    """The messages with the reply as a client sends it back."""
    text = Message("assistant", reply.record.text, tool_calls=reply.calls).text
    sent = Message("assistant", text, tool_calls=tuple(_of_client(call) for call in reply.calls))
    return [*messages, sent]


def _of_client(call: ToolCall) -> ToolCall:
    """As a client sends it back: its JSON written anew."""
    return replace(call, arguments=json.dumps(json.loads(call.arguments)), start=0, end=0)
