"""How a reply ended, in the same words wherever it is told; refuses to know where that is."""

from __future__ import annotations

from chatcli.conversation.tree import Entry
from chatcli.events import Notice, TurnDone, TurnRecord

# What did not come to its end, by its finish reason.
WORDS = {"cancelled": "stopped", "length": "cut"}
# How a notice begins that says already that the reply was cut, and why.
CUT = "The reply was cut"
GOES_ON = "/continue goes on"


def word(finish_reason: str | None) -> str:
    """One word for a reply that did not come to its end; nothing for one that did."""
    return WORDS.get(finish_reason or "", "")


def mark(finish_reason: str | None) -> str:
    """The same, to stand behind the reply: (stopped)."""
    told = word(finish_reason)
    return f"({told})" if told else ""


def marked(text: str, finish_reason: str | None) -> str:
    """What there is to see of a message, with the mark behind it, or in its place if it is empty."""
    parts = (text, mark(finish_reason))
    return " ".join(part for part in parts if part.strip()) or "(empty)"


def said(entry: Entry) -> str:
    """All that a message says as a person sees it, marked."""
    return marked(entry.message.shown, entry.finish_reason)


def told_already(notice: Notice) -> bool:
    """Whether a notice says that the reply was cut: no one else has to."""
    return notice.text.startswith(CUT)


def note(done: TurnDone, context: int | None) -> str | None:
    """What a chat says below a reply that did not come to its end; None if it did.

    `context`: the most tokens that the model takes; None where that is not known.
    """
    record = done.record
    if record.finish_reason == "cancelled":
        return f"(stopped{_stopped(done)})"
    if record.finish_reason == "length":
        full = is_full(record, context)
        return f"(cut at {_tokens(record)}: {'the context is full' if full else GOES_ON})"
    return None


def _stopped(done: TurnDone) -> str:
    if done.record.generated_tokens:
        return f": what came is kept, {GOES_ON}"
    if done.kept:
        return " before the first word: /regenerate answers it"
    return " before the first new word: the reply is as it was"


def sentence(record: TurnRecord, context: int | None) -> str | None:
    """What a person is told outside a chat of a reply that was cut; None if it was not."""
    if record.finish_reason != "length":
        return None
    way = "-n allows more, and /continue in a chat goes on"
    if is_full(record, context):
        way = "the model's context is full"
    return f"{CUT} at {_tokens(record)}: {way}."


def is_full(record: TurnRecord, context: int | None) -> bool:
    """Whether the context took no more tokens when the reply ended."""
    return context is not None and record.prompt_tokens + record.generated_tokens >= context


def _tokens(record: TurnRecord) -> str:
    """How long the reply is, what of it had been said before this turn too."""
    count = len(record.tokens)
    return f"{count:,} token{'s' * (count != 1)}"
