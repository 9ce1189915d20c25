"""Draws the results of commands as rich renderables. All text from models, files and people is cleaned."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from functools import singledispatch
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from chatcli.commands import results
from chatcli.conversation.tree import ROLE_NAMES
from chatcli.store.sessions import search
from chatcli.store.sessions.listing import Summary
from chatcli.text import age, clean, clean_line, count, shorten
from chatcli.tui.render.panel import context_table, stats_notes, stats_table
from chatcli.tui.saved import conversation_end, heading, plain_transcript, whole_transcript
from chatcli.tui.terminal import clipboard
from chatcli.tui.text.console import ACCENT, DIM, INDENT, Drawn, Sentence
from chatcli.tui.text.fit import fit, fit_name
from chatcli.tui.tree_layout import HERE, cut_guide, guides, row_start, tree_nodes

# In the list of sessions: the gap between columns, the least width of a name, characters of a first message.
LISTING_GAP, MIN_NAME_COLUMNS, MAX_FIRST_WORDS = 2, 12, 60
# The styles of a tree's rows.
TREE_STYLES = {"": "", "dim": DIM, "name": ACCENT, "strong": "bold"}
# Columns of a tree's row in a pipe.
PIPE_TREE_COLUMNS = 80
# Rows that the empty line, the box and the toolbar take below printed text.
PROMPT_ROWS = 3
# The last turns of a reopened conversation that a pipe shows.
REMINDER_TURNS = 2
# Notes below a table that must not be overlooked: a missed target, other tokens.
WARNING = re.compile("^MISSED|differs? from|differ!")
EDIT_HINT = "Change the message and press Enter: the old one stays in /tree."
# The keys that /help shows, as briefly as its commands, and those of /help keys.
MAIN_KEYS = (
    ("Alt-Enter", "new line (also \\ Enter)"),
    ("Esc", "stop a reply, cancel"),
    ("Esc Esc", "clear; open the tree"),
)
KEYS = (
    ("Enter", "send; run the chosen command"),
    ("Alt-Enter, Ctrl-J", "new line, as \\ before Enter"),
    ("Tab", "complete a command, its argument or a file's name"),
    ("Esc", "stop a reply, cancel an edit, close the menu"),
    ("Esc Esc", "clear the box; with an empty box, open the tree"),
    ("Ctrl-C", "stop a reply, clear the box; twice: leave"),
    ("Ctrl-D", "leave"),
    ("Up, Down", "earlier messages that begin with what you typed"),
    ("Ctrl-R", "search earlier messages"),
    ("Ctrl-T", "show the thinking"),
    ("Ctrl-G", "write in your editor"),
    ("Ctrl-O", "open a folded paste, or fold it again"),
    ("Ctrl-A, Ctrl-E", "go to the beginning or end of the line"),
    ("Alt-B, Alt-F", "go back or forward a word"),
    ("Ctrl-W, Ctrl-U", "delete a word, or all before the cursor"),
    ("Ctrl-Y, Ctrl-_", "insert what was deleted; undo"),
    ("Ctrl-L, Ctrl-Z", "redraw the screen; suspend"),
    ("@FILE", "attach a file"),
    ('"""', "begin and end a message of many lines"),
)
# Columns of an entry of the help, and of the command or key in it.
HELP_COLUMNS, HELP_NAME_COLUMNS = 39, 15


def model_label(name: str) -> str:
    """A hub name, or the name of a folder without its path."""
    return clean_line(Path(name).name if len(Path(name).parts) > 2 else name)


@singledispatch
def renderable(result: object) -> RenderableType:
    """Draw any of `results.Result` but `Quit` and `Stream`."""
    raise TypeError(f"{type(result).__name__} has nothing to draw")


@renderable.register
def _(result: results.PlainText) -> RenderableType:
    return Sentence(result.text)


def plain(result: object) -> str | None:
    """A result as unwrapped text for a pipe; None if `renderable` draws it there too."""
    if isinstance(result, results.Transcript):
        return plain_transcript(result.conversation, thinking=result.thinking)
    if isinstance(result, results.Opened):
        notes = "".join(f"! {clean(note)}\n" for note in result.notes)
        last = plain_transcript(result.conversation, last=REMINDER_TURNS)
        said = f"{clean(result.said)}\n" if result.said else ""
        return f"Session {' · '.join(heading(result.name, result.conversation))}\n\n{last}{said}{notes}"
    if isinstance(result, results.HeadMoved):
        return f"{clean(result.text)}\n"
    if isinstance(result, results.Tree):
        return "".join(f"{row.plain.rstrip()}\n" for row in tree_rows(result, PIPE_TREE_COLUMNS))
    return None


