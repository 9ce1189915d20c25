"""The box in which a message is written: keys, pastes, completion; refuses to know what is sent where."""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from pathlib import Path

from prompt_toolkit.application import get_app
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    DummyCompleter,
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
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

from chatcli.commands import mentions
from chatcli.errors import ChatcliError, UsageError
from chatcli.text import shorten
from chatcli.tui.composer import escape
from chatcli.tui.composer.completion import MessageCompleter
from chatcli.tui.composer.editor import edited
from chatcli.tui.composer.paste import (
    Pastes,
    blanked,
    is_long,
    is_open,
    is_sign,
    unquoted,
    with_line_breaks,
    without_signs,
)
from chatcli.tui.composer.rows import LONGEST, Rows
from chatcli.tui.text.fit import is_steady, steady

PROMPT, INDENT = "› ", "  "
PLACEHOLDERS = ("Say something, or / for commands", "Say something, or /", "Say something")
# The least rows that the box may grow to, in a low terminal.
LEAST_ROWS = 3
# Shift-Enter and Ctrl-Enter, where a terminal tells them from Enter (CSI u, modifyOtherKeys).
HELD = (2, 3, 5, 6)
LINE_BREAKS = [f"\x1b[13;{n}u" for n in HELD] + [f"\x1b[27;{n};13~" for n in HELD]
STYLE = {
    "composer.prompt": "ansicyan bold",
    "composer.chip": "ansicyan",
    "composer.note": "ansibrightblack",
    "composer.placeholder": "ansibrightblack",
    "search-toolbar": "nobold ansibrightblack",
    "search-toolbar.text": "ansidefault",
}


