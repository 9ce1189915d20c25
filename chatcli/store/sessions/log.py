"""A session: its conversation, with each change also written to its file, if it has one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Conversation, Entry, Message, new_id
from chatcli.files import Location
from chatcli.records import ReplyRecord
from chatcli.store.sessions.transcript import ATTRIBUTES, Transcript, entry_line


class SessionLog:
    """A session without a file, in memory only. `name` is the name its file will get, if any.

    One that `is_private` never gets a file, and nothing that is computed for it goes to disk.
    """

    is_saved = is_private = False
    location: Location | None = None

    def __init__(self, transcript: Transcript) -> None:
        self.transcript, self.name = transcript, transcript.name
        # Images of a private conversation.
        self.images: list[Image] = []
        # Changes that are not written yet: lines by their types.
        self._asked: dict[str, Mapping[str, Any]] = {}

    @property
    def conversation(self) -> Conversation:
        return self.transcript.conversation

    @property
    def has_begun(self) -> bool:
        """Whether the conversation has a file or a message."""
        return self.is_saved or bool(self.conversation.entries)

    @property
    def held_images(self) -> list[Image] | None:
        """The list that keeps a private conversation's images in memory; None if they are on disk."""
        return self.images if self.is_private else None

    def write(self, line: Mapping[str, Any], *, wait: bool = True, flush: bool = True) -> None:
        """Without a file, does nothing."""

    def close(self) -> None:
        """Without a file, does nothing."""

    def _set(self, kind: str, saved: bool = True, **values: Any) -> None:
        attributes = {name: ATTRIBUTES[kind][name][0] for name in values}
        if all(values[name] == getattr(self.conversation, of) for name, of in attributes.items()):
            return
        line = {"type": kind, **values}
        if saved:
            self.write(line)
            self._asked.pop(kind, None)
        else:
            self._asked[kind] = line
        for name, of in attributes.items():
            setattr(self.conversation, of, values[name])

    def write_asked(self) -> None:
        """Write the changes that were made with `saved` false."""
        while self._asked:
            kind = next(iter(self._asked))
            self.write(self._asked[kind])
            del self._asked[kind]

    def append(
        self,
        message: Message,
        parent: str | None,
        *,
        wait: bool = True,
        entry_id: str | None = None,
        **facts: Any,
    ) -> Entry:
        """Add a message under `parent` and write it, as `write` does. `entry_id` is the id of its parts."""
        entry = Entry(entry_id or new_id(), parent, message, time.time(), **facts)
        self.write(entry_line(entry), wait=wait)
        return self.conversation.add(entry)

    def copy(self, entry: Entry) -> None:
        """Add another session's entry unchanged."""
        self.write(entry_line(entry))
        self.conversation.add(entry)

    def fill(self, conversation: Conversation) -> None:
        """Take over all of another conversation but its date, its system prompt and its model."""
        self.set_template(conversation.effort, conversation.template_args)
        self.set_model_options(conversation.model_options)
        self.set_settings(conversation.settings)
        for entry in conversation.entries.values():
            self.copy(entry)
        for entry_id, label in conversation.labels.items():
            self.set_label(entry_id, label)
        self.move_head(conversation.head)

    def note(self, entry: Entry, record: ReplyRecord) -> None:
        """Add numbers to the record of a reply that is on disk."""
        self.write({"type": "note", "id": entry.id, "record": dict(record)})
        self.conversation.note(entry.id, record)

    def move_head(self, entry_id: str | None, *, saved: bool = True) -> None:
        """Continue from another entry. Unless `saved`, the file does not change before the next message."""
        if entry_id != self.conversation.head:
            if saved:
                self.write({"type": "head", "id": entry_id})
            self.conversation.head = entry_id

    def set_system(self, system: str | None, *, saved: bool = True) -> None:
        """If not `saved`, `write_asked` writes it later, here and below."""
        self._set("system", saved, content=system)

    def set_model(self, model: str) -> None:
        self._set("model", model=model)

    def set_date(self, date: str) -> None:
        """`date` is ISO 8601."""
        self._set("date", date=date)

    def set_template(self, effort: str | None, arguments: Mapping[str, Any], *, saved: bool = True) -> None:
        """Set the chat template's variables from now on; `effort` is how much to think."""
        self._set("template", saved, effort=effort, args=dict(arguments))

    def set_model_options(self, model_options: Mapping[str, Any]) -> None:
        """Set how the model is run from now on, in the form of `ModelOptions.asked`."""
        self._set("running", running=dict(model_options))

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """Set the values of `/set` and `/think` from now on, in the form of `Conversation.settings`."""
        self._set("set", set=dict(settings))

    def set_label(self, entry_id: str, label: str) -> None:
        """Bookmark an entry; an empty label removes the bookmark."""
        self.write({"type": "label", "id": entry_id, "label": label})
        self.conversation.labels.pop(entry_id, None)
        if label:
            self.conversation.labels[entry_id] = label
