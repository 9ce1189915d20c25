"""Real processes that share one model: what mlx.launch starts, on MLX's ring of local sockets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.program import DEADLINE, Finished, Program

PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens at."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class Together:
    """Several ranks, each with a home and a sessions folder of its own, as on several machines."""

    def __init__(self, folder: Path, model: Path, *args: object, size: int = 2) -> None:
        self.args = args
        self.ranks = [Program(folder / f"rank{rank}", model) for rank in range(size)]
        self.hosts = folder / "hosts.json"

    @property
    def first(self) -> Program:
        """Rank 0's: it has the conversation."""
        return self.ranks[0]

    def environments(self, **changes: str) -> list[dict[str, str]]:
        ports = free_ports(len(self.ranks))
        self.hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports]))
        return [
            one.environment(MLX_RANK=str(rank), MLX_HOSTFILE=str(self.hosts), **changes)
            for rank, one in enumerate(self.ranks)
        ]

    def start(self, *args: object, **popen: Any) -> list[subprocess.Popen[bytes]]:
        """One process a rank; only rank 0 has something to read, if `popen` says so."""
        nothing = {**PIPES, "stdin": subprocess.DEVNULL}
        return [
            one.start(*args, *self.args, env=env, **(nothing if rank else {**nothing, **popen}))
            for rank, (one, env) in enumerate(zip(self.ranks, self.environments(), strict=True))
        ]

    def run(self, *args: object, stdin: str | None = None, expect: int = 0) -> list[Finished]:
        """All ranks to their ends. Every one but rank 0 is silent, and ends as rank 0 does."""
        source = {} if stdin is None else {"stdin": subprocess.PIPE}
        processes = self.start(*args, **source)
        done = ends(processes, stdin)
        assert [expect] * len(done) == [one.code for one in done], done
        assert all((b"", b"") == (one.out, one.err) for one in done[1:]), done
        return done

    def chat(self, lines: Sequence[str], *args: object) -> list[Any]:
        """As `Program.chat`."""
        script = "".join(f"{line}\n" for line in lines)
        said = self.run("chat", "--json", *args, stdin=script)[0].lines()
        return [line for line in said if "turn" in line]

    def kept(self) -> list[set[str]]:
        """The names of the segments that each rank has on its disk."""
        return [{path.name for path in one.sessions.glob("kv/*/??/*.safetensors")} for one in self.ranks]


def ends(processes: Sequence[subprocess.Popen[bytes]], stdin: str | None = None) -> list[Finished]:
    """What came of processes, the first of which has something to read."""
    first, *others = processes
    try:
        out, err = first.communicate(stdin and stdin.encode(), timeout=DEADLINE)
        outcome = [(out, err), *(one.communicate(timeout=DEADLINE) for one in others)]
    finally:
        for one in processes:
            one.kill()
    return [Finished(one.returncode, *told) for one, told in zip(processes, outcome, strict=True)]


def some_output(process: subprocess.Popen[bytes], size: int) -> bytes:
    """The first bytes that a process writes."""
    assert process.stdout is not None
    got = b""
    while len(got) < size and (more := os.read(process.stdout.fileno(), size)):
        got += more
    return got
