"""Saved turns, drawn as they looked live: the question, the thinking, Markdown.

All rows leave the last column free. In a pipe a conversation is printed byte for byte.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from chatcli.conversation import finish
from chatcli.conversation.tree import Conversation, Entry, Turn, date_in_words
from chatcli.events import ToolCall
from chatcli.text import age, clean, clean_line, count, shorten
from chatcli.tui.text.console import ACCENT, DIM, INDENT, open_console
from chatcli.tui.text.fit import fit, portable
from chatcli.tui.text.wrap import wrap

MARK = "✻"
THINKING_MARK = "  ┊ "
THINKING_COLUMNS = 100
MIN_COLUMNS = 8
# Characters of a tool's result that are shown.
MAX_SHOWN_RESULT = 400
TAB_WIDTH = 4
# The least rows that show a part of a turn: its question, how much is left out, and two of its end.
MIN_PART_ROWS = 4
# How to see the thinking, in the shell and with `chatcli show`.
READER_KEY, THINKING_OPTION = "Ctrl-T shows it", "--thinking shows it"


def question_rows(text: str, width: int, mark: str = "› ") -> list[Text]:
    """The rows of a person's message."""
    rows: list[Text] = []
    for line in wrap(Text(clean(text).expandtabs(TAB_WIDTH)), max(width - len(mark) - 1, MIN_COLUMNS)):
        rows.append(Text.assemble((" " * len(mark) if rows else mark, f"bold {ACCENT}"), line))
    return rows


def thought(reply: Entry) -> str:
    """The line that stands for a saved reply's thinking."""
    tokens, seconds = reply.record.get("thinking_tokens", 0), reply.record.get("thinking_seconds")
    return f"{MARK} {finish.thought(tokens if seconds is not None else 0, seconds or 0.0)}"


def reply_rows(reply: Entry, console: Console, indent: str = INDENT, note: str | None = None) -> list[Text]:
    """A reply's Markdown, and `note` below it (None: the mark of a reply that was cut, if it was)."""
    # Only here: a new chat is at its prompt without Markdown.
    from chatcli.tui.markdown.stream import rendered

    rows: list[Text] = []
    for text, calls in _split_at_calls(reply):
        rows += rendered(text, console, indent) if text.strip() else []
        for call in calls:
            rows += _note_rows(clean(str(call)), console, indent)
    is_empty = not (reply.message.content.strip() or reply.message.tool_calls)
    note = note or finish.mark(reply.finish_reason) or ("(empty)" if is_empty else "")
    return [*rows, *(_note_rows(note, console, indent) if note else ())]


def _note_rows(note: str, console: Console, indent: str) -> list[Text]:
    width = max(console.width - len(indent) - 1, MIN_COLUMNS)
    return [Text(indent) + row for row in wrap(Text(note, DIM), width)]


def _split_at_calls(reply: Entry) -> list[tuple[str, list[ToolCall]]]:
    """The text of a reply without its tool calls, each piece with the calls that come after it."""
    content, end = reply.message.content, 0
    pieces: list[tuple[str, list[ToolCall]]] = []
    for call in tool_calls(reply):
        if not pieces or call.start >= end:
            pieces.append((content[end : call.start], []))
        end = max(end, call.end)
        pieces[-1][1].append(call)
    return [*pieces, (content[end:], [])]


def tool_calls(reply: Entry) -> list[ToolCall]:
    """The calls of a reply, each with its place in the text; those without a place come last."""
    if not reply.message.tool_calls:
        return [ToolCall(**call) for call in reply.record.get("tool_calls", ())]
    end = len(reply.message.content)
    return [
        call if call.start < call.end else replace(call, start=end, end=end)
        for call in reply.message.tool_calls
    ]


def turn_rows(
    turn: Turn, console: Console, *, thinking_shown_by: str | None, brief: bool = False, is_last: bool = False
) -> Iterator[Text]:
    """A turn. Its thinking is one line that ends with `thinking_shown_by`; None: all of it is shown.

    `brief` leaves out the text of attached files. Below the last reply a note says how to continue it.
    """
    user = turn.user.message
    yield from question_rows(user.brief if brief else user.shown, console.width, f"{turn.number} › ")
    for entry in [*turn.steps, turn.reply]:
        if entry is None:
            return
        if entry.message.role == "tool":
            yield from _note_rows(tool_result(entry), console, INDENT)
            continue
        if entry.message.thinking and thinking_shown_by is None:
            text = clean(entry.message.thinking).strip("\n").expandtabs(TAB_WIDTH)
            room = max(min(console.width - len(THINKING_MARK) - 1, THINKING_COLUMNS), MIN_COLUMNS)
            thinking_rows = wrap(Text(text, f"{DIM} italic"), room)
            yield from (Text.assemble((THINKING_MARK, DIM), row) for row in thinking_rows)
        elif entry.message.thinking:
            line, hint = INDENT + thought(entry), f" · {thinking_shown_by}"
            yield Text(line + hint * (len(line + hint) < console.width), DIM)
        is_end = is_last and entry is turn.reply
        yield from reply_rows(entry, console, note=finish.saved_note(entry) if is_end else None)


