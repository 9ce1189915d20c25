"""The entry point of `chatcli` and `python -m chatcli`.

A person may type before imports have finished, so little is imported before typed text is kept.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys
from typing import Any

from chatcli.cli import process
from chatcli.cli.output import warn
from chatcli.errors import ChatcliError
from chatcli.tui.terminal import startup

# Commands that open a prompt, as options or a message without a command, or no arguments do too.
PROMPTING = ("chat", "resume", "branch")


def main() -> None:
    """Run the command line and exit. An unexpected error is one line, or with CHATCLI_DEBUG a traceback."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    begins_chat = first in PROMPTING or not first or first.startswith("-") or " " in first
    prompts = begins_chat and "--plain" not in sys.argv
    if prompts and sys.stdout is not None and sys.stdout.isatty():
        startup.quiet()
    code: Any = None

    def leave() -> None:
        """Exit at once if a model was run: tearing down MLX and transformers takes half a second."""
        executor.end_all()
        # Python prints exit codes that are not numbers.
        if isinstance(code, int) and "mlx.core" in sys.modules:
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    try:
        # Imported modules are never garbage, and checking them would take a tenth of the start.
        gc.disable()
        from chatcli.cli.main import app
        from chatcli.model import device
        from chatcli.threads import executor

        gc.freeze()
        gc.enable()

        # Registered first, so called last, after everything except the handlers of the imports above.
        atexit.register(leave)
        process.open_closed_streams()
        process.watch_streams()
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        if process.our_ranks().size > 1:
            process.prepare_rank(process.our_ranks())
        else:
            device.show_one_gpu(os.environ)
        try:
            app()
        except SystemExit as end:
            code = end.code
            if code in (None, 0) and (reason := process.broken_output()):
                code = ChatcliError.exit_code
                warn(f"The output cannot be written: {reason}.")
                sys.exit(code)
            raise
        except Exception as error:  # any error becomes one sentence and an exit code
            if os.environ.get(process.DEBUG):
                raise
            if problem := process.broken_output():
                warn(f"The output cannot be written: {problem}.")
                sys.exit(ChatcliError.exit_code)
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            warn(f"unexpected error, {reason} ({process.DEBUG}=1 shows where).")
            sys.exit(ChatcliError.exit_code)
    except KeyboardInterrupt:
        sys.exit(process.INTERRUPTED)
    finally:
        startup.restore()


if __name__ == "__main__":
    main()
