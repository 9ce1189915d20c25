"""What a shell holds open: session, model, settings; refuses to know the terminal."""

from __future__ import annotations

import concurrent.futures
import datetime
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation
from chatcli.errors import ChatcliError, FolderError, RankLost, UsageError
from chatcli.events import Download, Event, PrefillProgress, PrefixMatched, Settled
from chatcli.model import vision
from chatcli.model.ranks import Ranks
from chatcli.session import editing, opening, template_settings
from chatcli.session.loading import Loading, absolute, short, wait
from chatcli.session.opening import SessionRequest
from chatcli.settings.values import Sampling, Settings, aliased
from chatcli.store.segments import readahead
from chatcli.store.sessions.folder import SessionFile, SessionFolder, recovered
from chatcli.text import decodable, shorten
from chatcli.threads.executor import SerialExecutor
from chatcli.threads.mlx_thread import Worker

if TYPE_CHECKING:
    from chatcli.session.runtime import Runtime
    from chatcli.turn.turn import TurnContext


# More tokens than a reply usually has: the conversation itself is run again.
MANY = 512
# What begins a summary that stands in a system prompt for the turns before.
SUMMARY = "Summary of the conversation so far:"
NOTHING: Mapping[str, Any] = MappingProxyType({})
NOTHING_YET = "There is no conversation yet: say something first."


