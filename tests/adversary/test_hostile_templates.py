"""Chat templates that take all memory or never end: one sentence ends each.

Another one is a line in `UNBOUNDED`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from chatcli.chat_format import renderer
from chatcli.chat_format.renderer import Renderer
from chatcli.errors import TemplateCutOff, TemplateRefused
from tests.support.families import at_night
from tests.support.program import DEADLINE, Program
from tests.support.tiny import write_model

CONTEXT = {"messages": [{"role": "user", "content": "Hello"}]}
MEMORY_BYTES = 200_000_000
SECONDS = 2
# Each is one step that asks for 10 GB or more, steps that double what there is, or steps without end.
# Three are tried by day.
UNBOUNDED = [
    "{{ 'x' * 10000000000 }}",
    "{% set n = namespace(it='x') %}{% for i in range(60) %}{% set n.it = n.it ~ n.it %}{% endfor %}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ ('x', ) * 10000000000 }}",
    "{{ 'x' * ('9' * 10) | int }}",
    "{{ 'x' | center(10000000000) }}",
    "{{ 'x'.ljust(10000000000) }}",
    "{{ '\t'.expandtabs(2000000000) }}",
    "{{ '7'.zfill(10000000000) }}",
    "{{ (7).to_bytes(10000000000, 'big') }}",
    "{{ 'a\nb' | indent(10000000000) }}",
    "{{ {'a': 1} | tojson(indent=10000000000) }}",
    "{{ '%10000000000d' % 7 }}",
    "{{ '%*d' % (10000000000, 7) }}",
    "{{ '%.2147483647f' | format(7) * 9 }}",
    "{{ '{:10000000000}'.format(7) }}",
    "{{ '{0:{1}}'.format(7, 10000000000) }}",
    "{{ [7] | batch(10000000000, 'x') | list }}",
    "{{ [7] | slice(10000000000) | list }}",
    "{{ lipsum(1000000) }}",
    "{% set text = 'x' * 100000 %}{{ text.replace('x', text) }}",
    "{% set text = 'x' * 100000 %}{{ text | replace('x', text) }}",
    "{% set text = 'x' * 100000 %}{{ text | join(text) }}",
    "{% set text = 'x' * 100000 %}{{ text.translate({120: text}) }}",
    "{% set text = 'x' * 100000 %}{{ ('{0}' * 100000).format(text) }}",
    "{% set n = namespace(it='x') %}{% for i in range(60) %}{% set n.it = n.it + n.it %}{% endfor %}",
    "{% set n = namespace(it=['x']) %}{% for i in range(60) %}{% set n.it = n.it + n.it %}{% endfor %}",
    "{% set n = namespace(it=[0]) %}{% for i in range(9999) %}{% set n.it = [7] * 9999 + n.it %}{% endfor %}",
    "{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    "{% macro more(text) %}{{ more(text ~ text) }}{% endmacro %}{{ more('x') }}",
    "{% macro twice(n) %}{{ twice(n - 1) ~ twice(n - 1) if n else 'x' * 99 }}{% endmacro %}{{ twice(40) }}",
    "{{ '\x85' * 9000000000 }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% set n = namespace(it=7) %}{% for i in range(99999) %}{% set n.it = n.it * n.it %}{% endfor %}",
    "{% set n = namespace(it=['x']) %}{% for i in range(60) %}{% set n.it = [n.it, n.it] %}{% endfor %}"
    "{{ n.it == n.it | list }}{{ n.it | string | length }}",
    "{{ ('x' * 30000 + 'y') | wordwrap(1, wrapstring='z' * 9999) | urlize | wordcount }}",
]


@pytest.mark.parametrize(
    "source", [*UNBOUNDED[:3], *map(at_night, UNBOUNDED[3:])], ids=lambda source: source[:60]
)
def test_a_template_without_bounds_is_ended(source: str) -> None:
    process = Renderer(SECONDS, MEMORY_BYTES)
    started = time.monotonic()
    with pytest.raises(TemplateCutOff, match=r"more memory than 200 MB|finish within 2 seconds"):
        list(process.ask(source, [CONTEXT], None))
    process.close()
    assert time.monotonic() - started < 10 * SECONDS


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_where_the_system_limits_no_memory_its_growth_is_watched() -> None:
    process = Renderer(60, MEMORY_BYTES, watched=True)
    hoards = "{% set n.it = [n.it, 'x' * (99999 + i)] %}"
    source = "{% set n = namespace() %}{% for i in range(99999) %}" + hoards + "{% endfor %}"
    with pytest.raises(TemplateCutOff, match="more memory than 200 MB"):
        list(process.ask(source, [CONTEXT], None))
    process.close()


def rendered(source: str, context: dict[str, Any] | None = None) -> str:
    (rendering,) = renderer.render(source, [context or CONTEXT])
    return renderer.text_of(rendering)


def test_of_several_conversations_only_those_are_cut_off_that_a_template_does_not_end() -> None:
    source = (
        "{{ messages[0].content }}{% if n == 1 %}{{ 'x' * 10000000000 }}{% endif %}"
        "{{ n or raise_exception('none') }}"
    )
    contexts = [{**CONTEXT, "n": number} for number in range(4)]
    refused, cut_off, *texts = renderer.render(source, contexts)
    assert ["Hello2", "Hello3"] == texts
    assert (TemplateRefused, TemplateCutOff) == (type(refused), type(cut_off))


def test_what_a_template_is_cut_off_for_harms_no_other() -> None:
    with pytest.raises(TemplateCutOff):
        rendered("{{ 'x' * 10000000000 }}")
    assert "Hello" == rendered("{{ messages[0].content }}")


def test_a_process_that_was_killed_while_nothing_was_rendered_is_not_missed() -> None:
    rendered("{{ 1 }}")
    for process in renderer._idle:
        os.kill(process._process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process._process.pid, os.WEXITED | os.WNOWAIT)
    assert "Hello" == rendered("{{ messages[0].content }}")


def test_a_conversation_is_never_rendered_as_much_more_than_it_is() -> None:
    with pytest.raises(TemplateRefused, match="writes more than any model can read"):
        rendered("{{ 'x' * 60000000 }}")
    long = {"messages": [{"role": "user", "content": "x" * 500_000}]}
    assert 8_000_000 == len(rendered("{{ messages[0].content * 16 }}", long))


@pytest.mark.slow
def test_a_template_that_ctrl_c_ends_exits_as_an_interrupt_does(tmp_path: Path) -> None:
    """A step within C, of a conversation that the trial at the model's start did not have."""
    endless = "{% if messages[0].content == 'Hello' %}{{ 9 ** (9 ** range(9) | length) }}{% endif %}"
    model = write_model(tmp_path / "model", "qwen3", template=endless + "{{ messages[0].content }}")
    program = Program(tmp_path / "home", model)
    process = program.start("ask", "Hello", "-S", "talk", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    saved = program.sessions / "talk.jsonl"
    deadline = time.monotonic() + DEADLINE
    while not (saved.exists() and b"Hello" in saved.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE)
    assert (130, b"") == (process.returncode, out)
    assert b"chatcli: The model's chat template was stopped.\n" == err
