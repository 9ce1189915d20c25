"""Renders chat templates: the child process of `renderer`, which may be killed at any instant.

A template is a program of whoever made the model, and one step of it may take all memory or no end of
time within C, where Python interrupts nothing. So the system holds both limits. Requests come on standard
input and are answered on standard output. Nothing of chatcli is imported, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import functools
import json
import marshal
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment, Template, nodes
    from jinja2.parser import Parser

# A frame is its length in as many bytes, then that many.
LENGTH_BYTES = 8
# What begins an answer: text, the reason why there is none, or that memory has run out.
TEXT, REFUSED, OUT_OF_MEMORY = b"t", b"r", b"m"
# No template makes of a conversation so many times its characters, and so many more.
MAX_GROWTH, MAX_CHARACTERS = 16, 1 << 20


def main() -> None:
    """Answer requests until standard input is closed.

    The arguments are the limits in bytes (0: none) and in seconds for a text, and `sys.path`. A request is a
    template and the contexts to render it with, each of which is answered.
    """
    memory, seconds, *sys.path[:] = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit := int(memory):
        # macOS has no such limit: there the parent watches.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    _environment()
    while length := requests.read(LENGTH_BYTES):
        signal.setitimer(signal.ITIMER_REAL, float(seconds))
        for answer in _answers(requests.read(int.from_bytes(length))):
            answers.write(len(answer).to_bytes(LENGTH_BYTES))
            answers.write(answer)
            # At once: the next one may end the process.
            answers.flush()
            signal.setitimer(signal.ITIMER_REAL, float(seconds))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answers(request: bytes) -> Iterator[bytes]:
    try:
        source, contexts = marshal.loads(request)
    except MemoryError:
        yield OUT_OF_MEMORY
        return
    for context in contexts:
        yield _answer(source, context, MAX_CHARACTERS + MAX_GROWTH * len(request))


def _answer(source: str, context: dict[str, Any] | None, most: int) -> bytes:
    """A text of at most so many characters: a context's, or without one the variables that are read."""
    try:
        text = " ".join(undeclared_variables(source)) if context is None else render(source, context)
        if len(text) > most:
            return REFUSED + b"it writes more than any model can read"
        return TEXT + text.encode(errors="surrogatepass")
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:
        # A template is a program of whoever made the model: it can raise anything.
        return REFUSED + reason(error).encode(errors="replace")


def reason(error: Exception) -> str:
    """One line of what went wrong."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def render(source: str, context: dict[str, Any]) -> str:
    """The text of a conversation. Raises anything."""
    return _compiled(source).render(context)


def undeclared_variables(source: str) -> Iterable[str]:
    """What a template reads; nothing for one with errors: rendering it will say what is wrong."""
    import jinja2.meta

    try:
        return jinja2.meta.find_undeclared_variables(_environment().parse(source))
    except (jinja2.TemplateError, RecursionError):
        return ()


@functools.lru_cache(maxsize=4)
def _compiled(source: str) -> Template:
    return _environment().from_string(source)


@functools.cache
def _environment() -> Environment:
    """What templates are written for: all that transformers gives them in `apply_chat_template`."""
    from jinja2 import TemplateError
    from jinja2 import nodes as jinja_nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class GenerationTag(Extension):
        """The `generation` tag, which marks what a model is trained on and renders as its content."""

        tags = {"generation"}  # noqa: RUF012 - jinja2's own way

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja_nodes.Scope(body, lineno=line)

    class PublicNamespace(Namespace):
        """A namespace without names that mean something to Python."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            self, *given = args
            Namespace.__init__(self)
            for name, value in dict(*given, **kwargs).items():
                self[name] = value

        def __setitem__(self, name: str, value: Any) -> None:
            if str(name).startswith("_"):
                raise SecurityError(f"a namespace has no attribute {name!r}")
            super().__setitem__(name, value)

    class MakeDict:
        """The class itself would lend its methods to change what is not to be changed."""

        fromkeys = staticmethod(dict.fromkeys)

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # Jinja's own escapes HTML.
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message: Any) -> None:
        raise TemplateError(message)

    def strftime_now(format: str) -> str:
        return datetime.now().strftime(format)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {"dict": MakeDict(), "namespace": PublicNamespace}
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    return environment


if __name__ == "__main__":
    main()
