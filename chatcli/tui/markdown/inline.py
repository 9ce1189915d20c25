"""Styles the text of a block, and tells how much of it no later text can change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode as Node
from rich.style import Style
from rich.text import Text

from chatcli.text import clean
from chatcli.tui.text.console import DIM
from chatcli.tui.text.wrap import full_rows, last_unit

CODE = Style(color="cyan")
INLINE = {"strong": Style(bold=True), "em": Style(italic=True), "s": Style(strike=True)}
SPACES = re.compile("[\t\u2028\u2029]")
BREAK_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)

# Characters left over in text that later ones may turn into markup.
OPEN_MARKUP = re.compile(
    r"`|\*(?!\s)|(?<!\w)_(?!\s)|~~(?!\s)|\[(?![^\[\]]*\][^(])|<(?=[A-Za-z/!?]|$)|\$(?!\s)(?!.{204})"
)


@dataclass(frozen=True)
class InlineText:
    """A block's text so far. Before the offset `closed` no markup is left open.

    `last_word` and `last_line` are the offsets at which its last word and its last source line begin.
    """

    text: Text
    closed: int
    last_word: int
    last_line: int

    def stable(self, width: int) -> int:
        """How many characters no later text changes in rows of `width`."""
        if self.closed <= self.last_word:
            return self.closed
        return self.last_word + full_rows(self.text.plain[self.last_word : self.closed], width)


class InlineRenderer:
    """Renders the text of blocks. `plain`: there are no colours, so marks are kept."""

    def __init__(self, parser: MarkdownIt, plain: bool) -> None:
        self._parser = parser
        self._plain = plain

    def complete(self, block: Node, translate: Callable[[str], str] = str) -> Text:
        """The text of a block that does not grow."""
        return self._spans(self._nodes(block, translate))

    def _nodes(self, block: Node, translate: Callable[[str], str] = str) -> Sequence[Node]:
        """The inline nodes of a block; parsed only when it is to be shown."""
        tokens: list[Token] = []
        for inline in block.children:
            self._parser.inline.parse(translate(inline.content), self._parser, {}, tokens)
        return Node(tokens).children

    def growing(self, block: Node, skip: int = 0) -> InlineText:
        """The text of a block that may grow, without its first `skip` characters, which must be plain."""
        text, closed, last_line, last_word = Text(), None, 0, 0
        for node in self._nodes(block):
            start = len(text)
            span = self._span(node)[skip:] if skip else self._span(node)
            open_at = open_markup(node)
            if closed is None and open_at is not None:
                closed = max(start + open_at - skip, 0)
            skip = 0
            text.append_text(span)
            if node.type in ("softbreak", "hardbreak"):
                last_line = last_word = len(text)
            elif node.type == "text" and last_unit(span.plain):
                last_word = start + last_unit(span.plain)
        return InlineText(text, len(text) if closed is None else closed, last_word, last_line)

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
        if node.type in ("softbreak", "hardbreak"):
            # Kept, as in poems and addresses.
            return Text("" if _is_break_tag(node.previous_sibling) else "\n")
        return Text("\n" if _is_break_tag(node) else content)

    def _spans(self, nodes: Sequence[Node]) -> Text:
        return Text().join(self._span(node) for node in nodes)

    def _link(self, node: Node) -> Text:
        url = clean(str(node.attrs.get("href") or node.attrs.get("src") or ""))
        text = self._spans(node.children) if node.type == "link" else Text(clean(node.content))
        if text.plain in (url, url.removeprefix("mailto:")):
            return text
        return Text.assemble(text, (f" ({url})", DIM) if text.plain else (url, DIM))


def _is_break_tag(node: Node | None) -> bool:
    return node is not None and node.type == "html_inline" and bool(BREAK_TAG.fullmatch(node.content))


def open_markup(node: Node) -> int | None:
    """The offset of markup that is left open in an inline node, if there is any."""
    if node.type == "text":
        match = OPEN_MARKUP.search(node.content)
        return match.start() if match else None
    if node.type == "math" and node.content in ("\\(", "\\["):
        return 0
    children = () if node.type == "image" else node.children
    return 0 if any(open_markup(child) is not None for child in children) else None
