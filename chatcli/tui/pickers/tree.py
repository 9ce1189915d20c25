"""A conversation's tree on the whole screen, to pick the message to go on from.

The main line keeps its depth: at a fork the other branches come first, one step to the right. So only
branches of branches go deeper, and the path to the head never drifts off the edge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import wcwidth
from prompt_toolkit.formatted_text import StyleAndTextTuples

from chatcli.conversation import finish
from chatcli.conversation.tree import Conversation, Entry, Role
from chatcli.text import clean_line
from chatcli.tui.pickers.picker import Action, Matcher, Picker, PickerRows, Question, ago
from chatcli.tui.saved import layout_console, portable_entry, reply_rows
from chatcli.tui.text.fit import first_words, fit, wrapped
from chatcli.tui.text.fragments import fragments

# From an entry's id to the tokens to prefill for going on from there, None if that is not known.
Cost = Callable[[str], "int | None"]
# Keeps a label for an entry's id; an empty one removes it.
SetLabel = Callable[[str, str], None]
# The first messages of the branches that a node is in, the outermost first; the main line is in none.
BranchPath = tuple[str, ...]

HERE = "  ◀ here"
# The columns at the right: name, columns taken, and the width of a row from which it is shown.
COLUMNS = (("age", 10, 72), ("tokens", 7, 64), ("prefill", 11, 36))
GAP = 2
# Seconds that one drawing may spend on costs; the others are asked for at the next one.
COST_SECONDS = 0.03
# Replies that are kept as they are drawn beside the list.
MAX_PREVIEWS = 8


@dataclass(frozen=True)
class ChosenEntry:
    """The message to go on from."""

    entry_id: str
    role: Role


@dataclass(frozen=True)
class Node:
    """A message in drawing order.

    `turn` counts from 1 along its path, `descendants` all that hangs from it. `side_branches` are the
    first messages of the branches that leave the main line of its branch right after it.
    """

    entry: Entry
    turn: int
    branches: BranchPath
    descendants: int
    is_on_path: bool
    side_branches: BranchPath

    @property
    def branch(self) -> str | None:
        """The first message of the branch that this one is in, None on the main line."""
        return self.branches[-1] if self.branches else None


@dataclass(frozen=True)
class TreeRow:
    """A node in the list: `is_hint` if it only leads to a match, `hidden` messages folded into it."""

    node: Node
    guide: str
    is_hint: bool = False
    hidden: int = 0


def tree_nodes(conversation: Conversation) -> list[Node]:
    """The tree's messages as they are drawn, from top to bottom."""
    entries = conversation.entries
    children: dict[str | None, list[str]] = {}
    turns: dict[str | None, int] = {None: 0}
    for entry in entries.values():
        children.setdefault(entry.parent, []).append(entry.id)
        turns[entry.id] = turns[entry.parent] + (entry.message.role == "user")
    descendants = dict.fromkeys(entries, 0)
    for entry in reversed(entries.values()):
        if entry.parent is not None:
            descendants[entry.parent] += descendants[entry.id] + 1
    path = {entry.id for entry in conversation.path()}
    # Of siblings, the path's own goes straight on, else the one with most below it, else the newest.
    main_child = {
        parent: max(reversed(siblings), key=lambda child: (child in path, descendants[child]))
        for parent, siblings in children.items()
    }
    nodes: list[Node] = []
    pending: list[tuple[str, BranchPath]] = []

    def push_children(parent: str | None, branches: BranchPath) -> BranchPath:
        """Push what follows `parent`, the side branches on top; returns these."""
        siblings = children.get(parent, [])
        sides = tuple(child for child in siblings if child != main_child[parent])
        if siblings:
            pending.append((main_child[parent], branches))
        pending.extend((side, (*branches, side)) for side in reversed(sides))
        return sides

    push_children(None, ())
    while pending:
        entry_id, branches = pending.pop()
        sides = push_children(entry_id, branches)
        on_path = entry_id in path
        nodes.append(
            Node(entries[entry_id], turns[entry_id], branches, descendants[entry_id], on_path, sides)
        )
    return nodes


