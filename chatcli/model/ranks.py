"""The processes that run one model together, and the line on which rank 0 tells the others what to do.

Refuses to know MLX: what a model computes goes over MLX's own connections. Those cannot say that
nothing is to be done (to wait there takes a whole core), nor that a process is gone.
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

# Who this process is, by what started it: mlx.launch or a person, then two kinds of mpirun.
RANKS = (
    ("MLX_RANK", "MLX_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
# Files of JSON with something for each rank.
HOSTS = ("MLX_HOSTFILE", "MLX_IBV_DEVICES")
# Where rank 0 can be reached, in each of MLX's ways to connect.
ADDRESSES = ("MLX_JACCL_COORDINATOR", "NCCL_HOST_IP")
# How a machine that is gone without a word is noticed (seconds, seconds, times).
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
# How long to wait for what explains an error, and for the others to finish (seconds).
EXPLAINED, FINISHED = 1.0, 20.0
GONE = "Rank {} is gone, and the model cannot go on without it"
CANNOT_MEET = "The ranks cannot meet: {}. Start all of them within half a minute."
AGAIN = "What was said is kept; start all ranks again to go on."

Hook = Callable[[RankLost], object]
# Gives every rank the bytes that rank 0 has; the others have none.
Share = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Place:
    """`rank` of `size` processes; `host` is where rank 0 can be reached."""

    rank: int
    size: int
    host: str


def here(environment: Mapping[str, str]) -> Place | None:
    """This process's place among several; None if it is alone."""
    hosts = _hosts(environment)
    for rank, size in RANKS:
        if environment.get(rank, "").isdigit():
            count = environment.get(size, "")
            found = int(count) if count.isdigit() else len(hosts)
            host = _host(environment, hosts)
            return Place(int(environment[rank]), found, host) if found > 1 else None
    return None


def _hosts(environment: Mapping[str, str]) -> list[Any]:
    for name in HOSTS:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(Path(environment.get(name, "")).read_bytes())
            return found if isinstance(found, list) else []
    return []


def _host(environment: Mapping[str, str], hosts: list[Any]) -> str:
    first = hosts[0] if hosts and "MLX_HOSTFILE" in environment else None
    address = first[0] if isinstance(first, list) and first else first
    found = [address, *map(environment.get, ADDRESSES), socket.gethostname()]
    return next(one for one in found if isinstance(one, str) and one).rsplit(":", 1)[0]


class Dropped(Exception):
    """Rank 0 wants no more of what it had begun."""


