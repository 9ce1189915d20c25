"""Puts the text of files into a message, above the words that mention them, and takes it off again."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(r'(?<![^\s(\[{])@(?:"([^"\n]+)"|([^\s"]+))')
# What ends a sentence or closes a bracket right after a name.
PUNCTUATION = ".,;:!?)]}'"
# Files of one message.
MAX_FILES = 50
BACKTICKS = re.compile("`+")
BLOCK = re.compile(r"## ([^\n]+)\n\n(`{3,})[^`\n]*\n(?:.*?\n)??\2\n\n", re.DOTALL)


def block(name: str, text: str, language: str) -> str:
    """A heading and the text in a fence that is longer than any in it."""
    longest = max(map(len, BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"## {name}\n\n{fence}{language}\n{text}{end}{fence}"


def mentioned(text: str) -> dict[tuple[str, bool], None]:
    """Each different word after an `@`, with whether it was in quotes, in order (an ordered set)."""
    return {(quoted or word, bool(quoted)): None for quoted, word in NAME.findall(text)}


def readings(word: str) -> Iterator[str]:
    """The word, then without the punctuation at its end, a character at a time."""
    while word:
        yield word
        if word[-1] not in PUNCTUATION:
            return
        word = word[:-1]


def typed_text(message: str) -> str:
    """What a person typed of a message: without the files above it that it mentions."""
    blocks: list[re.Match[str]] = []
    while len(blocks) < MAX_FILES and (match := BLOCK.match(message, _end(blocks))) is not None:
        blocks.append(match)
    if not blocks:
        return message
    names = _names(message[_end(blocks) :])
    while blocks and not all(block[1] in names for block in blocks):
        names |= _names(blocks.pop()[0])  # not mentioned: the person typed it
    return message[_end(blocks) :]


def _end(blocks: list[re.Match[str]]) -> int:
    return blocks[-1].end() if blocks else 0


def _names(text: str) -> set[str]:
    return {name for word, is_quoted in mentioned(text) for name in ([word] if is_quoted else readings(word))}
