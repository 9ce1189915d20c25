"""The routes: HTTP to a request for a reply, and its events back as they come, until the client leaves.

The engine's events come from its thread; each request takes them from a queue of its own, on the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from chatcli import __version__
from chatcli.errors import (
    ChatcliError,
    ContextFull,
    MemoryFull,
    TemplateRefused,
    TokenUnknown,
    UsageError,
)
from chatcli.events import TurnRecord
from chatcli.serve import anthropic, openai, responses
from chatcli.serve.guard import Access, Guard
from chatcli.serve.request import Deliver, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.serve.wire import Exchange, Json, parse, with_shallow_calls
from chatcli.text import clean_line, count, duration, file_size, shorten, without_quoted

# Images make bodies large.
MAX_BODY_BYTES = 64 << 20
# Of all that are being received or answered, and from which size on only one at a time is read.
MAX_BODIES_BYTES, LARGE_BODY_BYTES = 256 << 20, 1 << 20
# Requests that are refused with one of these are many at once, and told seldom.
SELDOM, SELDOM_SECONDS = (401, 403, 503), 1.0
# Requests that are being answered, or wait for that.
MAX_REQUESTS = 256
# A stream says something at least as often: clients and proxies give up on a silent one.
KEEP_ALIVE_SECONDS = 1.0
# A body must have come by then, and what is sent be taken.
BODY_SECONDS = 120.0
WRITE_SECONDS = 120.0
# Errors that are the request's, not the server's.
REFUSED = (UsageError, ContextFull, MemoryFull, TemplateRefused, TokenUnknown)
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # nginx would keep a stream back until it ends.
    (b"x-accel-buffering", b"no"),
]
MAX_LOGGED_PATH = 80


class Engine(Protocol):
    """What answers requests, on a thread of its own."""

    model: str
    # What a client that brings tools is told; empty: nothing.
    tools_notice: str
    # Whether it cannot answer any more, because of an error.
    failed: bool

    def start(self) -> None:
        """Load the model. Raises `ChatcliError`."""

    def submit(self, request: ReplyRequest, deliver: Deliver) -> threading.Event:
        """Have a request answered; setting the event that is returned cancels it.

        `deliver` is called from another thread with each event, last a `ReplyDone` or an error.
        """

    def status(self) -> Mapping[str, Any]:
        """Numbers for a person or a monitor, as JSON."""

    def close(self) -> str | None:
        """Write everything and end. Returns a sentence if something could not be written."""


class Stopped(ChatcliError):
    """The server stops, or the reply was ended by something else than its client."""


class Api:
    """The server's application, and the requests that it is answering."""

    def __init__(self, engine: Engine, *, log_messages: bool = False) -> None:
        self.engine = engine
        self.state: Literal["loading", "ok", "stopping"] = "loading"
        self._log_messages = log_messages
        self._created = int(time.time())
        # The events that cancel them.
        self.running: set[threading.Event] = set()
        # Of the bodies of all requests.
        self.body_bytes = 0
        self._reading = asyncio.Lock()
        self._seldom = {status: Seldom() for status in SELDOM}

    def stop(self) -> None:
        """End every reply after its current token, and refuse others."""
        self.state = "stopping"
        for cancelled in self.running:
            cancelled.set()

    def application(self, access: Access) -> ASGIApp:
        routes = (
            ("POST", "/v1/chat/completions", self._answer(openai.ChatCompletion)),
            ("POST", "/v1/completions", self._answer(openai.Completion)),
            ("POST", "/v1/responses", self._answer(responses.Responses)),
            ("POST", "/v1/messages", self._answer(anthropic.Messages)),
            ("POST", "/v1/messages/count_tokens", self._answer(anthropic.TokenCount)),
            ("GET", "/v1/models", self._models),
            ("GET", "/v1/models/{name:path}", self._model),
            ("GET", "/v1/status", self._status),
            ("GET", "/health", self._health),
            # Where people look, and agents whether anybody is there.
            ("GET", "/", self._root),
        )
        listed = dict.fromkeys(f"{method} {path.partition('/{')[0]}" for method, path, _ in routes[:-1])
        self._listing = ", ".join(listed)
        handlers: Any = {HTTPException: self._not_here}
        app = Starlette(
            routes=[Route(path, endpoint, methods=[method]) for method, path, endpoint in routes],
            exception_handlers=handlers,
        )
        app.router.redirect_slashes = False
        return Guard(self._catch_all(app), access, self._refused)

    # Replies

    def _answer(self, exchange: type[Exchange]) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def endpoint(request: Request) -> ASGIApp:
            share = BodyShare(self)
            try:
                response = await self._receive(exchange, request, share)
            except BaseException:
                share.release()
                raise
            if not isinstance(response, ReplyResponse):
                share.release()
            return response

        return endpoint

    async def _receive(self, exchange: type[Exchange], request: Request, share: BodyShare) -> ASGIApp:
        """The reply to a request, which keeps the body's `share`, or what is said in its place."""
        began = time.monotonic()
        if self.state != "ok":
            return self.error(request.scope, 503, f"The server is {self.state}: try again in a moment.")
        if len(self.running) >= MAX_REQUESTS:
            return self.error(request.scope, 503, "Too many requests wait: try again in a moment.")
        try:
            body = await asyncio.wait_for(read_body(request, share), BODY_SECONDS)
            # A large one takes several times its size while it is read.
            async with self._reading if len(body) > LARGE_BODY_BYTES else contextlib.nullcontext():
                read = await asyncio.to_thread(_read, exchange, body, self.engine.model)
        except TimeoutError:
            return self.error(request.scope, 408, "The body of the request did not come.")
        except TooLarge as error:
            return self.error(request.scope, 413, str(error))
        except TooMuch as error:
            return self.error(request.scope, 503, str(error))
        except ClientDisconnect:
            return Response()
        except ChatcliError as error:
            return self.error_of(request.scope, error)
        return ReplyResponse(self, read, began, share)

    # Other routes

    async def _models(self, request: Request) -> Response:
        model = self._model_object()
        ends = {"first_id": model["id"], "last_id": model["id"], "has_more": False}
        return JSONResponse({"object": "list", "data": [model], **ends})

    async def _model(self, request: Request) -> Response:
        return JSONResponse(self._model_object())

    def _model_object(self) -> Json:
        """The served model as OpenAI's and Anthropic's clients read it."""
        name = self.engine.model
        created_at = datetime.fromtimestamp(self._created).astimezone().isoformat()
        of_openai = {"id": name, "object": "model", "created": self._created, "owned_by": "chatcli"}
        return {**of_openai, "type": "model", "display_name": name, "created_at": created_at}

    async def _status(self, request: Request) -> Response:
        status = await asyncio.to_thread(self.engine.status) if self.state == "ok" else {}
        return JSONResponse({"status": self.state, "running": len(self.running), **status})

    async def _root(self, request: Request) -> Response:
        return JSONResponse({"chatcli": __version__, "model": self.engine.model, "routes": self._listing})

    async def _health(self, request: Request) -> Response:
        state = "failed" if self.engine.failed else self.state
        return JSONResponse({"status": state}, 200 if state == "ok" else 503)

    # Errors

    async def _not_here(self, request: Request, error: Exception) -> ASGIApp:
        assert isinstance(error, HTTPException)
        sentence = f"{error.detail}: there is {self._listing}."
        return self.error(request.scope, error.status_code, sentence, error.headers)

    def _refused(self, scope: Scope, status: int, sentence: str) -> ASGIApp:
        # Where a body ends that was not read is not certain.
        return self.error(scope, status, sentence, {"connection": "close"})

    def error_of(self, scope: Scope, error: ChatcliError) -> Response:
        """An error as the caller's own API has it."""
        status = status_of(error)
        api = anthropic if is_anthropic(scope) else openai
        self.log(scope, status, str(error))
        return JSONResponse(api.error_of(error, status), status)

    def error(
        self, scope: Scope, status: int, sentence: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        if (seldom := self._seldom.get(status)) is None:
            self.log(scope, status, sentence)
        else:
            seldom.say(f"{scope['method']} {shorten(scope['path'], MAX_LOGGED_PATH)} {status}: {sentence}")
        body = (anthropic if is_anthropic(scope) else openai).error_body(status, sentence)
        retry = {"retry-after": "1"} if status == 503 else {}
        return JSONResponse(body, status, {**retry, **(headers or {})})

    def _catch_all(self, app: ASGIApp) -> ASGIApp:
        """An unexpected error is one sentence for the client, and a traceback here if it is asked for."""

        async def caught(scope: Scope, receive: Receive, send: Send) -> None:
            begun = False

            async def watched(message: Any) -> None:
                nonlocal begun
                begun = True
                await send(message)

            try:
                await app(scope, receive, watched)
            except Exception as error:
                if os.environ.get("CHATCLI_DEBUG"):
                    traceback.print_exception(error)
                sentence = f"Unexpected error: {type(error).__name__}. This is a bug of the server."
                response = self.error(scope, 500, sentence)
                if not begun:
                    await response(scope, receive, send)

        return caught

    def log(self, scope: Scope, status: int | str, what: str) -> None:
        """One line on standard error, without what messages say unless that is asked for."""
        if not self._log_messages:
            what = without_quoted(what)
        log_line(f"{scope['method']} {shorten(scope['path'], MAX_LOGGED_PATH)} {status}: {what}")

    def log_reply(self, scope: Scope, exchange: Exchange, record: TurnRecord, began: float) -> None:
        """What a reply took, and why less was reused than could have been."""
        if exchange.request.count_only:
            self.log(scope, "counted", count("token", record.prompt_tokens))
            return
        reused = record.reused_tokens + record.typeahead_tokens
        parts = [
            f"{reused:,} of {count('token', record.prompt_tokens)} reused",
            f"{record.prefilled_tokens - record.unrun_tokens:,} prefilled",
            f"{record.generated_tokens:,} generated",
            duration(time.monotonic() - began),
        ]
        if exchange.left_out:
            parts.append(f"tools left out: {', '.join(exchange.left_out)}")
        if record.miss_reason:
            parts.append(record.miss_reason)
        self.log(scope, record.finish_reason, ", ".join(parts))
        if self._log_messages:
            asked = exchange.request.prompt or exchange.request.messages[-1].content
            self.log(scope, "asked", asked)
            calls = (f"{call.name}({call.arguments})" for call in exchange.calls)
            self.log(scope, "replied", " ".join((exchange.text, *calls)))


class Seldom:
    """Lines of one kind for the log, at most one a second: a flood of them would fill the disk."""

    def __init__(self) -> None:
        self._said, self._unsaid = -SELDOM_SECONDS, 0

    def say(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said < SELDOM_SECONDS:
            self._unsaid += 1
            return
        log_line(text + (f" ({self._unsaid:,} more since the last of these lines)" if self._unsaid else ""))
        self._said, self._unsaid = now, 0


def log_line(text: str) -> None:
    """One line of the server's log."""
    print(clean_line(f"{datetime.now():%H:%M:%S} {text}"), file=sys.stderr, flush=True)


class LogHandler(logging.Handler):
    """Has what the engine warns of in the same log. Tracebacks, which may quote messages, if asked for."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        log_line(record.getMessage() + (f": {type(error).__name__}" if error is not None else ""))
        if error is not None and os.environ.get("CHATCLI_DEBUG"):
            traceback.print_exception(error)


class TooLarge(ChatcliError):
    """A body is larger than `MAX_BODY_BYTES`."""

    def __init__(self) -> None:
        super().__init__(f"The body of a request has at most {file_size(MAX_BODY_BYTES)}.")


class TooMuch(ChatcliError):
    """The bodies of all requests are larger than `MAX_BODIES_BYTES`."""

    def __init__(self) -> None:
        super().__init__("The bodies of other requests take all room: try again in a moment.")


class BodyShare:
    """What one request's body takes of the room for all of them, until it is answered."""

    def __init__(self, api: Api) -> None:
        self._api, self._bytes = api, 0

    def add(self, size: int) -> None:
        """Raises `TooMuch` and `TooLarge`."""
        self._api.body_bytes += size
        self._bytes += size
        if self._bytes > MAX_BODY_BYTES:
            raise TooLarge
        if self._api.body_bytes > MAX_BODIES_BYTES:
            raise TooMuch

    def release(self) -> None:
        self._api.body_bytes -= self._bytes
        self._bytes = 0


async def read_body(request: Request, share: BodyShare) -> bytearray:
    """Raises `TooLarge` and `TooMuch` as soon as that is known."""
    if int(request.headers.get("content-length") or 0) > MAX_BODY_BYTES:
        raise TooLarge
    body = bytearray()
    async for chunk in request.stream():
        share.add(len(chunk))
        body += chunk
    return body


def _read(exchange: type[Any], body: bytearray, model: str) -> Exchange:
    read: Exchange = exchange(parse(body), model)
    read.request = with_shallow_calls(read.request)
    return read


def is_anthropic(scope: Scope) -> bool:
    return str(scope["path"]).startswith("/v1/messages")


def status_of(error: ChatcliError) -> int:
    return 400 if isinstance(error, REFUSED) else 503 if isinstance(error, Stopped) else 500


class ReplyResponse:
    """A reply as it comes. A stream begins when the prompt is matched, or after `KEEP_ALIVE_SECONDS`.

    Until then an error has a status of its own; after that it is the stream's last event.
    """

    def __init__(self, api: Api, exchange: Exchange, began: float, share: BodyShare) -> None:
        self._api, self._exchange, self._began, self._share = api, exchange, began, share
        self._has_begun = False
        notice = api.engine.tools_notice if exchange.request.tools else ""
        self._headers = {"chatcli-notice": notice} if notice else {}
        self._sent = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._reply(scope, receive, send)
        finally:
            self._share.release()

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        api, exchange = self._api, self._exchange
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[ReplyEvent | ChatcliError] = asyncio.Queue()

        def deliver(event: ReplyEvent | ChatcliError) -> None:
            # The loop ends first where the server is stopped at once.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(events.put_nowait, event)

        cancelled = api.engine.submit(exchange.request, deliver)
        api.running.add(cancelled)
        if api.state == "stopping":
            cancelled.set()
        left = asyncio.create_task(watch(receive, cancelled))
        try:
            end = await self._pass_on(events, send, left)
            if isinstance(end, ReplyDone):
                api.log_reply(scope, exchange, end.record, self._began)
                if end.record.finish_reason == "cancelled":
                    end = Stopped("The reply was stopped: the server is stopping.")
            if left.done():
                return
            if isinstance(end, ReplyDone):
                if exchange.stream:
                    await self._write(send, b"", more=False)
                else:
                    await JSONResponse(exchange.whole(), headers=self._headers)(scope, receive, send)
            elif self._has_begun:
                api.log(scope, status_of(end), str(end))
                await self._write(send, exchange.error_frame(end, status_of(end)), more=False)
            else:
                await api.error_of(scope, end)(scope, receive, send)
        except TimeoutError:
            api.log(scope, "-", "the client does not read its reply")
        finally:
            cancelled.set()
            api.running.discard(cancelled)
            left.cancel()

    async def _pass_on(
        self, events: asyncio.Queue[ReplyEvent | ChatcliError], send: Send, left: asyncio.Task[None]
    ) -> ReplyDone | ChatcliError:
        """Send what comes until the last event, which is returned. Raises `TimeoutError`."""
        exchange = self._exchange
        while True:
            silence = max(self._sent + KEEP_ALIVE_SECONDS - time.monotonic(), 0)
            event: ReplyEvent | ChatcliError | None = None
            with contextlib.suppress(TimeoutError):
                event = await asyncio.wait_for(events.get(), silence)
            data = exchange.keep_alive() if event is None else b""
            while event is not None and not isinstance(event, ChatcliError):
                if isinstance(event, ReplyDone) and event.record.finish_reason == "cancelled":
                    return event
                data += exchange.take(event)
                if isinstance(event, ReplyDone) or events.empty():
                    break
                # What has come meanwhile is sent with it.
                event = events.get_nowait()
            if data:
                if exchange.stream and not left.done():
                    await self._write(send, data)
                self._sent = time.monotonic()
            if isinstance(event, ReplyDone | ChatcliError):
                return event

    async def _write(self, send: Send, data: bytes, *, more: bool = True) -> None:
        if not self._has_begun:
            self._has_begun = True
            own = [(name.encode(), text.encode("latin-1", "replace")) for name, text in self._headers.items()]
            await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *own]})
        message = {"type": "http.response.body", "body": data, "more_body": more}
        await asyncio.wait_for(send(message), WRITE_SECONDS)


async def watch(receive: Receive, cancelled: threading.Event) -> None:
    """End when the client has left, which cancels the reply."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancelled.set()