@dataclass
class Ranks:
    """One rank's end of the line. Rank 0 gives orders; where ranks may differ, all tell what they have.

    For one thread at a time. What is sent is JSON, and every order is carried out by all.
    """

    place: Place
    lost: RankLost | None = None
    _lines: list[Connection[Any, Any]] = field(default_factory=list)
    _heard: list[queue.SimpleQueue[Any]] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)
    _hooks: list[Hook] = field(default_factory=list)
    # Set once rank 0 says goodbye, or one of them is gone.
    ended: threading.Event = field(default_factory=threading.Event)
    _leaving: bool = False

    @property
    def rank(self) -> int:
        return self.place.rank

    @property
    def leads(self) -> bool:
        return self.place.rank == 0

    def meet(self, share: Share) -> None:
        """Connect every rank with rank 0, once. Raises `RankLost`."""
        if self._lines:
            return
        try:
            self._lines = self._accept(share) if self.leads else [self._call(share)]
        except (OSError, EOFError, ValueError, RuntimeError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise RankLost(CANNOT_MEET.format(reason.rstrip("."))) from error
        for number, line in enumerate(self._lines):
            _keep_alive(line)
            self._heard.append(queue.SimpleQueue())
            reader = threading.Thread(target=self._read, args=(number, line), daemon=True)
            self._readers.append(reader)
            reader.start()

    def _accept(self, share: Share) -> list[Connection[Any, Any]]:
        from multiprocessing import AuthenticationError
        from multiprocessing.connection import Listener

        key = os.urandom(32)
        with Listener((self.place.host, 0), authkey=key) as listener:
            share(json.dumps([*listener.address, key.hex()]).encode())
            lines: dict[int, Connection[Any, Any]] = {}
            while len(lines) < self.place.size - 1:
                with contextlib.suppress(AuthenticationError):  # a stranger
                    line = listener.accept()
                    lines[int(line.recv_bytes())] = line
        return [lines[rank] for rank in sorted(lines)]

    def _call(self, share: Share) -> Connection[Any, Any]:
        from multiprocessing.connection import Client

        host, port, key = json.loads(share(b""))
        line = Client((host, port), authkey=bytes.fromhex(key))
        line.send_bytes(str(self.rank).encode())
        return line

    def _read(self, number: int, line: Connection[Any, Any]) -> None:
        heard = self._heard[number]
        who = number + 1 if self.leads else 0
        try:
            while True:
                kind, value = json.loads(line.recv_bytes())
                if kind == "failed":
                    self._lose(f"Rank {who} cannot go on: {value} {AGAIN}")
                elif kind == "bye":
                    self._leaving = True
                    self.ended.set()
                heard.put((kind, value))
        except (OSError, EOFError, ValueError):
            self._lose(f"{GONE.format(who)}. {AGAIN}")

    def _lose(self, why: str) -> None:
        if self.lost is None and not self._leaving:
            self.lost = RankLost(why)
            for hook in self._hooks:
                hook(self.lost)
        self.ended.set()
        for heard in self._heard:
            heard.put(("gone", None))

    def on_lost(self, hook: Hook) -> None:
        """Call `hook`, on another thread, if a rank is gone or cannot go on."""
        self._hooks.append(hook)
        if self.lost is not None:
            hook(self.lost)

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Say of an error that comes because a rank is gone that it is. Raises `RankLost`."""
        try:
            yield
        except (ModelError, RuntimeError) as error:
            self.ended.wait(EXPLAINED)
            raise self.lost or error from error

    def explain(self, error: Exception, seconds: float = EXPLAINED) -> RankLost:
        """Why an error came on this rank: because another is gone, if that is known in a moment."""
        self.ended.wait(seconds)
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        return self.lost or RankLost(f"Rank {self.rank} cannot go on: {reason}. {AGAIN}")

    # Rank 0

    def order(self, name: str, *values: Any) -> None:
        """Have every other rank do something. Raises `RankLost`."""
        self._send("order", [name, *values])

    def say(self, word: bool) -> bool:
        """Tell the others how it goes on, where they `hear` it. Returns the word."""
        self._send("word", word)
        return word

    def drop(self) -> None:
        """Have the others leave what is under way where they would `hear` a word."""
        self._send("drop", None)

    def _send(self, kind: str, value: Any) -> None:
        if self.lost is not None:
            raise self.lost
        data = json.dumps([kind, value]).encode()
        try:
            for line in self._lines:
                line.send_bytes(data)
        except OSError as error:
            raise self.explain(error) from error

    # Every rank

    def gather(self, own: Any) -> list[Any]:
        """What every rank has, by rank; each of them asks at the same place. Raises `RankLost`."""
        if not self.leads:
            self._send("mine", own)
            return list(self._next("all"))
        found = [own, *(self._next("mine", heard) for heard in self._heard)]
        self._send("all", found)
        return found

    def least(self, own: int) -> int:
        """The least of what the ranks have."""
        return int(min(self.gather(own)))

    def agree(self, own: str) -> None:
        """Nothing, unless it is something else than rank 0 has: then `ValueError`.

        Raises `Dropped` if rank 0 wants no more of what was under way.
        """
        if self.leads:
            self._send("same", own)
        elif self._next("same") != own:
            raise ValueError("it came to something else than rank 0")

    def _next(self, wanted: str, heard: queue.SimpleQueue[Any] | None = None) -> Any:
        kind, value = (heard or self._heard[0]).get()
        if kind == "drop":
            raise Dropped
        if kind != wanted:
            unexpected = f"it said '{kind}' in place of '{wanted}'"
            raise self.lost or self.explain(ValueError(unexpected), 0)
        return value

    # Others than rank 0

    def hear(self) -> bool:
        """The word of rank 0. Raises `Dropped` if it wants no more of this."""
        return bool(self._next("word"))

    def orders(self) -> Iterator[tuple[str, list[Any]]]:
        """What rank 0 wants, one after the other, until it leaves."""
        while True:
            kind, value = self._heard[0].get()
            if kind in ("bye", "gone"):
                return
            if kind == "order":
                yield value[0], value[1:]

    def fail(self, why: str) -> None:
        """Tell rank 0 that this rank cannot go on."""
        with contextlib.suppress(RankLost):
            self._send("failed", why)

    def leave(self) -> None:
        """Say goodbye to the others."""
        self._leaving = True
        with contextlib.suppress(RankLost):
            self._send("bye", None)

    def close(self) -> None:
        """Let the others finish what they write, and go."""
        self.leave()
        if self.leads and self.lost is None:
            for reader in self._readers:
                reader.join(FINISHED)
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.close()


def _keep_alive(line: Connection[Any, Any]) -> None:
    """Send each word at once, and notice a machine that is gone."""
    with socket.socket(fileno=os.dup(line.fileno())) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            # macOS has another name for the first; elsewhere one of the two is missing.
            if hasattr(socket, name) and not (name == "TCP_KEEPALIVE" and sys.platform != "darwin"):
                end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
