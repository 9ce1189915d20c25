"""Runs a server in a child process and sends it HTTP requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from chatcli.errors import ChatcliError
from chatcli.text import shorten

HOST = "127.0.0.1"
READY_TIMEOUT_SECONDS = 900.0
RESPONSE_TIMEOUT_SECONDS = 3600.0
PROBE_TIMEOUT_SECONDS = 5.0
# How long a server may take to end before it is killed, because some write their caches then.
GRACE_SECONDS = 60.0
POLL_SECONDS = 0.05
MAX_MESSAGE_LETTERS = 300
LOG_TAIL_BYTES = 8192

# Lines with these texts are not errors. mlx-lm's server may say that it listens after its model failed.
ROUTINE = (" HTTP/1.", " - INFO - ")
# mlx-lm's server keeps running without a model that it could not load.
MODEL_UNAVAILABLE = b'"unavailable"'

# Requests to this machine use no proxy.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Event = Mapping[str, Any]
# Returns the command that serves on a port.
Command = Callable[[int], Sequence[str]]


class Server:
    """A server that runs until `close`. Ctrl-C reaches it too."""

    def __init__(
        self,
        name: str,
        command: Command,
        ready: str,
        ready_timeout: float = READY_TIMEOUT_SECONDS,
        grace: float = GRACE_SECONDS,
    ) -> None:
        """Start it and wait until it answers GET `ready`. Raises `ChatcliError` if it does not.

        `grace` is how many seconds it may take to end; 0: kill it at once.
        """
        self._name, self._grace = name, grace
        with socket.socket() as listener:
            listener.bind((HOST, 0))
            self._port = int(listener.getsockname()[1])
        self._command = list(command(self._port))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        try:
            deadline = time.monotonic() + ready_timeout
            while not self._answers(ready):
                if self._process.poll() is not None:
                    raise self._error("could not be started")
                if time.monotonic() > deadline:
                    raise self._error("was not ready in time")
                time.sleep(POLL_SECONDS)
        except BaseException:
            self.close()
            raise

    def _answers(self, path: str) -> bool:
        try:
            with OPENER.open(f"http://{HOST}:{self._port}{path}", timeout=PROBE_TIMEOUT_SECONDS):
                return True
        except urllib.error.HTTPError as error:
            if MODEL_UNAVAILABLE in error.read():
                raise self._error("could not be started") from error
        except (OSError, http.client.HTTPException):
            pass
        return False

    def get(self, path: str) -> Any:
        """The JSON at `path`. Raises `ChatcliError`."""
        with self._response(path, None) as response:
            return json.load(response)

    def stream(self, path: str, body: Event) -> Iterator[Event]:
        """Yield the events of a response as they arrive. Raises `ChatcliError`."""
        with self._response(path, body) as response:
            for line in response:
                field, _, value = line.strip().partition(b":")
                if value.strip() == b"[DONE]":
                    return
                # Comments and blank lines keep the connection open.
                if field == b"error" or (field == b"data" and "error" in json.loads(value)):
                    raise self._error(f"gave up: {message_of(value)}")
                if field == b"data":
                    yield json.loads(value)
        raise self._error("did not finish an answer")

    @contextlib.contextmanager
    def _response(self, path: str, body: Event | None) -> Iterator[Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{HOST}:{self._port}{path}", data, headers)
        try:
            with OPENER.open(request, timeout=RESPONSE_TIMEOUT_SECONDS) as response:
                yield response
        except urllib.error.HTTPError as error:
            raise self._error(f"refused {path}: {message_of(error.read())}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._error(f"did not finish an answer ({error or type(error).__name__})") from error

    def close(self) -> None:
        """Terminate it, and kill it after the grace period."""
        if self._grace:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self._grace)
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _error(self, what: str) -> ChatcliError:
        """An error with the last line of the server's log that is neither a request nor just information."""
        # pread does not move the offset at which the server keeps writing.
        handle = self._log.fileno()
        data = os.pread(handle, LOG_TAIL_BYTES, max(os.fstat(handle).st_size - LOG_TAIL_BYTES, 0))
        lines = data.decode(errors="replace").splitlines()
        lines = [line for line in lines if line.strip() and not any(part in line for part in ROUTINE)]
        quoted = f" Its log ends: {shorten(lines[-1], MAX_MESSAGE_LETTERS)}" if lines else ""
        command = shlex.join(self._command)
        return ChatcliError(f"{self._name} {what}.{quoted} Try it alone: {command}")


def message_of(data: bytes) -> str:
    """The reason in an error response, from whichever field has it."""
    try:
        event: Any = json.loads(data)
    except ValueError:
        event = data.decode(errors="replace")
    while isinstance(event, dict):
        values = (event.get(key) for key in ("error", "message", "detail"))
        event = next((value for value in values if value), "without a reason")
    return shorten(str(event), MAX_MESSAGE_LETTERS).rstrip(".")
