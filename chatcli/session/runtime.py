"""A loaded model with its checkpoints, which turns run on."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce

from chatcli import files
from chatcli.chat_format import renderer
from chatcli.chat_format.renderer import Stop
from chatcli.chat_format.template import Template, TemplateCache, tools_notice
from chatcli.checkpoints import distributed
from chatcli.checkpoints.checkpoints import Checkpoints
from chatcli.checkpoints.draft_model import Speculation
from chatcli.engine import known_costs
from chatcli.engine.known_costs import KnownCosts
from chatcli.engine.sampling import check_logit_bias
from chatcli.engine.speculative import speculation_limits
from chatcli.errors import DraftModelRefused, of_draft_model
from chatcli.events import Download
from chatcli.files import Location
from chatcli.kv import growth
from chatcli.kv.memory_limit import MemoryLimit
from chatcli.model import device, sharding
from chatcli.model.fingerprint import weight_bytes
from chatcli.model.load import MLX_LM_VERSION, LoadedModel, load
from chatcli.model.ranks import SINGLE_PROCESS, Ranks
from chatcli.model.vision import Vision
from chatcli.settings.values import Sampling, Settings
from chatcli.store import maintenance
from chatcli.store.segments.budget import Budget, default_limit
from chatcli.store.segments.segments import SegmentStore
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.log import SessionLog
from chatcli.threads.mlx_thread import Worker
from chatcli.turn.prompt import TurnContext

# Called with a model's name and its progress: the fraction in memory, from 0 to 1, or the state of its
# download.
LoadReport = Callable[[str, float | Download], None]


class Runtime:
    """One loaded model, its store and the live cache. Create it on the worker's thread, because that takes
    long.
    """

    def __init__(
        self,
        worker: Worker,
        settings: Settings,
        name: str,
        report: LoadReport = lambda name, state: None,
        ranks: Ranks = SINGLE_PROCESS,
        *,
        sessions: Location | None = None,
        from_session: bool = False,
    ) -> None:
        """Load the draft model of `settings`, if any, and then model `name`, or its shard with several
        `ranks`.

        `sessions` is the folder of `settings`, if it is already open. A name that comes `from_session` is not
        downloaded.

        An exception in `report` ends the loading. Raises `ModelError` as `load` and `speculation_limits` do,
        and `RankLost`.
        """
        self.settings = settings
        self._sessions = sessions or Location.of(settings.sessions)
        self._worker, self._ranks = worker, ranks
        draft_model: LoadedModel | None = None
        if settings.draft_model is not None:
            # It is small, so its errors come before the wait for the other model.
            with of_draft_model():
                draft_model = worker.call(self.load_draft_model, settings.draft_model, report)
        renderer.start()
        with distributed.loading(ranks, settings, name):
            self.loaded = worker.call(
                load,
                name,
                partial(report, name),
                partial(report, name),
                trust_remote_code=settings.trust_remote_code,
                model_options=settings.model_options,
                ranks=ranks,
                from_session=from_session,
            )
        check_logit_bias(self.loaded.tokenizer, self.sampling)
        if self.loaded.processor is not None:
            gallery, version = Gallery(self._sessions), MLX_LM_VERSION
            vision = Vision(self.loaded.processor, self.loaded.tokenizer, gallery, worker.call, version)
            self.loaded = replace(self.loaded, vision=vision)
        self._template_cache = TemplateCache.of(self.loaded.tokenizer)
        self._session: SessionLog | None = None
        self._budget: Budget | None = None
        if settings.cache:
            limit = settings.cache_limit
            if limit is None:
                with files.explained(f"read the checkpoints in {self._sessions}"):
                    limit = default_limit(self._sessions)
            self._budget = Budget(self._sessions, limit, self._open_elsewhere)
        self._store = self._open_store(self.loaded)
        worker.at_end(worker.call(device.hold, settings.memory_limit))
        costs = KnownCosts(self.loaded.fingerprint, known_costs.default_path())
        self.checkpoints = Checkpoints(worker, self.loaded, self._store, ranks=ranks, costs=costs)
        self._speculation: Speculation | None = None
        with of_draft_model():
            self.speculate_with(draft_model)

    def _open_store(self, loaded: LoadedModel) -> SegmentStore | None:
        """A model's store, within the limit for all models; None with `--no-cache`."""
        if self._budget is None:
            return None
        fingerprint = sharding.store_fingerprint(self._ranks, loaded.fingerprint)
        settings, written = self.settings, self._budget.written
        return SegmentStore(
            self._sessions, fingerprint, written, settings.recompute_seconds, settings.newest_state_bytes
        )

    def load_draft_model(self, name: str, report: LoadReport) -> LoadedModel:
        """Load a draft model, whose cache is quantized like the model's own but not limited in size.

        For the worker's thread. Raises `DraftModelRefused` if a draft model cannot be used, and as `load`
        does.
        """
        if self._ranks.size > 1:
            raise DraftModelRefused(
                "Draft models do not work with several ranks: leave it out, or run one process."
            )
        settings = self.settings
        model_options = replace(settings.model_options, max_kv_size=None, adapter_path=None)
        return load(
            name,
            partial(report, name),
            partial(report, name),
            trust_remote_code=settings.trust_remote_code,
            model_options=model_options,
            needs_chat_template=False,
        )

    def speculate_with(self, draft_model: LoadedModel | None) -> None:
        """Use a draft model, or none, from now on.

        Raises `DraftModelRefused`, and then keeps the previous one.
        """
        speculation, models = None, [self.loaded]
        if draft_model is not None:
            limits = self._worker.call(speculation_limits, self.loaded, draft_model)
            checkpoints = Checkpoints(self._worker, draft_model, self._open_store(draft_model))
            speculation = Speculation(self.loaded, checkpoints, self.settings.num_draft_tokens, limits)
            models.append(draft_model)
        if self._speculation is not None:
            self._speculation.close()
        self._speculation = speculation
        own = self._worker.call(_memory_limit, models, self.settings.memory_limit)
        self.checkpoints.memory = distributed.tightest_limit(self._ranks, own)

    def turn_context(self, session: SessionLog, think: bool | None, stop: Stop | None = None) -> TurnContext:
        """The context for a turn of `session`; `stop` ends its template. The live cache is shared: one turn
        at a time.
        """
        self._session, conversation = session, session.conversation
        template = Template(
            self.loaded.tokenizer,
            conversation.date or datetime.date.today().isoformat(),
            think,
            self._template_cache,
            effort=conversation.effort,
            arguments=conversation.template_args,
            vision=self.loaded.vision,
            stop=stop,
        )
        return TurnContext(session, template, self.checkpoints, self.sampling, self._speculation)

    def set_sampling(self, sampling: Sampling) -> None:
        """Use `sampling` from the next turn on."""
        self.settings = replace(self.settings, sampling=sampling)

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the model's chat template reads, besides the standard ones."""
        return self._template_cache.variables

    @property
    def adapted(self) -> Sequence[str]:
        """A clause for each part of a conversation that the chat template shows in another form."""
        return self._template_cache.adapted

    def tools_notice(self) -> str:
        """A sentence if the model cannot be shown tools or its calls cannot be read; else empty.

        Raises `TemplateRefused`.
        """
        return tools_notice(self.loaded.tokenizer, self._template_cache)

    @property
    def sampling(self) -> Sampling:
        """The sampling as set, and the model's generation_config for the rest."""
        return self.settings.sampling.over(self.loaded.sampling)

    def _open_elsewhere(self) -> set[str]:
        """The segments of sessions that are open in other processes. For the store's writer thread."""
        own = self._session  # the thread of turns changes it
        return maintenance.open_segments(self._sessions, None if own is None else own.location)

    def leave(self) -> int:
        """Write the rest of the conversation in the live cache.

        Returns these bytes plus those of files joined since.
        """
        if self._store is None:
            return 0
        self.checkpoints.leave()
        self._store.tidy()
        self._store.flush()
        size, self._store.upkeep_bytes = self._store.upkeep_bytes, 0
        return size

    def keep(self) -> None:
        """Write what the live caches hold of a conversation that was private."""
        self.checkpoints.keep()
        if self._speculation is not None:
            self._speculation.keep()

    def close(self) -> str | None:
        """Finish pending writes. Returns write errors that were not reported yet."""
        if self._speculation is not None:
            self._speculation.close()
        if self._store is None:
            return None
        self.leave()
        self._store.close()
        return self._store.take_problem()


def _memory_limit(models: Sequence[LoadedModel], limit: int | None) -> MemoryLimit | None:
    """The bytes that models may take together, and how their caches grow; None if unknown."""
    if limit is None:
        limit = device.room()
    if limit is None:
        return None
    try:
        caches = [growth.predict(each.model, each.model_options) for each in models]
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError):
        return None  # a turn will report what this model cannot do
    weights = sum(weight_bytes(each.model) for each in models)
    return MemoryLimit(limit, weights, reduce(operator.add, caches))
