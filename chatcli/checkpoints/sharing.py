"""What it adds to loading a model that others have a shard of it; refuses to know conversations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.checkpoints.distributed import LeadingCheckpoints, SharedCheckpoints
from chatcli.errors import ModelBroken
from chatcli.kv.memory_limit import MemoryLimit, TightestLimit
from chatcli.model import sharding
from chatcli.model.load import LoadedModel
from chatcli.model.ranks import Ranks
from chatcli.settings.values import Settings
from chatcli.store.segments.segments import SegmentStore
from chatcli.threads.mlx_thread import Worker


@contextlib.contextmanager
def loading(ranks: Ranks, settings: Settings, name: str) -> Iterator[None]:
    """Load with the other ranks, who are told to by rank 0. Raises `ModelBroken` or `RankLost`."""
    if ranks.leads:
        ranks.meet(sharding.share)
        ranks.order("load", _from_home(name), asdict(settings.model_options), settings.cache)
    if settings.model_options.adapter_path is not None:
        raise ModelBroken(sharding.NO_ADAPTERS)
    with ranks.explained():
        yield


def _from_home(name: str) -> str:
    """A model's name as other machines know it, where one may be called otherwise."""
    path, home = Path(name), Path.home()
    inside = path.is_absolute() and path.is_relative_to(home)
    return str("~" / path.relative_to(home)) if inside else name


def kept_by(ranks: Ranks | None, fingerprint: str) -> str:
    """Whose segments this process keeps."""
    return sharding.shard(fingerprint, ranks.rank if ranks is not None else 0)


def checkpoints(
    ranks: Ranks,
    worker: Worker,
    loaded: LoadedModel,
    store: SegmentStore | None,
    memory: MemoryLimit | None,
) -> Checkpoints:
    """This rank's. The machine with the least memory decides for all."""
    limits = ranks.gather(None if memory is None else asdict(memory))
    known = tuple(MemoryLimit.from_dict(limit) for limit in limits if limit is not None)
    made = LeadingCheckpoints if ranks.leads else SharedCheckpoints
    return made(ranks, worker, loaded, store, TightestLimit(known) if known else None)
