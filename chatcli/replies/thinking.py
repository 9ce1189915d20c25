"""The marks that models put around their thinking, and a function that splits saved replies at them."""

from __future__ import annotations

import re

from chatcli.replies.splitter import HARMONY, Format, ReplySplitter

# The opening and closing mark of each kind of thinking.
THINKING_MARKERS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<seed:think>", "</seed:think>"),
    ("<|think:start|>", "<|think:end|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("[THINK]", "[/THINK]"),
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
HARMONY_START = re.compile(r"\s*(?:<\|start\|>assistant)?\s*<\|channel\|>(?:analysis|final)<\|message\|>")
END = re.compile(r"(?:<\|return\|>|<\|end\|>|<\|im_end\|>)\s*\Z")
FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


def split_thinking(content: str) -> tuple[str, str]:
    """Split a reply that another program saved as one string into thinking and text.

    Thinking is only recognized at the beginning. Later marks are text.
    """
    for pair in THINKING_MARKERS:
        if content.lstrip().startswith(pair[0]):
            return _split(content, Format(thinking=pair))
    if HARMONY_START.match(content):
        return _split(content, Format(headers=HARMONY))
    # If the generation prompt opened the thinking, the reply has only the closing mark.
    for opening, closing in THINKING_MARKERS:
        thought, closed, text = content.partition(closing)
        if closed and opening not in thought and _is_end(thought, text):
            return thought.strip(), END.sub("", text).strip("\n")
    return "", content


def _split(content: str, reply_format: Format) -> tuple[str, str]:
    reading = ReplySplitter(reply_format)
    parts = [*reading.feed(content), *reading.finish()]
    thinking, text = ("".join(part.text for part in parts if part.thinking is each) for each in (True, False))
    return thinking.strip(), END.sub("", text).strip("\n")


def _is_end(thought: str, text: str) -> bool:
    """Whether a mark between these texts closes thinking, rather than being quoted or in a code block."""
    if len(FENCE.findall(thought)) % 2:
        return False
    if thought.endswith("\n") or text[:1] in ("", "\n"):
        return not thought.endswith((" ", "\t"))
    return not {thought[-1:], text[:1]} & {*" \t`'\"()"}
