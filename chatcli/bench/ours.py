"""chatcli as a contender: takes turns as its shell does, without the shell."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chatcli.bench.race import Answer, Contender, Query, gaps
from chatcli.bench.scripted import Script
from chatcli.chat_format.template import Template, TemplateCache
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.engine.generate import Token
from chatcli.events import Settled, TurnDone
from chatcli.kv.freeze import arrays_in
from chatcli.model.load import LoadedModel
from chatcli.settings.values import DEFAULT_VALUES, Sampling
from chatcli.store.segments import inventory
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from chatcli.threads.mlx_thread import Worker
from chatcli.turn import turn
from chatcli.turn.prompt import TurnContext

# The default.
RECOMPUTE_SECONDS = float(str(DEFAULT_VALUES["recompute_seconds"]))


class MeasuredCheckpoints(Checkpoints):
    """Checkpoints that record the time of each generated token and their memory."""

    times: list[float]

    def generate(self, *arguments: Any, **options: Any) -> Generator[Token]:
        self.times = []
        for token in super().generate(*arguments, **options):
            self.times.append(time.perf_counter())
            yield token

    def nbytes(self) -> int:
        """The size of the live cache and the snapshots in bytes. A shared array counts once."""
        holders = [*self.live.cache, *self.live.snapshots.values()]
        arrays = {id(array): array.nbytes for each in holders for array in arrays_in(each)}
        return sum(arrays.values())


@dataclass
class OpenSession:
    """A session, and the entry at which each path of user messages ends."""

    session: SessionFile
    template: Template
    heads: dict[tuple[str, ...], str] = field(default_factory=dict)


class Chatcli(Contender):
    """Takes each request as a turn of a session, and settles it."""

    name = "chatcli"

    def __init__(self, worker: Worker, loaded: LoadedModel, folder: Path) -> None:
        super().__init__(worker, loaded)
        self._parent_folder = folder
        self._template_cache = TemplateCache.of(loaded.tokenizer)
        self._never = threading.Event()
        self._sessions: list[OpenSession] = []
        self._begin()

    def _begin(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=self._parent_folder))
        self._start()

    def _start(self) -> None:
        """Start as a new process does with this folder."""
        self._store = SegmentStore(self._folder, self.loaded.fingerprint, recompute_seconds=RECOMPUTE_SECONDS)
        self._checkpoints = MeasuredCheckpoints(self._worker, self.loaded, self._store)

    def ask(self, request: Query, script: Script) -> Answer:
        written_before = self._store.written_bytes
        began = time.perf_counter()
        opened, context = self.go_on_from(request, script)
        text = request.user_messages[-1]
        (record,) = [
            event.record for event in turn.take(context, text, self._never) if isinstance(event, TurnDone)
        ]
        opened.heads[request.user_messages] = context.conversation.head or ""
        times = self._checkpoints.times
        answered = time.perf_counter()
        greedy = self._worker.call(self.loaded.model.greedy, script.ids)
        ahead_tokens, settle_seconds = self._settle(context)
        self._store.flush()
        return Answer(
            prompt_tokens=record.prompt_tokens,
            reused_tokens=record.reused_tokens,
            typeahead_tokens=record.typeahead_tokens,
            time_to_first_token=times[0] - began,
            gaps=gaps(times),
            after_seconds=answered - times[-1] + settle_seconds,
            ahead_tokens=ahead_tokens,
            greedy=greedy,
            memory_bytes=self._worker.call(self._checkpoints.nbytes),
            disk_bytes=inventory.total_bytes(self._folder),
            written_bytes=self._store.written_bytes - written_before,
        )

    def go_on_from(self, request: Query, script: Script) -> tuple[OpenSession, TurnContext]:
        """The session whose path the request continues, with its head there, or a new session."""
        path = request.user_messages[:-1]
        holders = (opened for opened in self._sessions if path and path in opened.heads)
        opened = next(holders, None)
        if opened is None:
            folder = SessionFolder(self._folder)
            name = folder.free_name("bench")
            session = folder.create(name, model=self.loaded.name, system=request.system)
            date, cache = session.conversation.date, self._template_cache
            opened = OpenSession(session, Template(self.loaded.tokenizer, date, None, cache))
            self._sessions.append(opened)
        opened.session.move_head(opened.heads.get(path), saved=False)
        return opened, self._context(opened, Sampling(max_tokens=len(script)))

    def _context(self, opened: OpenSession, sampling: Sampling) -> TurnContext:
        session = opened.session
        return TurnContext(session, opened.template, self._checkpoints, sampling)

    def _settle(self, context: TurnContext) -> tuple[int, float]:
        """Settle the reply. Returns the tokens run and the seconds."""
        began = time.perf_counter()
        events = list(turn.settle(context, self._never))
        tokens = sum(event.tokens for event in events if isinstance(event, Settled))
        return tokens, time.perf_counter() - began

    def reopen(self, ahead: bool) -> None:
        """Reopen the sessions as a new process; `ahead`: restore the last one before anything is typed."""
        self._stop()
        self._start()
        folder = SessionFolder(self._folder)
        for opened in self._sessions:
            opened.session = folder.open(opened.session.name)
        if self._sessions and ahead:
            self._settle(self._context(self._sessions[-1], Sampling()))

    def _stop(self) -> None:
        for opened in self._sessions:
            opened.session.close()
        self._checkpoints.leave()
        self._store.tidy()
        self._store.close()

    def forget(self) -> None:
        self.close()
        self._begin()

    def close(self) -> None:
        self._stop()
        self._sessions = []
        shutil.rmtree(self._folder)
