"""Which Markdown is read, and when a line's kind is decided; refuses to know screens."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

MATH = re.compile(
    r"\$\$[^$]{1,200}\$\$|\$(?=\S)[^$\n]{0,200}?[^\s$\\]\$(?!\d)|\\\([^\\]*?(?:\\[^()][^\\]*?)*\\\)"
    r"|\\\[[^\\]*?(?:\\[^\[\]][^\\]*?)*\\\]|\\[()\[\]]",
)
MATH_FENCES = {"$$": "$$", "\\[": "\\]"}

# The last line is text whatever follows: a word, a space, a sign; not a tag, a rule or a marker.
DECIDED = re.compile(r"(?!<)[\W_]*(?:[^\W_\x00-\x7f]|[^\W_]\S*?(?:[ \t]+\S|[^\x00-\x7f]))")


def parser() -> MarkdownIt:
    """CommonMark with tables, without what a later line could change: no underlined headings,
    no references. Formulas are left as they are."""
    made = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    made.disable(["lheading", "reference", "text_join", "inline"])
    made.block.ruler.before("fence", "math", math_block, {"alt": ["paragraph", "blockquote", "list"]})
    made.inline.ruler.before("escape", "math", math_inline)
    return made


def math_inline(state: StateInline, silent: bool) -> bool:
    """A markdown-it rule: a formula in a line."""
    found = MATH.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("math", "", 0).content = found.group()
    state.pos = found.end()
    return True


def math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A markdown-it rule: a formula on lines of its own, up to its closing sign or a blank line."""
    line = _state_line(state, start)
    closing = MATH_FENCES.get(line[:2])
    if closing is None or state.is_code_block(start):
        return False
    at = line.find(closing, 2)
    if 0 <= at < len(line) - 2:
        return False
    if silent:
        return True
    after = start + 1
    while at < 0 and after < end and not state.isEmpty(after):
        if state.sCount[after] < state.blkIndent:
            break
        at = _state_line(state, after).find(closing)
        after += 1
    token = state.push("math_block", "", 0)
    token.map = [start, after]
    token.content = state.getLines(start, after, state.blkIndent, True)
    state.line = after
    return True


def _state_line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip()


def source_lines(source: str) -> list[str]:
    """Lines with their ends; only a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+\Z", source)
