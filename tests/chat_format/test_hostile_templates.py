"""Failing templates: each gives one sentence, and Ctrl-C ends it.

A row of `TEMPLATES` is one, and what its sentence says. Those without bounds are in `tests/adversary`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from chatcli.chat_format.template import Template
from chatcli.conversation.tree import Message
from chatcli.errors import ModelError, TemplateRefused
from tests.support.harness import Harness
from tests.support.tiny import write_model, write_tokenizer

DATE = "2025-03-01"
QUESTION = [Message("user", "Hello")]
# Loops forever, except on the messages that are rendered when the model loads.
ENDLESS = (
    "{%- for m in messages if 'Hello' in m.content %}{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}{% endfor %}{{ messages[0].content }}"
)
MACRO = "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}"
NESTED = "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"
TEMPLATES = [
    ("{{ 1 / 0 }}", "division by zero"),
    ("{{ 1 % 0 }}", "by zero"),
    ("{{ messages[7].content }}", "no element 7"),
    ("{{ messages[0].nothing.more }}", "nothing"),
    ("{{ {}['x']['y'] }}", "'x'"),
    ("{{ nothing.more }}", "is undefined"),
    ("{{ raise_exception('Never!') }}", "Never!"),
    ("{{ raise_exception('one\ntwo') }}", "one$"),
    ("{{ 'a' + 1 }}", "concatenate"),
    ("{{ messages | tojson(indent='x' * -1) | int + none }}", "unsupported"),
    ("{{ range(10000000) | list }}", "[Rr]ange too big"),
    ("{{ 'x'.__class__.__mro__ }}", "unsafe"),
    ("{{ '%d' | format('x') }}", "number is required"),
    (MACRO, "recursion"),
    ("{{ 'x' * 60000000 * 2 }}", "more than any model"),
    ("{{ '' }}", "writes nothing"),
    ("{# nothing #}", "writes nothing"),
]
# Some Python versions refuse these.
ODD = [
    "{{ 1e308 * 10 | int }}",
    "{{ (1e308 * 10) | int }}",
    "{{ messages | sort(attribute='a.b.c') | first + 1 }}",
    NESTED,
    "{% if %}",
]


@pytest.mark.parametrize(("source", "reason"), TEMPLATES, ids=lambda value: str(value)[:30])
def test_a_failing_template_gives_one_sentence(source: str, reason: str, tmp_path: Path) -> None:
    write_tokenizer(tmp_path, source)
    with pytest.raises(TemplateRefused, match=f"^The model's chat template .*{reason}") as caught:
        Template(load_tokenizer(tmp_path), DATE).prompt(QUESTION)
    assert 1 == len(str(caught.value).splitlines())


@pytest.mark.parametrize("source", ODD)
def test_an_odd_template_renders_or_gives_one_sentence(source: str, tmp_path: Path) -> None:
    write_tokenizer(tmp_path, source)
    with contextlib.suppress(TemplateRefused):
        assert Template(load_tokenizer(tmp_path), DATE).prompt(QUESTION)


@pytest.mark.parametrize("template", [7, ["x"], {"default": 7}, True])
def test_a_template_that_is_not_text_gives_one_sentence(template: Any, tmp_path: Path) -> None:
    write_tokenizer(tmp_path, "{{ messages }}")
    tokenizer = load_tokenizer(tmp_path)
    tokenizer.chat_template = template
    with pytest.raises(ModelError, match="is not text"):
        Template(tokenizer, DATE)


@pytest.mark.slow
def test_an_interrupt_ends_an_endless_template(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, ENDLESS)
    stop = threading.Event()
    template = Template(load_tokenizer(tmp_path), DATE, stop=stop)
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    with pytest.raises(TemplateRefused, match="was stopped"):
        template.prompt(QUESTION)
    assert time.monotonic() - started < 5.0


def test_stopping_a_template_leaves_the_conversation_unchanged(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "qwen3", template=ENDLESS)
    with Harness(model, tmp_path / "sessions") as harness:
        session = harness.chat("talk").session
        stop = threading.Event()
        chat = harness.runtime.turn_context(session, None, stop)
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(TemplateRefused, match="was stopped"):
            harness.say(chat, "Hello")
        assert None is session.conversation.head
