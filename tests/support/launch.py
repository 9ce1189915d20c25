"""Real processes that share one model, as mlx.launch starts them, on MLX's ring backend."""

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
    """Free ports of this machine."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for socket_ in sockets:
            socket_.bind(("127.0.0.1", 0))
        return [int(socket_.getsockname()[1]) for socket_ in sockets]


class LaunchedRanks:
    """Ranks that each have a home and a sessions folder of their own, as on several machines."""

    def __init__(self, folder: Path, model: Path, *args: object, size: int = 2) -> None:
        self.args = args
        self.ranks = [Program(folder / f"rank{rank}", model) for rank in range(size)]
        self.hosts = folder / "hosts.json"

    @property
    def first(self) -> Program:
        """The program of rank 0, which has the conversation."""
        return self.ranks[0]

    def environments(self, **changes: str) -> list[dict[str, str]]:
        ports = free_ports(len(self.ranks))
        self.hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports]))
        return [
            program.environment(MLX_RANK=str(rank), MLX_HOSTFILE=str(self.hosts), **changes)
            for rank, program in enumerate(self.ranks)
        ]

    def start(self, *args: object, **popen: Any) -> list[subprocess.Popen[bytes]]:
        """Start one process for each rank. `popen` is for rank 0, which alone may have input."""
        no_input = {**PIPES, "stdin": subprocess.DEVNULL}
        return [
            program.start(*args, *self.args, env=env, **(no_input if rank else {**no_input, **popen}))
            for rank, (program, env) in enumerate(zip(self.ranks, self.environments(), strict=True))
        ]

    def run(self, *args: object, stdin: str | None = None, expect: int = 0) -> list[Finished]:
        """Run all ranks to their end. Asserts their exit codes, and that only rank 0 prints."""
        input_pipe = {} if stdin is None else {"stdin": subprocess.PIPE}
        processes = self.start(*args, **input_pipe)
        results = wait_for_all(processes, stdin)
        assert [expect] * len(results) == [result.code for result in results], results
        assert all((b"", b"") == (result.out, result.err) for result in results[1:]), results
        return results

    def chat(self, lines: Sequence[str], *args: object) -> list[Any]:
        """As `Program.chat`."""
        script = "".join(f"{line}\n" for line in lines)
        records = self.run("chat", "--json", *args, stdin=script)[0].lines()
        return [line for line in records if "turn" in line]

    def segment_names(self) -> list[set[str]]:
        """The names of the segment files of each rank."""
        return [
            {path.name for path in program.sessions.glob("kv/*/??/*.safetensors")} for program in self.ranks
        ]


def wait_for_all(processes: Sequence[subprocess.Popen[bytes]], stdin: str | None = None) -> list[Finished]:
    """Wait for all processes; `stdin` is written to the first."""
    first, *others = processes
    try:
        out, err = first.communicate(stdin and stdin.encode(), timeout=DEADLINE)
        outputs = [(out, err), *(process.communicate(timeout=DEADLINE) for process in others)]
    finally:
        for process in processes:
            process.kill()
    return [Finished(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


def read_output(process: subprocess.Popen[bytes], size: int) -> bytes:
    """Read `size` bytes, or up to the end, of what a process writes."""
    assert process.stdout is not None
    output = b""
    while len(output) < size and (data := os.read(process.stdout.fileno(), size)):
        output += data
    return output
