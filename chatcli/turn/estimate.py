"""What going on from somewhere would take, without going there; refuses to know terminals."""

from __future__ import annotations

from chatcli.conversation.tree import Entry
from chatcli.turn import turn
from chatcli.turn.turn import TurnContext


def cost(chat: TurnContext, entry: Entry) -> int:
    """Tokens of the path that no checkpoint covers: those of a reply, or of what a message follows.

    Raises `TemplateRefused`.
    """
    asked = entry.message.role == "user"
    leaf = chat.conversation.entries.get(entry.parent or "") if asked else entry
    if leaf is None:
        return 0
    tokens, chain = turn.as_history(chat, leaf)
    if not chain:
        return 0
    return chain[-1].end - turn.end_of(chain, chat.checkpoints.match(chain, tokens))


def used(chat: TurnContext) -> int:
    """Tokens that the conversation takes of the context before the next message."""
    path = chat.conversation.path()
    messages = turn.history(chat, path[-1] if path else None)
    return len(chat.template.tokens(messages, generation=False))
