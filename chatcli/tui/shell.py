"""The interactive shell: one prompt that stays, and turns behind it; refuses to know rich and MLX.

Everything here runs on the prompt's own thread but the turns and commands, which run one after
the other on another.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.styles import Style

from chatcli.commands import handlers, mentions, registry, results
from chatcli.errors import ChatcliError
from chatcli.events import Event, Notice
from chatcli.session.live_chat import LiveChat
from chatcli.store.sessions.folder import recovered
from chatcli.text import shorten
from chatcli.tui import queue as waiting
from chatcli.tui import toolbar
from chatcli.tui.composer import composer, escape
from chatcli.tui.composer.completion import CommandCompleter
from chatcli.tui.composer.composer import Composer
from chatcli.tui.live_region import LiveRegion
from chatcli.tui.pager import show_transcript
from chatcli.tui.pickers.sessions import SessionActions, choose_session
from chatcli.tui.pickers.tree import choose_entry
from chatcli.tui.queue import Sent, Unsent, Waiting
from chatcli.tui.render.screen import Screen
from chatcli.tui.terminal import clipboard

# Seconds without a key after which what is typed is drafted, and in which a second Ctrl-C leaves.
PAUSE = 0.3
AGAIN = 2.0
# Seconds in which a second Esc opens the tree.
TWICE = 0.5
# Rows that the live part leaves to the line below it, the box, the toolbar and what was said before.
ROWS_LEFT = 7
MENU_ROWS = 8
STYLE = {
    **composer.STYLE,
    **toolbar.STYLE,
    **waiting.STYLE,
    "completion-menu": "bg:default default",
    "completion-menu.completion": "bg:default ansicyan",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "bg:default ansibrightblack",
    "completion-menu.meta.completion.current": "bg:default ansibrightblack",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "bg:ansibrightblack",
}
Outcome = results.Result | Unsent | None
Work = Callable[[], Outcome]


class Shell:
    """A conversation in a terminal until the person leaves."""

    def __init__(
        self,
        chat: LiveChat,
        screen: Screen,
        stage: LiveRegion,
        history: History,
        editor: str | None = None,
    ) -> None:
        self._chat = chat
        self._screen = screen
        self._stage = stage
        self._jobs = ThreadPoolExecutor(1, "chatcli-turn")
        self._cancelled = threading.Event()
        self._busy = False
        self._waiting = Waiting()
        self._meter = toolbar.TokenMeter()
        self._job: Future[Outcome] | None = None
        self._failed: BaseException | None = None
        self._draft_soon: asyncio.TimerHandle | None = None
        self._leaving = self._escaped = 0.0
        self._composer = Composer(
            on_accept=self._accept,
            on_change=self._typed,
            on_escape=self._escape,
            on_clear=self._call_off,
            notify=lambda text: screen.print(text, "yellow"),
            history=history,
            count_tokens=chat.model.count_tokens,
            completer=CommandCompleter(chat),
            editor=editor,
            in_terminal=stage.in_terminal,
        )
        stage.live = self._live
        self._app = self._application(create_output())

    def _application(self, output: Output) -> Application[None]:
        # The answer would tell how far down the prompt is, which nothing here asks.
        output.enable_cpr = False  # type: ignore[attr-defined]
        shown = Condition(lambda: not self._app.is_done)
        menu = CompletionsMenu(MENU_ROWS, scroll_offset=1, extra_filter=has_focus(self._composer.buffer))
        menu.content.height = self._menu_rows  # type: ignore[attr-defined]
        bar = Window(FormattedTextControl(self._toolbar), height=1, style="class:toolbar")
        streaming = Condition(lambda: self._screen.reply.active)
        gap = ConditionalContainer(Window(height=1), streaming)
        queue = Window(FormattedTextControl(self._queue), dont_extend_height=True)
        waits = ConditionalContainer(queue, Condition(lambda: bool(self._waiting)))
        below = HSplit([gap, waits, self._composer.container, menu, bar])
        app: Application[None] = Application(
            Layout(
                HSplit([self._stage.container, ConditionalContainer(below, shown)]), self._composer.window
            ),
            Style.from_dict(STYLE),
            key_bindings=self._keys(),
            output=output,
            refresh_interval=0.2,
        )
        escape.is_final(app)
        return app

    def _menu_rows(self) -> int:
        state = self._composer.buffer.complete_state
        return min(len(state.completions), MENU_ROWS) if state else 0

    def run(self) -> None:
        """The whole conversation. Raises `ModelError` if the model cannot be loaded."""
        self._greet()
        try:
            with self._stage.attached(self._app) as begun:
                self._app.run(pre_run=lambda: self._begun(begun))
        finally:
            self._cancelled.set()
            self._jobs.shutdown()
        if self._failed is None and self._job is not None:
            # What ended after the person left was told to nobody.
            self._failed = self._job.exception()
        if self._failed is not None:
            raise self._failed
        self._not_sent(self._waiting.all())
        self._screen.goodbye(self._chat.session.name)

    def _greet(self) -> None:
        session = self._chat.session
        self._screen.welcome(self._chat.model.name, session.name, session.folder.count())
        if session.file is not None:
            notes = list(recovered(session.file.transcript))
            self._screen.result(results.Opened(session.file.name, session.conversation, notes))

    def _begun(self, begun: Callable[[], None]) -> None:
        begun()
        loop = asyncio.get_running_loop()

        def fail(error: Exception) -> None:
            with contextlib.suppress(RuntimeError):  # the person has left meanwhile
                loop.call_soon_threadsafe(self._fail, error)

        self._chat.model.on_failure(fail)
        # What came of a reply is kept then too, and the terminal is as it was.
        loop.add_signal_handler(signal.SIGTERM, self._leave)
        self._rest()

    # A message or a command, from Enter to its end

    def _accept(self, text: str) -> None:
        """Enter was pressed. Raises `UsageError` if a file that is named cannot be attached."""
        text = handlers.as_command(self._chat, text)
        is_command = registry.is_command(text)
        sent = mentions.ExpandedMessage(text) if is_command else self._expanded(text)
        shown = self._composer.with_labels(text)
        self._waiting.add(Sent(text, sent.text, shown, is_command, sent.images))
        self._next()

    def _expanded(self, text: str) -> mentions.ExpandedMessage:
        return mentions.expand(text, Path.cwd(), self._composer.paste_texts)

    def _begin(self, work: Work, line: Sent | None = None) -> None:
        """Run something on the turns' thread, now that nothing else runs there."""
        self._busy, self._cancelled, self._leaving = True, threading.Event(), 0.0
        self._chat.model.cancel_on(self._cancelled)
        self._meter.reset()
        self._stop_drafting()
        loop = asyncio.get_running_loop()

        def back(done: Future[Outcome]) -> None:
            with contextlib.suppress(RuntimeError):  # the person has left meanwhile: see `run`
                loop.call_soon_threadsafe(self._ended, done)

        self._job = self._jobs.submit(self._guarded, work, line)
        self._job.add_done_callback(back)

    def _guarded(self, work: Work, line: Sent | None) -> Outcome:
        """A person's mistake costs one line of text: a message comes back to the box.

        A command does not, as in every shell: what is typed next may be another one.
        """
        try:
            return work()
        except ChatcliError as error:
            self._screen.abandon()
            self._screen.error(str(error))
        except KeyboardInterrupt:
            self._screen.abandon()
            self._screen.print("Stopped.\n", "dim")
        return Unsent(None if line is not None and line.is_command else line)

    def _command_or_turn(self, line: Sent) -> Outcome:
        if line.is_command:
            self._call_off()
            return registry.run(self._chat, line.text)
        self._stream(self._chat.take(line.whole, self._cancelled, title=line.text, images=line.images))
        return None

    def _stream(self, events: Iterator[Event]) -> None:
        self._screen.reply.begin(lambda: self._chat.background.activity if self._chat.model.loading else "")
        event: Event | None = None
        for event in events:
            self._meter.event(event)
            self._screen.event(event)
            self._stage.wake()
        if isinstance(event, Notice):
            self._screen.print("")  # a line between it and the prompt, as below a reply

    def _ended(self, done: Future[Outcome]) -> None:
        self._busy = False
        if (surprise := done.exception()) is not None:
            self._fail(surprise)
        else:
            self._came(done.result())
            self._next()

    def _came(self, outcome: Outcome) -> None:
        if isinstance(outcome, Unsent):
            self._bring_back(outcome.line)
        elif outcome is not None:
            self._show(outcome)

    def _next(self) -> None:
        """The next message that waits, or what can be done while none does."""
        if self._busy or self._app.is_done:
            return
        if self._waiting:
            line = self._waiting.next()
            said = () if line.is_command else (*self._chat.session.images, *line.images)
            self._screen.message("\n".join([*(str(one.picture) for one in said), line.shown]))
            self._begin(lambda: self._command_or_turn(line), line)
        else:
            self._rest()

    def _rest(self) -> None:
        self._chat.settle_behind(self._app.invalidate)
        self._typed(self._composer.text, False)

    def _show(self, result: results.Result) -> None:
        """What a command returned. What needs the whole screen gets it."""
        if isinstance(result, results.Quit):
            self._leave()
        elif isinstance(result, results.Stream):
            self._begin(lambda: self._stream(result.events(self._cancelled)))
        elif isinstance(result, results.Tree):
            self._apart(self._choose_entry())
        elif isinstance(result, results.Listing):
            self._apart(self._choose_session())
        else:
            if isinstance(result, results.ClipboardText):
                clipboard.copy(result.text, self._app.output.write_raw)
            if isinstance(result, results.EditableMessage):
                self._composer.set_text(result.text)
            self._screen.result(result)

    # What waits comes back: nothing is lost, and nothing starts by itself

    def _stop(self) -> None:
        """Stop what runs, and take back what waits for it."""
        self._cancelled.set()
        self._bring_back()

    def _bring_back(self, failed: Sent | None = None) -> None:
        """What failed, what waits and what is being written, into the box in this order."""
        lines = [failed] if failed is not None else []
        lines += self._waiting.all()
        if lines:
            text, left_out = waiting.together(lines, self._composer.text)
            self._composer.set_text(text)
            self._not_sent(line for line in left_out if line is not failed)

    def _not_sent(self, lines: Iterable[Sent]) -> None:
        for line in lines:
            self._screen.print(f"not sent: {shorten(line.shown, 60)}", "yellow")

    def _take_back(self) -> None:
        self._composer.set_text(self._waiting.newest().text)

    def _fail(self, error: BaseException) -> None:
        self._failed = error
        self._leave()

    def _leave(self) -> None:
        self._cancelled.set()
        if not self._app.is_done:
            self._app.exit()

    # What needs the whole screen

    def _apart(self, showing: Coroutine[Any, Any, None]) -> None:
        self._busy = True
        self._app.create_background_task(self._away(showing))

    async def _away(self, showing: Coroutine[Any, Any, None]) -> None:
        # Until then this application may still take the rest of its last key from the terminal.
        await asyncio.sleep(2 * escape.ESCAPE_DELAY)
        try:
            async with self._stage.in_terminal():
                await showing
        except ChatcliError as error:
            self._screen.error(str(error))
        finally:
            self._busy = False
            self._next()

    async def _choose_entry(self) -> None:
        session = self._chat.session
        assert session.file is not None
        chosen = await choose_entry(
            session.conversation,
            self._chat.prefill_cost,
            session.conversation.labels,
            session.file.set_label,
        )
        if chosen is not None:
            text = await asyncio.to_thread(session.go_to, chosen.entry_id)
            opened = results.Opened(str(session.name), session.conversation)
            self._show(results.EditableMessage(text) if text else opened)

    async def _choose_session(self) -> None:
        folder = self._chat.session.folder
        chosen = await choose_session(folder.summaries(), SessionActions.on(folder))
        if chosen is not None:
            line = f"/resume {chosen}"
            self._waiting.add(Sent(line, line, line, is_command=True), first=True)

    # Typing

    def _typed(self, text: str, at_once: bool) -> None:
        """Draft what is in the box when the person pauses, and at once after a paste."""
        self._stop_drafting()
        if not self._busy and not self._app.is_done:
            delay = 0.0 if at_once else PAUSE
            loop = asyncio.get_running_loop()
            self._draft_soon = loop.call_later(delay, self._draft, text)

    def _stop_drafting(self) -> None:
        if self._draft_soon is not None:
            self._draft_soon.cancel()

    def _draft(self, text: str) -> None:
        if self._busy:
            return
        try:
            sent = mentions.ExpandedMessage("") if registry.is_command(text) else self._expanded(text)
        except ChatcliError:
            sent = mentions.ExpandedMessage("")  # sending it will say why
        self._chat.type_ahead(sent.text, self._app.invalidate, sent.images)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        empty = Condition(lambda: self._composer.is_empty)
        waits = Condition(lambda: bool(self._waiting)) & has_focus(self._composer.buffer)
        # Before the box's own: it would go to the history.
        for key in ("up", "c-p"):
            keys.add(key, filter=empty & waits, eager=True)(lambda _: self._take_back())
        keys.add("c-c")(lambda _: self._interrupt())
        keys.add("<sigint>")(lambda _: self._interrupt())
        keys.add("c-d", filter=empty)(lambda _: self._leave())
        keys.add("c-t")(lambda _: self._thinking())
        keys.add("c-l")(lambda event: event.app.renderer.clear())
        keys.add("c-z")(lambda event: event.app.suspend_to_background())
        return keys

    def _escape(self) -> None:
        """Stop the reply; without one, open the tree at the second time."""
        if self._busy:
            self._stop()
        elif self._composer.is_empty:
            twice = time.monotonic() - self._escaped < TWICE
            self._escaped = 0.0 if twice else time.monotonic()
            if twice:
                self._accept("/tree")

    def _call_off(self) -> bool:
        """Leave a message that was being changed as it is. Returns whether there was one."""
        called_off = self._chat.session.cancel_edit()
        if called_off:
            self._screen.print("Called off: the conversation is as it was.\n", "dim")
            if not self._busy:
                self._chat.settle_behind(self._app.invalidate)
        return called_off

    def _interrupt(self) -> None:
        """Stop the reply; without one, leave at the second time."""
        if self._busy:
            self._stop()
        elif time.monotonic() - self._leaving < AGAIN:
            self._leave()
        elif not self._call_off():
            self._leaving = time.monotonic()

    def _thinking(self) -> None:
        """Open or close the thinking of a reply that is coming; else show all that there was."""
        if self._busy:
            self._screen.reply.opened = not self._screen.reply.opened
        elif self._chat.session.file is not None:
            self._apart(show_transcript(self._chat.session.conversation))

    # What is drawn

    def _live(self) -> str:
        taken = ROWS_LEFT + self._waiting.rows
        return self._screen.live(max(self._app.output.get_size().rows - taken, 1))

    def _queue(self) -> FormattedText:
        return FormattedText(self._waiting.drawn(self._app.output.get_size().columns))

    def _toolbar(self) -> FormattedText:
        if time.monotonic() - self._leaving < AGAIN:
            return FormattedText([("", f"{composer.INDENT}Ctrl-C again, or Ctrl-D, to leave.")])
        columns = self._app.output.get_size().columns
        # Only then it is known what the reply takes without its thinking.
        running = self._meter.tokens if self._busy or self._chat.background.settling else None
        return toolbar.text(self._chat, self._busy, running, columns)
