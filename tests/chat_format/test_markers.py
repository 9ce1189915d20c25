"""Thinking, reply and tool calls are told apart by every kind of marker that mlx-lm knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.chat_templates.muse_spark import RESPONSE_FORMAT
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer

from chatcli.chat_format.markers import Part, ReplySplitter, closing_tokens
from chatcli.model.load import load
from tests.support import tiny

XTML = ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"]
HARMONY = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>"]
MUSE = ["<|start|>", "<|message|>", "<|eom|>", "<|eot|>"]
Made = Callable[..., Any]

# Special tokens, the generation prompt, what is generated, and what closes the thinking.
KINDS: dict[str, tuple[list[str], str, str, str]] = {
    "think": (["<think>", "</think>"], "", "<think>Hm.</think>Yes <b>.", "</think>"),
    "think opened": (["<think>", "</think>"], "a<think>\n", "Hm.</think>Yes <b>.", "</think>"),
    "longcat": (
        ["<longcat_think>", "</longcat_think>"],
        "<longcat_think>",
        "Hm.</longcat_think>Yes <b>.",
        "</longcat_think>",
    ),
    "think:start": (
        ["<|think:start|>", "<|think:end|>"],
        "",
        "<|think:start|>Hm.<|think:end|>Yes <b>.",
        "<|think:end|>",
    ),
    "gemma": (
        ["<|channel>", "<channel|>"],
        "<|turn>model\n",
        "<|channel>thought\nHm.<channel|>Yes <b>.",
        "<channel|>",
    ),
    "gemma off": (["<|channel>", "<channel|>"], "<|channel>thought\n<channel|>", "Yes <b>.", ""),
    "kimi-k3": (
        XTML,
        "<|open|>message<|sep|>",
        "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes <b>."
        "<|close|>response<|sep|><|close|>message<|sep|>",
        "<|close|>think<|sep|>",
    ),
    "gpt-oss": (
        HARMONY,
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Hm.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Yes <b>.<|return|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    "gpt-oss, other headers": (
        HARMONY,
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final <|message|>Yes <b>.",
        "",
    ),
    "gpt-oss, no header": (HARMONY, "<|start|>assistant", "Yes <b>.", ""),
    "muse": (
        MUSE,
        "<|start|>assistant",
        " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Yes <b>.<|eot|>",
        "<|eom|><|start|>assistant to=user<|message|>",
    ),
    "muse, no header": (MUSE, "<|start|>assistant", "Yes <b>.", ""),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A tokenizer with these special tokens and this template."""

    def make(special: list[str], template: str = tiny.OPEN_THINK) -> Any:
        folder = tmp_path_factory.mktemp("t")
        tiny.write_tokenizer(folder, template, [*special, "<|im_end|>"])
        loaded = load_tokenizer(folder)
        if special == MUSE:
            return TokenizerWrapper(loaded._tokenizer, response_format=RESPONSE_FORMAT)
        return loaded

    return make


def parts(splitter: ReplySplitter, pieces: list[str]) -> list[Part]:
    told = [part for piece in pieces for part in splitter.feed(piece)]
    return told + list(splitter.finish())


def text_of(told: list[Part], *, thinking: bool) -> str:
    return "".join(part.text for part in told if part.thinking is thinking)


def by_token(tokenizer: Any, text: str) -> list[str]:
    """`text` as its tokens are told one by one."""
    detokenizer = tokenizer.detokenizer
    pieces = []
    for token in tokenizer.encode(text, add_special_tokens=False):
        detokenizer.add_token(token)
        pieces.append(detokenizer.last_segment)
    detokenizer.finalize()
    return [*pieces, detokenizer.last_segment]


@pytest.mark.parametrize("kind", KINDS)
def test_thinking_and_reply_are_told_apart(kind: str, made: Made) -> None:
    special, opening, said, closing = KINDS[kind]
    tokenizer = made(special)
    cuts = [[said[at : at + size] for at in range(0, len(said), size)] for size in (1, 3, 1000)]
    for pieces in (*cuts, by_token(tokenizer, said)):
        told = parts(ReplySplitter(tokenizer, opening), pieces)
        thought = "Hm." if "Hm." in said else ""
        assert (thought, "Yes <b>.") == (
            text_of(told, thinking=True).strip("\n"),
            text_of(told, thinking=False),
        )
    if closing:
        assert closing == tokenizer.decode(closing_tokens(tokenizer))


def test_a_model_without_markers_thinks_nothing(made: Made) -> None:
    tokenizer = made(["<s>"])
    assert [] == closing_tokens(tokenizer)
    assert [Part("<think>a</think>")] == parts(ReplySplitter(tokenizer, ""), ["<think>a</think>"])


