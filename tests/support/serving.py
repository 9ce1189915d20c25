"""A real server on a test thread, with an engine that answers from a script."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from chatcli.errors import ChatcliError, ContextFull
from chatcli.events import PrefillProgress, PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.serve.app import Api, Backend
from chatcli.serve.guard import Access
from chatcli.serve.request import CallsMade, ReplyDone, ReplyEvent, ReplyRequest, TokenLogprob
from chatcli.serve.server import Server, listen, url_of
from tests.support.waiting import wait_until

# What a scripted engine does: events to deliver, errors to end with, seconds to wait.
Step = ReplyEvent | ChatcliError | float

RECORD = TurnRecord(
    "",
    1,
    finish_reason="stop",
    prompt_tokens=40,
    reused_tokens=30,
    typeahead_tokens=2,
    prefilled_tokens=8,
    generated_tokens=5,
    thinking_tokens=2,
    time_to_first_token=0.25,
)
MATCHED = PrefixMatched(40, 30, None, 2)
CALLS = (
    ToolCall("read", '{"path": "a"}', "call_1"),
    ToolCall("list", "{}", "call_2"),
)
SCRIPT: Mapping[str, Sequence[Step]] = {
    "chat": [
        MATCHED,
        PrefillProgress(8, 8),
        TokenLogprob(7, "Hm", -0.5),
        ThinkingDelta("Hm, "),
        ThinkingDelta("é."),
        TokenLogprob(9, "Yes", -0.25),
        TokenLogprob(7, ", ", -0.5, ((7, ", ", -0.5), (8, "No", -math.inf))),
        TextDelta("Yes, "),
        TextDelta("indeed."),
        ReplyDone(RECORD),
    ],
    "call": [MATCHED, TextDelta("I look."), CallsMade(CALLS), ReplyDone(RECORD, CALLS)],
    "odd": [MATCHED, CallsMade((ToolCall("read", '{"a": NaN}', "call_3"),)), ReplyDone(RECORD)],
    "stop": [MATCHED, TextDelta("I "), ReplyDone(RECORD, stop_text="END")],
    "slow": [1.8, MATCHED, PrefillProgress(4, 8), 1.8, TextDelta("There."), ReplyDone(RECORD)],
    "full": [ContextFull("50 tokens do not fit 40.", "In a chat, /compact continues from a summary.")],
    "late": [1.8, ChatcliError("No disk is left.")],
    "broken": [MATCHED, TextDelta("I"), ChatcliError("No disk is left.")],
    "endless": [MATCHED, TextDelta("On"), 60.0, ReplyDone(RECORD)],
    "silent": [60.0, ReplyDone(RECORD)],
}


class ScriptedEngine:
    """Answers each request with the steps that the last message names, and keeps what it was asked."""

    model = "scripted"
    tools_notice = ""
    failed = False

    def __init__(self, script: Mapping[str, Sequence[Step]] = SCRIPT, loading: float = 0.0) -> None:
        self._script, self._loading = script, loading
        self.requests: list[ReplyRequest] = []
        # Those whose client has left.
        self.cancelled: list[ReplyRequest] = []

    def start(self) -> None:
        time.sleep(self._loading)

    def submit(
        self, request: ReplyRequest, deliver: Callable[[ReplyEvent | ChatcliError], None]
    ) -> threading.Event:
        cancel = threading.Event()
        self.requests.append(request)
        threading.Thread(target=self._answer, args=(request, deliver, cancel), daemon=True).start()
        return cancel

    def _answer(self, request: ReplyRequest, deliver: Any, cancel: threading.Event) -> None:
        last = request.prompt or request.messages[-1].content
        for step in self._script.get(last, self._script["chat"]):
            if not isinstance(step, float):
                deliver(step)
            elif cancel.wait(step):
                self.cancelled.append(request)
                deliver(ReplyDone(TurnRecord("", 1, finish_reason="cancelled")))
                return

    def status(self) -> Mapping[str, Any]:
        return {"requests": len(self.requests)}

    def close(self) -> str | None:
        return None


class Started:
    """A real engine that runs already. `called` are the records of its replies to requests with tools."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self.model, self.status, self.close = engine.model, engine.status, engine.close
        self.tools_notice = engine.tools_notice
        self.called: list[TurnRecord] = []

    def start(self) -> None:
        pass

    def submit(
        self, request: ReplyRequest, deliver: Callable[[ReplyEvent | ChatcliError], None]
    ) -> threading.Event:
        def noted(event: ReplyEvent | ChatcliError) -> None:
            if isinstance(event, ReplyDone) and request.tools:
                self.called.append(event.record)
            deliver(event)

        return self._engine.submit(request, noted)


@contextlib.contextmanager
def serving(
    engine: Backend,
    host: str = "127.0.0.1",
    key: str | None = None,
    *,
    wait: bool = True,
    max_connections: int | None = None,
    **options: Any,
) -> Iterator[str]:
    """The URL of a server, which is ready if it is waited for."""
    ready = threading.Event()
    listener = listen(host, 0)
    server = Server(Api(engine, **options), Access(host, key), ready.set, max_connections)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        if wait:
            wait_until(ready.is_set)
        yield url_of(listener, host)
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
