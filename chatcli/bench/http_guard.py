"""Runs a command and ends it when standard input ends.

The parent process holds the other end of that pipe, so the command ends however the parent ends.
This file is run by path, as a process of its own, so nothing of chatcli can be imported here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

# Before a server is killed: some write their caches when they end.
GRACE_SECONDS = 60.0


def main(grace: float, command: Sequence[str]) -> int:
    """Returns the command's exit code, after its process group has been killed."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_watch, args=(process, grace), daemon=True).start()
    process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return abs(int(process.returncode))


def _watch(process: subprocess.Popen[bytes], grace: float) -> None:
    # Not sys.stdin: a thread that waits in its buffer makes the interpreter abort at exit.
    while os.read(0, 1024):
        pass
    if grace:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    process.kill()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
