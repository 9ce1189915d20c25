"""The full-screen tree of a conversation, to pick the message to continue from."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import wcwidth
from prompt_toolkit.formatted_text import StyleAndTextTuples

from chatcli.conversation import finish
from chatcli.conversation.tree import ROLE_NAMES, Conversation, Entry
from chatcli.text import clean_line, count
from chatcli.tui.pickers.picker import GAP, Action, Matcher, Picker, PickerRows, Question, ago
from chatcli.tui.saved import layout_console, portable_entry, reply_rows
from chatcli.tui.text.console import fragments
from chatcli.tui.text.fit import first_words, fit, wrapped
from chatcli.tui.tree_layout import HERE, Node, cut_guide, guides, row_start, tree_nodes

# From an entry's id to the tokens that continuing there would prefill, None if that is not known.
Cost = Callable[[str], "int | None"]
# Sets the label of an entry, by its id; an empty one removes it.
SetLabel = Callable[[str, str], None]
# Seconds that one drawing may spend on costs; the others wait for the next drawing.
COST_SECONDS = 0.03
# Laid-out replies that are cached.
MAX_PREVIEWS = 8


@dataclass(frozen=True)
class TreeRow:
    """A node in the list. `is_hint`: it only leads to a match. `hidden`: the messages folded into it."""

    node: Node
    guide: str
    is_hint: bool = False
    hidden: int = 0


def unfolded_rows(nodes: Sequence[Node], folded: set[str]) -> list[TreeRow]:
    """The rows of the nodes that are not folded away."""

    def is_hidden(node: Node) -> bool:
        return any(branch in folded and branch != node.entry.id for branch in node.branches)

    kept = [node for node in nodes if not is_hidden(node)] if folded else nodes
    return [
        TreeRow(node, guide, hidden=node.descendants if node.entry.id in folded else 0)
        for node, guide in zip(kept, guides([node.branches for node in kept]), strict=True)
    ]


def matching_rows(nodes: Sequence[Node], matches: Sequence[int]) -> list[TreeRow]:
    """The rows of the matching nodes, and as hints those of the forks and branches that lead to them."""
    matched = {nodes[index].entry.id for index in matches}
    branches = {branch for index in matches for branch in nodes[index].branches}
    forks = {node.entry.parent for node in nodes if node.entry.id in branches}
    kept = [node for node in nodes if node.entry.id in matched | branches | forks]
    return [
        TreeRow(node, guide, is_hint=node.entry.id not in matched)
        for node, guide in zip(kept, guides([node.branches for node in kept]), strict=True)
    ]


class TreeRows(PickerRows[str]):
    """The messages of a conversation, as a tree."""

    title = "Go to a message"
    enter_label = "go there"
    COLUMNS = (("age", 10, 72), ("tokens", 7, 64), ("prefill", 11, 36))

    def __init__(
        self, conversation: Conversation, cost: Cost, labels: Mapping[str, str], set_label: SetLabel
    ) -> None:
        self._nodes = tree_nodes(conversation)
        self._descendants = {node.entry.id: node.descendants for node in self._nodes}
        self._head = conversation.head
        self._entries = conversation.entries
        # The preview is drawn again at each key, but laid out once.
        self._reply_preview = lru_cache(MAX_PREVIEWS)(self._reply_rows)
        self._cost, self._set_label = cost, set_label
        self._labels = dict(labels)
        self._costs: dict[str, int | None] = {}
        self._no_costs_until = 0.0
        self._folded: set[str] = set()
        self._query = ""
        self._rows = unfolded_rows(self._nodes, self._folded)
        self._matcher = Matcher(self._texts)
        self._turn_digits = len(str(max((node.turn for node in self._nodes), default=0)))

    def _texts(self) -> Iterator[str]:
        for node in self._nodes:
            yield f"{self._labels.get(node.entry.id, '')}\n{node.entry.message.content}"

    def count(self) -> int:
        return len(self._rows)

    def find(self, entry_id: str | None) -> int:
        """The row of a message, the first row if the message is not listed."""
        rows = (index for index, row in enumerate(self._rows) if row.node.entry.id == entry_id)
        return next(rows, 0)

    def tally(self) -> str:
        total = len(self._nodes)
        if self._query.strip():
            return f"{sum(not row.is_hint for row in self._rows):,} of {total:,} messages match"
        branches = 1 + sum(len(node.side_branches) for node in self._nodes)
        forks = f" · {branches:,} branches" if branches > 1 else ""
        return f"{count('message', total)}{forks}"

    def empty_text(self, query: str) -> str:
        if query.strip():
            return f"No messages match '{query}'. Esc clears the filter."
        return "No messages yet. Esc leaves: say something, and /tree shows it here."

    def choose(self, index: int) -> str:
        return self._rows[index].node.entry.id

    def filter(self, query: str, selected: int) -> int:
        """Stay on the message if it matches, else go to the next one that does."""
        before = self._rows[selected].node if self._rows else None
        self._query = query
        self._lay_out()
        if before is None:
            return self.find(self._head)
        order = {node.entry.id: at for at, node in enumerate(self._nodes)}
        hits = [index for index, row in enumerate(self._rows) if not row.is_hint]
        later = (index for index in hits if order[self._rows[index].node.entry.id] >= order[before.entry.id])
        return next(later, hits[-1] if hits else 0)

    def _lay_out(self) -> None:
        if self._query.strip():
            self._rows = matching_rows(self._nodes, self._matcher.find(self._query))
        else:
            self._rows = unfolded_rows(self._nodes, self._folded)

    # Drawing

    def line(self, index: int, width: int) -> StyleAndTextTuples:
        """Guide, mark, turn and words, then the columns at the right."""
        row = self._rows[index]
        node, entry = row.node, row.node.entry
        guide = cut_guide(row.guide, width)
        start, cut = row_start(node, guide, self._turn_digits, self._labels, is_hint=row.is_hint)
        parts = [(f"class:{style}" if style else "", text) for style, text in start]
        # A long reply is cut, but not the text after it.
        end, end_style = f"  ▸ {row.hidden:,} more" * bool(row.hidden), "class:dim"
        if entry.id == self._head:
            end, end_style = HERE, "class:here"
        if cut:
            end = f" {cut}{end}"
        columns = self.columns(width)
        room = width - sum(GAP + taken for _, taken in columns)
        left = room - wcwidth.width(end)
        line: StyleAndTextTuples = []
        for part_style, text in parts:
            fitting = fit(text, left)
            left -= wcwidth.width(fitting)
            line.append((part_style, fitting))
        line += [(end_style, fit(end, room)), ("", " " * max(left, 0))]
        for name, taken in columns:
            # Costs stand out among zeros.
            cell = self._cell(entry, name)
            column_style = "" if name == "prefill" and cell != "0" else "class:dim"
            line.append((column_style, " " * GAP + cell.rjust(taken)))
        return line

    def _cell(self, entry: Entry, column: str) -> str:
        if column == "age":
            return ago(entry.created, time.time())
        if column == "tokens":
            return _short_number(entry.record.get("prompt_tokens"))
        if entry.id not in self._costs:
            started = time.monotonic()
            if started < self._no_costs_until:
                return "…"
            self._costs[entry.id] = self._cost(entry.id)
            if time.monotonic() - started > COST_SECONDS and self.picker is not None:
                self._no_costs_until = time.monotonic() + COST_SECONDS
                asyncio.get_running_loop().call_later(1.1 * COST_SECONDS, self.picker.refresh)
        cost = self._costs[entry.id]
        return "–" if cost is None else f"~{_short_number(cost)} tok" if cost else "0"

    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        node = self._rows[index].node
        entry, message = node.entry, node.entry.message
        heading = [ROLE_NAMES[message.role], f"turn {node.turn}"]
        if entry.created > 0:
            heading.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.created)))
        if cut := finish.word(entry.finish_reason):
            heading.append(cut)
        if entry.id in self._labels:
            heading.append(f"[{first_words(self._labels[entry.id])}]")
        yield [("class:dim", fit(" · ".join(heading), width))]
        if message.role != "assistant":
            for line in wrapped(message.shown, width):
                yield [("", line)]
        else:
            yield from self._reply_preview(entry.id, width)

    def _reply_rows(self, entry_id: str, width: int) -> list[StyleAndTextTuples]:
        reply, console = portable_entry(self._entries[entry_id]), layout_console(width + 1)
        return [fragments(row, console) for row in reply_rows(reply, console, indent="")]

    # Folding and labels

    def actions(self, picker: Picker[str]) -> Sequence[Action]:
        return [
            Action(("left",), "←→", "fold", lambda: self._fold(picker), edits=True),
            Action(("right",), "", "", lambda: self._unfold(picker), edits=True),
            Action(("c-l", "f2"), "Ctrl-L", "label", lambda: self._ask_label(picker)),
        ]

    def _fold(self, picker: Picker[str]) -> None:
        """Fold a branch into its first message; from there, and from the main line, go up to the fork."""
        if not self._rows:
            return
        node = self._rows[picker.selected].node
        open_sides = {side for side in node.side_branches if self._descendants[side]} - self._folded
        if open_sides:
            self._set_folded(picker, self._folded | open_sides, node.entry.id)
        elif node.branch is not None and node.branch not in self._folded:
            self._set_folded(picker, self._folded | {node.branch}, node.branch)
        elif node.entry.id == node.branch:
            picker.select(self.find(node.entry.parent))
        else:
            above = range(picker.selected - 1, -1, -1)
            forks = (index for index in above if self._rows[index].node.side_branches)
            picker.select(next(forks, picker.selected))

    def _unfold(self, picker: Picker[str]) -> None:
        if self._rows:
            node = self._rows[picker.selected].node
            self._set_folded(picker, self._folded - {node.entry.id, *node.side_branches}, node.entry.id)

    def _set_folded(self, picker: Picker[str], folded: set[str], selected: str) -> None:
        # A branch of one message has nothing to fold.
        self._folded = {branch for branch in folded if self._descendants[branch]}
        self._lay_out()
        picker.select(self.find(selected))

    def _ask_label(self, picker: Picker[str]) -> None:
        if self._rows:
            entry_id = self._rows[picker.selected].node.entry.id
            label = first_words(self._labels.get(entry_id, ""))
            picker.ask(Question("Label:", lambda text: self._label(entry_id, text), label))

    def _label(self, entry_id: str, text: str) -> None:
        """Raises `ChatcliError` if the label cannot be saved."""
        label = clean_line(text)
        if label != self._labels.get(entry_id, ""):
            self._set_label(entry_id, label)
        self._labels[entry_id] = label
        if not label:
            del self._labels[entry_id]
        self._matcher = Matcher(self._texts)


def _short_number(count: object) -> str:
    if not isinstance(count, int):
        return ""
    return f"{count:,}" if count < 100_000 else f"{count // 1000:,}k"


async def choose_entry(
    conversation: Conversation, cost: Cost, labels: Mapping[str, str], set_label: SetLabel
) -> str | None:
    """The id of the message that the person picks on the whole screen, None if they leave.

    `cost` is called once for each row, when it comes into sight. If `set_label` raises a `ChatcliError`, that
    is shown.
    """
    rows = TreeRows(conversation, cost, labels, set_label)
    return await Picker(rows, rows.find(conversation.head)).run()
