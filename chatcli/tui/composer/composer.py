"""The input box: a prompt_toolkit buffer with chips, completion and its keys."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import wcwidth
from prompt_toolkit.application import get_app
from prompt_toolkit.application.run_in_terminal import in_terminal as default_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    ThreadedCompleter,
    get_common_complete_suffix,
)
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_selection, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.key_binding.bindings.search import abort_search, accept_search
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, ConditionalContainer, Dimension, HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.processors import (
    AfterInput,
    ConditionalProcessor,
    HighlightIncrementalSearchProcessor,
    HighlightSelectionProcessor,
    Processor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.widgets import SearchToolbar

from chatcli.commands import mentions
from chatcli.errors import ChatcliError, UsageError
from chatcli.text import clean, shorten
from chatcli.tui.composer import escape
from chatcli.tui.composer.completion import CompleteCommand, MessageCompleter
from chatcli.tui.composer.editor import edited
from chatcli.tui.composer.paste import (
    Pastes,
    has_open_quotes,
    is_chip,
    is_long,
    normalized,
    unquoted,
    without_chips,
)
from chatcli.tui.composer.rows import MAX_WRAPPED_CHARS, LineWrapper
from chatcli.tui.text.fit import is_portable, portable, wrapped

PROMPT, INDENT = "› ", "  "
# The text of an empty box: the first that fits.
PRIVATE_PLACEHOLDERS = (
    "Say something in private: nothing of it is written to disk",
    "Say something in private",
)
PLACEHOLDERS = ("Say something, or / for commands", "Say something, or /", "Say something")
# The most rows of the box in a low terminal; in others it is a third of the screen.
MIN_MAX_ROWS = 3
# Shift, Alt and Ctrl with Enter, in terminals that tell them from Enter (CSI u, modifyOtherKeys).
MODIFIERS = (2, 3, 5, 6)
MODIFIED_ENTER = [f"\x1b[13;{n}u" for n in MODIFIERS] + [f"\x1b[27;{n};13~" for n in MODIFIERS]
STYLE = {
    "composer.prompt": "ansicyan bold",
    "composer.private": "ansimagenta bold",
    "composer.chip": "ansicyan",
    "composer.note": "ansibrightblack",
    "composer.notice": "ansiyellow",
    "composer.placeholder": "ansibrightblack",
    "search-toolbar": "nobold ansibrightblack",
    "search-toolbar.text": "ansidefault",
}


class Composer:
    """A box for one message at a time. `container` is for a layout, `window` is what takes the focus.

    `on_accept` gets the text that is sent; if it raises a `ChatcliError`, that is shown and the text stays.
    `on_change` gets the text that Enter would send now, and whether it came at once (a paste, an editor).
    `on_escape` is called at Esc, unless that closes a menu, `on_clear` when the text was cleared.
    `notify` shows a sentence. `history` has the chips of `pastes`. `complete_command` completes a line that
    begins with a slash. `folder` is where relative `@path` names start, `editor` a command line or None,
    `in_terminal` is that of prompt_toolkit. While it `is_private`, the
    prompt shows it, and no text goes to the editor's file.
    """

    def __init__(
        self,
        *,
        on_accept: Callable[[str], None],
        on_change: Callable[[str, bool], None],
        on_escape: Callable[[], None],
        on_clear: Callable[[], object],
        notify: Callable[[str], None],
        history: History,
        pastes: Pastes | None = None,
        complete_command: CompleteCommand = lambda _: (),
        folder: Path | None = None,
        editor: str | None = None,
        is_private: Callable[[], bool] = lambda: False,
        in_terminal: Callable[[], AbstractAsyncContextManager[None]] = default_in_terminal,
    ) -> None:
        self._on_accept = on_accept
        self._on_change = on_change
        self._on_escape = on_escape
        self._on_clear = on_clear
        self._notify = notify
        self._history = history
        self._folder = folder or Path()
        self._editor, self._is_private = editor, is_private
        self._in_terminal = in_terminal
        self._pastes = pastes or Pastes()
        self._wrapper = LineWrapper(self._pastes.label)
        self._changes_at_once = False
        # A sentence below the text, until that changes.
        self.notice = ""
        completer = ThreadedCompleter(MessageCompleter(complete_command, self._folder))
        self.buffer = MessageBuffer(self.send, history, completer)
        self.buffer.on_text_changed += lambda _: self._changed()
        search = SearchToolbar(
            backward_search_prompt="search back: ",
            forward_search_prompt="search: ",
            ignore_case=True,
        )
        search.control.key_bindings = _search_keys(search.search_buffer)
        placeholder = Condition(lambda: not self.buffer.text and not get_app().is_done) & ~is_searching
        control = BufferControl(
            self.buffer,
            input_processors=[
                HighlightIncrementalSearchProcessor(),
                HighlightSelectionProcessor(),
                WrapProcessor(self._wrapper),
                ConditionalProcessor(
                    AfterInput(self._placeholder, "class:composer.placeholder"), placeholder
                ),
            ],
            include_default_input_processors=False,
            search_buffer_control=search.control,
            preview_search=True,
            key_bindings=_keys(self),
        )
        self.window = Window(
            control,
            height=lambda: Dimension(min=1, max=max(get_app().output.get_size().rows // 3, MIN_MAX_ROWS)),
            get_line_prefix=lambda line, wrapped: [("", INDENT) if line or wrapped else self._prompt()],
            wrap_lines=True,
            dont_extend_height=True,
        )
        note = ConditionalContainer(
            Window(FormattedTextControl(self._note_lines), dont_extend_height=True),
            Condition(lambda: bool(self._note()) and not get_app().is_done),
        )
        self.container = HSplit([self.window, note, search])
        ANSI_SEQUENCES.update(dict.fromkeys(MODIFIED_ENTER, Keys.ControlJ))

    def _prompt(self) -> tuple[str, str]:
        return f"class:composer.{'private' if self._is_private() else 'prompt'}", PROMPT

    def _placeholder(self) -> str:
        """What an empty box says, as much of it as fits on its row."""
        room = get_app().output.get_size().columns - len(PROMPT)
        texts = PRIVATE_PLACEHOLDERS if self._is_private() else PLACEHOLDERS
        return next((text for text in texts if len(text) < room), "")

    def _changed(self) -> None:
        self.notice = ""
        self._on_change(self.text, self._changes_at_once)

    # Its text

    @property
    def text(self) -> str:
        """The text that Enter would send: pastes in full, without triple quotes."""
        return self._pastes.unfold(unquoted(self.buffer.text))

    @property
    def display_text(self) -> str:
        """The text as the box shows it, each chip as its label."""
        return self._pastes.labelled(self.buffer.text)

    def with_labels(self, text: str) -> str:
        """A sent text with labels in place of the long pastes that are whole in it."""
        return self._pastes.labelled(self._pastes.fold_again(text))

    @property
    def paste_texts(self) -> list[str]:
        """The long pastes so far. A name after `@` in them attaches nothing."""
        return self._pastes.texts()

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    def set_text(self, text: str, *, at_once: bool = False) -> None:
        """Put `text` into the box, with the pastes that it had as chips again. Can be undone."""
        folded = self._pastes.fold_again(normalized(text))
        self.buffer.save_to_undo_stack()
        with self._changing(at_once):
            self.buffer.document = Document(folded)

    @contextmanager
    def _changing(self, at_once: bool) -> Iterator[None]:
        """While this lasts, `on_change` gets `at_once`."""
        self._changes_at_once = at_once
        try:
            yield
        finally:
            self._changes_at_once = False

    def _note(self) -> str:
        """The line below the text: a notice, how to close quotes, or the sizes of the files it names."""
        if self.notice:
            return self.notice
        if has_open_quotes(self.buffer.text):
            return 'Enter makes a new line; """ and Enter sends'
        return mentions.sizes(without_chips(self.buffer.text, " "), self._folder)

    def _note_lines(self) -> StyleAndTextTuples:
        width = get_app().output.get_size().columns - len(INDENT) - 1
        if self.notice:
            lines = wrapped(clean(self.notice), max(width, 1))
            return [("class:composer.notice", "\n".join(INDENT + line for line in lines))]
        return [("class:composer.note", INDENT + shorten(portable(self._note()), width))]

    # Keys

    def send(self) -> None:
        """Hand over the text and empty the box, unless it is refused or there is nothing in it."""
        text, document = self.text, self.buffer.document
        folded = unquoted(document.text)
        self.notice = ""
        if not text.strip():
            return
        self.buffer.reset()
        try:
            self._on_accept(text)
        except ChatcliError as error:
            self.buffer.reset(document)
            self._notify(str(error))
            return
        self._remember(folded)

    def _remember(self, text: str) -> None:
        if text.strip() and self._history.get_strings()[-1:] != [text]:
            self._history.append_string(text)

    def clear(self, *, keep: bool = False) -> None:
        """Empty the box and go back to the newest end of the history. Can be undone.

        `keep` adds the text to the history.
        """
        if not self.is_empty:
            if keep:
                self._remember(unquoted(self.buffer.text))
            self.buffer.reset(self.buffer.document)
            self.buffer.save_to_undo_stack()
            self.buffer.document = Document()
            self._on_clear()

    def escape(self) -> None:
        """Close the open menu; without one, call `on_escape`."""
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
        else:
            self._on_escape()

    def paste(self, data: str) -> None:
        """Insert a paste of the terminal, as a chip if it is long."""
        text = normalized(data)
        with self._changing(at_once=True):
            if is_long(text):
                self.buffer.insert_chip(self._pastes.fold(text, self.buffer.text))
            else:
                self.buffer.insert_text(text)

    def toggle_chip(self) -> None:
        """Fold the paste at the cursor again; else open the chip that is nearest; without one, fold all."""
        text, cursor = self.buffer.text, self.buffer.cursor_position
        chips = [i for i, character in enumerate(text) if self._pastes.label(character)]
        if (place := self._pastes.whole_at(text, cursor)) is not None:
            start, end, chip = place
            toggled = Document(text[:start] + chip + text[end:], start + 1)
        elif chips:
            nearest = min(chips, key=lambda i: min(abs(cursor - i), abs(cursor - i - 1)))
            before = text[:nearest] + self._pastes.text(text[nearest])
            toggled = Document(before + text[nearest + 1 :], len(before))
        else:
            toggled = Document(self._pastes.fold_again(text))
        if toggled.text != text:
            self.buffer.save_to_undo_stack()
            self.buffer.document = toggled

    def up_or_down(self, step: int) -> None:
        """Go to the completion, the row of the text or the entry of the history above (-1) or below (1)."""
        if self.buffer.complete_state or not self._move_row(step):
            (self.buffer.auto_up if step < 0 else self.buffer.auto_down)()

    def _move_row(self, step: int) -> bool:
        """Move the cursor by a row. Returns False if the text ends there."""
        info, document = self.window.render_info, self.buffer.document
        width = info.window_width - len(INDENT) if info else MAX_WRAPPED_CHARS
        cursor = document.cursor_position_row, document.cursor_position_col
        moved = self._wrapper.move(document.lines, cursor, step, self.buffer.preferred_column, width)
        if moved is None:
            return False
        line, offset, column = moved
        self.buffer.cursor_position = document.translate_row_col_to_index(line, offset)
        self.buffer.preferred_column = column
        return True

    async def edit(self) -> None:
        """Open the text in the person's editor. If that fails, the box keeps it."""
        if not (editor := self._editor):
            self._notify("No editor is set: export EDITOR=nano, then start chatcli again.")
            return
        if self._is_private():
            self._notify("An editor would write this private message to a file.")
            return
        try:
            async with self._in_terminal():
                # Only now: another editor may have been open until here, and have changed it.
                text = self._pastes.unfold(self.buffer.text)
                text = await asyncio.get_running_loop().run_in_executor(None, edited, text, editor)
        except UsageError as error:
            self._notify(f"{error} Your message is unchanged.")
        else:
            self.set_text(text, at_once=True)


