"""ReplySplitter: thinking, reply and tool calls, for every kind of marker that mlx-lm knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.chat_templates.muse_spark import RESPONSE_FORMAT
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer

from chatcli.chat_format.markers import closing_tokens, splitter
from chatcli.model.load import load
from chatcli.replies.splitter import Part, ReplySplitter
from tests.support import tiny

XTML = ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"]
HARMONY = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>"]
MUSE = ["<|start|>", "<|message|>", "<|eom|>", "<|eot|>"]
MakeTokenizer = Callable[..., Any]

# Special tokens, the generation prompt, the generated text, and the text that closes the thinking.
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
    "seed-oss": (
        ["<seed:think>", "</seed:think>"],
        "",
        "<seed:think>Hm.</seed:think>Yes <b>.",
        "</seed:think>",
    ),
    "magistral": (["[THINK]", "[/THINK]"], "", "[THINK]Hm.[/THINK]Yes <b>.", "[/THINK]"),
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
def make_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> MakeTokenizer:
    """Make a tokenizer with these special tokens and this template."""

    def make(special: list[str], template: str = tiny.OPEN_THINK) -> Any:
        folder = tmp_path_factory.mktemp("t")
        tiny.write_tokenizer(folder, template, [*special, "<|im_end|>"])
        loaded = load_tokenizer(folder)
        if special == MUSE:
            return TokenizerWrapper(loaded._tokenizer, response_format=RESPONSE_FORMAT)
        return loaded

    return make


def parts(reading: ReplySplitter, pieces: list[str]) -> list[Part]:
    segments = [part for piece in pieces for part in reading.feed(piece)]
    return segments + list(reading.finish())


def joined(segments: list[Part], *, thinking: bool) -> str:
    return "".join(part.text for part in segments if part.thinking is thinking)


def detokenized(tokenizer: Any, text: str) -> list[str]:
    """`text` as streaming detokenization yields it, token by token."""
    detokenizer = tokenizer.detokenizer
    pieces = []
    for token in tokenizer.encode(text, add_special_tokens=False):
        detokenizer.add_token(token)
        pieces.append(detokenizer.last_segment)
    detokenizer.finalize()
    return [*pieces, detokenizer.last_segment]


@pytest.mark.parametrize("kind", KINDS)
def test_thinking_and_reply_are_separated(kind: str, make_tokenizer: MakeTokenizer) -> None:
    special, generation_prompt, generated, closing = KINDS[kind]
    tokenizer = make_tokenizer(special)
    cuts = [[generated[at : at + size] for at in range(0, len(generated), size)] for size in (1, 3, 1000)]
    for pieces in (*cuts, detokenized(tokenizer, generated)):
        segments = parts(splitter(tokenizer, generation_prompt), pieces)
        thinking_text = "Hm." if "Hm." in generated else ""
        assert (thinking_text, "Yes <b>.") == (
            joined(segments, thinking=True).strip("\n"),
            joined(segments, thinking=False),
        )
    if closing:
        assert closing == tokenizer.decode(closing_tokens(tokenizer))


def test_without_markers_everything_is_reply(make_tokenizer: MakeTokenizer) -> None:
    tokenizer = make_tokenizer(["<s>"])
    assert [] == closing_tokens(tokenizer)
    assert [Part("<think>a</think>")] == parts(splitter(tokenizer, ""), ["<think>a</think>"])


# Marks in the vocabulary, a template, a reply, and the reply's thinking.
TEMPLATES_MARKS = {
    "several tokens": (
        [],
        "Here are my reasoning steps:\n … [BEGIN FINAL RESPONSE]",
        "Here are my reasoning steps:\nI plan.\n[BEGIN FINAL RESPONSE]\nYes.",
        "I plan.",
    ),
    "another pair in the vocabulary": (
        ["<think>", "</think>", "<seed:think>", "</seed:think>"],
        "<seed:think> </seed:think>",
        "<seed:think>Hm.</seed:think>\nYes.",
        "Hm.",
    ),
}


@pytest.mark.parametrize("name", TEMPLATES_MARKS)
def test_marks_in_the_template_open_thinking(make_tokenizer: MakeTokenizer, name: str) -> None:
    special, template, reply, thought = TEMPLATES_MARKS[name]
    tokenizer = make_tokenizer(special, f"{{{{ {template!r} }}}}")
    read = parts(splitter(tokenizer, ""), [reply])
    assert thought == "".join(part.text for part in read if part.thinking).strip()
    assert "Yes." == "".join(part.text for part in read if not part.thinking).strip()


QWEN = "{{ '<tool_call>' }}{% if x %}{{ tool_call.name }}{% endif %}"
QWEN_CODER = "{{ '<tool_call>\n<function=' }}"
TOOLS = [{"type": "function", "function": {"name": "search"}}]
CALL_TEXT = 'search({"q": "a b"})'
CALLS: dict[str, tuple[list[str], str, str, str, list[str]]] = {
    "json": (
        ["<think>", "</think>"],
        QWEN,
        "",
        '<tool_call>\n{"name": "search", "arguments": {"q": "a b"}}\n</tool_call>',
        [CALL_TEXT],
    ),
    "json in thinking": (
        ["<think>", "</think>"],
        QWEN,
        "<think>",
        '<tool_call>\n{"name": "search", "arguments": {"q": "a b"}}\n</tool_call>',
        [CALL_TEXT],
    ),
    "xml": (
        [],
        QWEN_CODER,
        "",
        "<tool_call>\n<function=search>\n<parameter=q>\na b\n</parameter>\n</function>\n</tool_call>",
        [CALL_TEXT],
    ),
    "mistral has no end": (
        ["[TOOL_CALLS]"],
        "[TOOL_CALLS]",
        "",
        '[TOOL_CALLS]search[ARGS]{"q": "a b"}find[ARGS]{}',
        [CALL_TEXT, "find({})"],
    ),
    "gemma": (
        ["<|tool_call>", "<tool_call|>", '<|"|>'],
        "<|tool_call><tool_call|>",
        "",
        '<|tool_call>call:search{q:<|"|>a b<|"|>}<tool_call|>',
        [CALL_TEXT],
    ),
    "kimi-k3": (
        XTML,
        "",
        "",
        '<|open|>tools<|sep|><|open|>call tool="search" index="1"<|sep|><|open|>argument key="q" '
        'type="string"<|sep|>a b<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
        [CALL_TEXT],
    ),
    "gpt-oss": (
        HARMONY,
        "",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.search <|constrain|>json<|message|>{"q": "a b"}<|call|>',
        [CALL_TEXT],
    ),
    "gpt-oss, addressed first": (
        HARMONY,
        "",
        "<|start|>assistant",
        ' to=functions.search<|channel|>commentary json<|message|>{"q": "a b"}',
        [CALL_TEXT],
    ),
}


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("kind", CALLS)
def test_a_tool_call_is_parsed_and_its_text_kept(kind: str, size: int, make_tokenizer: MakeTokenizer) -> None:
    special, template, generation_prompt, generated, calls = CALLS[kind]
    reading = splitter(make_tokenizer(special, template), generation_prompt, TOOLS)
    segments = parts(reading, [generated[at : at + size] for at in range(0, len(generated), size)])
    (call,) = [part for part in segments if part.calls]
    assert [f"⚙ calls {text}, which chatcli does not run" for text in calls] == [
        str(part_call) for part_call in call.calls
    ]
    assert call.text in generated and "q" in call.text and not call.thinking
    assert "" == joined([part for part in segments if part is not call], thinking=False)


def test_text_around_a_call_keeps_its_position(make_tokenizer: MakeTokenizer) -> None:
    reading = splitter(make_tokenizer([], QWEN), "", TOOLS)
    segments = parts(reading, ['Wait. <tool_call>{"name": "a"}</tool_call> Done.'])
    assert ["Wait. ", '<tool_call>{"name": "a"}</tool_call>', " Done."] == [
        segment.text for segment in segments
    ]
    assert [0, 1, 0] == [len(segment.calls) for segment in segments]


@pytest.mark.parametrize(
    "said",
    [
        "<tool_call>{</tool_call> so",
        "<tool_call> is a mark",
        '<tool_call>{"name": 7}</tool_call>',
        "<tool_call>[[1]]</tool_call>",
    ],
)
def test_a_malformed_call_is_text(said: str, make_tokenizer: MakeTokenizer) -> None:
    segments = parts(splitter(make_tokenizer([], QWEN), "", TOOLS), list(said))
    assert said == joined(segments, thinking=False)
    assert not any(part.calls for part in segments)


def test_a_call_is_printed_on_one_line_without_control_characters(make_tokenizer: MakeTokenizer) -> None:
    generated = (
        '<tool_call>{"name": "a\\u001b[2J\\nb", "arguments": {"q": "\\u009b' + "x" * 999 + '"}}</tool_call>'
    )
    (call,) = parts(splitter(make_tokenizer([], QWEN), "", TOOLS), [generated])[0].calls
    assert not {"\x1b", "\x9b", "\n"} & set(str(call))
    assert len(str(call)) < 500


def test_a_loaded_model_has_closing_tokens(tmp_path: Path) -> None:
    loaded = load(str(tiny.write_model(tmp_path / "m", "qwen3")))
    assert [tiny.SPECIAL.index("</think>")] == closing_tokens(loaded.tokenizer)


class CountingVocabulary:
    """A tokenizer that counts how often its vocabulary is listed."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self.listed = tokenizer, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def get_vocab(self) -> Any:
        self.listed += 1
        return self._tokenizer.get_vocab()


def test_a_vocabulary_is_listed_once_and_not_for_every_reply(make_tokenizer: MakeTokenizer) -> None:
    """Listing 150,000 tokens would delay the first token."""
    counting = CountingVocabulary(make_tokenizer(["<think>", "</think>"]))
    for _ in range(3):
        segments = parts(splitter(counting, ""), ["<think>Hm.</think>Yes."])
        assert ("Hm.", "Yes.") == (joined(segments, thinking=True), joined(segments, thinking=False))
    assert 1 == counting.listed
