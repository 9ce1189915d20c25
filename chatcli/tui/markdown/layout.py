"""From Markdown to lines of text, and which of them no later text can change; never draws."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode as Node
from rich import box
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from chatcli.text import clean
from chatcli.tui.markdown.highlight import Highlighter
from chatcli.tui.markdown.inline import Prose
from chatcli.tui.markdown.rows import NOWHERE, Block, Drawn, Place, Row, all_sure, prefixed, stacked
from chatcli.tui.markdown.rules import DECIDED, parser, source_lines
from chatcli.tui.text.styles import DIM
from chatcli.tui.text.wrap import full_breaks

PROSE_WIDTH = 100
LISTS = ("bullet_list", "ordered_list")
CONTAINERS = (*LISTS, "list_item", "blockquote")
TASK = re.compile(r"\[[ xX]\] (?=\S)")


@dataclass(frozen=True)
class Start:
    """What came before a piece of source: its first line's number, and how it goes on."""

    line: int = 0
    gap: bool = False
    number: int | None = None
    code_lines: int = 0


@dataclass(frozen=True)
class Cut:
    """Source that is done with: `rows` drawn rows; go on with `opener` + the lines from `line`."""

    rows: int
    line: int
    start: Start
    opener: str = ""


@dataclass(frozen=True)
class Page(Drawn):
    """`decided`: no later text changes what kind of block the last line is in."""

    decided: bool
    cut: Cut | None


