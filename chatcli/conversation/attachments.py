"""How the text of a file stands in a message, above the words that name it; refuses to know files."""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(r'(?<![^\s(\[{])@(?:"([^"\n]+)"|([^\s"]+))')
# What ends a sentence or closes a bracket right after a name.
PUNCTUATION = ".,;:!?)]}'"
# Files of one message that are looked for.
MOST = 50
BACKTICKS = re.compile("`+")
BLOCK = re.compile(r"## ([^\n]+)\n\n(`{3,})[^`\n]*\n(?:.*?\n)??\2\n\n", re.DOTALL)


def block(name: str, text: str, language: str) -> str:
    """A heading and the text in a fence that is longer than any in it."""
    longest = max(map(len, BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"## {name}\n\n{fence}{language}\n{text}{end}{fence}"


def named(text: str) -> dict[tuple[str, bool], None]:
    """Each different word after an `@`, with whether it was in quotes, in order."""
    return {(quoted or word, bool(quoted)): None for quoted, word in NAME.findall(text)}


def readings(word: str) -> Iterator[str]:
    """The word, then without the punctuation at its end, a sign at a time."""
    while word:
        yield word
        if word[-1] not in PUNCTUATION:
            return
        word = word[:-1]


def words(message: str) -> str:
    """What a person wrote of a message: without the files above it that it names."""
    found: list[re.Match[str]] = []
    while len(found) < MOST and (one := BLOCK.match(message, _end(found))) is not None:
        found.append(one)
    told = _names(message[_end(found) :])
    while found and not all(one[1] in told for one in found):
        told |= _names(found.pop()[0])  # that is the person's own
    return message[_end(found) :]


def _end(found: list[re.Match[str]]) -> int:
    return found[-1].end() if found else 0


def _names(text: str) -> set[str]:
    return {name for word, exact in named(text) for name in ([word] if exact else readings(word))}