class MessageBuffer(Buffer):
    """A buffer whose Enter calls `send`, and into which no chip can be typed.

    Up and Down go to the entries of the history that begin with the typed text.
    """

    def __init__(self, send: Callable[[], None], history: History, completer: Completer) -> None:
        super().__init__(
            completer=completer, history=history, complete_while_typing=True, enable_history_search=True
        )
        self._send = send

    def validate_and_handle(self) -> None:
        self._send()

    def insert_text(
        self,
        data: str,
        overwrite: bool = False,
        move_cursor: bool = True,
        fire_event: bool = True,
    ) -> None:
        super().insert_text(without_chips(data), overwrite, move_cursor, fire_event)

    def insert_chip(self, chip: str) -> None:
        super().insert_text(chip)

    def complete(self) -> None:
        """Go to the next completion. Insert the only one, or the beginning that all have in common."""
        state = self.complete_state
        if state is not None and len(state.completions) > 1:
            self.complete_next()
            return
        event = CompleteEvent(completion_requested=True)
        completions = list(self.completer.get_completions(self.document, event))
        if len(completions) == 1:
            self.apply_completion(completions[0])
            self.accept_completion()
        elif common := get_common_complete_suffix(self.document, completions):
            self.insert_text(common)
        else:
            self.start_completion()

    def accept_completion(self) -> None:
        """Close the menu; a folder's, and that of a command's argument, opens at once."""
        self.complete_state = None
        is_command = self.text.startswith("/")
        if self.document.char_before_cursor == "/" or (is_command and self.text.endswith(" ")):
            self.start_completion()

    @property
    def has_chosen_completion(self) -> bool:
        """Whether a selected completion has changed the text."""
        state = self.complete_state
        return bool(state and state.current_completion and self.text != state.original_document.text)


