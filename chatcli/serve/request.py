"""A request for a reply and the events of that reply, independent of any API's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message
from chatcli.errors import ChatcliError
from chatcli.events import PrefillProgress, PrefixMatched, TextDelta, ThinkingDelta, ToolCall, TurnRecord
from chatcli.replies.answer_form import AnswerForm
from chatcli.settings.values import Sampling


@dataclass(frozen=True)
class ReplyRequest:
    """A client's request.

    `messages` begin with the system prompt, if any, and end with a user message or a tool result. `beginning`
    is the start of the reply, which the model continues. `tools` are in the format of chat templates,
    `{"type": "function", "function": {"name", "description", "parameters"}}`. A `prompt` replaces both and is
    continued without a template. `images` are those that messages name by hash; the hashes `brought` belong
    to the last message. `sampling` has only the request's own settings; the server and the model supply the
    rest. `think` and `effort` None leave the template's default; `arguments` are further template variables.
    Each token comes with the `top_logprobs` likeliest tokens; None means no logprobs at all. `answer`
    constrains the answer; None leaves it free. With `one_call`, the reply ends after its first call. The
    reply is kept as `response_id`. `messages` follow those up to the response `previous`, if given. With
    `count_only` nothing is run: `ReplyDone` has the number of the prompt's tokens. Nothing of a `private`
    request goes to disk or into the log.
    """

    messages: tuple[Message, ...] = ()
    beginning: Message | None = None
    prompt: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    images: tuple[Image, ...] = ()
    brought: tuple[str, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    think: bool | None = None
    effort: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    top_logprobs: int | None = None
    answer: AnswerForm | None = None
    one_call: bool = False
    response_id: str | None = None
    previous: str | None = None
    count_only: bool = False
    private: bool = False


@dataclass(frozen=True)
class CallsMade:
    """The model wrote tool calls, each with a unique id."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class TokenLogprob:
    """A generated token, its text and logprob, and the likeliest tokens in its place.

    It precedes the deltas that contain the token's text. If a token is part of a character, its bytes are
    surrogates (`chat_format/token_bytes.py`).
    """

    id: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()


@dataclass(frozen=True)
class ReplyDone:
    """The reply has ended. `record.finish_reason` is "stop", "length" or "cancelled".

    `stop_text` is the stop sequence that ended it, if one did.
    """

    record: TurnRecord
    calls: tuple[ToolCall, ...] = ()
    stop_text: str | None = None


def not_shown(kind: str) -> str:
    """The note that replaces a part of a message that the model cannot see."""
    return f"[{kind}: not shown to this model]"


# A reply's events in order: one match, progress, deltas, the end.
ReplyEvent = (
    PrefixMatched | PrefillProgress | TokenLogprob | ThinkingDelta | TextDelta | CallsMade | ReplyDone
)
# Receives a request's events on the engine's thread. The last one is a `ReplyDone` or an error.
Deliver = Callable[[ReplyEvent | ChatcliError], None]
