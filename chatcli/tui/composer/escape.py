"""Tells Esc from Alt by how the bytes arrive; refuses to know what Esc does.

A terminal sends Alt and a key in one piece: ESC and that key. Who presses Esc and types on sends ESC
alone, but a slow line may join the two, so where a chord would have nothing to do it is Esc and a key.
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
# What Alt with these keys does to a text. prompt_toolkit's others would only swallow letters.
WITH_ALT = {
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


def is_final(app: Application[Any]) -> None:
    """Let an ESC that came alone be Esc at once, and no beginning of what is typed next."""

    def wait(processor: KeyProcessor) -> None:
        begun = processor.key_buffer
        app.timeoutlen = 0 if begun and begun[0].key == Keys.Escape else CHORD_DELAY

    app.ttimeoutlen, app.timeoutlen = ESCAPE_DELAY, CHORD_DELAY
    app.key_processor.after_key_press += wait


def add_keys(keys: KeyBindings, has_text: Condition, escape: Callable[[], None]) -> None:
    """Esc, and Alt where there is a text to work on. Without one a chord is Esc and then a key."""
    keys.add("escape")(lambda _: escape())
    for key, name in WITH_ALT.items():
        keys.add("escape", key, filter=has_text, eager=True)(get_by_name(name))

    @keys.add("escape", Keys.Any, eager=True)
    def _(event: KeyPressEvent) -> None:
        first, then = event.key_sequence
        if first.data == ESC:  # the sequences of Alt and an arrow hold nobody's Esc
            escape()
        event.key_processor.feed(then, first=True)
