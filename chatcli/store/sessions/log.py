"""A session: its conversation, and each change of it as a line for its file, where it has one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from chatcli.conversation.tree import Conversation, Entry, Message, new_id
from chatcli.files import Location
from chatcli.records import ReplyRecord
from chatcli.store.sessions.transcript import Transcript, entry_line


class SessionLog:
    """A session without a file: all of it is in memory. `name` is what its file is to be called, if any."""

    is_saved = False
    location: Location | None = None

    def __init__(self, transcript: Transcript) -> None:
        self.transcript, self.name = transcript, transcript.name
        # What was asked for and is not written yet: lines by their types.
        self._asked: dict[str, Mapping[str, Any]] = {}

    @property
    def conversation(self) -> Conversation:
        return self.transcript.conversation

    @property
    def has_begun(self) -> bool:
        """Whether there is a conversation: a file, or a message."""
        return self.is_saved or bool(self.conversation.entries)

    def write(self, line: Mapping[str, Any], *, wait: bool = True, flush: bool = True) -> None:
        """Without a file there is nothing to write."""

    def close(self) -> None:
        """Without a file there is nothing to let go."""

    def _set(self, line: Mapping[str, Any], saved: bool) -> None:
        if saved:
            self.write(line)
            self._asked.pop(line["type"], None)
        else:
            self._asked[line["type"]] = line

    def write_asked(self) -> None:
        """Write what was set without being saved."""
        for line in list(self._asked.values()):
            self._set(line, True)

    def append(
        self,
        message: Message,
        parent: str | None,
        *,
        wait: bool = True,
        entry_id: str | None = None,
        **facts: Any,
    ) -> Entry:
        """Add a message under `parent` and write it, as `write` does. `entry_id`: that of its parts."""
        entry = Entry(entry_id or new_id(), parent, message, time.time(), **facts)
        self.write(entry_line(entry), wait=wait)
        return self.conversation.add(entry)

    def copy(self, entry: Entry) -> None:
        """Add an entry of another session as it is."""
        self.write(entry_line(entry))
        self.conversation.add(entry)

    def note(self, entry: Entry, record: ReplyRecord) -> None:
        """Add numbers to the record of a reply that is on disk."""
        self.write({"type": "note", "id": entry.id, "record": dict(record)})
        self.conversation.note(entry.id, record)

    def move_head(self, entry_id: str | None, *, saved: bool = True) -> None:
        """Continue from another entry. Not `saved`: opened again before the next message, it is as it was."""
        if entry_id != self.conversation.head:
            if saved:
                self.write({"type": "head", "id": entry_id})
            self.conversation.head = entry_id

    def set_system(self, system: str | None, *, saved: bool = True) -> None:
        """Not `saved`: `write_asked` writes it, here and below."""
        if system != self.conversation.system:
            self._set({"type": "system", "content": system}, saved)
            self.conversation.system = system

    def set_model(self, model: str) -> None:
        if model != self.conversation.model:
            self.write({"type": "model", "model": model})
            self.conversation.model = model

    def set_date(self, date: str) -> None:
        """`date` is ISO 8601."""
        if date != self.conversation.date:
            self.write({"type": "date", "date": date})
            self.conversation.date = date

    def set_template(self, effort: str | None, arguments: Mapping[str, Any], *, saved: bool = True) -> None:
        """The variables of the chat template from now on; `effort` is how much to think."""
        conversation = self.conversation
        if (effort, arguments) != (conversation.effort, conversation.template_args):
            self._set({"type": "template", "effort": effort, "args": dict(arguments)}, saved)
            conversation.effort, conversation.template_args = effort, dict(arguments)

    def set_model_options(self, model_options: Mapping[str, Any]) -> None:
        """How the model is run from now on, as `ModelOptions.asked` tells it."""
        if model_options != self.conversation.model_options:
            self.write({"type": "running", "running": dict(model_options)})
            self.conversation.model_options = dict(model_options)

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """What `/set` and `/think` have set from now on, as `Conversation.settings` has it."""
        if settings != self.conversation.settings:
            self.write({"type": "set", "set": dict(settings)})
            self.conversation.settings = dict(settings)

    def set_label(self, entry_id: str, label: str) -> None:
        """Bookmark an entry; an empty label takes the bookmark away."""
        self.write({"type": "label", "id": entry_id, "label": label})
        self.conversation.labels.pop(entry_id, None)
        if label:
            self.conversation.labels[entry_id] = label
