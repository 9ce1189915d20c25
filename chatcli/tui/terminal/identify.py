"""Which terminal this is, by the variables that it sets."""

from __future__ import annotations

from collections.abc import Mapping

# Variables that terminals set.
VARIABLES = {
    "KITTY_WINDOW_ID": "kitty",
    "WEZTERM_PANE": "WezTerm",
    "GHOSTTY_RESOURCES_DIR": "Ghostty",
    "ALACRITTY_WINDOW_ID": "Alacritty",
    "WT_SESSION": "Windows Terminal",
    "VTE_VERSION": "VTE",
    "KONSOLE_VERSION": "Konsole",
    "TMUX": "tmux",
}
# Names in TERM, which ssh passes on.
NAMES_IN_TERM = ("kitty", "wezterm", "ghostty", "alacritty", "foot", "tmux")


def names(environment: Mapping[str, str]) -> list[str]:
    """The terminal's names by its variables, in TERM and as TERM_PROGRAM (which may be empty)."""
    names = [name for variable, name in VARIABLES.items() if environment.get(variable)]
    names += [name for name in NAMES_IN_TERM if name in environment.get("TERM", "")]
    return [*names, environment.get("TERM_PROGRAM", "")]
