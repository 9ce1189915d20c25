"""Which marks a model's replies have, by its tokenizer and its chat template."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from chatcli.replies.calls import BARE_SIGNS, CALL_FORMATS, CallFormat, parsed_by
from chatcli.replies.splitter import HARMONY, MUSE, Format, ReplySplitter
from chatcli.replies.thinking import THINKING_MARKERS

CHANNEL = "<|channel|>"
HARMONY_CLOSING = "<|end|><|start|>assistant<|channel|>final<|message|>"
# What begins the text where mlx-lm's response format has headers.
TO_USER = "to=user<|message|>"
MUSE_CLOSING = f"<|eom|><|start|>assistant {TO_USER}"
# What stands around the answer, in formats that mlx-lm does not name.
SPELLED = ("<think>", "</think>")
AROUND_TEXT = (
    ("<response>", "</response>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|START_TEXT|>", "<|END_TEXT|>"),
    ("[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"),
)


@functools.lru_cache(maxsize=2)
def format_of(tokenizer: Any) -> Format:
    """The format of the replies of this tokenizer's model."""
    # The vocabulary is copied to be asked: 150,000 tokens.
    vocabulary, template = tokenizer.get_vocab(), template_text(tokenizer)
    if CHANNEL in vocabulary or f"{CHANNEL}analysis" in template:
        return Format(closing=HARMONY_CLOSING, headers=HARMONY)
    calls = _call_formats(tokenizer, vocabulary, template)
    if any(TO_USER in dict(edges) for edges in tokenizer.response_transitions.values()):
        return Format(closing=MUSE_CLOSING, calls=calls, headers=MUSE)
    around = [pair for pair in AROUND_TEXT if pair[0] in vocabulary or pair[0] in template]
    marks = tokenizer.structural_markers
    # mlx-lm knows few pairs, and by the vocabulary alone, which may have those of another template, too.
    pairs = [pair for pair in THINKING_MARKERS if vocabulary.keys() >= {*pair}]
    if tokenizer.has_thinking:
        pairs.insert(0, (tokenizer.think_start, tokenizer.think_end))
    named = [pair for pair in (*pairs, *THINKING_MARKERS) if all(mark in template for mark in pair)]
    # Granite's and Apriel's are several tokens. Many a template names `<think>`, whatever the model.
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


def template_text(tokenizer: Any) -> str:
    """The text of all chat templates of a tokenizer; empty where Python code takes their place."""
    template = getattr(tokenizer, "chat_template", None) or ""
    named = template.values() if isinstance(template, Mapping) else [template]
    return "\n".join(text for text in named if isinstance(text, str))


def _call_formats(tokenizer: Any, vocabulary: Mapping[str, int], template: str) -> dict[str, CallFormat]:
    start, shown = None, template
    if tokenizer.has_tool_calling:
        # A configuration may name mlx-lm's parser, where no template shows the marks.
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
    tokenizer: Any, generation_prompt: str, tools: Sequence[Mapping[str, Any]] = ()
) -> ReplySplitter:
    """A splitter for a reply. `generation_prompt` is the text before it, `tools` are those it may call."""
    return ReplySplitter(format_of(tokenizer), generation_prompt, tools)


def closing_tokens(tokenizer: Any) -> list[int]:
    """The tokens that end thinking; none if the model has no thinking."""
    closing = format_of(tokenizer).closing
    if closing and closing == tokenizer.think_end:
        return list(tokenizer.think_end_tokens)
    return list(tokenizer.encode(closing, add_special_tokens=False)) if closing else []
