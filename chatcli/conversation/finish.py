"""Says how a reply ended, with the same words everywhere."""

from __future__ import annotations

from chatcli.conversation.tree import Entry
from chatcli.events import Notice, TurnDone, TurnRecord
from chatcli.text import count, duration

# Words for replies that did not finish, by finish reason.
WORDS = {"cancelled": "stopped", "length": "cut"}
# How a notice begins that says that and why the reply was cut off.
CUT = "The reply was cut"
SUMMARY_CUT = "The summary was not finished"
MORE = "/continue for more"
STOPPED = f"(stopped: the text so far is kept, {MORE})"
NEVER_BEGAN = "(stopped before the first word: /regenerate answers it)"


def word(finish_reason: str | None) -> str:
    """One word for a reply that did not finish; empty for one that did."""
    return WORDS.get(finish_reason or "", "")


def thought(tokens: int, seconds: float) -> str:
    """The line that replaces a reply's thinking."""
    return f"Thought for {duration(seconds)}, {count('token', tokens)}" if tokens else "Thought"


def mark(finish_reason: str | None) -> str:
    """`word` in brackets, to be shown after the reply: (stopped)."""
    reason = word(finish_reason)
    return f"({reason})" if reason else ""


def marked(text: str, finish_reason: str | None) -> str:
    """A message's text with the mark after it, or the mark alone if the text is empty."""
    parts = (text, mark(finish_reason))
    return " ".join(part for part in parts if part.strip()) or "(empty)"


def shown(entry: Entry) -> str:
    """A message as a person sees it, marked."""
    return marked(entry.message.shown, entry.finish_reason)


def reports_cut(notice: Notice) -> bool:
    """Whether a notice already says that the reply was cut off."""
    return notice.text.startswith((CUT, SUMMARY_CUT))


def note(done: TurnDone, context: int | None) -> str | None:
    """The note below a reply that did not finish; None if it did.

    `context`: the most tokens that the model takes; None if unknown.
    """
    record = done.record
    if record.finish_reason == "cancelled":
        if record.generated_tokens:
            return STOPPED
        if done.kept:
            return NEVER_BEGAN
        return "(stopped before the first new word: the reply is as it was)"
    if record.finish_reason == "length":
        full = is_full(record, context)
        return f"(cut at {_tokens(record)}: {'the context is full' if full else MORE})"
    return None


def saved_note(reply: Entry) -> str | None:
    """Like `note`, for a saved reply at the end of a conversation."""
    if reply.finish_reason == "cancelled":
        if reply.message.content or reply.message.thinking:
            return STOPPED
        return NEVER_BEGAN
    if reply.finish_reason == "length":
        tokens = len(reply.record.get("generated", ()))
        return f"(cut at {count('token', tokens)}: {MORE})" if tokens else f"(cut: {MORE})"
    return None


def sentence(record: TurnRecord, context: int | None) -> str | None:
    """The sentence of `ask` about a reply that was cut off; None if it was not."""
    if record.finish_reason != "length":
        return None
    remedy = "-n allows more, and /continue in a chat continues it"
    if is_full(record, context):
        remedy = "the model's context is full"
    return f"{CUT} at {_tokens(record)}: {remedy}."


def is_full(record: TurnRecord, context: int | None) -> bool:
    """Whether the context was full when the reply ended."""
    return context is not None and record.prompt_tokens + record.generated_tokens >= context


def _tokens(record: TurnRecord) -> str:
    """The length of the whole reply, including what an earlier turn generated."""
    return count("token", len(record.tokens))