class State:
    """A shell's session and model. The model loads behind it; `chat()` waits for it."""

    def __init__(
        self, settings: Settings, wanted: SessionRequest, model: str | None, ranks: Ranks | None = None
    ) -> None:
        """`ranks`: the others that have a shard of the model each, if there are any."""
        self.settings = settings
        self._ranks = ranks
        self.folder = SessionFolder(settings.sessions)
        self.wanted = wanted
        self.think = settings.think
        self.session = opening.open_existing(self.folder, wanted)
        self.activity = ""
        self.catching_up = False
        self.abandoned = False
        # The replies that `/choose` chooses from, while one of them is the head.
        self.choices: tuple[str, ...] = ()
        # What `/image` has put to the next message, and the message that it takes the place of.
        self.images: tuple[Image, ...] = ()
        self.editing: editing.Editing | None = None
        self._worker = Worker(may_be_lost=ranks is not None)
        if ranks is not None:
            ranks.on_lost(self._worker.lose)
        self._behind = SerialExecutor("chatcli-behind")
        self._settling: Future[None] | None = None
        self._stop_settling = threading.Event()
        self._drafting: Future[None] | None = None
        self._stop_drafting = threading.Event()
        self._closing = threading.Event()
        self._changing: Future[Runtime] | None = None
        self._download: Download | None = None
        # Set by whoever runs a command: it stops what the command waits for.
        self.stopping: threading.Event | None = None
        # How this run was told to run a model, whatever sessions it opens.
        self._model_options = settings.model_options
        kept = self.session.conversation if self.session else None
        if kept is not None and not model:
            model_options = settings.model_options.resumed(kept.model_options, wanted.model_options)
            self.settings = replace(settings, model_options=model_options)
        own = kept.model if kept is not None else None
        self.model = absolute(model) if model else own or absolute(settings.model)
        self._runtime = self._load(self.model, self.settings)
        if kept is not None:
            self.read_ahead(kept, self.model)

    def _load(
        self, name: str, settings: Settings, unwanted: threading.Event | None = None
    ) -> Future[Runtime]:
        """Load a model on its thread; once `unwanted` is set, no more of it is read."""
        self.activity = f"loading {short(name)}…"
        unwanted = unwanted or threading.Event()
        return self._worker.submit(self._open_runtime, name, settings, unwanted)

    def _open_runtime(self, name: str, settings: Settings, unwanted: threading.Event) -> Runtime:
        """Raises `ModelError`, and `KeyboardInterrupt` if the model is not wanted any more."""
        try:
            if unwanted.is_set():
                raise KeyboardInterrupt
            from chatcli.session.runtime import Runtime

            telling = Loading(name, unwanted, self.say)
            runtime = Runtime(
                self._worker,
                settings,
                name,
                telling.progress,
                telling.downloading,
                telling.begin,
                self._ranks,
            )
            return template_settings.checked(runtime, self.wanted)
        finally:
            self.say("", None)

    def say(self, activity: str, arrived: Download | None) -> None:
        """What the thread of the model is at; how much of a download is there, while it comes."""
        self._download, self.activity = arrived, activity

    def read_ahead(self, conversation: Conversation, model: str) -> None:
        """Have the system read what a conversation needs of the disk, while its model loads."""
        wanted = readahead.needed(conversation, model) if self.settings.cache else None
        if wanted is not None:
            readahead.begin(self.settings.sessions, wanted, self._closing)

    @property
    def settling(self) -> bool:
        """Whether the last reply is still being run as history will show it."""
        return self._settling is not None and not self._settling.done()

    @property
    def loading(self) -> bool:
        return not self._runtime.done()

    @property
    def name(self) -> str | None:
        """The session's name; None until its first message."""
        return self.session.name if self.session else None

    @property
    def conversation(self) -> Conversation:
        """The open conversation. Raises `UsageError` before the first message."""
        if self.session is None:
            raise UsageError(NOTHING_YET)
        return self.session.conversation

    def on_failure(self, leave: Callable[[Exception], None]) -> None:
        """Call `leave`, on another thread, if the model cannot be loaded or a rank is lost."""

        def check(loading: Future[Runtime]) -> None:
            error = loading.exception()
            if isinstance(error, (ChatcliError, RankLost)):
                leave(error)

        self._runtime.add_done_callback(check)
        if self._ranks is not None:
            self._ranks.on_lost(leave)

    def runtime(self, cancelled: threading.Event | None = None) -> Runtime:
        """The model, loaded. Raises `ModelError` if it cannot be, `KeyboardInterrupt` if cancelled."""
        return wait(self._runtime, cancelled)

    def arriving(self, cancelled: threading.Event) -> Iterator[Download]:
        """How far the download of the model is, several times a second, until it loads."""
        while self.loading and not cancelled.is_set():
            if self._download is not None:
                yield self._download
            concurrent.futures.wait([self._runtime], timeout=0.1)

    def _ready(self) -> Runtime | None:
        """The model if it is there; None while it loads and if it could not be loaded."""
        ready = self._runtime.done() and self._runtime.exception() is None
        return self._runtime.result() if ready else None

    def chat(self, cancelled: threading.Event | None) -> TurnContext:
        """The open session with the model, once that is there. Raises as `runtime` does."""
        if self.session is None:
            raise UsageError(NOTHING_YET)
        runtime = self.runtime(cancelled)
        self.stop_settling()
        return runtime.chat(self.session, self.think)

    def take(
        self,
        text: str,
        cancelled: threading.Event,
        *,
        title: str | None = None,
        whole: bool = False,
        images: Sequence[Image] = (),
    ) -> Iterator[Event]:
        """One turn with the open session, which begins with its first message.

        A new session is named after `title`, by default the text. A `whole` reply ends before no
        stop text. With `images` go those that wait for the next message, unless it fails.
        """
        yield from self.arriving(cancelled)
        runtime = self.runtime(cancelled)
        self.stop_settling()
        from chatcli.turn import turn

        if self.session is not None or text.strip():
            said = (*(() if whole else self.images), *images)
            shown = list({image.picture.sha256: image for image in said}.values())
            vision.prepare(runtime.loaded.vision, shown, self.model)
            chat = runtime.chat(self.begun(title or text), self.think)
            if whole:
                chat.sampling = replace(chat.sampling, stop=None)
            with editing.kept(self):
                yield from turn.take(chat, text, cancelled, shown)
            self.images = self.images if whole else ()

    def begun(self, title: str) -> SessionFile:
        """The open session; without one, a new one named after `title`."""
        if self.session is None:
            wanted = replace(self.wanted, system=self.system())
            self.session = opening.begin(self.folder, wanted, title, self.model)
        self._note_settings(self.session)
        return self.session

    def _note_settings(self, session: SessionFile) -> None:
        """Put on disk what this run was asked for, now that it is used."""
        session.set_model(self.model)
        session.set_model_options(self.settings.model_options.asked())
        if self.wanted.system is not None:
            session.set_system(self.wanted.system or None)
            self.wanted = replace(self.wanted, system=None)
        template_settings.note(self, session)

    def settle(self, cancelled: threading.Event) -> Iterator[Event]:
        """Run the last reply as history will show it, now."""
        runtime = self.runtime()
        from chatcli.turn import turn

        if self.session is not None:
            chat = runtime.chat(self.session, self.think)
            yield from turn.settle(chat, cancelled)

    def settle_behind(self, refresh: Callable[[], None] = lambda: None) -> None:
        """Settle while the person reads and types; `stop_settling` ends it.

        While the model loads, this waits for it on its own thread.
        """
        # Whatever changes the path has stopped the one before; one that runs still is right.
        self.stop_drafting()
        if self._settling is None or self._settling.done():
            self._settling = self._behind.submit(self._settle_quietly, refresh)

    def _settle_quietly(self, refresh: Callable[[], None]) -> None:
        self.runtime(self._stop_settling)
        self.activity = "settling…" if self.session is not None else ""
        activity, why, began = "", "", time.monotonic()
        try:
            for event in self.settle(self._stop_settling):
                if isinstance(event, PrefixMatched) and event.miss_reason:
                    why = f" ({shorten(event.miss_reason, 48)})"
                if isinstance(event, PrefillProgress) and event.total > MANY:
                    self.activity = event.told(time.monotonic() - began) + why
                    self.catching_up = True
                if isinstance(event, Settled) and event.tokens:
                    activity = f"{event.tokens:,} tokens settled ahead"
        finally:
            self.activity, self.catching_up = activity, False
            refresh()

    def draft_behind(
        self,
        text: str,
        refresh: Callable[[], None] = lambda: None,
        images: Sequence[Image] = (),
    ) -> None:
        """Prefill a message that is being typed, once settling is done, in place of its last draft."""
        self.stop_drafting()
        if self.settings.draft and self.settings.cache and text.strip():
            stop, shown = threading.Event(), [*self.images, *images]
            self._stop_drafting = stop
            self._drafting = self._behind.submit(self._draft_quietly, text, shown, stop, refresh)

    def _draft_quietly(
        self,
        text: str,
        images: Sequence[Image],
        stop: threading.Event,
        refresh: Callable[[], None],
    ) -> None:
        runtime = self.runtime(stop)
        from chatcli.turn import typeahead

        chat = (
            runtime.chat(self.session, self.think)
            if self.session is not None
            else runtime.unsaved(self._to_begin(), self.think)
        )
        for drafted in typeahead.draft(chat, decodable(text), stop, images):
            self.activity = f"{drafted.tokens} tokens drafted"
        refresh()

    def _to_begin(self) -> Conversation:
        """The conversation that the first message will begin."""
        return Conversation(
            self.date(),
            self.system() or None,
            self.model,
            effort=template_settings.effort(self),
            template_args=template_settings.arguments(self),
        )

    def stop_drafting(self) -> None:
        """End the draft after its current chunk, without waiting: it is done before what follows."""
        self._stop_drafting.set()
        if self._drafting is not None:
            self._drafting.cancel()

    def stop_settling(self) -> None:
        """End what runs behind, after its current chunk. What went wrong in it costs time only:
        the next turn meets it again, where it can be told."""
        self.stop_drafting()
        self._stop_settling.set()
        # Not only for the newest: a draft that gave way to it may be at its last chunk still.
        concurrent.futures.wait([self._behind.submit(lambda: None)])
        self._drafting = self._settling = None
        self._stop_settling.clear()

    def switch(self, session: SessionFile | None) -> list[str]:
        """Go on with another session and close the one before.

        Returns what opening the one found, and what went wrong with closing the other.
        """
        self.stop_settling()
        before, self.session = self.session, session
        if before is None and session is not None:
            # These were for the conversation that never began.
            self.wanted = replace(template_settings.without(self.wanted), system=None)
        notes = list(recovered(session.transcript)) if session else []
        if before is not None:
            try:
                before.close()
            except FolderError as error:
                notes.append(str(error))
        return notes

    def new(self, name: str | None) -> list[str]:
        """Begin a new session with the next message. Returns what went wrong with closing this one."""
        date = self.wanted.date if self.session is None else None
        self.wanted = SessionRequest(
            name=name,
            system=without_summary(self.system()),
            date=date,
            effort=template_settings.effort(self),
            template_args=template_settings.arguments(self),
        )
        return self.switch(None)

    def system(self) -> str | None:
        if self.session is not None:
            return self.session.conversation.system
        return self.settings.system if self.wanted.system is None else self.wanted.system

    def count_tokens(self, text: str) -> int | None:
        """How many tokens a text has; None while the model loads. For any thread."""
        if (runtime := self._ready()) is None:
            return None
        encode = runtime.loaded.tokenizer.encode
        return len(encode(text, add_special_tokens=False))

    def limit(self) -> int | None:
        """The most tokens that the context has; None while the model loads."""
        runtime = self._ready()
        return None if runtime is None else runtime.loaded.context

    def used(self) -> int | None:
        """Tokens of the context that the conversation takes up to its last reply; None: not known."""
        if self.session is None:
            return None
        conversation = self.session.conversation
        last = conversation.unanswered()
        reply = conversation.entries.get((last.parent if last else conversation.head) or "")
        if reply is None:
            return None
        found = reply.record.get("boundaries", {}).get("reply", reply.record.get("prompt_tokens"))
        return found if isinstance(found, int) else None

    def sampling(self) -> Sampling:
        """How tokens are chosen: as asked for, and as the model's makers say once it is there."""
        runtime = self._ready()
        return self.settings.sampling if runtime is None else runtime.sampling

    def set_sampling(self, sampling: Sampling) -> None:
        """How tokens are chosen from the next message on."""
        self.settings = replace(self.settings, sampling=sampling)

        def tell(loading: Future[Runtime]) -> None:
            if loading.exception() is None:
                loading.result().settings = self.settings

        self._runtime.add_done_callback(tell)

    def set_system(self, text: str | None) -> None:
        if self.session is None:
            self.wanted = replace(self.wanted, system=text or "")
        else:
            self.stop_settling()
            self.session.set_system(text)

    def date(self) -> str:
        """The day (ISO 8601) that the model is told, if its template prints one."""
        if self.session is not None:
            return self.session.conversation.date
        return self.wanted.date or datetime.date.today().isoformat()

    def move_head(self, entry_id: str | None) -> None:
        """Go on from another place of the open session, on disk too: resumed, it goes on from there.

        Raises `UsageError` before the first message, `FolderError` if it cannot be written.
        """
        if self.session is None:
            raise UsageError(NOTHING_YET)
        self.stop_settling()
        self.session.move_head(entry_id)

    def set_date(self, date: str) -> None:
        if self.session is None:
            self.wanted = replace(self.wanted, date=date)
        else:
            self.stop_settling()
            self.session.set_date(date)

    def change_model(self, name: str, kept: Mapping[str, Any] = NOTHING) -> None:
        """Load another model, or the same to be run as a session has `kept` it; the transcript stays.

        Raises `ModelError`, or `KeyboardInterrupt` if it was stopped, and keeps the old one.
        """
        name = absolute(aliased(name, self.settings.models))
        settings = replace(self.settings, model_options=self._model_options.resumed(kept, NOTHING))
        if (name, settings.model_options) == (self.model, self.settings.model_options):
            return
        if self._ranks is not None:
            raise UsageError("Ranks share one model: leave, and start them with another -m.")
        self.stop_settling()
        unwanted = threading.Event()
        loading = self._changing = self._load(name, settings, unwanted)
        try:
            wait(loading, self.stopping)
        except KeyboardInterrupt:
            unwanted.set()
            self.activity = ""
            loading.add_done_callback(_close_unwanted)
            raise
        self._changing = None
        if (before := self._ready()) is not None:
            before.close()
        self._runtime, self.model = loading, name
        self.settings = replace(self.settings, model_options=settings.model_options)

    def close(self) -> str | None:
        """Stop what runs behind, finish what is being written, let the session go.

        Returns what went wrong with what was written and is not told yet.
        """
        problem = None
        self._closing.set()
        self._stop_settling.set()
        self.stop_drafting()
        if self.loading:
            # Nothing of MLX can be ended while it loads; the process may go without it.
            self.abandoned = True
            self._worker.leave()
            return None
        loading_another = self._changing is not None and not self._changing.done()
        if self._settling is not None and not loading_another:
            self._settling.exception()
        if self.session is not None:
            try:
                self.session.close()
            except FolderError as error:
                problem = str(error)
        if (runtime := self._ready()) is not None:
            problem = runtime.close() or problem
        if loading_another:
            self.abandoned = True
            self._worker.leave()
            return problem
        self._behind.shutdown()
        self._worker.close()
        return problem


def without_summary(system: str | None) -> str | None:
    """A system prompt without the summary of another conversation."""
    return (system or "").partition(SUMMARY)[0].rstrip() or None


def _close_unwanted(loading: Future[Runtime]) -> None:
    """A model that came after nobody wanted it any more."""
    if loading.exception() is None:
        loading.result().close()
