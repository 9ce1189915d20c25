"""A reply that did not come to its end: what is said of it, and that what is said is so."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from chatcli.commands import results
from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.errors import ContextFull, NothingToRepeat
from chatcli.events import Event
from chatcli.settings.values import Sampling
from chatcli.store.sessions.listing import Summary
from chatcli.tui.pickers.sessions import SessionRows
from chatcli.tui.pickers.tree import TreeRows
from chatcli.tui.render.pipe import Pipe
from chatcli.tui.render.screen import Screen
from chatcli.turn import regenerate, turn
from tests.support.harness import MESSAGES, Harness, finish
from tests.support.memory import SHORT_MESSAGE, needed_bytes
from tests.support.pickers import session_actions
from tests.support.program import Program
from tests.support.shell import open_shell

STOPPED = threading.Event()
STOPPED.set()
BEFORE = "(stopped before the first word: /regenerate answers it)"
STAYS = "(stopped before the first new word: the reply is as it was)"


def drawn(events: Iterator[Event], context: int | None = None) -> list[str]:
    """The lines that a chat shows of a turn."""
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80), "off", context=lambda: context)
    screen.reply.begin(str)
    for event in events:
        screen.event(event)
    return [line.strip() for line in out.getvalue().splitlines() if line.strip()]


class Read(io.StringIO):
    """Standard error that a person reads."""

    def isatty(self) -> bool:
        return True


def piped(events: Iterator[Event], context: int | None = None) -> tuple[str, str]:
    """What a program gets of a turn on standard output, and the last line that a person reads."""
    out, err = io.StringIO(), Read()
    pipe = Pipe(out, err, lambda: context)
    for event in events:
        pipe.event(event)
    return out.getvalue(), err.getvalue().rstrip("\n").rpartition("\n")[2]


def after(events: Iterator[Event], count: int, stop: threading.Event) -> Iterator[Event]:
    """The events; it is stopped at that one."""
    for number, event in enumerate(events, start=1):
        if number == count:
            stop.set()
        yield event


# Stopped


def test_what_is_stopped_while_it_is_read_is_said_to_have_no_word_and_is_answered_anew(
    model: Path, tmp_path: Path
) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        stop = threading.Event()
        told = drawn(after(turn.take(chat, " ".join(MESSAGES) * 20, stop), 2, stop))
        assert [BEFORE] == told
        with pytest.raises(NothingToRepeat, match=r"never began: /regenerate answers"):
            list(regenerate.go_on(chat, threading.Event()))
        assert finish(regenerate.regenerate(chat, threading.Event())).tokens
        (only,) = chat.conversation.turns()
        assert only.reply is not None and "length" == only.reply.finish_reason


def test_a_stop_before_the_first_new_word_says_that_the_reply_is_as_it_was(
    model: Path, tmp_path: Path
) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        assert STAYS == drawn(regenerate.regenerate(chat, STOPPED))[-1]
        assert STAYS == drawn(regenerate.go_on(chat, STOPPED))[-1]
        assert before == chat.conversation.head


def test_where_some_came_it_is_said_to_be_kept(models: Path, tmp_path: Path) -> None:
    with Harness(models / "speaker", tmp_path, tokens=400) as harness:
        chat = harness.chat("talk")
        stop = threading.Event()
        told = drawn(after(turn.take(chat, SHORT_MESSAGE, stop), 9, stop))
        assert "(stopped: what came is kept, /continue goes on)" == told[-1]
        assert len(finish(regenerate.go_on(chat, threading.Event())).tokens) > 10


def test_what_cannot_be_gone_on_with_is_told_by_why(model: Path, tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(NothingToRepeat) as told:
            list(regenerate.go_on(chat, threading.Event()))
        return str(told.value)

    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        assert "say something first" in refused()
        user = turn.append(chat, SHORT_MESSAGE, (), chat.conversation.head)
        assert "never began: /regenerate answers" in refused()
        chat.saved.append(Message("assistant", "Yes, bu"), user.id, finish_reason="cancelled")
        assert "tokens are not kept: /regenerate makes it anew" in refused()
        chat.saved.append(Message("assistant", "Yes."), user.id, finish_reason="stop")
        assert "came to its end" in refused()


# Cut


def test_a_reply_that_is_cut_says_at_which_token_and_how_to_go_on(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path, tokens=12) as harness:
        chat = harness.chat("talk")
        assert "(cut at 12 tokens: /continue goes on)" == drawn(take(chat, SHORT_MESSAGE))[-1]
        more = regenerate.go_on(chat, threading.Event())
        assert "(cut at 24 tokens: /continue goes on)" == drawn(more)[-1]
        one = replace(chat, sampling=Sampling(max_tokens=1))
        assert "(cut at 1 token: /continue goes on)" == drawn(take(one, SHORT_MESSAGE))[-1]


def take(chat: turn.TurnContext, text: str) -> Iterator[Event]:
    return turn.take(chat, text, threading.Event())


def test_where_the_context_is_full_nothing_is_said_to_go_on(models: Path, tmp_path: Path) -> None:
    with Harness(models / "hermit", tmp_path, tokens=4000) as harness:
        chat = harness.chat("talk")
        context = chat.checkpoints.loaded.context
        events = list(take(chat, "word " * (context // 6)))
        tokens = len(finish(iter(events)).tokens)
        assert 0 < tokens < 4000
        with pytest.raises(ContextFull):
            list(regenerate.go_on(chat, threading.Event()))
    assert f"(cut at {tokens:,} tokens: the context is full)" == drawn(iter(events), context)[-1]
    cut = f"chatcli: The reply was cut at {tokens:,} tokens: the model's context is full."
    assert cut == piped(iter(events), context)[1]


def test_where_the_memory_is_full_that_is_told_once(models: Path, tmp_path: Path) -> None:
    model = models / "speaker"
    enough = needed_bytes(model, tmp_path / "measured", SHORT_MESSAGE, cache=False)
    with Harness(model, tmp_path, tokens=600, cache=False, memory_limit=enough) as harness:
        chat = harness.chat("talk")
        events = list(take(chat, SHORT_MESSAGE))
        assert "length" == finish(iter(events)).finish_reason
    shown = drawn(iter(events))
    (told,) = [at for at, line in enumerate(shown) if "cut" in line]
    assert shown[told].startswith("! The reply was cut because the memory is full")
    # It is told below the reply.
    assert len(shown) - 1 == told > 1
    assert piped(iter(events))[1].startswith("chatcli: The reply was cut because the memory")


def test_a_person_who_asks_is_told_and_a_program_gets_the_reply_alone(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, models / "speaker")
    args = ("-n", "12", "--no-think", "--temp", "0", "-m", program.model)
    with open_shell(program, "ask", "hello", *args) as terminal:
        assert 0 == terminal.wait_for_exit()
        shown = " ".join(terminal.all_text().split())
    assert "cut at 12 tokens: -n allows more, and /continue in a chat goes on." in shown
    asked = program.run("ask", "hello", *args)
    assert asked.text.strip() in shown and "" == asked.errors


# Afterwards: one word for one thing


def talk(text: str, finish_reason: str) -> Conversation:
    made = Conversation("2026-01-01")
    made.add(Entry("u", None, Message("user", "Hello?"), 1.0))
    made.add(Entry("a", "u", Message("assistant", text), 2.0, finish_reason))
    return made


def in_transcript(made: Conversation) -> str:
    return shown(results.Transcript("talk", made))


def in_reminder(made: Conversation) -> str:
    return shown(results.Opened("talk", made))


def in_tree(made: Conversation) -> str:
    return shown(results.Tree("talk", made))


def shown(result: results.Result) -> str:
    out = io.StringIO()
    Screen(Console(file=out, width=80)).result(result)
    return out.getvalue()


def in_picker(made: Conversation) -> str:
    def previewed() -> str:
        return "\n".join("".join(part[1] for part in line) for line in rows.preview(0, 60, 20))

    async def rest() -> str:
        rows.on_select(0)
        for _ in range(1000):
            if "\n" in (text := previewed()):
                break
            await asyncio.sleep(0.01)
        return text

    rows = SessionRows([Summary("talk", 1, "Hello?")], session_actions(lambda _: made))
    return asyncio.run(rest())


def in_tree_picker(made: Conversation) -> str:
    rows = TreeRows(made, lambda _: 0, {}, lambda *_: None)
    return "".join(part[1] for part in rows.line(1, 60))


@pytest.mark.parametrize("place", [in_reminder, in_tree, in_tree_picker])
def test_of_a_long_reply_the_mark_is_shown_though_the_words_are_not(
    place: Callable[[Conversation], str],
) -> None:
    shown = place(talk("So many words. " * 400, "cancelled"))
    assert 1 == shown.count("(stopped)") and "…" in shown


@pytest.mark.parametrize("place", [in_transcript, in_tree, in_picker, in_tree_picker])
@pytest.mark.parametrize(
    ("finish_reason", "with_words", "without"),
    [("cancelled", "Hi (stopped)", "(stopped)"), ("length", "Hi (cut)", "(cut)"), ("stop", "Hi", "(empty)")],
)
def test_the_same_turn_is_called_the_same_everywhere(
    place: Callable[[Conversation], str], finish_reason: str, with_words: str, without: str
) -> None:
    lines = [place(talk(text, finish_reason)).splitlines()[-1] for text in ("Hi", "")]
    told = [line.replace("◀ here", "").strip(" ●") for line in lines]
    assert [with_words, without] == told
    # What stands for the words stands where they would.
    assert lines[0].index("Hi") == lines[1].index("(")
