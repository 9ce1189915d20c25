"""Lays out Markdown that may still grow, and tells which rows no later text can change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_inline import StateInline
from markdown_it.tree import SyntaxTreeNode as Node
from rich import box
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from chatcli.text import clean
from chatcli.tui.markdown.highlight import Highlighter
from chatcli.tui.markdown.inline import InlineRenderer
from chatcli.tui.markdown.rows import (
    BEFORE_ALL,
    Block,
    Position,
    RenderedRows,
    all_stable,
    indented,
    prefixed,
    stack,
)
from chatcli.tui.text.console import DIM
from chatcli.tui.text.fit import portable
from chatcli.tui.text.wrap import full_breaks

MAX_PROSE_COLUMNS = 100
LISTS = ("bullet_list", "ordered_list")
CONTAINERS = (*LISTS, "list_item", "blockquote")
MATH = re.compile(
    r"\$\$[^$]{1,200}\$\$|\$(?=\S)[^$\n]{0,200}?[^\s$\\]\$(?!\d)|\\\([^\\]*?(?:\\[^()][^\\]*?)*\\\)"
    r"|\\\[[^\\]*?(?:\\[^\[\]][^\\]*?)*\\\]|\\[()\[\]]",
)
MATH_FENCES = {"$$": "$$", "\\[": "\\]"}

# A last line that is text whatever follows: it begins with a word, not with a tag, a rule or a list's marker
# (which has nine digits at most).
DECIDED_TEXT = re.compile(r"(?!<)[\W_]*(?:[^\W_\x00-\x7f]|[^\W_](?:\w{9}|\S*?(?:[ \t]+\S|[^\x00-\x7f])))")
TASK = re.compile(r"\[[ xX]\] (?=\S)")


@dataclass(frozen=True)
class TailState:
    """What must be remembered of the source before its tail.

    `line` is the number of the tail's first line, `gap` whether a blank row belongs above it. `number` is
    the number of a list item that it begins with, `code_lines` how many lines of its fence came before.
    """

    line: int = 0
    gap: bool = False
    number: int | None = None
    code_lines: int = 0


@dataclass(frozen=True)
class Cut:
    """Where the tail may be shortened, once its first `rows` rows are printed.

    The new tail is `opener` and the lines from `line` on, after `state`.
    """

    rows: int
    line: int
    state: TailState
    opener: str = ""


@dataclass(frozen=True)
class Page(RenderedRows):
    """The rows of a tail. `decided`: no later text changes what kind of block the last line is in."""

    decided: bool
    cut: Cut | None


class Layout:
    """Lays out the tail of a reply. It keeps only caches from one call to the next."""

    def __init__(self, console: Console, indent: str) -> None:
        self._console = console
        self._indent = indent
        self._parser = parser()
        self._highlighters: dict[int, Highlighter] = {}
        self._inline = InlineRenderer(self._parser, console.no_color or console.color_system is None)
        self._state = TailState()
        self._printed = BEFORE_ALL
        self._source: list[str] = []
        self._ended = False
        self.fit()

    def fit(self) -> None:
        """Take over the console's width, less one column: a full line may wrap."""
        self._width = max(self._console.width - len(self._indent) - 1, 4)

    def page(self, source: str, state: TailState, printed: Position, ended: bool) -> Page:
        """The rows of `source` after `state`, all of them stable if it has `ended`.

        A row ends at `printed`, even if the printed rows were laid out for another width.
        """
        self._source, self._state, self._printed = source_lines(source), state, printed
        self._ended = ended
        self._highlighters = {line: kept for line, kept in self._highlighters.items() if line >= state.line}
        nodes = Node(self._parser.parse(source)).children
        if not nodes:
            return Page([], 0, False, None)
        before = stack(
            (self._at(node).gap(state.gap or node is not nodes[0]), self._block(node, self._width))
            for node in nodes[:-1]
        ).rows
        last_node, follows = nodes[-1], len(nodes) > 1
        gap = self._at(last_node).gap(state.gap or follows)
        last = stack([(gap, self._block(last_node, self._width, live=not ended))])
        cut = self._cut(last_node, len(before), last, follows)
        stable = len(before) + last.stable
        rows = indented([*before, *last.rows], self._indent)
        return Page(rows, stable, self._is_decided(source, last_node), cut)

    def _is_decided(self, source: str, leaf: Node) -> bool:
        if source.endswith("\n"):
            return True
        while leaf.type in CONTAINERS and leaf.children:
            leaf = leaf.children[-1]
        text = leaf.children[0].content if leaf.type == "paragraph" else ""
        ends = bool(leaf.map and leaf.map[1] == len(self._source))
        return ends and DECIDED_TEXT.match(text[text.rfind("\n") + 1 :]) is not None

    def _cut(self, node: Node, row: int, rendered: RenderedRows, follows: bool) -> Cut | None:
        """Where the tail may be shortened, `node` being its last block, whose rows begin at `row`."""
        line, state = _first_line(node), self._state
        gap = state.gap or follows
        if node.type in LISTS and len(node.children) > 1:
            # All items but the last.
            items, last = node.children[:-1], node.children[-1]
            done = self._list(node, self._width, False, items)
            number = self._first_number(node)
            after = TailState(
                state.line + _first_line(last),
                self._is_after_blank(last),
                None if number is None else number + len(items),
            )
            return Cut(row + gap + len(done.rows), _first_line(last), after)
        code_lines = node.content.count("\n") if node.type == "fence" and rendered.stable else 0
        if code_lines and rendered.stable == len(rendered.rows):
            # The code so far, but not the line that opens the fence.
            before = 0 if follows else state.code_lines
            after = TailState(state.line + line, False, None, before + code_lines)
            return Cut(row + rendered.stable, line + 1 + code_lines, after, self._source[line])
        if follows:
            return Cut(row, line, TailState(state.line + line, gap))
        return None

    def _block(self, node: Node, width: int, live: bool = False) -> RenderedRows:
        if node.type in LISTS:
            return self._list(node, width, live, node.children)
        if node.type == "blockquote":
            inner = self._blocks(node.children, width - 2, live)
            return prefixed(inner, "▎ ", "▎ ")
        if node.type == "paragraph":
            return self._paragraph(node, width, live and self._is_open(node))
        if node.type in ("fence", "code_block"):
            return self._code(node, width)
        if node.type == "table":
            return self._table(node, width, live and self._is_open(node))
        # The other kinds are final as soon as their lines are.
        block = self._at(node)
        if node.type == "heading":
            text = self._inline.complete(node)
            text.stylize(Style(bold=True, underline=node.tag == "h1" or None))
            return all_stable(block.word_rows(text, min(width, MAX_PROSE_COLUMNS)))
        if node.type == "hr":
            return all_stable(block.atomic_rows(Text("─" * min(width, 40), DIM)))
        style = DIM if node.type == "html_block" else ""
        lines = [Text(clean(line).expandtabs(4), style) for line in node.content.rstrip("\n").split("\n")]
        return all_stable(block.rows(lines, width, full_breaks))

    def _at(self, node: Node, later: int = 0) -> Block:
        return Block(self._state.line + _first_line(node) + later, self._printed)

    def _blocks(self, nodes: Sequence[Node], width: int, live: bool) -> RenderedRows:
        """Blocks inside another: blank lines where the source has them."""
        return stack(
            (
                self._at(node).gap(node is not nodes[0] and self._is_after_blank(node)),
                self._block(node, width, live and node is nodes[-1]),
            )
            for node in nodes
        )

    def _list(self, node: Node, width: int, live: bool, items: Sequence[Node]) -> RenderedRows:
        first = self._first_number(node)
        markers = ["• " if first is None else f"{first + row}. " for row in range(len(items))]
        return stack(
            (
                self._at(item).gap(item is not items[0] and self._is_after_blank(item)),
                self._item(item, marker, width, live and item is items[-1]),
            )
            for item, marker in zip(items, markers, strict=True)
        )

    def _item(self, item: Node, marker: str, width: int, live: bool) -> RenderedRows:
        first = item.children[0] if item.children else None
        text = first.children[0] if first is not None and first.type == "paragraph" else None
        if text is not None and TASK.match(text.content):
            marker = text.content[:4]
        # A very narrow window would leave no room for the text.
        room = max(width - len(marker), 4)
        inner = self._blocks(item.children, room, live)
        if not inner.rows:
            return RenderedRows(self._at(item).atomic_rows(Text(marker, DIM)), 0 if live else 1)
        return prefixed(inner, marker, " " * len(marker))

    def _first_number(self, node: Node) -> int | None:
        if node.type == "bullet_list":
            return None
        goes_on = node.level == 0 and _first_line(node) == 0 and self._state.number is not None
        return self._state.number if goes_on else int(node.attrs.get("start", 1))

    def _paragraph(self, node: Node, width: int, live: bool) -> RenderedRows:
        content = node.children[0].content
        is_item = node.parent is not None and node.parent.type == "list_item"
        task = is_item and node.previous_sibling is None and bool(TASK.match(content))
        inline = self._inline.growing(node, skip=4 if task else 0)
        width = max(min(width, MAX_PROSE_COLUMNS), 4)
        block = self._at(node)
        rows = block.word_rows(inline.text, width)
        if not live:
            return all_stable(rows)
        # A last line with a bar may turn out to be a table's first.
        stable = inline.stable(width)
        if "|" in content[content.rfind("\n") + 1 :]:
            stable = min(stable, inline.last_line)
        return RenderedRows(rows, block.count_full(inline.text.plain[:stable], width))

    def _code(self, node: Node, width: int) -> RenderedRows:
        lines = node.content.removesuffix("\n").split("\n") if node.content else []
        block = self._at(node)
        start = self._state.code_lines if _first_line(node) == 0 and node.level == 0 else 0
        language = node.info.split()[0] if node.info.split() else ""
        highlighter = self._highlighters.get(block.line)
        if highlighter is None or highlighter.language != language:
            highlighter = self._highlighters[block.line] = Highlighter(language)
        # Every line but a last one that is still growing.
        complete = len(lines) if self._source[-1].endswith("\n") else len(lines) - 1
        # The language stands for the fence, which is line 0 of the block's text.
        label = block.rows([Text(clean(language), DIM)] if language else [], width, full_breaks)
        if node.level == 0:
            width += len(self._indent)
        highlighted = highlighter.lines(lines, start, complete, self._ended)
        return all_stable([*label, *block.code_rows(highlighted, width, start + 1)])

    def _table(self, node: Node, width: int, live: bool) -> RenderedRows:
        rows = [row for part in node.children for row in part.children]
        # Some of its first line may be printed as prose already.
        block = self._at(node, later=1)
        if live:
            count = f" {len(rows)} rows" if len(rows) > 1 else ""
            return RenderedRows(block.atomic_rows(Text(f"table…{count}", DIM)), 0)
        table = Table(
            box=box.SIMPLE_HEAD,
            border_style=DIM,
            show_edge=False,
            pad_edge=False,
            header_style="bold",
        )
        # Every terminal must draw a cell in the same columns.
        cell = partial(self._inline.complete, translate=portable)
        for head in rows[0].children:
            style = str(head.attrs.get("style", ""))
            justify = next((side for side in ("right", "center") if side in style), "left")
            table.add_column(cell(head), justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in rows[1:]:
            table.add_row(*map(cell, row.children))
        options = self._console.options.update(width=max(width, 4))
        rendered = self._console.render_lines(table, options, pad=False)
        lines = [Text.assemble(*((segment.text, segment.style or "") for segment in row)) for row in rendered]
        for line in lines:
            line.rstrip()
        return all_stable(block.atomic_rows(*(line for line in lines if line.plain)))

    def _is_open(self, node: Node) -> bool:
        return node.map is None or node.map[1] >= len(self._source)

    def _is_after_blank(self, node: Node) -> bool:
        line = _first_line(node)
        return line > 0 and not self._source[line - 1].strip(" \t\n>")


def _first_line(node: Node) -> int:
    return node.map[0] if node.map else 0


def parser() -> MarkdownIt:
    """A parser without the syntax that changes earlier lines: underlined headings and references."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["strikethrough"])
    parser.disable(["lheading", "reference", "text_join", "inline"])
    parser.block.ruler.before("fence", "math", math_block, {"alt": ["paragraph", "blockquote", "list"]})
    # After the other blocks, unlike in the library: a line that begins another block does not begin a table.
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
