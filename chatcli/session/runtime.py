"""A loaded model and its store: opens chats; refuses to know terminals."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import reduce

from chatcli import files
from chatcli.chat_format.template import Memory, Template
from chatcli.checkpoints import sharing
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.checkpoints.draft_model import Speculation
from chatcli.conversation.tree import Conversation
from chatcli.engine import speculative
from chatcli.engine.sampling import check
from chatcli.errors import DraftModelRefused, ModelError
from chatcli.kv import growth
from chatcli.kv.memory_limit import MemoryLimit
from chatcli.model import device, hub
from chatcli.model.load import VERSION, LoadedModel, load, weights_size
from chatcli.model.ranks import Ranks
from chatcli.model.vision import Vision
from chatcli.settings.values import Sampling, Settings
from chatcli.store import maintenance
from chatcli.store.segments.budget import Budget, default_limit
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.folder import SessionFile
from chatcli.store.sessions.images import Gallery
from chatcli.threads.mlx_thread import Worker
from chatcli.turn.prompt import TurnContext


class Runtime:
    """One model, ready. Loading is slow: make it on the worker where someone waits."""

    def __init__(
        self,
        worker: Worker,
        settings: Settings,
        name: str,
        progress: Callable[[float], None] = lambda _: None,
        downloading: hub.DownloadCallback = lambda _: None,
        loading: Callable[[str], None] = lambda _: None,
        ranks: Ranks | None = None,
    ) -> None:
        """`progress` is told how much of a model is in memory, from 0 to 1, and `downloading` how
        much of it is on this machine, if that has to change; `loading` is told its name before: there
        may be a draft model. What they raise ends the loading.

        With `ranks` it is this rank's shard. Raises `ModelError` as `model.load` and
        `engine_speculative.fit` do, and `RankLost`.
        """
        self.settings = settings
        self._worker, self._ranks = worker, ranks
        drafting: LoadedModel | None = None
        if settings.draft_model is not None:
            self._may_speculate()
            # It is small: what is wrong with it is told before the wait for the other.
            loading(settings.draft_model)
            drafting = worker.call(self._draft_model, settings.draft_model, progress, downloading)
        loading(name)
        with contextlib.nullcontext() if ranks is None else sharing.loading(ranks, settings, name):
            self.loaded = worker.call(
                load,
                name,
                progress,
                downloading,
                trust_remote_code=settings.trust_remote_code,
                model_options=settings.model_options,
                ranks=ranks,
            )
        check(self.loaded.tokenizer, self.sampling)
        if self.loaded.processor is not None:
            gallery, version = Gallery(settings.sessions), VERSION
            vision = Vision(self.loaded.processor, self.loaded.tokenizer, gallery, worker.call, version)
            self.loaded = replace(self.loaded, vision=vision)
        self._memory = Memory.of(self.loaded.tokenizer)
        self._session: SessionFile | None = None
        self._budget = _budget(settings, self._open_elsewhere) if settings.cache else None
        self._store = self._open_store(self.loaded)
        worker.at_end(worker.call(device.hold, settings.memory_limit))
        self._speculation: Speculation | None = None
        if ranks is None:
            self.checkpoints = Checkpoints(worker, self.loaded, self._store)
            self.speculate_with(drafting)
        else:
            memory = worker.call(_memory, [self.loaded], settings.memory_limit)
            self.checkpoints = sharing.checkpoints(ranks, worker, self.loaded, self._store, memory)

    def _open_store(self, loaded: LoadedModel) -> SegmentStore | None:
        """A store for a model, within the limit of all."""
        if self._budget is None:
            return None
        kept = sharing.kept_by(self._ranks, loaded.fingerprint)
        return SegmentStore(self.settings.sessions, kept, self._budget.written)

    def _may_speculate(self) -> None:
        """Raises `DraftModelRefused` where there cannot be a draft model."""
        if self._ranks is not None:
            raise DraftModelRefused("Ranks have no draft model: leave out --draft-model, or run one process.")

    def load_draft_model(
        self, name: str, progress: Callable[[float], None], downloading: hub.DownloadCallback
    ) -> Future[LoadedModel]:
        """Load a draft model on the thread of the model."""
        return self._worker.submit(self._draft_model, name, progress, downloading)

    def _draft_model(
        self, name: str, progress: Callable[[float], None], downloading: hub.DownloadCallback
    ) -> LoadedModel:
        """One whose cache is quantized as the model's own is, and whole. Raises as `model.load`."""
        settings = self.settings
        model_options = replace(settings.model_options, max_kv_size=None, adapter_path=None)
        try:
            return load(
                name,
                progress,
                downloading,
                trust_remote_code=settings.trust_remote_code,
                model_options=model_options,
                talks=False,
            )
        except ModelError as error:
            raise type(error)(f"--draft-model: {error}") from error

    def speculate_with(self, drafting: LoadedModel | None) -> None:
        """Have a draft model propose tokens from now on, or none.

        Raises `DraftModelRefused`, and keeps the one before.
        """
        self._may_speculate()
        made, models = None, [self.loaded]
        if drafting is not None:
            fit = self._worker.call(speculative.fit, self.loaded, drafting)
            kept = Checkpoints(self._worker, drafting, self._open_store(drafting))
            made = Speculation(self.loaded, kept, self.settings.num_draft_tokens, fit)
            models.append(drafting)
        if self._speculation is not None:
            self._speculation.close()
        self._speculation = made
        limit = self.settings.memory_limit
        self.checkpoints.memory = self._worker.call(_memory, models, limit)

    def chat(self, session: SessionFile, think: bool | None) -> TurnContext:
        """`session` with this model. The live cache is shared: one chat at a time."""
        self._session = session
        return replace(self.unsaved(session.conversation, think), session=session)

    def unsaved(self, conversation: Conversation, think: bool | None) -> TurnContext:
        """A conversation that has no file yet: it can be drafted."""
        template = Template(
            self.loaded.tokenizer,
            conversation.date,
            think,
            self._memory,
            effort=conversation.effort,
            arguments=conversation.template_args,
            vision=self.loaded.vision,
        )
        return TurnContext(
            None,
            conversation,
            template,
            self.checkpoints,
            self.sampling,
            speculation=self._speculation,
        )

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
        return maintenance.open_segments(self.settings.sessions, own_path)

    def close(self) -> str | None:
        """Wait for what is being written. Returns what went wrong there and is not told yet."""
        if self._speculation is not None:
            self._speculation.close()
        if self._store is None:
            return None
        self._store.tidy()
        self._store.close()
        return self._store.take_problem()


def _memory(models: Sequence[LoadedModel], limit: int | None) -> MemoryLimit | None:
    """What the models may take, and how their caches will grow; None where that cannot be told."""
    most = device.room() if limit is None else limit
    if most is None:
        return None
    try:
        grown = [growth.predict(one.model, one.model_options) for one in models]
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError):
        return None  # a turn will say what this model cannot do
    weights = sum(weights_size(one.model) for one in models)
    return MemoryLimit(most, weights, reduce(operator.add, grown))


def _budget(settings: Settings, open_elsewhere: Callable[[], set[str]]) -> Budget:
    """Raises `FolderError`."""
    folder, limit = settings.sessions, settings.cache_limit
    if limit is None:
        with files.explained(f"read the checkpoints in {folder}"):
            limit = default_limit(folder)
    return Budget(folder, limit, open_elsewhere)
