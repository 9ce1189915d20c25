"""A server in a process of its own, spoken to over HTTP on this machine; refuses to know what it answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chatcli.bench import http_guard
from chatcli.errors import ChatcliError
from chatcli.text import shorten

HOST = "127.0.0.1"
# Seconds: for weights to be loaded, for an answer to go on, between two looks, for a look.
LOADING = 900.0
SILENCE = 3600.0
OFTEN = 0.05
SOON = 5.0
LONGEST = 300
# As much of a server's last words as is looked at, in bytes.
TAIL = 8192

# mlx-lm's server goes on without a model that it could not load, and says so.
GIVEN_UP = {"status": "unavailable"}

Event = Mapping[str, Any]
# The command that serves at a port.
Command = Callable[[int], Sequence[str]]


class Server:
    """Ends with `close`, and with this process however that ends."""

    def __init__(
        self,
        name: str,
        command: Command,
        ready: str,
        loading: float = LOADING,
        grace: float = http_guard.GRACE,
    ) -> None:
        """Start it and wait until it answers a GET of `ready`. Raises `ChatcliError` if it does not.

        `loading` is how long it may take, `grace` how long it may take to end, both in seconds.
        """
        self._name = name
        self._port = free_port()
        self._command = list(command(self._port))
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        guard = [sys.executable, "-IS", str(Path(http_guard.__file__)), str(grace)]
        # A session of its own: Ctrl-C is for whoever waits, who ends it.
        self._guard = subprocess.Popen(
            [*guard, *self._command],
            stdin=subprocess.PIPE,
            stdout=self._said,
            stderr=self._said,
            start_new_session=True,
        )
        try:
            self._wait(ready, time.monotonic() + loading)
        except BaseException:
            self.close()
            raise

    def _wait(self, ready: str, deadline: float) -> None:
        while not self._answers(ready):
            if self._guard.poll() is not None:
                raise self._failed("could not be started")
            if time.monotonic() > deadline:
                raise self._failed("was not ready in time")
            time.sleep(OFTEN)

    def _answers(self, path: str) -> bool:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=SOON)
        with contextlib.closing(connection):
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                told = _json(response.read())
            except (OSError, http.client.HTTPException):
                return False
        if told == GIVEN_UP:
            raise self._failed("could not be started")
        return response.status == http.client.OK

    def get(self, path: str) -> Any:
        """The JSON that is there. Raises `ChatcliError`."""
        with self._asked("GET", path, None) as response:
            return _json(response.read())

    def post(self, path: str, body: Event) -> Any:
        """The JSON that a request is answered with. Raises `ChatcliError`."""
        with self._asked("POST", path, body) as response:
            return _json(response.read())

    def stream(self, path: str, body: Event) -> Iterator[Event]:
        """The events that a request is answered with, each as it comes. Raises `ChatcliError`."""
        with self._asked("POST", path, body) as response:
            for line in response:
                if line.removeprefix(b"data:").strip() == b"[DONE]":
                    return
                event = event_of(line)
                if event and "error" in event:
                    raise self._failed(f"gave up: {message_of(event)}")
                if event:
                    yield event
        raise self._failed("broke off an answer")

    @contextlib.contextmanager
    def _asked(self, method: str, path: str, body: Event | None) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=SILENCE)
        data = None if body is None else json.dumps(body)
        with contextlib.closing(connection):
            try:
                connection.request(method, path, data, {"Content-Type": "application/json"})
                response = connection.getresponse()
                if response.status != http.client.OK:
                    raise self._failed(f"refused {path}: {message_of(_json(response.read()))}")
                yield response
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._failed(f"broke off an answer ({error or type(error).__name__})") from error

    def memory(self) -> int:
        """Bytes of its processes that are in memory; 0 where this system does not tell."""
        try:
            listed = subprocess.run(
                ["ps", "-A", "-o", "ppid=,pgid=,rss="],
                capture_output=True,
                text=True,
                timeout=SOON,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return 0
        rows = [[int(cell) for cell in line.split()] for line in listed.splitlines()]
        groups = {group for parent, group, _ in rows if parent == self._guard.pid}
        return sum(kibibytes for _, group, kibibytes in rows if group in groups) * 1024

    def close(self) -> None:
        """End it: it is asked to, then killed. Nothing of it is left afterwards."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        self._said.close()

    def _failed(self, what: str) -> ChatcliError:
        last = self._last_words()
        told = f" Its last words: {last}" if last else ""
        command = shlex.join(self._command)
        return ChatcliError(f"{self._name} {what}.{told} Try it by itself: {command}")

    def _last_words(self) -> str:
        # A look that moves no offset: the server goes on writing at it.
        handle = self._said.fileno()
        data = os.pread(handle, TAIL, max(os.fstat(handle).st_size - TAIL, 0))
        lines = [line for line in data.decode(errors="replace").splitlines() if _tells(line)]
        return shorten(lines[-1], LONGEST) if lines else ""


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        return int(bound.getsockname()[1])


def event_of(line: bytes) -> Event | None:
    """What a line of a stream of events holds; None for a comment or a blank.

    Raises `ValueError` for an event that is no JSON object.
    """
    field, _, value = line.partition(b":")
    if field not in (b"data", b"error"):
        return None
    event = json.loads(value)
    if not isinstance(event, dict):
        raise ValueError("an event that is no object")
    return {"error": event} if field == b"error" else event


def message_of(event: Any) -> str:
    """What a refusal says, in whichever field it is said."""
    while isinstance(event, dict):
        told = (event.get(key) for key in ("error", "message", "detail"))
        event = next((one for one in told if one), "no reason was given")
    return shorten(str(event), LONGEST).rstrip(".")


def _tells(line: str) -> bool:
    """Whether a line of a log is more than that a request came."""
    return bool(line.strip()) and " HTTP/1." not in line


def _json(data: bytes) -> Any:
    """JSON, or the text where it is none."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
