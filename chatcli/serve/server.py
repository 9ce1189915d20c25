"""Runs the routes in uvicorn: the socket, time limits, signals, and a model that loads in the background."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from chatcli.errors import UsageError
from chatcli.serve.app import Api, Backend, LogHandler, RateLimitedLog
from chatcli.serve.guard import Access, is_any

# The time limit for a request's head.
HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 64 << 10
# Open connections, and connections waiting to be accepted.
MAX_CONNECTIONS, MAX_BACKLOG = 1024, 128
# How long idle connections stay open, and how long replies may take to end when the server stops.
IDLE_SECONDS = 60
GRACE_SECONDS = 5
# When a half-closed connection is tried again, and how often after that.
FIRST_PROBE_SECONDS, PROBE_SECONDS = 0.05, 1.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Port 0 selects any free port. Raises `UsageError`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"This machine has no address {host}: leave --host out.") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"Port {port} is taken: choose another with --port.") from error
        raise UsageError(f"Port {port} of {host} cannot be used: {error.strerror}.") from error
    return listener


def connection_limits() -> tuple[int, int]:
    """How many connections may be open, and how many may wait to be accepted, all of them at once.

    Half of the open file limit is left to the store and the model's files.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = MAX_CONNECTIONS * 4 if files == resource.RLIM_INFINITY else files
    backlog = max(min(MAX_BACKLOG, files // 8), 1)
    return max(min(MAX_CONNECTIONS, files // 2 - backlog), 1), backlog


def url_of(listener: socket.socket, host: str) -> str:
    """The URL for clients on this machine."""
    name = "127.0.0.1" if is_any(host) else host
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


class LimitedProtocol(H11Protocol):
    """Closes connections beyond the limit, and connections that do not complete a request's head in time."""

    max_connections: int
    log: RateLimitedLog
    _deadline: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        if len(self.connections) >= self.max_connections:
            self._is_refused = True
            self.log.write(f"A connection was refused: {len(self.connections):,} are open.")
            transport.abort()
            return
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        self._watch_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that has sent its request and no more will come of (half-closed) gets its reply.

        Only writing tells it from one that has left.
        """
        cycle = self.cycle
        if self._is_refused or cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        self._probe(FIRST_PROBE_SECONDS)
        return True

    def _probe(self, interval: float) -> None:
        """Until the reply begins write interim responses, which clients skip: one that has left resets."""
        if self.transport.is_closing() or self.cycle.response_started:
            return
        if self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.loop.call_later(interval, self._probe, PROBE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_refused:
            return
        self._end_watch()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._end_watch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _end_watch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None


class Server(uvicorn.Server):
    """Listens at once and loads the model in the background. SIGINT or SIGTERM, kept in `signal`, ends it."""

    def __init__(
        self, api: Api, access: Access, on_ready: Callable[[], None], max_connections: int | None = None
    ) -> None:
        """`max_connections` None derives it from the open file limit."""
        most, backlog = connection_limits()
        protocol: Any = type(
            "Protocol",
            (LimitedProtocol,),
            {"max_connections": max_connections or most, "log": RateLimitedLog()},
        )
        config = uvicorn.Config(
            api.application(access),
            http=protocol,
            backlog=backlog,
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        super().__init__(config)
        self._api, self._on_ready = api, on_ready
        self._asyncio_log = RateLimitedLog()
        self.signal: int | None = None
        self.error: BaseException | None = None
        self.loading = threading.Thread(target=self._load, name="chatcli-load", daemon=True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._log_loop_error)
        self.loading.start()

    def _log_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log asyncio's errors, such as a failed accept, without a traceback."""
        error = context.get("exception")
        reason = f": {type(error).__name__}, {error}" if error is not None else ""
        self._asyncio_log.write(f"{context['message']}{reason}")
        if error is not None and os.environ.get("CHATCLI_DEBUG"):
            traceback.print_exception(error)

    def _load(self) -> None:
        def loaded() -> None:
            if self.error is None and not self.should_exit:
                self._api.state = "ok"
                try:
                    self._on_ready()
                except OSError as error:  # standard output is closed
                    self.error = error
            self.should_exit |= self.error is not None

        try:
            self._api.engine.start()
        except BaseException as error:  # `serve` raises it on the main thread
            self.error = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(loaded)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Like uvicorn's, but without raising the signals again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread receives signals
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # A second Ctrl-C does not wait for replies to end.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        self.signal = self.signal or sig


def serve(
    engine: Backend,
    access: Access,
    port: int,
    on_ready: Callable[[str], None],
    *,
    log_messages: bool = False,
) -> tuple[int | None, bool]:
    """Answer requests until a signal arrives. Returns its number, and whether the model is still loading.

    `on_ready` is called with the URL once requests are answered. Raises `UsageError` if the port is not
    available, and whatever `Backend.start` raises.
    """
    listener = listen(access.host, port)
    url = url_of(listener, access.host)
    server = Server(Api(engine, log_messages=log_messages), access, lambda: on_ready(url))
    logger, handler = logging.getLogger("chatcli.serve"), LogHandler(logging.WARNING)
    logger.addHandler(handler)
    with contextlib.closing(listener), contextlib.closing(handler):
        server.run([listener])
    logger.removeHandler(handler)
    if server.error is not None:
        raise server.error
    return server.signal, server.loading.is_alive()