@renderable.register
def _(result: results.Help) -> RenderableType:
    # The keys before the last group, so that both columns are equally long.
    groups = [*result.groups[:-1], *[("Keys (/help keys: all)", MAIN_KEYS)] * result.keys, result.groups[-1]]
    blocks = [
        [
            Text(title, style="bold"),
            *(
                Text.assemble((f"{INDENT}{name}".ljust(HELP_NAME_COLUMNS), ACCENT), help_)
                for name, help_ in rows
            ),
        ]
        for title, rows in groups
    ]
    return Drawn(lambda _, options: _in_columns(blocks, options.max_width))


def _in_columns(blocks: Sequence[list[Text]], width: int) -> Iterator[Text]:
    """Blocks of short lines, in two columns if there is room."""
    if width < 2 * HELP_COLUMNS + 1:
        yield from itertools.chain(*blocks)
        return
    left, right = (itertools.chain(*column) for column in (blocks[::2], blocks[1::2]))
    for line, beside in itertools.zip_longest(left, right):
        row = line.copy() if line else Text()
        if beside:
            row.append(" " * (HELP_COLUMNS + 1 - row.cell_len)).append_text(beside)
        yield row


@renderable.register
def _(result: results.KeyHelp) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for keys, help_ in KEYS:
        table.add_row(Text(keys, style=ACCENT), Text(help_))
    return table


@renderable.register
def _(result: results.CommandHelp) -> RenderableType:
    lines = [Text(result.usage, style=ACCENT), Text(result.details)]
    if result.aliases:
        lines.append(Text("also " + ", ".join(f"/{alias}" for alias in result.aliases), style=DIM))
    if result.example:
        lines.append(Text(f"example: {result.example}", style=DIM))
    return Group(*lines)


@renderable.register
def _(result: results.Listing) -> RenderableType:
    if not result.summaries:
        return Text("No saved sessions yet.")
    table = Drawn(lambda _, options: [_listing(result.summaries, options.max_width)])
    more = Sentence(f"… and {result.more:,} more: {result.all_command}", DIM)
    return Group(table, *[more] * (result.more > 0))


