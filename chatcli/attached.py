"""How the text of a file stands in a message, above the words that name it; refuses to know files."""

from __future__ import annotations

import re

BACKTICKS = re.compile("`+")
BLOCK = re.compile(r"## ([^\n]+)\n\n(`{3,})[^`\n]*\n(?:.*?\n)??\2\n\n", re.DOTALL)


def block(name: str, text: str, language: str) -> str:
    """A heading and the text in a fence that is longer than any in it."""
    longest = max(map(len, BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"## {name}\n\n{fence}{language}\n{text}{end}{fence}"


def words(message: str) -> str:
    """What a person wrote of a message: without the files above it that it names."""
    found: list[re.Match[str]] = []
    while (one := BLOCK.match(message, found[-1].end() if found else 0)) is not None:
        found.append(one)
    while found:
        rest = message[found[-1].end() :]
        if all(f"@{one[1]}" in rest or f'@"{one[1]}"' in rest for one in found):
            return rest
        found.pop()  # that is the person's own
    return message
