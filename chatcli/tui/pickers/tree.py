"""A conversation's tree on the whole screen, to pick the message to go on from; refuses to know sessions.

The main line keeps its depth: at a fork the other branches come first, one step to the right. So only
branches of branches go deeper, and the path to the head never drifts off the edge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from chatcli.conversation import finish
from chatcli.conversation.tree import Conversation, Entry, Role
from chatcli.text import clean_line
from chatcli.tui.pickers.picker import Action, Picker, Question, Rows
from chatcli.tui.text.fit import Matcher, ago, first_words, fit, wrapped

Cost = Callable[[str], "int | None"]
Label = Callable[[str, str], None]
# The heads of the branches that a row is in, the outermost first; the main line is in none.
Chain = tuple[str, ...]

HERE = "  ◀ here"
# The columns at the right: name, columns taken, and the width of a row from which it is shown.
COLUMNS = (("age", 10, 72), ("tokens", 7, 64), ("prefill", 11, 36))
GAP = 2
# Seconds that one drawing may spend on asking what rows cost; the others are asked at the next one.
ASKING = 0.03


@dataclass(frozen=True)
class Chosen:
    """The message to go on from."""

    entry_id: str
    role: Role


@dataclass(frozen=True)
class Node:
    """A message in drawing order. `turn` counts from 1 along its path, `below` what hangs from it."""

    entry: Entry
    turn: int
    chain: Chain
    below: int
    is_on_path: bool
    sides: Chain

    @property
    def head(self) -> str | None:
        """The first message of the branch that this one is in, None on the main line."""
        return self.chain[-1] if self.chain else None


@dataclass(frozen=True)
class Row:
    """A node in sight: `hint` if only for the sake of what is below it, `hidden` messages folded."""

    node: Node
    guide: str
    hint: bool = False
    hidden: int = 0


def grown(conversation: Conversation) -> list[Node]:
    """The tree's messages as they are drawn, from top to bottom."""
    children: dict[str | None, list[str]] = {}
    turns: dict[str | None, int] = {None: 0}
    for entry in conversation.entries.values():
        children.setdefault(entry.parent, []).append(entry.id)
        turns[entry.id] = turns[entry.parent] + (entry.message.role == "user")
    below = _below(conversation)
    path = {entry.id for entry in conversation.path()}

    def main_of(siblings: list[str]) -> str:
        """The path's own, else the one with most below it, else the newest."""
        return max(reversed(siblings), key=lambda one: (one in path, below[one]))

    main = {parent: main_of(siblings) for parent, siblings in children.items()}
    nodes: list[Node] = []
    pending: list[tuple[str, Chain]] = []

    def grow(parent: str | None, chain: Chain) -> Chain:
        """Note what follows `parent`; its side branches."""
        siblings = children.get(parent, [])
        sides = tuple(one for one in siblings if one != main[parent])
        if siblings:
            pending.append((main[parent], chain))
        pending.extend((side, (*chain, side)) for side in reversed(sides))
        return sides

    grow(None, ())
    while pending:
        identifier, chain = pending.pop()
        entry, on = conversation.entries[identifier], identifier in path
        sides = grow(identifier, chain)
        nodes.append(Node(entry, turns[identifier], chain, below[identifier], on, sides))
    return nodes


def _below(conversation: Conversation) -> dict[str, int]:
    """How many messages hang from each one."""
    below = dict.fromkeys(conversation.entries, 0)
    for entry in reversed(conversation.entries.values()):
        if entry.parent is not None:
            below[entry.parent] += below[entry.id] + 1
    return below


def guides(chains: Sequence[Chain]) -> list[str]:
    """The box lines before each of these rows, which are in drawing order."""
    # For each branch: the last part of it that was met, going up, and whether others are below that.
    met: dict[str | None, tuple[str | None, bool]] = {}
    drawn: list[str] = []
    for index in range(len(chains) - 1, -1, -1):
        chain = chains[index]
        outer: list[str | None] = [None, *chain]
        goes_on = [_others_below(met, *pair) for pair in zip(outer, chain, strict=False)]
        above = chains[index - 1] if index else None
        drawn.append(_guide(chain, goes_on, above))
        for branch, part in zip(outer, [*chain, None], strict=True):
            met[branch] = (part, _others_below(met, branch, part))
    return drawn[::-1]


