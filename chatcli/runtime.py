"""A loaded model and its store: opens chats; refuses to know terminals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chatcli import cache_growth, device, hub, model, sampler, upkeep
from chatcli.checkpoints import Checkpoints
from chatcli.conversation import Conversation
from chatcli.memory import MemoryLimit
from chatcli.model import LoadedModel
from chatcli.settings import Sampling, Settings
from chatcli.store import files
from chatcli.store.budget import Budget, default_limit
from chatcli.store.images import Gallery
from chatcli.store.segments import SegmentStore
from chatcli.store.sessions import SessionFile
from chatcli.template import Memory, Template
from chatcli.turn import Chat
from chatcli.vision import Vision
from chatcli.worker import Worker


class Runtime:
    """One model, ready. Loading is slow: make it on the worker where someone waits."""

    def __init__(
        self,
        worker: Worker,
        settings: Settings,
        name: str,
        progress: Callable[[float], None] = lambda _: None,
        downloading: hub.Told = lambda _: None,
    ) -> None:
        """`progress` is told how much of the model is in memory, from 0 to 1, and `downloading` how
        much of it is on this machine, if that has to change. What they raise ends the loading.

        Raises `ModelError` as `model.load` does.
        """
        self.settings = settings
        self.loaded = worker.call(
            model.load, name, progress, downloading,
            trust_remote_code=settings.trust_remote_code, running=settings.running,
        )  # fmt: skip
        sampler.check(self.loaded.tokenizer, self.sampling)
        if self.loaded.processor is not None:
            gallery, version = Gallery(settings.sessions), model.VERSION
            vision = Vision(
                self.loaded.processor, self.loaded.tokenizer, gallery, worker.call, version
            )
            self.loaded = replace(self.loaded, vision=vision)
        self._memory = Memory.of(self.loaded.tokenizer)
        self._store: SegmentStore | None = None
        self._session: SessionFile | None = None
        if settings.cache:
            budget = _budget(settings, self._open_elsewhere)
            self._store = SegmentStore(settings.sessions, self.loaded.fingerprint, budget.written)
        worker.at_end(worker.call(device.hold, settings.memory_limit))
        memory = worker.call(_memory, self.loaded, settings.memory_limit)
        self._checkpoints = Checkpoints(worker, self.loaded, self._store, memory)

    def chat(self, session: SessionFile, think: bool | None) -> Chat:
        """`session` with this model. The live cache is shared: one chat at a time."""
        self._session = session
        return replace(self.unsaved(session.conversation, think), session=session)

    def unsaved(self, conversation: Conversation, think: bool | None) -> Chat:
        """A conversation that has no file yet: it can be drafted."""
        template = Template(
            self.loaded.tokenizer, conversation.date, think, self._memory,
            effort=conversation.effort, arguments=conversation.template_args,
            vision=self.loaded.vision,
        )  # fmt: skip
        return Chat(None, conversation, template, self._checkpoints, self.sampling)

    @property
    def variables(self) -> frozenset[str]:
        """What the model's chat template can be told."""
        return self._memory.variables

    @property
    def sampling(self) -> Sampling:
        """What was asked for, and the model's own for the rest."""
        return self.settings.sampling.over(self.loaded.sampling)

    def _open_elsewhere(self) -> set[str]:
        """The segments of sessions that are open in other processes; the writer's thread asks."""
        own = self._session
        own_path = own.path if own is not None else None
        return upkeep.open_segments(self.settings.sessions, own_path)

    def close(self) -> str | None:
        """Wait for what is being written. Returns what went wrong there and is not told yet."""
        if self._store is None:
            return None
        self._store.tidy()
        self._store.close()
        return self._store.take_problem()


def _memory(loaded: LoadedModel, limit: int | None) -> MemoryLimit | None:
    """What the model may take, and how its cache will grow; None where that cannot be told."""
    most = device.room() if limit is None else limit
    if most is None:
        return None
    try:
        growth = cache_growth.growth(loaded.model, loaded.running)
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError):
        return None  # a turn will say what this model cannot do
    return MemoryLimit(most, model.weights_size(loaded.model), growth)


def _budget(settings: Settings, open_elsewhere: Callable[[], set[str]]) -> Budget:
    """Raises `FolderError`."""
    folder, limit = settings.sessions, settings.cache_limit
    if limit is None:
        with files.explained(f"read the checkpoints in {folder}"):
            limit = default_limit(folder)
    return Budget(folder, limit, open_elsewhere)
