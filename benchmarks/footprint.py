"""The disk use of a conversation of many short turns, and of mlx-lm's own cache file.

Every turn is really generated and settled, so the bytes are those of a real conversation.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import save_prompt_cache

from chatcli.bench import workloads
from chatcli.bench.ours import RECOMPUTE_SECONDS
from chatcli.chat_format.template import Template
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.kv import prompt_cache
from chatcli.kv.freeze import arrays_in
from chatcli.kv.leaf import OffsetRows, leaves, rows_in
from chatcli.kv.prompt_cache import PromptCache
from chatcli.model.load import LoadedModel
from chatcli.settings.values import Sampling
from chatcli.store.segments import inventory
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.segments.token_path import TokenPath
from chatcli.store.sessions.folder import SessionFolder
from chatcli.threads.mlx_thread import Worker
from chatcli.turn import turn
from chatcli.turn.prompt import TurnContext, render_history

MAX_REPLY_TOKENS = 16


@dataclass(frozen=True)
class Footprint:
    """One conversation's disk use in bytes.

    `cache_rows` is the size of the rows in the model's cache at the last token, sliced to the token count.
    `written` is everything written along the way, including joined files. `peer_written` is what mlx-lm
    wrote, saving its cache after every turn, and `peer_final` the last of these files.
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
        """The size of rows files relative to the rows in memory."""
        return self.rows / self.cache_rows if self.cache_rows else 1.0


@dataclass(frozen=True)
class StoredConversation:
    """A conversation on disk: its token path and its footprint."""

    folder: Path
    path: TokenPath
    footprint: Footprint


class SavableCheckpoints(Checkpoints):
    """Checkpoints whose live cache mlx-lm can also save."""

    def save(self, path: Path) -> int:
        """Write mlx-lm's snapshot of the live cache. Returns its bytes."""
        self.worker.call(save_prompt_cache, str(path), self.live.cache)
        return path.stat().st_size


def converse(worker: Worker, loaded: LoadedModel, folder: Path, turns: int) -> StoredConversation:
    """Have the conversation in `folder`, with mlx-lm's snapshots in a file beside it."""
    store = SegmentStore(folder, loaded.fingerprint, recompute_seconds=RECOMPUTE_SECONDS)
    checkpoints = SavableCheckpoints(worker, loaded, store)
    session = SessionFolder(folder).create("talk", model=loaded.name, system=workloads.SYSTEM)
    try:
        conversation = session.conversation
        template = Template(loaded.tokenizer, conversation.date, None)
        sampling = Sampling(max_tokens=MAX_REPLY_TOKENS)
        context = TurnContext(session, template, checkpoints, sampling)
        never = threading.Event()
        snapshots = []
        for number in range(turns):
            text = workloads.USER_MESSAGES[number % len(workloads.USER_MESSAGES)]
            deque(turn.take(context, text, never), maxlen=0)
            deque(turn.settle(context, never), maxlen=0)
            snapshots.append(checkpoints.save(folder / "peer.safetensors"))
        checkpoints.leave()
        store.tidy()
        store.flush()
        path = path_of(context)
        cache = restored(worker, loaded, store, path)
        (use,) = inventory.usage(folder)
        with_rows = [leaf.cache for leaf in rows_in(cache)]
        footprint = Footprint(
            turns=turns,
            tokens=path.end,
            segments=use.segments,
            rows_files=use.rows_files,
            cache_rows=sum(array.nbytes for array in arrays_of(with_rows).values()),
            rows=use.rows_bytes,
            states=use.states,
            state_bytes=use.state_bytes,
            written=store.written_bytes,
            peer_written=sum(snapshots),
            peer_final=snapshots[-1],
        )
        return StoredConversation(folder, path, footprint)
    finally:
        session.close()
        store.close()


def path_of(context: TurnContext) -> TokenPath:
    """The settled conversation's path, in a prompt that continues it."""
    return render_history(context, context.conversation.path()[-1]).path


def restored(worker: Worker, loaded: LoadedModel, store: SegmentStore, path: TokenPath) -> PromptCache:
    """A new cache for the model, filled from disk with the rows and state of `path`."""
    cache: PromptCache = worker.call(prompt_cache.new, loaded.model)
    stateful = prompt_cache.is_stateful(cache)
    state, scalars = store.state(path[-1]) if stateful else ({}, "{}")
    with store.rows(path) as rows:
        worker.call(prompt_cache.fill, cache, rows, state, scalars)
    return cache


def arrays_of(cache: PromptCache) -> dict[str, Any]:
    """Every array of a cache by its index, sliced to the tokens it holds. Call on MLX's thread."""
    arrays = [
        mx.contiguous(array[..., : leaf.cache.offset, :]) if isinstance(leaf, OffsetRows) else array
        for leaf in leaves(cache)
        for array in arrays_in(leaf.cache)
    ]
    mx.eval(arrays)
    return {f"{index}": array for index, array in enumerate(arrays)}
