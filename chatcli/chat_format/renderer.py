"""Has chat templates rendered in processes of their own, within a limit of time and one of memory."""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from chatcli.chat_format import sandbox
from chatcli.errors import TemplateCutOff, TemplateRefused, TemplateStopped
from chatcli.text import file_size

# A template that takes longer has no end. Long conversations take a tenth of a second.
RENDER_SECONDS = 10.0
# What the process may have, its own 20 MB included.
MEMORY_BYTES = 10**9
# How often a stop signal, and memory where the system does not limit it, are looked at.
POLL_SECONDS = 0.05
READ_BYTES = 1 << 20

# A text, or why there is none.
Rendering = str | TemplateRefused


class Stop(Protocol):
    """A signal that ends a rendering, such as `threading.Event`. It is asked again and again meanwhile."""

    def is_set(self) -> bool: ...


class Renderer:
    """A process that renders templates, one at a time. Once it was ended, it renders nothing more."""

    def __init__(
        self,
        seconds: float = RENDER_SECONDS,
        memory: int = MEMORY_BYTES,
        watched: bool = sys.platform == "darwin",
    ) -> None:
        """`watched`: the system does not limit a process's memory. Raises `TemplateRefused`."""
        self._seconds, self._memory, self._watched = seconds, memory, watched
        limits = [str(0 if watched else memory), str(seconds)]
        # When the stop signal was last asked.
        self._asked = time.monotonic()
        self._socket, other = socket.socketpair()
        try:
            # A session of its own, so that Ctrl-C in the terminal reaches only the process that waits.
            self._process = subprocess.Popen(
                [sys.executable, "-IS", str(Path(sandbox.__file__)), *limits, *sys.path],
                stdin=other.fileno(),
                stdout=other.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._socket.close()
            raise TemplateRefused(
                f"The process that renders the model's chat template cannot be started: {error.strerror}."
            ) from error
        finally:
            other.close()

    def ask(
        self, source: str, contexts: Sequence[Mapping[str, Any] | None], stop: Stop | None
    ) -> Iterator[Rendering]:
        """What a template makes of each context; of None it is the variables that the template reads.

        What contexts share is sent once. Raises `TemplateCutOff` in place of a text that is not written.
        """
        # marshal writes an object that it has met before as a reference.
        plain = [None if context is None else dict(context) for context in contexts]
        request = marshal.dumps((source, plain))
        try:
            self._socket.settimeout(None)
            self._socket.sendall(len(request).to_bytes(sandbox.LENGTH_BYTES) + request)
            self._socket.settimeout(POLL_SECONDS)
            for _ in contexts:
                answer = self._read(int.from_bytes(self._read(sandbox.LENGTH_BYTES, stop)), stop)
                if answer == sandbox.OUT_OF_MEMORY:
                    raise self._too_much_memory()
                text = answer[1:].decode(errors="surrogatepass")
                yield TemplateRefused(refusal(text)) if answer[:1] == sandbox.REFUSED else text
        except (ConnectionError, EOFError):
            raise self._ended() from None

    def _read(self, count: int, stop: Stop | None) -> bytes:
        """So many bytes of the answer. Raises `EOFError` if the process ends before."""
        if stop is not None and time.monotonic() - self._asked > POLL_SECONDS:
            # Of many short texts none is waited for.
            self._end_if(stop)
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._socket.recv(min(count - len(data), READ_BYTES))
            except TimeoutError:
                self._end_if(stop)
                if self._watched and resident_bytes(self._process.pid) > self._memory:
                    raise self._too_much_memory() from None
                continue
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _end_if(self, stop: Stop | None) -> None:
        """Raise `TemplateStopped` once the signal is set."""
        if stop is not None and stop.is_set():
            raise TemplateStopped("The model's chat template was stopped.")
        self._asked = time.monotonic()

    def _ended(self) -> TemplateCutOff:
        code = self._process.wait()
        if code == -signal.SIGALRM:
            return TemplateCutOff(
                f"The model's chat template does not come to an end in {self._seconds:g} seconds: "
                "choose another model with -m."
            )
        if code == -signal.SIGKILL:
            return self._too_much_memory()
        return TemplateCutOff(
            f"The model's chat template broke what renders it (exit code {code}): "
            "choose another model with -m."
        )

    def _too_much_memory(self) -> TemplateCutOff:
        return TemplateCutOff(
            f"The model's chat template needs more memory than {file_size(self._memory)}: "
            "choose another model with -m."
        )

    def is_running(self) -> bool:
        """False once it was killed from outside, as a system does that is short of memory."""
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()


# Those that wait for work.
_idle: list[Renderer] = []
# What two processes read of one pipe, neither would understand.
os.register_at_fork(after_in_child=_idle.clear)


def start() -> None:
    """Start a process, so that it is ready when the first template is rendered."""
    if not _idle:
        _idle.append(Renderer())


def render(
    source: str, contexts: Sequence[Mapping[str, Any] | None], stop: Stop | None = None
) -> list[Rendering]:
    """The texts that a template makes of its contexts: plain values, as JSON has them.

    In place of a text stands `TemplateRefused` with the template's own words, or `TemplateCutOff` if it took
    too long or too much memory: the others are rendered all the same. Raises `TemplateStopped` once `stop`
    is set.
    """
    renderings: list[Rendering] = []
    while len(renderings) < len(contexts):
        renderer = _waiting()
        try:
            for rendering in renderer.ask(source, contexts[len(renderings) :], stop):
                renderings.append(rendering)
        except BaseException as error:
            # It is gone, or at work on what nobody waits for.
            renderer.close()
            if not isinstance(error, TemplateCutOff) or isinstance(error, TemplateStopped):
                raise
            renderings.append(error)
        else:
            _idle.append(renderer)
    return renderings


def text_of(rendering: Rendering) -> str:
    """The text. Raises what stands in its place."""
    if isinstance(rendering, TemplateRefused):
        raise rendering
    return rendering


def undeclared_variables(source: str) -> frozenset[str]:
    """The variables that a template reads; none of one with errors. Raises `TemplateCutOff`."""
    (names,) = render(source, [None])
    return frozenset(text_of(names).split())


def _waiting() -> Renderer:
    with contextlib.suppress(IndexError):
        while not (renderer := _idle.pop()).is_running():
            renderer.close()
        return renderer
    return Renderer()


@atexit.register
def _close() -> None:
    while _idle:
        _idle.pop().close()


def refusal(reason: str) -> str:
    """The sentence for a template that raised."""
    return f"The model's chat template refuses this conversation: {reason}"


def resident_bytes(process_id: int) -> int:
    """The memory that a process has, by `ps`; 0 if it is gone."""
    words = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(process_id)], capture_output=True, check=False
    ).stdout.split()
    return int(words[0]) << 10 if words else 0
