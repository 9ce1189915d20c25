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
    """`text` with its headings below `level`, its code blocks closed, and HTML as text, as on the screen."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    lines = text.split("\n")
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
