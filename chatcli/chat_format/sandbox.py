"""Renders chat templates: the child process of `renderer`, which may be killed at any instant.

A template is code from the model's makers. A single step of it may take all memory or run forever inside C,
where Python cannot interrupt it, so the operating system enforces both limits. Requests arrive on standard
input and answers leave on standard output. To start fast, it imports nothing of chatcli.
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

# A frame is its length in this many bytes, then its content.
LENGTH_BYTES = 8
# The first byte of an answer: a text, a refusal with its reason, or out of memory.
TEXT, REFUSED, OUT_OF_MEMORY = b"t", b"r", b"m"
# The longest text accepted: this many times the request's bytes, plus a constant.
MAX_GROWTH, MAX_CHARACTERS = 16, 1 << 20


def main() -> None:
    """Answer requests until standard input is closed.

    The arguments are the memory limit in bytes (0: none), the time limit for each text in seconds, and
    `sys.path`. A request is a template and the contexts to render it with. Each context has its own answer.
    """
    memory, seconds, *sys.path[:] = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit := int(memory):
        # macOS has no such limit: the parent polls instead.
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
            # Flush now: the next rendering may end the process.
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
    """A context's text, or the variables that the template reads, of at most `most` characters."""
    try:
        text = " ".join(undeclared_variables(source)) if context is None else render(source, context)
        if len(text) > most:
            return REFUSED + b"it writes more than any model can read"
        return TEXT + text.encode(errors="surrogatepass")
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:
        # A template can raise anything.
        return REFUSED + reason(error).encode(errors="replace")


def reason(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def render(source: str, context: dict[str, Any]) -> str:
    """The text of a conversation. Raises anything."""
    return _compiled(source).render(context)


def undeclared_variables(source: str) -> Iterable[str]:
    """The variables that a template reads; empty if it has errors, which rendering will report."""
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
    """The Jinja environment that transformers' `apply_chat_template` gives templates."""
    from jinja2 import TemplateError
    from jinja2 import nodes as jinja_nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class GenerationTag(Extension):
        """The `generation` tag, which marks training targets and renders as its content."""

        tags = {"generation"}  # noqa: RUF012 - jinja2's own way

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja_nodes.Scope(body, lineno=line)

    class PublicNamespace(Namespace):
        """A namespace that refuses names with a leading underscore."""

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
        """`dict` without its other methods, which could mutate immutable values."""

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
        # Jinja's own filter escapes HTML.
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
