"""The HTTP routes: parse a request, submit it to the engine, and stream its events to the client.

The engine delivers events from its own thread. Each request has a queue for them on the event loop.
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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, Protocol

from prometheus_client import CONTENT_TYPE_LATEST
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
    SchemaRefused,
    TemplateRefused,
    TokenUnknown,
    UsageError,
)
from chatcli.events import TurnRecord
from chatcli.replies.answer_form import check
from chatcli.serve import anthropic, openai, responses
from chatcli.serve.guard import Access, guarded
from chatcli.serve.metrics import Metrics
from chatcli.serve.request import Deliver, ReplyDone, ReplyEvent, ReplyRequest
from chatcli.serve.wire import BadRequest, Body, Exchange, Fields, Json, parse, with_shallow_calls
from chatcli.text import clean_line, count, duration, file_size, shorten, without_quoted

# Large, because of images.
MAX_BODY_BYTES = 64 << 20
# The limit for all open requests together. Bodies larger than `LARGE_BODY_BYTES` are parsed one at a time.
MAX_BODIES_BYTES, LARGE_BODY_BYTES = 256 << 20, 1 << 20
# Refusals with these statuses can come in floods, so their log lines are rate limited.
RATE_LIMITED, RATE_LIMIT_SECONDS = (401, 403, 503), 1.0
# Running and waiting requests.
MAX_REQUESTS = 256
# What makes a request private in every API: any value but 0 and false.
PRIVATE_HEADER = "x-chatcli-private"
# The longest silence of a stream: clients and proxies drop silent ones.
KEEP_ALIVE_SECONDS = 1.0
# Time limits for receiving a body, and for a client to accept data.
BODY_SECONDS = 120.0
WRITE_SECONDS = 120.0
# Errors of the request, not of the server.
REFUSED = (UsageError, ContextFull, MemoryFull, TemplateRefused, TokenUnknown)
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Otherwise nginx would buffer the whole stream.
    (b"x-accel-buffering", b"no"),
]
MAX_LOGGED_PATH = 80
# The events of a request's replies, each with the exchange that takes it.
Events = asyncio.Queue[tuple[Exchange, ReplyEvent | ChatcliError]]
# Reads a request's body, for the model of this name. Raises `ChatcliError`.
ReadExchange = Callable[[Fields, str], Exchange]


class Backend(Protocol):
    """Answers requests on its own thread."""

    model: str
    # A sentence for clients that send tools; may be empty.
    tools_notice: str
    # Whether it cannot answer any more, because of an error.
    failed: bool

    def start(self) -> None:
        """Load the model. Raises `ChatcliError`."""

    def submit(self, request: ReplyRequest, deliver: Deliver) -> threading.Event:
        """Queue a request. Setting the returned event cancels it.

        `deliver` is called from another thread with each event. The last one is a `ReplyDone` or an error.
        """

    def status(self) -> Mapping[str, Any]:
        """Metrics for people and monitors, as JSON values."""

    def close(self) -> str | None:
        """Write everything and stop. Returns a sentence if something could not be written."""


class Stopped(ChatcliError):
    """The server is stopping, or something other than the client ended the reply."""


class Api:
    """The ASGI application and its running requests."""

    def __init__(self, engine: Backend, *, log_messages: bool = False) -> None:
        self.engine = engine
        self.state: Literal["loading", "ok", "stopping"] = "loading"
        self._log_messages = log_messages
        self._created = int(time.time())
        self.metrics = Metrics(self._engine_status)
        # The cancel events of running requests.
        self.running: set[threading.Event] = set()
        # The size of all open requests' bodies.
        self.body_bytes = 0
        self._reading = asyncio.Lock()
        self._rate_limited = {status: RateLimitedLog() for status in RATE_LIMITED}

    def stop(self) -> None:
        """Cancel every reply after its current token, and refuse new requests."""
        self.state = "stopping"
        cancel(self.running)

    def application(self, access: Access) -> ASGIApp:
        routes = (
            ("POST", "/v1/chat/completions", self._answer(openai.ChatCompletion)),
            ("POST", "/v1/completions", self._answer(openai.Completion)),
            ("POST", "/v1/responses", self._answer(partial(responses.Responses, items=responses.Items()))),
            ("POST", "/v1/messages", self._answer(anthropic.Messages)),
            ("POST", "/v1/messages/count_tokens", self._answer(anthropic.TokenCount)),
            ("GET", "/v1/models", self._models),
            ("GET", "/v1/models/{name:path}", self._model),
            ("GET", "/v1/status", self._status),
            ("GET", "/metrics", self._metrics),
            ("GET", "/health", self._health),
            # People open it, and agents check that the server is there.
            ("GET", "/", self._root),
        )
        listed = dict.fromkeys(f"{method} {path.partition('/{')[0]}" for method, path, _ in routes[:-1])
        self._listing = ", ".join(listed)
        handlers: Any = {HTTPException: self._no_such_route}
        app = Starlette(
            routes=[Route(path, endpoint, methods=[method]) for method, path, endpoint in routes],
            exception_handlers=handlers,
        )
        app.router.redirect_slashes = False
        return guarded(self._catch_all(app), access, self._refused)

    # Replies

    def _answer(self, exchange: ReadExchange) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def endpoint(request: Request) -> ASGIApp:
            share = BodyShare(self)
            response: ASGIApp | None = None
            try:
                response = await self._receive(exchange, request, share)
                return response
            finally:
                # A `ReplyResponse` releases the share itself.
                if not isinstance(response, ReplyResponse):
                    share.release()

        return endpoint

    async def _receive(self, exchange: ReadExchange, request: Request, share: BodyShare) -> ASGIApp:
        """The reply to a request, which keeps the body's `share`, or an error response."""
        began = time.monotonic()
        if self.state != "ok":
            return self.error(request.scope, 503, f"The server is {self.state}: try again in a moment.")
        if len(self.running) >= MAX_REQUESTS:
            return self.error(request.scope, 503, "Too many requests are waiting: try again in a moment.")
        try:
            body = await asyncio.wait_for(read_body(request, share), BODY_SECONDS)
            # Parsing takes several times the size of the body.
            async with self._reading if len(body) > LARGE_BODY_BYTES else contextlib.nullcontext():
                read = await asyncio.to_thread(_read, exchange, body, self.engine.model)
            if request.headers.get(PRIVATE_HEADER, "0").lower() not in ("0", "false"):
                read.request = replace(read.request, private=True)
            request.scope["private"] = read.request.private
        except TimeoutError:
            return self.error(request.scope, 408, "The body of the request did not arrive in time.")
        except BodyRefused as error:
            return self.error(request.scope, error.status, str(error))
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
        if (name := request.path_params["name"]) != self.engine.model:
            shown = shorten(name, MAX_LOGGED_PATH)
            sentence = f"There is no model '{shown}' here: '{self.engine.model}' is served."
            return self.error(request.scope, 404, sentence)
        return JSONResponse(self._model_object())

    def _model_object(self) -> Json:
        """The served model, for the clients of OpenAI and Anthropic."""
        name = self.engine.model
        created_at = datetime.fromtimestamp(self._created).astimezone().isoformat()
        of_openai = {"id": name, "object": "model", "created": self._created, "owned_by": "chatcli"}
        return {**of_openai, "type": "model", "display_name": name, "created_at": created_at}

    def _engine_status(self) -> Mapping[str, Any]:
        return self.engine.status() if self.state == "ok" else {}

    async def _metrics(self, request: Request) -> Response:
        return Response(await asyncio.to_thread(self.metrics.text), media_type=CONTENT_TYPE_LATEST)

    async def _status(self, request: Request) -> Response:
        status = await asyncio.to_thread(self._engine_status)
        return JSONResponse({"status": self.state, "running": len(self.running), **status})

    async def _root(self, request: Request) -> Response:
        return JSONResponse({"chatcli": __version__, "model": self.engine.model, "routes": self._listing})

    async def _health(self, request: Request) -> Response:
        state = "failed" if self.engine.failed else self.state
        return JSONResponse({"status": state}, 200 if state == "ok" else 503)

    # Errors

    async def _no_such_route(self, request: Request, error: Exception) -> ASGIApp:
        assert isinstance(error, HTTPException)
        sentence = f"{error.detail}: the routes are {self._listing}."
        return self.error(request.scope, error.status_code, sentence, error.headers)

    def _refused(self, scope: Scope, status: int, sentence: str) -> ASGIApp:
        # The body is not read, so the next request's start is unknown.
        return self.error(scope, status, sentence, {"connection": "close"})

    def error_of(self, scope: Scope, error: ChatcliError) -> Response:
        """An error response in the format of the client's API."""
        status = status_of(error)
        api = anthropic if is_anthropic(scope) else openai
        self.log(scope, status, str(error))
        return JSONResponse(api.error_of(error, status), status)

    def error(
        self, scope: Scope, status: int, sentence: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        if (log := self._rate_limited.get(status)) is None:
            self.log(scope, status, sentence)
        else:
            log.write(f"{scope['method']} {shorten(scope['path'], MAX_LOGGED_PATH)} {status}: {sentence}")
        body = (anthropic if is_anthropic(scope) else openai).error_body(status, sentence)
        retry = {"retry-after": "1"} if status == 503 else {}
        return JSONResponse(body, status, {**retry, **(headers or {})})

    def _catch_all(self, app: ASGIApp) -> ASGIApp:
        """Answer an unexpected error with one sentence, and print its traceback if debugging."""

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
                sentence = f"Unexpected error: {type(error).__name__}. This is a bug in the server."
                response = self.error(scope, 500, sentence)
                if not begun:
                    await response(scope, receive, send)

        return caught

    def log(self, scope: Scope, status: int | str, what: str) -> None:
        """Log one line, without quotes from messages unless `--log-messages` is set."""
        if not self._log_messages or scope.get("private"):
            what = without_quoted(what)
        log_line(f"{scope['method']} {shorten(scope['path'], MAX_LOGGED_PATH)} {status}: {what}")

    def log_reply(self, scope: Scope, exchange: Exchange, record: TurnRecord, began: float) -> None:
        """Log a reply's token counts, its time, and why more tokens were not reused."""
        self.metrics.answered(record)
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
        if exchange.unread:
            parts.append(f"unknown fields: {', '.join(exchange.unread)}")
        if record.miss_reason:
            parts.append(record.miss_reason)
        self.log(scope, record.finish_reason, ", ".join(parts))
        if self._log_messages and not exchange.request.private:
            asked = exchange.request.prompt or exchange.request.messages[-1].content
            self.log(scope, "asked", asked)
            calls = (f"{call.name}({call.arguments})" for call in exchange.calls)
            self.log(scope, "replied", " ".join((exchange.text, *calls)))


class RateLimitedLog:
    """Logs lines of one kind, at most one per second, so that a flood of requests cannot fill the disk."""

    def __init__(self) -> None:
        self._last, self._skipped = -RATE_LIMIT_SECONDS, 0

    def write(self, text: str) -> None:
        now = time.monotonic()
        if now - self._last < RATE_LIMIT_SECONDS:
            self._skipped += 1
            return
        log_line(text + (f" ({self._skipped:,} more since the last such line)" if self._skipped else ""))
        self._last, self._skipped = now, 0


def log_line(text: str) -> None:
    """Write one line to the server's log on standard error."""
    print(clean_line(f"{datetime.now():%H:%M:%S} {text}"), file=sys.stderr, flush=True)


class LogHandler(logging.Handler):
    """Writes the engine's warnings to the log. Tracebacks may quote messages, so they need CHATCLI_DEBUG."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        log_line(record.getMessage() + (f": {type(error).__name__}" if error is not None else ""))
        if error is not None and os.environ.get("CHATCLI_DEBUG"):
            traceback.print_exception(error)


class BodyRefused(ChatcliError):
    """A body, or all bodies together, are too large. `status` is the HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(
            f"The body of a request may have at most {file_size(MAX_BODY_BYTES)}."
            if status == 413
            else "The bodies of other requests take all the memory reserved for them: try again in a moment."
        )
        self.status = status


class BodyShare:
    """One request's share of the memory for bodies, until it is answered."""

    def __init__(self, api: Api) -> None:
        self._api, self._bytes = api, 0

    def add(self, size: int) -> None:
        """Raises `BodyRefused`; the share is then free at once, before another body is refused for it."""
        self._api.body_bytes += size
        self._bytes += size
        too_large, too_much = self._bytes > MAX_BODY_BYTES, self._api.body_bytes > MAX_BODIES_BYTES
        if too_large or too_much:
            self.release()
            raise BodyRefused(413 if too_large else 503)

    def release(self) -> None:
        self._api.body_bytes -= self._bytes
        self._bytes = 0


async def read_body(request: Request, share: BodyShare) -> bytearray:
    """Raises `BodyRefused` as early as possible."""
    if int(request.headers.get("content-length") or 0) > MAX_BODY_BYTES:
        raise BodyRefused(413)
    body = bytearray()
    async for chunk in request.stream():
        share.add(len(chunk))
        body += chunk
    return body


def _read(exchange: ReadExchange, body: bytearray, model: str) -> Exchange:
    fields = parse(body)
    read = exchange(fields, model)
    read.unread = fields.values.unread() if isinstance(fields.values, Body) else ()
    read.request = with_shallow_calls(read.request)
    if (form := read.request.answer) is not None:
        try:
            check(form)
        except SchemaRefused as error:
            raise BadRequest(str(error), "tools" if form.forces_calls else read.format_field) from None
    return read


def is_anthropic(scope: Scope) -> bool:
    has_header = any(name == b"anthropic-version" for name, _ in scope["headers"])
    return str(scope["path"]).startswith("/v1/messages") or has_header


def status_of(error: ChatcliError) -> int:
    return 400 if isinstance(error, REFUSED) else 503 if isinstance(error, Stopped) else 500


class ReplyResponse:
    """Streams a reply, or sends it whole. A stream begins once the prompt is matched, or at a keep-alive.

    Before that, an error has its own HTTP status. Afterwards it is the last event of the stream.
    """

    def __init__(self, api: Api, exchange: Exchange, began: float, share: BodyShare) -> None:
        self._api, self._exchange, self._began, self._share = api, exchange, began, share
        self._has_begun = False
        notices = [api.engine.tools_notice] if exchange.request.tools and api.engine.tools_notice else []
        if exchange.unread:
            notices.append(f"This server does not know these fields: {', '.join(exchange.unread)}.")
        self._headers = {"chatcli-notice": " ".join(notices)} if notices else {}
        self._sent = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._reply(scope, receive, send)
        finally:
            self._share.release()

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        api, exchange = self._api, self._exchange
        loop = asyncio.get_running_loop()
        events: Events = asyncio.Queue()

        def deliver(part: Exchange, event: ReplyEvent | ChatcliError) -> None:
            # A forced stop may end the loop first.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(events.put_nowait, (part, event))

        cancelled = [
            api.engine.submit(request, partial(deliver, exchange.part(number)))
            for number, request in enumerate(exchange.requests)
        ]
        api.running.update(cancelled)
        if api.state == "stopping":
            cancel(cancelled)
        left = asyncio.create_task(watch(receive, cancelled))
        try:
            end: ReplyDone | ChatcliError
            for _ in cancelled:
                part, end = await self._pass_on(events, send, left)
                if not isinstance(end, ReplyDone):
                    break
                api.log_reply(scope, part, end.record, self._began)
                if end.record.finish_reason == "cancelled":
                    end = Stopped("The reply was stopped: the server is stopping.")
                    break
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
            api.log(scope, "-", "the client stopped reading its reply")
        finally:
            cancel(cancelled)
            api.running.difference_update(cancelled)
            left.cancel()

    async def _pass_on(
        self, events: Events, send: Send, left: asyncio.Task[None]
    ) -> tuple[Exchange, ReplyDone | ChatcliError]:
        """Send events until the last one of a reply, which is returned. Raises `TimeoutError`."""
        exchange = self._exchange
        while True:
            silence = max(self._sent + KEEP_ALIVE_SECONDS - time.monotonic(), 0)
            part, event = exchange, None
            with contextlib.suppress(TimeoutError):
                part, event = await asyncio.wait_for(events.get(), silence)
            data = exchange.keep_alive() if event is None else b""
            while event is not None and not isinstance(event, ChatcliError):
                if isinstance(event, ReplyDone) and event.record.finish_reason == "cancelled":
                    return part, event
                data += part.take(event)
                if isinstance(event, ReplyDone) or events.empty():
                    break
                # Send queued events together.
                part, event = events.get_nowait()
            if data:
                if exchange.stream and not left.done():
                    await self._write(send, data)
                self._sent = time.monotonic()
            if isinstance(event, ReplyDone | ChatcliError):
                return part, event

    async def _write(self, send: Send, data: bytes, *, more: bool = True) -> None:
        if not self._has_begun:
            self._has_begun = True
            own = [(name.encode(), text.encode("latin-1", "replace")) for name, text in self._headers.items()]
            await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *own]})
        message = {"type": "http.response.body", "body": data, "more_body": more}
        await asyncio.wait_for(send(message), WRITE_SECONDS)


async def watch(receive: Receive, cancelled: Sequence[threading.Event]) -> None:
    """Wait until the client disconnects, then cancel its replies."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel(cancelled)


def cancel(cancelled: Iterable[threading.Event]) -> None:
    for each in cancelled:
        each.set()
