"""Saves each served conversation as a session, which the shell can list, show and continue."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from chatcli.conversation.tree import Conversation, Entry, Message
from chatcli.errors import BadName, ChatcliError, FolderError, SessionError
from chatcli.records import ReplyRecord
from chatcli.serve.conversations import Conversations
from chatcli.serve.wire import BadRequest
from chatcli.store.sessions.folder import SessionFile, SessionFolder, slug
from chatcli.text import without_quoted

PREVIOUS = "previous_response_id"

logger = logging.getLogger("chatcli.serve")


class KeptConversations:
    """The sessions of served conversations. A session is open only while it is written."""

    def __init__(self, folder: SessionFolder, conversations: Conversations, model: str) -> None:
        self._folder = folder
        self._conversations = conversations
        self._model = model

    def add(
        self,
        conversation: Conversation,
        reply: Entry,
        thinking: str,
        record: ReplyRecord,
        response_id: str | None = None,
    ) -> None:
        """Save the path to a reply: in the session that has its beginning, or in a new one.

        `history` finds the reply by its `response_id`, if given.
        """
        path = [entry for entry in conversation.path(reply.id) if entry.message.role != "system"]
        path[-1] = replace(reply, message=replace(reply.message, thinking=thinking), record=record)
        try:
            with self._session(conversation, path) as (session, kept):
                session.set_template(conversation.effort, conversation.template_args)
                for entry in path[kept:]:
                    last = session.append(
                        entry.message,
                        session.conversation.head,
                        wait=entry is path[-1],
                        finish_reason=entry.finish_reason,
                        record=entry.record,
                    )
                    facts: dict[str, Any] = {
                        "session": session.name,
                        "kept_as": last.id,
                        "system": _digest(conversation),
                    }
                    self._conversations.note(entry, {}, **facts)
                if response_id is not None:
                    kept_as = session.conversation.head
                    self._conversations.remember(response_id, {}, session=session.name, kept_as=kept_as)
        except ChatcliError as error:
            # The error may quote the session's name, which is the conversation's first words: do not log it.
            logger.warning("A conversation is not kept: %s", without_quoted(str(error)))

    def history(self, response_id: str) -> list[Message]:
        """The messages up to a response, as a client would send them. Raises `BadRequest`."""
        facts = self._conversations.facts(response_id)
        name, identifier = facts.get("session", ""), facts.get("kept_as")
        with suppress(SessionError, BadName, FolderError):
            if identifier is not None:
                # The session may have been renamed.
                name = name if self._folder.exists(name) else self._folder.holding(identifier) or name
                conversation = self._folder.read(self._folder.exact(name)).conversation
                if identifier in conversation.entries:
                    path = [entry.message for entry in conversation.path(identifier)]
                    return [each if each.tool_calls else replace(each, thinking="") for each in path]
        raise BadRequest(f"previous_response_id: {response_id} is not kept on this server.", PREVIOUS)

    def note(self, reply: Entry, record: ReplyRecord) -> None:
        """Add numbers to a saved reply, unless a shell has its session open and settles it itself."""
        name, identifier = (self._conversations.fact(reply, fact) for fact in ("session", "kept_as"))
        if name is None:
            return
        try:
            with self._folder.open(name) as session:
                if kept := session.conversation.entries.get(identifier):
                    session.note(kept, record)
        except ChatcliError as error:
            logger.info("A session is left as it is: %s", without_quoted(str(error)))

    @contextmanager
    def _session(self, conversation: Conversation, path: list[Entry]) -> Iterator[tuple[SessionFile, int]]:
        """The session that a path continues, its head moved there, and how many entries of the path it has.

        Raises `ChatcliError` if it cannot be written.
        """
        unusable: set[str] = set()  # deleted, or open in a shell
        for kept in range(len(path), 0, -1):
            name, identifier, system = (
                self._conversations.fact(path[kept - 1], fact) for fact in ("session", "kept_as", "system")
            )
            if name is None or name in unusable or system != _digest(conversation):
                continue
            try:
                if not self._folder.exists(name):  # renamed or deleted
                    unusable.add(name)
                    name = self._folder.holding(identifier) or name
                session = self._folder.open(self._folder.exact(name))
            except (SessionError, BadName):
                unusable.add(name)
                continue
            with session:
                # Another session may have the name of a deleted one.
                if identifier in session.conversation.entries:
                    session.move_head(identifier)
                    yield session, kept
                    return
        name = self._folder.free_name(slug(path[0].message.content))
        with self._folder.building(
            name, model=self._model, system=conversation.system, date=conversation.date
        ) as session:
            yield session, 0
        session.close()


def _digest(conversation: Conversation) -> str:
    """A digest of the system prompt; a session has only one."""
    return hashlib.sha256((conversation.system or "").encode(errors="surrogatepass")).hexdigest()[:16]
