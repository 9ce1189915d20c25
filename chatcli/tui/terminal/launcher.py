"""The terminal behind mlx.launch, which only passes on whole lines of what is typed.

mlx.launch reads the terminal for the processes that it starts and prints for them. The terminal itself
can still be set to hand over every key at once, and be drawn on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.vt100 import raw_mode

TERMINAL = "/dev/tty"


def is_there() -> bool:
    """Whether a person types what comes from the launcher."""
    with contextlib.suppress(OSError):
        source = Path(f"/proc/{os.getppid()}/fd/0").readlink()
        if not str(source).startswith(("/dev/pts", "/dev/tty")):
            return False
    with contextlib.suppress(OSError), Path(TERMINAL).open("rb", 0) as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """While this lasts, standard output is the terminal, and prompt_toolkit gets its keys."""
    with (
        Path(TERMINAL).open("w", encoding="utf-8", errors="replace") as screen,
        raw_mode(screen.fileno()),
        create_pipe_input() as keys,
        create_app_session(input=keys),
    ):

        def pass_on_keys() -> None:
            with contextlib.suppress(OSError):
                while data := os.read(0, 4096):
                    keys.send_bytes(data)
                # The launcher is gone, and with it whoever types.
                os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=pass_on_keys, daemon=True).start()
        with contextlib.redirect_stdout(screen):
            yield
