"""A conversation of many short turns: what it takes on disk, what was written for it, mlx-lm beside it.

Refuses to know how it is shown. The turns are real ones, settled like a person's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import save_prompt_cache

from chatcli.chat_format.template import Template
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.kv import prompt_cache
from chatcli.kv.freeze import arrays_in
from chatcli.kv.prompt_cache import PromptCache
from chatcli.model.load import LoadedModel
from chatcli.session import opening
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling
from chatcli.store.segments import catalog, inventory
from chatcli.store.segments.catalog import ROWS_NAME
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.store.sessions.folder import SessionFolder
from chatcli.threads.mlx_thread import Worker
from chatcli.turn import turn
from chatcli.turn.prompt import TurnContext, render_history

LONGEST_REPLY = 16
SYSTEM = "You are a helpful assistant. Answer briefly and remember what you were told."
SAYINGS = (
    "My dog is called Biscuit.",
    "I live in Lisbon, by the river.",
    "What is my dog's name?",
    "7 and 5?",
    "And where do I live?",
    "Thank you. Say it once more, please.",
    "My sister Ana is a nurse.",
    "What does my sister do?",
)


@dataclass(frozen=True)
class Talk:
    """What one conversation took, in bytes.

    `cache_rows` is what the rows take in the model's cache at the last token, sliced to exactly that.
    `written` is everything that was written on the way, the joined files included. `peer_written` is
    what mlx-lm wrote that saved its cache after every turn, `peer_final` the last of these files.
    """

    turns: int
    tokens: int
    segments: int
    rows_files: int
    cache_rows: int
    rows: int
    states: int
    state_bytes: int
    written: int
    peer_written: int
    peer_final: int

    @property
    def rows_overhead(self) -> float:
        """Rows files against the rows in memory."""
        return self.rows / self.cache_rows if self.cache_rows else 1.0

    @property
    def rows_amplification(self) -> float:
        """What was written of rows against what is left of them: a state is never written twice."""
        return (self.written - self.state_bytes) / self.rows

    @property
    def amplification(self) -> float:
        return self.written / (self.rows + self.state_bytes)

    @property
    def peer_amplification(self) -> float:
        return self.peer_written / self.peer_final


@dataclass(frozen=True)
class Spoken:
    """A conversation that is on disk: its token path, and what it took."""

    folder: Path
    path: TokenPath
    talk: Talk


class Watched(Checkpoints):
    """Checkpoints whose live cache mlx-lm can save too."""

    def save(self, path: Path) -> int:
        """mlx-lm's own snapshot, as it would be made now. Returns its bytes."""
        self._worker.call(save_prompt_cache, str(path), self._cache)
        return path.stat().st_size


class Meter:
    """Counts every byte that a store writes: `written` is its callback, on its writer thread."""

    def __init__(self, folder: Path) -> None:
        self.total = 0
        self._folder = folder
        self._seen: set[Path] = set()

    def written(self, size: int, _: TokenPath) -> None:
        """A segment of `size` was written, and perhaps a file that joins it with others."""
        new = set(catalog.cache_files(self._folder)) - self._seen
        self._seen |= new
        self.total += size + sum(path.stat().st_size for path in new if _is_joined(path))


def _is_joined(path: Path) -> bool:
    parts = ROWS_NAME.fullmatch(path.name)
    return parts is not None and parts[2] != parts[3]


def speak(worker: Worker, loaded: LoadedModel, folder: Path, turns: int) -> Spoken:
    """Hold the conversation in `folder`, mlx-lm's snapshots in a file of their own beside it."""
    meter = Meter(catalog.model_folder(folder, loaded.fingerprint))
    store = SegmentStore(folder, loaded.fingerprint, meter.written)
    chat = _begin(folder, Watched(worker, loaded, store))
    try:
        peer = [_say(chat, number, folder / "peer.safetensors") for number in range(turns)]
        store.tidy()
        store.flush()
        path = path_of(chat)
        cache = restored(worker, loaded, store, path)
        talk = _took(folder, turns, path, cache, meter, peer)
        return Spoken(folder, path, talk)
    finally:
        chat.saved.close()
        store.close()


def _begin(folder: Path, checkpoints: Checkpoints) -> TurnContext:
    wanted = SessionRequest("talk", system=SYSTEM)
    session = opening.begin(SessionFolder(folder), wanted, "", checkpoints.loaded.name)
    said = session.conversation
    template = Template(checkpoints.loaded.tokenizer, said.date, None)
    return TurnContext(session, said, template, checkpoints, Sampling(max_tokens=LONGEST_REPLY))


def _say(chat: TurnContext, number: int, peer: Path) -> int:
    """One turn, settled. Returns the bytes of mlx-lm's snapshot after it."""
    never = threading.Event()
    deque(turn.take(chat, SAYINGS[number % len(SAYINGS)], never), maxlen=0)
    deque(turn.settle(chat, never), maxlen=0)
    assert isinstance(chat.checkpoints, Watched)
    return chat.checkpoints.save(peer)


def path_of(chat: TurnContext) -> TokenPath:
    """The settled conversation's path, in a prompt that goes on from there."""
    return render_history(chat, chat.conversation.path()[-1]).path


def restored(worker: Worker, loaded: LoadedModel, store: SegmentStore, path: TokenPath) -> PromptCache:
    """A cache of the model's, filled from disk: as many rows as there are tokens."""
    cache: PromptCache = worker.call(prompt_cache.new, loaded.model)
    stateful = prompt_cache.has_state(cache)
    state, scalars = store.state(path[-1]) if stateful else ({}, "{}")
    with store.rows(path) as rows:
        worker.call(prompt_cache.fill, cache, rows, state, scalars)
    return cache


def arrays_of(cache: PromptCache) -> dict[str, Any]:
    """Every array of a cache, numbered, without the room for more rows. For MLX's thread."""
    found = [
        mx.contiguous(part[..., : leaf.offset, :]) if type(leaf) in prompt_cache.OFFSET_CACHES else part
        for leaf in prompt_cache.leaves(cache)
        for part in arrays_in(leaf)
    ]
    mx.eval(found)
    return {f"{number}": part for number, part in enumerate(found)}


def _took(
    folder: Path,
    turns: int,
    path: TokenPath,
    cache: PromptCache,
    meter: Meter,
    peer: Sequence[int],
) -> Talk:
    (use,) = inventory.usage(folder)
    with_rows = [leaf for leaf in prompt_cache.leaves(cache) if not prompt_cache.has_state([leaf])]
    return Talk(
        turns=turns,
        tokens=path.end,
        segments=use.segments,
        rows_files=use.rows_files,
        cache_rows=sum(part.nbytes for part in arrays_of(with_rows).values()),
        rows=use.rows_bytes,
        states=use.states,
        state_bytes=use.state_bytes,
        written=meter.total,
        peer_written=sum(peer),
        peer_final=peer[-1],
    )
