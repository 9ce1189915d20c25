"""Tool calls in every format. `FORMATS` has one line for each format, `CALLS` one for each kind of call."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer

from chatcli.chat_format.markers import format_of
from chatcli.replies.splitter import Format, Part, ReplySplitter
from tests.support import tiny

Call = tuple[str, dict[str, Any]]
# The arguments of calls in these tests.
PROPERTIES = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "spot": {"type": "object"},
    "list": {"type": "array"},
    "sure": {"type": "boolean"},
    "share": {"type": "number"},
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": PROPERTIES}},
    }
    for name in ("get_weather", "look-up", "now")
]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def as_json(calls: Sequence[Call], name: str = "name", arguments: str = "arguments") -> str:
    return json.dumps([{name: each[0], arguments: each[1]} for each in calls])


def in_a_row(start: str, end: str, write: Callable[[str, dict[str, Any]], str]) -> Callable[..., str]:
    """Each call between its own marks."""
    return lambda calls: "\n".join(start + write(*call) + end for call in calls)


def tags(
    call: str, argument: str, close_argument: str, close_call: str
) -> Callable[[str, dict[str, Any]], str]:
    def write(name: str, arguments: dict[str, Any]) -> str:
        items = [f"{argument % key}{as_text(value)}{close_argument}\n" for key, value in arguments.items()]
        return f"{call % name}\n{''.join(items)}{close_call}"

    return write


def typed_tags(name: str, arguments: dict[str, Any]) -> str:
    """DeepSeek V3.2's."""
    items = [
        f'<｜DSML｜parameter name="{key}" string="{str(isinstance(value, str)).lower()}">{as_text(value)}'
        "</｜DSML｜parameter>\n"
        for key, value in arguments.items()
    ]
    return f'<｜DSML｜invoke name="{name}">\n{"".join(items)}</｜DSML｜invoke>\n'


def xtml(name: str, arguments: dict[str, Any]) -> str:
    items = [
        f'<|open|>argument key="{key}" type="{"string" if isinstance(value, str) else "any"}"<|sep|>'
        f"{as_text(value)}<|close|>argument<|sep|>"
        for key, value in arguments.items()
    ]
    return f'<|open|>call tool="{name}" index="1"<|sep|>{"".join(items)}<|close|>call<|sep|>'


def gemma(value: Any, quote: str = '<|"|>') -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma(each, quote)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(gemma(each, quote) for each in value) + "]"
    return json.dumps(value)


def python(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def hermes(name: str, arguments: dict[str, Any]) -> str:
    return "\n" + json.dumps({"name": name, "arguments": arguments}) + "\n"


QWEN_CODER = tags("<function=%s>", "<parameter=%s>\n", "\n</parameter>", "</function>")
SEED = tags("<function=%s>", "<parameter=%s>", "</parameter>", "</function>")
GLM = tags("%s", "<arg_key>%s</arg_key>\n<arg_value>", "</arg_value>", "")
LONGCAT = tags("%s", "<longcat_arg_key>%s</longcat_arg_key>\n<longcat_arg_value>", "</longcat_arg_value>", "")
MINIMAX = tags('<invoke name="%s">', '<parameter name="%s">', "</parameter>", "</invoke>")
MUSE = tags('<atem:invoke name="%s">', '<atem:parameter name="%s">', "</atem:parameter>", "</atem:invoke>")
MINICPM = tags('<function name="%s">', '<param name="%s">', "</param>", "</function>")
KIMI = "<|tool_calls_section_begin|>%s<|tool_calls_section_end|>"
DEEPSEEK = "<｜tool▁calls▁begin｜>%s<｜tool▁calls▁end｜>"


def numbered(calls: Sequence[Call]) -> str:
    return KIMI % "".join(
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{json.dumps(arguments)}"
        "<|tool_call_end|>"
        for number, (name, arguments) in enumerate(calls)
    )


def fenced(calls: Sequence[Call]) -> str:
    """DeepSeek R1's."""
    return DEEPSEEK % "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{json.dumps(arguments)}\n```<｜tool▁call▁end｜>"
        for name, arguments in calls
    )


def separated(calls: Sequence[Call]) -> str:
    """DeepSeek V3.1's."""
    return DEEPSEEK % "".join(
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{json.dumps(arguments)}<｜tool▁call▁end｜>"
        for name, arguments in calls
    )


