"""Rich text as prompt_toolkit's fragments, for what is drawn on the whole screen."""

from __future__ import annotations

from functools import lru_cache

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.color import ANSI_COLOR_NAMES
from rich.console import Console
from rich.style import Style
from rich.text import Text

# Rich's attributes and colours by prompt_toolkit's names.
ATTRIBUTES = ("bold", "dim", "italic", "underline", "strike", "reverse")
# What was read from escape sequences has colours by number.
COLOR_NAMES = {f"color({number})": name for name, number in ANSI_COLOR_NAMES.items() if number < 16}


def fragments(row: Text, console: Console) -> StyleAndTextTuples:
    """A row in the styles that it has in a terminal; `console` is asked for its colours."""
    return [
        (_style_name(segment.style, console.no_color), segment.text)
        for segment in row.render(console)
        if segment.text
    ]


@lru_cache(maxsize=256)
def _style_name(style: Style | None, no_color: bool) -> str:
    if style is None:
        return ""
    parts = [attribute for attribute in ATTRIBUTES if getattr(style, attribute)]
    if style.color is not None and not style.color.is_default and not no_color:
        name = COLOR_NAMES.get(style.color.name, style.color.name)
        parts.append(f"ansi{name.replace('bright_', 'bright')}")
    return " ".join(parts)