def _listing(summaries: Sequence[Summary], width: int) -> Table:
    """A row for each session. In narrow terminals first words are cut first, then names."""
    rows = [(clean_line(s.name), "?" if s.problem else str(s.turns), age(s.last_used)) for s in summaries]
    headings = ("session", "turns", "last used")
    names, turns, ages = (max(map(cell_len, column)) for column in zip(headings, *rows, strict=True))
    room = width - turns - ages - 3 * LISTING_GAP
    names = min(names, max(room * 2 // 3, MIN_NAME_COLUMNS))
    table = Table(box=None, header_style=DIM, padding=(0, LISTING_GAP, 0, 0), pad_edge=False)
    for heading_, columns in zip(headings, (names, turns, ages), strict=True):
        table.add_column(heading_, no_wrap=True, overflow="ellipsis", width=columns)
    table.add_column("begins with", no_wrap=True, overflow="ellipsis", max_width=max(room - names, 1))
    for summary, (name, number, last_used) in zip(summaries, rows, strict=True):
        words = Text(shorten(summary.first_words, MAX_FIRST_WORDS), DIM)
        if summary.problem:
            last_used, words = "", Text("cannot be read", "red")
        table.add_row(Text(fit_name(name, names), ACCENT), number, last_used, words)
    return table


@renderable.register
def _(result: results.Transcript) -> RenderableType:
    return Drawn(lambda console, _: whole_transcript(result.conversation, console, thinking=result.thinking))


@renderable.register
def _(result: results.Tree) -> RenderableType:
    return Drawn(lambda _, options: tree_rows(result, options.max_width - 1))


def tree_rows(result: results.Tree, width: int) -> Iterator[Text]:
    """A heading, and a row for each message."""
    conversation = result.conversation
    name, *facts = heading(result.name, conversation)
    yield Text.assemble((fit(" · ".join([name, *facts]), width), f"bold {ACCENT}"))
    nodes = tree_nodes(conversation)
    turn_digits = len(str(max((node.turn for node in nodes), default=0)))
    for node, guide in zip(nodes, guides([node.branches for node in nodes]), strict=True):
        parts, cut = row_start(node, cut_guide(guide, width), turn_digits, conversation.labels)
        end, here = f" {cut}" * bool(cut), HERE * (node.entry.id == conversation.head)
        row, room = Text(no_wrap=True, overflow="ignore"), width - cell_len(end + here)
        for style, text in parts:
            row.append(fit(text, room - row.cell_len), TREE_STYLES[style])
        yield row.append(end, DIM).append(here, f"bold {ACCENT}")


@renderable.register
def _(result: results.Stats) -> RenderableType:
    if not result.turns:
        return Text("No turns yet.")
    return Group(
        Drawn(lambda _, options: [stats_table(result.turns, options.max_width)]),
        *(Text(note, DIM) for note in stats_notes(result.turns)),
    )


@renderable.register
def _(result: results.Context) -> RenderableType:
    return Drawn(lambda _, options: context_table(result, options.max_width))


@renderable.register
def _(result: results.Table) -> RenderableType:
    table = Table(box=None, header_style=DIM, padding=(0, 2, 0, 0))
    for number, column in enumerate(result.columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in result.rows:
        table.add_row(*map(Text, row))
    notes = [Sentence(note, "yellow" if WARNING.search(note) else DIM) for note in result.notes]
    title, blank = [Text(clean(result.title), style="bold")], [Text()]
    named = bool(result.title)
    return Group(*title * named, *[table] * bool(result.rows), *notes, *blank * named)


@renderable.register
def _(result: results.Opened) -> RenderableType:
    notes = [Sentence(f"! {note}", "yellow") for note in result.notes]
    said = [Sentence(result.said, DIM)] if result.said else []
    return _opened(result, [*said, *notes])


@renderable.register
def _(result: results.HeadMoved) -> RenderableType:
    sentence = Sentence(result.text, DIM)
    return _opened(result, [sentence]) if result.conversation.head else sentence


def _opened(result: results.Opened | results.HeadMoved, sentences: Sequence[Sentence]) -> RenderableType:
    """The end of a conversation that was opened, and sentences below it; together they fill the window."""

    def draw(console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        below = Group(*sentences)
        rows_below = len(console.render_lines(below, options)) if sentences else 0
        height = console.height - PROMPT_ROWS - rows_below
        yield from conversation_end(result.name, result.conversation, height, console)
        yield below

    return Drawn(draw)


@renderable.register
def _(result: results.EditableMessage) -> RenderableType:
    return Text(EDIT_HINT, style=DIM)


@renderable.register
def _(result: results.ClipboardText) -> RenderableType:
    size = count("character", len(result.text))
    if result.way is None:
        install = "pbcopy" if sys.platform == "darwin" else "wl-copy, xclip or xsel"
        return Text(f"Not copied: no clipboard is available here. Install {install}.", style=DIM)
    if result.way == clipboard.TERMINAL:
        sent = f"Sent {result.what} to the terminal's clipboard: {size}."
        return Text(f"{sent} If it is not there, allow OSC 52 in the terminal's settings.", style=DIM)
    if result.way == "tmux":
        return Text(f"Copied {result.what} to tmux's buffer: {size}. Its paste key is prefix ].", style=DIM)
    return Text(f"Copied {result.what} with {result.way}: {size}.", style=DIM)


@renderable.register
def _(result: results.PanelMode) -> RenderableType:
    shown = {"line": "in one line", "full": "in a panel", "off": "by /stats only"}[result.mode]
    return Text.assemble(
        f"Each turn's numbers are shown {shown}. ", (f"To keep that: chatcli config panel {result.mode}", DIM)
    )


@renderable.register
def _(result: results.Search) -> RenderableType:
    return renderable(result.find(result.query))


@renderable.register
def _(result: search.SearchResult) -> RenderableType:
    """For each hit its place on a line, and its excerpt."""
    if not result.hits:
        words = ", ".join(f"'{clean_line(word)}'" for word in result.words)
        return Text(f"No messages match {words}.")
    lines: list[RenderableType] = []
    for hit in result.hits:
        place = f"  turn {hit.turn} · {ROLE_NAMES[hit.role]} · {age(hit.time)}"
        branch = "" if hit.on_path else " (other branch)"
        lines.append(Text.assemble((clean_line(hit.session), ACCENT), (place, DIM), (branch, DIM)))
        excerpt = Text("  ").append(hit.excerpt)
        for start, end in hit.marks:
            excerpt.stylize(f"bold {ACCENT}", start + 2, end + 2)
        lines.append(excerpt)
    if result.more:
        more = f"The newest {len(result.hits)} are shown. To see all: {result.all_command}"
        lines.append(Sentence(more, DIM))
    return Group(*lines)