class WrapProcessor(Processor):
    """Draws chips as their labels, and breaks lines between words (a window breaks anywhere)."""

    def __init__(self, wrapper: LineWrapper) -> None:
        self._wrapper = wrapper

    def apply_transformation(self, given: TransformationInput) -> Transformation:
        text = "".join(fragment[1] for fragment in given.fragments)
        width = given.width - len(INDENT)
        needs_no_wrap = len(text) > MAX_WRAPPED_CHARS or wcwidth.width(text) <= width
        if needs_no_wrap and text.isprintable() and is_portable(text):
            return Transformation(given.fragments)
        fragments: StyleAndTextTuples = []
        # For each character, the offset of what is drawn for it.
        offsets = [0]
        for (style, character, *_), (blanks, drawn) in zip(
            explode_text_fragments(given.fragments), self._wrapper.wrap(text, width).cells, strict=True
        ):
            chip = " class:composer.chip" if is_chip(character) else ""
            fragments += [("", " " * blanks), (style + chip, drawn)]
            offsets[-1] += blanks
            offsets.append(offsets[-1] + len(drawn))
        last = len(offsets) - 1
        return Transformation(
            fragments, lambda i: offsets[min(i, last)], lambda i: max(bisect_right(offsets, i) - 1, 0)
        )


