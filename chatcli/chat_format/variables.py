"""Which variables a chat template reads; refuses to know what they are told."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jinja2
import jinja2.meta
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

# What every template is given.
GIVEN = {
    "messages",
    "conversation",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template",
    "tokenize",
    "return_dict",
    "raise_exception",
    "strftime_now",
    "self",
    "kwargs",
}


class Generation(Extension):
    """The tag that marks what a model is trained on; it changes nothing that is rendered."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own way

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def variables(tokenizer: Any, source: str) -> frozenset[str]:
    """The names that a tokenizer's template reads, those aside that every template is given."""
    renderer = _renderer(tokenizer)
    named = {name for name in getattr(tokenizer, "special_tokens_map", {}) if name.endswith("_token")}
    read = _parameters(renderer) if renderer is not None else _undeclared(source)
    return frozenset(read - GIVEN - named)


def _renderer(tokenizer: Any) -> Callable[..., Any] | None:
    """Python code that takes the place of a template, of mlx-lm or of the tokenizer's own class."""
    if (own := getattr(tokenizer, "_chat_template", None)) is not None:
        custom: Callable[..., Any] = inspect.unwrap(own)
        return custom
    inner = type(getattr(tokenizer, "_tokenizer", tokenizer))
    render: Callable[..., Any] | None = getattr(inner, "apply_chat_template", None)
    return None if render is None or render.__module__.startswith("transformers.") else render


def _parameters(renderer: Callable[..., Any]) -> set[str]:
    named = inspect.signature(renderer).parameters.values()
    return {one.name for one in named if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)}


def _undeclared(source: str) -> set[str]:
    environment = jinja2.Environment(extensions=["jinja2.ext.loopcontrols", Generation])
    try:
        return jinja2.meta.find_undeclared_variables(environment.parse(source))
    except jinja2.TemplateError:
        return set()  # it says what is wrong when it is rendered