def _others_below(
    met: Mapping[str | None, tuple[str | None, bool]], branch: str | None, part: str | None
) -> bool:
    """Whether anything but `part` was met in `branch`."""
    return branch in met and (met[branch][1] or met[branch][0] != part)


def _guide(chain: Chain, goes_on: list[bool], above: Chain | None) -> str:
    lines = ["│ " if more else "  " for more in goes_on]
    if chain and (above is None or above[: len(chain)] != chain):
        ends = ("├─", "└─") if above is not None else ("┌─", "──")
        lines[-1] = ends[0] if goes_on[-1] else ends[1]
    return "".join(lines)


def unfolded(nodes: Sequence[Node], folded: set[str]) -> list[Row]:
    """The rows, without what is folded away."""
    kept = [node for node in nodes if not _is_hidden(node, folded)] if folded else nodes
    lines = guides([node.chain for node in kept])
    return [
        Row(node, line, hidden=node.below if node.entry.id in folded else 0)
        for node, line in zip(kept, lines, strict=True)
    ]


def _is_hidden(node: Node, folded: set[str]) -> bool:
    return any(head in folded and head != node.entry.id for head in node.chain)


def matching(nodes: Sequence[Node], found: Sequence[int]) -> list[Row]:
    """The rows that were found, and as hints the forks and branches that lead to them."""
    matched = {nodes[index].entry.id for index in found}
    heads = {head for index in found for head in nodes[index].chain}
    wanted = matched | heads | {node.entry.parent for node in nodes if node.entry.id in heads}
    kept = [node for node in nodes if node.entry.id in wanted]
    lines = guides([node.chain for node in kept])
    return [
        Row(node, line, hint=node.entry.id not in matched) for node, line in zip(kept, lines, strict=True)
    ]