class Layout:
    """From source to lines of text; keeps only what makes the next time cheap."""

    def __init__(self, console: Console, indent: str) -> None:
        self._console = console
        self._indent = len(indent)
        self._parser = parser()
        self._fences: dict[int, Highlighter] = {}
        self._prose = Prose(self._parser, console.no_color or console.color_system is None)
        self._start = Start()
        self._printed = NOWHERE
        self._source: list[str] = []
        self.fit()

    def fit(self) -> None:
        """Take over the console's width, one column less: a full line may wrap."""
        self._width = max(self._console.width - self._indent - 1, 4)

    def page(self, source: str, start: Start, printed: Place, ended: bool) -> Page:
        """The rows of `source`, and how many of them are sure unless it has `ended`.

        A row ends at `printed`, also when what is printed was laid out for another width.
        """
        self._source, self._start, self._printed = source_lines(source), start, printed
        self._fences = {line: one for line, one in self._fences.items() if line >= start.line}
        nodes = Node(self._parser.parse(source)).children
        if not nodes:
            return Page([], 0, False, None)
        before = stacked(
            (self._at(node).gap(start.gap or node is not nodes[0]), self._block(node, self._width))
            for node in nodes[:-1]
        ).rows
        follows, live = len(nodes) > 1, self._block(nodes[-1], self._width, not ended)
        last = stacked([(self._at(nodes[-1]).gap(start.gap or follows), live)])
        cut = self._cut(nodes[-1], len(before), last, follows)
        sure = len(before) + last.sure
        return Page(before + last.rows, sure, self._is_decided(source, nodes[-1]), cut)

    def _is_decided(self, source: str, leaf: Node) -> bool:
        if source.endswith("\n"):
            return True
        while leaf.type in CONTAINERS and leaf.children:
            leaf = leaf.children[-1]
        text = leaf.children[0].content if leaf.type == "paragraph" else ""
        ends = bool(leaf.map and leaf.map[1] == len(self._source))
        return ends and DECIDED.match(text[text.rfind("\n") + 1 :]) is not None

    def _cut(self, node: Node, row: int, drawn: Drawn, follows: bool) -> Cut | None:
        """The longest beginning of the source which is not needed any more."""
        first, start = _first_line(node), self._start
        gap = start.gap or follows
        if node.type in LISTS and len(node.children) > 1:
            return self._cut_list(node, row, gap)
        code = node.content.count("\n") if node.type == "fence" and drawn.sure else 0
        if code and drawn.sure == len(drawn.rows):
            begun = start.code_lines + code if not follows else code
            after = Start(start.line + first, False, None, begun)
            return Cut(row + drawn.sure, first + 1 + code, after, self._source[first])
        if follows:
            return Cut(row, first, Start(start.line + first, gap))
        return None

    def _cut_list(self, node: Node, row: int, gap: bool) -> Cut:
        items, last = node.children[:-1], node.children[-1]
        done = self._list(node, self._width, False, items)
        number = self._first_number(node)
        after = Start(
            self._start.line + _first_line(last),
            self._is_after_blank(last),
            None if number is None else number + len(items),
        )
        return Cut(row + gap + len(done.rows), _first_line(last), after)

    def _block(self, node: Node, width: int, live: bool = False) -> Drawn:
        if node.type in LISTS:
            return self._list(node, width, live, node.children)
        if node.type == "blockquote":
            inner = self._blocks(node.children, width - 2, live)
            return prefixed(inner, "▎ ", "▎ ")
        if node.type == "paragraph":
            return self._paragraph(node, width, live and self._is_open(node))
        if node.type == "fence":
            return self._fence(node, width)
        if node.type == "table":
            return self._table(node, width, live and self._is_open(node))
        return all_sure(self._simple(node, width))

    def _simple(self, node: Node, width: int) -> list[Row]:
        """Blocks that are whole as soon as their lines are."""
        if node.type == "heading":
            text = self._prose.text(node)
            text.stylize(Style(bold=True, underline=node.tag == "h1" or None))
            return self._at(node).words(text, min(width, PROSE_WIDTH))
        if node.type == "hr":
            return self._at(node).whole(Text("─" * min(width, 40), DIM))
        if node.type == "code_block":
            return self._at(node).barred(_verbatim(node, ""), width)
        style = DIM if node.type == "html_block" else ""
        return self._at(node).rows(_verbatim(node, style), width, full_breaks)

    def _at(self, node: Node, later: int = 0) -> Block:
        return Block(self._start.line + _first_line(node) + later, self._printed)

    def _blocks(self, nodes: Sequence[Node], width: int, live: bool) -> Drawn:
        """Blocks inside another: blank lines where the source has them."""
        return stacked(
            (
                self._at(node).gap(node is not nodes[0] and self._is_after_blank(node)),
                self._block(node, width, live and node is nodes[-1]),
            )
            for node in nodes
        )

    def _list(self, node: Node, width: int, live: bool, items: Sequence[Node]) -> Drawn:
        first = self._first_number(node)
        markers = ["• " if first is None else f"{first + row}. " for row in range(len(items))]
        return stacked(
            (
                self._at(item).gap(item is not items[0] and self._is_after_blank(item)),
                self._item(item, marker, width, live and item is items[-1]),
            )
            for item, marker in zip(items, markers, strict=True)
        )

    def _item(self, item: Node, marker: str, width: int, live: bool) -> Drawn:
        first = item.children[0] if item.children else None
        text = first.children[0] if first is not None and first.type == "paragraph" else None
        if text is not None and TASK.match(text.content):
            marker = text.content[:4]
        # In a very narrow window nothing would be left for the text.
        room = max(width - len(marker), 4)
        inner = self._blocks(item.children, room, live)
        if not inner.rows:
            return Drawn(self._at(item).whole(Text(marker, DIM)), 0 if live else 1)
        return prefixed(inner, marker, " " * len(marker))

    def _first_number(self, node: Node) -> int | None:
        if node.type == "bullet_list":
            return None
        goes_on = node.level == 0 and _first_line(node) == 0 and self._start.number is not None
        return self._start.number if goes_on else int(node.attrs.get("start", 1))

    def _paragraph(self, node: Node, width: int, live: bool) -> Drawn:
        content = node.children[0].content
        is_item = node.parent is not None and node.parent.type == "list_item"
        task = is_item and node.previous_sibling is None and bool(TASK.match(content))
        inline = self._prose.inline(node, skip=4 if task else 0)
        width = max(min(width, PROSE_WIDTH), 4)
        block = self._at(node)
        rows = block.words(inline.text, width)
        if not live:
            return all_sure(rows)
        # A last line with a bar may turn out to be a table's first.
        sure = inline.last_line if "|" in content[content.rfind("\n") + 1 :] else inline.sure
        return Drawn(rows, block.full(inline.text.plain[: min(sure, inline.sure)], width))

    def _fence(self, node: Node, width: int) -> Drawn:
        lines = node.content.removesuffix("\n").split("\n") if node.content else []
        block = self._at(node)
        done = self._start.code_lines if _first_line(node) == 0 and node.level == 0 else 0
        language = node.info.split()[0] if node.info.split() else ""
        highlighter = self._fences.get(block.line)
        if highlighter is None or highlighter.language != language:
            highlighter = self._fences[block.line] = Highlighter(language)
        # Every line but a last one which is still growing.
        whole = len(lines) if self._source[-1].endswith("\n") else len(lines) - 1
        coloured = highlighter.lines(lines, done, whole)
        return all_sure(block.barred(coloured, width, done))

    def _table(self, node: Node, width: int, live: bool) -> Drawn:
        rows = [row for part in node.children for row in part.children]
        # Of its first line some may be printed as prose already.
        block = self._at(node, later=1)
        if live:
            count = f" {len(rows)} rows" if len(rows) > 1 else ""
            return Drawn(block.whole(Text(f"table…{count}", DIM)), 0)
        table = Table(
            box=box.SIMPLE_HEAD,
            border_style=DIM,
            show_edge=False,
            pad_edge=False,
            header_style="bold",
        )
        for head in rows[0].children:
            style = str(head.attrs.get("style", ""))
            justify = next((one for one in ("right", "center") if one in style), "left")
            table.add_column(self._prose.text(head), justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in rows[1:]:
            table.add_row(*map(self._prose.text, row.children))
        options = self._console.options.update(width=max(width, 4))
        drawn = self._console.render_lines(table, options, pad=False)
        lines = [Text.assemble(*((part.text, part.style or "") for part in row)) for row in drawn]
        for line in lines:
            line.rstrip()
        return all_sure(block.whole(*(line for line in lines if line.plain)))

    def _is_open(self, node: Node) -> bool:
        return node.map is None or node.map[1] >= len(self._source)

    def _is_after_blank(self, node: Node) -> bool:
        line = _first_line(node)
        return line > 0 and not self._source[line - 1].strip(" \t\n>")


def _first_line(node: Node) -> int:
    return node.map[0] if node.map else 0


def _verbatim(node: Node, style: Style | str) -> list[Text]:
    lines = node.content.rstrip("\n").split("\n")
    return [Text(clean(line).expandtabs(4), style) for line in lines]