class Composer:
    """A box for one message at a time.

    `on_accept` gets what is sent; a `ChatcliError` of it is said and the text stays. `on_change`
    gets what Enter would send now, and whether it came at once (a paste, an editor). `on_escape`
    is called at Esc, unless that closes a menu, `on_clear` when the text was thrown away. `tokens`
    counts a text, on a thread of its own; None while it cannot. `say` shows one line to the person.
    `folder` is where relative `@path` names start, `editor` a command line or None.
    """

    def __init__(
        self,
        *,
        on_accept: Callable[[str], None],
        on_change: Callable[[str, bool], None],
        on_escape: Callable[[], None],
        on_clear: Callable[[], object],
        say: Callable[[str], None],
        history: History,
        tokens: Callable[[str], int | None],
        completer: Completer | None = None,
        folder: Path | None = None,
        editor: str | None = None,
        away: Callable[[], AbstractAsyncContextManager[None]] = in_terminal,
    ) -> None:
        self._on_accept = on_accept
        self._on_change = on_change
        self._on_escape = on_escape
        self._on_clear = on_clear
        self._say = say
        self._history = history
        self._folder = folder or Path()
        self._editor = editor
        self._away = away
        self._pastes = Pastes()
        self._at_once = False
        sizes = mentions.Sizes(tokens)
        # A window asks several times while the screen is drawn once.
        self._named = lru_cache(1)(lambda text, _: sizes.line(text, self._folder, get_app().invalidate))
        self.buffer = Box(self.send, history, MessageCompleter(completer or DummyCompleter(), self._folder))
        self.buffer.on_text_changed += self._changed
        search = SearchToolbar(
            backward_search_prompt="search back: ",
            forward_search_prompt="search: ",
            ignore_case=True,
        )
        search.control.key_bindings = _search_keys(search.search_buffer)
        self._rows = Rows(self._pastes.label)
        self.window = _window(self.buffer, Shown(self._rows), _keys(self), search)
        self.container = HSplit([self.window, _note_line(self._note), search])
        ANSI_SEQUENCES.update(dict.fromkeys(LINE_BREAKS, Keys.ControlJ))

    @property
    def text(self) -> str:
        """What Enter would send: pastes in full, without triple quotes."""
        return self._pastes.unfold(unquoted(self.buffer.text))

    @property
    def shown(self) -> str:
        """The text as the box has it, each chip as its label."""
        return self._pastes.labelled(self.buffer.text)

    def shortened(self, text: str) -> str:
        """A sent text with the labels of the long pastes that are whole in it."""
        return self._pastes.labelled(self._pastes.fold_again(text))

    @property
    def pastes(self) -> list[str]:
        """The long pastes so far, in which a name after `@` attaches nothing."""
        return self._pastes.texts()

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    def set_text(self, text: str, *, at_once: bool = False) -> None:
        """Put `text` into the box, with the pastes that it had as chips again. Can be undone."""
        folded = self._pastes.fold_again(without_signs(with_line_breaks(text)))
        self.buffer.save_to_undo_stack()
        with self._arriving(at_once):
            self.buffer.document = Document(folded)

    def clear(self) -> None:
        """Empty the box and go back to the newest end of the history. Can be undone."""
        if not self.is_empty:
            self.buffer.reset(self.buffer.document)
            self.buffer.save_to_undo_stack()
            self.buffer.document = Document()
            self._on_clear()

    def send(self) -> None:
        """Hand over the text and empty the box, unless it is refused or there is nothing in it."""
        text, before = self.text, self.buffer.document
        if not text.strip():
            return
        self.buffer.reset()
        try:
            self._on_accept(text)
        except ChatcliError as error:
            self.buffer.reset(before)
            self._say(str(error))
        else:
            self._remember(text)

    def _remember(self, text: str) -> None:
        if self._history.get_strings()[-1:] != [text]:
            self._history.append_string(text)

    def escape(self) -> None:
        """Close the open menu; without one, Esc is for somebody else."""
        if self.buffer.complete_state is not None:
            self.buffer.cancel_completion()
        else:
            self._on_escape()

    def _changed(self, _: Buffer) -> None:
        self._on_change(self.text, self._at_once)

    @contextlib.contextmanager
    def _arriving(self, at_once: bool = True) -> Iterator[None]:
        """Changes within came all at once."""
        self._at_once = at_once
        try:
            yield
        finally:
            self._at_once = False

    def paste(self, data: str) -> None:
        """What a terminal pastes: a chip if it is long."""
        text = without_signs(with_line_breaks(data))
        with self._arriving():
            if is_long(text):
                self.buffer.insert_sign(self._pastes.fold(text, self.buffer.text))
            else:
                self.buffer.insert_text(text)

    def expand_chip(self) -> None:
        """Put the text of the chip at the cursor, or else of the nearest one, in its place."""
        text, cursor = self.buffer.text, self.buffer.cursor_position
        places = [i for i, sign in enumerate(text) if self._pastes.label(sign)]
        if places:
            place = min(places, key=lambda i: min(abs(cursor - i), abs(cursor - i - 1)))
            whole = self._pastes.text(text[place])
            self.buffer.document = Document(text[:place] + whole + text[place + 1 :], place + len(whole))

    def up_or_down(self, step: int) -> None:
        """A completion, a row of the text or an entry of the history up (-1) or down (1)."""
        if self.buffer.complete_state or not self._move(step):
            (self.buffer.auto_up if step < 0 else self.buffer.auto_down)()

    def _move(self, step: int) -> bool:
        """Move the cursor a row; False if the text ends there."""
        info, document = self.window.render_info, self.buffer.document
        width = info.window_width - len(INDENT) if info else LONGEST
        here = document.cursor_position_row, document.cursor_position_col
        there = self._rows.beside(document.lines, here, step, self.buffer.preferred_column, width)
        if there is None:
            return False
        line, place, column = there
        self.buffer.cursor_position = document.translate_row_col_to_index(line, place)
        self.buffer.preferred_column = column
        return True

    async def edit(self) -> None:
        """Let the person's editor change the text. Whatever goes wrong, the box keeps it."""
        if not (editor := self._editor):
            self._say("To write in an editor, set EDITOR first, as in: export EDITOR=nano")
            return
        try:
            async with self._away():
                # Only now: an editor that was open before may have changed it.
                text = self._pastes.unfold(self.buffer.text)
                text = await asyncio.get_running_loop().run_in_executor(None, edited, text, editor)
        except UsageError as failed:
            self._say(f"{failed} Your message is as it was.")
        else:
            self.set_text(text, at_once=True)

    def _note(self) -> str:
        if is_open(self.buffer.text):
            return 'Enter makes a new line; """ and Enter sends'
        return self._named(blanked(self.buffer.text), get_app().render_counter)


class Box(Buffer):
    """A buffer whose every way of accepting is the composer's, and in which no sign can be typed."""

    def __init__(self, send: Callable[[], None], history: History, completer: Completer) -> None:
        super().__init__(completer=completer, history=history, complete_while_typing=True)
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
        super().insert_text(without_signs(data), overwrite, move_cursor, fire_event)

    def insert_sign(self, sign: str) -> None:
        super().insert_text(sign)

    def new_line(self) -> None:
        self.insert_text("\n")

    def complete(self) -> None:
        """Go to the next completion; take the only one, or what all of them have in common."""
        state = self.complete_state
        if state is not None and len(state.completions) > 1:
            self.complete_next()
        elif len(found := self._completions()) == 1:
            self.apply_completion(found[0])
            self.take_completion()
        elif common := get_common_complete_suffix(self.document, found):
            self.insert_text(common)
        else:
            self.start_completion()

    def _completions(self) -> list[Completion]:
        event = CompleteEvent(completion_requested=True)
        return list(self.completer.get_completions(self.document, event))

    def take_completion(self) -> None:
        """Close the menu; a folder's opens at once."""
        self.complete_state = None
        if self.document.char_before_cursor == "/":
            self.start_completion()

    @property
    def is_chosen(self) -> bool:
        """Whether a completion is selected that changed what was typed."""
        state = self.complete_state
        return bool(state and state.current_completion and self.text != state.original_document.text)


