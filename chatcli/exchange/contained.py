"""A message's Markdown as a part of a document: whatever it leaves open or heads ends with the message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*?)[ \t]*$")
HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
MAX_HEADING_LEVEL = 6
# The start of a tag, a comment or the like, but not of a link or a line break.
TAG_START = re.compile(r"<(?=[A-Za-z/!?])(?!br *\/?>)(?!(?:[A-Za-z][A-Za-z0-9+.-]+:|[^\s<>@]+@)[^\s<>]*>)")
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")


def contained(text: str, level: int) -> str:
    """`text` with its headings below `level`, its code blocks closed, and HTML as text, as on the screen.

    A code block that holds another one in a fence as long as its own gets a longer fence.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    lines = _with_longer_fences(text.split("\n"))
    while True:
        tokens = parser.parse("\n".join(lines))
        changed = _without_underlines(_without_html(lines, tokens), tokens)
        if changed == lines:
            break
        # What is text now may have hidden other HTML and headings.
        lines = changed
    lines = _lowered(lines, tokens, level)
    last = tokens[-1] if tokens else None
    if last is not None and last.type == "fence" and last.map is not None:
        closing = FENCE.match(lines[last.map[1] - 1]) if last.map[1] - last.map[0] > 1 else None
        if closing is None or closing[2] or not closing[1].startswith(last.markup):
            lines.append(last.markup)
    return "\n".join(lines)


def _with_longer_fences(lines: Sequence[str]) -> list[str]:
    """CommonMark ends a code block at the first bare fence, also where that ends a block inside."""
    changed = list(lines)
    start = 0
    while start < len(changed):
        if (opener := FENCE.match(changed[start])) is None:
            start += 1
            continue
        # The fences that are open, if one with a language opens a block inside.
        char, longest, depth, end = opener[1][0], len(opener[1]), 1, start
        while depth and end + 1 < len(changed):
            end += 1
            fence = FENCE.match(changed[end])
            if fence is None or fence[1][0] != char:
                continue
            if not fence[2] and (depth > 1 or len(fence[1]) >= len(opener[1])):
                depth -= 1
            elif fence[2]:
                depth += 1
                longest = max(longest, len(fence[1]))
        holds_fences = any(
            (fence := FENCE.match(line)) and fence[2] and fence[1][0] == char
            for line in changed[start + 1 : end]
        )
        if not depth and holds_fences:
            longer = char * (longest + 1)
            changed[start] = changed[start].replace(opener[1], longer, 1)
            changed[end] = longer
        start = end + 1 if not depth else start + 1
    return changed


def _without_underlines(lines: Sequence[str], tokens: Sequence[Token]) -> list[str]:
    """What only underlines a line makes no heading of it, as on the screen."""
    changed = list(lines)
    for token in tokens:
        if token.type == "heading_open" and token.map is not None and not token.markup.startswith("#"):
            underline = token.map[1] - 1
            line = changed[underline]
            at = line.index(token.markup)
            changed[underline] = f"{line[:at]}\\{line[at:]}" if token.markup == "=" else f"\n{line}"
    return "\n".join(changed).split("\n")


def _lowered(lines: Sequence[str], tokens: Sequence[Token], level: int) -> list[str]:
    """Headings `level` levels down."""
    changed = list(lines)
    for token in tokens:
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            marks = "#" * min(len(token.markup) + level, MAX_HEADING_LEVEL)
            changed[token.map[0]] = HEADING.sub(marks, changed[token.map[0]], count=1)
    return changed


def _without_html(lines: Sequence[str], tokens: Sequence[Token]) -> list[str]:
    """Tags outside code made text."""
    changed = list(lines)
    for token in tokens:
        if token.map is not None and token.type in ("html_block", "inline"):
            for number in range(*token.map):
                changed[number] = _escaped(changed[number])
    return changed


def _escaped(line: str) -> str:
    parts, end = [], 0
    for span in CODE_SPAN.finditer(line):
        parts += [TAG_START.sub("&lt;", line[end : span.start()]), span.group()]
        end = span.end()
    return "".join([*parts, TAG_START.sub("&lt;", line[end:])])
