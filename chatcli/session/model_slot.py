"""The current model: loaded in the background, and replaced while the shell runs."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from chatcli import files
from chatcli.errors import ChatcliError, RankLost, UsageError, of_draft_model
from chatcli.events import Download
from chatcli.files import Location
from chatcli.model import device, locate
from chatcli.model.ranks import SINGLE_PROCESS, Ranks
from chatcli.session.background import BackgroundWork
from chatcli.settings.values import ModelOptions, Sampling, Settings, aliased, names_folder
from chatcli.text import clean_line
from chatcli.threads.mlx_thread import Worker

if TYPE_CHECKING:
    from chatcli.session.runtime import Runtime

T = TypeVar("T")
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class ModelSlot:
    """One model at a time, loaded on the thread that owns MLX; `wait` returns it as a `Runtime`.

    `name` is the model's, `settings` are what it is run with. `abandoned`: the slot was closed while a model
    was still loading, which cannot be interrupted.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        options: ModelOptions,
        background: BackgroundWork,
        check_variables: Callable[[frozenset[str]], None],
        ranks: Ranks = SINGLE_PROCESS,
        *,
        sessions: Location | None = None,
        load_at_once: bool = True,
        from_session: bool = False,
    ) -> None:
        """Start to load model `name` with `options`, which may come from a session.

        Unless `load_at_once`, loading starts with `load` or the first wait for the model. A name that comes
        `from_session` is not downloaded. `sessions` is the folder of `settings`, if it is already open.

        `check_variables` is called with the variables that the model's chat template reads, and raises
        `UsageError` to refuse the model. `ranks` are the processes that each have a shard of the model.
        """
        self.settings = replace(settings, model_options=options)
        self.name = name
        self._sessions = sessions
        self.abandoned = False
        # The model options given for this run, for all sessions that it opens.
        self._asked_options = settings.model_options
        self._background = background
        self._check_variables = check_variables
        self._ranks = ranks
        self._worker = Worker(may_be_lost=ranks.size > 1)
        ranks.on_lost(self._worker.lose)
        self._download: Download | None = None
        self._cancelled: threading.Event | None = None
        self._changing: Future[Runtime] | None = None
        self._may_load = threading.Event()
        if load_at_once:
            self._may_load.set()
        self._abandon_loading = threading.Event()
        self._from_session = from_session
        self._loading = self._load(name, self.settings, self._abandon_loading, from_session)

    def _load(
        self, name: str, settings: Settings, cancelled: threading.Event, from_session: bool
    ) -> Future[Runtime]:
        self._background.report(f"loading {base_name(name)}…")
        return self._worker.submit(self._open, name, settings, cancelled, from_session)

    def _open(self, name: str, settings: Settings, cancelled: threading.Event, from_session: bool) -> Runtime:
        """Raises `ModelError`, `UsageError`, and `KeyboardInterrupt` once `cancelled` is set."""
        try:
            self._may_load.wait()
            if cancelled.is_set():
                raise KeyboardInterrupt
            from chatcli.session.runtime import Runtime

            runtime = Runtime(
                self._worker,
                settings,
                name,
                partial(self._report_loading, cancelled),
                self._ranks,
                sessions=self._sessions,
                from_session=from_session,
            )
            try:
                self._check_variables(runtime.variables)
            except UsageError:
                runtime.close()
                raise
            return runtime
        finally:
            self._report("", None)

    def check_name(self) -> None:
        """Raises `ModelNotFound` if a model or draft model is missing, as far as can be known without
        loading.
        """
        locate.check(self.name, from_session=self._from_session)
        if self.settings.draft_model is not None:
            with of_draft_model():
                locate.check(self.settings.draft_model)

    def download_size(self) -> int | None:
        """The bytes that loading the model downloads, None if some of it is here. Raises `ModelNotFound`."""
        return locate.download_size(self.name, from_session=self._from_session)

    def load(self) -> None:
        """Start to load the model, if that was deferred."""
        self._may_load.set()

    def _report(self, activity: str, download: Download | None) -> None:
        self._download = download
        self._background.report(activity)

    def _report_loading(self, cancelled: threading.Event, name: str, state: float | Download) -> None:
        """Report how much of a model is in memory. Raises `KeyboardInterrupt` if `cancelled`."""
        if cancelled.is_set():
            raise KeyboardInterrupt
        if isinstance(state, Download):
            self._report(f"downloading {base_name(name)}… {state}", state)
        else:
            self._report(f"loading {base_name(name)}… {state * 100:.0f} %", None)

    @property
    def loading(self) -> bool:
        """Whether the first model is still being loaded."""
        return not self._loading.done()

    @property
    def changing(self) -> bool:
        """Whether another model is being loaded, even if that was just cancelled."""
        return self._changing is not None and not self._changing.done()

    @property
    def _ready(self) -> Runtime | None:
        """The model if it is loaded; None while it loads or if that failed."""
        ready = self._loading.done() and self._loading.exception() is None
        return self._loading.result() if ready else None

    def wait(self, cancelled: threading.Event | None = None) -> Runtime:
        """The loaded model.

        Raises `ModelError` or `UsageError` if it cannot be loaded, `KeyboardInterrupt` if `cancelled`.
        """
        self.load()
        return _result(self._loading, cancelled)

    def downloads(self, cancelled: threading.Event) -> Iterator[Download]:
        """Yield the download's progress several times a second, until the model is loaded."""
        self.load()
        while self.loading and not cancelled.is_set():
            if self._download is not None:
                yield self._download
            concurrent.futures.wait([self._loading], timeout=0.1)

    def on_failure(self, leave: Callable[[Exception], None]) -> None:
        """Call `leave`, on another thread, if the model cannot be loaded or a rank is lost."""

        def check(loading: Future[Runtime]) -> None:
            error = loading.exception()
            if isinstance(error, (ChatcliError, RankLost)):
                leave(error)

        self._loading.add_done_callback(check)
        self._ranks.on_lost(leave)

    # Facts about the model

    def template_variables(self) -> frozenset[str]:
        """The variables that the model's chat template reads. Waits for the model, as `change` does."""
        return self.wait(self._cancelled).variables

    def context_size(self) -> int | None:
        """The context's size in tokens, for prompt and reply; None while the model loads."""
        return None if (runtime := self._ready) is None else runtime.loaded.context

    def memory_room(self) -> int | None:
        """The bytes that a model may take, read on its thread. None while the model loads or if unknown."""
        return None if self._ready is None else self._worker.call(device.room)

    @property
    def sampling(self) -> Sampling:
        """As set, and for the rest by the model's generation_config, once it is loaded."""
        return self.settings.sampling if (runtime := self._ready) is None else runtime.sampling

    # Changing the model

    def set_sampling(self, sampling: Sampling) -> None:
        """Use `sampling` from the next message on."""
        self.settings = replace(self.settings, sampling=sampling)

        def apply(loading: Future[Runtime]) -> None:
            if loading.exception() is None:
                loading.result().set_sampling(self.settings.sampling)

        self._loading.add_done_callback(apply)

    def cancel_on(self, cancelled: threading.Event) -> None:
        """Let `cancelled` end waits for a model, in `change`, `change_draft_model` and others."""
        self._cancelled = cancelled

    def change(
        self, name: str, kept: Mapping[str, Any] = NO_OPTIONS, *, from_session: bool = False
    ) -> list[str]:
        """Load another model, or the same one with the options `kept` by a session.

        A model whose name comes `from_session` is not downloaded, and permission to run the first model's
        code does not extend to its code. Returns write errors of the previous model's checkpoints that were
        not reported yet. Raises `ModelError`, `UsageError`, or `KeyboardInterrupt` if cancelled, and then
        keeps the previous model.
        """
        name = aliased(name, self.settings.models)
        if not from_session:
            name = absolute(name)
        options = self._asked_options.resumed(kept, NO_OPTIONS)
        if (name, options) == (self.name, self.settings.model_options):
            return []
        if self._ranks.size > 1:
            raise UsageError("Ranks share one model: leave, and start them with another -m.")
        self._background.stop()
        cancelled = threading.Event()
        settings = replace(self.settings, model_options=options)
        if from_session:
            settings = replace(settings, trust_remote_code=False)
        loading = self._load(name, settings, cancelled, from_session)
        self._changing = loading
        try:
            _result(loading, self._cancelled)
        except KeyboardInterrupt:
            cancelled.set()
            self._background.report("")
            loading.add_done_callback(_close)
            raise
        self._changing = None
        problem = before.close() if (before := self._ready) is not None else None
        self._loading, self.name, self._from_session = loading, name, from_session
        self.settings = replace(self.settings, model_options=options)
        return [problem] if problem else []

    def change_draft_model(self, name: str | None) -> None:
        """Load another draft model for speculative decoding, or use none.

        Raises `ModelError`, or `KeyboardInterrupt` if cancelled, and then keeps the previous one.
        """
        runtime = self.wait(self._cancelled)
        self._background.stop()
        draft_model = None
        if name is not None:
            cancelled = threading.Event()
            report = partial(self._report_loading, cancelled)
            loading = self._worker.submit(runtime.load_draft_model, name, report)
            try:
                draft_model = _result(loading, self._cancelled)
            finally:
                cancelled.set()
                self._report("", None)
        runtime.speculate_with(draft_model)
        self.settings = replace(self.settings, draft_model=name)

    def leave(self) -> int:
        """`Runtime.leave`, if there is a model."""
        return 0 if self.changing or (runtime := self._ready) is None else runtime.leave()

    def keep(self) -> None:
        """`Runtime.keep`, where there is a model."""
        if not self.changing and (runtime := self._ready) is not None:
            runtime.keep()

    def abandon(self) -> None:
        """Close the slot while a model is still loading: its thread ends then, or with the process."""
        self.abandoned = True
        self._worker.leave()
        self._abandon_loading.set()
        self.load()

    def close(self) -> str | None:
        """Finish pending writes and end the thread.

        Returns write errors that were not reported yet.
        """
        problem = runtime.close() if (runtime := self._ready) is not None else None
        if self.changing:
            self.abandon()
        else:
            self._worker.close()
        return problem


def absolute(name: str) -> str:
    """A model folder's absolute path, so that its session opens from anywhere; other names unchanged."""
    folder = files.from_home(name)
    try:
        is_folder = names_folder(name) and folder.is_dir()
    except OSError:
        is_folder = False
    return str(folder.resolve()) if is_folder else name


def base_name(model: str) -> str:
    """A model's name without its folder or owner."""
    return clean_line(Path(model).name)


def _result(loading: Future[T], cancelled: threading.Event | None) -> T:
    """Wait for loading, in short steps so that an interrupt is noticed.

    Raises what loading raises, and `KeyboardInterrupt` if `cancelled`.
    """
    while cancelled is None or not cancelled.is_set():
        if concurrent.futures.wait([loading], timeout=0.1).done:
            return loading.result()
    raise KeyboardInterrupt


def _close(loading: Future[Runtime]) -> None:
    """Release a model that was loaded after its change was cancelled."""
    if loading.exception() is None:
        loading.result().close()