QWEN = "{{ '<tool_call>' }}{% if x %}{{ tool_call.name }}{% endif %}"
QWEN_CODER = "{{ '<tool_call>\n<function=' }}"
CALLED = 'search({"q": "a b"})'
CALLS: dict[str, tuple[list[str], str, str, str, list[str]]] = {
    "json": (
        ["<think>", "</think>"],
        QWEN,
        "",
        '<tool_call>\n{"name": "search", "arguments": {"q": "a b"}}\n</tool_call>',
        [CALLED],
    ),
    "json in thinking": (
        ["<think>", "</think>"],
        QWEN,
        "<think>",
        '<tool_call>\n{"name": "search", "arguments": {"q": "a b"}}\n</tool_call>',
        [CALLED],
    ),
    "xml": (
        [],
        QWEN_CODER,
        "",
        "<tool_call>\n<function=search>\n<parameter=q>\na b\n</parameter>\n</function>\n</tool_call>",
        [CALLED],
    ),
    "mistral has no end": (
        ["[TOOL_CALLS]"],
        "[TOOL_CALLS]",
        "",
        '[TOOL_CALLS]search[ARGS]{"q": "a b"}find[ARGS]{}',
        [CALLED, "find({})"],
    ),
    "gemma": (
        ["<|tool_call>", "<tool_call|>", '<|"|>'],
        "<|tool_call><tool_call|>",
        "",
        '<|tool_call>call:search{q:<|"|>a b<|"|>}<tool_call|>',
        [CALLED],
    ),
    "kimi-k3": (
        XTML,
        "",
        "",
        '<|open|>tools<|sep|><|open|>call tool="search" index="1"<|sep|><|open|>argument key="q" '
        'type="string"<|sep|>a b<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
        [CALLED],
    ),
    "gpt-oss": (
        HARMONY,
        "",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.search <|constrain|>json<|message|>{"q": "a b"}<|call|>',
        [CALLED],
    ),
    "gpt-oss, addressed first": (
        HARMONY,
        "",
        "<|start|>assistant",
        ' to=functions.search<|channel|>commentary json<|message|>{"q": "a b"}',
        [CALLED],
    ),
}


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("kind", CALLS)
def test_a_tool_call_is_told_whole_and_its_text_kept(kind: str, size: int, made: Made) -> None:
    special, template, opening, said, called = CALLS[kind]
    splitter = ReplySplitter(made(special, template), opening)
    told = parts(splitter, [said[at : at + size] for at in range(0, len(said), size)])
    (call,) = [part for part in told if part.calls]
    assert [f"⚙ calls {one}, which chatcli does not run" for one in called] == [
        str(one) for one in call.calls
    ]
    assert call.text in said and "q" in call.text and not call.thinking
    assert "" == text_of([part for part in told if part is not call], thinking=False)


def test_words_around_a_call_stay_where_they_are(made: Made) -> None:
    splitter = ReplySplitter(made([], QWEN), "")
    told = parts(splitter, ['Wait. <tool_call>{"name": "a"}</tool_call> Done.'])
    assert ["Wait. ", '<tool_call>{"name": "a"}</tool_call>', " Done."] == [p.text for p in told]
    assert [0, 1, 0] == [len(part.calls) for part in told]


@pytest.mark.parametrize(
    "said",
    [
        "<tool_call>{</tool_call> so",
        "<tool_call> is a mark",
        '<tool_call>{"name": 7}</tool_call>',
        "<tool_call>[[1]]</tool_call>",
    ],
)
def test_what_is_no_call_is_text(said: str, made: Made) -> None:
    told = parts(ReplySplitter(made([], QWEN), ""), list(said))
    assert said == text_of(told, thinking=False)
    assert not any(part.calls for part in told)


def test_a_call_cannot_act_on_the_terminal_and_is_one_line(made: Made) -> None:
    said = (
        '<tool_call>{"name": "a\\u001b[2J\\nb", "arguments": {"q": "\\u009b' + "x" * 999 + '"}}</tool_call>'
    )
    (call,) = parts(ReplySplitter(made([], QWEN), ""), [said])[0].calls
    assert not {"\x1b", "\x9b", "\n"} & set(str(call))
    assert len(str(call)) < 500


def test_a_loaded_model_tells_them_too(tmp_path: Path) -> None:
    loaded = load(str(tiny.write_model(tmp_path / "m", "qwen3")))
    assert [tiny.SPECIAL.index("</think>")] == closing_tokens(loaded.tokenizer)
