"""A request for a reply and what comes of it, in no API's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError
from chatcli.events import PrefillProgress, PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.settings.values import Sampling


@dataclass(frozen=True)
class ReplyRequest:
    """What a client wants a reply to.

    `messages` begin with the system prompt, if there is one, and end with a user's message or a tool's
    result. `tools` are what a chat template takes, `{"type": "function", "function": {"name", "description",
    "parameters"}}`. A `prompt` takes the place of both, and is run as it is. `images` are those that messages
    name by their hash, those `brought` come with the last one. `sampling` is what the request says about it,
    the rest is the server's and the model's. `think` and `effort` None leave it to the template, as do the
    `arguments` it is given besides. Of each token the `top_logprobs` likeliest are told; None: no logprobs at
    all. `count_only`: nothing is run, and `ReplyDone` has the prompt's tokens.
    """

    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    images: tuple[Image, ...] = ()
    brought: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    think: bool | None = None
    effort: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    top_logprobs: int | None = None
    count_only: bool = False


@dataclass(frozen=True)
class CallsMade:
    """The model has written tool calls, each with an id of its own."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class TokenLogprob:
    """A token that was generated, its text and its logprob, and the likeliest tokens in its place.

    It comes before the deltas that hold the token's text. A token may be part of a character: its bytes are
    surrogates then (`chat_format/token_bytes.py`).
    """

    id: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()


@dataclass(frozen=True)
class ReplyDone:
    """The reply has ended. `record.finish_reason` is "stop", "length" or "cancelled".

    `stop_text` is the stop text that ended it, None if none did.
    """

    record: TurnRecord
    calls: tuple[ToolCall, ...] = ()
    stop_text: str | None = None


def not_shown(kind: str) -> str:
    """What stands in a message in the place of something that the model cannot be shown."""
    return f"[{kind}: not shown to this model]"


# What a reply comes as, in this order: one match, progress, then deltas, then the end.
ReplyEvent = (
    PrefixMatched | PrefillProgress | TokenLogprob | ThinkingDelta | TextDelta | CallsMade | ReplyDone
)
# What a request's events go to, last a `ReplyDone` or an error. It is called on the engine's thread.
Deliver = Callable[[ReplyEvent | ChatcliError], None]
