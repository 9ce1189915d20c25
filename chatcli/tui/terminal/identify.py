"""Which terminal this is, by what it says of itself; refuses to know what a terminal can."""

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
# Names in TERM, which goes along over ssh.
IN_TERM = ("kitty", "wezterm", "ghostty", "alacritty", "foot", "tmux")


def names(environment: Mapping[str, str]) -> list[str]:
    """What the terminal is called: by its variables, in TERM and as TERM_PROGRAM."""
    found = [name for variable, name in VARIABLES.items() if environment.get(variable)]
    found += [name for name in IN_TERM if name in environment.get("TERM", "")]
    return [*found, environment.get("TERM_PROGRAM", "")]
