"""uvicorn around the routes: the socket, time limits, signals, and the model that loads meanwhile."""

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
from chatcli.serve.app import Api, Engine, LogHandler, Seldom
from chatcli.serve.guard import Access, is_any

# A request's head must have come by then.
HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 64 << 10
# Connections that are open, and that wait to be taken.
MAX_CONNECTIONS, MAX_BACKLOG = 1024, 128
# How long an idle connection is kept, and how long replies may take to end when the server stops.
IDLE_SECONDS = 60
GRACE_SECONDS = 5
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any that is free. Raises `UsageError`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"There is no address {host} on this machine: leave --host out.") from error
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
    """How many connections may be open, and how many may wait to be taken, which takes them all at once.

    Half of what may be open is left to the store, the model's files and what else the process does.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    files = MAX_CONNECTIONS * 4 if files == resource.RLIM_INFINITY else files
    backlog = max(min(MAX_BACKLOG, files // 8), 1)
    return max(min(MAX_CONNECTIONS, files // 2 - backlog), 1), backlog


def url_of(listener: socket.socket, host: str) -> str:
    """Where clients on this machine find it."""
    name = "127.0.0.1" if is_any(host) else host
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


class LimitedProtocol(H11Protocol):
    """Closes a connection that is one too many, or whose next request's head does not come to its end."""

    max_connections: int
    refused: Seldom
    _deadline: asyncio.TimerHandle | None = None
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        if len(self.connections) >= self.max_connections:
            self._is_refused = True
            self.refused.say(f"A connection was refused: {len(self.connections):,} are open.")
            transport.abort()
            return
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        self._watch_head()

    def eof_received(self) -> None:
        if not self._is_refused:
            super().eof_received()

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
    """Listens at once and loads the model behind it. SIGINT or SIGTERM ends it; `signal` says which."""

    def __init__(
        self, api: Api, access: Access, on_ready: Callable[[], None], max_connections: int | None = None
    ) -> None:
        """`max_connections` None: as many as the limit of open files leaves room for."""
        most, backlog = connection_limits()
        protocol: Any = type(
            "Protocol",
            (LimitedProtocol,),
            {"max_connections": max_connections or most, "refused": Seldom()},
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
        self._complaints = Seldom()
        self.signal: int | None = None
        self.error: BaseException | None = None
        self.loading = threading.Thread(target=self._load, name="chatcli-load", daemon=True)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._tell)
        self.loading.start()

    def _tell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio has to complain of, such as a connection that cannot be had, without a traceback."""
        error = context.get("exception")
        reason = f": {type(error).__name__}, {error}" if error is not None else ""
        self._complaints.say(f"{context['message']}{reason}")
        if error is not None and os.environ.get("CHATCLI_DEBUG"):
            traceback.print_exception(error)

    def _load(self) -> None:
        def loaded() -> None:
            if self.error is None and not self.should_exit:
                self._api.state = "ok"
                try:
                    self._on_ready()
                except OSError as error:  # the output cannot be written
                    self.error = error
            self.should_exit |= self.error is not None

        try:
            self._api.engine.start()
        except BaseException as error:  # the thread that has started the server raises it
            self.error = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(loaded)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, which would raise the signals anew when all has ended."""
        if threading.current_thread() is not threading.main_thread():
            yield  # no signal comes here
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The second Ctrl-C waits for no reply's end.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        self.signal = self.signal or sig


def serve(
    engine: Engine,
    access: Access,
    port: int,
    on_ready: Callable[[str], None],
    *,
    log_messages: bool = False,
) -> tuple[int | None, bool]:
    """Answer requests until a signal comes. Returns its number, and whether the model still loads.

    `on_ready` is called with the URL once requests are answered. Raises `UsageError` where the port cannot be
    had, and what `Engine.start` raises.
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
