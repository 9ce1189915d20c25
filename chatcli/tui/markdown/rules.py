"""The Markdown that is read: CommonMark, tables, strikethrough and formulas that are left as they are."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_inline import StateInline

MATH = re.compile(
    r"\$\$[^$]{1,200}\$\$|\$(?=\S)[^$\n]{0,200}?[^\s$\\]\$(?!\d)|\\\([^\\]*?(?:\\[^()][^\\]*?)*\\\)"
    r"|\\\[[^\\]*?(?:\\[^\[\]][^\\]*?)*\\\]|\\[()\[\]]",
)
MATH_FENCES = {"$$": "$$", "\\[": "\\]"}

# A last line that is text whatever follows: it begins with a word, not with a tag, a rule or a marker.
DECIDED_TEXT = re.compile(r"(?!<)[\W_]*(?:[^\W_\x00-\x7f]|[^\W_]\S*?(?:[ \t]+\S|[^\x00-\x7f]))")


def parser() -> MarkdownIt:
    """Without what a later line could change: no underlined headings, no references."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["strikethrough"])
    parser.disable(["lheading", "reference", "text_join", "inline"])
    parser.block.ruler.before("fence", "math", math_block, {"alt": ["paragraph", "blockquote", "list"]})
    # Not before the others, as the library has it: a line that begins another block is no table's first.
    parser.block.ruler.before("paragraph", "table_in_text", table, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("escape", "math", math_inline)
    return parser


def math_inline(state: StateInline, silent: bool) -> bool:
    """A markdown-it rule: a formula in a line."""
    formula = MATH.match(state.src, state.pos)
    if formula is None:
        return False
    if not silent:
        state.push("math", "", 0).content = formula.group()
    state.pos = formula.end()
    return True


def math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A markdown-it rule: a formula on lines of its own, up to its closing sign or a blank line."""

    def text(line: int) -> str:
        return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip()

    first = text(start)
    closing = MATH_FENCES.get(first[:2])
    if closing is None or state.is_code_block(start):
        return False
    closed_at = first.find(closing, 2)
    if 0 <= closed_at < len(first) - 2:
        return False
    if silent:
        return True
    after = start + 1
    while closed_at < 0 and after < end and not state.isEmpty(after):
        if state.sCount[after] < state.blkIndent:
            break
        closed_at = text(after).find(closing)
        after += 1
    token = state.push("math_block", "", 0)
    token.map = [start, after]
    token.content = state.getLines(start, after, state.blkIndent, True)
    state.line = after
    return True


def source_lines(source: str) -> list[str]:
    """Lines with their ends; only a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+\Z", source)