# Control tokens, other text of the template, and a function that writes calls.
FORMATS: dict[str, tuple[list[str], str, Callable[[Sequence[Call]], str]]] = {
    "Hermes, Qwen3, SmolLM3": (["<tool_call>"], "", in_a_row("<tool_call>", "</tool_call>", hermes)),
    "Qwen3-Coder, Qwen3.5, Nemotron 3, Step": (
        [],
        "<tool_call>\n<function=",
        in_a_row("<tool_call>\n", "\n</tool_call>", QWEN_CODER),
    ),
    "Qwen3-Coder, no outer tags": ([], "<tool_call>\n<function=", in_a_row("", "", QWEN_CODER)),
    "Qwen3-Coder, no opening tag": (
        [],
        "<tool_call>\n<function=",
        in_a_row("", "\n</tool_call>", QWEN_CODER),
    ),
    "Seed-OSS": ([], "<seed:tool_call>", in_a_row("<seed:tool_call>\n", "\n</seed:tool_call>", SEED)),
    "Functionary": (
        [],
        "<function=",
        in_a_row("", "</function>", lambda n, a: f"<function={n}>{json.dumps(a)}"),
    ),
    "GLM, Laguna": (["<tool_call>"], "<arg_key>", in_a_row("<tool_call>", "</tool_call>", GLM)),
    "LongCat": ([], "<longcat_tool_call>", in_a_row("<longcat_tool_call>", "</longcat_tool_call>", LONGCAT)),
    "MiniMax": (
        [],
        "<minimax:tool_call>",
        lambda calls: f"<minimax:tool_call>\n{in_a_row('', '', MINIMAX)(calls)}\n</minimax:tool_call>",
    ),
    "MiniCPM": ([], '<function name=" <param name="', in_a_row("", "", MINICPM)),
    "DeepSeek V3.2": (
        ["｜DSML｜"],
        "",
        lambda calls: (
            f"<｜DSML｜function_calls>\n{in_a_row('', '', typed_tags)(calls)}</｜DSML｜function_calls>"
        ),
    ),
    "DeepSeek V4": (
        [],
        "dsml_token",
        lambda calls: f"<｜DSML｜tool_calls>\n{in_a_row('', '', typed_tags)(calls)}</｜DSML｜tool_calls>",
    ),
    "DeepSeek V3.1": (["<｜tool▁calls▁begin｜>"], "", separated),
    "DeepSeek R1": (["<｜tool▁calls▁begin｜>"], "", fenced),
    "Kimi K2": (["<|tool_calls_section_begin|>"], "", numbered),
    "Kimi K3": (
        ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"],
        "",
        lambda calls: f"<|open|>tools<|sep|>{in_a_row('', '', xtml)(calls)}<|close|>tools<|sep|>",
    ),
    "Mistral Nemo": (["[TOOL_CALLS]"], "", lambda calls: f"[TOOL_CALLS]{as_json(calls)}"),
    "Ministral, Devstral": (
        ["[TOOL_CALLS]"],
        "",
        in_a_row("[TOOL_CALLS]", "", lambda n, a: f"{n}[ARGS]{json.dumps(a)}"),
    ),
    "Mistral Small 3.2": (
        ["[TOOL_CALLS]"],
        "",
        in_a_row("[TOOL_CALLS]", "", lambda n, a: f"{n}[CALL_ID]abcdef123[ARGS]{json.dumps(a)}"),
    ),
    "Gemma 4": (
        ["<|tool_call>", "<tool_call|>"],
        "",
        in_a_row("<|tool_call>", "<tool_call|>", lambda n, a: f"call:{n}{gemma(a)}"),
    ),
    "FunctionGemma": (
        [],
        "<start_function_call>",
        in_a_row(
            "<start_function_call>", "<end_function_call>", lambda n, a: f"call:{n}{gemma(a, '<escape>')}"
        ),
    ),
    "LFM2": (
        ["<|tool_call_start|>", "<|tool_call_end|>"],
        "",
        lambda calls: f"<|tool_call_start|>[{', '.join(python(*call) for call in calls)}]<|tool_call_end|>",
    ),
    "MiniCPM3": (
        [],
        "<|tool_call_start|>",
        lambda calls: (
            f"<|tool_call_start|>\n```python\n{in_a_row('', '', python)(calls)}\n```\n<|tool_call_end|>"
        ),
    ),
    "Olmo 3": ([], "<function_calls>", in_a_row("<function_calls>", "</function_calls>", python)),
    "Apertus": (
        ["<|tools_prefix|>"],
        "",
        lambda calls: f"<|tools_prefix|>{json.dumps([{n: a} for n, a in calls])}<|tools_suffix|>",
    ),
    "Nemotron 2": ([], "<TOOLCALL>", lambda calls: f"<TOOLCALL>{as_json(calls)}</TOOLCALL>"),
    "Command R7B, Command A": (
        ["<|START_ACTION|>"],
        "",
        lambda calls: f"<|START_ACTION|>{as_json(calls, 'tool_name', 'parameters')}<|END_ACTION|>",
    ),
    "Granite 3.3": (["<|tool_call|>"], "", lambda calls: f"<|tool_call|>{as_json(calls)}"),
    "Phi-4-mini": (["<|tool_call|>"], "", lambda calls: f"<|tool_call|>{as_json(calls)}<|/tool_call|>"),
    "Apriel, Jamba": ([], "<tool_calls>", lambda calls: f"<tool_calls>{as_json(calls)}</tool_calls>"),
    "InternLM": (
        ["<|action_start|>"],
        "",
        in_a_row("<|action_start|><|plugin|>", "<|action_end|>", hermes),
    ),
    "GigaChat": (["<|function_call|>"], "", in_a_row("<|function_call|>", "", hermes)),
    "Firefunction": ([], "functools", lambda calls: f"functools{as_json(calls)}"),
}
# Formats whose call names must be Python names.
PYTHON = ("LFM2", "MiniCPM3", "Olmo 3")
CALLS: dict[str, list[Call]] = {
    "one": [("get_weather", {"city": "Oslo"})],
    "no arguments": [("now", {})],
    "several": [("get_weather", {"city": "Oslo"}), ("now", {}), ("get_weather", {"city": "Rome", "days": 2})],
    "a name with a dash": [("look-up", {"city": "Oslo"})],
    "numbers": [("get_weather", {"days": 5, "share": 0.25, "maybe": 5})],
    "words of JSON": [("get_weather", {"sure": True, "maybe": None, "days": -1})],
    "text that looks like JSON": [("get_weather", {"city": "5"}), ("now", {"city": "true"})],
    "quotation marks": [("get_weather", {"city": "the \"old\" town's \\ 'centre'"})],
    "nested": [("get_weather", {"spot": {"at": [1, {"b": "x"}], "note": "y"}, "list": ["a", 2, []]})],
    "other scripts": [("get_weather", {"city": "Zürich 北京 🙂"})],
    "white space": [("get_weather", {"city": "    return x\n\n  if y:\n"})],
    "marks of other formats": [("get_weather", {"city": "a }] </tool_call> ] <function=x> b"})],
}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """A tokenizer with a format's control tokens and the text of its template."""

    @functools.cache
    def get(name: str) -> Any:
        special, says, _ = FORMATS[name]
        folder: Path = tmp_path_factory.mktemp("f")
        tiny.write_tokenizer(folder, f"{tiny.OPEN_THINK}{{#{says}#}}", [*special, *tiny.SPECIAL])
        return load_tokenizer(folder)

    return get