def guides(rows: Sequence[BranchPath]) -> list[str]:
    """The box lines before each of these rows, which are in drawing order."""
    # Going up, for each branch: the last side branch of it that was met (None: the branch itself), and
    # whether anything else of it is below that.
    met: dict[str | None, tuple[str | None, bool]] = {}

    def others_below(branch: str | None, side: str | None) -> bool:
        return branch in met and (met[branch][1] or met[branch][0] != side)

    drawn: list[str] = []
    for index in range(len(rows) - 1, -1, -1):
        branches = rows[index]
        outer: list[str | None] = [None, *branches]
        goes_on = [others_below(*pair) for pair in zip(outer, branches, strict=False)]
        lines = ["│ " if more else "  " for more in goes_on]
        above = rows[index - 1] if index else None
        if branches and (above is None or above[: len(branches)] != branches):
            fork, end = ("├─", "└─") if above is not None else ("┌─", "──")
            lines[-1] = fork if goes_on[-1] else end
        drawn.append("".join(lines))
        for branch, side in zip(outer, [*branches, None], strict=True):
            met[branch] = (side, others_below(branch, side))
    return drawn[::-1]


def unfolded_rows(nodes: Sequence[Node], folded: set[str]) -> list[TreeRow]:
    """The rows, without what is folded away."""

    def is_hidden(node: Node) -> bool:
        return any(branch in folded and branch != node.entry.id for branch in node.branches)

    kept = [node for node in nodes if not is_hidden(node)] if folded else nodes
    return [
        TreeRow(node, guide, hidden=node.descendants if node.entry.id in folded else 0)
        for node, guide in zip(kept, guides([node.branches for node in kept]), strict=True)
    ]


def matching_rows(nodes: Sequence[Node], matches: Sequence[int]) -> list[TreeRow]:
    """The rows of the nodes that match, and as hints the forks and branches that lead to them."""
    matched = {nodes[index].entry.id for index in matches}
    branches = {branch for index in matches for branch in nodes[index].branches}
    forks = {node.entry.parent for node in nodes if node.entry.id in branches}
    kept = [node for node in nodes if node.entry.id in matched | branches | forks]
    return [
        TreeRow(node, guide, is_hint=node.entry.id not in matched)
        for node, guide in zip(kept, guides([node.branches for node in kept]), strict=True)
    ]


