"""The events of a turn, as plain values for any listener."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, cast

from chatcli.records import ReplyRecord, WrittenCall
from chatcli.text import clean_line, count, file_size, shorten

# How many characters of a call's arguments are shown.
MAX_SHOWN_ARGUMENTS = 400


@dataclass(frozen=True)
class ToolCall:
    """A reply's call of a tool. `arguments` is JSON. The tool's result refers to `id`.

    [start, end) is the call as the model wrote it within the reply's text; empty if unknown.
    """

    name: str
    arguments: str
    id: str = ""
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        call = f"{clean_line(self.name)}({shorten(self.arguments, MAX_SHOWN_ARGUMENTS)})"
        # A call with an id comes from an API client, which runs the tool.
        return f"⚙ calls {call}" if self.id else f"⚙ calls {call}, which chatcli does not run"


@dataclass(frozen=True)
class PrefixMatched:
    """The prompt was matched against the checkpoints in memory and on disk. Counts are tokens.

    `reused_tokens` come from a checkpoint; `typeahead_tokens` were prefilled while the message was typed.
    """

    prompt_tokens: int
    reused_tokens: int
    miss_reason: str | None
    typeahead_tokens: int = 0


@dataclass(frozen=True)
class PrefillProgress:
    """`done` of `total` tokens of this prompt have been prefilled while the person waits."""

    done: int
    total: int

    def describe(self, elapsed: float) -> str:
        """A short description with the remaining time, after `elapsed` seconds."""
        left = elapsed * (self.total - self.done) / max(self.done, 1)
        return f"{self.done:,} of {count('token', self.total)}, {left:.0f} s left"


@dataclass(frozen=True)
class ThinkingDelta:
    """A piece of thinking. So far it has taken `tokens` and `seconds`."""

    text: str
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ReplyContinued:
    """The next deltas continue a truncated reply that begins with `text`."""

    text: str


@dataclass(frozen=True)
class ToolCalled:
    """The model wrote `text`, which contains tool calls. They are not run."""

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
    """The progress of a model download in bytes. `rate` is in bytes per second (None: not yet known)."""

    done: int
    total: int
    files: int = 0
    rate: float | None = None

    def __str__(self) -> str:
        """For example: 1.2 GB of 4.3 GB, 12 MB/s, 4 min left."""
        if not self.total:
            return "asking the hub"
        progress = f"{file_size(self.done)} of {file_size(self.total)}"
        if self.rate is None or self.done >= self.total:
            return progress
        progress += f", {file_size(int(self.rate))}/s"
        if not self.rate:
            return progress
        seconds = (self.total - self.done) / self.rate
        unit, length = ("s", 1) if seconds < 100 else ("min", 60) if seconds < 6000 else ("h", 3600)
        return f"{progress}, {seconds / length:.0f} {unit} left"


@dataclass
class TurnRecord:
    """A turn's measurements: times in seconds, sizes in bytes, counts in tokens.

    `prompt_tokens == reused_tokens + typeahead_tokens + prefilled_tokens`: taken from a checkpoint, prefilled
    while the message was typed, and prefilled after it was sent. If the turn was stopped, `unrun_tokens` of
    the last were not run. `reused_settled_tokens` of the reused ones were prefilled between the last reply
    and this message, and `settle_reason` tells why those were more than the reply.

    `settled_tokens` were prefilled after this turn's reply, which wrote `settled_bytes` of
    `checkpoint_bytes`. `avoided_seconds` is how long prefilling the reused tokens originally took.

    `generated_tokens` were generated in this turn; a continued reply has more `tokens`. `thinking_tokens` of
    them came before the text, in `thinking_seconds`. `guessed_tokens` were guessed, from what was said before
    or by the `draft_model` (None without one), and `accepted_tokens` were right; `draft_accepted_tokens` of
    these came from the draft model. `logprobs` are natural logarithms. `tool_calls` are dictionaries of
    `name`, `arguments`, and the `start` and `end` of the call in the text.
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
    guessed_tokens: int = 0
    accepted_tokens: int = 0
    thinking_tokens: int = 0
    thinking_seconds: float = 0.0
    tool_calls: list[WrittenCall] = field(default_factory=list)

    def add(self, settled: Settled) -> None:
        """Add the tokens and bytes of settling."""
        self.settled_tokens += settled.tokens
        self.settled_bytes += settled.bytes
        self.checkpoint_bytes += settled.bytes

    @property
    def hit_ratio(self) -> float:
        """Reused tokens divided by prompt tokens, from 0 to 1."""
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def as_json(self, *, brief: bool = False) -> dict[str, Any]:
        """The object that `ask --json` prints; `brief`: without `tokens` and `logprobs`."""
        left_out = {"tokens", "logprobs"} if brief else set()
        fields = {key: value for key, value in asdict(self).items() if key not in left_out}
        return {**fields, "hit_ratio": self.hit_ratio}

    def numbers(self) -> ReplyRecord:
        """The part of a transcript's record that the entry itself does not contain."""
        in_entry = {"session", "turn", "text", "thinking", "finish_reason", "tokens", "logprobs"}
        numbers = {key: value for key, value in self.as_json().items() if key not in in_entry}
        return cast(ReplyRecord, numbers)


@dataclass(frozen=True)
class TypeaheadProgress:
    """`tokens` of a message that is being typed have been prefilled."""

    tokens: int


@dataclass(frozen=True)
class TurnDone:
    """The reply ended. If it is not `kept`, it was empty and the conversation is unchanged."""

    record: TurnRecord
    kept: bool = True


@dataclass(frozen=True)
class Settled:
    """The reply was prefilled as history will show it: tokens prefilled, bytes written."""

    tokens: int
    bytes: int


@dataclass(frozen=True)
class Batched:
    """`done` of `total` replies generated together have ended, with `tokens` in all."""

    done: int
    total: int
    tokens: int

    def __str__(self) -> str:
        """For example: 1 of 4 replies, 212 tokens."""
        return f"{self.done} of {count('reply', self.total, 'replies')}, {count('token', self.tokens)}"


@dataclass(frozen=True)
class Answered:
    """Question `number` of several, counted from 1, has its reply."""

    number: int
    record: TurnRecord


@dataclass(frozen=True)
class Refused:
    """Question `number` of several, counted from 1, was refused; `why` is a sentence."""

    number: int
    why: str


@dataclass(frozen=True)
class Alternatives:
    """Several replies to one question, and their entries' ids. The conversation continues from the first."""

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
