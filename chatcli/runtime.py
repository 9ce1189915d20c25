"""A loaded model and its store: opens chats; refuses to know terminals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from chatcli import cache_growth, device, engine_speculative, hub, model, sampler, upkeep
from chatcli.checkpoints import Checkpoints
from chatcli.conversation import Conversation
from chatcli.errors import ModelError
from chatcli.memory import Growth, MemoryLimit
from chatcli.model import LoadedModel
from chatcli.settings import Sampling, Settings
from chatcli.speculative import Speculation
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
        loading: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`progress` is told how much of a model is in memory, from 0 to 1, and `downloading` how
        much of it is on this machine, if that has to change; `loading` is told its name before: there
        may be a draft model. What they raise ends the loading.

        Raises `ModelError` as `model.load` and `engine_speculative.fit` do.
        """
        self.settings = settings
        drafting: LoadedModel | None = None
        if settings.draft_model is not None:
            loading(settings.draft_model)
            drafting = worker.call(
                _draft_model, settings.draft_model, settings, progress, downloading
            )
        loading(name)
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
        self._session: SessionFile | None = None
        models = [self.loaded]
        if drafting is not None:
            fit = worker.call(engine_speculative.fit, self.loaded, drafting)
            models.append(drafting)
        self._stores = self._open_stores(models) if settings.cache else []
        worker.at_end(worker.call(device.hold, settings.memory_limit))
        memory = worker.call(_memory, models, settings.memory_limit)
        own, drafted = [*self._stores, None, None][:2]
        self._checkpoints = Checkpoints(worker, self.loaded, own, memory)
        self._speculation: Speculation | None = None
        if drafting is not None:
            kept = Checkpoints(worker, drafting, drafted)
            self._speculation = Speculation(kept, settings.num_draft_tokens, fit)

    def _open_stores(self, models: Sequence[LoadedModel]) -> list[SegmentStore]:
        """A store for each model, within one limit."""
        folder, budget = self.settings.sessions, _budget(self.settings, self._open_elsewhere)
        return [SegmentStore(folder, one.fingerprint, budget.written) for one in models]

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
        return Chat(
            None, conversation, template, self._checkpoints, self.sampling,
            speculation=self._speculation,
        )  # fmt: skip

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
        problems = []
        for store in self._stores:
            store.tidy()
            store.close()
            problems.append(store.take_problem())
        return next(filter(None, problems), None)


def _draft_model(
    name: str, settings: Settings, progress: Callable[[float], None], downloading: hub.Told
) -> LoadedModel:
    """The draft model, with a cache that is quantized as the model's own is, and whole."""
    running = replace(settings.running, max_kv_size=None, adapter_path=None)
    try:
        return model.load(
            name, progress, downloading, trust_remote_code=settings.trust_remote_code,
            running=running, talks=False,
        )  # fmt: skip
    except ModelError as error:
        raise type(error)(f"--draft-model: {error}") from error


def _memory(models: Sequence[LoadedModel], limit: int | None) -> MemoryLimit | None:
    """What the models may take, and how their caches will grow; None where that cannot be told."""
    most = device.room() if limit is None else limit
    if most is None:
        return None
    try:
        grown = [cache_growth.growth(one.model, one.running) for one in models]
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError):
        return None  # a turn will say what this model cannot do
    weights = sum(model.weights_size(one.model) for one in models)
    return MemoryLimit(most, weights, reduce(Growth.beside, grown))


def _budget(settings: Settings, open_elsewhere: Callable[[], set[str]]) -> Budget:
    """Raises `FolderError`."""
    folder, limit = settings.sessions, settings.cache_limit
    if limit is None:
        with files.explained(f"read the checkpoints in {folder}"):
            limit = default_limit(folder)
    return Budget(folder, limit, open_elsewhere)
