"""The events of a turn, as values that any listener can take."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, cast

from chatcli.records import ReplyRecord, WrittenCall
from chatcli.text import clean_line, count, file_size, shorten

# Characters of a tool call's arguments that are shown.
MAX_SHOWN_ARGUMENTS = 400


@dataclass(frozen=True)
class ToolCall:
    """A tool that a reply calls. `arguments` is JSON, `id` is what the tool's result names.

    The part [start, end) of the reply's text is the call as the model wrote it; an empty part where that
    is not known.
    """

    name: str
    arguments: str
    id: str = ""
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        call = f"{clean_line(self.name)}({shorten(self.arguments, MAX_SHOWN_ARGUMENTS)})"
        # One that has an id was called by a program that runs it.
        return f"⚙ calls {call}" if self.id else f"⚙ calls {call}, which chatcli does not run"


@dataclass(frozen=True)
class PrefixMatched:
    """The prompt was compared with what is in memory and on disk (counts are tokens).

    `reused_tokens` come from a checkpoint, `typeahead_tokens` were run while the message was typed.
    """

    prompt_tokens: int
    reused_tokens: int
    miss_reason: str | None
    typeahead_tokens: int = 0


@dataclass(frozen=True)
class PrefillProgress:
    """`done` of `total` tokens of this prompt have been run while the person waits."""

    done: int
    total: int

    def describe(self, elapsed: float) -> str:
        """In a few words, with the seconds that are left if `elapsed` have passed."""
        left = elapsed * (self.total - self.done) / max(self.done, 1)
        return f"{self.done:,} of {count('token', self.total)}, {left:.0f} s left"


@dataclass(frozen=True)
class ThinkingDelta:
    """`tokens` were generated so far, in `seconds` of thinking."""

    text: str
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ReplyContinued:
    """What follows is more of a reply that was cut, of which `text` came before."""

    text: str


@dataclass(frozen=True)
class ToolCalled:
    """The model wrote `text`, in which it calls tools; they are not run."""

    text: str
    calls: tuple[ToolCall, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls))


@dataclass(frozen=True)
class Notice:
    """One sentence for the person."""

    text: str


@dataclass(frozen=True)
class Download:
    """The progress of a model's download in bytes; `rate` is bytes a second (None: not known yet)."""

    done: int
    total: int
    files: int = 0
    rate: float | None = None

    def __str__(self) -> str:
        """In a few words: 1.2 GB of 4.3 GB, 12 MB/s, 4 min left."""
        if not self.total:
            return "asking the hub"
        progress = f"{file_size(self.done)} of {file_size(self.total)}"
        if self.rate is None or self.done >= self.total:
            return progress
        progress += f", {file_size(int(self.rate))}/s"
        if not self.rate:
            return progress
        seconds = (self.total - self.done) / self.rate
        if seconds < 100:
            return f"{progress}, {seconds:.0f} s left"
        if seconds < 6000:
            return f"{progress}, {seconds / 60:.0f} min left"
        return f"{progress}, {seconds / 3600:.0f} h left"


@dataclass
class TurnRecord:
    """A turn's measured numbers: times in seconds, sizes in bytes, counts in tokens.

    `prompt_tokens == reused_tokens + typeahead_tokens + prefilled_tokens`: from a checkpoint, run while the
    message was typed, and left to run then. Where that was stopped, `unrun_tokens` of the prefilled ones were
    not run. Of the reused ones `reused_settled_tokens` were run between the last reply and this message, and
    `settle_reason` says why that was more than the reply. `settled_tokens` were run after this turn's reply,
    and `settled_bytes`, of `checkpoint_bytes`, written.
    `avoided_seconds` is what prefilling the reused tokens took when they were run.
    `generated_tokens` were generated for this turn: a reply that goes on has more `tokens`.
    `thinking_tokens` of all were generated before its text, in `thinking_seconds`.
    `draft_accepted_tokens` of these were proposed by the `draft_model` (None: there was none).
    `logprobs` are the natural logarithms of the generated tokens' probabilities.
    `tool_calls` are dictionaries of `name` and `arguments`, and of the `start` and `end` of the part of the
    text that holds the call.
    """

    session: str
    turn: int
    text: str = ""
    thinking: str = ""
    finish_reason: str = "cancelled"
    prompt_tokens: int = 0
    reused_tokens: int = 0
    typeahead_tokens: int = 0
    prefilled_tokens: int = 0
    unrun_tokens: int = 0
    settled_tokens: int = 0
    reused_settled_tokens: int = 0
    miss_reason: str | None = None
    settle_reason: str | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    restore_seconds: float = 0.0
    prefill_seconds: float = 0.0
    avoided_seconds: float = 0.0
    time_to_first_token: float | None = None
    generation_tps: float = 0.0
    checkpoint_bytes: int = 0
    settled_bytes: int = 0
    generated_tokens: int = 0
    draft_model: str | None = None
    draft_accepted_tokens: int = 0
    thinking_tokens: int = 0
    thinking_seconds: float = 0.0
    tool_calls: list[WrittenCall] = field(default_factory=list)

    def add(self, settled: Settled) -> None:
        """Count what was run and written after the reply."""
        self.settled_tokens += settled.tokens
        self.settled_bytes += settled.bytes
        self.checkpoint_bytes += settled.bytes

    @property
    def hit_ratio(self) -> float:
        """Reused over prompt tokens, between 0 and 1."""
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def as_json(self) -> dict[str, Any]:
        """The object that `ask --json` prints."""
        return {**asdict(self), "hit_ratio": self.hit_ratio}

    def numbers(self) -> ReplyRecord:
        """What a transcript's record keeps: everything that the entry itself does not have."""
        in_entry = {"session", "turn", "text", "thinking", "finish_reason", "tokens", "logprobs"}
        numbers = {key: value for key, value in self.as_json().items() if key not in in_entry}
        return cast(ReplyRecord, numbers)


@dataclass(frozen=True)
class TypeaheadProgress:
    """`tokens` of a message that is being typed have been run."""

    tokens: int


@dataclass(frozen=True)
class TurnDone:
    """The reply ended. Not `kept`: nothing new came, and the conversation is as it was."""

    record: TurnRecord
    kept: bool = True


@dataclass(frozen=True)
class Settled:
    """The conversation was run as history will show it: tokens run ahead of time, bytes written."""

    tokens: int
    bytes: int


@dataclass(frozen=True)
class Batched:
    """Several replies are coming at once: `done` of `total` have ended, with `tokens` in all."""

    done: int
    total: int
    tokens: int

    def __str__(self) -> str:
        """In a few words: 1 of 4 replies, 212 tokens."""
        return f"{self.done} of {count('reply', self.total, 'replies')}, {count('token', self.tokens)}"


@dataclass(frozen=True)
class Answered:
    """Question `number` of several, from 1, has its reply."""

    number: int
    record: TurnRecord


@dataclass(frozen=True)
class Refused:
    """Question `number` of several, from 1, can have no reply: one sentence says why."""

    number: int
    why: str


@dataclass(frozen=True)
class Alternatives:
    """Several replies to one question, and their entries' ids. The conversation goes on from the first."""

    records: tuple[TurnRecord, ...]
    entries: tuple[str, ...]


Event = (
    PrefixMatched
    | PrefillProgress
    | ThinkingDelta
    | TextDelta
    | ReplyContinued
    | ToolCalled
    | Notice
    | Download
    | TurnDone
    | Settled
    | TypeaheadProgress
    | Batched
    | Answered
    | Refused
    | Alternatives
)
