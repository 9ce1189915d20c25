"""From events and results to the screen; the only module with rich. Refuses to know MLX.

Everything that a model, a file or a person wrote passes through `plain.clean` on its way.
"""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as RichTree

from chatcli import __version__
from chatcli.commands import results
from chatcli.commands.results import Table as ResultTable
from chatcli.conversation import finish
from chatcli.conversation.tree import Conversation, Entry, spoken
from chatcli.events import (
    Alternatives,
    Batched,
    Event,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    TurnDone,
    TurnRecord,
)
from chatcli.store.sessions import search
from chatcli.text import age, clean, clean_line, file_size, shorten
from chatcli.tui.render import alternatives
from chatcli.tui.render.arrival import DownloadProgress
from chatcli.tui.render.excerpts import excerpts
from chatcli.tui.render.panel import ACCENT, DIM, ContextTable, hit_line, hit_panel, stats
from chatcli.tui.render.reply import Reply
from chatcli.tui.text.wrap import wrap

Context = Callable[[], int | None]
TAB = 4
# Digits of a fingerprint that tell models apart.
SHORT = 8
# Columns of a list of sessions that their names take at most.
LONGEST_NAME = 36
WRITE_ANEW = "Change the message and press Enter: the old one stays in /tree."


class Screen:
    """What a person sees in a terminal: what is printed for good, and what is drawn below it.

    `roomy` sets off what a command said from the prompt below it. `context`: the most tokens that
    the model takes, None while that is not known.
    """

    def __init__(
        self,
        console: Console | None = None,
        panel: str = "line",
        *,
        roomy: bool = False,
        context: Context = lambda: None,
    ) -> None:
        self.console = console or Console(highlight=False)
        self.reply = Reply(self.console, context=context)
        self._panel = panel
        self._roomy = roomy

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(clean(text), style=style))

    def error(self, text: str) -> None:
        self.console.print(Text(clean(text), style="red"))
        self._gap()

    def welcome(self, model: str, session: str | None, saved: int) -> None:
        """The first lines: what this is, what to do, what there is to go on with."""
        line = Text.assemble(
            ("chatcli ", f"bold {ACCENT}"),
            (__version__, DIM),
            ("  ·  ", DIM),
            model_label(model),
        )
        if session:
            line.append("  ·  ", DIM).append(clean_line(session))
        self.console.print(line)
        hints = ["Type a message and press Enter. /help shows the commands, Ctrl-D leaves."]
        if model == "pocket":
            hints.append("pocket is tiny and built in. For a real model: chatcli -m HUB-NAME-OR-FOLDER")
        if saved and not session:
            hints.append(f"{saved} saved conversation{'s'[: saved > 1]}: /resume goes on with one.")
        self.console.print(Text("\n".join(hints), style=DIM))
        self.console.print()

    def message(self, text: str) -> None:
        """What the person sent, as it stays on the screen."""
        mark = Text("› ", f"bold {ACCENT}")
        for line in wrap(Text(clean(text).expandtabs(TAB)), max(self.console.width - 3, 8)):
            self.console.print(mark + line, soft_wrap=True)
            mark = Text("  ")

    def event(self, event: Event) -> None:
        """Draw one event of a turn."""
        self.reply.event(event)
        if isinstance(event, TurnDone):
            if self._panel != "off":
                draw = hit_panel if self._panel == "full" else hit_line
                self.console.print(draw(event.record, self.console.width))
            self.console.print()
        elif isinstance(event, Batched):
            self.reply.waits(f"{event} · Esc stops")
        elif isinstance(event, Alternatives):
            self.reply.finish()
            self.console.print(alternatives.drawn(event, self.console.width))
            self.console.print()
        elif isinstance(event, Notice):
            self.say(f"! {event.text}", "yellow")

    def abandon(self) -> None:
        """A turn ended without a reply: leave the screen in order."""
        self.reply.finish()

    def result(self, result: results.Result) -> None:
        """Draw what a command returned."""
        if isinstance(result, results.PanelMode):
            self._panel = result.mode
        self.console.print(RENDERERS[type(result)](result))
        self._gap()

    def _gap(self) -> None:
        if self._roomy:
            self.console.print()

    def live(self, height: int) -> str:
        """What changes with time, at most `height` lines of it, as text with ANSI styles."""
        if not (lines := self.reply.live(height)):
            return ""
        # A console of its own: another thread may be printing with the other one, and wait for us.
        drawn = Console(file=io.StringIO(), force_terminal=True, width=self.console.width, highlight=False)
        with drawn.capture() as captured:
            for line in lines:
                drawn.print(line, soft_wrap=True)
        return captured.get().rstrip("\n")

    def goodbye(self, session: str | None) -> None:
        if session is not None:
            self.console.print(
                Text.assemble(("To go on with this conversation: ", DIM), resume_command(session))
            )


