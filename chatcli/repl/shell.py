"""The interactive shell: keys, completion, toolbar, Ctrl-C; refuses to know rich and MLX."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from chatcli.errors import ChatcliError
from chatcli.plain import clean_line
from chatcli.repl import registry
from chatcli.repl.display import Screen, model_label
from chatcli.repl.results import Opened, Quit, Result
from chatcli.repl.script import stop_on_interrupt
from chatcli.repl.state import State
from chatcli.store.sessions import recovered

# Seconds without a key after which what is typed is drafted; characters at once that are a paste.
PAUSE = 0.3
PASTED = 40
STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "bottom-toolbar": "noreverse ansibrightblack",
        "bottom-toolbar.name": "noreverse ansicyan",
        "placeholder": "ansibrightblack",
        "completion-menu": "bg:default default",
        "completion-menu.completion": "bg:default ansicyan",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "bg:default ansibrightblack",
        "completion-menu.meta.completion.current": "bg:default ansibrightblack",
    }
)


class CommandCompleter(Completer):
    """Completes slash commands and their arguments from the registry."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if line.startswith("/") and "\n" not in line:
            for text, start, help_ in registry.completions(self._state, line):
                yield Completion(text, start, display_meta=help_)


class Shell:
    """Reads lines and runs them until the person leaves."""

    def __init__(self, state: State, screen: Screen, history: Path | None) -> None:
        self._state = state
        self._screen = screen
        self._failed: ChatcliError | None = None
        self._draft_soon: asyncio.TimerHandle | None = None
        self._typed = 0
        self._prompt: PromptSession[str] = PromptSession(
            message=[("class:prompt", "› ")],
            prompt_continuation=[("", "  ")],
            multiline=True,
            style=STYLE,
            history=_history(history),
            key_bindings=_keys(),
            completer=CommandCompleter(state),
            complete_while_typing=True,
            bottom_toolbar=self._toolbar,
            placeholder=_placeholder,
            refresh_interval=0.5,
            reserve_space_for_menu=6,
        )
        self._prompt.default_buffer.on_text_changed += self._on_text

    def run(self) -> None:
        """The whole conversation. Raises `ModelError` if the model cannot be loaded."""
        self._greet()
        self._state.on_failure(self._leave_prompt)
        self._state.settle_behind(self._redraw)
        while (line := self._read()) is not None:
            if self._run(line):
                break
            self._state.settle_behind(self._redraw)
        if self._failed is not None:
            raise self._failed
        self._screen.goodbye(self._state.name)

    def _greet(self) -> None:
        state = self._state
        self._screen.welcome(state.model, state.name, state.folder.count())
        if state.session is not None:
            notes = list(recovered(state.session.transcript))
            self._screen.result(Opened(state.session.name, state.conversation, notes))

    def _read(self) -> str | None:
        """The next line that is not empty, or None to leave."""
        asked_to_leave = False
        while self._failed is None:
            try:
                with patch_stdout(raw=True):
                    line = self._prompt.prompt()
                asked_to_leave = False
            except EOFError:
                return None
            except KeyboardInterrupt:
                if asked_to_leave:
                    return None
                asked_to_leave = True
                self._screen.say("Ctrl-C again, or Ctrl-D, to leave.", "dim")
                continue
            if line.strip():
                return line
        return None

    def _on_text(self, buffer: Buffer) -> None:
        """Draft what is in the box when the person pauses, and at once after a paste."""
        if self._draft_soon is not None:
            self._draft_soon.cancel()
        app, text = self._prompt.app, buffer.text
        pasted = len(text) - self._typed > PASTED
        self._typed = len(text)
        if app.loop is not None and app.is_running:
            delay = 0.0 if pasted else PAUSE
            self._draft_soon = app.loop.call_later(delay, self._draft, text)

    def _draft(self, text: str) -> None:
        message = "" if registry.is_command(text) else text
        self._state.draft_behind(message, self._redraw)

    def _run(self, line: str) -> bool:
        """Run a command or a turn; True to leave. A person's mistake costs one line of text."""
        try:
            if registry.is_command(line):
                return self._show(registry.run(self._state, line))
            self._take(line)
        except ChatcliError as error:
            self._screen.abandon()
            self._screen.error(str(error))
        except KeyboardInterrupt:
            self._screen.abandon()
            self._screen.say("Stopped.", "dim")
        return False

    def _show(self, result: Result) -> bool:
        if isinstance(result, Quit):
            return True
        self._screen.result(result)
        return False

    def _take(self, line: str) -> None:
        with stop_on_interrupt() as cancelled:
            if self._state.loading:
                self._screen.say(f"Loading {model_label(self._state.model)}…", "dim")
            for event in self._state.take(line, cancelled):
                self._screen.event(event)

    def _toolbar(self) -> FormattedText:
        state = self._state
        name = clean_line(state.name or "new conversation")
        parts = [("class:bottom-toolbar.name", f" {name} "), ("", f"· {model_label(state.model)}")]
        if state.activity:
            parts.append(("", f" · {state.activity}"))
        return FormattedText(parts)

    def _redraw(self) -> None:
        self._prompt.app.invalidate()

    def _leave_prompt(self, error: ChatcliError) -> None:
        self._failed = error
        app = self._prompt.app
        if app.is_running and app.loop is not None:
            app.loop.call_soon_threadsafe(lambda: app.exit(exception=EOFError))


def _placeholder() -> FormattedText:
    """What an empty line shows while it waits, and not once it is left."""
    text = "" if get_app().is_done else "Say something, or / for commands"
    return FormattedText([("class:placeholder", text)])


def _history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return LineHistory(str(path))


class LineHistory(FileHistory):
    """Lines that cannot be kept, as on a full disk, are remembered until the end only."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    for combination in (("escape", "enter"), ("c-j",)):
        keys.add(*combination)(new_line)

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    return keys
