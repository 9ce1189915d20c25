"""The markers that models put around their thinking, and a saved reply split by them."""

from __future__ import annotations

import re

# What opens the thinking, and what closes it.
THINKING_MARKERS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<seed:think>", "</seed:think>"),
    ("<|think:start|>", "<|think:end|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("<|channel>thought", "<channel|>"),
    ("[THINK]", "[/THINK]"),
)
# Those of gpt-oss, what it has before them and before its answer, and what may end any reply of it.
HARMONY_MARKERS = ("<|channel|>analysis<|message|>", "<|end|>")
BEGINNING = re.compile(r"\s*(?:<\|start\|>assistant)?\s*")
ANSWER = re.compile(rf"{BEGINNING.pattern}<\|channel\|>final<\|message\|>")
END = re.compile(r"(?:<\|return\|>|<\|end\|>|<\|im_end\|>)\s*\Z")
FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


def split_thinking(content: str) -> tuple[str, str]:
    """The thinking and the text of a reply that another program saved as one text.

    Markers later than at its beginning are text that speaks of them.
    """
    thinking: list[str] = []
    rest = content
    while (opened := _opened(rest)) is not None:
        start, closing = opened
        thought, closed, rest = rest[start:].partition(closing)
        thinking.append(thought.strip())
        if not closed:
            break
    if not thinking:
        # Where the template has opened the thinking, the reply has the closing marker only.
        for opening, closing in THINKING_MARKERS:
            thought, closed, text = content.partition(closing)
            if closed and opening not in thought and _is_end(thought, text):
                thinking, rest = [thought.strip()], text
                break
    if not thinking and not ANSWER.match(content):
        return "", content
    text = END.sub("", ANSWER.sub("", rest, count=1))
    return "\n\n".join(filter(None, thinking)), text.strip("\n") if thinking else text


def _opened(text: str) -> tuple[int, str] | None:
    """Where the thinking begins that opens a text, and what closes it."""
    beginning = BEGINNING.match(text)
    at = beginning.end() if beginning else 0
    for opening, closing in (*THINKING_MARKERS, HARMONY_MARKERS):
        if text.startswith(opening, at):
            return at + len(opening), closing
    return None


def _is_end(thought: str, text: str) -> bool:
    """Whether a marker between these closes thinking: it is not quoted, in a sentence or in a code block."""
    if len(FENCE.findall(thought)) % 2:
        return False
    if thought.endswith("\n") or text[:1] in ("", "\n"):
        return not thought.endswith((" ", "\t"))
    return not {thought[-1:], text[:1]} & {*" \t`'\"()"}
