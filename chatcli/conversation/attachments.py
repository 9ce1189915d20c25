"""Puts the text of mentioned files above a message's own text, and removes it again."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(r'(?<![^\s(\[{])@(?:"([^"\n]+)"|([^\s"]+))')
# Punctuation that may follow a name without a space.
PUNCTUATION = ".,;:!?)]}'"
# The most files in one message.
MAX_FILES = 50
BACKTICKS = re.compile("`+")
BLOCK = re.compile(r"## ([^\n]+)\n\n(`{3,})[^`\n]*\n(?:.*?\n)??\2\n\n", re.DOTALL)


def block(name: str, text: str, language: str) -> str:
    """A heading, and the text in a fence longer than any fence inside it."""
    longest = max(map(len, BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"## {name}\n\n{fence}{language}\n{text}{end}{fence}"


def mentioned(text: str) -> dict[tuple[str, bool], None]:
    """Each distinct word after an `@`, in order, with whether it was in quotes."""
    return {(quoted or word, bool(quoted)): None for quoted, word in NAME.findall(text)}


def readings(word: str) -> Iterator[str]:
    """The word, then the word without its last character of punctuation, and so on."""
    while word:
        yield word
        if word[-1] not in PUNCTUATION:
            return
        word = word[:-1]


def typed_text(message: str) -> str:
    """What a person typed: the message without the attached files above it."""
    blocks: list[re.Match[str]] = []
    while len(blocks) < MAX_FILES and (match := BLOCK.match(message, _end(blocks))) is not None:
        blocks.append(match)
    if not blocks:
        return message
    names = _names(message[_end(blocks) :])
    while blocks and not all(block[1] in names for block in blocks):
        names |= _names(blocks.pop()[0])  # not mentioned, so the person typed it
    return message[_end(blocks) :]


def _end(blocks: list[re.Match[str]]) -> int:
    return blocks[-1].end() if blocks else 0


def _names(text: str) -> set[str]:
    return {name for word, is_quoted in mentioned(text) for name in ([word] if is_quoted else readings(word))}
