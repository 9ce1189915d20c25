"""Finds the code blocks of a reply in its Markdown."""

from __future__ import annotations


def last_code_block(text: str) -> str | None:
    """The lines of the last code block, or None. An unclosed block ends with the text."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(text)
    blocks = [token for token in tokens if token.type in ("fence", "code_block")]
    return blocks[-1].content.removesuffix("\n") if blocks else None
