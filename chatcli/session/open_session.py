"""The session that is open, or that the next message will create."""

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

# The heading of a summary in a system prompt that replaces earlier turns.
SUMMARY_HEADING = "Summary of the conversation so far:"
DEFAULT_SAMPLING = Sampling()
PRIVATE_TITLE = "private conversation"
ALREADY_SAVED = "Every message is saved already. /rename names the session, /export writes it to a file."
NO_CONVERSATION = "There is no conversation yet: say something first."


@dataclass(frozen=True)
class Edit:
    """The message of turn `turn` is being edited, as another child of `parent`.

    `head` and `images` were the session's before, and are restored if the edit is cancelled.
    """

    turn: int
    parent: str | None
    head: str | None
    images: tuple[Image, ...]


@dataclass(frozen=True)
class Compacted:
    """The session `log` is a summary of the session `source`, with both heads at that time.

    A session that was opened at an earlier turn has its head only in memory.
    """

    source: str
    source_head: str | None
    log: SessionLog
    head: str | None


class OpenSession:
    """The open session's log, and what its next message is sent with.

    It has a file from its first message on. `think` turns the model's thinking on or off; None leaves it to
    the template. `sampling` is how tokens are chosen. `images` are sent with the next message. Methods that
    change the prompt stop background work first.
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
        """Open the requested session. `system` is the default system prompt of a new one.

        `think` and `sampling` are this run's; the session's own values win. Raises as `opening.open_session`
        does.
        """
        self.folder = folder
        self.images: tuple[Image, ...] = ()
        self._background = background
        self._asked_think, self._asked_sampling = think, sampling
        # Requested template arguments, until the requested model has accepted them.
        self._asked_args = request.template_args
        self._edit: Edit | None = None
        self._alternatives: tuple[str, ...] = ()
        self._compacted: Compacted | None = None
        self.log = opening.open_session(folder, request, system)
        self.restore(request.flags)

    @property
    def name(self) -> str | None:
        """The session's name; None until its first message."""
        log = self.log  # read once, because another thread may open another session
        return log.name if log.is_saved else None

    @property
    def title(self) -> str:
        """The session's name, also before its first message; what stands for it without one."""
        return PRIVATE_TITLE if self.log.is_private else self.log.name or "new conversation"

    @property
    def head(self) -> str | None:
        """The entry that the next message continues; None: it is the first."""
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
        """Write pending changes before the next message, if need be to a new file named after `title`."""
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
        """Remove a file that the block creates if no message can be saved in it, as on a full disk."""
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
        """Switch to another session, and close the current one.

        Returns what was repaired when it was opened, and errors of closing the other.
        """
        self._background.stop()
        before, self.log = self.log, log
        self._edit, self._asked_args = None, {}
        notes = list(recovered(log.transcript))
        try:
            before.close()
        except FolderError as error:
            notes.append(str(error))
        return notes

    def restore(self, flags: Collection[str] = ()) -> None:
        """Use flags for thinking and sampling, else the session's values, else this run's."""
        self.sampling = self._asked_sampling.resumed(self.settings, flags)
        kept = self.settings.get("think", self._asked_think)
        usable = "think" not in flags and (kept is None or isinstance(kept, bool))
        self.think = kept if usable else self._asked_think

    def overridden(self, flags: Collection[str]) -> str:
        """The flags that differ from the session's values: temp 0.2 (the session has 0.7)."""
        used = {**vars(self.sampling), "think": self.think}
        kept = {**vars(self._asked_sampling.resumed(self.settings, ())), "think": self.settings.get("think")}
        return ", ".join(
            f"{name} {_shown(used[name])} (the session has {_shown(kept[name])})"
            for name in used
            if name in flags and name in self.settings and used[name] != kept[name]
        )

    def new(self, name: str | None, *, private: bool | None = None) -> list[str]:
        """Start a new session with the next message, `private` like this one by default.

        Returns errors of closing the current one.
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
        """Continue after turn `at` (None: at the head) in a new session with the same turns.

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
        """Note that the open session continues from a summary of the session `source` at that head."""
        self._compacted = Compacted(source, source_head, self.log, self.head)

    @property
    def compacted_from(self) -> Compacted | None:
        """What this session is a summary of, until it is continued; else None."""
        compacted, log = self._compacted, self.log
        if compacted is None or log is not compacted.log or log.conversation.head != compacted.head:
            return None
        return compacted

    def rename(self, name: str) -> str:
        """Rename the session. Returns the full name. Raises `UsageError` or `SessionExists`."""
        file = self.log
        self.check_saved("/rename")
        if not isinstance(file, SessionFile):
            raise UsageError("There is no conversation to rename yet: say something first.")
        self._background.stop()
        renamed = self.folder.rename_open(file.name, name)
        file.moved(file.location.with_name(f"{renamed}.jsonl"))
        return renamed

    def note_upkeep(self, size: int) -> None:
        """Add bytes written outside of turns to the last reply's record. Raises `FolderError`."""
        reply = self.log.conversation.entries.get(self.head or "")
        if size and reply is not None and reply.record:
            self.log.note(reply, {"upkeep_bytes": reply.record.get("upkeep_bytes", 0) + size})

    def close(self) -> str | None:
        """Close the file. Returns write errors."""
        try:
            self.log.close()
        except FolderError as error:
            return str(error)
        return None

    # The parts of its prompt besides the messages

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self.log.conversation.system

    def set_system(self, text: str | None) -> None:
        self._background.stop()
        self.log.set_system(text)

    @property
    def date(self) -> str:
        """The day (ISO 8601) that the template is told is today."""
        return self.log.conversation.date or datetime.date.today().isoformat()

    def set_date(self, date: str) -> None:
        self._background.stop()
        self.log.set_date(date)

    def set_think(self, think: bool | None) -> None:
        """Turn thinking on or off from now on; None leaves it to the template. Saved in the session."""
        self._background.stop()
        self.think = think
        self._keep("think", think)

    def set_sampling(self, name: str, value: Value | None) -> None:
        """Set a field of `Sampling`, in the config file's form; None: the model's own. Saved in the session.

        Raises `FolderError`.
        """
        self._keep(name, value)
        loaded: dict[str, Any] = {name: None if value is None else SETTINGS[name].load(value)}
        self.sampling = replace(self.sampling, **loaded)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The values of `/set` and `/think`, in the form of `Conversation.settings`."""
        return self.log.conversation.settings

    def _keep(self, name: str, value: Any) -> None:
        self.log.set_settings({**self.settings, name: value})

    @property
    def effort(self) -> str | None:
        """The thinking effort passed to the template; None leaves it to the template."""
        return self.log.conversation.effort

    @property
    def template_args(self) -> Mapping[str, Any]:
        """The template's other arguments by name."""
        return self.log.conversation.template_args

    def check_template_args(self, variables: frozenset[str]) -> None:
        """Raise `UsageError` if a requested argument is not among the `variables` that the template reads."""
        arguments.check_arguments(variables, self._asked_args)

    def set_effort(self, effort: str | None, variables: frozenset[str]) -> None:
        """Change the thinking effort. Raises `UsageError` if a template with these `variables` has none."""
        if effort is not None:
            arguments.check_effort(variables)
        # It replaces an effort given as a template argument.
        name = arguments.effort_name(variables)
        others = {key: value for key, value in self.template_args.items() if key != name}
        self._background.stop()
        self.log.set_template(effort, others)
        self._asked_args = {key: value for key, value in self._asked_args.items() if key in others}

    # Sending its next message

    def add_image(self, image: Image) -> None:
        """Send an image with the next message."""
        self.images = (*self.images, image)

    def drop_images(self) -> None:
        self.images = ()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Wraps the sending of a message. Afterwards its images no longer wait, unless it was refused.

        If the message is refused, an edit stays open, and the head on disk is where it was.
        """
        try:
            yield
        except ChatcliError:
            if (edit := self.editing) is not None:
                # Refusing the message has also moved the head on disk to its parent.
                self.log.move_head(edit.head)
                self.log.move_head(edit.parent, saved=False)
            raise
        self.drop_images()

    # Moving in the conversation

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
        """How many tokens of the context the conversation takes up to its last reply; None if unknown."""
        conversation = self.log.conversation
        last = conversation.unanswered()
        reply = conversation.entries.get((last.parent if last else conversation.head) or "")
        if reply is None:
            return None
        return reply.record.get("boundaries", {}).get("reply", reply.record.get("prompt_tokens"))

    def move_head(self, entry_id: str | None, *, saved: bool = True) -> None:
        """Continue from another entry. Unless `saved`, the file does not change before the next message.

        Raises `FolderError` if the move cannot be written.
        """
        self._background.stop()
        self.log.move_head(entry_id, saved=saved)

    def rewind(self, number: int | None) -> int:
        """Continue after turn `number` (0: from the beginning, None: before the last turn).

        Returns how many turns are left. Raises `FolderError`, and then does not move.
        """
        if number is None:
            head = self.turn().user.parent
        else:
            head = self.conversation.end_of_turn(number) if number else None
        self.move_head(head)
        return self.conversation.turn_count()

    def go_to(self, entry_id: str) -> str:
        """Continue from a reply, or start to edit a message and return its text.

        An edited message's images are sent with the next message. Raises `ImagesRefused` if one is missing
        and `FolderError` if the move cannot be written, and then does not move.
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
        """The edit in progress, neither sent nor cancelled."""
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
        """The replies to choose from, until one of them is continued."""
        return self._alternatives if self.head in self._alternatives else ()

    def offer(self, entries: tuple[str, ...]) -> None:
        """Offer these replies to choose from, while one of them is the head."""
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
