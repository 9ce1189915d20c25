"""The processes ("ranks") that share one model, and the sockets over which rank 0 leads the others.

Arrays go over MLX's own connections. Waiting there takes a whole core, and a lost process is not noticed, so
commands and agreements go over our own sockets. A single process is a world of one rank: everything here
works, and nothing is opened or sent.

A message is one JSON object:

| `type` | other fields | from | meaning |
|---|---|---|---|
| `command` | `name`, `arguments` | rank 0 | call this method of the follower |
| `stop` | `stop` | rank 0 | whether to stop the current work, wherever the others ask |
| `cancel` | | rank 0 | abandon the current work: rank 0 has abandoned it |
| `value` | `value` | others | this rank's value, to be gathered |
| `values` | `values` | rank 0 | the gathered values of all ranks |
| `expected` | `value` | rank 0 | the result that every rank must have |
| `failed` | `reason` | any | this rank cannot continue |
| `leave` | | any | this rank ends normally |
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcli.errors import ModelError, RankLost

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# The variables for rank and world size: of mlx.launch or the user, then of two kinds of mpirun.
RANK_VARIABLES = (
    ("MLX_RANK", "MLX_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
# Variables that name a JSON file with one entry per rank.
HOST_FILES = ("MLX_HOSTFILE", "MLX_IBV_DEVICES")
# Variables with the address of rank 0, for each MLX backend.
ADDRESSES = ("MLX_JACCL_COORDINATOR", "NCCL_HOST_IP")
# TCP keepalive, which notices a machine that disappeared silently: idle seconds (Linux, macOS), seconds
# between probes, number of probes.
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
# How long to wait, after an error, for the news that another rank is gone, which would explain it.
EXPLANATION_SECONDS = 1.0
# How long rank 0 waits, when it ends, for the others to write their checkpoints.
FINISH_SECONDS = 20.0
# How often rank 0 checks whether all ranks have connected.
ACCEPT_SECONDS = 0.05
GONE_MESSAGE = "Rank {} is gone, and the model cannot run without it"
CANNOT_MEET_MESSAGE = "The ranks cannot connect: {}. Start all of them within half a minute."
RESTART_HINT = "The conversation is saved; start all ranks again to continue."

Message = dict[str, Any]
LostCallback = Callable[[RankLost], object]
# Sends rank 0's bytes to every rank; the others pass none.
Broadcast = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Place:
    """This process is `rank` of `size`; `host` is where rank 0 can be reached."""

    rank: int = 0
    size: int = 1
    host: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Place:
        """The place that a launcher gave this process; without a launcher, the only rank."""
        hosts: list[Any] = []
        for variable in HOST_FILES:
            with contextlib.suppress(OSError, ValueError):
                entries = json.loads(Path(environment.get(variable, "")).read_bytes())
                hosts = entries if isinstance(entries, list) else []
                break
        for rank, size in RANK_VARIABLES:
            if environment.get(rank, "").isdigit():
                count = environment.get(size, "")
                world_size = int(count) if count.isdigit() else len(hosts)
                if world_size <= 1:
                    return cls()
                first = hosts[0] if hosts and "MLX_HOSTFILE" in environment else None
                address = first[0] if isinstance(first, list) and first else first
                candidates = [address, *map(environment.get, ADDRESSES), socket.gethostname()]
                host = next(each for each in candidates if isinstance(each, str) and each)
                return cls(int(environment[rank]), world_size, host.rsplit(":", 1)[0])
        return cls()


class Cancelled(Exception):
    """Rank 0 has abandoned the current work."""


@dataclass
class Ranks:
    """This rank's connections: rank 0 has one to every other rank, each of which has one to rank 0.

    For one thread at a time. Methods under "For all ranks" must be called by every rank, in the same order.
    """

    place: Place = field(default_factory=Place)
    lost: RankLost | None = None
    # Set once rank 0 leaves, or a rank is lost.
    ended: threading.Event = field(default_factory=threading.Event)
    _connections: list[Connection[Any, Any]] = field(default_factory=list)
    # The messages received over each connection.
    _inboxes: list[queue.SimpleQueue[Message]] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)
    _lost_callbacks: list[LostCallback] = field(default_factory=list)
    _is_leaving: bool = False

    @property
    def rank(self) -> int:
        return self.place.rank

    @property
    def size(self) -> int:
        return self.place.size

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def meet(self, broadcast: Broadcast) -> None:
        """Connect every rank to rank 0. Called once. Raises `RankLost`."""
        if self.size == 1 or self._connections:
            return
        try:
            if self.leads:
                self._connections = self._accept(broadcast)
            else:
                from multiprocessing.connection import Client

                host, port, key = json.loads(broadcast(b""))
                self._connections = [Client((host, port), authkey=bytes.fromhex(key))]
                self._connections[0].send_bytes(str(self.rank).encode())
        except (OSError, EOFError, ValueError, RuntimeError) as error:
            raise RankLost(CANNOT_MEET_MESSAGE.format(_first_line(error))) from error
        for number, connection in enumerate(self._connections):
            # Send each message at once, and notice a lost machine.
            with socket.socket(fileno=os.dup(connection.fileno())) as end:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for name, value in KEEPALIVE.items():
                    # macOS has another name for the first; elsewhere one of the two is missing.
                    if hasattr(socket, name) and not (name == "TCP_KEEPALIVE" and sys.platform != "darwin"):
                        end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            self._inboxes.append(queue.SimpleQueue())
            reader = threading.Thread(target=self._read, args=(number, connection), daemon=True)
            self._readers.append(reader)
            reader.start()

    def _accept(self, broadcast: Broadcast) -> list[Connection[Any, Any]]:
        key = os.urandom(32)
        arrived: queue.SimpleQueue[tuple[int, Connection[Any, Any]]] = queue.SimpleQueue()
        connections: dict[int, Connection[Any, Any]] = {}
        with socket.create_server((self.place.host, 0)) as server:
            broadcast(json.dumps([*server.getsockname()[:2], key.hex()]).encode())
            server.settimeout(ACCEPT_SECONDS)
            while len(connections) < self.size - 1:
                with contextlib.suppress(TimeoutError):
                    accepted, _ = server.accept()
                    # A stranger may connect and send nothing: do not wait for it.
                    threading.Thread(target=_welcome, args=(accepted, key, arrived), daemon=True).start()
                with contextlib.suppress(queue.Empty):
                    while True:
                        rank, connection = arrived.get_nowait()
                        connections[rank] = connection
        return [connections[rank] for rank in sorted(connections)]

    def _read(self, number: int, connection: Connection[Any, Any]) -> None:
        inbox = self._inboxes[number]
        sender = number + 1 if self.leads else 0
        try:
            while True:
                message = json.loads(connection.recv_bytes())
                if message["type"] == "failed":
                    self._lose(f"Rank {sender} cannot continue: {message['reason']} {RESTART_HINT}")
                elif message["type"] == "leave":
                    self._is_leaving = True
                    self.ended.set()
                inbox.put(message)
        except (OSError, EOFError, ValueError):
            self._lose(f"{GONE_MESSAGE.format(sender)}. {RESTART_HINT}")

    def _lose(self, reason: str) -> None:
        if self.lost is None and not self._is_leaving:
            self.lost = RankLost(reason)
            for callback in self._lost_callbacks:
                callback(self.lost)
        self.ended.set()
        for inbox in self._inboxes:
            inbox.put({"type": "lost"})

    def on_lost(self, callback: LostCallback) -> None:
        """Call `callback`, on another thread, if a rank is gone or cannot continue."""
        if self.size == 1:
            return
        self._lost_callbacks.append(callback)
        if self.lost is not None:
            callback(self.lost)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Translate an error that was caused by another rank's loss to `RankLost`."""
        try:
            yield
        except (ModelError, RuntimeError) as error:
            if self.size > 1:
                self.ended.wait(EXPLANATION_SECONDS)
            if self.lost is not None:
                raise self.lost from error
            raise

    def explain(self, error: Exception, seconds: float = EXPLANATION_SECONDS) -> RankLost:
        """The cause of an error: a rank whose loss becomes known within `seconds`, else the error itself."""
        if self.size > 1:
            self.ended.wait(seconds)
        return self.lost or RankLost(
            f"Rank {self.rank} cannot continue: {_first_line(error)}. {RESTART_HINT}"
        )

    # For rank 0

    def command(self, name: str, /, **arguments: Any) -> None:
        """Make every other rank call a method of its follower. Raises `RankLost`."""
        self._send({"type": "command", "name": name, "arguments": arguments})

    def send_stop(self, stop: bool) -> None:
        """Tell the others whether to stop; they call `receive_stop`. Raises `RankLost`."""
        self._send({"type": "stop", "stop": stop})

    def cancel(self) -> None:
        """Make the others raise `Cancelled` when they next receive a message."""
        self._send({"type": "cancel"})

    # For all ranks

    def all_gather(self, value: Any) -> list[Any]:
        """Every rank's value, ordered by rank. Raises `RankLost`."""
        if not self.leads:
            self._send({"type": "value", "value": value})
            return list(self._receive("values")["values"])
        values = [value, *(self._receive("value", inbox)["value"] for inbox in self._inboxes)]
        self._send({"type": "values", "values": values})
        return values

    def all_min(self, value: int) -> int:
        """The smallest of the values of every rank. Raises `RankLost`."""
        return int(min(self.all_gather(value)))

    def check_same(self, value: str) -> None:
        """Raises `ValueError` on a rank whose value differs from rank 0's.

        Raises `Cancelled` if rank 0 has abandoned the current work.
        """
        if self.leads:
            self._send({"type": "expected", "value": value})
        elif self._receive("expected")["value"] != value:
            raise ValueError("its result differs from rank 0's")

    def leave(self) -> None:
        """Tell the others that this rank ends."""
        self._is_leaving = True
        with contextlib.suppress(RankLost):
            self._send({"type": "leave"})

    def close(self) -> None:
        """Leave. Rank 0 waits until the others have written their checkpoints."""
        self.leave()
        if self.leads and self.lost is None:
            for reader in self._readers:
                reader.join(FINISH_SECONDS)
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.close()

    # For the other ranks

    def commands(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Rank 0's commands, each a name and arguments, until it leaves or is lost."""
        while True:
            message = self._inboxes[0].get()
            if message["type"] in ("leave", "lost"):
                return
            if message["type"] == "command":
                yield message["name"], message["arguments"]

    def receive_stop(self) -> bool:
        """Whether rank 0 says to stop. Raises `Cancelled` if it has abandoned the work."""
        return bool(self._receive("stop")["stop"])

    def fail(self, reason: str) -> None:
        """Tell rank 0 that this rank cannot continue."""
        with contextlib.suppress(RankLost):
            self._send({"type": "failed", "reason": reason})

    def _send(self, message: Message) -> None:
        if self.lost is not None:
            raise self.lost
        data = json.dumps(message).encode()
        try:
            for connection in self._connections:
                connection.send_bytes(data)
        except OSError as error:
            raise self.explain(error) from error

    def _receive(self, expected: str, inbox: queue.SimpleQueue[Message] | None = None) -> Message:
        message = (inbox or self._inboxes[0]).get()
        if message["type"] == "cancel":
            raise Cancelled
        if message["type"] != expected:
            unexpected = f"it sent '{message['type']}' instead of '{expected}'"
            raise self.lost or self.explain(ValueError(unexpected), 0)
        return message


# The only rank of a single process.
SINGLE_PROCESS = Ranks()


def _first_line(error: Exception) -> str:
    """The first line of an error's message, for use within a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _welcome(
    accepted: socket.socket, key: bytes, arrived: queue.SimpleQueue[tuple[int, Connection[Any, Any]]]
) -> None:
    """Add an accepted connection and its rank to `arrived`, if it knows the key."""
    from multiprocessing import AuthenticationError
    from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

    connection: Connection[Any, Any] = Connection(accepted.detach())
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
        arrived.put((int(connection.recv_bytes()), connection))
    except (AuthenticationError, OSError, EOFError, ValueError):
        connection.close()