def _keys(composer: Composer) -> KeyBindings:
    """The keys while the box has the focus."""
    keys = KeyBindings()
    has_text = Condition(lambda: not composer.is_empty)
    escape.add_keys(keys, has_text, composer.escape)

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = composer.buffer
        if buffer.has_chosen_completion:
            buffer.accept_completion()
            # A command that takes an argument has a space behind it.
            if buffer.text.startswith("/") and not any(map(str.isspace, buffer.text)):
                composer.send()
        elif has_open_quotes(buffer.text):
            buffer.insert_text("\n")
        elif buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            composer.send()

    keys.add("c-j")(lambda _: composer.buffer.insert_text("\n"))
    keys.add("escape", "enter", eager=True)(lambda _: composer.buffer.insert_text("\n"))
    keys.add("tab")(lambda _: composer.buffer.complete())
    for key, step in {"up": -1, "c-p": -1, "down": 1, "c-n": 1}.items():
        keys.add(key)(lambda _, step=step: composer.up_or_down(step))
    keys.add(Keys.BracketedPaste)(lambda event: composer.paste(event.data))
    keys.add("c-o")(lambda _: composer.toggle_chip())
    keys.add("c-c", filter=has_text)(lambda _: composer.clear())
    keys.add("c-d", filter=has_text)(get_by_name("delete-char"))

    @keys.add("c-g", filter=~has_selection)
    @keys.add("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(composer.edit())

    return keys


def _search_keys(search_buffer: Buffer) -> KeyBindings:
    """The keys while the history is searched, so that the shell's own do not act there."""
    keys = KeyBindings()
    # Accepting an empty search would repeat the last one.
    has_text = Condition(lambda: bool(search_buffer.text))
    for key in ("enter", "escape"):
        keys.add(key, filter=has_text)(accept_search)
        keys.add(key, filter=~has_text)(abort_search)
    for key in ("c-c", "c-g"):
        keys.add(key)(abort_search)
    keys.add("c-d")(get_by_name("delete-char"))
    return keys
