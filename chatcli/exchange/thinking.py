"""Splits the thinking off a reply that another program saved as one text, by the markers that models use."""

from __future__ import annotations

import re

# As mlx-lm and the models' templates have them: what opens the thinking, and what closes it.
THINKING_MARKERS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<seed:think>", "</seed:think>"),
    ("<|think:start|>", "<|think:end|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("[THINK]", "[/THINK]"),
)
# What gpt-oss has before its answer, and what may end any reply of it.
ANSWER = re.compile(r"\s*(?:<\|start\|>assistant)?\s*<\|channel\|>final<\|message\|>")
END = re.compile(r"(?:<\|return\|>|<\|end\|>|<\|im_end\|>)\s*\Z")


def split_thinking(content: str) -> tuple[str, str]:
    """A reply's thinking and its text. Markers later than at its beginning are text that speaks of them."""
    thinking: list[str] = []
    rest = content
    while (opened := _opened(rest)) is not None:
        start, closing = opened
        thought, closed, rest = rest[start:].partition(closing)
        thinking.append(thought.strip())
        if not closed:
            break
    if not thinking:
        # Where the template has opened the thinking, the reply has the closing marker only, on its own line.
        for _, closing in THINKING_MARKERS:
            thought, closed, text = content.partition(f"\n{closing}\n")
            if closed:
                thinking, rest = [thought.strip()], text
                break
    if not thinking and not ANSWER.match(content):
        return "", content
    text = END.sub("", ANSWER.sub("", rest, count=1))
    return "\n\n".join(filter(None, thinking)), text.strip("\n") if thinking else text


def _opened(text: str) -> tuple[int, str] | None:
    """Where the thinking begins that opens a text, and what closes it."""
    stripped = text.lstrip()
    for opening, closing in THINKING_MARKERS:
        if stripped.startswith(opening):
            return len(text) - len(stripped) + len(opening), closing
    return None
