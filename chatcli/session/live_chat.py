"""A chat without a terminal: the open session, its model, and background work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from chatcli import files
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation
from chatcli.errors import FolderError, TemplateRefused, UsageError
from chatcli.events import Alternatives, Event
from chatcli.model import vision
from chatcli.model.ranks import SINGLE_PROCESS, Ranks
from chatcli.replies.answer_form import AnswerForm
from chatcli.session import opening
from chatcli.session.background import BackgroundWork
from chatcli.session.model_slot import ModelSlot, absolute
from chatcli.session.open_session import NO_CONVERSATION, OpenSession
from chatcli.session.opening import SessionRequest
from chatcli.settings.declaration import Value
from chatcli.settings.values import Settings, aliased
from chatcli.store.segments import readahead
from chatcli.store.sessions import marker
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from chatcli.store.sessions.transcript import recovered

if TYPE_CHECKING:
    from chatcli.turn.prompt import TurnContext


class LiveChat:
    """Has `session`, `model` and `background`, and takes turns, which need all three.

    The model loads in the background. Methods that need it wait for it.
    """

    def __init__(
        self,
        settings: Settings,
        request: SessionRequest,
        model: str | None,
        ranks: Ranks = SINGLE_PROCESS,
        background: BackgroundWork | None = None,
        *,
        load_at_once: bool = True,
    ) -> None:
        """`model` None: the session's own is loaded, or that of `settings`. `ranks` have its shards.

        Unless `load_at_once`, loading starts with `model.load` or the first wait for the model.

        Raises `FolderError` if the sessions folder cannot be written, and as `opening.open_session` does.
        """
        if not request.private:
            marker.claim(settings.sessions)
            files.check_writable(settings.sessions)
        self.background = background or BackgroundWork()
        self.session = OpenSession(
            SessionFolder(settings.sessions, settings.sessions_flag),
            request,
            self.background,
            system=settings.system,
            think=settings.think,
            sampling=settings.sampling,
        )
        self._closing = threading.Event()
        log = self.session.log
        self._notes = [*recovered(log.transcript), *opening.read_again(log.conversation)]
        if overridden := self.session.overridden(request.flags):
            self._notes.append(overridden)
        saved, options = self.session.log.conversation, settings.model_options
        if from_session := not model and bool(saved.model):
            name = aliased(str(saved.model), settings.models)
            options = options.resumed(saved.model_options, request.model_options)
        else:
            name = absolute(model or settings.model)
        self.model = ModelSlot(
            replace(settings, sampling=self.session.sampling),
            name,
            options,
            self.background,
            self.session.check_template_args,
            ranks,
            sessions=self.session.folder.location,
            load_at_once=load_at_once,
            from_session=from_session,
        )
        self._read_ahead(saved, name)

    def _read_ahead(self, conversation: Conversation, model: str) -> None:
        """Let the system read the conversation's checkpoint from disk while its model loads."""
        settings = self.model.settings
        needed = readahead.needed(conversation, model) if settings.cache else None
        if needed is not None:
            readahead.begin(settings.sessions, needed, self._closing)

    def notes(self) -> list[str]:
        """What opening the session repaired, and which of its settings flags override: one line each."""
        return self._notes

    def set(self, name: str, value: Value | None) -> None:
        """`OpenSession.set_sampling`, from the next message on. Raises `FolderError`."""
        self.session.set_sampling(name, value)
        self.model.set_sampling(self.session.sampling)

    def switch(self, file: SessionFile) -> list[str]:
        """Switch to another session, with its values of `/set` and `/think`.

        Returns what `OpenSession.switch` does.
        """
        self.leave()
        notes = self.session.switch(file)
        self.session.restore()
        self.model.set_sampling(self.session.sampling)
        return notes

    def begin_private(self) -> list[str]:
        """Begin a private session with the next message. Returns what `OpenSession.switch` does."""
        self.leave()
        return self.session.new(None, private=True)

    def save(self, name: str | None) -> None:
        """Keep a private session after all, with its checkpoints. Raises as `OpenSession.save` does."""
        self.session.save(name)
        self.model.keep()

    def leave(self) -> None:
        """Write what is left to write of the open session's checkpoints."""
        self.background.stop()
        with suppress(FolderError):  # it is a statistic
            self.session.note_upkeep(self.model.leave())

    def resume(self, name: str) -> list[str]:
        """Switch to a saved session and its model.

        Returns what `OpenSession.switch` does. Raises as `SessionFolder.open` and `ModelSlot.change` do, and
        then keeps the session and the model.
        """
        file, notes = self.session.folder.open(name), []
        try:
            if model := file.conversation.model:
                self._read_ahead(file.conversation, model)
                notes = self.model.change(model, file.conversation.model_options, from_session=True)
        except BaseException:
            file.close()
            raise
        return [*notes, *self.switch(file), *opening.read_again(file.conversation)]

    def undo_compaction(self) -> str | None:
        """Go back to the session that was compacted into this one, and delete this one, if it has not been
        continued.

        Its head and settings are as before. Returns its name; None if there is nothing to undo.
        """
        compacted, summary = self.session.compacted_from, self.session.name
        if compacted is None:
            return None
        file = self.session.folder.open(compacted.source)
        file.move_head(compacted.source_head, saved=False)
        self.switch(file)
        self.session.folder.delete(str(summary))
        return compacted.source

    @property
    def abandoned(self) -> bool:
        """Whether it was closed while a model was still loading, which cannot be interrupted."""
        return self.model.abandoned

    def close(self) -> str | None:
        """Stop the background work, finish pending writes, close the session, release the model.

        Returns write errors that were not reported yet. MLX cannot be ended while the model is still loading:
        then the chat is `abandoned`, and the process may exit without waiting.
        """
        self._closing.set()
        self.background.scheduler.cancel()
        if self.model.loading:
            self.model.abandon()
            return None
        if not self.model.changing:
            self.background.scheduler.close()
        with suppress(FolderError):  # only a statistic
            self.session.note_upkeep(self.model.leave())
        problem = self.session.close()
        return self.model.close() or problem

    # Turns

    def take(
        self,
        text: str,
        cancelled: threading.Event,
        *,
        title: str | None = None,
        images: Sequence[Image] = (),
        answer: AnswerForm | None = None,
    ) -> Generator[Event]:
        """Take a turn: send `text` with `images` and those waiting for the next message, then reply.

        A new session is named after `title` (default: the text). `answer` binds the answer. Raises as
        `begin` and `turn.take` do.
        """
        if not self.session.log.is_saved and not text.strip():
            return
        yield from self.model.downloads(cancelled)
        unique = {image.picture.sha256: image for image in (*self.session.images, *images)}
        shown = list(unique.values())
        with self.session.kept_if_used():
            context = replace(self.begin(title or text, cancelled, shown), answer=answer)
            from chatcli.turn import turn

            with self.session.sending():
                yield from turn.take(context, text, cancelled, shown)

    def answer_each(
        self,
        texts: Sequence[str],
        cancelled: threading.Event,
        images: Sequence[Image] = (),
        answer: AnswerForm | None = None,
    ) -> Iterator[Event]:
        """Answer each text in its own turn, beside the others, with the same images and form of answer."""
        yield from self.model.downloads(cancelled)
        with self.session.kept_if_used():
            context = replace(self.begin(texts[0], cancelled, images), answer=answer)
            from chatcli.turn import batch

            yield from batch.answer_each(context, texts, cancelled, images=images)

    def regenerate(self, cancelled: threading.Event) -> Generator[Event]:
        """Generate another reply to the last message."""
        context = self.turn_context(cancelled)
        from chatcli.turn import regenerate

        yield from regenerate.regenerate(context, cancelled)

    def alternatives(self, count: int, cancelled: threading.Event) -> Generator[Event]:
        """Generate `count` more replies to the last message. The first is the head until one is chosen."""
        context = self.turn_context(cancelled)
        from chatcli.turn import batch

        for event in batch.alternatives(context, count, cancelled):
            if isinstance(event, Alternatives):
                self.session.offer(event.entries)
            yield event

    def continue_reply(self, cancelled: threading.Event) -> Generator[Event]:
        """Continue a reply that was cut off."""
        context = self.turn_context(cancelled)
        from chatcli.turn import regenerate

        yield from regenerate.continue_reply(context, cancelled)

    def settle(self, cancelled: threading.Event) -> Iterator[Event]:
        """Settle the last reply now."""
        context = self._context(None)
        from chatcli.turn import turn

        yield from turn.settle(context, cancelled)

    def begin(self, title: str, cancelled: threading.Event, images: Sequence[Image] = ()) -> TurnContext:
        """Prepare a turn with `images`: give a new session a file named after `title`, and wait for the
        model.

        Raises as `ModelSlot.wait` does, `ImagesRefused`, `NotAnImage`, and `FolderError`.
        """
        runtime = self.model.wait(cancelled)
        self.background.stop()
        vision.prepare(runtime.loaded.vision, images, self.model.name)
        self.session.begin(title, self.model.name, self.model.settings.model_options.asked())
        return self._context(cancelled)

    def turn_context(self, cancelled: threading.Event | None = None) -> TurnContext:
        """The context for a turn. Raises `UsageError` before the first message, and as `wait` does."""
        if not self.session.log.has_begun:
            raise UsageError(NO_CONVERSATION)
        self.model.wait(cancelled)
        self.background.stop()
        return self._context(cancelled)

    def _context(self, cancelled: threading.Event | None) -> TurnContext:
        runtime = self.model.wait(cancelled)
        return runtime.turn_context(self.session.log, self.session.think, cancelled)

    # Background work

    def settle_behind(self, refresh: Callable[[], None] = lambda: None) -> None:
        """Settle in the background, once the model is loaded; then call `refresh`."""
        self.background.settle(self._context, refresh)

    def type_ahead(
        self,
        text: str,
        refresh: Callable[[], None] = lambda: None,
        expand: Callable[[], tuple[str, Sequence[Image]]] | None = None,
    ) -> None:
        """Prefill a message that is being typed, instead of an earlier text; then call `refresh`.

        `expand` returns the message as it would be sent, with its images. It is called on the background
        thread, because a message may mention large files. If it raises, there is no typeahead.
        """
        if not text.strip():
            self.background.clear_typeahead()
            return
        self.background.stop_typeahead()
        if self.model.settings.typeahead and self.model.settings.cache:
            waiting = self.session.images

            def message() -> tuple[str, Sequence[Image]]:
                sent, images = expand() if expand is not None else (text, ())
                return sent, (*waiting, *images)

            self.background.type_ahead(message, self._context, refresh)

    # What turns would cost

    def prefill_cost(self, entry_id: str) -> int | None:
        """How many tokens continuing from an entry would prefill; None if unknown.

        It is unknown while the model loads, and if the template refuses the messages up to the entry.
        """
        if self.model.loading:
            return None
        context = self.turn_context()
        from chatcli.turn import prompt

        with suppress(TemplateRefused):
            return prompt.prefill_cost(context, context.conversation.entries[entry_id])
        return None

    def context_parts(self) -> list[tuple[str, int]]:
        """What the next prompt's tokens consist of, as (name, tokens). Raises as `turn_context` does."""
        context = self.turn_context()
        from chatcli.turn import prompt

        messages = [entry.message for entry in context.conversation.path()]

        def size(*texts: str) -> int:
            return sum(len(context.template.encode(text)) for text in texts)

        parts = [
            ("system prompt", size(context.conversation.system or "")),
            ("your messages", size(*(message.content for message in messages if message.role == "user"))),
            ("replies", size(*(message.content for message in messages if message.role == "assistant"))),
        ]
        pictures = vision.pictures(messages)
        if pictures and context.template.vision is not None:
            blocks = [context.template.vision.block(picture) for picture in pictures]
            parts.append(("images", sum(len(block.keys) for block in blocks)))
        around = prompt.context_used(context) - sum(tokens for _, tokens in parts)
        return [*parts, ("markers around them", max(around, 0))]
