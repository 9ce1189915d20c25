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
from chatcli.store.sessions.folder import SessionFile, SessionFolder
from chatcli.store.sessions.images import Gallery
from chatcli.store.sessions.transcript import recovered

# The heading of a summary that stands in a system prompt in place of the turns before.
SUMMARY_HEADING = "Summary of the conversation so far:"
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
    """The session `file` is a summary of the session `source`; both heads as they were then.

    A session that was opened at an earlier turn has its head in memory only.
    """

    source: str
    source_head: str | None
    file: SessionFile
    head: str | None


class OpenSession:
    """A session's `file` and what goes with its next message.

    `file` is None until the first message creates it. `think` turns the model's thinking on or off;
    None leaves it to the template. `images` go with the next message. Methods that change the prompt
    stop the background work first.
    """

    def __init__(
        self,
        folder: SessionFolder,
        request: SessionRequest,
        background: BackgroundWork,
        *,
        system: str | None = None,
        think: bool | None = None,
    ) -> None:
        """Open what is requested. A session that begins has the system prompt `system` by default.

        Raises as `opening.open_existing` does.
        """
        self.folder = folder
        self.file = opening.open_existing(folder, request)
        self.think = self._default_think = think
        self.images: tuple[Image, ...] = ()
        self._background = background
        self._default_system = system
        # What was asked for and is not on disk yet.
        self._request = request
        self._edit: Edit | None = None
        self._alternatives: tuple[str, ...] = ()
        self._compacted: Compacted | None = None

    @property
    def name(self) -> str | None:
        """The session's name; None until its first message."""
        file = self.file  # read once, here and below: another thread may open another session meanwhile
        return file.name if file else None

    @property
    def head(self) -> str | None:
        """The entry that the next message goes on from; None: it is the first."""
        file = self.file
        return file.conversation.head if file else None

    @property
    def conversation(self) -> Conversation:
        """The open conversation. Raises `UsageError` before the first message."""
        file = self.file
        if file is None:
            raise UsageError(NO_CONVERSATION)
        return file.conversation

    # Which session is open

    def begin(self, title: str, model: str, model_options: Mapping[str, Any]) -> SessionFile:
        """The open file, a new one named after `title` if there is none. What was asked for goes to disk."""
        if self.file is None:
            self._request = replace(self._request, system=self.system)
            self.file = opening.begin(self.folder, self._request, title, model)
        self.file.set_model(model)
        self.file.set_model_options(model_options)
        if self._request.system is not None:
            self.file.set_system(self._request.system or None)
        self.file.set_template(self.effort, self.template_args)
        if self._request.settings:
            self.file.set_settings(self._request.settings)
        self._request = replace(self._request, system=None, effort=None, template_args={}, settings={})
        return self.file

    @contextmanager
    def kept_if_used(self) -> Iterator[None]:
        """A session that the block begins is removed if no message can be saved in it, as on a full disk."""
        before, request = self.file, self._request
        try:
            yield
        except FolderError:
            begun = self.file
            if before is None and begun is not None and not begun.conversation.entries:
                self.file, self._request = None, request
                self.folder.discard(begun)
            raise

    def unsaved(self, model: str) -> Conversation:
        """The conversation that the first message will begin."""
        return Conversation(
            self.date,
            self.system or None,
            model,
            effort=self.effort,
            template_args=self.template_args,
        )

    def switch(self, file: SessionFile | None) -> list[str]:
        """Go on with another session, None: a new one, and close the one before.

        Returns what was repaired when `file` was opened, and what went wrong with closing the other.
        """
        self._background.stop()
        before, self.file = self.file, file
        if before is None and file is not None:
            # These were for the conversation that never began.
            self._request = replace(self._request, system=None, effort=None, template_args={}, settings={})
        notes = list(recovered(file.transcript)) if file else []
        if before is not None:
            try:
                before.close()
            except FolderError as error:
                notes.append(str(error))
        return notes

    def new(self, name: str | None) -> list[str]:
        """Begin a new session with the next message. Returns what went wrong with closing this one."""
        self._request = SessionRequest(
            name=name,
            system=without_summary(self.system),
            date=self._request.date if self.file is None else None,
            effort=self.effort,
            template_args=self.template_args,
            settings=self.settings,
        )
        return self.switch(None)

    def branch(self, at: int | None, name: str | None) -> list[str]:
        """Go on after turn `at` (None: at the head) in a new session with the same turns.

        Returns what `switch` does. Raises as `opening.branch` does, and `UsageError` before the first
        message.
        """
        source = self.conversation
        return self.switch(opening.branch_from(self.folder, str(self.name), source, at, name))

    def compacted(self, source: str, source_head: str | None) -> None:
        """The open session goes on from a summary of the session `source`, whose head was there."""
        assert self.file is not None
        self._compacted = Compacted(source, source_head, self.file, self.file.conversation.head)

    @property
    def compacted_from(self) -> Compacted | None:
        """What this session is a summary of, as long as it has not gone on; else None."""
        compacted, file = self._compacted, self.file
        if compacted is None or file is not compacted.file or file.conversation.head != compacted.head:
            return None
        return compacted

    def rename(self, name: str) -> str:
        """Give the session another name. Returns it in full. Raises `UsageError` or `SessionExists`."""
        if self.file is None:
            raise UsageError("There is no conversation to rename yet: say something first.")
        self._background.stop()
        renamed = self.folder.rename_open(self.file.name, name)
        self.file.moved(self.file.location.with_name(f"{renamed}.jsonl"))
        return renamed

    def note_upkeep(self, size: int) -> None:
        """Add bytes that were written for no turn to the last reply's record. Raises `FolderError`."""
        if self.file is None or not size:
            return
        reply = self.conversation.entries.get(self.conversation.head or "")
        if reply is not None and reply.record:
            self.file.note(reply, {"upkeep_bytes": reply.record.get("upkeep_bytes", 0) + size})

    def close(self) -> str | None:
        """Let the file go. Returns what went wrong with writing it."""
        if self.file is not None:
            try:
                self.file.close()
            except FolderError as error:
                return str(error)
        return None

    # What its prompt is made of, besides the messages

    @property
    def system(self) -> str | None:
        """The system prompt."""
        if self.file is not None:
            return self.file.conversation.system
        return self._default_system if self._request.system is None else self._request.system

    def set_system(self, text: str | None) -> None:
        if self.file is None:
            self._request = replace(self._request, system=text or "")
        else:
            self._background.stop()
            self.file.set_system(text)

    @property
    def date(self) -> str:
        """The day (ISO 8601) that a template is given as today's."""
        if self.file is not None:
            return self.file.conversation.date
        return self._request.date or datetime.date.today().isoformat()

    def set_date(self, date: str) -> None:
        if self.file is None:
            self._request = replace(self._request, date=date)
        else:
            self._background.stop()
            self.file.set_date(date)

    def set_think(self, think: bool | None) -> None:
        """Turn thinking on or off from now on; None leaves it to the template. The session keeps it."""
        self._background.stop()
        self.think = think
        self.keep("think", think)

    def resume_think(self, flags: Collection[str] = ()) -> None:
        """Think as the session keeps it, unless a flag says how, else as this run was asked to."""
        kept = self.settings.get("think")
        if "think" not in self.settings or "think" in flags:
            self.think = self._default_think
        elif kept is None or isinstance(kept, bool):
            self.think = kept

    @property
    def settings(self) -> Mapping[str, Any]:
        """What `/set` and `/think` have set, as `Conversation.settings` has it."""
        return self._request.settings if self.file is None else self.file.conversation.settings

    def keep(self, name: str, value: Any) -> None:
        """Have the session keep a setting (None: the model's own)."""
        settings = {**self.settings, name: value}
        if self.file is None:
            self._request = replace(self._request, settings=settings)
        else:
            self.file.set_settings(settings)

    @property
    def effort(self) -> str | None:
        """The thinking effort that the template is given; None leaves it to the template."""
        saved = self.file.conversation.effort if self.file is not None else None
        return self._request.effort or saved

    @property
    def template_args(self) -> dict[str, Any]:
        """The template's other arguments by name."""
        saved = self.file.conversation.template_args if self.file is not None else {}
        merged = {**saved, **self._request.template_args}
        return {name: value for name, value in merged.items() if value is not None}

    def check_template_args(self, variables: frozenset[str]) -> None:
        """Raise `UsageError` if a template that reads `variables` does not know a requested argument."""
        arguments.check_arguments(variables, self._request.template_args)

    def set_effort(self, effort: str | None, variables: frozenset[str]) -> None:
        """Give the template another effort. Raises `UsageError` if one that reads `variables` knows none."""
        if effort is not None:
            arguments.check_effort(variables)
        # It replaces an effort that was given as a template argument.
        name = arguments.effort_name(variables)
        others = {key: value for key, value in self.template_args.items() if key != name}
        self._background.stop()
        if self.file is None:
            self._request = replace(self._request, effort=effort, template_args=others)
        else:
            self.file.set_template(effort, others)
            self._request = replace(self._request, effort=None, template_args={})

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
            if (edit := self.editing) is not None and self.file is not None:
                # Refusing the message has moved the head to its parent on disk too.
                self.file.move_head(edit.head)
                self.file.move_head(edit.parent, saved=False)
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
        file = self.file
        if file is None:
            return None
        conversation = file.conversation
        last = conversation.unanswered()
        reply = conversation.entries.get((last.parent if last else conversation.head) or "")
        if reply is None:
            return None
        return reply.record.get("boundaries", {}).get("reply", reply.record.get("prompt_tokens"))

    def move_head(self, entry_id: str | None, *, saved: bool = True) -> None:
        """Go on from another entry. Not `saved`: opened again before the next message, it is as it was.

        Raises `UsageError` before the first message, `FolderError` if it cannot be written.
        """
        if self.file is None:
            raise UsageError(NO_CONVERSATION)
        self._background.stop()
        self.file.move_head(entry_id, saved=saved)

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
        edit, file = self._edit, self.file
        if edit is None or file is None or file.conversation.head != edit.parent:
            return None
        return edit

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
        file = self.file
        head = file.conversation.head if file is not None else None
        return self._alternatives if head in self._alternatives else ()

    def offer(self, entries: tuple[str, ...]) -> None:
        """Offer these replies to choose from, for as long as one of them is the head."""
        self._alternatives = entries


def without_summary(system: str | None) -> str | None:
    """A system prompt without the summary of another conversation."""
    return (system or "").partition(SUMMARY_HEADING)[0].rstrip() or None