def screen_on(file: object, panel: str, context: Context) -> Screen:
    """A screen above a prompt, printing to `file`."""
    console = Console(file=cast(TextIO, file), force_terminal=True, highlight=False)
    return Screen(console, panel, roomy=True, context=context)


class Pipe:
    """Plain text for a program that reads: the reply to `out`, thinking and notices to `err`."""

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        context: Context = lambda: None,
    ) -> None:
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._context, self._told_cut = context, False
        self._unfinished: TextIO | None = None
        self._arrival = DownloadProgress(self._err)

    def event(self, event: Event) -> None:
        if self._arrival.takes(event):
            return
        if isinstance(event, ThinkingDelta):
            self._write(self._err, event.text)
            self._unfinished = self._err
        elif isinstance(event, TextDelta):
            if self._unfinished is self._err:
                self.abandon()
            self._write(self._out, event.text)
            self._unfinished = self._out
        elif (told := self._told(event)) is not None:
            self.abandon()
            self._write(*told)

    def _told(self, event: Event) -> tuple[TextIO, str] | None:
        """What begins a line of its own, and where; None: nothing is told of it here."""
        if isinstance(event, ToolCalled):
            return self._out, f"{event}\n"
        if isinstance(event, Notice):
            self._told_cut |= finish.told_already(event)
            return self._err, f"chatcli: {event.text}\n"
        if isinstance(event, Alternatives):
            return self._out, alternatives.lines(event)
        return self._ended(event.record) if isinstance(event, TurnDone) else None

    def _ended(self, record: TurnRecord) -> tuple[TextIO, str]:
        told = None if self._told_cut else finish.sentence(record, self._context())
        self._told_cut = False
        # A program that reads has --json for that: its standard error is the thinking.
        wanted = told is not None and self._err.isatty()
        return (self._err, f"chatcli: {told}\n") if wanted else (self._out, "")

    def abandon(self) -> None:
        """End the line that is being written, whether its turn ended or not."""
        self._arrival.end()
        if self._unfinished is not None:
            self._write(self._unfinished, "\n")
            self._unfinished = None

    def end_turn(self) -> None:
        self._out.flush()

    def result(self, result: results.Result) -> None:
        Screen(Console(file=self._out, highlight=False)).result(result)

    def _write(self, stream: TextIO, text: str) -> None:
        stream.write(clean(text))
        stream.flush()


def model_label(name: str) -> str:
    """A hub name as it is, a folder by its own name."""
    return clean_line(Path(name).name if len(Path(name).parts) > 2 else name)


def resume_command(session: str) -> str:
    quoted = clean_line(session)
    return f"chatcli resume {quoted!r}" if " " in quoted else f"chatcli resume {quoted}"


def _said(result: results.Said) -> RenderableType:
    return Text(clean(result.text))


def _help(result: results.Help) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for known in result.commands:
        table.add_row(Text(f"/{known.name} {known.argument}".strip(), style=ACCENT), known.help)
    keys = Text(f"\n{KEYS}", style=DIM)
    return Group(table, keys)


def _listing(result: results.Listing) -> RenderableType:
    if not result.summaries:
        return Text("No saved sessions yet.")
    table = Table(box=None, header_style=DIM, padding=(0, 2, 0, 0))
    ages = [age(summary.last_used) for summary in result.summaries]
    names = [clean_line(summary.name) for summary in result.summaries]
    widest = min(max(map(cell_len, ["session", *names])), LONGEST_NAME)
    for column, least in (
        ("session", widest),
        ("turns", 5),
        ("last used", max(map(len, ["last used", *ages]))),
    ):
        table.add_column(column, no_wrap=True, overflow="ellipsis", min_width=least)
    table.add_column("begins with", no_wrap=True, overflow="ellipsis")
    for summary, name, last_used in zip(result.summaries, names, ages, strict=True):
        if summary.problem:
            table.add_row(name, "?", "", Text("cannot be read", "red"))
        else:
            words = Text(shorten(summary.first_words, 60), style=DIM)
            table.add_row(Text(name, style=ACCENT), str(summary.turns), last_used, words)
    if result.more > 0:
        return Group(table, Text(f"… and {result.more:,} more: chatcli list --all", style=DIM))
    return table


