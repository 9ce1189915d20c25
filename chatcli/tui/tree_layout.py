"""A conversation's tree as rows: messages below each other, branches a step to the right.

The main line keeps its depth, and at a fork the other branches come first. So only branches of branches go
deeper, and the path to the head never drifts off the edge. A reply that /continue finished is not a branch.
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
# Markdown's marks, which are noise in a row.
MARKS = re.compile(r"^ {0,3}(?:#{1,6} +|> ?|(?:```|~~~)\w*$)|\*\*|`+", re.MULTILINE)
# The least columns of guides that deep branches show.
MIN_GUIDE_COLUMNS = 6


@dataclass(frozen=True)
class Node:
    """A message in drawing order.

    `turn` counts from 1 along its path, `descendants` is the number of messages below it. `side_branches` are
    the first messages of the branches that leave the main line of its branch right after it.
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
    # The main line continues with the child on the path, else the one with most descendants, else the newest.
    main_child = {
        parent: max(reversed(siblings), key=lambda child: (child in path, descendants[child]))
        for parent, siblings in children.items()
    }
    nodes: list[Node] = []
    pending: list[tuple[str, BranchPath]] = []

    def push_children(parent: str | None, branches: BranchPath) -> BranchPath:
        """Push the children of `parent`, the side branches on top. Returns the side branches."""
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
    """The box-drawing lines before each of these rows, which are in drawing order."""
    # For each branch, from the bottom up: the last of its side branches that was met (None: the branch
    # itself), and whether anything else of the branch is below.
    met: dict[str | None, tuple[str | None, bool]] = {}

    def others_below(branch: str | None, side: str | None) -> bool:
        return branch in met and (met[branch][1] or met[branch][0] != side)

    drawn: list[str] = []
    for index in range(len(rows) - 1, -1, -1):
        branches = rows[index]
        outer: list[str | None] = [None, *branches]
        continues = [others_below(*pair) for pair in zip(outer, branches, strict=False)]
        lines = ["│ " if more else "  " for more in continues]
        above = rows[index - 1] if index else None
        if branches and (above is None or above[: len(branches)] != branches):
            fork, end = ("├─", "└─") if above is not None else ("┌─", "──")
            lines[-1] = fork if continues[-1] else end
        drawn.append("".join(lines))
        for branch, side in zip(outer, [*branches, None], strict=True):
            met[branch] = (side, others_below(branch, side))
    return drawn[::-1]


def row_start(
    node: Node, guide: str, turn_digits: int, labels: Mapping[str, str], *, is_hint: bool = False
) -> tuple[list[tuple[str, str]], str]:
    """A row from its guide to its words, as (style, text), and the mark of a reply that was cut.

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
    """A guide cut to about a third of a row: of deep branches only the last steps are drawn."""
    room = max(width // 3 // 2 * 2, MIN_GUIDE_COLUMNS)
    return guide if len(guide) <= room else "… " + guide[len(guide) - room + 2 :]
