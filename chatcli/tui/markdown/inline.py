"""The text of one block, styled, and up to where it is sure; refuses to know blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode as Node
from rich.style import Style
from rich.text import Text

from chatcli.text import clean
from chatcli.tui.text.styles import DIM
from chatcli.tui.text.wrap import last_unit

CODE = Style(color="cyan")
INLINE = {"strong": Style(bold=True), "em": Style(italic=True), "s": Style(strike=True)}
SPACES = re.compile("[\t\u2028\u2029]")
BREAK_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)

# Signs left over in text which a later sign may turn into markup.
UNRESOLVED = re.compile(
    r"`|\*(?!\s)|(?<!\w)_(?!\s)|~~(?!\s)|\[(?![^\[\]]*\][^(])|<(?=[A-Za-z/!?]|$)|\$(?!\s)(?!.{204})"
)


@dataclass(frozen=True)
class Inline:
    """Text of a paragraph so far; before `sure` it keeps; its last source line is at `last_line`."""

    text: Text
    sure: int
    last_line: int


class Prose:
    """From the text of a block to styled text."""

    def __init__(self, parser: MarkdownIt, plain: bool) -> None:
        self._parser = parser
        self._plain = plain

    def text(self, block: Node) -> Text:
        """A block's text, whole."""
        return self._spans(self._nodes(block))

    def _nodes(self, block: Node) -> Sequence[Node]:
        """What is in a block's text; parsed only here, when it is to be shown."""
        tokens: list[Token] = []
        for inline in block.children:
            self._parser.inline.parse(inline.content, self._parser, {}, tokens)
        return Node(tokens).children

    def inline(self, block: Node, skip: int = 0) -> Inline:
        """A block's text without its first `skip` characters, which must be plain."""
        text, sure, last_line, last_word = Text(), None, 0, 0
        for node in self._nodes(block):
            begun = len(text)
            part = self._span(node)[skip:] if skip else self._span(node)
            open_at = doubt(node)
            if sure is None and open_at is not None:
                sure = max(begun + open_at - skip, 0)
            skip = 0
            text.append_text(part)
            if node.type in ("softbreak", "hardbreak"):
                last_line = last_word = len(text)
            elif node.type == "text" and last_unit(part.plain):
                last_word = begun + last_unit(part.plain)
        return Inline(text, last_word if sure is None else min(sure, last_word), last_line)

    def _span(self, node: Node) -> Text:
        if node.type in INLINE:
            text = self._spans(node.children)
            text.stylize_before(INLINE[node.type])
            return text
        if node.type in ("link", "image"):
            return self._link(node)
        content = SPACES.sub(" ", clean(node.content))
        if node.type == "code_inline":
            return Text(f"`{content}`") if self._plain else Text(content, CODE)
        if node.type == "hardbreak" or BREAK_TAG.fullmatch(content):
            return Text("\n")
        return Text(" " if node.type == "softbreak" else content)

    def _spans(self, nodes: Sequence[Node]) -> Text:
        return Text().join(self._span(node) for node in nodes)

    def _link(self, node: Node) -> Text:
        url = clean(str(node.attrs.get("href") or node.attrs.get("src") or ""))
        text = self._spans(node.children) if node.type == "link" else Text(clean(node.content))
        if text.plain in (url, url.removeprefix("mailto:")):
            return text
        return Text.assemble(text, (f" ({url})", DIM) if text.plain else (url, DIM))


def doubt(node: Node) -> int | None:
    """Where in an inline node something is left open, if anywhere."""
    if node.type == "text":
        found = UNRESOLVED.search(node.content)
        return found.start() if found else None
    if node.type == "math" and node.content in ("\\(", "\\["):
        return 0
    inside = () if node.type == "image" else node.children
    return 0 if any(doubt(child) is not None for child in inside) else None
