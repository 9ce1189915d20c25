"""What is shown of a reply before its first token."""

from __future__ import annotations

from rich.console import Console

from chatcli.events import PrefillProgress, PrefixMatched, ReplyContinued
from chatcli.tui.render.reply import Reply


def test_the_reading_bar_is_there_before_the_first_chunk_ends() -> None:
    now = [0.0]
    reply = Reply(Console(width=80), lambda: now[0])
    reply.begin(str)
    reply.event(ReplyContinued("What there is of it"))
    reply.event(PrefixMatched(4000, 1000, None, 200))
    assert [] == reply.live(10)
    now[0] = 1.0
    assert reply.live(10)[0].plain.endswith("░ 0 of 2,800 tokens · 1.0 s · Esc stops")
    reply.event(PrefillProgress(1400, 2800))
    assert reply.live(10)[0].plain.endswith("░ 1,400 of 2,800 tokens · 1.0 s left · Esc stops")