@pytest.fixture(scope="module")
def formats(tokenizers: Callable[[str], Any]) -> Callable[[str], Format]:
    """The reply format detected from a tokenizer."""
    return lambda name: format_of(tokenizers(name))


def read(reply_format: Format, text: str, size: int, tools: Any = TOOLS, prompt: str = "") -> list[Part]:
    splitter = ReplySplitter(reply_format, prompt, tools)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()


def made(parts: Sequence[Part]) -> list[Call]:
    return [(call.name, json.loads(call.arguments)) for part in parts for call in part.calls]


def text_of(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if not part.calls)


def fitting(name: str, calls: list[Call]) -> list[Call]:
    """The calls that a format can express."""
    return [(each.replace("-", "_") if name in PYTHON else each, arguments) for each, arguments in calls]


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("name", FORMATS)
def test_calls_are_parsed_as_intended(name: str, kind: str, formats: Callable[[str], Format]) -> None:
    calls = fitting(name, CALLS[kind])
    written = FORMATS[name][2](calls)
    for size in (1, 4, 1 << 20):
        parts = read(formats(name), f"I look: {written}", size)
        assert calls == made(parts)
        assert "I look:" == text_of(parts).strip()
        assert f"I look: {written}" == "".join(part.text for part in parts)
    # Text after the calls is text again.
    parts = read(formats(name), f"{written} And then?", 1)
    assert (calls, "And then?") == (made(parts), text_of(parts).strip())


