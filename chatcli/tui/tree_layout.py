"""A conversation's tree as rows: messages below each other, branches a step to the right.

The main line keeps its depth: at a fork the other branches come first. So only branches of branches go
deeper, and the path to the head never drifts off the edge. A reply that was continued is no branch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chatcli.conversation import finish
from chatcli.conversation.tree import Conversation, Entry
from chatcli.tui.text.fit import MAX_ROW_CHARS, first_words

# The first messages of the branches that a node is in, the outermost first; the main line is in none.
BranchPath = tuple[str, ...]

HERE = "  ◀ here"
# Markdown's marks that would only be in the way in a row.
MARKS = re.compile(r"^ {0,3}(?:#{1,6} +|> ?|(?:```|~~~)\w*$)|\*\*|`+", re.MULTILINE)
# Columns of guides that the deepest branches show at least.
MIN_GUIDE_COLUMNS = 6


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


def tree_nodes(conversation: Conversation) -> list[Node]:
    """The tree's messages as they are drawn, from top to bottom."""
    continued = conversation.continued()
    entries = {name: entry for name, entry in conversation.entries.items() if name not in continued}
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


def row_start(
    node: Node, guide: str, turn_digits: int, labels: Mapping[str, str], *, is_hint: bool = False
) -> tuple[list[tuple[str, str]], str]:
    """A row from its guide to its words, as (style, text), and the mark behind a reply that was cut.

    The styles are strong, dim, name and none.
    """
    entry = node.entry
    is_user = entry.message.role == "user"
    style = "dim" if is_hint or not node.is_on_path else "strong" if is_user else ""
    turn = f"{node.turn:>{turn_digits}} › " if is_user else " " * (turn_digits + 3)
    label = f"[{first_words(labels[entry.id])}] " if entry.id in labels else ""
    text = entry.message.brief if is_user else MARKS.sub("", entry.message.content[:MAX_ROW_CHARS])
    words, cut = first_words(text), finish.mark(entry.finish_reason)
    parts = [
        ("dim", guide),
        (style, ("● " if node.is_on_path else "○ ") + turn),
        ("name", label),
        (style, words or cut or "(empty)"),
    ]
    return parts, cut if words else ""


def cut_guide(guide: str, width: int) -> str:
    """A guide in at most half of a row, or so: of deep branches only the last steps are drawn."""
    room = max(width // 3 // 2 * 2, MIN_GUIDE_COLUMNS)
    return guide if len(guide) <= room else "… " + guide[len(guide) - room + 2 :]
