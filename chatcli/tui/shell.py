"""The interactive shell: a prompt that stays, and turns and commands behind it.

Everything here runs on the prompt's own thread, except turns and commands, which run one after the other on
another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application, get_app, run_in_terminal
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.margins import ConditionalMargin, ScrollbarMargin
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style

from chatcli.commands import handlers, mentions, registry, results
from chatcli.conversation.images import Image
from chatcli.errors import ChatcliError
from chatcli.events import Event, Notice, TurnDone
from chatcli.session.live_chat import LiveChat
from chatcli.text import shorten
from chatcli.tui import pager, queue, toolbar
from chatcli.tui.composer import composer, escape
from chatcli.tui.composer.composer import Composer
from chatcli.tui.composer.history import SessionHistory
from chatcli.tui.composer.paste import is_long
from chatcli.tui.live_region import LiveRegion
from chatcli.tui.queue import Submission, SubmissionQueue
from chatcli.tui.render.screen import Screen
from chatcli.tui.terminal import clipboard

# Seconds without a key after which the text in the box is prefilled: the shortest that does not slow typing.
# At ten keys a second, with pocket on two busy cores, the p95 of a key's echo is 81 ms with 1 s, 75 ms with
# 0.3 s, 156 ms with 0.15 s, 136 ms at the end of each word; in other runs 66 ms with 0.2 s, 52 ms with 0.3 s.
TYPEAHEAD_DELAY = 0.3
# Seconds in which a second Ctrl-C leaves, and a second Esc clears the box or opens the tree.
LEAVE_SECONDS, DOUBLE_ESCAPE_SECONDS = 2.0, 1.0
# Rows that the live region leaves to the gap below it, the box, the toolbar and the printed text above.
ROWS_BESIDE_LIVE = 7
MENU_ROWS = 8
STYLE = {
    **composer.STYLE,
    **toolbar.STYLE,
    **queue.STYLE,
    "completion-menu": "bg:default default",
    "completion-menu.completion": "bg:default ansicyan",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "bg:default ansibrightblack",
    "completion-menu.meta.completion.current": "bg:default ansibrightblack",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "bg:ansibrightblack",
}


@dataclass(frozen=True)
class Failed:
    """A job that failed for a `reason`, or was stopped (None). Its message, if any, comes back to the box."""

    reason: str | None = None
    message: Submission | None = None


def _has_begun(event: Event) -> bool:
    """False for the end of a turn that was stopped before anything came of its reply."""
    return not (
        isinstance(event, TurnDone)
        and event.record.finish_reason == "cancelled"
        and not event.record.generated_tokens
    )


# The outcome of a job: a result to show, or None for a turn.
Outcome = results.Result | Failed | None


class Shell:
    """A conversation in a terminal until the person leaves."""

    def __init__(
        self,
        chat: LiveChat,
        screen: Screen,
        live_region: LiveRegion,
        history: SessionHistory,
        editor: str | None = None,
    ) -> None:
        """`screen` prints to `live_region`; `editor` is the editor's command line."""
        self._chat = chat
        self._screen = screen
        self._live_region = live_region
        self._history = history
        self._queue = SubmissionQueue()
        self._meter = toolbar.TokenMeter()
        # Jobs are turns and commands. Full-screen lists keep the shell busy, too.
        self._scheduler = chat.background.scheduler
        self._job: Future[Outcome] | None = None
        self._busy = False
        # Whether the job is a reply: it may take minutes, so read-only commands do not wait for it.
        self._replying = False
        # Held while something has the whole screen.
        self._whole_screen = asyncio.Lock()
        self._cancelled = threading.Event()
        self._error: BaseException | None = None
        self._typeahead_timer: asyncio.TimerHandle | None = None
        # When Ctrl-C and Esc were pressed last while nothing ran.
        self._interrupted_at = self._escaped_at = 0.0
        # Commands that a stop has taken out of the queue; they are reported when the stopped job has ended.
        self._not_sent: list[Submission] = []
        # Whether /private was sent and has not been run yet.
        self._going_private = False
        # The text that came back to the box because it was stopped, until it is changed.
        self._stopped_text: str | None = None
        self._composer = Composer(
            on_accept=self._accept,
            on_change=self._text_changed,
            on_escape=self._escape,
            on_clear=self._cancel_edit,
            notify=self._notify,
            history=history,
            pastes=history.pastes,
            complete_command=partial(registry.completions, chat),
            editor=editor,
            is_private=lambda: self._chat.session.log.is_private,
            in_terminal=live_region.in_terminal,
        )
        live_region.live = self._live_text
        self._app = self._application()

    def _application(self) -> Application[None]:
        """From top to bottom: the live region, the queue, the box with its menu, the toolbar."""
        output = create_output()
        # Its answer, the prompt's row, is not used.
        output.enable_cpr = False  # type: ignore[attr-defined]
        is_streaming = Condition(lambda: self._screen.reply.active)
        is_waiting = Condition(lambda: bool(self._queue))
        waiting = Window(
            FormattedTextControl(lambda: self._queue.fragments(output.get_size().columns)),
            dont_extend_height=True,
        )
        menu = CompletionsMenu(MENU_ROWS, scroll_offset=1, extra_filter=has_focus(self._composer.buffer))

        def choices() -> int:
            state = self._composer.buffer.complete_state
            return len(state.completions) if state else 0

        menu.content.height = lambda: min(choices(), MENU_ROWS)  # type: ignore[attr-defined]
        # If all choices are shown, a scrollbar says nothing.
        scrollbar = ConditionalMargin(ScrollbarMargin(), Condition(lambda: choices() > MENU_ROWS))
        menu.content.right_margins = [scrollbar]  # type: ignore[attr-defined]
        below = HSplit(
            [
                ConditionalContainer(Window(height=1), is_streaming),
                ConditionalContainer(waiting, is_waiting),
                self._composer.container,
                menu,
                Window(FormattedTextControl(self._toolbar_text), height=1, style="class:toolbar"),
            ]
        )
        is_running = Condition(lambda: not self._app.is_done)
        root = HSplit([self._live_region.container, ConditionalContainer(below, is_running)])
        app: Application[None] = Application(
            Layout(root, self._composer.window),
            Style.from_dict(STYLE),
            key_bindings=self._keys(),
            output=output,
            refresh_interval=0.2,
        )
        escape.make_final(app)
        return app

    def _keys(self) -> KeyBindings:
        """The shell's keys, beside those of the box."""
        keys = KeyBindings()
        is_empty = Condition(lambda: self._composer.is_empty)
        can_take_back = is_empty & Condition(lambda: bool(self._queue)) & has_focus(self._composer.buffer)
        # Before the box's own binding, which goes to the history.
        for key in ("up", "c-p"):
            keys.add(key, filter=can_take_back, eager=True)(
                lambda _: self._composer.set_text(self._queue.pop().text)
            )
        keys.add("c-c")(lambda _: self._interrupt())
        keys.add("<sigint>")(lambda _: self._interrupt())
        keys.add("c-d", filter=is_empty)(lambda _: self._leave())
        keys.add("c-t")(lambda _: self._show_thinking())
        keys.add("c-l")(lambda event: event.app.renderer.clear())
        keys.add("c-z")(lambda _: self._suspend())
        return keys

    def run(self, first_message: str = "") -> None:
        """Run the conversation; `first_message` is sent at once. Raises `ModelError` without a model."""
        session = self._chat.session
        if not session.log.has_begun:
            self._screen.welcome(
                self._chat.model.name,
                session.title if session.log.is_private else session.name,
                session.folder.count(),
                session.folder.folder,
                private=session.log.is_private,
            )
        else:
            self._print(results.Opened(session.title, session.conversation, self._chat.notes()))
        try:
            with self._live_region.attached(self._app) as start_drawing:
                self._app.run(pre_run=lambda: self._started(start_drawing, first_message))
        finally:
            self._cancelled.set()
            if self._job is not None:
                wait([self._job])
        if self._job is not None:
            # It ended after the person left: `_job_ended` has not been called.
            self._error = self._error or self._job.exception()
            if self._error is None and isinstance(outcome := self._job.result(), Failed):
                self._show_failure(outcome)
        if self._error is not None:
            raise self._error
        self._not_sent += self._queue.pop_all()
        self._print_not_sent()
        if (name := session.name) is not None:
            self._screen.goodbye(session.folder.command("resume", name))

    def _started(self, start_drawing: Callable[[], None], first_message: str) -> None:
        start_drawing()
        loop = asyncio.get_running_loop()

        def fail(error: Exception) -> None:
            with contextlib.suppress(RuntimeError):  # the person has left meanwhile
                loop.call_soon_threadsafe(self._fail, error)

        self._chat.model.on_failure(fail)
        # As when the person leaves, a partial reply is kept and the terminal is restored.
        loop.add_signal_handler(signal.SIGTERM, self._leave)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        # After the first drawing, which comes next: importing MLX would delay it.
        loop.call_soon(self._prepare_reply)
        if first_message:
            try:
                self._accept(first_message)
            except ChatcliError as error:
                self._screen.error(str(error))
                self._composer.set_text(first_message)

    def _prepare_reply(self) -> None:
        """Begin to load the model, and import what draws a reply. Then begin with what waits."""
        self._chat.model.load()
        self._scheduler.submit(self._screen.reply.prepare)
        self._next()

    # A message or a command, from Enter to its end

    def _accept(self, text: str) -> None:
        """Enter was pressed.

        Raises `UsageError` if a file that is named cannot be attached, for a shell's command, and for a wrong
        argument of a command that would be shown at once.
        """
        display_text = self._composer.with_labels(text)
        text = handlers.as_command(self._chat, text, in_terminal=True)
        is_command = registry.is_command(text)
        self._going_private |= text.split() == ["/private"]
        if self._replying and registry.is_read_only(text):
            registry.check(text)
            self._app.create_background_task(self._look_up(text))
            return
        expanded = (
            mentions.ExpandedMessage(text)
            if is_command
            else mentions.expand(text, Path.cwd(), self._composer.paste_texts)
        )
        self._queue.append(Submission(text, expanded.text, display_text, is_command, expanded.images))
        self._next()

    @property
    def is_private(self) -> bool:
        """Whether what was sent last is a private conversation's, or comes after a /private that waits."""
        return self._going_private or self._chat.session.log.is_private

    def _notify(self, text: str) -> None:
        """Show a sentence, but not in the middle of a reply."""
        if self._busy:
            self._composer.notice = text
        else:
            self._screen.print(f"{text}\n", "yellow")

    def _next(self) -> None:
        """Begin with the oldest submission, or with background work if none waits."""
        if self._busy or self._whole_screen.locked() or self._app.is_done:
            return
        if not self._queue:
            self._idle()
            return
        submission = self._queue.pop(0)
        images = () if submission.is_command else (*self._chat.session.images, *submission.images)
        self._screen.message("\n".join([*(str(image.picture) for image in images), submission.display_text]))
        self._start_job(lambda: self._execute(submission), submission)

    def _start_job(self, work: Callable[[], Outcome], submission: Submission | None = None) -> None:
        """Run `work` on the jobs' thread, where nothing else runs now.

        If it fails or is stopped, a message comes back to the box. A command does not, as in other shells.
        """
        self._busy, self._cancelled, self._interrupted_at = True, threading.Event(), 0.0
        self._replying = submission is None or not submission.is_command
        self._chat.model.cancel_on(self._cancelled)
        self._meter.reset()
        self._cancel_typeahead_timer()
        loop = asyncio.get_running_loop()

        def run() -> Outcome:
            try:
                return work()
            except ChatcliError as error:
                reason = str(error)
            except KeyboardInterrupt:
                reason = None
            return Failed(reason, None if submission is not None and submission.is_command else submission)

        def ended(job: Future[Outcome]) -> None:
            with contextlib.suppress(RuntimeError):  # the person has left meanwhile: see `run`
                loop.call_soon_threadsafe(self._job_ended, job)

        self._job = self._scheduler.submit(run)
        self._job.add_done_callback(ended)

    def _execute(self, submission: Submission) -> Outcome:
        if submission.is_command:
            self._cancel_edit()
            if submission.hit is not None:
                return handlers.go_to_hit(self._chat, submission.hit)
            return registry.run(self._chat, submission.text)
        text, title = submission.expanded_text, submission.text
        head = self._chat.session.head
        turn = self._chat.take(text, self._cancelled, title=title, images=submission.images)
        # If it is closed before its end, its images wait for the next message.
        with contextlib.closing(turn):
            if self._stream(turn):
                return None
        # There is no reply yet: the conversation is as it was, and the message comes back to the box.
        self._chat.session.move_head(head)
        return Failed(None, submission)

    def _stream(self, events: Iterator[Event]) -> bool:
        """Show events as they come. Returns False at the end of a reply that was stopped before it began."""
        self._screen.reply.begin(lambda: self._chat.background.activity if self._chat.model.loading else "")
        event: Event | None = None
        for event in events:
            if not _has_begun(event):
                return False
            self._meter.event(event)
            self._screen.event(event)
            self._live_region.invalidate()
        if isinstance(event, Notice):
            self._screen.print("")  # a line between it and the prompt, as below a reply
        return True

    def _job_ended(self, job: Future[Outcome]) -> None:
        self._job, self._busy, self._replying = None, False, False
        if (error := job.exception()) is not None:
            self._fail(error)
            return
        outcome = job.result()
        if isinstance(outcome, Failed):
            self._show_failure(outcome)
            self._bring_back(outcome.message)
            self._stopped_text = self._composer.text if outcome.reason is None else None
        elif outcome is not None:
            self._show(outcome)
        self._print_not_sent()
        # After a stop nothing is computed until the person continues.
        if not (isinstance(outcome, Failed) and outcome.reason is None):
            self._next()

    def _show_failure(self, failed: Failed) -> None:
        self._screen.abandon()
        if failed.reason is None:
            self._screen.print("Stopped.\n", "dim")
        else:
            self._screen.error(failed.reason)

    def _show(self, result: results.Result) -> None:
        """Act on a command's result, or print it."""
        if isinstance(result, results.Quit):
            self._leave()
        elif isinstance(result, results.Stream):
            events = result.events

            def stream() -> Outcome:
                with contextlib.closing(events(self._cancelled)) as turn:
                    return None if self._stream(turn) else Failed()

            self._start_job(stream)
        elif isinstance(result, results.Tree):
            self._run_full_screen(self._choose_entry())
        elif isinstance(result, results.Search):
            self._run_full_screen(self._choose_hit(result))
        elif isinstance(result, results.Listing):
            self._run_full_screen(self._choose_session())
        elif isinstance(result, results.ClipboardText):
            way = clipboard.copy(result.text, os.environ, self._app.output.write_raw)
            self._screen.result(replace(result, way=way))
        else:
            if isinstance(result, results.EditableMessage):
                self._composer.set_text(result.text)
            self._print(result)

    def _print(self, result: results.Result) -> None:
        """Print a result; long pastes in a conversation are labels, as they were when they were sent."""
        if isinstance(result, results.Opened | results.HeadMoved):
            conversation = result.conversation
            folded = {
                entry.id: replace(
                    entry, message=replace(message, content=self._history.labelled(message.content))
                )
                for entry in conversation.path()
                if (message := entry.message).role == "user" and is_long(message.content)
            }
            entries = {**conversation.entries, **folded}
            result = replace(result, conversation=replace(conversation, entries=entries))
        self._screen.result(result)

    def _idle(self) -> None:
        """Settle and type ahead: nothing runs and nothing waits."""
        self._going_private = False
        self._chat.settle_behind(self._app.invalidate)
        self._text_changed(self._composer.text, False)

    # Typing

    def _text_changed(self, text: str, at_once: bool) -> None:
        """Prefill the text in the box when the person pauses, and at once after a paste."""
        self._interrupted_at = self._escaped_at = 0.0
        self._cancel_typeahead_timer()
        if not self._busy and not self._app.is_done:
            delay = 0.0 if at_once else TYPEAHEAD_DELAY
            self._typeahead_timer = asyncio.get_running_loop().call_later(delay, self._type_ahead, text)

    def _cancel_typeahead_timer(self) -> None:
        if self._typeahead_timer is not None:
            self._typeahead_timer.cancel()

    def _type_ahead(self, text: str) -> None:
        # A text that was stopped is not prefilled again until it is changed.
        if self._busy or text == self._stopped_text:
            return
        self._stopped_text = None
        pastes, folder = list(self._composer.paste_texts), Path.cwd()

        def expand() -> tuple[str, Sequence[Image]]:
            expanded = mentions.expand(text, folder, pastes)
            return expanded.text, expanded.images

        self._chat.type_ahead("" if registry.is_command(text) else text, self._app.invalidate, expand)

    # Stopping and leaving: nothing is lost, and nothing starts by itself

    def _interrupt(self) -> None:
        """Stop the job and the background work. If nothing runs, the second time leaves."""
        self._scheduler.halt()
        if self._busy:
            self._stop()
        elif time.monotonic() - self._interrupted_at < LEAVE_SECONDS:
            self._leave()
        elif not self._cancel_edit():
            self._interrupted_at = time.monotonic()

    def _escape(self) -> None:
        """Stop the job, else cancel an edit; else the second time clears the box or opens the tree."""
        is_second = time.monotonic() - self._escaped_at < DOUBLE_ESCAPE_SECONDS
        if is_second or self._chat.background.catching_up:
            self._scheduler.halt()
        if self._busy:
            self._stop()
        elif self._chat.session.editing is not None:
            self._composer.clear(keep=True)
            self._cancel_edit()  # the box may have been empty already
        elif not is_second:
            self._escaped_at = time.monotonic()
        elif self._composer.is_empty:
            self._escaped_at = 0.0
            self._accept("/tree")
        else:
            self._composer.clear(keep=True)

    def _stop(self) -> None:
        self._cancelled.set()
        self._bring_back()

    def _bring_back(self, failed: Submission | None = None) -> None:
        """Put the failed message, the queue and the box's own text into the box, in this order."""
        submissions = [failed] if failed is not None else []
        submissions += self._queue.pop_all()
        if submissions:
            text, left_out = queue.join_for_box(submissions, self._composer.text)
            self._composer.set_text(text)
            self._not_sent += [submission for submission in left_out if submission is not failed]
        if not self._busy:
            self._print_not_sent()

    def _print_not_sent(self) -> None:
        submissions, self._not_sent = self._not_sent, []
        for submission in submissions:
            self._screen.print(f"not sent: {shorten(submission.display_text, 60)}", "yellow")

    def _cancel_edit(self) -> bool:
        """Cancel an edit. Returns whether there was one."""
        was_editing = self._chat.session.cancel_edit()
        if was_editing:
            self._screen.print("Edit cancelled.\n", "dim")
            if not self._busy:
                self._chat.settle_behind(self._app.invalidate)
        return was_editing

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._leave()

    def _leave(self) -> None:
        self._cancelled.set()
        if not self._app.is_done:
            self._app.exit()

    def _suspend(self) -> None:
        """For Ctrl-Z and SIGTSTP: give the terminal back and stop; draw again when the process continues."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.remove_signal_handler(signal.SIGTSTP)
            os.kill(0, signal.SIGTSTP)
            loop.add_signal_handler(signal.SIGTSTP, self._suspend)

        if get_app() is self._app and self._live_region.suspended:
            stop()  # the terminal is the editor's
        else:
            run_in_terminal(stop)

    # The whole screen

    def _run_full_screen(self, dialog: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            try:
                await self._on_whole_screen(dialog)
            except ChatcliError as error:
                self._screen.error(str(error))
            finally:
                self._busy = False
                self._next()

        self._busy = True
        self._app.create_background_task(run())

    async def _on_whole_screen(self, dialog: Coroutine[Any, Any, None]) -> None:
        """One at a time; text that is printed meanwhile comes after it."""
        async with self._whole_screen:
            # Until then this application may still take the rest of its last key from the terminal.
            await asyncio.sleep(2 * escape.ESCAPE_DELAY)
            async with self._live_region.in_terminal():
                await dialog

    async def _look_up(self, line: str) -> None:
        """Run a read-only command beside a reply, and show its result on the whole screen."""

        def look_up() -> results.Result | None:
            try:
                result = registry.run(self._chat, line)
                return result.find(result.query) if isinstance(result, results.Search) else result
            except ChatcliError as error:
                return results.PlainText(str(error))
            except KeyboardInterrupt:
                return None

        result = await asyncio.to_thread(look_up)
        if result is not None:
            await self._on_whole_screen(
                pager.result_pager(lambda width: self._screen.drawn(result, width)).app.run_async()
            )
            self._next()

    async def _choose_entry(self) -> None:
        from chatcli.tui.pickers.tree import choose_entry

        session = self._chat.session
        entry_id = await choose_entry(
            session.conversation,
            self._chat.prefill_cost,
            session.conversation.labels,
            session.log.set_label,
        )
        if entry_id is not None:
            text = await asyncio.to_thread(session.go_to, entry_id)
            opened = results.Opened(session.title, session.conversation)
            self._show(results.EditableMessage(text) if text else opened)

    async def _choose_session(self) -> None:
        from chatcli.tui.pickers.sessions import SessionActions, choose_session

        folder = self._chat.session.folder
        name = await choose_session(folder.summaries(), SessionActions.on(folder))
        if name is not None:
            command = f"/resume {name}"
            self._queue.insert(0, Submission(command, command, command, is_command=True))

    async def _choose_hit(self, search: results.Search) -> None:
        from chatcli.tui.pickers.search import choose_hit

        hit = await choose_hit(search.query, search.find)
        if hit is not None:
            command = f"/resume {hit.session}"
            self._queue.insert(0, Submission(command, command, command, is_command=True, hit=hit))

    def _show_thinking(self) -> None:
        """Open or close the thinking of the streaming reply; between replies, show the whole conversation."""
        if self._busy:
            self._screen.reply.opened = not self._screen.reply.opened
        elif self._chat.session.log.has_begun:
            self._run_full_screen(pager.transcript(self._chat.session.conversation).app.run_async())

    # Drawing

    def _live_text(self) -> str:
        rows = self._app.output.get_size().rows
        return self._screen.live(max(rows - ROWS_BESIDE_LIVE - self._queue.rows, 1))

    def _toolbar_text(self) -> FormattedText:
        if time.monotonic() - self._interrupted_at < LEAVE_SECONDS:
            return FormattedText([("", f"{composer.INDENT}Press Ctrl-C again to leave.")])
        if not self._composer.is_empty and time.monotonic() - self._escaped_at < DOUBLE_ESCAPE_SECONDS:
            return FormattedText([("", f"{composer.INDENT}Press Esc again to clear.")])
        # While it settles too: only then is the reply's size without its thinking known.
        tokens = self._meter.tokens if self._busy or self._chat.background.settling else None
        return toolbar.text(self._chat, self._busy, tokens, self._app.output.get_size().columns)
