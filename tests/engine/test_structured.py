"""What may follow at each point of a bound reply, in the formats that models think and answer in."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.tokenizer_utils import load

from chatcli import pocket
from chatcli.engine.structured import StructuredAnswer, check
from chatcli.errors import SchemaRefused
from chatcli.replies.answer_form import AnswerForm, schema_text
from tests.support.templates import GPT_OSS
from tests.support.tiny import OPEN_THINK, SPECIAL, write_tokenizer

NUMBER = AnswerForm(schema_text({"type": "integer", "minimum": 7, "maximum": 7}))
HARMONY_MARKS = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>"]
SPELLED = "{#- Here are my reasoning steps: [BEGIN FINAL RESPONSE] [END FINAL RESPONSE] -#}"
OPENED = "<|im_start|>assistant\n<think>\n"


@functools.cache
def tokenizer(template: str, special: tuple[str, ...]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(Path(folder), template, special)
        return load(Path(folder))


def following(
    template: str, prompt: str, reply: str, form: AnswerForm = NUMBER, special: Any = SPECIAL
) -> set[str]:
    """The texts of the tokens that may follow a reply, of those that are one character or a mark."""
    words = tokenizer(template, tuple(special))
    process = StructuredAnswer(words, form, prompt)
    size = len(words.get_vocab()) + 3
    logits = process(mx.array([1]), mx.zeros((1, size)))
    for token in words.encode(reply, add_special_tokens=False):
        assert logits[0, token].item() == 0, words.decode([token])
        logits = process(mx.array([1, token]), mx.zeros((1, size)))
    allowed = [token for token, value in enumerate(logits[0].tolist()) if value == 0]
    assert all(token < size - 3 for token in allowed)
    texts = {words.decode([token]) for token in allowed}
    return {text for text in texts if len(text) == 1 or text in special}


def test_thinking_is_free_and_the_answer_is_bound() -> None:
    assert {"a", "7", "{", "</think>"} <= following(OPEN_THINK, OPENED, "Hm, 1")
    assert "<|im_end|>" not in following(OPEN_THINK, OPENED, "Hm, 1")
    assert {"7", "\n"} == following(OPEN_THINK, OPENED, "Hm.\n</think>")
    assert {"7", "\n"} == following(OPEN_THINK, OPENED, "Hm.\n</think>\n\n")
    assert {"<|im_end|>"} == following(OPEN_THINK, OPENED, "Hm.\n</think>\n\n7")


def test_a_model_may_open_its_thinking_unless_the_prompt_has_closed_it() -> None:
    prompt = "<|im_start|>assistant\n"
    assert {"<think>", "7", "\n"} == following(OPEN_THINK, prompt, "")
    assert {"7", "\n"} == following(OPEN_THINK, prompt, "<think>Hm</think>")
    assert {"7", "\n"} == following(OPEN_THINK, f"{prompt}<think>\n\n</think>\n\n", "")


def test_marks_may_be_spelled_in_several_tokens() -> None:
    special = ("<|im_start|>", "<|im_end|>")
    opening = "Here are my reasoning steps:"
    assert {"H", "7", "\n", "["} == following(SPELLED, "", "", special=special)
    assert {"a", "]"} <= following(SPELLED, "", f"{opening} 1 [BEGIN", special=special)
    for written in (f"{opening} 1 [BEGIN FINAL RESPONSE]", "[BEGIN FINAL RESPONSE]"):
        assert "7" in following(SPELLED, "", written, special=special)
        assert "a" not in following(SPELLED, "", written, special=special)
    assert {"[", "<|im_end|>"} == following(SPELLED, "", "7", special=special)


def test_the_final_message_of_harmony_is_bound() -> None:
    special, prompt = (*HARMONY_MARKS, "<|im_end|>"), "<|start|>assistant"
    thought = "<|channel|>analysis<|message|>Hm"
    assert {"<|channel|>"} == following(GPT_OSS, prompt, "", special=special)
    assert {"a", "<|end|>"} <= following(GPT_OSS, prompt, thought, special=special)
    answer = f"{thought}<|end|><|start|>assistant<|channel|>final<|message|>"
    assert {"7"} == following(GPT_OSS, prompt, answer, special=special)
    assert {"7"} == following(GPT_OSS, f"{prompt}<|channel|>final<|message|>", "", special=special)


def test_a_schema_leaves_the_models_own_calls_possible() -> None:
    template = f"{OPEN_THINK}{{#- <tool_call> -#}}"
    form = AnswerForm(NUMBER.schema, (("look", ""),))
    assert {"7", "\n", "<"} == following(template, OPENED, "</think>", form)
    assert {"a", "<think>", "<|im_end|>"} <= following(template, OPENED, "</think><tool_call>{", form)


def test_forced_calls_take_the_arguments_of_their_own_tool() -> None:
    tools = tuple((name, schema_text({"enum": [value]})) for name, value in (("go", 1), ("see", 2)))
    call = '</think>{{"name": "{}", "arguments": {}}}'
    for several, after in ((True, {"\n", "<|im_end|>"}), (False, {"<|im_end|>"})):
        form = AnswerForm(None, tools, several)
        assert after == following(OPEN_THINK, OPENED, call.format("see", 2), form)
        for name, value in (("see", 1), ("fly", 1)):
            with pytest.raises(AssertionError):
                following(OPEN_THINK, OPENED, call.format(name, value), form)


def test_a_tokenizer_that_normalizes_text_spells_capitals() -> None:
    words = load(pocket.FOLDER)
    process = StructuredAnswer(words, AnswerForm(schema_text({"const": "Lisbon, PT"})), "<think>\n</think>")
    reply = [1]
    while reply[-1] not in words.eos_token_ids:
        logits = process(mx.array(reply), mx.zeros((1, 4096)))[0].tolist()
        line_break = words.encode("\n", add_special_tokens=False)[-1]
        reply.append(next(token for token, value in enumerate(logits) if value == 0 and token != line_break))
    assert '"Lisbon, PT"' == words.decode(reply[1:-1])


def test_a_beginning_that_does_not_fit_is_refused() -> None:
    words = tokenizer(OPEN_THINK, tuple(SPECIAL))
    with pytest.raises(SchemaRefused):
        StructuredAnswer(words, NUMBER, OPENED, words.encode("</think>8", add_special_tokens=False))


def test_a_slow_tokenizer_is_refused() -> None:
    class Slow:
        _tokenizer = object()
        eos_token_ids = (1,)

    with pytest.raises(SchemaRefused, match="fast"):
        check(Slow(), NUMBER)