class TreeRows(Rows[Chosen]):
    """The messages of a conversation, as a tree."""

    title = "Go to a message"
    enter = "go there"

    def __init__(
        self,
        conversation: Conversation,
        cost: Cost,
        labels: Mapping[str, str],
        set_label: Label | None,
    ) -> None:
        self._nodes = grown(conversation)
        self._below = {node.entry.id: node.below for node in self._nodes}
        self._current = conversation.head
        self._cost, self._set_label = cost, set_label
        self._labels = dict(labels)
        self._costs: dict[str, int | None] = {}
        self._asked_until = 0.0
        self._folded: set[str] = set()
        self._query = ""
        self._rows = unfolded(self._nodes, self._folded)
        self._matcher = Matcher(self._texts)
        self._digits = len(str(max((node.turn for node in self._nodes), default=0)))
        self._picker: Picker[Chosen] | None = None

    def _texts(self) -> Iterator[str]:
        for node in self._nodes:
            yield f"{self._labels.get(node.entry.id, '')}\n{node.entry.message.content}"

    def count(self) -> int:
        return len(self._rows)

    def find(self, entry_id: str | None) -> int:
        """The row of a message, the first one if it is not in sight."""
        places = (at for at, row in enumerate(self._rows) if row.node.entry.id == entry_id)
        return next(places, 0)

    def tally(self) -> str:
        total = len(self._nodes)
        if self._query.strip():
            return f"{sum(not row.hint for row in self._rows):,} of {total:,} messages"
        branches = 1 + sum(len(node.sides) for node in self._nodes)
        forks = f" · {branches:,} branches" if branches > 1 else ""
        return f"{total:,} message{'s' * (total != 1)}{forks}"

    def nothing(self, query: str) -> str:
        if query.strip():
            return f"No message holds '{query}'. Esc clears the filter."
        return "No messages yet. Esc leaves: say something, and /tree shows it here."

    def choose(self, index: int) -> Chosen:
        entry = self._rows[index].node.entry
        return Chosen(entry.id, entry.message.role)

    def filter(self, query: str, selected: int) -> int:
        """Stay on the message if it matches, else go to the next one that does."""
        before = self._rows[selected].node if self._rows else None
        self._query = query
        self._lay_out()
        return self._nearest(before) if before is not None else self.find(self._current)

    def _lay_out(self) -> None:
        if self._query.strip():
            self._rows = matching(self._nodes, self._matcher.find(self._query))
        else:
            self._rows = unfolded(self._nodes, self._folded)

    def _nearest(self, before: Node) -> int:
        order = {node.entry.id: at for at, node in enumerate(self._nodes)}
        at = order[before.entry.id]
        hits = [number for number, row in enumerate(self._rows) if not row.hint]
        later = (number for number in hits if order[self._rows[number].node.entry.id] >= at)
        return next(later, hits[-1] if hits else 0)

    def headings(self, width: int) -> str:
        return "".join(" " * GAP + name.rjust(taken) for name, taken in _columns(width))

    def line(self, index: int, width: int) -> StyleAndTextTuples:
        row = self._rows[index]
        columns = _columns(width)
        room = width - sum(taken + GAP for _, taken in columns)
        facts = [
            # What costs something stands out among what costs nothing.
            (
                "" if name == "prefill" else "class:dim",
                " " * GAP + self._fact(row, name).rjust(taken),
            )
            for name, taken in columns
        ]
        return [*self._spoken(row, room), *facts]

    def _spoken(self, row: Row, room: int) -> StyleAndTextTuples:
        """Guide, mark, turn and words, in exactly `room` columns."""
        node, entry = row.node, row.node.entry
        mark = "● " if node.is_on_path else "○ "
        is_user = entry.message.role == "user"
        turn = f"{node.turn:>{self._digits}} › " if is_user else " " * (self._digits + 3)
        words, cut = first_words(entry.message.brief), finish.mark(entry.finish_reason)
        label = f"[{first_words(self._labels[entry.id])}] " if entry.id in self._labels else ""
        end = HERE if entry.id == self._current else f"  ▸ {row.hidden:,} more" * bool(row.hidden)
        parts = [
            ("class:dim", row.guide),
            (self._style(row), mark + turn),
            ("class:name", label),
            (self._style(row), words or cut or "(empty)"),
        ]
        style = "class:here" if end == HERE else "class:dim"
        # A long reply is cut, its mark is not.
        return _joined(parts, (style, f" {cut}{end}" if words and cut else end), room)

    def _style(self, row: Row) -> str:
        if row.hint or not row.node.is_on_path:
            return "class:dim"
        return "class:strong" if row.node.entry.message.role == "user" else ""

    def _fact(self, row: Row, name: str) -> str:
        entry = row.node.entry
        if name == "age":
            return ago(entry.created, time.time())
        if name == "tokens":
            return _number(entry.record.get("prompt_tokens"))
        return self._price(entry.id)

    def _price(self, entry_id: str) -> str:
        """What going there costs, if anything; a sign that it is not known yet if asking takes long."""
        if entry_id not in self._costs:
            started = time.monotonic()
            if started < self._asked_until:
                return "…"
            self._costs[entry_id] = self._cost(entry_id)
            self._rest_from_asking(started)
        cost = self._costs[entry_id]
        return "–" if cost is None else f"~{_number(cost)} tok" if cost else ""

    def _rest_from_asking(self, started: float) -> None:
        if time.monotonic() - started > ASKING and self._picker is not None:
            self._asked_until = time.monotonic() + ASKING
            asyncio.get_running_loop().call_later(1.1 * ASKING, self._picker.refresh)

    def preview(self, index: int, width: int, height: int) -> Iterator[StyleAndTextTuples]:
        node = self._rows[index].node
        yield [("class:dim", fit(self._heading(node), width))]
        content = node.entry.message.shown
        for line in wrapped(content if content.strip() else finish.said(node.entry), width):
            yield [("", line)]

    def _heading(self, node: Node) -> str:
        entry = node.entry
        parts = ["you" if entry.message.role == "user" else "reply", f"turn {node.turn}"]
        if entry.created > 0:
            parts.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.created)))
        if told := finish.word(entry.finish_reason):
            parts.append(told)
        if entry.id in self._labels:
            parts.append(f"[{first_words(self._labels[entry.id])}]")
        return " · ".join(parts)

    def actions(self, picker: Picker[Chosen]) -> Sequence[Action]:
        self._picker = picker
        folding = [
            Action(("left",), "←→", "fold", lambda: self._fold(picker), True),
            Action(("right",), "", "", lambda: self._unfold(picker), True),
        ]
        if self._set_label is None:
            return folding
        return [*folding, Action(("c-l", "f2"), "Ctrl-L", "label", lambda: self._ask_label(picker))]

    def _fold(self, picker: Picker[Chosen]) -> None:
        """A branch into its first message; from there, and from the main line, up to the fork."""
        if not self._rows:
            return
        node = self._rows[picker.selected].node
        open_sides = {side for side in node.sides if self._below[side]} - self._folded
        if open_sides:
            self._show(picker, self._folded | open_sides, node.entry.id)
        elif node.head is not None and node.head not in self._folded:
            self._show(picker, self._folded | {node.head}, node.head)
        else:
            picker.select(self._fork_above(picker.selected))

    def _fork_above(self, selected: int) -> int:
        node = self._rows[selected].node
        if node.entry.id == node.head:
            return self.find(node.entry.parent)
        above = range(selected - 1, -1, -1)
        return next((at for at in above if self._rows[at].node.sides), selected)

    def _unfold(self, picker: Picker[Chosen]) -> None:
        if not self._rows:
            return
        node = self._rows[picker.selected].node
        self._show(picker, self._folded - {node.entry.id, *node.sides}, node.entry.id)

    def _show(self, picker: Picker[Chosen], folded: set[str], selected: str) -> None:
        # A branch of one message has nothing to fold.
        self._folded = {head for head in folded if self._below[head]}
        self._lay_out()
        picker.select(self.find(selected))

    def _ask_label(self, picker: Picker[Chosen]) -> None:
        if self._rows:
            entry_id = self._rows[picker.selected].node.entry.id
            given = first_words(self._labels.get(entry_id, ""))
            picker.ask(Question("Label:", lambda text: self._label(entry_id, text), given))

    def _label(self, entry_id: str, text: str) -> None:
        """Raises `ChatcliError` if it cannot be kept."""
        label = clean_line(text)
        if self._set_label is not None and label != self._labels.get(entry_id, ""):
            self._set_label(entry_id, label)
        self._labels[entry_id] = label
        if not label:
            del self._labels[entry_id]
        self._matcher = Matcher(self._texts)