class TreeRows(PickerRows[ChosenEntry]):
    """The messages of a conversation, as a tree."""

    title = "Go to a message"
    enter_label = "go there"

    def __init__(
        self, conversation: Conversation, cost: Cost, labels: Mapping[str, str], set_label: SetLabel
    ) -> None:
        self._nodes = tree_nodes(conversation)
        self._descendants = {node.entry.id: node.descendants for node in self._nodes}
        self._head = conversation.head
        self._entries = conversation.entries
        # Drawn again with each key, and laid out once.
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
        self._picker: Picker[ChosenEntry] | None = None

    def _texts(self) -> Iterator[str]:
        for node in self._nodes:
            yield f"{self._labels.get(node.entry.id, '')}\n{node.entry.message.content}"

    def count(self) -> int:
        return len(self._rows)

    def find(self, entry_id: str | None) -> int:
        """The row of a message, the first one if it is not in sight."""
        rows = (index for index, row in enumerate(self._rows) if row.node.entry.id == entry_id)
        return next(rows, 0)

    def tally(self) -> str:
        total = len(self._nodes)
        if self._query.strip():
            return f"{sum(not row.is_hint for row in self._rows):,} of {total:,} messages"
        branches = 1 + sum(len(node.side_branches) for node in self._nodes)
        forks = f" · {branches:,} branches" if branches > 1 else ""
        return f"{total:,} message{'s' * (total != 1)}{forks}"

    def empty_text(self, query: str) -> str:
        if query.strip():
            return f"No message holds '{query}'. Esc clears the filter."
        return "No messages yet. Esc leaves: say something, and /tree shows it here."

    def choose(self, index: int) -> ChosenEntry:
        entry = self._rows[index].node.entry
        return ChosenEntry(entry.id, entry.message.role)

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

    def headings(self, width: int) -> str:
        return "".join(" " * GAP + name.rjust(columns) for name, columns in _columns(width))

    def line(self, index: int, width: int) -> StyleAndTextTuples:
        """Guide, mark, turn and words, then the columns at the right."""
        row = self._rows[index]
        node, entry = row.node, row.node.entry
        is_user = entry.message.role == "user"
        style = "class:strong" if is_user else ""
        if row.is_hint or not node.is_on_path:
            style = "class:dim"
        turn = f"{node.turn:>{self._turn_digits}} › " if is_user else " " * (self._turn_digits + 3)
        label = f"[{first_words(self._labels[entry.id])}] " if entry.id in self._labels else ""
        words, cut = first_words(entry.message.brief), finish.mark(entry.finish_reason)
        parts = [
            ("class:dim", row.guide),
            (style, ("● " if node.is_on_path else "○ ") + turn),
            ("class:name", label),
            (style, words or cut or "(empty)"),
        ]
        # A long reply is cut, what stands behind it is not.
        end, end_style = f"  ▸ {row.hidden:,} more" * bool(row.hidden), "class:dim"
        if entry.id == self._head:
            end, end_style = HERE, "class:here"
        if words and cut:
            end = f" {cut}{end}"
        columns = _columns(width)
        room = width - sum(GAP + taken for _, taken in columns)
        left = room - wcwidth.width(end)
        line: StyleAndTextTuples = []
        for part_style, text in parts:
            fitting = fit(text, left)
            left -= wcwidth.width(fitting)
            line.append((part_style, fitting))
        line += [(end_style, fit(end, room)), ("", " " * max(left, 0))]
        for name, taken in columns:
            # What costs something stands out among what costs nothing.
            column_style = "" if name == "prefill" else "class:dim"
            line.append((column_style, " " * GAP + self._cell(entry, name).rjust(taken)))
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
            if time.monotonic() - started > COST_SECONDS and self._picker is not None:
                self._no_costs_until = time.monotonic() + COST_SECONDS
                asyncio.get_running_loop().call_later(1.1 * COST_SECONDS, self._picker.refresh)
        cost = self._costs[entry.id]
        return "–" if cost is None else f"~{_short_number(cost)} tok" if cost else ""

    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        node = self._rows[index].node
        entry, message = node.entry, node.entry.message
        heading = ["you" if message.role == "user" else "reply", f"turn {node.turn}"]
        if entry.created > 0:
            heading.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.created)))
        if cut := finish.word(entry.finish_reason):
            heading.append(cut)
        if entry.id in self._labels:
            heading.append(f"[{first_words(self._labels[entry.id])}]")
        yield [("class:dim", fit(" · ".join(heading), width))]
        if message.role == "user":
            for line in wrapped(message.shown, width):
                yield [("", line)]
        else:
            yield from self._reply_preview(entry.id, width)

    def _reply_rows(self, entry_id: str, width: int) -> list[StyleAndTextTuples]:
        reply, console = portable_entry(self._entries[entry_id]), layout_console(width + 1)
        return [fragments(row, console) for row in reply_rows(reply, console, indent="")]

    # Folding and labels

    def actions(self, picker: Picker[ChosenEntry]) -> Sequence[Action]:
        self._picker = picker
        return [
            Action(("left",), "←→", "fold", lambda: self._fold(picker), edits=True),
            Action(("right",), "", "", lambda: self._unfold(picker), edits=True),
            Action(("c-l", "f2"), "Ctrl-L", "label", lambda: self._ask_label(picker)),
        ]

    def _fold(self, picker: Picker[ChosenEntry]) -> None:
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

    def _unfold(self, picker: Picker[ChosenEntry]) -> None:
        if self._rows:
            node = self._rows[picker.selected].node
            self._set_folded(picker, self._folded - {node.entry.id, *node.side_branches}, node.entry.id)

    def _set_folded(self, picker: Picker[ChosenEntry], folded: set[str], selected: str) -> None:
        # A branch of one message has nothing to fold.
        self._folded = {branch for branch in folded if self._descendants[branch]}
        self._lay_out()
        picker.select(self.find(selected))

    def _ask_label(self, picker: Picker[ChosenEntry]) -> None:
        if self._rows:
            entry_id = self._rows[picker.selected].node.entry.id
            label = first_words(self._labels.get(entry_id, ""))
            picker.ask(Question("Label:", lambda text: self._label(entry_id, text), label))

    def _label(self, entry_id: str, text: str) -> None:
        """Raises `ChatcliError` if the label cannot be kept."""
        label = clean_line(text)
        if label != self._labels.get(entry_id, ""):
            self._set_label(entry_id, label)
        self._labels[entry_id] = label
        if not label:
            del self._labels[entry_id]
        self._matcher = Matcher(self._texts)


def _columns(width: int) -> list[tuple[str, int]]:
    return [(name, columns) for name, columns, min_width in COLUMNS if width >= min_width]


def _short_number(count: object) -> str:
    if not isinstance(count, int):
        return ""
    return f"{count:,}" if count < 100_000 else f"{count // 1000:,}k"


async def choose_entry(
    conversation: Conversation, cost: Cost, labels: Mapping[str, str], set_label: SetLabel
) -> ChosenEntry | None:
    """The message that the person picks on the whole screen, None if they leave.

    `cost` is asked once for a row, when it comes into sight. `set_label` may raise a `ChatcliError`, which
    is then shown.
    """
    rows = TreeRows(conversation, cost, labels, set_label)
    return await Picker(rows, rows.find(conversation.head)).run()
