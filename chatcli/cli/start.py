"""Where the program begins: what is typed from now on is kept; refuses to know what is asked for.

Light to import, because a person may type before anything else is.
"""

from __future__ import annotations

import sys

from chatcli.errors import INTERRUPTED
from chatcli.tui.terminal import startup

# Commands that end in a prompt; so do options without a command, and nothing at all.
TALKING = ("chat", "resume", "branch")


def main() -> None:
    """Run the command line and exit."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    talks = first in TALKING or not first or first.startswith("-")
    drawn = talks and "--plain" not in sys.argv
    if drawn and sys.stdout is not None and sys.stdout.isatty():
        startup.quiet()
    try:
        from chatcli.cli import main as cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        startup.restore()