class Shown(Processor):
    """Draws chips as their labels, and breaks lines between words (a window breaks anywhere)."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def apply_transformation(self, given: TransformationInput) -> Transformation:
        text = "".join(fragment[1] for fragment in given.fragments)
        width = given.width - len(INDENT)
        short = len(text) > LONGEST or get_cwidth(text) <= width
        if short and text.isprintable() and is_steady(text):
            return Transformation(given.fragments)
        drawn: StyleAndTextTuples = []
        places = [0]
        cells = self._rows.line(text, width).cells
        for (style, sign, *_), (blanks, look) in zip(
            explode_text_fragments(given.fragments), cells, strict=True
        ):
            chip = " class:composer.chip" if is_sign(sign) else ""
            drawn += [("", " " * blanks), (style + chip, look)]
            places[-1] += blanks
            places.append(places[-1] + len(look))
        last = len(places) - 1
        return Transformation(
            drawn, lambda i: places[min(i, last)], lambda i: max(bisect_right(places, i) - 1, 0)
        )


def _window(buffer: Box, shown: Shown, keys: KeyBindings, search: SearchToolbar) -> Window:
    empty = Condition(lambda: not buffer.text and not get_app().is_done) & ~is_searching
    control = BufferControl(
        buffer,
        input_processors=[
            HighlightIncrementalSearchProcessor(),
            HighlightSelectionProcessor(),
            shown,
            ConditionalProcessor(AfterInput(_placeholder, "class:composer.placeholder"), empty),
        ],
        include_default_input_processors=False,
        search_buffer_control=search.control,
        preview_search=True,
        key_bindings=keys,
    )
    return Window(control, height=_height, get_line_prefix=_prefix, wrap_lines=True, dont_extend_height=True)


def _placeholder() -> str:
    """What an empty box says, as much of it as fits on its row."""
    room = get_app().output.get_size().columns - len(PROMPT)
    return next((text for text in PLACEHOLDERS if len(text) < room), "")


def _height() -> Dimension:
    """As high as the text, up to a third of the screen."""
    return Dimension(min=1, max=max(get_app().output.get_size().rows // 3, LEAST_ROWS))


def _prefix(line: int, wrapped: int) -> StyleAndTextTuples:
    return [("", INDENT)] if line or wrapped else [("class:composer.prompt", PROMPT)]


def _note_line(note: Callable[[], str]) -> ConditionalContainer:
    def text() -> StyleAndTextTuples:
        width = get_app().output.get_size().columns
        return [("class:composer.note", INDENT + shorten(steady(note()), width - len(INDENT)))]

    window = Window(FormattedTextControl(text), height=1, dont_extend_height=True)
    return ConditionalContainer(window, Condition(lambda: bool(note()) and not get_app().is_done))


def _keys(composer: Composer) -> KeyBindings:
    """The keys while the box has the focus."""
    keys = KeyBindings()
    has_text = Condition(lambda: not composer.is_empty)
    escape.add_keys(keys, has_text, composer.escape)
    _add_sending(keys, composer)
    _add_moving(keys, composer)
    _add_editing(keys, composer, has_text)
    return keys


def _add_sending(keys: KeyBindings, composer: Composer) -> None:
    box = composer.buffer

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if box.is_chosen:
            box.take_completion()
        elif is_open(box.text):
            box.new_line()
        elif box.document.char_before_cursor == "\\":
            box.delete_before_cursor()
            box.new_line()
        else:
            composer.send()

    @keys.add("c-j")
    @keys.add("escape", "enter", eager=True)
    def _(event: KeyPressEvent) -> None:
        box.new_line()

    @keys.add("tab")
    def _(event: KeyPressEvent) -> None:
        box.complete()


def _add_moving(keys: KeyBindings, composer: Composer) -> None:
    @keys.add("up")
    @keys.add("c-p")
    def _(event: KeyPressEvent) -> None:
        composer.up_or_down(-1)

    @keys.add("down")
    @keys.add("c-n")
    def _(event: KeyPressEvent) -> None:
        composer.up_or_down(1)


def _add_editing(keys: KeyBindings, composer: Composer, has_text: Condition) -> None:
    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        composer.paste(event.data)

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        composer.expand_chip()

    @keys.add("c-c", filter=has_text)
    def _(event: KeyPressEvent) -> None:
        composer.clear()

    @keys.add("c-g", filter=~has_selection)
    @keys.add("c-x", "c-e")
    def _(event: KeyPressEvent) -> None:
        event.app.create_background_task(composer.edit())

    keys.add("c-d", filter=has_text)(get_by_name("delete-char"))


def _search_keys(searched: Buffer) -> KeyBindings:
    """The keys while the history is searched, so that the shell's own do not act there."""
    keys = KeyBindings()
    # To accept an empty search would repeat the last one.
    has_words = Condition(lambda: bool(searched.text))
    for key in ("enter", "escape"):
        keys.add(key, filter=has_words)(accept_search)
        keys.add(key, filter=~has_words)(abort_search)
    for key in ("c-c", "c-g"):
        keys.add(key)(abort_search)
    keys.add("c-d")(get_by_name("delete-char"))
    return keys
