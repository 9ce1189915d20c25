"""Replies in several formats, recited by a model, as returned by the server and by `ask`."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.conversation.tree import Message
from chatcli.events import TextDelta
from tests.support.asking import Served, question, with_reply
from tests.support.program import Program
from tests.support.templates import QWEN3_TOOLS
from tests.support.tiny import write_reciter

TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},)
PLAIN = """\
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""
HARMONY = """\
{%- for m in messages %}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""
# A template and a reply, each piece a token; then its thinking, text and calls.
REPLIES = {
    "a mark in text": (
        PLAIN,
        ["<think>", "\nHm.\n", "</think>", "\n\nWrite `<think>` ", "first. ", "LAST"],
        "Hm.",
        "Write `<think>` first. LAST",
        [],
    ),
    "a call in thinking": (
        QWEN3_TOOLS,
        ["<think>", "\nI could write ", "<tool_call>", " but no.\n", "</think>", "\n\nGood day."],
        "I could write <tool_call> but no.",
        "Good day.",
        [],
    ),
    "a call": (
        QWEN3_TOOLS,
        [
            "I look.",
            "<tool_call>",
            '{"name": "look", ',
            '"arguments": {"at": "</tool_call>"}}',
            "</tool_call>",
        ],
        "",
        "I look.",
        [("look", '{"at": "</tool_call>"}')],
    ),
    "a preamble of gpt-oss": (
        HARMONY,
        [
            "<|channel|>",
            "commentary<|message|>I look.<|end|><|start|>assistant",
            "<|channel|>commentary to=functions.look <|constrain|>json",
            '<|message|>{"at": "a"}',
            "<|call|>",
        ],
        "",
        "I look.",
        [("look", '{"at": "a"}')],
    ),
}


@pytest.mark.parametrize("kind", REPLIES)
def test_a_reply_is_split_according_to_its_format(kind: str, tmp_path: Path) -> None:
    template, words, thinking, text, calls = REPLIES[kind]
    model = write_reciter(tmp_path / "model", template, words)
    with Served(model, tmp_path / "saved") as served:
        asked = served.submit(question("Is it warm?"), tools=TOOLS)
        reply = asked.done()
        streamed = "".join(event.text for event in asked.events if isinstance(event, TextDelta))
        message = Message("assistant", reply.record.text, tool_calls=reply.calls)
        assert (thinking, text, text) == (
            reply.record.thinking.strip(),
            streamed.strip(),
            message.text.strip(),
        )
        assert calls == [(call.name, call.arguments) for call in reply.calls]
        # Without tools the same words are plain text.
        plain = served.ask(question("Is it warm?"))
        assert () == plain.calls
        assert text in plain.record.text
        assert all(arguments in plain.record.text for _, arguments in calls)
        if calls:
            history = [
                *with_reply(question("Is it warm?"), reply),
                Message("tool", "21", tool_call_id=reply.calls[0].id),
            ]
            again = served.ask(history, tools=TOOLS)
            assert again.record.reused_tokens > 0


def test_a_call_keeps_the_id_that_the_model_wrote_if_it_is_unused(tmp_path: Path) -> None:
    """Kimi's template shows ids, and the model counts its calls in them."""
    words = [
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0",
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    ]
    template = PLAIN.replace("m.content", "(m.content or '')") + "{#- <|tool_calls_section_begin|> #}"
    with Served(write_reciter(tmp_path / "model", template, words), tmp_path / "saved") as served:
        first = served.ask(question("Is it warm?"), tools=TOOLS)
        assert ["functions.look:0"] == [call.id for call in first.calls]
        history = [
            *with_reply(question("Is it warm?"), first),
            Message("tool", "21", tool_call_id=first.calls[0].id),
        ]
        (again,) = served.ask(history, tools=TOOLS).calls
        assert 9 == len(again.id) and again.id.isalnum()


def test_ask_returns_all_of_a_text_that_mentions_marks(tmp_path: Path) -> None:
    template, words, _, text, _ = REPLIES["a mark in text"]
    program = Program(tmp_path, write_reciter(tmp_path / "model", template, words))
    done = program.run("ask", "How?", "-m", program.model)
    assert (0, f"{text}\n") == (done.code, done.text)