def _transcript(result: results.Transcript) -> RenderableType:
    asked_most, said_most = (None, None) if result.last is None else REMINDER
    turns = result.conversation.turns()
    shown = turns if result.last is None else turns[-result.last :]
    lines: list[RenderableType] = []
    if (earlier := len(turns) - len(shown)) > 0:
        lines.append(Text(f"… {earlier:,} earlier turn{'s' * (earlier > 1)}", style=DIM))
    for turn in shown:
        message = turn.user.message
        words = message.shown if result.last is None else message.brief
        asked = _spoken(f"{turn.number} › ", words, f"bold {ACCENT}", asked_most)
        lines.append(asked)
        if turn.reply is not None:
            if result.thinking and turn.reply.message.thinking:
                lines.append(_spoken("  ┊ ", turn.reply.message.thinking, f"{DIM} italic"))
            said, mark = turn.reply.message.content, finish.mark(turn.reply.finish_reason)
            lines.append(_spoken("  ", said, "", said_most, mark))
    if lines and result.last is None:
        day = spoken(result.conversation.date)
        lines.insert(0, Text(f"dated {day}, for templates that tell the model the date", style=DIM))
    return Group(*lines) if lines else Text("No turns yet.")


def _spoken(label: str, text: str, style: str, most: int | None = None, mark: str = "") -> RenderableType:
    """A message beside its label, at most its first `most` lines; the mark is there in any case."""
    text = clean(text)
    begun = text if most is None else "\n".join(text.split("\n")[:most])[: most * LINE]
    shown = Text(begun, style=style)
    if len(begun) < len(text):
        shown.append(f"\n… {len(text) - len(begun):,} more characters", f"not bold {DIM}")
    if not text.strip():
        shown = Text(mark or "(empty)", DIM)
    elif mark:
        shown.append(f" {mark}", f"not bold {DIM}")
    table = Table.grid()
    table.add_row(Text(label, style=style or DIM), shown)
    return table


def _tree(result: results.Tree) -> RenderableType:
    """One line of asking and one of answering a turn; only a fork makes the tree deeper."""
    conversation = result.conversation
    root = RichTree(Text(clean_line(result.name), style=f"bold {ACCENT}"), guide_style=DIM)
    on_path = {entry.id for entry in conversation.path()}
    pending: list[tuple[RichTree, str | None, int]] = [(root, None, 1)]
    while pending:
        branch, parent, number = pending.pop()
        questions = conversation.children(parent)
        for question in questions:
            replies: list[Entry | None] = [*conversation.children(question.id)] or [None]
            for reply in replies:
                grown = branch.add(_turn_label(conversation, number, question, reply, on_path))
                if reply is not None:
                    forked = len(questions) > 1 or len(replies) > 1
                    pending.append((grown if forked else branch, reply.id, number + 1))
    return root


def _turn_label(
    conversation: Conversation, number: int, asked: Entry, reply: Entry | None, on_path: set[str]
) -> Text:
    current = (reply or asked).id in on_path
    label = Text.assemble(
        (f"{number} › ", ACCENT if current else DIM),
        (shorten(asked.message.brief, 56), "" if current else DIM),
    )
    if conversation.head in (asked.id, reply.id if reply else None):
        label.append("  ◀ here", "bold green")
    if reply is None:
        return label.append("\n    (no reply)", DIM)
    answer = finish.marked(shorten(reply.message.content, 56), reply.finish_reason)
    return label.append(f"\n    {answer}", DIM)


def _disk_use(result: results.DiskUse) -> RenderableType:
    if not result.usages:
        return Text("No checkpoints on disk.")
    table = Table(box=None, header_style=DIM, padding=(0, 2, 0, 0))
    table.add_column("model", overflow="fold")
    table.add_column("fingerprint", no_wrap=True)
    for column in ("segments", "rows", "states"):
        table.add_column(column, justify="right", no_wrap=True)
    for use in result.usages:
        name = result.names.get(use.fingerprint)
        rows = _files(use.rows_files, use.rows_bytes)
        states = _files(use.states, use.state_bytes)
        label = model_label(name) if name else "in no session"
        table.add_row(Text(label), use.fingerprint[:SHORT], f"{use.segments:,}", rows, states)
    used = sum(use.bytes for use in result.usages)
    total = f"{file_size(used)} of at most {file_size(result.limit)}"
    return Group(table, Text(total, style=DIM))


