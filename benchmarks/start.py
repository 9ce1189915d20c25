"""Measures start-up time: the help, the list and a prompt that shows a typed letter, beside Python's own
start.

    python -m benchmarks.start

Each runs in a new process, in alternation.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.crowd import write_sessions
from benchmarks.measure import options, progress
from chatcli.bench.race import Progress, Spread, rotated
from chatcli.bench.report import seconds_text, spread_text
from chatcli.bench.run import temporary_folder
from chatcli.cli.bench import show
from chatcli.commands.results import Table
from chatcli.errors import ChatcliError

SESSIONS = 200
COLUMNS, ROWS = 80, 24
PYTHON, PROMPT_TOOLKIT = "python -c pass", "import prompt_toolkit"
PROMPT_MARK, LETTER = "›".encode(), "Ω".encode()
PROMPT_SECONDS = 60.0


@dataclass(frozen=True)
class Run:
    """Seconds from the process's start until it was done, and of CPU time until it ended."""

    seconds: float
    cpu: float


@dataclass(frozen=True)
class Start:
    """The runs of each command by name; runs with the same index belong to one round."""

    runs: Mapping[str, Sequence[Run]]

    def seconds(self, name: str) -> Spread:
        return Spread.of([run.seconds for run in self.runs[name]])

    def cpu(self, name: str) -> Spread:
        return Spread.of([run.cpu for run in self.runs[name]])

    def ratio(self, name: str, peer: str) -> Spread:
        """Its seconds divided by the peer's, in the same round."""
        pairs = zip(self.runs[name], self.runs[peer], strict=True)
        return Spread.of([ours.seconds / theirs.seconds for ours, theirs in pairs])

    def as_json(self) -> dict[str, Any]:
        """Every run, and the ratios to Python's own start and to importing prompt_toolkit."""
        return {
            name: {
                "runs": [asdict(run) for run in runs],
                "times_python": vars(self.ratio(name, PYTHON)),
                "times_prompt_toolkit": vars(self.ratio(name, PROMPT_TOOLKIT)),
            }
            for name, runs in self.runs.items()
        }


def measure(rounds: int, progress: Progress) -> Start:
    """Start everything once in each round; a first round warms up and is not counted."""
    with temporary_folder() as folder:
        tasks = _tasks(folder)
        runs: dict[str, list[Run]] = {name: [] for name in tasks}
        for number in range(rounds + 1):
            for name in rotated(list(tasks), number):
                runs[name].append(tasks[name]())
                progress(sum(map(len, runs.values())), (rounds + 1) * len(tasks), name)
        return Start({name: counted for name, (_, *counted) in runs.items()})


def _tasks(folder: Path) -> dict[str, Callable[[], Run]]:
    sessions = folder / "sessions"
    sessions.mkdir()
    write_sessions(sessions, SESSIONS)
    # Without the user's settings and history.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CHATCLI_")}
    # Compiled once, in the warm-up round, as pip does when it installs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "TERM": "xterm-256color"}
    environment |= {"CHATCLI_CONFIG": str(folder / "config.toml"), "CHATCLI_SESSIONS": str(sessions)}
    chatcli = [sys.executable, "-m", "chatcli"]
    return {
        PYTHON: lambda: _to_the_end([sys.executable, "-c", "pass"], environment),
        PROMPT_TOOLKIT: lambda: _to_the_end([sys.executable, "-c", "import prompt_toolkit"], environment),
        "chatcli --help": lambda: _to_the_end([*chatcli, "--help"], environment),
        f"chatcli list, {SESSIONS} sessions": lambda: _to_the_end([*chatcli, "list"], environment),
        "chatcli, a letter typed": lambda: _to_a_letter(chatcli, environment),
    }


def _to_the_end(command: Sequence[str], environment: Mapping[str, str]) -> Run:
    began = time.perf_counter()
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    cpu = _wait(process)
    if process.returncode:
        raise ChatcliError(f"{' '.join(command)} ended with exit code {process.returncode}.")
    return Run(time.perf_counter() - began, cpu)


def _to_a_letter(command: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Start it in a terminal, type a letter into its prompt, and stop the clock when the letter is shown."""
    ours, its = pty.openpty()
    try:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdin=its, stdout=its, stderr=its, start_new_session=True
        )
        try:
            for awaited, typed in ((PROMPT_MARK, LETTER), (LETTER, b"")):
                _read_until(ours, awaited, began + PROMPT_SECONDS)
                os.write(ours, typed)
            elapsed = time.perf_counter() - began
        finally:
            process.kill()
            cpu = _wait(process)
        return Run(elapsed, cpu)
    finally:
        os.close(ours)
        os.close(its)


def _read_until(terminal: int, awaited: bytes, deadline: float) -> None:
    shown = b""
    while awaited not in shown:
        if not select.select([terminal], [], [], max(deadline - time.perf_counter(), 0))[0]:
            raise ChatcliError(f"No prompt came within {PROMPT_SECONDS:.0f} seconds.")
        shown += os.read(terminal, 65536)


def _wait(process: subprocess.Popen[bytes]) -> float:
    """Wait for its end. Returns its CPU seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def table(start: Start) -> Table:
    rows = [
        (
            name,
            seconds_text(start.seconds(name).median),
            seconds_text(start.seconds(name).least),
            seconds_text(start.cpu(name).median),
            spread_text(start.ratio(name, PYTHON)),
            spread_text(start.ratio(name, PROMPT_TOOLKIT)),
        )
        for name in start.runs
    ]
    notes = [
        f"Medians of {len(start.runs[PYTHON])} rounds, in turn. The letter is typed when the prompt is "
        "drawn, and its time ends when it is shown; the CPU time includes what has begun behind it."
    ]
    return Table("Start", ("", "time", "least", "CPU", "times python", "times prompt_toolkit"), rows, notes)


if __name__ == "__main__":
    parser = options(__doc__, model=False)
    parser.add_argument("--repeats", type=int, default=15)
    chosen = parser.parse_args()
    measured = measure(chosen.repeats, progress)
    show(chosen.json, {"start": measured.as_json()}, [table(measured)])
