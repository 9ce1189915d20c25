"""What ranks other than 0 do: what rank 0 does, on their own shards; refuses to know conversations.

They decide nothing, print nothing and read nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chatcli.checkpoints.checkpoints import Match
from chatcli.checkpoints.distributed import SharedCheckpoints, StopSignal
from chatcli.engine.generate import Request
from chatcli.model import sharding
from chatcli.model.ranks import Dropped, Ranks
from chatcli.session.runtime import Runtime
from chatcli.settings.values import ModelOptions, Sampling, Settings
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import Worker

# How long what is under way may take once rank 0 has left, or is gone (seconds).
GRACE, GONE = 10.0, 1.0


def follow(ranks: Ranks, settings: Settings, tell: Callable[[str], None]) -> int:
    """Do what rank 0 wants until it leaves. Returns the exit code.

    Where this rank cannot go on, rank 0 is told; `tell` is called where there is none any more.
    Raises `RankLost` if rank 0 does not come.
    """
    worker = Worker()
    worker.call(ranks.meet, sharding.share)
    follower = Follower(ranks, settings, worker)
    done = threading.Event()
    threading.Thread(target=follower.watch, args=(done, tell), daemon=True).start()
    try:
        for name, values in ranks.orders():
            getattr(follower, name)(*values)
    except Exception as error:
        why = str(ranks.explain(error))
        if not ranks.ended.is_set():
            ranks.fail(why)
            ranks.ended.wait()
        done.wait(2 * GRACE)  # the watch ends this process
        return 1
    done.set()
    follower.close()
    worker.close()
    ranks.close()
    return 0


class Follower:
    """One method for each order: see `shared_checkpoints` for who gives them."""

    def __init__(self, ranks: Ranks, settings: Settings, worker: Worker) -> None:
        self._ranks, self._settings, self._worker = ranks, settings, worker
        self._runtime: Runtime | None = None
        self._path = TokenPath("", [])

    def watch(self, done: threading.Event, tell: Callable[[str], None]) -> None:
        """End this process where it waits for a rank that will never answer."""
        self._ranks.ended.wait()
        lost = self._ranks.lost
        # Nothing comes of a model that loads for nobody.
        if done.wait(GRACE if lost is None and self._runtime is not None else GONE):
            return
        if lost is not None:
            tell(str(lost))
        os._exit(0 if lost is None else lost.exit_code)

    def load(self, name: str, model_options: dict[str, Any], cache: bool) -> None:
        """Load this rank's shard of a model."""
        settings = replace(
            self._settings,
            model_options=ModelOptions(**model_options),
            cache=cache,
            sampling=Sampling(),
            draft_model=None,
        )
        self._runtime = self._worker.call(Runtime, self._worker, settings, name, ranks=self._ranks)

    @property
    def _checkpoints(self) -> SharedCheckpoints:
        assert self._runtime is not None
        checkpoints = self._runtime.checkpoints
        assert isinstance(checkpoints, SharedCheckpoints)
        return checkpoints

    def prompt(self, tokens: list[int], ends: Sequence[int]) -> None:
        """What the next orders are about."""
        self._path = TokenPath.cut(self._checkpoints.root, tokens, ends)

    def match(self, count: int) -> None:
        self._checkpoints.match(self._path.upto(count))

    def restore(self, count: int, depth: int, in_memory: bool) -> None:
        self._checkpoints.restore(self._path.upto(count), Match(depth, in_memory))

    def accept_typeahead(self, count: int) -> None:
        self._checkpoints.accept_typeahead(self._path.upto(count))

    def prefill(self, count: int, depth: int, typeahead: bool) -> None:
        """Until rank 0 says that it is enough, as in `generate`."""
        word = StopSignal(self._ranks)
        steps = self._checkpoints.prefill(self._path.upto(count), depth, word, typeahead=typeahead)
        with contextlib.suppress(Dropped):
            deque(steps, maxlen=0)

    def generate(
        self, _: int, start: int, sampling: dict[str, Any], room: int, said: int, opening: str
    ) -> None:
        tokens, word = list(self._path.tokens), StopSignal(self._ranks)
        request = Request(
            tokens[start:],
            Sampling(**sampling),
            room,
            tokens[len(tokens) - said :],
            opening,
            tokens[:start],
        )
        reply = self._checkpoints.generate(request, word)
        with contextlib.suppress(Dropped):
            deque(reply, maxlen=0)

    def close(self) -> None:
        """Finish what is being written."""
        if self._runtime is not None:
            self._runtime.close()