@pytest.mark.parametrize("name", FORMATS)
def test_without_tools_a_call_is_text(name: str, formats: Callable[[str], Format]) -> None:
    written = FORMATS[name][2](fitting(name, CALLS["several"]))
    parts = read(formats(name), written, 1, tools=())
    assert ([], written) == (made(parts), text_of(parts))


@pytest.mark.parametrize("name", FORMATS)
def test_a_truncated_call_is_text(name: str, formats: Callable[[str], Format]) -> None:
    calls = fitting(name, CALLS["several"])
    written = FORMATS[name][2](calls)
    for length in range(len(written)):
        parts = read(formats(name), written[:length], 1 << 20)
        assert written[:length] == "".join(part.text for part in parts)
        assert calls[: len(made(parts))] == made(parts)


@pytest.mark.parametrize("name", FORMATS)
def test_a_mark_that_text_mentions_holds_nothing_back(name: str, formats: Callable[[str], Format]) -> None:
    mark = next(start for start in formats(name).calls if start in FORMATS[name][2](CALLS["one"]))
    said = f"The mark {mark} opens it, and so on."
    splitter = ReplySplitter(formats(name), tools=TOOLS)
    certain = [part for letter in said for part in splitter.feed(letter)]
    assert ([], said) == (made(certain), text_of(certain))


@pytest.mark.parametrize("name", FORMATS)
def test_calls_at_the_end_of_a_reply_count_even_if_thinking_was_not_closed(
    name: str, formats: Callable[[str], Format]
) -> None:
    calls = fitting(name, CALLS["several"])
    written = FORMATS[name][2](calls)
    reply_format = formats(name)
    assert reply_format.thinking is not None
    opening, closing = reply_format.thinking
    ended = read(reply_format, f"Hm.\n{written}", 1, prompt=opening)
    assert (calls, "Hm.") == (made(ended), text_of(ended).strip())
    # A call that is only mentioned in thinking.
    thought = read(reply_format, f"Hm. {written} or not.{closing}Good day.", 1, prompt=opening)
    assert [] == made(thought)
    assert f"Hm. {written} or not." == "".join(part.text for part in thought if part.thinking)
    assert "Good day." == "".join(part.text for part in thought if not part.thinking)


def test_a_parser_named_in_the_configuration_selects_its_format(tmp_path: Path) -> None:
    """Conversions do this if their template does not show the call format."""
    tiny.write_tokenizer(tmp_path, tiny.OPEN_THINK)
    tiny.update_json(tmp_path / "tokenizer_config.json", tool_parser_type="qwen3_coder")
    calls = CALLS["several"]
    written = in_a_row("", "", QWEN_CODER)(calls)
    assert calls == made(read(format_of(load_tokenizer(tmp_path)), written, 1))


def test_a_format_that_only_mlx_lm_knows_uses_its_parser(tokenizers: Callable[[str], Any]) -> None:
    def parse(text: str, tools: Any) -> Any:
        name, _, argument = text.partition(" ")
        return {"name": name, "arguments": {"city": argument, "of": len(tools)}}

    tokenizer = TokenizerWrapper(
        tokenizers("LFM2")._tokenizer, tool_call_start="<call>", tool_call_end="</call>", tool_parser=parse
    )
    parts = read(format_of(tokenizer), "So <call>look Oslo</call> then.", 1)
    assert ([("look", {"city": "Oslo", "of": 3})], "So  then.") == (made(parts), text_of(parts))
    cut = read(format_of(tokenizer), "So <call>look Oslo", 1)
    assert ([], "So <call>look Oslo") == (made(cut), text_of(cut))
