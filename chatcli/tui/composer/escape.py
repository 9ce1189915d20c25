"""Esc and Alt in the input box, told apart by how their bytes arrive.

A terminal sends Alt and a key in one piece: ESC and that key. Esc, and a key after it, come in two. A slow
connection may join them, so where Alt and that key do nothing, they count as Esc and the key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys

# Seconds to wait for the rest of a key's escape sequence, and for the next key of a chord.
ESCAPE_DELAY, CHORD_DELAY = 0.03, 0.3
ESC = "\x1b"
# What Alt does with these keys. Other chords of prompt_toolkit would only swallow letters.
ALT_COMMANDS = {
    "b": "backward-word",
    "left": "backward-word",
    "f": "forward-word",
    "right": "forward-word",
    "d": "kill-word",
    "backspace": "backward-kill-word",
    "y": "yank-pop",
    "c": "capitalize-word",
    "l": "downcase-word",
    "u": "uppercase-word",
}


def make_final(app: Application[Any]) -> None:
    """Make an ESC that came alone the key Esc at once, not the beginning of a chord with the next key."""

    def set_timeout(processor: KeyProcessor) -> None:
        keys = processor.key_buffer
        app.timeoutlen = 0 if keys and keys[0].key == Keys.Escape else CHORD_DELAY

    app.ttimeoutlen, app.timeoutlen = ESCAPE_DELAY, CHORD_DELAY
    app.key_processor.after_key_press += set_timeout


def add_keys(keys: KeyBindings, has_text: Condition, escape: Callable[[], None]) -> None:
    """Add Esc, and Alt for a box with text. In an empty box a chord is Esc and then a key."""
    keys.add("escape")(lambda _: escape())
    for key, name in ALT_COMMANDS.items():
        keys.add("escape", key, filter=has_text, eager=True)(get_by_name(name))

    @keys.add("escape", Keys.Any, eager=True)
    def _(event: KeyPressEvent) -> None:
        first, second = event.key_sequence
        if first.data == ESC:  # in the sequence of Alt and an arrow, ESC is not the key
            escape()
        event.key_processor.feed(second, first=True)