def tool_result(entry: Entry) -> str:
    """A tool's result in one line."""
    return f"⚙ gave {shorten(entry.message.content, MAX_SHOWN_RESULT)}"


def portable_entry(entry: Entry) -> Entry:
    """A message that every terminal draws in the same columns, for full-screen views."""
    original = entry.message.content
    message = replace(entry.message, content=portable(original), thinking=portable(entry.message.thinking))
    # The text has changed, so the tool calls have moved.
    calls = [
        replace(call, start=len(portable(original[: call.start])), end=len(portable(original[: call.end])))
        for call in tool_calls(entry)
    ]
    return replace(entry, message=replace(message, tool_calls=tuple(calls)))


def layout_console(width: int) -> Console:
    """A console of this width to lay out rows for; it prints nowhere."""
    return open_console(io.StringIO(), width=width, force_terminal=True)


def whole_transcript(conversation: Conversation, console: Console, *, thinking: bool) -> Iterator[Text]:
    """All turns of a conversation."""
    turns = conversation.turns()
    if not turns:
        yield Text("No turns yet.")
        return
    day = date_in_words(conversation.date)
    yield Text(f"dated {day}, for templates that tell the model the date", style=DIM)
    for turn in turns:
        yield Text()
        shown_by = None if thinking else THINKING_OPTION
        yield from map(_unwrapped, turn_rows(turn, console, thinking_shown_by=shown_by))


def conversation_end(name: str, conversation: Conversation, height: int, console: Console) -> Iterator[Text]:
    """A conversation's heading, and as much of its end as fits into `height` rows."""
    facts = heading(name, conversation)
    head, end = [Text()], list[Text]()
    # The number of earlier turns may take the head a second row, which the end then lacks.
    for _ in range(2):
        above, end = _end(conversation.turns(), console, height - len(head))
        head = _head(facts, _earlier(above) if above else "", console.width)
    yield from map(_unwrapped, [*head, *end])


def _end(turns: Sequence[Turn], console: Console, room: int) -> tuple[int, list[Text]]:
    """How many turns are left out above, and the rows of the end, with a blank one before each turn."""
    shown: list[Text] = []
    for turn in reversed(turns):
        is_last = turn is turns[-1]
        rows = list(turn_rows(turn, console, thinking_shown_by=READER_KEY, brief=True, is_last=is_last))
        room -= 1
        if len(rows) > room:
            if room < MIN_PART_ROWS and not is_last:
                return turn.number, shown
            # The first row of the turn and its last ones.
            kept = max(room, MIN_PART_ROWS) - 2
            left_out = Text(f"{INDENT}… {count('row', len(rows) - kept - 1)}", DIM)
            return turn.number - 1, [Text(), rows[0], left_out, *rows[-kept:], *shown]
        shown = [Text(), *rows, *shown]
        room -= len(rows)
    return 0, shown


def heading(name: str, conversation: Conversation) -> list[str]:
    """A conversation's name, number of turns and age."""
    turns = conversation.turns()
    facts = [portable(clean_line(name)), count("turn", len(turns)) if turns else "no turns yet"]
    last = conversation.entries[conversation.head].created if conversation.head else 0.0
    return [*facts, age(last)] if last > 0 else facts


def _earlier(turns: int) -> str:
    return f"… {count('earlier turn', turns)} · Ctrl-T shows all"


def _head(facts: Sequence[str], earlier: str, width: int) -> list[Text]:
    name = fit(facts[0], width - 1)
    line = Text.assemble((name, f"bold {ACCENT}"))
    for fact in facts[1:]:
        if line.cell_len + len(fact) + 3 < width:
            line.append(f" · {fact}", f"not bold {DIM}")
    if not earlier:
        return [line]
    if line.cell_len + len(earlier) + 3 < width:
        return [line.append(f" · {earlier}", DIM)]
    return [line, Text(fit(earlier, width - 1), DIM)]


def plain_transcript(conversation: Conversation, *, thinking: bool = False, last: int | None = None) -> str:
    """The turns as plain text, each after its number, for a pipe: nothing is wrapped."""
    turns = conversation.turns()
    parts = [] if last is None or len(turns) <= last else [_earlier(len(turns) - last).partition(" · ")[0]]
    for turn in turns if last is None else turns[-last:]:
        parts.append(f"{turn.number} › {clean(turn.user.message.shown)}")
        for entry in filter(None, [*turn.steps, turn.reply]):
            message = entry.message
            if message.role == "tool":
                parts.append(tool_result(entry))
                continue
            if thinking and message.thinking:
                lines = clean(message.thinking).strip("\n").split("\n")
                parts.append("\n".join(f"{THINKING_MARK.strip()} {line}".rstrip() for line in lines))
            mark = finish.mark(entry.finish_reason)
            parts += [clean(message.content)] * bool(message.content) + [mark] * bool(mark)
    return "\n\n".join(parts or ["No turns yet."]) + "\n"


def _unwrapped(row: Text) -> Text:
    row.no_wrap, row.overflow = True, "ignore"
    return row
