"""Stopped and cut-off replies: what the chat says about them, and that the named command works."""

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
STOPPED_EMPTY = "(stopped before the first word: /regenerate answers it)"
STOPPED_UNCHANGED = "(stopped before the first new word: the reply is as it was)"


def screen_lines(events: Iterator[Event], context: int | None = None) -> list[str]:
    """The lines that a chat shows for a turn."""
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80), "off", context=lambda: context)
    screen.reply.begin(str)
    for event in events:
        screen.event(event)
    return [line.strip() for line in out.getvalue().splitlines() if line.strip()]


class TerminalOutput(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def pipe_output(events: Iterator[Event], context: int | None = None) -> tuple[str, str]:
    """A turn's standard output in a pipe, and the last line of standard error on a terminal."""
    out, err = io.StringIO(), TerminalOutput()
    pipe = Pipe(out, err, lambda: context)
    for event in events:
        pipe.event(event)
    return out.getvalue(), err.getvalue().rstrip("\n").rpartition("\n")[2]


def stop_at(events: Iterator[Event], count: int, stop: threading.Event) -> Iterator[Event]:
    """The events; `stop` is set at number `count`."""
    for number, event in enumerate(events, start=1):
        if number == count:
            stop.set()
        yield event


# Stopped


def test_a_turn_stopped_in_its_prefill_is_answered_by_regenerate(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        stop = threading.Event()
        lines = screen_lines(stop_at(turn.take(chat, " ".join(MESSAGES) * 20, stop), 2, stop))
        assert [STOPPED_EMPTY] == lines
        with pytest.raises(NothingToRepeat, match=r"never began: /regenerate answers"):
            list(regenerate.continue_reply(chat, threading.Event()))
        assert finish(regenerate.regenerate(chat, threading.Event())).tokens
        (answered,) = chat.conversation.turns()
        assert answered.reply is not None and "length" == answered.reply.finish_reason


def test_a_stop_before_the_first_new_token_leaves_the_reply_and_says_so(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        harness.say(chat, MESSAGES[0])
        before = chat.conversation.head
        assert STOPPED_UNCHANGED == screen_lines(regenerate.regenerate(chat, STOPPED))[-1]
        assert STOPPED_UNCHANGED == screen_lines(regenerate.continue_reply(chat, STOPPED))[-1]
        assert before == chat.conversation.head


def test_a_stopped_reply_is_kept_and_says_so(models: Path, tmp_path: Path) -> None:
    with Harness(models / "speaker", tmp_path, tokens=400) as harness:
        chat = harness.chat("talk")
        stop = threading.Event()
        lines = screen_lines(stop_at(turn.take(chat, SHORT_MESSAGE, stop), 9, stop))
        assert "(stopped: the text so far is kept, /continue for more)" == lines[-1]
        assert len(finish(regenerate.continue_reply(chat, threading.Event())).tokens) > 10


def test_a_refusal_to_continue_names_its_reason(model: Path, tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(NothingToRepeat) as caught:
            list(regenerate.continue_reply(chat, threading.Event()))
        return str(caught.value)

    with Harness(model, tmp_path) as harness:
        chat = harness.chat("talk")
        assert "say something first" in refusal()
        user = turn.append(chat, SHORT_MESSAGE, (), chat.conversation.head)
        assert "never began: /regenerate answers" in refusal()
        chat.session.append(Message("assistant", "Yes, bu"), user.id, finish_reason="cancelled")
        assert "tokens were not saved: /regenerate writes another" in refusal()
        chat.session.append(Message("assistant", "Yes."), user.id, finish_reason="stop")
        assert "is complete; nothing to continue" in refusal()


# Cut


def test_a_cut_reply_names_its_length_and_the_command_to_continue(model: Path, tmp_path: Path) -> None:
    with Harness(model, tmp_path, tokens=12) as harness:
        chat = harness.chat("talk")
        assert "(cut at 12 tokens: /continue for more)" == screen_lines(take(chat, SHORT_MESSAGE))[-1]
        continued = regenerate.continue_reply(chat, threading.Event())
        assert "(cut at 24 tokens: /continue for more)" == screen_lines(continued)[-1]
        one_token = replace(chat, sampling=Sampling(max_tokens=1))
        assert "(cut at 1 token: /continue for more)" == screen_lines(take(one_token, SHORT_MESSAGE))[-1]


def take(chat: turn.TurnContext, text: str) -> Iterator[Event]:
    return turn.take(chat, text, threading.Event())


@pytest.mark.slow
def test_a_reply_cut_by_the_context_offers_no_continue(models: Path, tmp_path: Path) -> None:
    with Harness(models / "hermit", tmp_path, tokens=4000) as harness:
        chat = harness.chat("talk")
        context = chat.checkpoints.loaded.context
        events = list(take(chat, "word " * (context // 6)))
        tokens = len(finish(iter(events)).tokens)
        assert 0 < tokens < 4000
        with pytest.raises(ContextFull):
            list(regenerate.continue_reply(chat, threading.Event()))
    assert f"(cut at {tokens:,} tokens: the context is full)" == screen_lines(iter(events), context)[-1]
    cut = f"chatcli: The reply was cut at {tokens:,} tokens: the model's context is full."
    assert cut == pipe_output(iter(events), context)[1]


@pytest.mark.slow
def test_a_reply_cut_by_memory_has_one_notice(models: Path, tmp_path: Path) -> None:
    model = models / "speaker"
    max_bytes = needed_bytes(model, tmp_path / "measured", SHORT_MESSAGE, cache=False)
    with Harness(model, tmp_path, tokens=600, cache=False, memory_limit=max_bytes) as harness:
        chat = harness.chat("talk")
        events = list(take(chat, SHORT_MESSAGE))
        assert "length" == finish(iter(events)).finish_reason
    lines = screen_lines(iter(events))
    (index,) = [index for index, line in enumerate(lines) if "cut" in line]
    assert lines[index].startswith("! The reply was cut because the memory is full")
    # The notice stands below the reply.
    assert len(lines) - 1 == index > 1
    assert pipe_output(iter(events))[1].startswith("chatcli: The reply was cut because the memory")


@pytest.mark.slow
def test_ask_explains_a_cut_on_a_terminal_only(models: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, models / "speaker")
    args = ("-n", "12", "--no-think", "--temp", "0", "-m", program.model)
    with open_shell(program, "ask", "hello", *args) as terminal:
        assert 0 == terminal.wait_for_exit()
        output = " ".join(terminal.all_text().split())
    assert "cut at 12 tokens: -n allows more, and /continue in a chat continues it." in output
    piped = program.run("ask", "hello", *args)
    assert piped.text.strip() in output and "" == piped.errors


# The marks in lists, trees and transcripts


def conversation_with(text: str, finish_reason: str) -> Conversation:
    conversation = Conversation("2026-01-01")
    conversation.add(Entry("u", None, Message("user", "Hello?"), 1.0))
    conversation.add(Entry("a", "u", Message("assistant", text), 2.0, finish_reason))
    return conversation


def in_transcript(conversation: Conversation) -> str:
    return shown(results.Transcript("talk", conversation))


def in_reminder(conversation: Conversation) -> str:
    return shown(results.Opened("talk", conversation))


def in_tree(conversation: Conversation) -> str:
    return shown(results.Tree("talk", conversation))


def in_pipe(conversation: Conversation) -> str:
    out = io.StringIO()
    Pipe(out).result(results.Transcript("talk", conversation))
    return out.getvalue()


def shown(result: results.Result) -> str:
    out = io.StringIO()
    Screen(Console(file=out, width=80, height=24)).result(result)
    return out.getvalue()


def in_picker(conversation: Conversation) -> str:
    def preview_text() -> str:
        return "\n".join("".join(part[1] for part in line) for line in rows.preview(0, 60, 20))

    async def preview_of_first() -> str:
        rows.on_select(0)
        for _ in range(1000):
            if "\n" in (text := preview_text()):
                break
            await asyncio.sleep(0.01)
        return text

    rows = SessionRows([Summary("talk", 1, "Hello?")], session_actions(lambda _: conversation))
    return asyncio.run(preview_of_first())


def in_tree_picker(conversation: Conversation) -> str:
    rows = TreeRows(conversation, lambda _: 0, {}, lambda *_: None)
    # Without what going there would prefill, at the end of the row.
    return "".join(part[1] for part in rows.line(1, 60)).removesuffix("0")


@pytest.mark.parametrize(
    ("place", "mark"),
    [
        (in_reminder, "(stopped: the text so far is kept"),
        (in_tree, "(stopped)"),
        (in_tree_picker, "(stopped)"),
    ],
)
def test_the_mark_is_shown_where_a_long_reply_is_shortened(
    place: Callable[[Conversation], str], mark: str
) -> None:
    output = place(conversation_with("So many words. " * 400, "cancelled"))
    assert 1 == output.count(mark) and "…" in output


@pytest.mark.parametrize(
    ("finish_reason", "text", "note"),
    [
        ("cancelled", "Hi", "(stopped: the text so far is kept, /continue for more)"),
        ("cancelled", "", "(stopped before the first word: /regenerate answers it)"),
        ("length", "Hi", "(cut: /continue for more)"),
        ("stop", "Hi", "Hi"),
    ],
)
def test_an_opened_conversation_ends_with_what_the_chat_said_below_it(
    finish_reason: str, text: str, note: str
) -> None:
    assert f"  {note}" == in_reminder(conversation_with(text, finish_reason)).splitlines()[-1]


@pytest.mark.parametrize("place", [in_transcript, in_picker])
@pytest.mark.parametrize(
    ("finish_reason", "with_words", "without"),
    [
        ("cancelled", ["  Hi", "  (stopped)"], "  (stopped)"),
        ("length", ["  Hi", "  (cut)"], "  (cut)"),
        ("stop", ["  Hi"], "  (empty)"),
    ],
)
def test_the_mark_stands_below_the_reply(
    place: Callable[[Conversation], str], finish_reason: str, with_words: list[str], without: str
) -> None:
    lines = [place(conversation_with(text, finish_reason)).splitlines() for text in ("Hi", "")]
    assert with_words == lines[0][-len(with_words) :]
    assert without == lines[1][-1]


def test_in_a_pipe_the_mark_stands_below_the_reply_too() -> None:
    assert "1 › Hello?\n\nHi\n\n(stopped)\n" == in_pipe(conversation_with("Hi", "cancelled"))
    assert "1 › Hello?\n\nHi\n" == in_pipe(conversation_with("Hi", "stop"))


@pytest.mark.parametrize("place", [in_tree, in_tree_picker])
@pytest.mark.parametrize(
    ("finish_reason", "with_words", "without"),
    [("cancelled", "Hi (stopped)", "(stopped)"), ("length", "Hi (cut)", "(cut)"), ("stop", "Hi", "(empty)")],
)
def test_the_mark_of_a_turn_is_the_same_everywhere(
    place: Callable[[Conversation], str], finish_reason: str, with_words: str, without: str
) -> None:
    lines = [place(conversation_with(text, finish_reason)).splitlines()[-1] for text in ("Hi", "")]
    marks = [line.replace("◀ here", "").strip(" ●") for line in lines]
    assert [with_words, without] == marks
    # The mark of an empty reply stands where its text would.
    assert lines[0].index("Hi") == lines[1].index("(")
