"""Renders chat templates in separate processes with limits on time and memory."""

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

# A template that takes longer never ends: long conversations take a tenth of a second.
RENDER_SECONDS = 10.0
# The memory limit of a process, including its own 20 MB.
MEMORY_BYTES = 10**9
# How often the stop signal is checked, and memory if the system does not limit it.
POLL_SECONDS = 0.05
READ_BYTES = 1 << 20

# A rendered text, or the error in its place.
Rendering = str | TemplateRefused


class Stop(Protocol):
    """A signal that ends a rendering, such as `threading.Event`. It is polled."""

    def is_set(self) -> bool: ...


class Renderer:
    """A process that renders templates, one at a time. It cannot be restarted."""

    def __init__(
        self,
        seconds: float = RENDER_SECONDS,
        memory: int = MEMORY_BYTES,
        watched: bool = sys.platform == "darwin",
    ) -> None:
        """`watched`: poll the memory, because the system does not limit it. Raises `TemplateRefused`."""
        self._seconds, self._memory, self._watched = seconds, memory, watched
        limits = [str(0 if watched else memory), str(seconds)]
        # When the stop signal was last checked.
        self._asked = time.monotonic()
        self._socket, other = socket.socketpair()
        try:
            # A new session, so that Ctrl-C in the terminal reaches only the waiting parent.
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
        """Render each context. For None, yield the names of the variables that the template reads.

        Raises `TemplateCutOff` in place of the text that took too long or too much memory.
        """
        # marshal writes a repeated object as a reference, so shared parts are sent once.
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
        """Read `count` bytes of the answer. Raises `EOFError` if the process ends first."""
        if stop is not None and time.monotonic() - self._asked > POLL_SECONDS:
            # Many short texts may arrive without any wait.
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
                f"The model's chat template did not finish within {self._seconds:g} seconds: "
                "choose another model with -m."
            )
        if code == -signal.SIGKILL:
            return self._too_much_memory()
        return TemplateCutOff(
            f"The model's chat template crashed its renderer (exit code {code}): "
            "choose another model with -m."
        )

    def _too_much_memory(self) -> TemplateCutOff:
        return TemplateCutOff(
            f"The model's chat template needs more memory than {file_size(self._memory)}: "
            "choose another model with -m."
        )

    def is_running(self) -> bool:
        """False once another process, such as the kernel's out-of-memory killer, has killed it."""
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._socket.close()


# Processes that wait for work.
_idle: list[Renderer] = []
# A forked child must not share the sockets of its parent.
os.register_at_fork(after_in_child=_idle.clear)


def start() -> None:
    """Start a process ahead of the first rendering."""
    if not _idle:
        _idle.append(Renderer())


def render(
    source: str, contexts: Sequence[Mapping[str, Any] | None], stop: Stop | None = None
) -> list[Rendering]:
    """Render a template with each context, which has JSON values only.

    A failed text is replaced by `TemplateRefused` with the template's own words, or by `TemplateCutOff` if it
    took too long or too much memory. The others are still rendered. Raises `TemplateStopped` once `stop` is
    set.
    """
    renderings: list[Rendering] = []
    while len(renderings) < len(contexts):
        renderer = _idle_renderer()
        try:
            for rendering in renderer.ask(source, contexts[len(renderings) :], stop):
                renderings.append(rendering)
        except BaseException as error:
            # The process has died, or is still working on an abandoned request.
            renderer.close()
            if not isinstance(error, TemplateCutOff) or isinstance(error, TemplateStopped):
                raise
            renderings.append(error)
        else:
            _idle.append(renderer)
    return renderings


def text_of(rendering: Rendering) -> str:
    """The text. Raises the error in its place."""
    if isinstance(rendering, TemplateRefused):
        raise rendering
    return rendering


def undeclared_variables(source: str) -> frozenset[str]:
    """The variables that a template reads; empty if it has errors. Raises `TemplateCutOff`."""
    (names,) = render(source, [None])
    return frozenset(text_of(names).split())


def _idle_renderer() -> Renderer:
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
    """The sentence for a template that raised an error."""
    return f"The model's chat template refuses this conversation: {reason}"


def resident_bytes(process_id: int) -> int:
    """The resident memory of a process, from `ps`; 0 if it has ended."""
    words = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(process_id)], capture_output=True, check=False
    ).stdout.split()
    return int(words[0]) << 10 if words else 0
