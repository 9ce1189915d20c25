"""chatcli as a contender: the turns that its shell takes, without the shell; refuses to know the peers."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chatcli.bench import talk
from chatcli.bench.contender import Answer, Request, gaps
from chatcli.bench.scripted import Script
from chatcli.bench.talk import Meter
from chatcli.chat_format.template import Memory, Template
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.engine.generate import Token
from chatcli.events import Settled, TurnDone, TurnRecord
from chatcli.kv import prompt_cache
from chatcli.kv.freeze import arrays_in
from chatcli.model.load import LoadedModel
from chatcli.session import opening
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling
from chatcli.store.segments import catalog, inventory
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from chatcli.threads.mlx_thread import Worker
from chatcli.turn import turn
from chatcli.turn.prompt import TurnContext
from chatcli.turn.typeahead import typeahead


class Timed(Checkpoints):
    """Checkpoints that note the moment of each generated token, and what they hold."""

    times: list[float]

    def generate(self, *arguments: Any, **options: Any) -> Generator[Token]:
        self.times = []
        for token in super().generate(*arguments, **options):
            self.times.append(time.perf_counter())
            yield token

    def nbytes(self) -> int:
        """The live cache and what it can go back to, in bytes: an array counts once."""
        held = [*prompt_cache.leaves(self._cache), *self._snapshots.values()]
        arrays = {id(array): array.nbytes for one in held for array in arrays_in(one)}
        return sum(arrays.values())


@dataclass
class Open:
    """A session, and the entry that each path of a person's messages ends with."""

    session: SessionFile
    template: Template
    places: dict[tuple[str, ...], str]


class Chatcli:
    """Takes each request as a turn of a session, and settles it."""

    name = "chatcli"

    def __init__(self, worker: Worker, loaded: LoadedModel, folder: Path) -> None:
        self.loaded = loaded
        self._worker = worker
        self._home = folder
        self._memory = Memory.of(loaded.tokenizer)
        self._never = threading.Event()
        self._opened: list[Open] = []
        self._begin()

    def _begin(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=self._home))
        self._start()

    def _start(self) -> None:
        """What a process does that finds the folder as it is."""
        self._meter = Meter(catalog.model_folder(self._folder, self.loaded.fingerprint))
        self._store = SegmentStore(self._folder, self.loaded.fingerprint, self._meter.written)
        self._checkpoints = Timed(self._worker, self.loaded, self._store)

    def ask(self, request: Request, script: Script) -> Answer:
        before = self._meter.total
        began = time.perf_counter()
        chat = self._chat(request, script)
        record = self._take(chat, request.said[-1])
        times = self._checkpoints.times
        answered = time.perf_counter()
        greedy = self._worker.call(self.loaded.model.greedy, script.ids)
        ahead, settling = self._settle(chat)
        self._store.flush()
        return Answer(
            prompt=record.prompt_tokens,
            reused=record.reused_tokens,
            first=times[0] - began,
            gaps=gaps(times),
            after=answered - times[-1] + settling,
            ahead=ahead,
            greedy=greedy,
            memory=self._worker.call(self._checkpoints.nbytes),
            disk=inventory.total_bytes(self._folder),
            written=self._meter.total - before,
        )

    def _chat(self, request: Request, script: Script) -> TurnContext:
        """The chat at the place that the request goes on from; a new session where there is none."""
        before = request.said[:-1]
        found = (one for one in self._opened if before and before in one.places)
        held = next(found, None) or self._new(request.system)
        said = held.session.conversation
        said.head = held.places.get(before)
        self._noted = held.places, request.said
        sampling = Sampling(max_tokens=len(script))
        return TurnContext(held.session, said, held.template, self._checkpoints, sampling)

    def _new(self, system: str) -> Open:
        wanted = SessionRequest(system=system)
        session = opening.begin(SessionFolder(self._folder), wanted, "bench", self.loaded.name)
        date = session.conversation.date
        template = Template(self.loaded.tokenizer, date, None, self._memory)
        self._opened.append(Open(session, template, {}))
        return self._opened[-1]

    def _take(self, chat: TurnContext, text: str) -> TurnRecord:
        (record,) = [
            event.record for event in turn.take(chat, text, self._never) if isinstance(event, TurnDone)
        ]
        places, said = self._noted
        places[said] = chat.conversation.head or ""
        return record

    def _settle(self, chat: TurnContext) -> tuple[int, float]:
        """Tokens that were run for the reply as history shows it, and the seconds."""
        began = time.perf_counter()
        events = list(turn.settle(chat, self._never))
        ran = sum(event.tokens for event in events if isinstance(event, Settled))
        return ran, time.perf_counter() - began

    def place(self) -> tuple[Path, TokenPath]:
        """The folder, and the path of the last conversation."""
        last = self._opened[-1]
        said = last.session.conversation
        chat = TurnContext(last.session, said, last.template, self._checkpoints, Sampling())
        return self._folder, talk.path_of(chat)

    def draft(self, request: Request, script: Script) -> int:
        """Run the request's last message as it is done while it is typed. Returns its tokens."""
        chat = self._chat(request, script)
        done = [event.tokens for event in typeahead(chat, request.said[-1], self._never)]
        return max(done, default=0)

    def reopen(self, ahead: bool) -> None:
        """A new process opens the sessions; `ahead`: it restores the last one before anyone has typed."""
        self._leave()
        self._start()
        folder = SessionFolder(self._folder)
        for one in self._opened:
            one.session = folder.open(one.session.name)
        if self._opened and ahead:
            last = self._opened[-1]
            said = last.session.conversation
            self._settle(TurnContext(last.session, said, last.template, self._checkpoints, Sampling()))

    def _leave(self) -> None:
        for one in self._opened:
            one.session.close()
        self._store.tidy()
        self._store.close()

    def forget(self) -> None:
        self.close()
        self._begin()

    def close(self) -> None:
        self._leave()
        self._opened = []
        shutil.rmtree(self._folder)


class Drafted(Chatcli):
    """chatcli, with each message run while it was being typed: only Enter is waited for."""

    name = "chatcli, drafted"

    def ask(self, request: Request, script: Script) -> Answer:
        before = self._meter.total
        drafted = self.draft(request, script)
        answer = super().ask(request, script)
        written = self._meter.total - before
        return replace(answer, ahead=answer.ahead + drafted, written=written)
