"""How a reply ended, in the same words wherever it is shown."""

from __future__ import annotations

from chatcli.conversation.tree import Entry
from chatcli.events import Notice, TurnDone, TurnRecord
from chatcli.text import count, duration

# Replies that did not come to their end, by finish reason.
WORDS = {"cancelled": "stopped", "length": "cut"}
# How a notice begins that reports that the reply was cut, and why.
CUT = "The reply was cut"
SUMMARY_CUT = "The summary was not finished"
GOES_ON = "/continue goes on"
STOPPED = f"(stopped: what came is kept, {GOES_ON})"
NEVER_BEGAN = "(stopped before the first word: /regenerate answers it)"


def word(finish_reason: str | None) -> str:
    """One word for a reply that did not come to its end; nothing for one that did."""
    return WORDS.get(finish_reason or "", "")


def thought(tokens: int, seconds: float) -> str:
    """What stands for a reply's thinking."""
    return f"Thought for {duration(seconds)}, {count('token', tokens)}" if tokens else "Thought"


def mark(finish_reason: str | None) -> str:
    """The same, to stand behind the reply: (stopped)."""
    reason = word(finish_reason)
    return f"({reason})" if reason else ""


def marked(text: str, finish_reason: str | None) -> str:
    """A message's text with the mark behind it, or in its place if it is empty."""
    parts = (text, mark(finish_reason))
    return " ".join(part for part in parts if part.strip()) or "(empty)"


def shown(entry: Entry) -> str:
    """A message as a person sees it, marked."""
    return marked(entry.message.shown, entry.finish_reason)


def reports_cut(notice: Notice) -> bool:
    """Whether a notice reports already that the reply was cut."""
    return notice.text.startswith((CUT, SUMMARY_CUT))


def note(done: TurnDone, context: int | None) -> str | None:
    """What a chat says below a reply that did not come to its end; None if it did.

    `context`: the most tokens that the model takes; None where that is not known.
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
        return f"(cut at {_tokens(record)}: {'the context is full' if full else GOES_ON})"
    return None


def saved_note(reply: Entry) -> str | None:
    """As `note`, for a saved reply that the conversation ends with."""
    if reply.finish_reason == "cancelled":
        if reply.message.content or reply.message.thinking:
            return STOPPED
        return NEVER_BEGAN
    if reply.finish_reason == "length":
        tokens = len(reply.record.get("generated", ()))
        return f"(cut at {count('token', tokens)}: {GOES_ON})" if tokens else f"(cut: {GOES_ON})"
    return None


def sentence(record: TurnRecord, context: int | None) -> str | None:
    """What `ask` says of a reply that was cut; None if it was not."""
    if record.finish_reason != "length":
        return None
    remedy = "-n allows more, and /continue in a chat goes on"
    if is_full(record, context):
        remedy = "the model's context is full"
    return f"{CUT} at {_tokens(record)}: {remedy}."


def is_full(record: TurnRecord, context: int | None) -> bool:
    """Whether the context took no more tokens when the reply ended."""
    return context is not None and record.prompt_tokens + record.generated_tokens >= context


def _tokens(record: TurnRecord) -> str:
    """The length of the whole reply, also of what an earlier turn generated."""
    return count("token", len(record.tokens))