def _files(count: int, size: int) -> str:
    return f"{count:,} file{'s' * (count != 1)}, {file_size(size)}"


def _verified(result: results.Verified) -> RenderableType:
    lines = [
        Text(f"! {clean(str(one.path.relative_to(result.folder)))}: {clean(one.reason)}")
        for one in result.damaged
    ]
    lines += [Text(f"! {clean(problem)}") for problem in result.transcripts]
    if not lines:
        return Text("Every checkpoint and transcript is whole.")
    if result.damaged and result.repaired:
        lines.append(Text("Set aside: the next turn computes these checkpoints again."))
    elif result.damaged:
        lines.append(Text("'chatcli cache verify --repair' sets damaged checkpoints aside."))
    return Group(*lines)


def _collected(result: results.Collected) -> RenderableType:
    reasons: dict[str, list[int]] = {}
    for removal in result.removals:
        reasons.setdefault(removal.reason, []).append(removal.size)
    verb = "would go" if result.dry_run else "went"
    lines = [
        Text(f"{len(sizes)} files, {file_size(sum(sizes))}: {reason}") for reason, sizes in reasons.items()
    ]
    if not lines:
        return Text("There is nothing to remove.")
    return Group(*lines, Text(f"{file_size(result.freed)} {verb}.", style=DIM))


# What must not be overlooked below a table: a missed target, a peer that is better, other tokens.
TO_HEED = re.compile("^MISSED|chatcli loses|differs? from|differ!")


def _bench(result: ResultTable) -> RenderableType:
    notes = [Text(note, style="yellow" if TO_HEED.search(note) else DIM) for note in result.notes]
    table = Table(box=None, header_style=DIM, padding=(0, 2, 0, 0))
    for number, column in enumerate(result.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in result.rows:
        table.add_row(*map(Text, row))
    body = [table] if result.rows else []
    return Group(Text(clean(result.title), style="bold"), *body, *notes, Text())


def _written(result: results.Written) -> RenderableType:
    return Text(WRITE_ANEW, style=DIM)


def _copied(result: results.Copied) -> RenderableType:
    return Text(f"Copied {result.what}: {len(result.text):,} characters.", style=DIM)


def _panel_mode(result: results.PanelMode) -> RenderableType:
    shown = {"line": "one line", "full": "a panel", "off": "nothing"}[result.mode]
    return Text(f"After each turn {shown} of its numbers is shown. /stats has them all.")


def _opened(result: results.Opened) -> RenderableType:
    notes = [Text(f"! {clean(note)}", style="yellow") for note in result.notes]
    head = Text.assemble("Session ", (clean_line(result.name), ACCENT))
    if (day := result.conversation.date) != time.strftime("%Y-%m-%d"):
        head.append(f" · dated {spoken(day)}", DIM)
    last = results.Transcript(result.name, result.conversation, last=2)
    return Group(head, _transcript(last), *notes)


# Lines of a message and of a reply that remind of where a conversation was.
REMINDER = (6, 24)
LINE = 72
KEYS = """\
Enter sends · Alt-Enter, Ctrl-J or \\ Enter makes a new line
Esc or Ctrl-C stops a reply · Ctrl-T shows the thinking
Up and Ctrl-R bring back what you wrote, Up also what waits
Esc Esc opens the tree · Ctrl-G opens your editor · Ctrl-D leaves
@file attaches a text file · Ctrl-O opens a folded paste"""

RENDERERS: dict[type, Callable[[Any], RenderableType]] = {
    results.Said: _said,
    results.Help: _help,
    results.Listing: _listing,
    results.Transcript: _transcript,
    results.Tree: _tree,
    results.Stats: stats,
    results.DiskUse: _disk_use,
    results.Verified: _verified,
    results.Collected: _collected,
    ResultTable: _bench,
    results.Opened: _opened,
    results.Written: _written,
    results.Copied: _copied,
    results.PanelMode: _panel_mode,
    results.Context: ContextTable,
    search.Found: excerpts,
}
