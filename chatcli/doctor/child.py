"""Runs short programs in child processes, so that a crash is a finding."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

from chatcli.errors import ChatcliError
from chatcli.text import shorten

MAX_REASON_CHARACTERS = 300
# The child imports from where this process does, not from its working directory. A crash leaves no core file.
PREAMBLE = """\
import sys
sys.path[:] = sys.argv[1:]
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""


class ChildFailed(ChatcliError):
    """A program failed; the text says how."""


def python(code: str, seconds: float) -> str:
    """The last line that `code` prints in a Python of its own. Raises `ChildFailed`."""
    lines = output([sys.executable, "-c", PREAMBLE + code, *sys.path], seconds).splitlines()
    if not lines:
        raise ChildFailed("ended without an answer")
    return lines[-1]


def output(command: Sequence[str], seconds: float) -> str:
    """What a program prints. Raises `ChildFailed`."""
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"no answer within {seconds:.0f} s") from None
    except OSError as error:
        raise ChildFailed(error.strerror or str(error)) from error
    if done.returncode:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        last_line = shorten(lines[-1], MAX_REASON_CHARACTERS) if lines else ""
        if done.returncode > 0:
            raise ChildFailed(last_line or f"ended with exit code {done.returncode}")
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = f"signal {-done.returncode}"
        raise ChildFailed(f"crashed ({name}){f': {last_line}' if last_line else ''}")
    return done.stdout.decode(errors="replace")
