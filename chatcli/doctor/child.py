"""Runs short programs in child processes, so that a crash in one is a finding."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

from chatcli.errors import ChatcliError
from chatcli.text import shorten

LONGEST = 300
# The child imports from where this process does, not from the folder in which it happens to be.
# A crash is what may be found out: it leaves no core file.
SAME_PATH = """\
import sys
sys.path[:] = sys.argv[1:]
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""


class ChildFailed(ChatcliError):
    """A program ended otherwise than well; the text says how."""


def python(code: str, seconds: float) -> str:
    """The last line that `code` prints in a Python of its own. Raises `ChildFailed`."""
    lines = output([sys.executable, "-c", SAME_PATH + code, *sys.path], seconds).splitlines()
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
        raise ChildFailed(_ending(done.returncode, done.stderr))
    return done.stdout.decode(errors="replace")


def _ending(code: int, errors: bytes) -> str:
    said = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    last = shorten(said[-1], LONGEST) if said else ""
    if code < 0:
        return f"crashed ({_signal(-code)}){f': {last}' if last else ''}"
    return last or f"ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
