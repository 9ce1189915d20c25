"""What a search found, drawn: where each message is, and its words; refuses to know files."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from chatcli.store.sessions.search import Found, Hit
from chatcli.text import age, clean_line
from chatcli.tui.render.panel import ACCENT, DIM

WHO = {"user": "you", "assistant": "reply"}


def excerpts(result: Found) -> RenderableType:
    """A line that says where a message is, and its excerpt, for each hit."""
    if not result.hits:
        words = ", ".join(f"'{clean_line(word)}'" for word in result.words)
        return Text(f"No message holds {words}.")
    lines = [line for hit in result.hits for line in (_place(hit), _excerpt(hit))]
    if result.more:
        told = f"The newest {len(result.hits)} are shown, and there are more: chatcli search --all"
        lines.append(Text(told, DIM))
    return Group(*lines)


def _place(hit: Hit) -> Text:
    return Text.assemble(
        (clean_line(hit.session), ACCENT),
        (f"  turn {hit.turn} · {WHO.get(hit.role, hit.role)} · {age(hit.last_used)}", DIM),
        ("" if hit.on_path else " (other branch)", DIM),
    )


def _excerpt(hit: Hit) -> Text:
    text = Text("  ").append(hit.excerpt)
    for start, end in hit.marks:
        text.stylize(f"bold {ACCENT}", start + 2, end + 2)
    return text
