"""Detects the markers of a model's replies from its tokenizer and chat template."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chatcli.replies.calls import BARE_SIGNS, CALL_FORMATS, FORCED_CALLS, CallFormat, parsed_by
from chatcli.replies.splitter import HARMONY, MUSE, Format, ReplySplitter
from chatcli.replies.thinking import THINKING_MARKERS

CHANNEL = "<|channel|>"
HARMONY_CLOSING = "<|end|><|start|>assistant<|channel|>final<|message|>"
# The header of the answer in Muse's format, as mlx-lm names it.
TO_USER = "to=user<|message|>"
MUSE_CLOSING = f"<|eom|><|start|>assistant {TO_USER}"
SPELLED = ("<think>", "</think>")
# The markers around the answer in formats that mlx-lm does not know.
AROUND_TEXT = (
    ("<response>", "</response>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|START_TEXT|>", "<|END_TEXT|>"),
    ("[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"),
)


# The marks that open and close a thought, and that open the answer, in formats with headers.
AROUND_MESSAGES = {
    HARMONY: (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant",
        "<|channel|>final<|message|>",
    ),
    MUSE: (" to=self<|message|>", "<|eom|><|start|>assistant", " to=user<|message|>"),
}


@functools.lru_cache(maxsize=2)
def format_of(tokenizer: Any) -> Format:
    """The format of this model's replies."""
    # `get_vocab` copies 150,000 tokens, hence the cache.
    vocabulary = tokenizer.get_vocab()
    source = getattr(tokenizer, "chat_template", None) or ""
    sources = source.values() if isinstance(source, Mapping) else [source]
    # Python code that renders in place of a template has no text.
    template = "\n".join(text for text in sources if isinstance(text, str))
    if CHANNEL in vocabulary or f"{CHANNEL}analysis" in template:
        return Format(closing=HARMONY_CLOSING, headers=HARMONY)
    calls = _call_formats(tokenizer, vocabulary, template)
    if any(TO_USER in dict(edges) for edges in tokenizer.response_transitions.values()):
        return Format(closing=MUSE_CLOSING, calls=calls, headers=MUSE)
    around = [pair for pair in AROUND_TEXT if pair[0] in vocabulary or pair[0] in template]
    marks = tokenizer.structural_markers
    # mlx-lm knows few pairs, and looks only at the vocabulary, which may also have another template's.
    pairs = [pair for pair in THINKING_MARKERS if vocabulary.keys() >= {*pair}]
    if tokenizer.has_thinking:
        pairs.insert(0, (tokenizer.think_start, tokenizer.think_end))
    named = [pair for pair in (*pairs, *THINKING_MARKERS) if all(mark in template for mark in pair)]
    # Granite's and Apriel's markers are several tokens. Many templates name `<think>` whatever the model.
    spelled = [] if pairs else [pair for pair in named if pair != SPELLED or AROUND_TEXT[0] in around]
    thinking = next(iter([*(pair for pair in named if pair in pairs), *pairs, *spelled]), None)
    return Format(
        thinking=thinking,
        closing=thinking[1] if thinking else "",
        text_opens=(*(opening for opening, _ in around), *marks[:1]),
        text_closes=(*(closing for _, closing in around), *marks[1:]),
        calls=calls,
        bare=any(sign in vocabulary or sign in template for sign in BARE_SIGNS),
    )


def _call_formats(tokenizer: Any, vocabulary: Mapping[str, int], template: str) -> dict[str, CallFormat]:
    start, shown = None, template
    if tokenizer.has_tool_calling:
        # A configuration may name mlx-lm's parser although no template shows the markers.
        start = tokenizer.tool_call_start
        shown += f"\n{tokenizer.tool_parser.__module__}"
    formats = {
        each.start: each
        for each in CALL_FORMATS
        if each.start == start
        or any(sign in vocabulary or sign in shown for sign in each.signs or [each.start])
    }
    if start and start not in formats:
        formats[start] = CallFormat(start, parsed_by(tokenizer.tool_parser, tokenizer.tool_call_end or ""))
    return formats


def splitter(
    tokenizer: Any, generation_prompt: str, tools: Sequence[Mapping[str, Any]] = (), *, forced: bool = False
) -> ReplySplitter:
    """A splitter for a reply after the text `generation_prompt` that may call `tools`.

    `forced`: its calls are in the format of structured output, not in the model's own.
    """
    reply_format = format_of(tokenizer)
    if forced:
        reply_format = replace(reply_format, calls=FORCED_CALLS, bare=False)
    return ReplySplitter(reply_format, generation_prompt, tools)


def reply_beginning(tokenizer: Any, generation_prompt: str, thinking: str, text: str) -> str:
    """A reply that begins with a thought and a text, as the model writes it after `generation_prompt`.

    Without a text the thought is still open.
    """
    reply_format = format_of(tokenizer)
    if reply_format.headers is not None:
        opening, closing, answer = AROUND_MESSAGES[reply_format.headers]
        head = f"{opening}{thinking}" + (closing if text else "") if thinking else ""
        return head + (answer + text if text else "")
    if reply_format.thinking is None:
        return text
    opening, closing = reply_format.thinking
    is_open = generation_prompt.rfind(opening) > generation_prompt.rfind(closing)
    head = f"{opening}\n" if thinking and not is_open else ""
    end = f"\n{closing}\n\n" if text and (thinking or is_open) else ""
    return f"{head}{thinking}{end}{text}"


def closing_tokens(tokenizer: Any) -> list[int]:
    """The tokens that end thinking; empty if the model does not think."""
    closing = format_of(tokenizer).closing
    if closing and closing == tokenizer.think_end:
        return list(tokenizer.think_end_tokens)
    return list(tokenizer.encode(closing, add_special_tokens=False)) if closing else []
