"""Ranks other than 0: execute rank 0's commands on their own shards; decide and print nothing."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chatcli.checkpoints.checkpoints import Checkpoints, Purpose
from chatcli.checkpoints.distributed import ReceivedStop
from chatcli.checkpoints.plan import Plan, Source
from chatcli.engine.generate import GenerationRequest
from chatcli.model import sharding
from chatcli.model.ranks import Cancelled, Ranks
from chatcli.replies.answer_form import AnswerForm
from chatcli.session.runtime import Runtime
from chatcli.settings.values import ModelOptions, Sampling, Settings
from chatcli.store.segments.token_path import TokenPath
from chatcli.threads.mlx_thread import Worker

# How long current work may continue once rank 0 has left or is lost, in seconds.
GRACE_SECONDS, LOST_SECONDS = 10.0, 1.0


def follow(ranks: Ranks, settings: Settings, tell: Callable[[str], None]) -> int:
    """Execute rank 0's commands until it leaves. Returns the exit code.

    If this rank cannot continue, it reports that to rank 0, or to `tell` if rank 0 is lost. Raises `RankLost`
    if rank 0 does not connect.
    """
    worker = Worker()
    worker.call(ranks.meet, sharding.broadcast)
    follower = Follower(ranks, settings, worker)
    done = threading.Event()
    threading.Thread(target=follower.watch, args=(done, tell), daemon=True).start()
    try:
        for name, arguments in ranks.commands():
            getattr(follower, name)(**arguments)
    except Exception as error:  # whatever the error is, rank 0 must know
        reason = str(ranks.explain(error))
        if not ranks.ended.is_set():
            ranks.fail(reason)
            ranks.ended.wait()
        done.wait(2 * GRACE_SECONDS)  # the watch ends this process
        return 1
    done.set()
    follower.close()
    worker.close()
    ranks.close()
    return 0


class Follower:
    """One method per command of `Leader.together` and `distributed.loading`."""

    def __init__(self, ranks: Ranks, settings: Settings, worker: Worker) -> None:
        self._ranks, self._settings, self._worker = ranks, settings, worker
        self._runtime: Runtime | None = None
        self._path = TokenPath("", [])

    def watch(self, done: threading.Event, tell: Callable[[str], None]) -> None:
        """End this process if it would wait forever for a lost rank."""
        self._ranks.ended.wait()
        lost = self._ranks.lost
        # Nobody needs a model that is still loading.
        if done.wait(GRACE_SECONDS if lost is None and self._runtime is not None else LOST_SECONDS):
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
    def _checkpoints(self) -> Checkpoints:
        assert self._runtime is not None
        return self._runtime.checkpoints

    def set_prompt(self, tokens: list[int], boundaries: Sequence[int]) -> None:
        """Set the prompt that the next commands are about, and its boundaries."""
        self._path = self._checkpoints.cut(tokens, boundaries)

    def look_up(self, segments: int, passed: int) -> None:
        self._checkpoints.disk.stored(self._path.upto(segments), passed)

    def look_up_others(self, segments: int, depth: int) -> None:
        self._checkpoints.disk.borrowable(self._path.upto(segments), depth)

    def execute(self, segments: int, source: Source, depth: int, extra: int, borrowed: bool) -> None:
        self._checkpoints.execute(Plan(self._path.upto(segments), source, depth, extra, borrowed))

    def set_private(self, private: bool) -> None:
        self._checkpoints.set_private(private)

    def keep(self) -> None:
        self._checkpoints.keep()

    def accept_typeahead(self) -> None:
        self._checkpoints.accept_typeahead()

    def hand_over(self) -> None:
        self._checkpoints.hand_over()

    def persist_state(self) -> None:
        self._checkpoints.persist_state()

    def prefill(self, segments: int, depth: int, purpose: Purpose) -> None:
        """Prefill until rank 0 stops it."""
        stop = ReceivedStop(self._ranks)
        steps = self._checkpoints.prefill(self._path.upto(segments), depth, stop, purpose)
        with contextlib.suppress(Cancelled):
            deque(steps, maxlen=0)

    def generate(
        self,
        segments: int,
        start: int,
        sampling: dict[str, Any],
        room: int,
        reply_tokens: int,
        generation_prompt: str,
        answer: dict[str, Any] | None,
    ) -> None:
        """Generate until rank 0 stops it. The last `reply_tokens` of the prompt belong to the reply."""
        tokens = list(self._path.tokens)
        request = GenerationRequest(
            tokens[start:],
            Sampling(**sampling),
            room,
            tokens[len(tokens) - reply_tokens :],
            generation_prompt,
            tokens[:start],
            answer=AnswerForm.of(answer) if answer is not None else None,
        )
        reply = self._checkpoints.generate(request, ReceivedStop(self._ranks))
        with contextlib.suppress(Cancelled):
            deque(reply, maxlen=0)

    def close(self) -> None:
        """Finish pending writes."""
        if self._runtime is not None:
            self._runtime.close()
