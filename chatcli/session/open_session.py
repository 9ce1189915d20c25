"""The session that is open, or the one that the next message will begin."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from chatcli.chat_format import arguments
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation, Turn
from chatcli.errors import ChatcliError, FolderError, TurnOutOfRange, UsageError
from chatcli.session import opening
from chatcli.session.background import BackgroundWork
from chatcli.session.opening import SessionRequest
from chatcli.settings.declaration import Value
from chatcli.settings.values import SETTINGS, Sampling
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript, recovered

# The heading of a summary that stands in a system prompt in place of the turns before.
SUMMARY_HEADING = "Summary of the conversation so far:"
DEFAULT_SAMPLING = Sampling()
PRIVATE_TITLE = "private conversation"
ALREADY_SAVED = "Every message is saved already. /rename names the session, /export writes it to a file."
NO_CONVERSATION = "There is no conversation yet: say something first."


@dataclass(frozen=True)
class Edit:
    """The message of turn `turn` is being rewritten, as another child of `parent`.

    `head` and `images` are what the session's were before, and come back if the edit is cancelled.
    """

    turn: int
    parent: str | None
    head: str | None
    images: tuple[Image, ...]


@dataclass(frozen=True)
class Compacted:
    """The session `log` is a summary of the session `source`; both heads as they were then.

    A session that was opened at an earlier turn has its head in memory only.
    """

    source: str
    source_head: str | None
    log: SessionLog
    head: str | None


class OpenSession:
    """The session that is open, as a log, and what goes with its next message.

    It has a file from its first message on. `think` turns the model's thinking on or off; None leaves it to
    the template. `sampling` is how tokens are chosen. `images` go with the next message. Methods that change
    the prompt stop the background work first.
    """

    def __init__(
        self,
        folder: SessionFolder,
        request: SessionRequest,
        background: BackgroundWork,
        *,
        system: str | None = None,
        think: bool | None = None,
        sampling: Sampling = DEFAULT_SAMPLING,
    ) -> None:
        """Open what is requested. A session that begins has the system prompt `system` by default.

        `think` and `sampling` are as this run was asked to: what a session keeps comes before. Raises as
        `opening.open_session` does.
        """
        self.folder = folder
        self.images: tuple[Image, ...] = ()
        self._background = background
        self._asked_think, self._asked_sampling = think, sampling
        # Template arguments that were requested, until the model that was asked for has taken them.
        self._asked_args = request.template_args
        self._edit: Edit | None = None
        self._alternatives: tuple[str, ...] = ()
        self._compacted: Compacted | None = None
        self.log = opening.open_session(folder, request, system)
        self.restore(request.flags)

    @property
    def name(self) -> str | None:
        """The session's name; None until its first message."""
        log = self.log  # read once: another thread may open another session meanwhile
        return log.name if log.is_saved else None

    @property
    def title(self) -> str:
        """The session's name; what stands for it before its first message, and for a private one."""
        return self.name or (PRIVATE_TITLE if self.log.is_private else "new conversation")

    @property
    def head(self) -> str | None:
        """The entry that the next message goes on from; None: it is the first."""
        return self.log.conversation.head

    @property
    def conversation(self) -> Conversation:
        """The open conversation. Raises `UsageError` before the first message."""
        log = self.log
        if not log.has_begun:
            raise UsageError(NO_CONVERSATION)
        return log.conversation

    # Which session is open

    def begin(self, title: str, model: str, model_options: Mapping[str, Any]) -> None:
        """Write what was asked for, before the next message; if need be in a new file, named for `title`."""
        if self.log.is_private and not self.log.conversation.date:
            self.log.set_date(self.date)
        elif not (self.log.is_saved or self.log.is_private):
            self.log = opening.save(self.folder, self.log, title, model)
        self.log.set_model(model)
        self.log.set_model_options(model_options)
        self.log.write_asked()
        self._asked_args = {}

    @contextmanager
    def kept_if_used(self) -> Iterator[None]:
        """A file that the block begins is removed if no message can be saved in it, as on a full disk."""
        before, asked = self.log, self._asked_args
        try:
            yield
        except FolderError:
            begun = self.log
            if not before.is_saved and isinstance(begun, SessionFile) and not begun.conversation.entries:
                self.log, self._asked_args = before, asked
                self.folder.discard(begun)
            raise

    def switch(self, log: SessionLog) -> list[str]:
        """Go on with another session, and close the one before.

        Returns what was repaired when it was opened, and what went wrong with closing the other.
        """
        self._background.stop()
        before, self.log = self.log, log
        if not log.is_private:
            Gallery.in_memory.clear()
        self._edit, self._asked_args = None, {}
        notes = list(recovered(log.transcript))
        try:
            before.close()
        except FolderError as error:
            notes.append(str(error))
        return notes

    def restore(self, flags: Collection[str] = ()) -> None:
        """Think and sample as the session keeps it, unless a flag says how, else as this run was asked to."""
        self.sampling = self._asked_sampling.resumed(self.settings, flags)
        kept = self.settings.get("think", self._asked_think)
        usable = "think" not in flags and (kept is None or isinstance(kept, bool))
        self.think = kept if usable else self._asked_think

    def overridden(self, flags: Collection[str]) -> str:
        """What flags set to another value than the session keeps: temp 0.2 (the session has 0.7)."""
        used = {**vars(self.sampling), "think": self.think}
        kept = {**vars(self._asked_sampling.resumed(self.settings, ())), "think": self.settings.get("think")}
        return ", ".join(
            f"{name} {_shown(used[name])} (the session has {_shown(kept[name])})"
            for name in used
            if name in flags and name in self.settings and used[name] != kept[name]
        )

    def new(self, name: str | None, *, private: bool | None = None) -> list[str]:
        """Begin a new session with the next message, which is `private` as this one is unless it says.

        Returns what went wrong with closing this one.
        """
        before, was_private = self.log.conversation, self.log.is_private
        conversation = Conversation(
            "" if self.log.has_begun else before.date,
            without_summary(before.system),
            effort=before.effort,
            template_args=before.template_args,
            settings=before.settings,
        )
        log = SessionLog(Transcript(name or "", conversation))
        log.is_private = was_private if private is None else private
        notes = self.switch(log)
        self._asked_args = conversation.template_args
        return notes

    def save(self, name: str | None) -> None:
        """Give a private session a file after all, called `name`, or after its first message.

        Raises `UsageError`, `SessionExists`, `BadName` or `FolderError`; then it stays private.
        """
        if not self.log.is_private:
            raise UsageError(ALREADY_SAVED)
        messages = [entry.message.content for entry in self.log.conversation.entries.values()]
        if not messages:
            raise UsageError(NO_CONVERSATION)
        self._background.stop()
        wanted = name or self.log.name
        self.log.name = wanted if name else self.folder.free_name(wanted) if wanted else ""
        self.log = opening.save(self.folder, self.log, messages[0], self.log.conversation.model or "")

    def branch(self, at: int | None, name: str | None) -> list[str]:
        """Go on after turn `at` (None: at the head) in a new session with the same turns.

        Returns what `switch` does. Raises as `opening.branch` does, and `UsageError` before the first
        message.
        """
        if not self.log.has_begun:
            raise UsageError(NO_CONVERSATION)
        self.check_saved("/branch")
        return self.switch(opening.branch(self.folder, self.log, at, name))

    def check_saved(self, command: str) -> None:
        """Raise `UsageError` in a private session, of which `command` would make a file."""
        if self.log.is_private:
            raise UsageError(
                f"{command} makes a saved session, and this one is private: /save keeps it first."
            )

    def compacted(self, source: str, source_head: str | None) -> None:
        """The open session goes on from a summary of the session `source`, whose head was there."""
        self._compacted = Compacted(source, source_head, self.log, self.head)

    @property
    def compacted_from(self) -> Compacted | None:
        """What this session is a summary of, as long as it has not gone on; else None."""
        compacted, log = self._compacted, self.log
        if compacted is None or log is not compacted.log or log.conversation.head != compacted.head:
            return None
        return compacted

    def rename(self, name: str) -> str:
        """Give the session another name. Returns it in full. Raises `UsageError` or `SessionExists`."""
        file = self.log
        self.check_saved("/rename")
        if not isinstance(file, SessionFile):
            raise UsageError("There is no conversation to rename yet: say something first.")
        self._background.stop()
        renamed = self.folder.rename_open(file.name, name)
        file.moved(file.location.with_name(f"{renamed}.jsonl"))
        return renamed

    def note_upkeep(self, size: int) -> None:
        """Add bytes that were written for no turn to the last reply's record. Raises `FolderError`."""
        reply = self.log.conversation.entries.get(self.head or "")
        if size and reply is not None and reply.record:
            self.log.note(reply, {"upkeep_bytes": reply.record.get("upkeep_bytes", 0) + size})

    def close(self) -> str | None:
        """Let the file go. Returns what went wrong with writing it."""
        try:
            self.log.close()
        except FolderError as error:
            return str(error)
        return None

    # What its prompt is made of, besides the messages

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self.log.conversation.system

    def set_system(self, text: str | None) -> None:
        self._background.stop()
        self.log.set_system(text)

    @property
    def date(self) -> str:
        """The day (ISO 8601) that a template is given as today's."""
        return self.log.conversation.date or datetime.date.today().isoformat()

    def set_date(self, date: str) -> None:
        self._background.stop()
        self.log.set_date(date)

    def set_think(self, think: bool | None) -> None:
        """Turn thinking on or off from now on; None leaves it to the template. The session keeps it."""
        self._background.stop()
        self.think = think
        self._keep("think", think)

    def set_sampling(self, name: str, value: Value | None) -> None:
        """Set a field of `Sampling`, as the config file has it; None: the model's own. The session keeps it.

        Raises `FolderError`.
        """
        self._keep(name, value)
        loaded: dict[str, Any] = {name: None if value is None else SETTINGS[name].load(value)}
        self.sampling = replace(self.sampling, **loaded)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What `/set` and `/think` have set, as `Conversation.settings` has it."""
        return self.log.conversation.settings

    def _keep(self, name: str, value: Any) -> None:
        self.log.set_settings({**self.settings, name: value})

    @property
    def effort(self) -> str | None:
        """The thinking effort that the template is given; None leaves it to the template."""
        return self.log.conversation.effort

    @property
    def template_args(self) -> Mapping[str, Any]:
        """The template's other arguments by name."""
        return self.log.conversation.template_args

    def check_template_args(self, variables: frozenset[str]) -> None:
        """Raise `UsageError` if a template that reads `variables` does not know a requested argument."""
        arguments.check_arguments(variables, self._asked_args)

    def set_effort(self, effort: str | None, variables: frozenset[str]) -> None:
        """Give the template another effort. Raises `UsageError` if one that reads `variables` knows none."""
        if effort is not None:
            arguments.check_effort(variables)
        # It replaces an effort that was given as a template argument.
        name = arguments.effort_name(variables)
        others = {key: value for key, value in self.template_args.items() if key != name}
        self._background.stop()
        self.log.set_template(effort, others)
        self._asked_args = {key: value for key, value in self._asked_args.items() if key in others}

    # Its next message

    def add_image(self, image: Image) -> None:
        """Send an image with the next message."""
        self.images = (*self.images, image)

    def drop_images(self) -> None:
        self.images = ()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """While a message is sent. Its images no longer wait afterwards, unless it was refused.

        An edit whose message is refused goes on, and the head on disk is where it was.
        """
        try:
            yield
        except ChatcliError:
            if (edit := self.editing) is not None:
                # Refusing the message has moved the head to its parent on disk too.
                self.log.move_head(edit.head)
                self.log.move_head(edit.parent, saved=False)
            raise
        self.drop_images()

    # Where in the conversation it goes on

    def turn(self, number: int | None = None) -> Turn:
        """A turn of the current path, the last one by default. Raises `UsageError` or `TurnOutOfRange`."""
        turns = self.conversation.turns()
        if not turns:
            raise UsageError("There is no turn to go back to yet: say something first.")
        if number is None:
            return turns[-1]
        if not 1 <= number <= len(turns):
            raise TurnOutOfRange(f"There is no turn {number}: there are turns 1 to {len(turns)}.")
        return turns[number - 1]

    def used_tokens(self) -> int | None:
        """Tokens of the context that the conversation takes up to its last reply; None: not known."""
        conversation = self.log.conversation
        last = conversation.unanswered()
        reply = conversation.entries.get((last.parent if last else conversation.head) or "")
        if reply is None:
            return None
        return reply.record.get("boundaries", {}).get("reply", reply.record.get("prompt_tokens"))

    def move_head(self, entry_id: str | None, *, saved: bool = True) -> None:
        """Go on from another entry. Not `saved`: opened again before the next message, it is as it was.

        Raises `FolderError` if it cannot be written.
        """
        self._background.stop()
        self.log.move_head(entry_id, saved=saved)

    def rewind(self, number: int | None) -> int:
        """Go on after turn `number`, 0: at the beginning, None: before the last turn.

        Returns how many turns there are then. Raises `FolderError`, and stays where it was.
        """
        if number is None:
            head = self.turn().user.parent
        else:
            head = self.conversation.end_of_turn(number) if number else None
        self.move_head(head)
        return self.conversation.turn_count()

    def go_to(self, entry_id: str) -> str:
        """Go on from a reply; or begin to edit a message, whose text is returned then.

        Its images go with the next message. Raises `ImagesRefused` if one is lost, and `FolderError` if
        the move cannot be written, and stays where it was.
        """
        self.cancel_edit()
        entry = self.conversation.entries[entry_id]
        if entry.message.role != "user":
            self.move_head(entry_id)
            return ""
        gallery = Gallery(self.folder.folder)
        images = tuple(Image(picture, gallery.data(picture)) for picture in entry.message.images)
        turn = self.conversation.turn_count(entry_id)
        self._edit = Edit(turn, entry.parent, self.conversation.head, self.images)
        self.move_head(entry.parent, saved=False)
        self.images = images
        return entry.message.content

    @property
    def editing(self) -> Edit | None:
        """The edit in progress: begun, and neither sent nor cancelled."""
        edit = self._edit
        return edit if edit is not None and self.head == edit.parent else None

    def cancel_edit(self) -> bool:
        """Go back to where the conversation was. Returns whether there was an edit to cancel."""
        edit, self._edit = self.editing, None
        if edit is not None:
            self.move_head(edit.head, saved=False)
            self.images = edit.images
        return edit is not None

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The replies to choose from, as long as the conversation has not gone on from one of them."""
        return self._alternatives if self.head in self._alternatives else ()

    def offer(self, entries: tuple[str, ...]) -> None:
        """Offer these replies to choose from, for as long as one of them is the head."""
        self._alternatives = entries


def without_summary(system: str | None) -> str | None:
    """A system prompt without the summary of another conversation."""
    return (system or "").partition(SUMMARY_HEADING)[0].rstrip() or None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(repr, value))
    return "the model's own" if value is None else str(value)