def _columns(width: int) -> list[tuple[str, int]]:
    return [(name, taken) for name, taken, least in COLUMNS if width >= least]


def _joined(parts: Sequence[tuple[str, str]], end: tuple[str, str], room: int) -> StyleAndTextTuples:
    """The parts cut so that `end` fits behind them, filled up to `room` columns."""
    left = room - get_cwidth(end[1])
    line: StyleAndTextTuples = []
    for style, text in parts:
        cut = fit(text, left)
        left -= get_cwidth(cut)
        line.append((style, cut))
    return [*line, (end[0], fit(end[1], room)), ("", " " * max(left, 0))]


def _number(count: object) -> str:
    if not isinstance(count, int):
        return ""
    return f"{count:,}" if count < 100_000 else f"{count // 1000:,}k"


async def choose_entry(
    conversation: Conversation,
    cost: Cost,
    labels: Mapping[str, str],
    set_label: Label | None = None,
) -> Chosen | None:
    """The message that the person picks on the whole screen, None if they leave.

    `cost(entry_id)` is asked once for a row, when it comes into sight: the tokens to prefill for going
    on from there, 0 if nothing, None if it is not known. `set_label(entry_id, text)` keeps a label, an
    empty one removes it; a `ChatcliError` of it is shown. Without it there is no key for labels.
    """
    rows = TreeRows(conversation, cost, labels, set_label)
    return await Picker(rows, rows.find(conversation.head)).run()


def pick_entry(
    conversation: Conversation,
    cost: Cost,
    labels: Mapping[str, str],
    set_label: Label | None = None,
) -> Chosen | None:
    """`choose_entry` where no event loop runs."""
    return asyncio.run(choose_entry(conversation, cost, labels, set_label))
