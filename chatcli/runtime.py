"""A loaded model and its store: opens chats; refuses to know terminals."""

from __future__ import annotations

from chatcli import model
from chatcli.checkpoints import Checkpoints
from chatcli.settings import Settings
from chatcli.store.segments import SegmentStore
from chatcli.store.sessions import SessionFile
from chatcli.template import Template
from chatcli.turn import Chat
from chatcli.worker import Worker


class Runtime:
    """One model, ready. Loading is slow: make it on the worker where someone waits."""

    def __init__(self, worker: Worker, settings: Settings, name: str) -> None:
        """Raises `ModelError` as `model.load` does."""
        self.settings = settings
        self.loaded = worker.call(model.load, name)
        self._store: SegmentStore | None = None
        if settings.cache:
            self._store = SegmentStore(settings.sessions, self.loaded.fingerprint)
        self._checkpoints = Checkpoints(worker, self.loaded, self._store)

    def chat(self, session: SessionFile, think: bool | None) -> Chat:
        """`session` with this model. The live cache is shared: one chat at a time."""
        template = Template(self.loaded.tokenizer, session.conversation.date, think)
        return Chat(session, template, self._checkpoints, self.settings.sampling)

    def close(self) -> None:
        """Wait for what is being written."""
        if self._store is not None:
            self._store.close()
